//! A policy set: parsed, held against its schema, and ready to be asked.

use std::{
    collections::{BTreeMap, HashMap},
    str::FromStr as _,
};

use cedar_policy::{
    Authorizer, Entities, Entity, EntityTypeName, EntityUid, EvalResult, Policy, PolicyId, Schema,
    ValidationMode, ValidationWarning, Validator,
};
use coppice_messages::Digest;
use coppice_topology::{Diagnostic, Diagnostics};

use super::{
    annotations::Annotations,
    files::{ENTITIES_FILE, PolicyFiles, SCHEMA_FILE},
    place::Place,
};
use crate::limits::{POLICIES_MAX, POLICY_ENTITIES_MAX};

/// A policy set that holds together.
pub struct PolicySet {
    pub(super) authorizer: Authorizer,
    pub(super) policies: cedar_policy::PolicySet,
    pub(super) entities: Entities,
    pub(super) annotations: HashMap<PolicyId, Annotations>,
    /// Whose the resources are of which it is known.
    pub(super) tenants: HashMap<EntityUid, String>,
    pub(super) types: Types,
    version: Digest,
    files: BTreeMap<String, Digest>,
}

/// The entity types that the host itself makes entities of.
pub(super) struct Types {
    pub workload: EntityTypeName,
    pub user: EntityTypeName,
    pub agent: EntityTypeName,
    pub action: EntityTypeName,
    pub resource: EntityTypeName,
}

impl Types {
    fn new() -> Option<Self> {
        let name = |text: &str| EntityTypeName::from_str(text).ok();
        Some(Self {
            workload: name("Workload")?,
            user: name("User")?,
            agent: name("Agent")?,
            action: name("Action")?,
            resource: name("Resource")?,
        })
    }
}

impl PolicySet {
    /// Reads a policy set whole.
    ///
    /// # Errors
    /// Everything that is wrong, each with its place.
    pub fn load(files: &PolicyFiles) -> Result<Self, Diagnostics> {
        let mut wrong = Vec::new();
        let schema = schema(files).map_err(Diagnostics)?;
        let (policies, annotations) = policies(files, &mut wrong);
        validate(files, &schema, &policies, &mut wrong);
        let entities = match entities(files, &schema) {
            Ok(entities) => entities,
            Err(fault) => {
                wrong.push(fault);
                Entities::empty()
            }
        };
        let types = Types::new();
        let (Some(types), true) = (types, wrong.is_empty()) else {
            wrong.sort();
            return Err(Diagnostics(wrong));
        };
        Ok(Self {
            authorizer: Authorizer::new(),
            tenants: tenants(&entities, &types.resource),
            policies: policies.into_iter().fold(
                cedar_policy::PolicySet::new(),
                |mut set, (_, policy)| {
                    // Ids that stand twice were refused above.
                    let _ = set.add(policy);
                    set
                },
            ),
            entities,
            annotations,
            types,
            version: files.version(),
            files: files.digests(),
        })
    }

    /// The digest of its files.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.version
    }

    /// Its files with their digests.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Digest> {
        &self.files
    }

    /// How many policies it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.policies.num_of_policies()
    }

    /// Whether it has none, so that it denies everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn schema(files: &PolicyFiles) -> Result<Schema, Vec<Diagnostic>> {
    let path = files.path(SCHEMA_FILE);
    let text = files.texts().get(SCHEMA_FILE);
    let place = Place {
        file: &path,
        text: text.map_or("", String::as_str),
    };
    match Schema::from_cedarschema_str(place.text) {
        Ok((schema, _)) => Ok(schema),
        Err(error) => Err(place.said(&error)),
    }
}

type Parsed = Vec<(String, Policy)>;

