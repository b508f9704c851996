//! The tool broker: the only way to a tool.
//!
//! It takes nobody's word. What it sends is what the log shows as an open intent of the run's present epoch; arguments, tool, authority and
//! time are checked again at the moment of use (`broker::moment`). What it tells back has three values: happened, did not happen, unknown; and
//! unknown is what everything is after the first byte until an answer says otherwise.
//!
//! It refuses to follow redirects, to send an effect twice, and to send beside a request with the same key.

mod answer;
mod flight;
mod in_process;
mod kept;
mod lane;
mod leave;
mod lookup;
mod moment;
mod outgoing;
mod probe;
mod read;
mod request;
mod rules;
mod target;
mod transport;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use coppice_kernel::{command::EffectOutcome, governor::Subject};
use coppice_messages::{
    Operation, Timestamp, Value,
    event::effect::{Intended, Source},
    ids::{RunId, TenantId, ToolName, TreeId},
};
use coppice_topology::{
    Plan,
    plan::PinnedTool,
    tool::{CredentialSource, Tool},
};

use self::{
    answer::Verdict,
    flight::{Attempt, Flights},
    lane::Lanes,
    leave::Door,
    moment::{Moment, Withheld},
    outgoing::Asking,
    rules::Rules,
    transport::Transport,
};
pub use self::{
    in_process::{
        InProcessTool, InProcessTools, MissingFunction, NoAnswer, ToolCall, ToolFailure, ToolFuture,
    },
    read::ReadRequest,
};
use crate::{
    policy::Policies,
    record::{self, Record},
    schema::Schemas,
    secrets::Secrets,
    token::TokenSigner,
};

/// What a broker is made of.
pub struct BrokerOptions {
    /// The recorder: open intents and blobs.
    pub record: Arc<dyn Record>,
    /// Base addresses by the name that stands for them in contracts: `desk` for `{desk}`.
    pub endpoints: BTreeMap<String, String>,
    /// Functions of the host's own program by the name that contracts give them.
    pub tools: InProcessTools,
    /// Schemas compiled so far.
    pub schemas: Schemas,
    /// The policy set.
    pub policies: Policies,
    /// What signs the token of each request to an HTTP tool; none: there is no token.
    pub signer: Option<TokenSigner>,
    /// Where this host listens itself: no tool may be there.
    pub own: BTreeSet<SocketAddr>,
    /// Where credentials may be taken from, whatever contracts say.
    pub credentials: BTreeSet<CredentialSource>,
    /// What is masked in whatever comes back.
    pub secrets: Secrets,
    /// Where the log stood when the host began: what was intended up to there was intended by a process that is gone.
    pub begins_at: u64,
}

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client for tools can be made")]
pub struct BrokerError(#[from] reqwest::Error);

/// A tool that names a base URL which this host was not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool {tool} needs {{{place}}}, and this host was not told where that is: start it with --endpoint {place}=URL{}",
    if .place == "desk" { " or --with-desk" } else { "" }
)]
pub struct UnknownEndpoint {
    /// Which tool.
    pub tool: ToolName,
    /// Which name.
    pub place: String,
}

/// One effect to be sent, or to be found out.
#[derive(Clone)]
pub struct SendRequest {
    /// The run's release.
    pub plan: Arc<Plan>,
    /// Whose run.
    pub tenant: TenantId,
    /// Its tree.
    pub tree: TreeId,
    /// The run.
    pub run: RunId,
    /// The run's present epoch.
    pub epoch: u64,
    /// The run's deadline.
    pub deadline: Timestamp,
    /// As recorded.
    pub intended: Arc<Intended>,
    /// Who wants it; none when that is not known.
    pub subject: Option<Subject>,
    /// W3C traceparent, passed on.
    pub trace: Option<String>,
}

/// The only way to a tool; cheap to clone.
#[derive(Clone)]
pub struct ToolBroker {
    inner: Arc<Inner>,
}

struct Inner {
    record: Arc<dyn Record>,
    endpoints: BTreeMap<String, String>,
    tools: InProcessTools,
    schemas: Schemas,
    policies: Policies,
    begins_at: u64,
    transport: Transport,
    door: Door,
    lanes: Lanes,
    flights: Flights,
}

