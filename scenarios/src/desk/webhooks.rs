//! Webhooks: after a write the desk calls back, as its world says, and tries until somebody takes it.
//!
//! What is to be sent is on the disk before the reply of the write leaves, and what was answered is put beside it; so a desk that is started
//! again goes on, and the witness can say how often each callback was delivered.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use coppice_actors::callback::{CallbackSecret, SIGNATURE_HEADER};
use coppice_store::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    arrival::{Arrival, sha256},
    http::{Desk, Failed},
    limits::{AGAIN_FIRST, AGAIN_LONGEST, DELIVERY_LONGEST, DELIVERY_TIMEOUT},
    refusal::Refusal,
    store::{Durable, Rows, Store, StoreError},
    world::World,
};

const ROWS: &str = "webhook/";

/// Where callbacks go, and what signs them: a file that whoever starts desk and host writes, for the desk alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// The host's `endpoint.json`: it is read before every try, as a host that was started again may be elsewhere.
    pub endpoint: PathBuf,
    /// The secret of each tenant.
    pub secrets: BTreeMap<String, String>,
    /// The key of the host: with it, a request without a token of this host is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_key: Option<String>,
}

/// What a desk knows of a host's `endpoint.json`.
#[derive(Deserialize)]
struct Endpoint {
    http_url: String,
}

/// A callback that is to be delivered, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// Whose operations it is sent to.
    pub tenant: String,
    /// The key of the write.
    pub key: String,
    /// Its own id.
    pub id: String,
    /// What it says.
    pub value: Value,
    /// How often it is to be delivered.
    pub times: u32,
    /// How many of the first tries are lost on the way.
    pub lost: u32,
    /// Pause before the first try.
    pub delay_ms: u64,
    /// Whether it waits until the tree has ended.
    pub after_end: bool,
    /// Whether it is signed.
    pub signed: bool,
    /// Tries, lost ones included.
    pub tries: u32,
    /// Status of each answer that ended a delivery.
    pub answers: Vec<u16>,
    /// Whether nothing more is sent.
    pub over: bool,
}

impl Delivery {
    fn row(&self) -> String {
        format!("{ROWS}{}", self.id)
    }
}

/// Everything that was to be delivered.
pub(super) fn all(store: &Store) -> Result<Vec<Delivery>, StoreError> {
    store.scan(ROWS)
}

/// The callbacks of a write that was carried out; each is named after the key, so that a repeated write has no second one.
pub(super) fn due(
    store: &Store,
    world: &World,
    arrival: &Arrival,
    reply: &Value,
) -> Result<Vec<Delivery>, StoreError> {
    let (mut fresh, mut rows) = (Vec::new(), Rows::default());
    for (nth, webhook) in (1..).zip(&world.webhooks) {
        if webhook.route != arrival.route || arrival.key.is_empty() {
            continue;
        }
        let named = sha256(format!("{} {} {nth}", arrival.tenant, arrival.key).as_bytes());
        let delivery = Delivery {
            tenant: webhook
                .tenant
                .clone()
                .unwrap_or_else(|| arrival.tenant.clone()),
            key: arrival.key.clone(),
            id: format!("desk-{nth}-{}", named.get(..12).unwrap_or_default()),
            value: json!({ "event": arrival.route.name(), "object": reply }),
            times: webhook.times,
            lost: webhook.lost,
            delay_ms: webhook.delay_ms,
            after_end: webhook.after_end,
            signed: webhook.signed,
            tries: 0,
            answers: Vec::new(),
            over: false,
        };
        if store.get::<Delivery>(&delivery.row())?.is_none() {
            rows.put(delivery.row(), &delivery)?;
            fresh.push(delivery);
        }
    }
    if !fresh.is_empty() {
        store.write(rows, Durable::Disk)?;
    }
    Ok(fresh)
}

