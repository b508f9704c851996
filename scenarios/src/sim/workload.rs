//! What the simulated trees do: topologies of the library with random sizes, and random small ones.

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use coppice_messages::Value;
use coppice_topology::{Diagnostics, Plan, bundle::bundle};

use super::seed::Seed;
use crate::library::{Shelf, text};

/// Topologies of the library that need nobody but model and desk.
const LIBRARY: [&str; 2] = ["incident-comparison", "widening-refused"];

/// One tree to be run.
pub(super) struct Work {
    pub plan: Arc<Plan>,
    pub input: Value,
}

/// A topology that cannot be run here: a fault of this program.
#[derive(Debug, thiserror::Error)]
#[error("the simulated topology {name} is refused:\n{text}")]
pub(super) struct Unusable {
    name: String,
    text: String,
    #[source]
    source: Diagnostics,
}

/// Draws one tree.
pub(super) fn draw(seed: &mut Seed, nth: u64) -> Result<Work, Unusable> {
    let width = if seed.one_in(12) {
        seed.between(5, 8)
    } else {
        seed.between(1, 4)
    };
    let incidents = (0..width)
        .map(|at| Value::Text(format!("incident_{}", 100 + at)))
        .collect();
    let input = Value::map([
        ("request_id", Value::Text(format!("r-{nth}"))),
        ("incidents", Value::List(incidents)),
    ]);
    let plan = if seed.one_in(2) {
        of_library(seed.index(LIBRARY.len()))?
    } else {
        let text = random(seed);
        Arc::new(compile("random", &text)?)
    };
    Ok(Work { plan, input })
}

fn compile(name: &str, text: &str) -> Result<Plan, Unusable> {
    bundle(name, text.as_bytes(), &Shelf::default())
        .map(|bundle| bundle.plan)
        .map_err(|source| Unusable {
            name: name.to_owned(),
            text: text.to_owned(),
            source,
        })
}

fn of_library(which: usize) -> Result<Arc<Plan>, Unusable> {
    static PLANS: [OnceLock<Arc<Plan>>; LIBRARY.len()] = [OnceLock::new(), OnceLock::new()];
    let name = LIBRARY[which];
    if let Some(plan) = PLANS[which].get() {
        return Ok(plan.clone());
    }
    let file = format!("topologies/{name}.yaml");
    let plan = Arc::new(compile(name, text(&file).unwrap_or_default())?);
    Ok(PLANS[which].get_or_init(|| plan).clone())
}

/// Layers of parallel nodes, each after all of the layer before; now and then a join of its own between.
fn random(seed: &mut Seed) -> String {
    let mut out = String::from(
        "topology: random
version: 1
contract: default
input: { type: object }
agents:
  reader:
    model: scripted/summarise
    tools: [read_incident, search_runbook]
    result_schema: incident_summary_v1
  writer:
    model: scripted/summarise
    tools: [read_incident, close_ticket]
    result_schema: incident_summary_v1
nodes:
",
    );
    let mut before: Vec<String> = Vec::new();
    let mut ticket = false;
    for layer in 0..seed.between(1, 3) {
        let mut names = Vec::new();
        for at in 0..seed.between(1, 3) {
            let name = format!("n{layer}{at}");
            let _ = writeln!(out, "  {name}:");
            if !before.is_empty() {
                let _ = writeln!(out, "    after: [{}]", before.join(", "));
            }
            node(seed, &mut out, &name, &mut ticket);
            names.push(name);
        }
        if names.len() > 1 && seed.one_in(3) {
            let rule = seed.pick(&["collect", "fail_fast"]);
            let of = names.join(", ");
            let _ = writeln!(
                out,
                "  j{layer}:\n    join: {{ of: [{of}], on_failure: {rule} }}"
            );
            names = vec![format!("j{layer}")];
        }
        before = names;
    }
    let _ = writeln!(
        out,
        "  done:
    after: [{}]
    end:
      reason: succeeded
      answer: {{ ok: true }}
      evidence:
        - check: find_ticket
          arguments: {{ request_id: {{ from: input, at: /request_id }} }}
          expect: {{ lt: [ {{ from: check, at: /count }}, 2 ] }}",
        before.join(", ")
    );
    out
}

fn node(seed: &mut Seed, out: &mut String, name: &str, ticket: &mut bool) {
    let line = match seed.below(8) {
        0 => "call: { tool: read_incident, arguments: { id: incident_1 } }".to_owned(),
        1 | 2 => format!("call: {{ tool: close_ticket, arguments: {{ id: {name} }} }}"),
        3 if !*ticket => {
            *ticket = true;
            "call: { tool: create_ticket, arguments: { title: One, body: {}, request_id: { from: input, at: /request_id } } }".to_owned()
        }
        4 => format!("wait: {{ timer: {}ms }}", seed.between(10, 90_000)),
        5 => {
            let agent = seed.pick(&["reader", "writer"]);
            format!("agent: {{ agent: {agent}, input: incident_{name} }}")
        }
        _ => return fan_out(seed, out, name),
    };
    let _ = writeln!(out, "    {line}");
}

fn fan_out(seed: &mut Seed, out: &mut String, name: &str) {
    let agent = seed.pick(&["reader", "writer"]);
    let over = if seed.one_in(2) {
        "over: { from: input, at: /incidents }".to_owned()
    } else {
        format!("width: {}", seed.between(1, 4))
    };
    let (concurrency, at_most) = (seed.between(1, 4), seed.between(1, 4));
    let kind = seed.pick(&["transient", "transient", "temporary"]);
    let rule = seed.pick(&[
        "wait: all, on_failure: collect",
        "wait: all, on_failure: fail_fast",
        "wait: any",
        "wait: { quorum: 2 }, on_failure: collect",
    ]);
    let _ = writeln!(
        out,
        "    fan_out:
      {over}
      agent: {agent}
      slot: {name}
      concurrency: {concurrency}
      restart: {{ kind: {kind}, at_most: {at_most}, within: 1m, backoff: 200ms }}
    delegation:
      objective: \"Look at {{item}}\"
      authority_scope: {{ access: read_write }}
      budget: {{ steps: 20, tokens: 40000, wall_clock: 3m }}
    join: {{ {rule} }}"
    );
}
