//! The model gateway: the only way to a model.
//!
//! What a model says is data. The gateway bounds it, puts what is large into blobs, holds an answer against the agent's result schema, and
//! says what it used; it decides nothing. Routes are a closed set: a model that none of them serves is refused with what would serve.

mod scripted;

use std::sync::Arc;

use coppice_kernel::{Turned, command::ModelOutcome};
use coppice_messages::{
    Millis, Payload, Spent, Value,
    event::model::{Asked, Proposal},
    ids::{RunId, TenantId},
};
use coppice_store::clock;
use coppice_topology::{Plan, plan::Agent};

use self::scripted::Scripts;
use crate::{
    limits::PROPOSAL_BYTES_MAX,
    record::{self, Apart, Record},
    schema::{Mismatch, Schemas},
};

/// What a gateway is made of.
pub struct GatewayOptions {
    /// The recorder: documents of releases and blobs.
    pub record: Arc<dyn Record>,
    /// Schemas compiled so far.
    pub schemas: Schemas,
}

/// One question to a model.
#[derive(Clone)]
pub struct AskRequest {
    /// The run's release.
    pub plan: Arc<Plan>,
    /// Whose run.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// As recorded.
    pub asked: Arc<Asked>,
    /// What the agent works on.
    pub input: Value,
    /// The calls before, with their results.
    pub turns: Arc<Vec<Turned>>,
}

/// The only way to a model; cheap to clone.
#[derive(Clone)]
pub struct ModelGateway {
    record: Arc<dyn Record>,
    schemas: Schemas,
    scripts: Scripts,
}

/// Which way leads to a model.
enum Route<'a> {
    /// A script of the release.
    Scripted(&'a coppice_messages::Digest),
}

/// What a model proposes, before it is checked and kept.
enum Offer {
    Say(String),
    Call {
        tool: coppice_messages::ids::ToolName,
        arguments: Value,
    },
    Delegate(Box<coppice_topology::script::ProposeDelegation>),
    Answer(Value),
}

/// A model's turn.
struct Spoken {
    offer: Result<Offer, Failure>,
    tokens: u64,
}

/// Why a call brings no proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    class: String,
    message: String,
}

impl Failure {
    fn new(class: &str, message: impl Into<String>) -> Self {
        Self {
            class: class.to_owned(),
            message: message.into(),
        }
    }

    fn malformed(message: impl Into<String>) -> Self {
        Self::new("malformed", message)
    }
}

impl ModelGateway {
    /// A gateway that has read no script yet.
    #[must_use]
    pub fn new(options: GatewayOptions) -> Self {
        Self {
            record: options.record,
            schemas: options.schemas,
            scripts: Scripts::default(),
        }
    }

    /// Asks a model. A question that is dropped is lost: it is asked anew, and the kernel charges both.
    pub async fn ask(&self, request: AskRequest) -> ModelOutcome {
        let began = clock::mono();
        let reserved = &request.asked.reserved;
        let spoken = match self.speak(&request).await {
            Ok(spoken) => spoken,
            Err(failure) => return failed(failure, Spent::step()),
        };
        let usage = Spent {
            tokens: spoken.tokens.min(reserved.tokens),
            ..Spent::step()
        };
        if spoken.tokens > reserved.tokens {
            let failure = Failure::new(
                "tokens_exceeded",
                format!(
                    "the turn uses {} tokens, {} were reserved: raise tokens_per_call of the agent {}",
                    spoken.tokens, reserved.tokens, request.asked.agent
                ),
            );
            return failed(failure, usage);
        }
        let proposed = match spoken.offer {
            Ok(offer) => self.take(&request, offer).await,
            Err(failure) => Err(failure),
        };
        match proposed {
            Ok((proposal, answer_valid)) => ModelOutcome::Proposed {
                proposal,
                answer_valid,
                usage,
                latency: Millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
            },
            Err(failure) => failed(failure, usage),
        }
    }

