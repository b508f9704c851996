//! One decision: the question as a request of Cedar, its answer as ours.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{
    AuthorizationError, Context, Effect, Entities, Entity, EntityId, EntityTypeName, EntityUid,
    PolicyId, Request, Response, RestrictedExpression,
};
use coppice_kernel::governor::{Governor, Judged, Question};
use coppice_messages::{Digest, Operation, event::policy::Decision};

use super::{
    set::PolicySet,
    value::{amounts, arguments, record, text},
};
use crate::limits::{POLICY_ARGUMENT_BYTES, POLICY_ARGUMENT_PARTS, POLICY_NAMED_MAX};

/// Why there is nothing to decide: it is denied.
struct Denial(String);

impl Governor for PolicySet {
    fn judge(&self, question: &Question<'_>) -> Judged {
        match self.request(question) {
            Ok((request, entities)) => {
                let answer = self
                    .authorizer
                    .is_authorized(&request, &self.policies, &entities);
                self.judged(question, &answer)
            }
            Err(Denial(reason)) => self.denied(Vec::new(), reason),
        }
    }

    fn version(&self) -> Digest {
        self.digest()
    }
}

impl PolicySet {
    fn request(&self, question: &Question<'_>) -> Result<(Request, Entities), Denial> {
        let subject = question.subject;
        let uid = |of: &EntityTypeName, id: &str| {
            EntityUid::from_type_name_and_id(of.clone(), EntityId::new(id))
        };
        let context = context(question)?;
        let principal = uid(&self.types.workload, subject.run.as_str());
        let action = uid(&self.types.action, question.tool.contract.tool.as_str());
        let Some((kind, id)) = question.resource() else {
            let tool = &question.tool.contract.tool;
            return Err(Denial(format!(
                "the arguments of {tool} do not say what it touches"
            )));
        };
        let resource = uid(&self.types.resource, &format!("{kind}::{id}"));
        if let Some(owner) = self.tenants.get(&resource)
            && owner != subject.tenant.as_str()
        {
            return Err(Denial(format!(
                "{kind}::{id} belongs to another tenant than {}",
                subject.tenant
            )));
        }
        let mut entities = vec![self.workload(question, principal.clone())?];
        if self.entities.get(&resource).is_none() {
            let attributes = [("kind", text(kind)), ("id", text(id.as_str()))];
            entities.push(entity(resource.clone(), attributes, HashSet::new())?);
        }
        match self.entities.get(&action) {
            Some(_) => self.agree(&action, question.tool.contract.operation)?,
            None => {
                let operation = question.tool.contract.operation.to_string();
                let group = uid(&self.types.action, &operation);
                entities.push(Entity::new_no_attrs(action.clone(), [group].into()));
            }
        }
        let entities = self.entities.clone().add_entities(entities, None);
        let entities = entities.map_err(|error| unusable(&error))?;
        let request = Request::new(principal, action, resource, context, None);
        Ok((request.map_err(|error| unusable(&error))?, entities))
    }

    /// The run, below the user who launched it and the agent that is at work.
    fn workload(&self, question: &Question<'_>, uid: EntityUid) -> Result<Entity, Denial> {
        let subject = question.subject;
        let agent = subject.agent.as_ref().map_or("", |agent| agent.as_str());
        let mut parents = HashSet::new();
        if let Some(user) = subject.principal.strip_prefix("user:") {
            let (of, id) = (self.types.user.clone(), EntityId::new(user));
            parents.insert(EntityUid::from_type_name_and_id(of, id));
        }
        if !agent.is_empty() {
            let (of, id) = (self.types.agent.clone(), EntityId::new(agent));
            parents.insert(EntityUid::from_type_name_and_id(of, id));
        }
        let attributes = [
            ("tenant", text(subject.tenant.as_str())),
            ("tree", text(subject.tree.as_str())),
            (
                "depth",
                RestrictedExpression::new_long(i64::from(subject.depth)),
            ),
            ("agent", text(agent)),
            ("launched_by", text(subject.principal.as_str())),
        ];
        entity(uid, attributes, parents)
    }

    /// A schema that puts a tool among the reads, whose contract says that it pays, is not followed.
    fn agree(&self, action: &EntityUid, operation: Operation) -> Result<(), Denial> {
        let groups: BTreeSet<&str> = self
            .entities
            .ancestors(action)
            .into_iter()
            .flatten()
            .map(|group| group.id().unescaped())
            .collect();
        let said = |operation: &Operation| groups.contains(operation.to_string().as_str());
        let agrees = said(&operation)
            && Operation::ALL
                .iter()
                .all(|other| *other == operation || !said(other));
        if agrees {
            return Ok(());
        }
        let tool = action.id().unescaped();
        Err(Denial(format!(
            "the contract of {tool} says {operation}, the schema of the policies does not: write action {tool} in [{operation}]"
        )))
    }

