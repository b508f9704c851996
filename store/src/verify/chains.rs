//! Walking chains commit by commit, in the order of tenants, runs and numbers.

use coppice_messages::{
    Commit, Digest,
    ids::{RunId, TenantId},
};

use super::{Damage, Fault, Verified};
use crate::log::Recorded;

/// Walks every chain of a log.
#[derive(Default)]
pub(crate) struct ChainWalk {
    under_way: Option<Walk>,
}

impl ChainWalk {
    /// The next commit.
    pub fn take(
        &mut self,
        (tenant, run): (TenantId, RunId),
        recorded: &Recorded,
        found: &mut Verified,
    ) {
        let same = |w: &Walk| (&w.tenant, &w.run) == (&tenant, &run);
        if !self.under_way.as_ref().is_some_and(same) {
            self.under_way = None;
            found.chains += 1;
        }
        let walk = self.under_way.get_or_insert(Walk {
            tenant,
            run,
            next_seq: 1,
            epoch: 1,
            hash: Digest::ZERO,
        });
        let (events, damage) = walk.step(recorded);
        found.commits += 1;
        found.events += events;
        found
            .faults
            .extend(damage.map(|damage| walk.fault(Some(recorded), damage)));
    }
}

/// The chain that is being walked.
struct Walk {
    tenant: TenantId,
    run: RunId,
    next_seq: u64,
    epoch: u64,
    hash: Digest,
}

impl Walk {
    fn fault(&self, commit: Option<&Recorded>, damage: Damage) -> Fault {
        Fault {
            tenant: Some(self.tenant.clone()),
            run: Some(self.run.clone()),
            seq: commit.map(|c| c.seq),
            pos: commit.map(|c| c.pos),
            damage,
        }
    }

    /// One commit further; what is wrong with it.
    fn step(&mut self, recorded: &Recorded) -> (u64, Option<Damage>) {
        // What the next commit cites is what was recorded; so an altered commit is one fault and not two.
        let before = std::mem::replace(&mut self.hash, recorded.hash);
        let altered = Digest::of(&recorded.bytes) != recorded.hash;
        let expected = self.next_seq;
        let Ok(commit) = Commit::decode(&recorded.bytes) else {
            // How many events it had is not known: the next commit is taken at its word.
            self.next_seq = 0;
            let damage = if altered {
                Damage::Altered
            } else {
                Damage::Undecodable
            };
            return (0, Some(damage));
        };
        self.next_seq = commit.next_seq();
        let epoch = std::mem::replace(&mut self.epoch, commit.epoch);
        let damage = if altered {
            Some(Damage::Altered)
        } else if (&commit.tenant, &commit.run, commit.seq)
            != (&self.tenant, &self.run, recorded.seq)
        {
            Some(Damage::OtherPlace)
        } else if expected != 0 && commit.seq != expected {
            Some(Damage::Missing { expected })
        } else if commit.prev != before {
            Some(Damage::BrokenChain)
        } else if !(epoch..=epoch + 1).contains(&commit.epoch) {
            Some(Damage::Epoch)
        } else {
            None
        };
        (commit.events.len() as u64, damage)
    }
}
