//! Admission: whether a commit extends its run's chain. Pure; reads commit fields and event kinds only, never a body, a clock or the disk.
//!
//! Whatever the bus did (twice, late, out of order, from a stale owner), the log admits only the next commit of a chain in the current epoch.

use std::{borrow::Cow, fmt};

use coppice_messages::{
    Digest, Header,
    commit::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, FORMAT},
    ids::{RunId, TenantId, TreeId},
};
use serde::{Deserialize, Serialize};

/// The kind that raises the epoch.
const CLAIM: &str = "run.claimed";
/// The kind that a first commit with a parent cites.
const DELEGATION: &str = "child.delegated";

/// The end of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The tree that the run belongs to.
    pub tree: TreeId,
    /// Number of the first event of its last commit.
    pub seq: u64,
    /// Number that the next commit must have.
    pub next_seq: u64,
    /// The current epoch.
    pub epoch: u64,
    /// SHA-256 of the last commit's bytes.
    pub hash: Digest,
    /// Position of the last commit in the log.
    pub pos: u64,
}

/// A commit that is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its position.
    pub pos: u64,
    /// SHA-256 of its bytes.
    pub hash: Digest,
    /// Number of its first event.
    pub seq: u64,
    /// The kinds of its events.
    pub kinds: Vec<Cow<'static, str>>,
}

impl Stored {
    /// Whether it holds the event with this number of its run.
    #[must_use]
    pub fn holds(&self, seq: u64) -> bool {
        (self.seq..self.seq + self.kinds.len() as u64).contains(&seq)
    }
}

/// What admission may ask about the log.
pub trait View {
    /// Why a question may stay without an answer.
    type Error;
    /// The end of a run's chain.
    ///
    /// # Errors
    /// The log cannot be read.
    fn head(&mut self, tenant: &TenantId, run: &RunId) -> Result<Option<Head>, Self::Error>;
    /// The commit of a run that holds event number `seq`.
    ///
    /// # Errors
    /// The log cannot be read.
    fn holding(
        &mut self,
        tenant: &TenantId,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<Stored>, Self::Error>;
}

/// What becomes of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It extends its chain, whose head is now this (its position is still to be given).
    Admitted(Head),
    /// The same bytes are in the log at this position.
    Duplicate {
        /// Where.
        pos: u64,
    },
    /// A newer build wrote it: nothing after it may be read by this one.
    Stop {
        /// Its format.
        format: u16,
    },
    /// It is refused, and kept aside.
    Quarantined(Reason),
}

/// Why a commit is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The bytes are not a commit.
    Malformed,
    /// Larger than a commit may be.
    TooLarge,
    /// No event, or more than a commit may have.
    EventCount,
    /// Sent on another tenant's subject.
    OtherTenant,
    /// Not the tree that the chain, the parent or the run itself says.
    OtherTree,
    /// Commits before it are missing.
    Gap {
        /// The number that would have been next.
        expected: u64,
        /// The number that it has.
        found: u64,
    },
    /// Another commit has this number.
    Taken {
        /// The number.
        seq: u64,
    },
    /// Its predecessor is not the chain's last commit.
    OtherPredecessor,
    /// It comes from an owner that was replaced.
    StaleEpoch {
        /// The chain's epoch.
        current: u64,
        /// Its own.
        found: u64,
    },
    /// Its epoch does not follow from the chain's.
    EpochJump {
        /// The chain's epoch.
        current: u64,
        /// Its own.
        found: u64,
    },
    /// A claim that does not raise the epoch.
    IdleClaim,
    /// A parent in a commit that is not the first.
    LateParent,
    /// The parent's commit that it cites is not in the log, or did not delegate a child there.
    UnknownParent,
    /// A system chain has no parent, no claim and no run of its own.
    SystemChain,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("its bytes are not a commit"),
            Self::TooLarge => write!(f, "it is larger than {COMMIT_BYTES_MAX} bytes"),
            Self::EventCount => write!(f, "it must have 1 to {COMMIT_EVENTS_MAX} events"),
            Self::OtherTenant => f.write_str("it was sent on another tenant's subject"),
            Self::OtherTree => f.write_str("it names another tree than its chain"),
            Self::Gap { expected, found } => {
                write!(f, "event {expected} would be next, it begins with {found}")
            }
            Self::Taken { seq } => write!(f, "another commit holds event {seq}"),
            Self::OtherPredecessor => f.write_str("its predecessor is not the chain's last commit"),
            Self::StaleEpoch { current, found } => {
                write!(f, "its epoch {found} was replaced by {current}")
            }
            Self::EpochJump { current, found } => {
                write!(f, "its epoch {found} does not follow from {current}")
            }
            Self::IdleClaim => f.write_str("it claims the run without raising the epoch"),
            Self::LateParent => f.write_str("only a first commit has a parent"),
            Self::UnknownParent => f.write_str("the delegation that it cites is not in the log"),
            Self::SystemChain => f.write_str("it breaks the rules of a system chain"),
        }
    }
}

