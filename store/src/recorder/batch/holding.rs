//! Who holds an idempotency key: the first run that intended a write under it.

use coppice_messages::{
    Commit, Event, Operation,
    event::effect,
    ids::{EffectKey, RunId, TenantId},
};

use super::Batch;
use crate::{
    log::{commits, keys, meta, rows},
    open_effects::{Held, Holder},
    recorder::Halt,
};

impl Batch<'_> {
    /// Each write has its key from here on, unless another run has it already.
    pub(super) fn hold_keys(&mut self, commit: &Commit) -> Result<(), Halt> {
        for entry in &commit.events {
            let Event::Effect(effect::Event::Intended(intended)) = &entry.event else {
                continue;
            };
            if intended.operation == Operation::Read {
                continue;
            }
            let place = (commit.tenant.clone(), intended.key);
            let holder = match self.holders.get(&place) {
                Some(holder) => Some(holder.clone()),
                None => keys::get(&self.view.tables.keys, &place.0, &place.1)?,
            };
            match holder {
                Some(holder) if holder == commit.run => {}
                // Found out not to have happened, and whoever held it will not try again.
                Some(holder)
                    if intended.attempt > 1 && self.has_ended(&commit.tenant, &holder)? =>
                {
                    self.give_key(place, &commit.run);
                }
                Some(holder) => {
                    let run = (commit.tenant.clone(), commit.run.clone());
                    self.done.held.push(Held {
                        run,
                        key: intended.key,
                        holder: Holder::Run(holder),
                    });
                }
                None => {
                    if intended.attempt == 1 && self.is_of_a_lost_log(commit)? {
                        self.done.held.push(Held {
                            run: (commit.tenant.clone(), commit.run.clone()),
                            key: intended.key,
                            holder: Holder::LostLog,
                        });
                    }
                    self.give_key(place, &commit.run);
                }
            }
        }
        Ok(())
    }

    /// Whether the tree of a commit goes on from an older copy of its log, so that its writes may have been done already.
    fn is_of_a_lost_log(&self, commit: &Commit) -> Result<bool, Halt> {
        let tables = self.view.tables;
        let Some(restored) = meta::restored(&tables.meta)? else {
            return Ok(false);
        };
        let root = commit.tree.root();
        let opened = commits::at_or_before(&tables.commits, &commit.tenant, &root, 1)?;
        Ok(opened.is_some_and(|opened| opened.pos <= restored))
    }

    fn give_key(&mut self, place: (TenantId, EffectKey), run: &RunId) {
        keys::put(
            &mut self.done.write,
            &self.view.tables.keys,
            (&place.0, &place.1),
            run,
        );
        self.holders.insert(place, run.clone());
    }

    fn has_ended(&self, tenant: &TenantId, run: &RunId) -> Result<bool, Halt> {
        let row = match self.rows.get(&(tenant.clone(), run.clone())) {
            Some(row) => Some(row.clone()),
            None => rows::get(&self.view.tables.rows, tenant, run)?,
        };
        Ok(row.is_some_and(|row| row.ended.is_some()))
    }
}
