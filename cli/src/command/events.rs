//! `coppice events`: recorded events, from a position on, and on and on.

use std::{collections::BTreeMap, time::Duration};

use coppice_actors::api::{EventFilter, EventView, Feed, ListRequest, TailRequest};
use coppice_messages::{
    commit::Entry,
    event::KINDS,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::clock;
use coppice_topology::tree::fact;

use crate::{
    args::{Common, EventsArgs},
    failure::Failure,
    out,
    reach::{Reach, Way},
};

/// Who follows looks this often, should the feed have dropped something.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before a host that is gone is looked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// `coppice events`
pub async fn events(args: &EventsArgs, common: &Common) -> Result<(), Failure> {
    if args.kinds {
        return kinds(common);
    }
    let mut reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tenant.as_ref());
    let mut request = TailRequest {
        from: args.from,
        filter: EventFilter {
            tree: args.tree.clone(),
            run: args.run.clone(),
            kind: args.kind.clone(),
        },
        limit: None,
    };
    if !request.filter.takes_some_kind() {
        let kind = args.kind.as_deref().unwrap_or_default();
        return Err(Failure::input(format!(
            "there is no kind of event {kind:?}: coppice events --kinds lists those that there are, coppice log stats those that were recorded"
        )));
    }
    if !args.follow {
        // Who follows may be early: for everybody else nothing is no answer to a name that is not there.
        if let Some(tree) = &args.tree {
            reach.runs_of(&tenant, tree).await?;
        }
        if let Some(run) = &args.run {
            reach.get(&tenant, run).await?;
        }
    }
    let mut paths = if common.json {
        Paths::default()
    } else {
        Paths::of(&reach, &tenant, args.tree.as_ref()).await?
    };
    if !args.follow {
        let printed = print(&reach, &tenant, &mut request, &mut paths, common.json).await?;
        return printed.map_or(Ok(()), Err);
    }
    let mut alone = false;
    loop {
        let mut feed = match &reach.way {
            Way::Host(client) => client.feed(&tenant, &request.filter).await.ok(),
            Way::Log(_) => None,
        };
        match (&feed, alone) {
            (Some(_), true) => eprintln!("a host is there: following it"),
            (None, false) => eprintln!(
                "no host lives in {}: waiting for one (coppice up)",
                reach.data.display()
            ),
            (Some(_), false) | (None, true) => {}
        }
        alone = feed.is_none();
        while feed.is_some() {
            match print(&reach, &tenant, &mut request, &mut paths, common.json).await? {
                None => news(&mut feed).await,
                Some(Failure::Environment(_)) => feed = None,
                Some(other) => return Err(other),
            }
        }
        let data = reach.data.clone();
        // The log is given back, so that a host can start.
        drop(reach);
        clock::pause(AGAIN).await;
        reach = loop {
            match Reach::of(data.clone()).await {
                Ok(found) => break found,
                Err(Failure::Environment(_)) => clock::pause(AGAIN).await,
                Err(other) => return Err(other),
            }
        };
    }
}

/// Every kind of event that there is.
fn kinds(common: &Common) -> Result<(), Failure> {
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    if common.json {
        return out::json(&kinds);
    }
    out::text(
        &kinds
            .iter()
            .map(|kind| format!("{kind}\n"))
            .collect::<String>(),
    )
}

async fn news(feed: &mut Option<Feed>) {
    if let Some(open) = feed
        && let Ok(None) = tokio::time::timeout(LOOK, open.next()).await
    {
        *feed = None;
    }
}

/// Prints what there is from the request's position on, and moves it behind that. Returns why no more could be had.
async fn print(
    reach: &Reach,
    tenant: &TenantId,
    request: &mut TailRequest,
    paths: &mut Paths,
    json: bool,
) -> Result<Option<Failure>, Failure> {
    loop {
        let page = match reach.tail(tenant, request).await {
            Ok(page) => page,
            Err(failure) => return Ok(Some(failure)),
        };
        for event in &page.events {
            if json {
                out::json(event)?;
            } else {
                out::line(paths.line(event))?;
            }
        }
        request.from = page.next;
        if page.end {
            return Ok(None);
        }
    }
}

/// Every event that a filter takes.
pub async fn all(
    reach: &Reach,
    tenant: &TenantId,
    filter: EventFilter,
) -> Result<Vec<EventView>, Failure> {
    let mut request = TailRequest {
        filter,
        ..TailRequest::default()
    };
    let mut events = Vec::new();
    loop {
        let page = reach.tail(tenant, &request).await?;
        events.extend(page.events);
        request.from = page.next;
        if page.end {
            return Ok(events);
        }
    }
}

/// The places of runs in their trees, as far as events have told them.
#[derive(Default)]
pub struct Paths {
    known: BTreeMap<RunId, String>,
}

impl Paths {
    /// The places of the runs that are recorded.
    pub async fn of(
        reach: &Reach,
        tenant: &TenantId,
        tree: Option<&TreeId>,
    ) -> Result<Self, Failure> {
        let request = ListRequest {
            tree: tree.cloned(),
            ..ListRequest::default()
        };
        let rows = reach.all(tenant, request).await?;
        Ok(Self {
            known: rows.into_iter().map(|row| (row.run, row.path)).collect(),
        })
    }

    /// Says where a run stands.
    pub fn learn(&mut self, run: &RunId, path: &str) {
        self.known.insert(run.clone(), path.to_owned());
    }

    /// One event for people: position, time, place, kind, the one fact.
    pub fn line(&mut self, event: &EventView) -> String {
        if event.kind == "run.opened"
            && let Some(path) = event.body.get("path").and_then(|path| path.as_str())
        {
            self.learn(&event.run, path);
        }
        let place = self.known.get(&event.run);
        let place = place.map_or_else(|| event.run.to_string(), Clone::clone);
        let at = event.at.to_string();
        let time = at.split_once('T').map_or(at.as_str(), |(_, time)| time);
        let said = said(event);
        format!("{:>5} {time} {place} {} {said}", event.pos, event.kind)
            .trim_end()
            .to_owned()
    }
}

/// The one fact of an event; nothing for a kind that this build does not know.
fn said(event: &EventView) -> String {
    // Field by field: kind and v must stand before the body.
    let kind = serde_json::Value::from(event.kind.as_str());
    let text = format!(r#"{{"kind":{kind},"v":{},"body":{}}}"#, event.v, event.body);
    let entry = serde_json::from_str::<Entry>(&text);
    entry.map_or_else(|_| String::new(), |entry| fact(&entry.event))
}