/// Judges one commit, in stream order.
///
/// # Errors
/// Only those of the view.
pub fn admit<V: View>(
    view: &mut V,
    subject_tenant: &TenantId,
    bytes: &[u8],
    hash: Digest,
    header: &Header,
) -> Result<Outcome, V::Error> {
    if header.v > FORMAT {
        return Ok(Outcome::Stop { format: header.v });
    }
    if let Err(reason) = check_alone(subject_tenant, bytes, header) {
        return Ok(Outcome::Quarantined(reason));
    }
    let head = view.head(&header.tenant, &header.run)?;
    if let Some(head) = &head
        && header.seq < head.next_seq
    {
        return judge_repetition(view, hash, header, head);
    }
    if let Err(reason) = check_extends(header, head.as_ref()) {
        return Ok(Outcome::Quarantined(reason));
    }
    if let Some(parent) = &header.parent {
        let stored = view.holding(&header.tenant, &parent.run, parent.seq)?;
        let cited = stored.filter(|s| s.hash == parent.commit && delegates(s, parent.seq));
        let same_tree = view
            .head(&header.tenant, &parent.run)?
            .is_some_and(|head| head.tree == header.tree);
        if cited.is_none() {
            return Ok(Outcome::Quarantined(Reason::UnknownParent));
        }
        if !same_tree {
            return Ok(Outcome::Quarantined(Reason::OtherTree));
        }
    }
    Ok(Outcome::Admitted(Head {
        tree: header.tree.clone(),
        seq: header.seq,
        next_seq: header.next_seq(),
        epoch: header.epoch,
        hash,
        pos: 0,
    }))
}

/// Rules that need nothing but the commit.
fn check_alone(subject_tenant: &TenantId, bytes: &[u8], header: &Header) -> Result<(), Reason> {
    if bytes.len() > COMMIT_BYTES_MAX {
        return Err(Reason::TooLarge);
    }
    if header.events.is_empty() || header.events.len() > COMMIT_EVENTS_MAX {
        return Err(Reason::EventCount);
    }
    if header.tenant != *subject_tenant {
        return Err(Reason::OtherTenant);
    }
    if header.parent.is_some() && header.seq != 1 {
        return Err(Reason::LateParent);
    }
    let system = header.run.is_system();
    if system != (header.tree == TreeId::of_root(&RunId::system()))
        || header.tenant == TenantId::host() && !system
        || system && (header.parent.is_some() || header.events.iter().any(|e| e.kind == CLAIM))
    {
        return Err(Reason::SystemChain);
    }
    // A run without a parent is the root of its own tree; one with a parent is not.
    if header.seq == 1 && header.parent.is_none() != (header.tree.root() == header.run) {
        return Err(Reason::OtherTree);
    }
    Ok(())
}

/// A number that the chain already has: the same commit again, or a contradiction.
fn judge_repetition<V: View>(
    view: &mut V,
    hash: Digest,
    header: &Header,
    head: &Head,
) -> Result<Outcome, V::Error> {
    if let Some(stored) = view.holding(&header.tenant, &header.run, header.seq)?
        && stored.hash == hash
    {
        return Ok(Outcome::Duplicate { pos: stored.pos });
    }
    Ok(Outcome::Quarantined(if header.epoch < head.epoch {
        Reason::StaleEpoch {
            current: head.epoch,
            found: header.epoch,
        }
    } else {
        Reason::Taken { seq: header.seq }
    }))
}

/// Number, predecessor and epoch against the end of the chain.
fn check_extends(header: &Header, head: Option<&Head>) -> Result<(), Reason> {
    let claims = header.events.first().is_some_and(|e| e.kind == CLAIM);
    let Some(head) = head else {
        return match header {
            Header { seq, .. } if *seq != 1 => Err(Reason::Gap {
                expected: 1,
                found: *seq,
            }),
            Header { prev, .. } if *prev != Digest::ZERO => Err(Reason::OtherPredecessor),
            Header { epoch, .. } if *epoch != 1 => Err(Reason::EpochJump {
                current: 1,
                found: *epoch,
            }),
            _ if claims => Err(Reason::IdleClaim),
            _ => Ok(()),
        };
    };
    if header.epoch < head.epoch {
        return Err(Reason::StaleEpoch {
            current: head.epoch,
            found: header.epoch,
        });
    }
    if header.seq != head.next_seq {
        return Err(Reason::Gap {
            expected: head.next_seq,
            found: header.seq,
        });
    }
    if header.prev != head.hash {
        return Err(Reason::OtherPredecessor);
    }
    if header.tree != head.tree {
        return Err(Reason::OtherTree);
    }
    match header.epoch - head.epoch {
        0 if claims => Err(Reason::IdleClaim),
        0 => Ok(()),
        1 if claims => Ok(()),
        _ => Err(Reason::EpochJump {
            current: head.epoch,
            found: header.epoch,
        }),
    }
}

/// Whether event number `seq` of a stored commit delegated a child.
fn delegates(stored: &Stored, seq: u64) -> bool {
    seq.checked_sub(stored.seq)
        .and_then(|index| stored.kinds.get(usize::try_from(index).ok()?))
        .is_some_and(|kind| kind == DELEGATION)
}
