//! Every join rule over members that end as drawn and come in a drawn order, with a restart between any two commits: the decision is the one
//! that the rule alone gives, there is one, and the run comes to its end.

use std::collections::BTreeMap;

use coppice_messages::{
    Event, Payload, Value, event,
    event::{child, join::SlotOutcome, run::Reason},
    ids::RunId,
};
use proptest::prelude::*;

use crate::{
    cancels,
    world::{Weather, World, plan_of},
};

/// These two rules of a join as they are written.
pub fn on_failure_and_then(fail_fast: bool, let_finish: bool) -> String {
    let on_failure = if fail_fast { "fail_fast" } else { "collect" };
    let then = if let_finish { "let_finish" } else { "cancel" };
    format!("on_failure: {on_failure}, then: {then}")
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    All,
    Any,
    Quorum(usize),
}

/// A fan-out whose members end as said, and come in this order as far as the concurrency lets them.
#[derive(Debug, Clone)]
struct Case {
    ends: Vec<Reason>,
    order: Vec<usize>,
    concurrency: usize,
    wait: Wait,
    fail_fast: bool,
    let_finish: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let end = prop_oneof![
        Just(Reason::Succeeded),
        Just(Reason::Failed),
        Just(Reason::Cancelled)
    ];
    let members = (1..=4_usize).prop_flat_map(move |width| {
        let wait = prop_oneof![
            Just(Wait::All),
            Just(Wait::Any),
            (1..=width).prop_map(Wait::Quorum)
        ];
        (
            prop::collection::vec(end.clone(), width),
            Just((0..width).collect::<Vec<_>>()).prop_shuffle(),
            1..=width,
            wait,
        )
    });
    (members, any::<bool>(), any::<bool>()).prop_map(
        |((ends, order, concurrency, wait), fail_fast, let_finish)| Case {
            ends,
            order,
            concurrency,
            wait,
            fail_fast,
            let_finish,
        },
    )
}

impl Case {
    fn world(&self) -> World {
        let items = self.ends.iter().enumerate();
        let items = items.map(|(at, end)| Value::from(format!("{end} {at}").as_str()));
        let input = Value::map([("members", Value::List(items.collect()))]);
        let mut world = World::new(plan_of(&self.yaml()), input, 1, Weather::default());
        world.failing = |item| matches!(item, Value::Text(text) if text.starts_with("failed"));
        world
    }

    fn yaml(&self) -> String {
        let wait = match self.wait {
            Wait::All => "all".to_owned(),
            Wait::Any => "any".to_owned(),
            Wait::Quorum(number) => format!("{{ quorum: {number} }}"),
        };
        let rest = on_failure_and_then(self.fail_fast, self.let_finish);
        format!(
            "
topology: arrivals
version: 1
contract: default
result_schema: incident_summary_v1
input: {{ type: object }}
agents:
  voter: {{ model: scripted/summarise, tools: [read_incident, search_runbook], result_schema: incident_summary_v1 }}
nodes:
  vote:
    fan_out: {{ over: {{ from: input, at: /members }}, agent: voter, slot: vote, concurrency: {} }}
    delegation: {{ objective: Decide, authority_scope: {{ access: read_only }}, budget: {{ steps: 12, tokens: 18000, wall_clock: 1m }} }}
    join: {{ wait: {wait}, {rest} }}
  done:
    after: [vote]
    end: {{ reason: succeeded, answer: {{ incident: x, severity: high, summary: {{ from: vote, at: /outcomes/0 }} }}, evidence: [ {{ check: find_ticket, arguments: {{ request_id: x }}, expect: {{ eq: [ {{ from: check, at: /count }}, 0 ] }} }} ] }}
",
            self.concurrency
        )
    }

