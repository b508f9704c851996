//! What a run can be told. Facts of the shell (answers, outcomes, schema checks) come in here as data.

use coppice_messages::{
    Cause, Digest, Millis, Payload, Spent,
    event::{
        callback::{Received, Signal},
        effect::{Receipt, ResultCheck, Source},
        model::Proposal,
        run::{CancelRequested, CancelSettled, Opened, Reason},
    },
    ids::{EffectKey, NodeName, RunId, SchemaName},
};

use crate::governor::Judged;

/// What a run is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Begin, with this envelope and input.
    Open(Box<Opened>, Option<Cause>),
    /// A model call came to an end.
    Model {
        /// The agent node.
        node: NodeName,
        /// Which call.
        call: u32,
        /// How.
        outcome: ModelOutcome,
    },
    /// An effect's outcome is known, or known to be unknown.
    Effect {
        /// Which effect.
        key: EffectKey,
        /// Which attempt.
        attempt: u32,
        /// How.
        outcome: EffectOutcome,
    },
    /// The postcondition of an effect was looked at.
    Probed {
        /// Which effect.
        key: EffectKey,
        /// What was seen.
        seen: ProbeOutcome,
    },
    /// A check of success was made.
    Check {
        /// The end node.
        node: NodeName,
        /// Which of its checks.
        check: CheckId,
        /// What was seen.
        seen: CheckOutcome,
    },
    /// A child ended.
    ChildEnded(Box<ChildEnd>),
    /// A child's actor died, or could not be started.
    ChildCrashed {
        /// Which child.
        child: RunId,
        /// Panic message, or "killed".
        why: String,
    },
    /// Stop, and everything below; repeating it changes nothing.
    Cancel(CancelRequested),
    /// What became of everything below the cancel, read from the log once all of it is quiet.
    Receipt(Box<CancelSettled>),
    /// Something that a wait may be for.
    Signal(Signal),
    /// A callback about an operation.
    Callback(Received),
    /// Time moved on, or there is room again.
    Tick,
    /// Stop for good: the supervisor will not start this run again.
    GiveUp {
        /// The limit that was passed.
        why: String,
    },
}

/// How a model call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelOutcome {
    /// It answered.
    Proposed {
        /// With this.
        proposal: Proposal,
        /// An answer was held against the agent's result schema: path and reason when it does not meet it.
        answer_valid: Result<(), (String, String)>,
        /// What it used.
        usage: Spent,
        /// From sending to the whole answer.
        latency: Millis,
    },
    /// It did not.
    Failed {
        /// Open set.
        class: String,
        /// One sentence for people.
        message: String,
        /// What it used all the same.
        usage: Spent,
    },
}

/// How an effect turned out: happened, did not, unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectOutcome {
    /// It happened.
    Landed {
        /// Proof.
        receipt: Receipt,
        /// Whether the result can be used.
        result: ResultCheck,
        /// The result.
        value: Payload,
        /// What it used.
        usage: Spent,
    },
    /// The outside said no.
    Declined {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
        /// What it used.
        usage: Spent,
    },
    /// The outside refused for now and did nothing.
    Retryable {
        /// Its code.
        code: String,
        /// How long it asks to wait.
        retry_after: Option<Millis>,
        /// What it used.
        usage: Spent,
    },
    /// Provably no byte left.
    NotSent {
        /// Why.
        why: String,
    },
    /// No byte left, because there was no place among the calls of its tool in time.
    NoPlace {
        /// What was full.
        why: String,
    },
    /// The check at the moment of use failed; nothing was sent.
    Withdrawn {
        /// Which check.
        why: String,
    },
    /// The policy set does not let it happen any more; nothing was sent.
    Denied(Box<Judged>),
    /// Nobody knows.
    Unknown {
        /// What was seen.
        why: String,
    },
    /// A doubt is resolved.
    Reconciled {
        /// Proof, usability and result; none when it did not happen.
        landed: Option<Proven>,
        /// How it was found out.
        source: Source,
    },
    /// A doubt that looking up cannot resolve.
    Unresolvable {
        /// Why.
        why: String,
    },
}

/// What is known of an effect that happened: proof, usability, result.
pub type Proven = (Receipt, ResultCheck, Payload);

impl EffectOutcome {
    /// What the answer of the request itself settles about a doubt: that it happened, with its proof, or (inner none) that it did not. A
    /// refusal "for now" settles nothing: the tool may have done it all the same and rely on the key.
    #[must_use]
    pub fn settles(self) -> Option<Option<Proven>> {
        match self {
            Self::Landed {
                receipt,
                result,
                value,
                ..
            } => Some(Some((receipt, result, value))),
            Self::Declined { .. }
            | Self::NotSent { .. }
            | Self::NoPlace { .. }
            | Self::Withdrawn { .. }
            | Self::Denied(_) => Some(None),
            Self::Retryable { .. }
            | Self::Unknown { .. }
            | Self::Reconciled { .. }
            | Self::Unresolvable { .. } => None,
        }
    }
}

/// What the postcondition of an effect showed.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeOutcome {
    /// The world shows it: what was read.
    Holds(Payload),
    /// It does not, and it had the time to.
    Contradicted {
        /// What the postcondition wants.
        expected: String,
        /// What was seen.
        seen: String,
    },
    /// It cannot be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// Which check of an end node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckId {
    /// The answer meets the result schema.
    Schema,
    /// The evidence at this place of the list.
    Evidence(u32),
}

impl std::fmt::Display for CheckId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Schema => f.write_str("schema"),
            Self::Evidence(at) => write!(f, "evidence[{at}]"),
        }
    }
}

/// What a check saw.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckOutcome {
    /// The answer of the read tool.
    Read(Payload),
    /// The result schema is met.
    SchemaMet(Digest),
    /// It is not.
    SchemaBroken {
        /// Where and how.
        why: String,
    },
    /// The read tool refused for good.
    Unreadable {
        /// Its words.
        why: String,
    },
}

/// How a child ended, as its chain says, and whether its answer meets the parent's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEnd {
    /// Which child.
    pub child: RunId,
    /// How it ended; none when its chain can neither be read nor extended.
    pub end: Option<ChildEndFacts>,
}

/// From the child's `run.ended`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEndFacts {
    /// Which of the seven.
    pub reason: Reason,
    /// The class.
    pub class: Option<String>,
    /// Its answer.
    pub answer: Option<Payload>,
    /// What it used.
    pub usage: Spent,
    /// Digest of its last commit.
    pub commit: Digest,
    /// The parent's check of the answer: schema and reason when it is not met.
    pub answer_valid: Result<(), (SchemaName, String)>,
}

/// Why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run exists.
    #[error("the run is open already")]
    AlreadyOpened,
    /// The run does not exist.
    #[error("the run is not open yet")]
    NotOpened,
    /// The run is over.
    #[error("the run has ended ({0}): nothing further is accepted")]
    AlreadyEnded(Reason),
    /// The answer to a question that is not open.
    #[error("{0} is not open: this answer is late or belongs to another incarnation")]
    NotOpen(String),
    /// Too many signals wait.
    #[error(
        "the run has as many signals waiting as it may have: send again once it has taken some"
    )]
    TooManySignals,
    /// As many callbacks are recorded as may be.
    #[error("the run has recorded as many callbacks as it may: this one changes nothing")]
    TooManyCallbacks,
    /// The parent never delegated this child, or it is settled.
    #[error("{0} is not a live child of this run")]
    NotAChild(RunId),
}
