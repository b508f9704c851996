//! One host a realm. A store on a shared server asks before it touches anything whether another one is there, answers the same question as long as
//! it runs, and stops when the log says that another host was started after it.
//!
//! Nobody there is said by the server at once. Who was killed is no longer there as soon as the server has seen its connection end; who is stopped or
//! cut off is there and silent, and is refused way for after [`PRESENCE_WAIT`], unless it is this very directory's host before.

use std::path::PathBuf;

use async_nats::{Client, RequestErrorKind, Subscriber};
use coppice_messages::{
    Commit, Event, Timestamp,
    event::system,
    ids::{HostId, RunId, TenantId},
};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::{
    address::ServerAddress,
    clock,
    fatal::{Fatal, FatalCell},
    limits::{GUARD_TICK, PRESENCE_ASK, PRESENCE_WAIT, ROOM_LOOK},
    log::{LogReader, ReadError},
    store::{BusOptions, Endpoint, Options},
    subjects::Realm,
};

/// Where answers go.
const INBOX: &str = "_INBOX";

/// Who is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Present {
    /// The host.
    pub host: HostId,
    /// Its process.
    pub pid: u32,
    /// Since when it is there.
    pub since: Timestamp,
    /// Its data directory.
    pub data: PathBuf,
}

/// Why a store does not open beside another one.
#[derive(Debug, thiserror::Error)]
pub enum PresenceError {
    /// Another one answers.
    #[error(
        "the realm {realm} at {url} has a host: {} (process {}, since {}, data directory {}); a realm has one: stop that host first, or name another --realm", .by.host, .by.pid, .by.since, .by.data.display()
    )]
    Taken {
        /// The realm.
        realm: Realm,
        /// Where.
        url: ServerAddress,
        /// By whom.
        by: Box<Present>,
    },
    /// Another one was started at the same moment, was recorded first, and does not answer.
    #[error(
        "the realm {realm} at {url} has a host: {host} (process {pid}, since {since}), which was started at the same moment; a realm has one: stop that host first, or name another --realm"
    )]
    First {
        /// The realm.
        realm: Realm,
        /// Where.
        url: ServerAddress,
        /// The other one.
        host: HostId,
        /// Its process.
        pid: u32,
        /// When its start was recorded.
        since: Timestamp,
    },
    /// Another one is there and does not answer.
    #[error(
        "the realm {realm} at {url} has a host that does not answer: it is stopped or cut off, or may not say on {subject} that it is there; let it go on or end it, or name another --realm"
    )]
    Silent {
        /// The realm.
        realm: Realm,
        /// Where.
        url: ServerAddress,
        /// Where it was asked.
        subject: String,
    },
}

enum Heard {
    Nobody,
    Silence,
    Somebody(Present),
}

async fn ask(client: &Client, subject: String) -> Heard {
    let request = async_nats::Request::new().timeout(Some(PRESENCE_ASK));
    match client.send_request(subject, request).await {
        Ok(answer) => {
            serde_json::from_slice(&answer.payload).map_or(Heard::Silence, Heard::Somebody)
        }
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Heard::Nobody,
        Err(_) => Heard::Silence,
    }
}

/// Goes on when no other host is in the realm. `before` is the host that this directory had before, should it have left without a word.
pub(crate) async fn alone(
    client: &Client,
    endpoint: &Endpoint,
    before: Option<&HostId>,
) -> Result<(), PresenceError> {
    let (realm, url) = (endpoint.realm.clone(), endpoint.url.clone());
    let subject = realm.present();
    let from = clock::mono();
    loop {
        match ask(client, subject.clone()).await {
            Heard::Nobody => return Ok(()),
            Heard::Somebody(by) => {
                let by = Box::new(by);
                return Err(PresenceError::Taken { realm, url, by });
            }
            Heard::Silence if from.elapsed() < PRESENCE_WAIT => clock::pause(GUARD_TICK).await,
            Heard::Silence => break,
        }
    }
    let was_here = match before {
        Some(host) => !matches!(
            ask(client, realm.host_present(host.as_str())).await,
            Heard::Nobody
        ),
        None => false,
    };
    if was_here {
        // This directory is locked by this process: the server has not noticed yet that the one before is gone.
        return Ok(());
    }
    Err(PresenceError::Silent {
        realm,
        url,
        subject,
    })
}

