//! The cancel receipt: what became of every descendant, read from the log once all of it is quiet.

use std::collections::{BTreeMap, BTreeSet};

use coppice_messages::{
    Commit, Event, Payload, Spent, Timestamp, Value,
    event::{
        child,
        effect::{self, ReconciledOutcome},
        run::{self, CancelSettled},
    },
    ids::{EffectKey, RunId},
};
use coppice_store::{
    LogReader, ReadError,
    log::{Row, RowFilter},
};

use crate::services::Key;

/// What one chain says about a cancel.
#[derive(Default)]
struct Chain {
    cancelled: bool,
    ended_at: Option<Timestamp>,
    given_up: BTreeSet<RunId>,
    unreachable: BTreeSet<RunId>,
    returned: BTreeSet<RunId>,
    landed: u32,
    not_sent: u32,
    in_doubt: BTreeSet<EffectKey>,
    spent: Spent,
}

/// Reads the receipt of a cancel that was recorded in `key`'s chain at `since`; of a large tree the list of descendants is a blob, to be stored first.
///
/// # Errors
/// The log cannot be read.
pub(super) fn read(
    log: &LogReader,
    key: &Key,
    since: Timestamp,
) -> Result<(CancelSettled, Option<Vec<u8>>), ReadError> {
    let root = log.row(&key.0, &key.1)?;
    let tree = root.as_ref().map(|row| row.tree.clone());
    let filter = RowFilter {
        tenant: Some(key.0.clone()),
        tree,
        state: None,
    };
    let below = root.map(|row| format!("{}/", row.path)).unwrap_or_default();
    let rows: Vec<Row> = log.rows(filter).collect::<Result<_, _>>()?;
    let own = Chain::read(log, key, since)?;
    let mut all = vec![own];
    let mut descendants = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.path.starts_with(&below)) {
        all.push(Chain::read(log, &(key.0.clone(), row.run.clone()), since)?);
        descendants.insert(row.run, (row.path, all.len() - 1));
    }
    let given_up: BTreeSet<&RunId> = all.iter().flat_map(|chain| &chain.given_up).collect();
    let unreachable: BTreeSet<&RunId> = all.iter().flat_map(|chain| &chain.unreachable).collect();
    let fate = |run: &RunId, chain: &Chain| {
        if unreachable.contains(run) {
            "unreachable"
        } else if given_up.contains(run) {
            "killed"
        } else if chain.cancelled {
            "acknowledged"
        } else {
            "ended_before"
        }
    };
    let fates: Vec<(&RunId, &str, &str)> = descendants
        .iter()
        .map(|(run, (path, at))| (run, path.as_str(), fate(run, &all[*at])))
        .collect();
    let count = |wanted: &str| {
        u32::try_from(fates.iter().filter(|(_, _, fate)| *fate == wanted).count())
            .unwrap_or(u32::MAX)
    };
    let spent = all
        .iter()
        .fold(Spent::default(), |sum, chain| sum.plus(&chain.spent));
    let quiet = all
        .iter()
        .filter_map(|chain| chain.ended_at)
        .max()
        .unwrap_or(since);
    let listed = fates.iter().map(|(run, path, fate)| {
        Value::map([
            ("run", Value::from(run.as_str())),
            ("path", Value::from(*path)),
            ("fate", Value::from(*fate)),
        ])
    });
    let (descendants, blob) = Payload::of(Value::List(listed.collect()));
    let receipt = CancelSettled {
        acknowledged: count("acknowledged"),
        killed: count("killed"),
        unreachable: count("unreachable"),
        ended_before: count("ended_before"),
        effects_landed: all.iter().map(|chain| chain.landed).sum(),
        effects_not_sent: all.iter().map(|chain| chain.not_sent).sum(),
        effects_in_doubt: u32::try_from(
            all.iter().map(|chain| chain.in_doubt.len()).sum::<usize>(),
        )
        .unwrap_or(u32::MAX),
        quiet_after: quiet.since(since),
        steps_after: spent.steps,
        tokens_after: spent.tokens,
        descendants,
    };
    Ok((receipt, blob))
}

impl Chain {
    fn read(log: &LogReader, key: &Key, since: Timestamp) -> Result<Self, ReadError> {
        let mut chain = Self::default();
        for recorded in log.chain(&key.0, &key.1) {
            let recorded = recorded?;
            let unreadable = |_| ReadError::Unreadable {
                what: "a commit of a cancelled tree",
            };
            let commit = Commit::decode(&recorded.bytes).map_err(unreadable)?;
            for entry in &commit.events {
                chain.take(&entry.event, commit.at, commit.at >= since);
            }
        }
        Ok(chain)
    }

