//! An event in one line for people: the one fact that it adds.

use coppice_messages::{
    Event, Spent,
    event::{
        callback, check, child,
        effect::{self, LostCall, ReconciledOutcome, ResultCheck},
        join,
        model::{self, Proposal},
        node::{self, Outcome},
        policy,
        run::{self, ClaimReason, Program},
        system, timer,
    },
};

/// The one fact of an event, without its kind.
#[must_use]
pub fn fact(event: &Event) -> String {
    match event {
        Event::Run(event) => run_fact(event),
        Event::Node(event) => node_fact(event),
        Event::Child(event) => child_fact(event),
        Event::Join(event) => join_fact(event),
        Event::Model(event) => model_fact(event),
        Event::Effect(event) => effect_fact(event),
        Event::Policy(policy::Event::Decided(decided)) => {
            format!("{}: {}: {}", decided.node, decided.tool, decided.sentence())
        }
        Event::Check(check::Event::Passed(passed)) => {
            format!("{}: check {} holds", passed.node, passed.check)
        }
        Event::Check(check::Event::Failed(failed)) => format!(
            "{}: check {} does not hold, expected {}",
            failed.node, failed.check, failed.expected
        ),
        Event::Budget(coppice_messages::event::budget::Event::Exhausted(over)) => format!(
            "{}: {} asked, {} left",
            over.dimension, over.asked, over.left
        ),
        Event::Progress(coppice_messages::event::progress::Event::Stalled(stalled)) => format!(
            "{}: {} calls in a row brought nothing new, {} are allowed",
            stalled.node, stalled.repeats, stalled.limit
        ),
        Event::Callback(callback::Event::Received(received)) => {
            format!("callback {} about {:?}", received.id, received.key)
        }
        Event::Callback(callback::Event::Absorbed(absorbed)) => {
            format!("callback {} changes nothing: {}", absorbed.id, absorbed.why)
        }
        Event::Callback(callback::Event::Signal(signal)) => {
            format!("signal {} ({})", signal.name, signal.id)
        }
        Event::Timer(timer::Event::Set(set)) => {
            format!("{} waits until {} at the latest", set.node, set.due)
        }
        Event::Timer(timer::Event::Due(due)) => format!("{} has waited long enough", due.node),
        Event::System(event) => system_fact(event),
        Event::Unrecognised { .. } => "this build does not know the kind".to_owned(),
    }
}

fn run_fact(event: &run::Event) -> String {
    match event {
        run::Event::Opened(opened) => match &opened.program {
            Program::Topology { name } => format!("{} runs {name}", opened.path),
            Program::Agent { agent, .. } => format!("{} is the work of {agent}", opened.path),
        },
        run::Event::Claimed(claimed) => {
            let why = match claimed.why {
                ClaimReason::Start => "its host was started, or woke it",
                ClaimReason::Restart => "its actor was started again",
                ClaimReason::Failover => "another host was lost",
            };
            format!("driven by {}: {why}", claimed.owner)
        }
        run::Event::CancelRequested(cancel) => match &cancel.from {
            Some(ancestor) => format!("cancel came down from {ancestor}: {}", cancel.why),
            None => format!("{} asked for a cancel: {}", cancel.by, cancel.why),
        },
        run::Event::CancelSettled(receipt) => format!(
            "cancel settled after {}: {} acknowledged, {} killed, {} unreachable, {} effects in doubt",
            receipt.quiet_after,
            receipt.acknowledged,
            receipt.killed,
            receipt.unreachable,
            receipt.effects_in_doubt
        ),
        run::Event::Ended(ended) => ended_words(ended),
        run::Event::Late(late) => format!(
            "after the end it turned out that effect {:?} {}",
            late.key,
            if late.happened {
                "happened"
            } else {
                "did not happen"
            }
        ),
    }
}

/// `failed (crashed): the actor died four times`
pub(super) fn ended_words(ended: &run::Ended) -> String {
    let class = ended.class.as_ref();
    let class = class.map_or(String::new(), |class| format!(" ({class})"));
    let message = if ended.message.is_empty() {
        String::new()
    } else {
        format!(": {}", ended.message)
    };
    format!("{}{class}{message}", ended.reason)
}

fn node_fact(event: &node::Event) -> String {
    match event {
        node::Event::Started(started) => format!("{} begins", started.node),
        node::Event::Ended(ended) => match &ended.outcome {
            Outcome::Done => format!("{} is done", ended.node),
            Outcome::Skipped => format!("{} is skipped", ended.node),
            Outcome::Repeated => format!("{} goes round once more", ended.node),
            Outcome::Failed { class, message } => {
                format!("{} failed ({class}): {message}", ended.node)
            }
        },
    }
}

fn child_fact(event: &child::Event) -> String {
    match event {
        child::Event::Delegated(delegated) => format!(
            "{}[{}] to {}, with {}",
            delegated.slot,
            delegated.ordinal,
            delegated.agent,
            amount(delegated.envelope.budget())
        ),
        child::Event::Crashed(crashed) => match crashed.restart_at {
            Some(at) => format!("{} died ({}), again at {at}", crashed.child, crashed.why),
            None => format!("{} died ({})", crashed.child, crashed.why),
        },
        child::Event::Restarted(restarted) => {
            format!(
                "{} is started again, restart {}",
                restarted.child, restarted.nth
            )
        }
        child::Event::GivenUp(given_up) => format!("{}: {}", given_up.child, given_up.why),
        child::Event::Returned(returned) => format!("{} ended {}", returned.child, returned.reason),
        child::Event::Rejected(rejected) => format!(
            "the answer of {} does not meet {}: {}",
            rejected.child, rejected.schema, rejected.why
        ),
        child::Event::Settled(settled) => format!(
            "{} used {}, {} comes back",
            settled.child,
            amount(&settled.charged),
            amount(&settled.returned)
        ),
    }
}