    fn judged(&self, question: &Question<'_>, answer: &Response) -> Judged {
        let mut faults: Vec<_> = answer.diagnostics().errors().collect();
        if !faults.is_empty() {
            faults.sort_by_key(|fault| failed(fault).to_string());
            let named = faults.iter().map(|fault| failed(fault).clone());
            let reason = format!("a policy cannot be evaluated: {}", faults[0]);
            return self.denied(named.collect(), reason);
        }
        let decisive: Vec<PolicyId> = answer.diagnostics().reason().cloned().collect();
        match answer.decision() {
            cedar_policy::Decision::Deny if decisive.is_empty() => {
                let tool = &question.tool.contract.tool;
                self.denied(Vec::new(), format!("no policy permits {tool}"))
            }
            cedar_policy::Decision::Deny => {
                let reason = self.reasons(&decisive, Effect::Forbid);
                self.denied(decisive, reason)
            }
            cedar_policy::Decision::Allow => {
                // The strictest of those that permit it counts.
                let strictest = decisive
                    .iter()
                    .filter_map(|id| self.annotations.get(id)?.approve.as_ref())
                    .max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a)));
                let decision = match strictest {
                    Some((by, people)) => Decision::Approve {
                        by: by.clone(),
                        people: *people,
                    },
                    None => Decision::Allow,
                };
                let reason = self.reasons(&decisive, Effect::Permit);
                self.answer(decision, decisive, reason)
            }
        }
    }

    /// What the decisive policies say for themselves.
    fn reasons(&self, decisive: &[PolicyId], effect: Effect) -> String {
        let said: BTreeSet<&str> = decisive
            .iter()
            .filter_map(|id| Some(self.annotations.get(id)?.reason.as_str()))
            .filter(|reason| !reason.is_empty())
            .collect();
        let said: Vec<&str> = said.into_iter().take(POLICY_NAMED_MAX).collect();
        match (said.as_slice(), effect) {
            ([], Effect::Forbid) => "a policy forbids it".to_owned(),
            (said, _) => said.join("; "),
        }
    }

    fn denied(&self, policies: Vec<PolicyId>, reason: String) -> Judged {
        self.answer(Decision::Deny, policies, reason)
    }

    fn answer(&self, decision: Decision, policies: Vec<PolicyId>, reason: String) -> Judged {
        let mut policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
        policies.sort();
        policies.truncate(POLICY_NAMED_MAX);
        Judged {
            decision,
            policy: self.digest(),
            policies,
            reason,
        }
    }
}

fn failed(fault: &AuthorizationError) -> &PolicyId {
    match fault {
        AuthorizationError::PolicyEvaluationError(fault) => fault.policy_id(),
    }
}

fn entity<const N: usize>(
    uid: EntityUid,
    attributes: [(&str, RestrictedExpression); N],
    parents: HashSet<EntityUid>,
) -> Result<Entity, Denial> {
    let attributes: HashMap<String, RestrictedExpression> = attributes
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Entity::new(uid, attributes, parents).map_err(|error| unusable(&error))
}

fn context(question: &Question<'_>) -> Result<Context, Denial> {
    let (subject, contract) = (question.subject, &question.tool.contract);
    let asked = question
        .arguments
        .and_then(|asked| Some((arguments(asked)?, amounts(asked))));
    let Some((arguments, amounts)) = asked else {
        return Err(Denial(format!(
            "the arguments have more than {POLICY_ARGUMENT_BYTES} bytes or {POLICY_ARGUMENT_PARTS} parts, so no policy looks at them"
        )));
    };
    let amount =
        |amount: u64| RestrictedExpression::new_long(i64::try_from(amount).unwrap_or(i64::MAX));
    let budget = record([
        ("steps".to_owned(), amount(subject.left.steps)),
        ("tokens".to_owned(), amount(subject.left.tokens)),
        ("cost".to_owned(), amount(subject.left.cost)),
        ("network".to_owned(), amount(subject.left.network)),
    ]);
    let taint = subject.taint.iter().map(|taint| text(taint.word()));
    let destinations = contract.endpoints().into_iter().map(text);
    let pairs = [
        ("tenant", text(subject.tenant.as_str())),
        ("effect", text(contract.effect.word())),
        ("operation", text(contract.operation.to_string())),
        ("access", text(subject.access.to_string())),
        ("taint", RestrictedExpression::new_set(taint)),
        ("destinations", RestrictedExpression::new_set(destinations)),
        ("budget", budget),
        ("amounts", amounts),
        ("arguments", arguments),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    Context::from_pairs(pairs).map_err(|error| unusable(&error))
}

fn unusable(error: &dyn std::error::Error) -> Denial {
    let said = crate::inspect::with_causes(error);
    Denial(format!(
        "the question cannot be put to the policies: {said}"
    ))
}
