//! Admission against random duplicates, reorder, gaps, stale and jumping epochs: whatever arrives, each chain stays one chain.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
};

use bytes::Bytes;
use coppice_messages::{
    Commit, Digest, Event, Header,
    event::run::{self, ClaimReason},
    ids::{RunId, TenantId},
};
use coppice_store::admission::{Head, Outcome, Reason, Stored, View, admit};
use proptest::prelude::*;

use crate::support::{Chain, encode, hash, step_event};

/// The log as admission sees it.
#[derive(Default)]
struct Memory {
    heads: HashMap<(TenantId, RunId), Head>,
    stored: BTreeMap<(TenantId, RunId, u64), (Stored, Bytes)>,
    pos: u64,
}

impl View for Memory {
    type Error = Infallible;

    fn head(&mut self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, Infallible> {
        Ok(self.heads.get(&(tenant.clone(), run.clone())).cloned())
    }

    fn holding(
        &mut self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, Infallible> {
        let from = (tenant.clone(), run.clone(), 0);
        let to = (tenant.clone(), run.clone(), seq);
        Ok(self
            .stored
            .range(from..=to)
            .next_back()
            .map(|(_, (stored, _))| stored.clone())
            .filter(|s| seq < s.seq + s.kinds.len() as u64))
    }
}

impl Memory {
    /// Judges a commit and keeps it when it is admitted.
    fn offer(&mut self, commit: &Commit) -> Outcome {
        let bytes = encode(commit);
        let header = Header::decode(&bytes).expect("a header");
        let Ok(outcome) = admit(self, &commit.tenant, &bytes, hash(commit), &header);
        if let Outcome::Admitted(head) = &outcome {
            self.pos += 1;
            let stored = Stored {
                pos: self.pos,
                hash: head.hash,
                seq: head.seq,
                kinds: header.events.iter().map(|e| e.kind.clone()).collect(),
            };
            let key = (commit.tenant.clone(), commit.run.clone());
            let place = (key.0.clone(), key.1.clone(), commit.seq);
            let taken = self.stored.insert(place, (stored, bytes));
            assert!(taken.is_none(), "two commits at {}", commit.seq);
            self.heads.insert(key, head.clone());
        }
        outcome
    }

    /// Everything stored is one chain a run: numbers without gaps, each citing the one before, epochs rising by claims only.
    fn assert_chains(&self) {
        let mut ends: HashMap<RunId, (u64, Digest, u64)> = HashMap::new();
        for (_, bytes) in self.stored.values() {
            let commit = Commit::decode(bytes).expect("a commit");
            let (seq, prev, epoch) = ends
                .get(&commit.run)
                .copied()
                .unwrap_or((1, Digest::ZERO, 1));
            let claims = matches!(commit.events[0].event, Event::Run(run::Event::Claimed(_)));
            assert_eq!((commit.seq, commit.prev), (seq, prev), "{commit:?}");
            assert_eq!(commit.epoch, epoch + u64::from(claims), "{commit:?}");
            ends.insert(
                commit.run.clone(),
                (commit.next_seq(), Digest::of(bytes), commit.epoch),
            );
        }
    }
}

fn claim() -> Event {
    Event::Run(run::Event::Claimed(run::Claimed {
        owner: "h".parse().expect("a host"),
        why: ClaimReason::Restart,
    }))
}

/// What the owner of a chain, or somebody who thinks to be, does next.
#[derive(Debug, Clone)]
enum Write {
    /// One more commit of so many events.
    Step(usize),
    /// The epoch is raised; who had it before goes on as if nothing had happened.
    Claim,
    /// The epoch is raised by two.
    Jump,
    /// A claim in the same epoch.
    IdleClaim,
    /// A commit of who was replaced.
    Stale,
    /// Another commit with the number of the last one.
    Fork,
    /// A commit with a predecessor that is not its.
    Unchained,
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        8 => (1usize..4).prop_map(Write::Step),
        2 => Just(Write::Claim),
        1 => Just(Write::Jump),
        1 => Just(Write::IdleClaim),
        1 => Just(Write::Stale),
        1 => Just(Write::Fork),
        1 => Just(Write::Unchained),
    ]
}

/// Who wrote a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// The owner of the run at that time.
    Owner,
    /// Somebody whose commit is as good as the owner's when it comes first.
    Rival,
    /// Somebody whose commit is never good.
    Nobody,
}

/// The commits of two runs, and who wrote them.
fn written(writes: &[(bool, Write)]) -> Vec<(Commit, Writer)> {
    let mut chains = [Chain::new("a"), Chain::new("b")];
    let mut replaced = chains.clone();
    let mut all = Vec::new();
    for (second, write) in writes {
        let chain = &mut chains[usize::from(*second)];
        let old = &mut replaced[usize::from(*second)];
        let mut aside = chain.clone();
        all.push(match write {
            Write::Step(events) => (chain.commit(vec![step_event(); *events]), Writer::Owner),
            Write::Claim if chain.seq > 1 => {
                *old = chain.clone();
                chain.epoch += 1;
                let events = vec![claim(), step_event()];
                (chain.commit(events), Writer::Owner)
            }
            Write::Claim | Write::IdleClaim => (aside.commit(vec![claim()]), Writer::Nobody),
            Write::Jump => {
                aside.epoch += 2;
                (aside.commit(vec![claim()]), Writer::Nobody)
            }
            Write::Unchained => {
                aside.prev = Digest([9; 32]);
                (aside.commit(vec![step_event()]), Writer::Nobody)
            }
            Write::Stale => {
                let events = vec![step_event(); 5];
                (old.clone().commit(events), Writer::Rival)
            }
            Write::Fork => {
                aside.seq = aside.seq.saturating_sub(1).max(1);
                let events = vec![step_event(), claim()];
                (aside.commit(events), Writer::Rival)
            }
        });
    }
    all
}

