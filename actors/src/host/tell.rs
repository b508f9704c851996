//! Telling a run something from outside: woken if it sleeps, asked again if its actor dies meanwhile, answered once it is recorded.

use std::{collections::BTreeSet, sync::Arc};

use coppice_kernel::Command;
use coppice_messages::{
    Commit, Event, Payload,
    event::{
        callback::{self, Signal},
        run::{self, CancelRequested, Program},
    },
    ids::TenantId,
};
use coppice_store::clock;
use coppice_topology::node::WaitFor;
use ractor::ActorRef;
use tokio::sync::oneshot;

use super::roots::RootsMessage;
use crate::{
    api::{ApiError, CancelRequest, Code, SignalRequest, Told},
    inspect::with_causes,
    limits::{ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST, LIVE_WAIT, SIGNAL_TEXT_MAX, TELL_TIMES},
    release::ReleaseError,
    run::Message,
    services::{Key, Services},
    sleep::Wake,
};

/// Who is told, and through whom.
pub(super) struct Tell<'a> {
    pub services: &'a Arc<Services>,
    pub roots: &'a ActorRef<RootsMessage>,
    pub tenant: TenantId,
}

impl Tell<'_> {
    /// Stops a run and everything below it.
    pub async fn cancel(self, request: CancelRequest) -> Result<Told, ApiError> {
        short("by", &request.by)?;
        short("why", &request.why)?;
        let requested = CancelRequested {
            by: request.by,
            why: request.why,
            from: None,
        };
        let key = (self.tenant.clone(), request.run);
        let shows = |event: &Event| matches!(event, Event::Run(run::Event::CancelRequested(_)));
        self.tell(key, &Command::Cancel(requested), &shows).await
    }

    /// Tells a run something that it may wait for.
    pub async fn signal(self, request: SignalRequest) -> Result<Told, ApiError> {
        short("name", &request.name)?;
        short("id", &request.id)?;
        let (value, blob) = Payload::of(request.value);
        if blob.is_some() {
            let message = "the value of a signal is larger than an event may carry";
            return Err(ApiError::new(Code::TooLarge, message));
        }
        let key = (self.tenant.clone(), request.run);
        let id = request.id.clone();
        let signal = Signal {
            name: request.name,
            id: request.id,
            value,
        };
        let shows = move |event: &Event| matches!(event, Event::Callback(callback::Event::Signal(signal)) if signal.id == id);
        let note = self.nothing_waits(&key, &signal.name)?;
        let told = self.tell(key, &Command::Signal(signal), &shows).await?;
        Ok(Told { note, ..told })
    }

    /// In words, when no node of the run waits for a signal of this name.
    fn nothing_waits(&self, key: &Key, name: &str) -> Result<Option<String>, ApiError> {
        let (log, releases) = (self.services.store.log(), &self.services.releases);
        let Some(first) = log.chain(&key.0, &key.1).next() else {
            return Ok(None);
        };
        // What cannot be decoded is told by whoever drives it.
        let events = Commit::decode(&first?.bytes).map(|commit| commit.events);
        let opened = events
            .into_iter()
            .flatten()
            .find_map(|entry| match entry.event {
                Event::Run(run::Event::Opened(opened)) => Some(opened),
                _ => None,
            });
        let Some(opened) = opened else {
            return Ok(None);
        };
        let plan = match releases.plan(log, &key.0, opened.release) {
            Ok(plan) => plan,
            // One that this build refuses is told by whoever drives it.
            Err(ReleaseError::Refused { .. }) => return Ok(None),
            Err(error @ ReleaseError::Log { .. }) => {
                return Err(ApiError::new(Code::LogUnreadable, with_causes(&error)));
            }
        };
        let graph = match &opened.program {
            Program::Topology { .. } => Some(&plan.root),
            Program::Agent { agent, .. } => plan.children.get(agent),
        };
        let nodes = graph.iter().flat_map(|graph| graph.nodes.values());
        let waited: BTreeSet<&str> = nodes
            .filter_map(|node| match &node.wait {
                Some(WaitFor::Signal(signal)) => Some(signal.name.as_str()),
                _ => None,
            })
            .collect();
        if waited.contains(name) {
            return Ok(None);
        }
        let waits = match waited.is_empty() {
            true => "it waits for no signal".to_owned(),
            false => format!(
                "it waits for {}",
                waited.into_iter().collect::<Vec<_>>().join(", ")
            ),
        };
        Ok(Some(format!(
            "nothing in {} waits for {name}; {waits}",
            key.1
        )))
    }

    async fn tell(
        &self,
        key: Key,
        command: &Command,
        shows: &(dyn Fn(&Event) -> bool + Sync),
    ) -> Result<Told, ApiError> {
        for attempt in 0..TELL_TIMES {
            let row = self.services.store.log().row(&key.0, &key.1)?;
            let Some(row) = row else {
                let message = format!("there is no run {} of tenant {}", key.1, key.0);
                return Err(ApiError::new(Code::UnknownRun, message));
            };
            let recorded = match self.is_recorded(&key, shows) {
                Ok(recorded) => recorded,
                Err(error) => {
                    // Whoever drives it finds the same, and the status says from then on that it is blocked.
                    self.wake(&key).await;
                    return Err(error);
                }
            };
            let ended = row.ended.map(|end| end.reason);
            if recorded || ended.is_some() {
                return Ok(Told {
                    run: key.1,
                    recorded,
                    ended: ended.filter(|_| !recorded),
                    note: None,
                });
            }
            self.wake(&key).await;
            if !self.say(&key, command).await {
                clock::pause(clock::backoff(attempt, ASK_AGAIN_FIRST, ASK_AGAIN_LONGEST)).await;
            }
        }
        let message = format!(
            "the run {} does not take it: see coppice status, and ask again",
            key.1
        );
        Err(ApiError::new(Code::Busy, message))
    }

    /// Sees to it that the run has an actor, or is about to.
    pub async fn wake(&self, key: &Key) {
        if let Wake::Root(root) = self.services.wake(key).await {
            // A supervisor that is gone ends the host; the next one is asked again.
            let _ = self.roots.cast(RootsMessage::Woken(root));
        }
    }

    /// Whether the run's actor has decided about it, and recorded what came of that.
    pub async fn say(&self, key: &Key, command: &Command) -> bool {
        let Some(actor) = self.services.awake.get(key) else {
            return false;
        };
        let (tell, told) = oneshot::channel();
        let said = actor.cast(Message::Told(command.clone())).is_ok()
            && actor.cast(Message::Hash(tell)).is_ok();
        said && matches!(tokio::time::timeout(LIVE_WAIT, told).await, Ok(Ok(_)))
    }

    fn is_recorded(&self, key: &Key, shows: &dyn Fn(&Event) -> bool) -> Result<bool, ApiError> {
        for recorded in self.services.store.log().chain(&key.0, &key.1) {
            let recorded = recorded?;
            let commit = Commit::decode(&recorded.bytes)
                .map_err(|error| ApiError::new(Code::LogUnreadable, error.to_string()))?;
            if commit.events.iter().any(|entry| shows(&entry.event)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Refuses a text that is empty or too long.
pub(super) fn short(what: &str, text: &str) -> Result<(), ApiError> {
    if !text.is_empty() && text.len() <= SIGNAL_TEXT_MAX {
        return Ok(());
    }
    let message = format!(
        "{what} must have 1 to {SIGNAL_TEXT_MAX} bytes, it has {}",
        text.len()
    );
    Err(ApiError::new(Code::InvalidRequest, message))
}
