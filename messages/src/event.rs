//! The catalogue of events (`spec/events.md`), nested by concept, so that a module of the kernel matches its own kinds only.
//!
//! Append-only: a kind is never renamed or given another meaning. The string kind exists in this file and on the wire, nowhere else.

pub mod budget;
pub mod callback;
pub mod check;
pub mod child;
pub mod effect;
pub mod join;
pub mod model;
pub mod node;
pub mod policy;
pub mod progress;
pub mod run;
pub mod system;
pub mod timer;

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, IgnoredAny},
};

/// One fact.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run as a whole.
    Run(run::Event),
    /// A node of its plan.
    Node(node::Event),
    /// A child.
    Child(child::Event),
    /// A join.
    Join(join::Event),
    /// A model call.
    Model(model::Event),
    /// An outside effect.
    Effect(effect::Event),
    /// What the policy set said.
    Policy(policy::Event),
    /// A check of success.
    Check(check::Event),
    /// A budget ran out.
    Budget(budget::Event),
    /// A loop that gets nowhere.
    Progress(progress::Event),
    /// A callback or a signal.
    Callback(callback::Event),
    /// A durable timer.
    Timer(timer::Event),
    /// A fact of no run.
    System(system::Event),
    /// A kind that this build does not know: views skip and count it, control state stops.
    Unrecognised {
        /// Its kind.
        kind: String,
    },
}

macro_rules! catalogue {
    ($($kind:literal $v:literal => $outer:ident($inner:path), $body:ty;)*) => {
        /// Every kind with its current format version, in the order of the catalogue.
        pub const KINDS: &[(&str, u16)] = &[$(($kind, $v)),*];

        impl Event {
            /// The kind on the wire.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$outer($inner(_)) => $kind,)*
                    Self::Unrecognised { kind } => kind,
                }
            }

            /// The same, for keeping without a copy of the text.
            #[must_use]
            pub fn kept_kind(&self) -> Cow<'static, str> {
                match self {
                    $(Self::$outer($inner(_)) => Cow::Borrowed($kind),)*
                    Self::Unrecognised { kind } => Cow::Owned(kind.clone()),
                }
            }

            /// The format version of the body on the wire; 0 for an unknown kind.
            #[must_use]
            pub fn version(&self) -> u16 {
                match self {
                    $(Self::$outer($inner(_)) => $v,)*
                    Self::Unrecognised { .. } => 0,
                }
            }
        }

        /// Serializes as the body alone: a map with field names.
        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$outer($inner(body)) => body.serialize(serializer),)*
                    Self::Unrecognised { .. } => serializer.serialize_unit(),
                }
            }
        }

        /// Reads the body of an event whose kind and version were read before it.
        pub(crate) struct Body<'a> {
            pub kind: &'a str,
            pub v: u16,
        }

        impl<'de> DeserializeSeed<'de> for Body<'_> {
            type Value = Event;
            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Event, D::Error> {
                match (self.kind, self.v) {
                    $(($kind, $v) => {
                        <$body as Deserialize>::deserialize(deserializer).map(|body| Event::$outer($inner(body)))
                    })*
                    (kind, _) => {
                        IgnoredAny::deserialize(deserializer)?;
                        Ok(Event::Unrecognised { kind: kind.to_owned() })
                    }
                }
            }
        }
    };
}

catalogue! {
    "run.opened" 1 => Run(run::Event::Opened), Box<run::Opened>;
    "run.claimed" 1 => Run(run::Event::Claimed), run::Claimed;
    "run.cancel_requested" 1 => Run(run::Event::CancelRequested), run::CancelRequested;
    "run.cancel_settled" 1 => Run(run::Event::CancelSettled), run::CancelSettled;
    "run.ended" 1 => Run(run::Event::Ended), run::Ended;
    "node.started" 1 => Node(node::Event::Started), node::Started;
    "node.ended" 1 => Node(node::Event::Ended), node::Ended;
    "child.delegated" 1 => Child(child::Event::Delegated), Box<child::Delegated>;
    "child.crashed" 1 => Child(child::Event::Crashed), child::Crashed;
    "child.restarted" 1 => Child(child::Event::Restarted), child::Restarted;
    "child.given_up" 1 => Child(child::Event::GivenUp), child::GivenUp;
    "child.returned" 1 => Child(child::Event::Returned), child::Returned;
    "child.rejected" 1 => Child(child::Event::Rejected), child::Rejected;
    "child.settled" 1 => Child(child::Event::Settled), child::Settled;
    "result.late" 1 => Run(run::Event::Late), run::Late;
    "join.opened" 1 => Join(join::Event::Opened), join::Opened;
    "join.decided" 1 => Join(join::Event::Decided), join::Decided;
    "model.asked" 1 => Model(model::Event::Asked), model::Asked;
    "model.proposed" 1 => Model(model::Event::Proposed), model::Proposed;
    "model.failed" 1 => Model(model::Event::Failed), model::Failed;
    "proposal.refused" 1 => Model(model::Event::Refused), model::Refused;
    "effect.intended" 1 => Effect(effect::Event::Intended), Box<effect::Intended>;
    "effect.not_sent" 1 => Effect(effect::Event::NotSent), effect::NotSent;
    "effect.lost" 1 => Effect(effect::Event::Lost), effect::Lost;
    "effect.landed" 1 => Effect(effect::Event::Landed), effect::Landed;
    "effect.declined" 1 => Effect(effect::Event::Declined), effect::Declined;
    "effect.retryable" 1 => Effect(effect::Event::Retryable), effect::Retryable;
    "effect.unknown" 1 => Effect(effect::Event::Unknown), effect::Unknown;
    "effect.reconciled" 1 => Effect(effect::Event::Reconciled), effect::Reconciled;
    "effect.escalated" 1 => Effect(effect::Event::Escalated), effect::Escalated;
    "effect.withdrawn" 1 => Effect(effect::Event::Withdrawn), effect::Withdrawn;
    "effect.conflicted" 1 => Effect(effect::Event::Conflicted), effect::Conflicted;
    "check.passed" 1 => Check(check::Event::Passed), check::Passed;
    "check.failed" 1 => Check(check::Event::Failed), check::Failed;
    "budget.exhausted" 1 => Budget(budget::Event::Exhausted), budget::Exhausted;
    "progress.stalled" 1 => Progress(progress::Event::Stalled), progress::Stalled;
    "callback.received" 1 => Callback(callback::Event::Received), callback::Received;
    "callback.absorbed" 1 => Callback(callback::Event::Absorbed), callback::Absorbed;
    "signal.received" 1 => Callback(callback::Event::Signal), callback::Signal;
    "timer.set" 1 => Timer(timer::Event::Set), timer::Set;
    "timer.due" 1 => Timer(timer::Event::Due), timer::Due;
    "host.started" 1 => System(system::Event::HostStarted), system::HostStarted;
    "host.stopped" 1 => System(system::Event::HostStopped), system::HostStopped;
    "fault.injected" 1 => System(system::Event::FaultInjected), system::FaultInjected;
    "callback.refused" 1 => System(system::Event::CallbackRefused), system::CallbackRefused;
    "policy.decided" 1 => Policy(policy::Event::Decided), Box<policy::Decided>;
    "effect.contradicted" 1 => Effect(effect::Event::Contradicted), effect::Contradicted;
    "policy.changed" 1 => System(system::Event::PolicyChanged), system::PolicyChanged;
}