proptest! {
    // A failure prints its input; files of old ones would be kept for nobody.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_arrives_each_run_keeps_one_chain_and_repetitions_change_nothing(
        writes in prop::collection::vec((any::<bool>(), write()), 1..40),
        arrivals in prop::collection::vec(any::<prop::sample::Index>(), 0..150),
    ) {
        let written = written(&writes);
        let mut log = Memory::default();
        for at in arrivals {
            let (commit, writer) = &written[at.index(written.len())];
            let place = (commit.tenant.clone(), commit.run.clone(), commit.seq);
            let known = log.stored.get(&place).cloned();
            let outcome = log.offer(commit);
            match known {
                Some((stored, bytes)) if bytes == encode(commit) => {
                    prop_assert_eq!(outcome, Outcome::Duplicate { pos: stored.pos });
                }
                _ => match outcome {
                    Outcome::Admitted(_) => prop_assert_ne!(*writer, Writer::Nobody),
                    Outcome::Quarantined(_) => {}
                    other => prop_assert!(false, "{:?} for {:?}", other, commit),
                },
            }
            log.assert_chains();
        }
        // Without rivals the owners' commits, sent again in order, are all admitted: nothing that came before stands in their way.
        if written.iter().all(|(_, writer)| *writer != Writer::Rival) {
            for (commit, _) in written.iter().filter(|(_, w)| *w == Writer::Owner) {
                let outcome = log.offer(commit);
                prop_assert!(
                    matches!(outcome, Outcome::Admitted(_) | Outcome::Duplicate { .. }),
                    "{:?} for {:?}", outcome, commit
                );
            }
            log.assert_chains();
        }
    }
}

/// A commit that does not extend its chain is refused for this reason.
#[track_caller]
fn check(log: &mut Memory, commit: &Commit, reason: Reason) {
    assert_eq!(log.offer(commit), Outcome::Quarantined(reason));
}

fn begun() -> (Memory, Chain) {
    let mut log = Memory::default();
    let mut chain = Chain::new("a");
    assert!(matches!(log.offer(&chain.step()), Outcome::Admitted(_)));
    (log, chain)
}

#[test]
fn a_commit_that_leaves_a_gap_is_refused_with_the_number_that_would_be_next() {
    let (mut log, mut chain) = begun();
    chain.step();
    let reason = Reason::Gap {
        expected: 2,
        found: 3,
    };
    check(&mut log, &chain.step(), reason);
}

#[test]
fn a_commit_of_a_replaced_owner_is_refused_for_its_epoch() {
    let (mut log, mut chain) = begun();
    let mut replaced = chain.clone();
    chain.epoch = 2;
    assert!(matches!(
        log.offer(&chain.commit(vec![claim()])),
        Outcome::Admitted(_)
    ));
    let reason = Reason::StaleEpoch {
        current: 2,
        found: 1,
    };
    check(&mut log, &replaced.step(), reason);
}

#[test]
fn the_epoch_rises_by_one_and_only_with_a_claim() {
    let (mut log, chain) = begun();
    let with = |epoch, events| {
        let mut chain = chain.clone();
        chain.epoch = epoch;
        chain.commit(events)
    };
    let jump = |found| Reason::EpochJump { current: 1, found };
    check(&mut log, &with(2, vec![step_event()]), jump(2));
    check(&mut log, &with(3, vec![claim()]), jump(3));
    check(&mut log, &with(2, vec![step_event(), claim()]), jump(2));
    check(&mut log, &with(1, vec![claim()]), Reason::IdleClaim);
}

#[test]
fn a_child_begins_only_with_a_delegation_that_is_in_the_log() {
    let (mut log, parent) = begun();
    let mut child = Chain::new("child");
    child.tree = parent.tree.clone();
    let mut first = child.step();
    first.parent = Some(coppice_messages::ParentRef {
        run: parent.run.clone(),
        seq: 1,
        commit: parent.prev,
    });
    // The cited commit is there, but it delegated nobody.
    check(&mut log, &first, Reason::UnknownParent);
    first.parent = None;
    check(&mut log, &first, Reason::OtherTree);
}

#[test]
fn a_system_chain_has_no_claims_and_the_hosts_tenant_has_no_runs() {
    let mut log = Memory::default();
    let mut system = Chain {
        run: RunId::system(),
        tree: coppice_messages::ids::TreeId::of_root(&RunId::system()),
        ..Chain::new("a")
    };
    check(
        &mut log,
        &system.clone().commit(vec![claim()]),
        Reason::SystemChain,
    );
    assert!(matches!(log.offer(&system.step()), Outcome::Admitted(_)));
    let mut run = Chain {
        tenant: TenantId::host(),
        ..Chain::new("a")
    };
    check(&mut log, &run.step(), Reason::SystemChain);
}

#[test]
fn a_commit_of_a_newer_format_stops_reading() {
    let (mut log, mut chain) = begun();
    let commit = chain.step();
    let bytes = encode(&commit);
    let mut header = Header::decode(&bytes).expect("a header");
    header.v = 2;
    let Ok(outcome) = admit(&mut log, &commit.tenant, &bytes, hash(&commit), &header);
    assert_eq!(outcome, Outcome::Stop { format: 2 });
}