    async fn speak(&self, request: &AskRequest) -> Result<Spoken, Failure> {
        match route(request)? {
            Route::Scripted(digest) => self.scripts.speak(&*self.record, request, digest).await,
        }
    }

    /// Bounds an offer, checks an answer, and keeps what is large.
    async fn take(
        &self,
        request: &AskRequest,
        offer: Offer,
    ) -> Result<(Proposal, Result<(), (String, String)>), Failure> {
        let fine = Ok(());
        Ok(match offer {
            Offer::Say(text) => {
                bounded(text.len())?;
                (Proposal::Say(text), fine)
            }
            Offer::Call { tool, arguments } => {
                let arguments = self.keep(&request.tenant, arguments).await?;
                (Proposal::Call { tool, arguments }, fine)
            }
            Offer::Delegate(wanted) => {
                let items = wanted.items.iter().map(|item| item.canonical().len());
                let envelope = serde_json::to_vec(&wanted.delegation).map_or(0, |json| json.len());
                bounded(items.sum::<usize>() + envelope)?;
                let proposal = Proposal::Delegate {
                    agent: wanted.agent,
                    items: wanted.items,
                    delegation: Box::new(wanted.delegation),
                };
                (proposal, fine)
            }
            Offer::Answer(answer) => {
                let valid = self
                    .check_answer(request, &answer)?
                    .map_err(|mismatch| (mismatch.path, mismatch.why));
                let answer = self.keep(&request.tenant, answer).await?;
                (Proposal::Answer(answer), valid)
            }
        })
    }

    async fn keep(&self, tenant: &TenantId, value: Value) -> Result<Payload, Failure> {
        let kept = record::keep(&*self.record, tenant, value, Apart::WhenLarge).await;
        kept.map_err(|too_large| Failure::malformed(too_large.to_string()))
    }

    /// Whether an answer meets the agent's result schema. An empty object proves nothing, whatever the schema says.
    fn check_answer(
        &self,
        request: &AskRequest,
        answer: &Value,
    ) -> Result<Result<(), Mismatch>, Failure> {
        let agent = agent(request)?;
        let schema = request.plan.agent_schema(agent);
        let document = schema
            .as_ref()
            .and_then(|schema| self.record.blob(&request.tenant, &schema.digest));
        let Some(document) = document else {
            let name = &agent.result_schema;
            let message = format!("the result schema {name} of the release is not in the log");
            return Err(Failure::new("unavailable", message));
        };
        if matches!(answer, Value::Map(members) if members.is_empty()) {
            return Ok(Err(Mismatch {
                path: String::new(),
                why: "an empty object is no result".to_owned(),
            }));
        }
        Ok(self.schemas.check_document(&document, answer))
    }
}

fn route(request: &AskRequest) -> Result<Route<'_>, Failure> {
    let (wanted, models) = (&request.asked.route, &request.plan.manifest.models);
    if let Some(digest) = models.get(wanted) {
        return Ok(Route::Scripted(digest));
    }
    let known: Vec<&str> = models.keys().map(String::as_str).collect();
    Err(Failure::new(
        "no_route",
        format!(
            "nothing leads to the model {wanted:?}: this host serves scripted/NAME, and the release has {}",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        ),
    ))
}

fn agent(request: &AskRequest) -> Result<&Agent, Failure> {
    let name = &request.asked.agent;
    request
        .plan
        .agents
        .get(name)
        .ok_or_else(|| Failure::new("unavailable", format!("the release has no agent {name}")))
}

fn bounded(bytes: usize) -> Result<(), Failure> {
    if bytes <= PROPOSAL_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::malformed(format!(
        "the proposal has {bytes} bytes, more than {PROPOSAL_BYTES_MAX}"
    )))
}

fn failed(failure: Failure, usage: Spent) -> ModelOutcome {
    let Failure { class, message } = failure;
    ModelOutcome::Failed {
        class,
        message,
        usage,
    }
}