/// Sends the callbacks of one desk.
pub(super) struct Sender {
    client: Option<reqwest::Client>,
    outside: Option<PathBuf>,
    /// Whether the tree has ended, so that what waits for that is sent.
    ended: watch::Sender<bool>,
}

impl Sender {
    /// One that is told in this file where callbacks go; absent: nowhere, they are kept.
    pub(super) fn new(outside: Option<PathBuf>) -> Self {
        // The client cannot be built without a provider; losing the race to install one is as good as winning it.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(DELIVERY_TIMEOUT);
        Self {
            client: client.build().ok(),
            outside,
            ended: watch::Sender::new(false),
        }
    }

    /// The tree has ended.
    pub(super) fn tree_ended(&self) {
        self.ended.send_replace(true);
    }

    /// Where callbacks go now; none while no host is up.
    async fn target(&self) -> Option<(String, Outside)> {
        let read = |path: PathBuf| async move { tokio::fs::read(path).await.ok() };
        let outside: Outside = serde_json::from_slice(&read(self.outside.clone()?).await?).ok()?;
        let endpoint: Endpoint =
            serde_json::from_slice(&read(outside.endpoint.clone()).await?).ok()?;
        Some((endpoint.http_url, outside))
    }

    /// One try: the status that was answered, if anybody answered.
    async fn send(&self, delivery: &Delivery) -> Option<u16> {
        let (url, outside) = self.target().await?;
        let Delivery {
            tenant,
            key,
            id,
            value,
            ..
        } = delivery;
        let body = json!({ "key": key, "id": id, "value": value }).to_string();
        let request = self
            .client
            .as_ref()?
            .post(format!("{url}/callbacks/{tenant}"));
        let request = match outside.secrets.get(tenant).filter(|_| delivery.signed) {
            Some(secret) => {
                let signature = CallbackSecret::given(secret).sign(body.as_bytes());
                request.header(SIGNATURE_HEADER, signature)
            }
            None => request,
        };
        let answer = request.body(body).send().await.ok()?;
        Some(answer.status().as_u16())
    }
}

/// Delivers in the background, until it is over or too old.
pub(super) fn deliver(desk: &Arc<Desk>, deliveries: Vec<Delivery>) {
    for delivery in deliveries.into_iter().filter(|delivery| !delivery.over) {
        tokio::spawn(Arc::clone(desk).see_through(delivery));
    }
}

impl Desk {
    async fn see_through(self: Arc<Self>, mut delivery: Delivery) {
        if delivery.after_end {
            let mut ended = self.sender.ended.subscribe();
            // An error means that the desk is closing.
            let _ = ended.wait_for(|ended| *ended).await;
        }
        clock::pause(Duration::from_millis(delivery.delay_ms)).await;
        let (since, mut unanswered) = (clock::mono(), 0);
        while !delivery.over {
            delivery.tries += 1;
            let answer = if delivery.tries <= delivery.lost {
                None
            } else {
                self.sender.send(&delivery).await
            };
            match answer {
                // Whoever cannot take it now says so; every other answer is one.
                Some(status) if status != 429 && status < 500 => {
                    delivery.answers.push(status);
                    unanswered = 0;
                }
                Some(_) | None => {
                    clock::pause(clock::backoff(unanswered, AGAIN_FIRST, AGAIN_LONGEST)).await;
                    unanswered += 1;
                }
            }
            let enough = delivery.answers.len() >= delivery.times as usize;
            delivery.over = enough || since.elapsed() > DELIVERY_LONGEST;
            if self.keep(delivery.clone()).await.is_err() {
                return;
            }
        }
    }

    async fn keep(self: &Arc<Self>, delivery: Delivery) -> Result<(), Failed> {
        self.with_store(move |store, _| {
            let mut rows = Rows::default();
            rows.put(delivery.row(), &delivery)?;
            Ok::<_, Refusal>(store.write(rows, Durable::Process)?)
        })
        .await
    }
}