    fn take(&mut self, event: &Event, at: Timestamp, after: bool) {
        match event {
            Event::Run(run::Event::CancelRequested(_)) => self.cancelled = true,
            Event::Run(run::Event::Ended(_)) => self.ended_at = Some(at),
            Event::Run(run::Event::Late(late)) => self.found_out(late.key, late.happened, after),
            Event::Child(child) => self.child(child),
            Event::Effect(effect) => self.effect(effect, after),
            Event::Model(coppice_messages::event::model::Event::Proposed(proposed)) if after => {
                self.spent = self.spent.plus(&proposed.usage);
            }
            _ => {}
        }
    }

    /// A doubt is over. What was found to have happened is counted as what landed; it must not vanish from the receipt.
    fn found_out(&mut self, key: EffectKey, happened: bool, after: bool) {
        self.in_doubt.remove(&key);
        if happened && after {
            self.landed += 1;
        }
    }

    fn child(&mut self, event: &child::Event) {
        match event {
            child::Event::GivenUp(given_up) => {
                self.given_up.insert(given_up.child.clone());
            }
            child::Event::Returned(returned) => {
                self.returned.insert(returned.child.clone());
            }
            // Settled without having returned, with its whole grant: nothing could be read of it.
            child::Event::Settled(settled)
                if !self.returned.contains(&settled.child) && !settled.charged.is_nothing() =>
            {
                self.unreachable.insert(settled.child.clone());
            }
            child::Event::Delegated(_)
            | child::Event::Crashed(_)
            | child::Event::Restarted(_)
            | child::Event::Rejected(_)
            | child::Event::Settled(_) => {}
        }
    }

    fn effect(&mut self, event: &effect::Event, after: bool) {
        match event {
            effect::Event::Unknown(unknown) => {
                self.in_doubt.insert(unknown.key);
            }
            effect::Event::Reconciled(reconciled) => {
                let happened = matches!(reconciled.outcome, ReconciledOutcome::Landed { .. });
                self.found_out(reconciled.key, happened, after);
            }
            effect::Event::Landed(landed) if after => {
                self.landed += 1;
                self.spent = self.spent.plus(&landed.usage);
            }
            effect::Event::NotSent(_) | effect::Event::Withdrawn(_) if after => self.not_sent += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_messages::{
        Digest,
        event::{
            effect::{Receipt, Reconciled, ResultCheck, Source, Unknown},
            run::Late,
        },
    };

    use super::*;

    /// What a receipt counts as landed and as in doubt, of an effect that was in doubt and of which this was found out.
    fn counted(found_out: Option<Event>) -> (u32, usize) {
        let unknown = Unknown {
            key: key(),
            attempt: 1,
            why: "no answer".to_owned(),
        };
        let mut chain = Chain::default();
        chain.take(
            &Event::Effect(effect::Event::Unknown(unknown)),
            Timestamp(1),
            true,
        );
        if let Some(event) = found_out {
            chain.take(&event, Timestamp(2), true);
        }
        (chain.landed, chain.in_doubt.len())
    }

    fn key() -> EffectKey {
        EffectKey(Digest::of(b"key"))
    }

    fn late(happened: bool) -> Option<Event> {
        let late = Late {
            key: key(),
            happened,
            value: None,
        };
        Some(Event::Run(run::Event::Late(late)))
    }

    fn reconciled(outcome: ReconciledOutcome) -> Option<Event> {
        let reconciled = Reconciled {
            key: key(),
            attempt: 1,
            outcome,
            source: Source::Lookup,
            usage: Spent::default(),
        };
        Some(Event::Effect(effect::Event::Reconciled(reconciled)))
    }

    #[test]
    fn a_doubt_that_is_found_out_before_the_receipt_is_counted_as_what_it_was() {
        let landed = ReconciledOutcome::Landed {
            receipt: Receipt {
                id: None,
                version: None,
                result: Digest::ZERO,
            },
            result: ResultCheck::Ok,
            value: Payload::Inline(Value::Null),
        };
        assert_eq!(counted(None), (0, 1));
        assert_eq!(counted(late(true)), (1, 0));
        assert_eq!(counted(late(false)), (0, 0));
        assert_eq!(counted(reconciled(landed)), (1, 0));
        assert_eq!(counted(reconciled(ReconciledOutcome::NotHappened)), (0, 0));
    }
}