fn join_fact(event: &join::Event) -> String {
    match event {
        join::Event::Opened(opened) => {
            format!(
                "{}: {} children fill {}",
                opened.node, opened.members, opened.slot
            )
        }
        join::Event::Decided(decided) => {
            let met = if decided.met { "met" } else { "not met" };
            format!("{}: {} ({met})", decided.node, decided.rule)
        }
    }
}

fn model_fact(event: &model::Event) -> String {
    match event {
        model::Event::Asked(asked) => {
            format!(
                "{}: {} is asked, call {}",
                asked.node, asked.route, asked.call
            )
        }
        model::Event::Proposed(proposed) => {
            let (node, tokens) = (&proposed.node, proposed.usage.tokens);
            format!("{node}: {}, {tokens} tokens", proposal(&proposed.proposal))
        }
        model::Event::Failed(failed) => {
            format!(
                "{}: no answer ({}): {}",
                failed.node, failed.class, failed.message
            )
        }
        model::Event::Refused(refused) => {
            format!(
                "{}: refused at {}: {}",
                refused.node, refused.path, refused.why
            )
        }
    }
}

fn proposal(proposal: &Proposal) -> String {
    match proposal {
        Proposal::Say(_) => "says something".to_owned(),
        Proposal::Call { tool, .. } => format!("wants {tool}"),
        Proposal::Delegate { agent, items, .. } => {
            format!("wants to delegate {} to {agent}", items.len())
        }
        Proposal::Answer(_) => "answers".to_owned(),
    }
}

fn effect_fact(event: &effect::Event) -> String {
    let (key, says) = match event {
        effect::Event::Intended(intended) => {
            let key = intended.key.hex();
            let (tool, node, attempt) = (&intended.tool, &intended.node, intended.attempt);
            return format!("{tool} for {node}, key {}, attempt {attempt}", short(&key));
        }
        effect::Event::Lost(lost) => match &lost.what {
            LostCall::Read { key, .. } => (key, "the answer of this read will not come".to_owned()),
            LostCall::Model { node, call } => {
                return format!("{node}: the answer to call {call} will not come");
            }
        },
        effect::Event::NotSent(not_sent) => {
            (&not_sent.key, format!("no byte left: {}", not_sent.why))
        }
        effect::Event::Landed(landed) => (&landed.key, landed_words(landed)),
        effect::Event::Declined(declined) => {
            let (code, message) = (&declined.code, &declined.message);
            (&declined.key, format!("declined {code}: {message}"))
        }
        effect::Event::Retryable(retryable) => {
            (&retryable.key, format!("not now: {}", retryable.code))
        }
        effect::Event::Unknown(unknown) => (&unknown.key, format!("nobody knows: {}", unknown.why)),
        effect::Event::Reconciled(reconciled) => {
            let says = match &reconciled.outcome {
                ReconciledOutcome::Landed { .. } => "it had happened",
                ReconciledOutcome::NotHappened => "it did not happen",
            };
            (&reconciled.key, says.to_owned())
        }
        effect::Event::Escalated(escalated) => {
            (&escalated.key, format!("for a person: {}", escalated.why))
        }
        effect::Event::Withdrawn(withdrawn) => {
            (&withdrawn.key, format!("not sent: {}", withdrawn.why))
        }
        effect::Event::Conflicted(conflicted) => (
            &conflicted.key,
            "the key stands for other arguments".to_owned(),
        ),
        effect::Event::Contradicted(contradicted) => {
            let (expected, seen) = (&contradicted.expected, &contradicted.seen);
            (
                &contradicted.key,
                format!("the world does not show it: expected {expected}, saw {seen}"),
            )
        }
    };
    format!("{}: {says}", short(&key.hex()))
}

fn landed_words(landed: &effect::Landed) -> String {
    let id = landed.receipt.id.as_ref();
    let id = id.map_or(String::new(), |id| format!(", receipt {id}"));
    let result = match landed.result {
        ResultCheck::Ok => "",
        ResultCheck::OutputInvalid => ", its output does not meet its schema",
        ResultCheck::OutputTooLarge => ", its output is too large",
    };
    format!("it happened{id}{result}")
}

fn system_fact(event: &system::Event) -> String {
    match event {
        system::Event::HostStarted(started) => {
            format!(
                "{}, version {}, pid {}",
                started.host, started.version, started.pid
            )
        }
        system::Event::HostStopped(stopped) => stopped.host.to_string(),
        system::Event::FaultInjected(fault) => fault.address.clone(),
        system::Event::CallbackRefused(refused) => format!(
            "a callback for {} is refused ({}): {}",
            refused.tenant, refused.code, refused.why
        ),
        system::Event::PolicyChanged(changed) => match &changed.to {
            Some(version) => format!("the policies are those of version {version:?}"),
            None => "no policies are in force".to_owned(),
        },
    }
}

fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}

/// `12 steps, 18000 tokens`, the dimensions that people look at first.
fn amount(spent: &Spent) -> String {
    format!("{} steps, {} tokens", spent.steps, spent.tokens)
}
