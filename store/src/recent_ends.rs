//! The commits with which runs ended a moment ago, so that whoever supervises one need not read and decode the end from the log again.
//!
//! In memory, bounded, and only a short cut: what is not here is in the log.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coppice_messages::{
    Commit, Digest,
    ids::{RunId, TenantId},
};

use crate::limits::RECENT_ENDS_MAX;

type Key = (TenantId, RunId);

/// A recorded commit that ends its run.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentEnd {
    /// The commit.
    pub commit: Arc<Commit>,
    /// SHA-256 of its bytes.
    pub hash: Digest,
}

/// Ends that nobody has asked for yet; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RecentEnds(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    ends: HashMap<Key, RecentEnd>,
    /// In the order of their arrival; some may have been taken since.
    order: VecDeque<Key>,
}

impl RecentEnds {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // After a panic an end may stand in one of the two only: it is then forgotten early or never taken, and the log has it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is recorded; the oldest goes when there are too many.
    pub fn record(&self, ends: impl IntoIterator<Item = RecentEnd>) {
        let mut kept = self.kept();
        for end in ends {
            let key = (end.commit.tenant.clone(), end.commit.run.clone());
            if kept.ends.insert(key.clone(), end).is_none() {
                kept.order.push_back(key);
            }
            while kept.order.len() > RECENT_ENDS_MAX {
                let oldest = kept.order.pop_front();
                oldest.and_then(|key| kept.ends.remove(&key));
            }
        }
    }

    /// The end of a run, once.
    pub fn take(&self, tenant: &TenantId, run: &RunId) -> Option<RecentEnd> {
        self.kept().ends.remove(&(tenant.clone(), run.clone()))
    }
}

#[cfg(test)]
mod tests {
    use coppice_messages::{Timestamp, commit::FORMAT, ids::TreeId};

    use super::*;

    fn end(nth: usize) -> RecentEnd {
        let run: RunId = format!("run-{nth}").parse().expect("an id");
        let commit = Commit {
            v: FORMAT,
            tenant: TenantId::default_tenant(),
            tree: TreeId::of_root(&run),
            run,
            seq: 1,
            epoch: 1,
            prev: Digest::ZERO,
            at: Timestamp(0),
            trace: String::new(),
            parent: None,
            events: Vec::new(),
        };
        RecentEnd {
            commit: Arc::new(commit),
            hash: Digest::of(&nth.to_be_bytes()),
        }
    }

    #[test]
    fn an_end_is_had_once_and_of_too_many_the_oldest_go() {
        let ends = RecentEnds::default();
        let take = |nth: usize| {
            let run = format!("run-{nth}").parse().expect("an id");
            ends.take(&TenantId::default_tenant(), &run)
        };
        ends.record((0..=RECENT_ENDS_MAX).map(end));
        assert_eq!(take(0), None);
        assert_eq!(take(1), Some(end(1)));
        assert_eq!(take(1), None);
        // What was taken and comes again is kept as any other, and the bound holds.
        ends.record((0..2 * RECENT_ENDS_MAX).map(end));
        assert_eq!(take(RECENT_ENDS_MAX - 1), None);
        assert_eq!(
            take(2 * RECENT_ENDS_MAX - 1),
            Some(end(2 * RECENT_ENDS_MAX - 1))
        );
        assert!(ends.kept().order.len() <= RECENT_ENDS_MAX);
    }
}