impl ToolBroker {
    /// Whether this host was told every base URL that a tool of a plan names: without it the first call would fail, with work done before.
    pub(crate) fn reaches(&self, plan: &Plan) -> Result<(), UnknownEndpoint> {
        let known = &self.inner.endpoints;
        for name in plan.used_tools() {
            let Some(tool) = plan.tools.get(name) else {
                continue;
            };
            let mut named = tool.contract.endpoints().into_iter();
            if let Some(place) = named.find(|place| !known.contains_key(*place)) {
                return Err(UnknownEndpoint {
                    tool: name.clone(),
                    place: place.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The first tool of a plan whose credential this host may not take: which tool, and from where.
    pub(crate) fn unknown_credential(&self, plan: &Plan) -> Option<(ToolName, String)> {
        let known = &self.inner.door.allowed;
        plan.used_tools().into_iter().find_map(|name| {
            let from = &plan.tools.get(name)?.contract.credential()?.from;
            (!known.contains(from)).then(|| (name.clone(), from.to_string()))
        })
    }

    /// A broker with nothing in flight.
    ///
    /// # Errors
    /// [`BrokerError`] when the HTTP client cannot be made.
    pub fn new(options: BrokerOptions) -> Result<Self, BrokerError> {
        let BrokerOptions {
            record,
            endpoints,
            tools,
            schemas,
            policies,
            signer,
            own,
            credentials,
            secrets,
            begins_at,
        } = options;
        let door = Door {
            signer,
            own,
            allowed: credentials,
            secrets: secrets.clone(),
        };
        door.learn_what_is_there();
        Ok(Self {
            inner: Arc::new(Inner {
                record,
                endpoints,
                tools,
                schemas,
                policies,
                begins_at,
                transport: Transport::new(secrets)?,
                door,
                lanes: Lanes::new(),
                flights: Flights::default(),
            }),
        })
    }

    /// Whether this host has every function that a release needs.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), MissingFunction> {
        self.inner.tools.check(plan)
    }

    /// Sends an effect that is intended and open in the log; at most once, also when it is called again. The request goes on when the caller
    /// goes away, and its answer waits for [`Self::reconcile`].
    pub async fn send(&self, request: SendRequest) -> EffectOutcome {
        if request.intended.operation == Operation::Read {
            // Nothing is lost with a read: it ends with its caller, and the next attempt need not wait for it.
            return self.clone().dispatch(request).await;
        }
        let key = (request.tenant.clone(), request.intended.key);
        let attempt = Attempt {
            run: request.run.clone(),
            epoch: request.epoch,
            attempt: request.intended.attempt,
        };
        let work = self.clone().dispatch(request);
        match self.inner.flights.begin(&key, attempt, work) {
            Ok(flight) => self.inner.flights.take(&key, &flight).await,
            Err(under_way) => EffectOutcome::NotSent {
                why: under_way.to_string(),
            },
        }
    }

    /// Finds out what became of an effect: from the answer of its request if that is still in flight in this host, else by the tool's look-up.
    /// Comes back with [`EffectOutcome::Reconciled`] or [`EffectOutcome::Unresolvable`], however long that takes.
    pub async fn reconcile(&self, request: SendRequest) -> EffectOutcome {
        let tool = match pinned(&request.plan, &request.intended) {
            Ok(tool) => &tool.contract,
            Err(why) => return EffectOutcome::Unresolvable { why },
        };
        let key = (request.tenant.clone(), request.intended.key);
        if let Some(flight) = self.inner.flights.of(&key, &request.run) {
            let answer = self.inner.flights.take(&key, &flight).await;
            if let Some(landed) = answer.settles() {
                return EffectOutcome::Reconciled {
                    landed,
                    source: Source::Answer,
                };
            }
        }
        Box::pin(self.look_up(&request, tool)).await
    }

    async fn dispatch(self, request: SendRequest) -> EffectOutcome {
        self.try_dispatch(&request).await.unwrap_or_else(Into::into)
    }

    async fn try_dispatch(&self, request: &SendRequest) -> Result<EffectOutcome, Withheld> {
        let SendRequest {
            plan,
            tenant,
            run,
            epoch,
            deadline,
            intended,
            subject,
            ..
        } = request;
        let tool = &authorised(plan, intended)
            .map_err(Withheld::Withdrawn)?
            .contract;
        let moment = Arc::new(Moment::new(
            self.inner.record.clone(),
            (tenant, run, *epoch),
            *deadline,
            intended.clone(),
            Rules {
                policies: self.inner.policies.clone(),
                subject: subject.clone(),
                plan: plan.clone(),
            },
        ));
        moment.check()?;
        let arguments = self.arguments(request, tool).map_err(Withheld::Withdrawn)?;
        let asking = Asking {
            tenant,
            run,
            key: Some(intended.key),
            arguments: &arguments,
            receipt: None,
            trace: request.trace.as_deref(),
        };
        let outgoing = self.inner.outgoing(tool, asking);
        let mut outgoing = outgoing.map_err(Withheld::Withdrawn)?;
        let place = self.inner.lanes.enter(tool, Some(moment.latest())).await;
        let _place = place.map_err(|full| Withheld::NoPlace(full.to_string()))?;
        self.look_before(tool, asking, moment.latest()).await?;
        if let Some(target) = self.target(tool, asking, moment.latest()).await? {
            outgoing.bind(&target);
        }
        moment.check()?;
        let (verdict, usage) = self
            .inner
            .exchange(tool, outgoing, &moment, &intended.reserved)
            .await;
        Ok(match verdict {
            Verdict::Not(outcome) => outcome,
            Verdict::Landed(inspected) => {
                let (receipt, result, value) = self.kept(tenant, tool, inspected).await;
                EffectOutcome::Landed {
                    receipt,
                    result,
                    value,
                    usage,
                }
            }
        })
    }

    /// The arguments that the log holds, held against the tool's schema.
    fn arguments(&self, request: &SendRequest, tool: &Tool) -> Result<Value, String> {
        let intended = &request.intended;
        let arguments = record::resolve(&*self.inner.record, &request.tenant, &intended.arguments)
            .ok_or("the arguments of the intent are not in the log")?;
        self.checked(tool, &arguments)?;
        Ok(arguments)
    }

    fn checked(&self, tool: &Tool, arguments: &Value) -> Result<(), String> {
        let schemas = &self.inner.schemas;
        schemas
            .check_arguments(&tool.input, arguments)
            .map_err(|mismatch| format!("arguments of {}: {mismatch}", tool.tool))
    }
}

/// The tool of an intent, of the very contract under which it was intended.
fn pinned<'a>(plan: &'a Plan, intended: &Intended) -> Result<&'a PinnedTool, String> {
    let tool = plan.tools.get(&intended.tool);
    let tool = tool.ok_or_else(|| format!("{} is not in the release", intended.tool))?;
    if tool.digest == intended.tool_digest {
        Ok(tool)
    } else {
        let name = &intended.tool;
        Err(format!(
            "{name} was intended under another contract than the release's"
        ))
    }
}

/// What the contract of the release lets anybody do; what this run may do was decided when it was intended.
fn authorised<'a>(plan: &'a Plan, intended: &Intended) -> Result<&'a PinnedTool, String> {
    let tool = pinned(plan, intended)?;
    let (name, operation) = (&intended.tool, tool.contract.operation);
    let authority = &plan.contract.authority;
    if operation != intended.operation {
        return Err(format!(
            "{name} does {operation}, not {}",
            intended.operation
        ));
    }
    if !authority.tools.contains(name) && !authority.may_delegate.contains(name) {
        return Err(format!("the contract gives nobody {name}"));
    }
    if operation.access() > authority.access {
        let (needed, given) = (operation.access(), authority.access);
        return Err(format!("{name} needs {needed}, the contract gives {given}"));
    }
    if !plan.contract.allowed_operations.contains_key(&operation) {
        return Err(format!("the contract allows no {operation}"));
    }
    Ok(tool)
}