/// The policies with the names of their files, under the ids that their authors gave them.
fn policies(
    files: &PolicyFiles,
    wrong: &mut Vec<Diagnostic>,
) -> (Parsed, HashMap<PolicyId, Annotations>) {
    let (mut found, mut annotations) = (Parsed::new(), HashMap::new());
    for (name, text) in files.texts() {
        let Some(stem) = name.strip_suffix(".cedar") else {
            continue;
        };
        let path = files.path(name);
        let place = Place { file: &path, text };
        let set = match cedar_policy::PolicySet::from_str(text) {
            Ok(set) => set,
            Err(errors) => {
                wrong.extend(place.said(&errors));
                continue;
            }
        };
        if set.num_of_templates() > 0 {
            let message =
                "a policy with ?principal or ?resource is a template, which nothing fills";
            wrong.push(place.at_text("?", message));
        }
        let mut parsed: Vec<(u64, &Policy)> = set.policies().map(|p| (nth(p), p)).collect();
        parsed.sort_by_key(|(nth, _)| *nth);
        for (nth, policy) in parsed {
            let id = match policy.annotation("id") {
                Some(id) if !id.is_empty() => id.to_owned(),
                Some(_) | None => format!("{stem}.{}", nth + 1),
            };
            let id = PolicyId::new(id);
            if annotations.contains_key(&id) {
                let message = format!("two policies have the id {id}");
                let fault = place.at_text(&format!("@id(\"{id}\")"), message);
                wrong.push(fault.help("an id stands in every decision: give each policy its own"));
            }
            match Annotations::of(policy) {
                Ok(said) => {
                    annotations.insert(id.clone(), said);
                }
                Err(fault) => {
                    let at = format!("@{}", fault.annotation);
                    wrong.push(place.at_text(&at, fault.message).help(fault.help));
                }
            }
            found.push((name.clone(), policy.new_id(id)));
        }
    }
    if found.len() > POLICIES_MAX {
        let path = files.path(SCHEMA_FILE);
        let place = Place {
            file: &path,
            text: "",
        };
        wrong.push(place.whole(format!("a set has at most {POLICIES_MAX} policies")));
    }
    (found, annotations)
}

/// Cedar numbers the policies of a file in their order.
fn nth(policy: &Policy) -> u64 {
    let id: &str = policy.id().as_ref();
    id.trim_start_matches("policy").parse().unwrap_or(u64::MAX)
}

fn validate(files: &PolicyFiles, schema: &Schema, parsed: &Parsed, wrong: &mut Vec<Diagnostic>) {
    let validator = Validator::new(schema.clone());
    for (name, policy) in parsed {
        let path = files.path(name);
        let text = files.texts().get(name).map_or("", String::as_str);
        let place = Place { file: &path, text };
        let Ok(alone) = cedar_policy::PolicySet::from_policies([policy.clone()]) else {
            continue;
        };
        let said = validator.validate(&alone, ValidationMode::default());
        for error in said.validation_errors() {
            wrong.extend(place.said(error));
        }
        for warning in said.validation_warnings() {
            // One about an operation of which the schema has no tool yet is not wrong; one that reads otherwise than it looks is.
            if !matches!(warning, ValidationWarning::ImpossiblePolicy(_)) {
                wrong.extend(place.said(warning));
            }
        }
    }
}

fn entities(files: &PolicyFiles, schema: &Schema) -> Result<Entities, Diagnostic> {
    let path = files.path(ENTITIES_FILE);
    let text = files.texts().get(ENTITIES_FILE);
    let text = text.map_or("[]", String::as_str);
    let place = Place { file: &path, text };
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let mut fault = place.whole(format!("this is no JSON: {error}"));
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        (fault.line, fault.column) = (small(error.line()), small(error.column()));
        fault
    })?;
    let entities = Entities::from_json_value(json, Some(schema)).map_err(|error| {
        let said = with_causes(&error);
        // Cedar names the entity and not its place.
        let named = said.split('"').nth(1).map(|id| format!("\"{id}\""));
        match named {
            Some(named) => place.at_text(&named, said.clone()),
            None => place.whole(said.clone()),
        }
    })?;
    if entities.len() > POLICY_ENTITIES_MAX {
        return Err(place.whole(format!(
            "a set has at most {POLICY_ENTITIES_MAX} entities, actions included"
        )));
    }
    Ok(entities)
}

fn with_causes(error: &dyn std::error::Error) -> String {
    crate::inspect::with_causes(error)
}

/// Whose each resource of the set is.
fn tenants(entities: &Entities, resource: &EntityTypeName) -> HashMap<EntityUid, String> {
    let of = |entity: &Entity| {
        let uid = entity.uid();
        let tenant = (uid.type_name() == resource).then(|| entity.attr("tenant"));
        match tenant {
            Some(Some(Ok(EvalResult::String(tenant)))) => Some((uid, tenant)),
            _ => None,
        }
    };
    entities.iter().filter_map(of).collect()
}