/// Who was started at the same moment and is in the log before this host, if that is why its start was refused.
pub(crate) async fn first(
    client: &Client,
    endpoint: &Endpoint,
    log: &LogReader,
    own: &HostId,
) -> Result<Option<PresenceError>, ReadError> {
    let Some((started, since)) = last_started(log)?.filter(|(last, _)| last.host != *own) else {
        return Ok(None);
    };
    let (realm, url) = (endpoint.realm.clone(), endpoint.url.clone());
    // Its own subject: this host answers on that of the realm as well.
    let subject = realm.host_present(started.host.as_str());
    Ok(Some(match ask(client, subject).await {
        Heard::Somebody(by) => PresenceError::Taken {
            realm,
            url,
            by: Box::new(by),
        },
        Heard::Nobody | Heard::Silence => PresenceError::First {
            realm,
            url,
            host: started.host,
            pid: started.pid,
            since,
        },
    }))
}

/// The last start of a host that is recorded.
fn last_started(log: &LogReader) -> Result<Option<(system::HostStarted, Timestamp)>, ReadError> {
    let mut last = None;
    for recorded in log.chain(&TenantId::host(), &RunId::system()) {
        let Ok(commit) = Commit::decode(&recorded?.bytes) else {
            continue;
        };
        for entry in commit.events {
            if let Event::System(system::Event::HostStarted(started)) = entry.event {
                last = Some((started, commit.at));
            }
        }
    }
    Ok(last)
}

/// What runs as long as the store: it answers who asks, and looks for a host that was started after this one. A private server has nobody else.
pub(crate) fn keep(
    options: &Options,
    (client, realm): (&Client, &Realm),
    log: LogReader,
    fatal: &FatalCell,
) -> impl Future<Output = ()> + Send + 'static {
    let alone = matches!(options.bus, BusOptions::Private { .. });
    let present = Present {
        host: options.host.clone(),
        pid: std::process::id(),
        since: clock::now(),
        data: options.data.canonicalize().unwrap_or_default(),
    };
    let yielding = yield_to_next(log, options.host.clone(), fatal.clone());
    let answering = answer(client.clone(), realm.clone(), present);
    async move {
        if alone {
            std::future::pending().await
        }
        tokio::join!(answering, yielding);
    }
}

/// Answers who asks, for ever.
async fn answer(client: Client, realm: Realm, present: Present) {
    let body = serde_json::to_vec(&present).unwrap_or_default();
    let subjects = [realm.present(), realm.host_present(present.host.as_str())];
    let mut asked: Vec<Subscriber> = Vec::new();
    for subject in subjects {
        match client.subscribe(subject).await {
            Ok(subscriber) => asked.push(subscriber),
            Err(error) => tracing::warn!(%error, "who asks for this host is not heard"),
        }
    }
    let mut asked = futures::stream::select_all(asked);
    while let Some(question) = asked.next().await {
        if let Some(reply) = question.reply
            // Elsewhere an answer could be an order to somebody who trusts this host.
            && reply.starts_with(INBOX)
            && let Err(error) = client.publish(reply, body.clone().into()).await
        {
            tracing::debug!(%error, "an answer was not sent");
        }
    }
    // The connection is closed for good, which others notice.
    std::future::pending().await
}

/// Stops the store when another host was started after it: who was stopped and goes on, and one of two that were started at the same moment.
async fn yield_to_next(log: LogReader, host: HostId, fatal: FatalCell) {
    let mut starts = Starts {
        host,
        seen: None,
        begun: false,
    };
    loop {
        match starts.look(&log) {
            Ok(None) => {}
            Ok(Some(next)) => fatal.set(Fatal::OtherHost { next }),
            Err(error @ ReadError::Database(_)) => fatal.set(Fatal::log_read(&error)),
            Err(error) => tracing::warn!(%error, "it cannot be read which host was started last"),
        }
        clock::pause(ROOM_LOOK).await;
    }
}

/// The starts of hosts, as the log has them one after the other.
struct Starts {
    host: HostId,
    /// The end of the chain at the last look.
    seen: Option<u64>,
    /// Whether this host's own start was seen: what stands before it is older.
    begun: bool,
}

impl Starts {
    /// The host that was started after this one.
    fn look(&mut self, log: &LogReader) -> Result<Option<HostId>, ReadError> {
        let (tenant, run) = (TenantId::host(), RunId::system());
        let end = log.head(&tenant, &run)?.map_or(1, |head| head.next_seq);
        let from = self.seen.unwrap_or(end);
        for seq in from..end {
            let recorded = log.commit_at(&tenant, &run, seq)?;
            let Some(Ok(commit)) = recorded.map(|found| Commit::decode(&found.bytes)) else {
                continue;
            };
            let next = commit
                .events
                .iter()
                .find_map(|entry| self.next(&entry.event));
            if next.is_some() {
                return Ok(next);
            }
        }
        self.seen = Some(end);
        Ok(None)
    }

    fn next(&mut self, event: &Event) -> Option<HostId> {
        let Event::System(system::Event::HostStarted(started)) = event else {
            return None;
        };
        self.begun |= started.host == self.host;
        (self.begun && started.host != self.host).then(|| started.host.clone())
    }
}