    /// What the rule alone says: the outcomes at the first arrival that decides, and whether it is met.
    fn expected(&self) -> (Vec<SlotOutcome>, bool) {
        let width = self.ends.len();
        let mut outcomes = vec![SlotOutcome::Open; width];
        let mut at_work: Vec<usize> = (0..self.concurrency).collect();
        for begun in self.concurrency.. {
            let next = self.order.iter().find(|at| at_work.contains(at));
            let next = *next.expect("all have come and nothing is decided");
            at_work.retain(|at| *at != next);
            at_work.extend((begun < width).then_some(begun));
            outcomes[next] = SlotOutcome::Ended(self.ends[next]);
            let open = count(&outcomes, &SlotOutcome::Open);
            let succeeded = count(&outcomes, &SlotOutcome::Ended(Reason::Succeeded));
            let need = match self.wait {
                Wait::All => width,
                Wait::Any => 1,
                Wait::Quorum(number) => number,
            };
            let failed = width - open - succeeded;
            let met = match self.wait {
                _ if self.fail_fast && failed > 0 => Some(false),
                // Those that are collected count as having come.
                Wait::All => (open == 0).then_some(true),
                Wait::Any | Wait::Quorum(_) if succeeded >= need => Some(true),
                Wait::Any | Wait::Quorum(_) => (succeeded + open < need).then_some(false),
            };
            if let Some(met) = met {
                return (outcomes, met);
            }
        }
        unreachable!("an arrival decides")
    }

    /// Lets the members come in their order until the root has ended.
    fn drive(&self, world: &mut World) {
        let root = world.root.clone();
        world.prepare();
        loop {
            world.settle(&root);
            if world.ended().is_some() {
                return;
            }
            let members = members(world);
            let mut at_work = self.order.iter().filter_map(|at| {
                let run = members.get(at)?;
                world.drivers.contains_key(run).then_some((*at, run))
            });
            let Some((at, run)) = at_work.next() else {
                assert!(world.advance(&root), "stuck: {}", world.describe());
                continue;
            };
            if self.ends[at] == Reason::Cancelled {
                world.tell(run, cancels::request());
            }
            while world.drivers.contains_key(run) {
                assert!(world.advance(run), "stuck: {}", world.describe());
            }
        }
    }

    fn holds(&self, world: &World, place: &str) {
        let decided: Vec<_> = world
            .events()
            .filter_map(|(_, event)| match event {
                Event::Join(event::join::Event::Decided(decided)) => {
                    Some((decided.outcomes.clone(), decided.met))
                }
                _ => None,
            })
            .collect();
        let (outcomes, met) = self.expected();
        assert_eq!(decided, [(outcomes, met)], "{place}: {self:?}");
        let reason = world.ended().map(|ended| ended.reason);
        let wanted = if met {
            Reason::Succeeded
        } else {
            Reason::Failed
        };
        assert_eq!(reason, Some(wanted), "{place}: {self:?}");
        assert_eq!(
            world.count("child.settled"),
            self.ends.len(),
            "{place}: {self:?}"
        );
    }
}

fn count(outcomes: &[SlotOutcome], of: &SlotOutcome) -> usize {
    outcomes.iter().filter(|outcome| *outcome == of).count()
}

/// The members by their number, which stands in their item.
fn members(world: &World) -> BTreeMap<usize, RunId> {
    let delegated = world.events().filter_map(|(_, event)| match event {
        Event::Child(child::Event::Delegated(delegated)) => Some(delegated),
        _ => None,
    });
    let numbered = delegated.filter_map(|delegated| {
        let Payload::Inline(Value::Text(item)) = &delegated.item else {
            return None;
        };
        let number = item.rsplit(' ').next()?.parse().ok()?;
        Some((number, delegated.envelope.run().clone()))
    });
    numbered.collect()
}

fn drawn() -> u32 {
    if std::env::var_os("COPPICE_LONG").is_some() {
        2_000
    } else {
        48
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: drawn(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_join_is_decided_once_as_its_rule_says_whoever_has_come_when_the_host_starts_again(case in cases()) {
        let mut whole = case.world();
        case.drive(&mut whole);
        case.holds(&whole, "the whole");
        for commits in 0..whole.log.len() {
            let mut rest = whole.after(commits);
            case.drive(&mut rest);
            case.holds(&rest, &format!("a restart after {commits} commits"));
        }
    }
}
