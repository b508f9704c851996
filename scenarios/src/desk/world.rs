//! How a desk behaves: the `world.desk` part of a scenario.

use std::{fmt, num::NonZeroU64};

use serde::{Deserialize, Serialize};

use super::limits;

/// How a desk behaves; every field has a default, and the default desk is a good one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct World {
    /// Whether a repeated `Idempotency-Key` gets the stored reply instead of a second effect.
    pub dedupe: bool,
    /// Whether effects can be looked up by key.
    pub lookup: bool,
    /// Pause between counting a request and carrying it out.
    pub latency_ms: u64,
    /// Queues that are closed: they say so, and the desk files into them all the same.
    pub closed: Vec<String>,
    /// Callbacks that it makes after its writes.
    pub webhooks: Vec<Webhook>,
    /// Requests that go wrong; the first entry that fits a request decides.
    pub fail: Vec<Misbehaviour>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            dedupe: true,
            lookup: true,
            latency_ms: 0,
            closed: Vec::new(),
            webhooks: Vec::new(),
            fail: Vec::new(),
        }
    }
}

/// A world that asks for more than a desk does.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// A pause is too long.
    #[error("{field} is {asked} ms: at most {} ms", limits::PAUSE_MS)]
    Pause {
        /// Which field.
        field: &'static str,
        /// What it says.
        asked: u64,
    },
    /// A webhook follows nothing, or is sent without end.
    #[error(
        "webhooks: {route} {why}; a webhook follows a write and is sent 1 to {} times",
        limits::WEBHOOK_TIMES_MAX
    )]
    Webhook {
        /// After what.
        route: Route,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A reply is too large.
    #[error(
        "fail.do.oversize is {asked} bytes: at most {}",
        limits::OVERSIZE_BYTES
    )]
    Oversize {
        /// What it says.
        asked: u64,
    },
}

impl World {
    /// Refuses a world that is out of bounds.
    ///
    /// # Errors
    ///
    /// Names the field and its bound.
    pub fn check(&self) -> Result<(), WorldError> {
        pause("latency_ms", self.latency_ms)?;
        for webhook in &self.webhooks {
            webhook.check()?;
        }
        for entry in &self.fail {
            match entry.does {
                Behaviour::SlowMs(asked) => pause("fail.do.slow_ms", asked)?,
                Behaviour::Oversize(asked) if asked > limits::OVERSIZE_BYTES => {
                    return Err(WorldError::Oversize { asked });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What goes wrong with the `nth` request of a route, if anything.
    pub(super) fn behaviour(&self, route: Route, nth: u64) -> Option<Behaviour> {
        self.fail
            .iter()
            .find(|entry| {
                entry.route == route && entry.nth.is_none_or(|wanted| wanted.get() == nth)
            })
            .map(|entry| entry.does)
    }
}

fn pause(field: &'static str, asked: u64) -> Result<(), WorldError> {
    if asked > limits::PAUSE_MS {
        return Err(WorldError::Pause { field, asked });
    }
    Ok(())
}

/// A callback that follows each write of a route: `{ route: create_ticket, times: 3 }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The writes meant.
    pub route: Route,
    /// How often the same callback is delivered.
    #[serde(default = "once")]
    pub times: u32,
    /// How many of the first tries are lost on their way; the desk tries again.
    #[serde(default)]
    pub lost: u32,
    /// Pause before the first try.
    #[serde(default)]
    pub delay_ms: u64,
    /// Whether it is held back until the tree has ended.
    #[serde(default)]
    pub after_end: bool,
    /// Whom it is sent to, instead of the tenant of the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether it is signed.
    #[serde(default = "yes")]
    pub signed: bool,
}

fn once() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Webhook {
    fn check(&self) -> Result<(), WorldError> {
        let route = self.route;
        let refuse = |why| Err(WorldError::Webhook { route, why });
        if !route.writes() {
            return refuse("only reads");
        }
        let most = limits::WEBHOOK_TIMES_MAX;
        if self.times == 0 || self.times > most || self.lost > most {
            return refuse("is sent, or lost, too seldom or too often");
        }
        pause("webhooks.delay_ms", self.delay_ms)
    }
}

/// One way in which requests go wrong: `{ route: create_ticket, nth: 1, do: drop_after }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misbehaviour {
    /// The requests meant.
    pub route: Route,
    /// Which of them, counted from 1 over the life of the store; absent: each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<NonZeroU64>,
    /// What happens.
    #[serde(rename = "do")]
    pub does: Behaviour,
}

/// What goes wrong; *before* and *after* are meant of the commit of the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behaviour {
    /// A business refusal; nothing is committed.
    #[serde(rename = "refuse_409")]
    Refuse409,
    /// "Not now"; nothing is committed.
    #[serde(rename = "refuse_429")]
    Refuse429,
    /// An internal error, nothing committed.
    #[serde(rename = "error_500_before")]
    Error500Before,
    /// An internal error although the effect was committed.
    #[serde(rename = "error_500_after")]
    Error500After,
    /// The connection closes without a reply, nothing committed.
    #[serde(rename = "drop_before")]
    DropBefore,
    /// The connection closes without a reply although the effect was committed.
    #[serde(rename = "drop_after")]
    DropAfter,
    /// The effect is committed at once, its reply held back so many milliseconds.
    #[serde(rename = "slow_ms")]
    SlowMs(u64),
    /// A reply that says "done" although nothing was committed.
    #[serde(rename = "lie")]
    Lie,
    /// The effect is committed, its reply padded to so many bytes.
    #[serde(rename = "oversize")]
    Oversize(u64),
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// `GET /incidents/{id}`
    ReadIncident,
    /// `GET /runbooks?q=`
    SearchRunbook,
    /// `GET /tickets/{id}`
    ReadTicket,
    /// `GET /tickets?key=`
    LookupTicket,
    /// `GET /tickets?closed_key=`
    LookupClosure,
    /// `GET /tickets?request_id=`
    FindTicket,
    /// `POST /tickets`
    CreateTicket,
    /// `POST /tickets/{id}/close`
    CloseTicket,
    /// `GET /queues/{id}`
    ReadQueue,
    /// `POST /refunds`
    PayRefund,
    /// `GET /refunds/{id}`
    ReadRefund,
    /// `GET /refunds?key=`
    LookupRefund,
    /// `GET /files/{name}`
    ReadFile,
    /// `PUT /files/{name}`
    WriteFile,
}

impl Route {
    /// The name that YAML, JSON and the store use.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadIncident => "read_incident",
            Self::SearchRunbook => "search_runbook",
            Self::ReadTicket => "read_ticket",
            Self::LookupTicket => "lookup_ticket",
            Self::LookupClosure => "lookup_closure",
            Self::FindTicket => "find_ticket",
            Self::CreateTicket => "create_ticket",
            Self::CloseTicket => "close_ticket",
            Self::ReadQueue => "read_queue",
            Self::PayRefund => "pay_refund",
            Self::ReadRefund => "read_refund",
            Self::LookupRefund => "lookup_refund",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
        }
    }

    /// Whether a request of this route changes something.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::CreateTicket | Self::CloseTicket | Self::PayRefund | Self::WriteFile
        )
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
