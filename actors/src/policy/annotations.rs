//! Annotations of a policy: its name, why it is there, and who must approve what it permits.

use cedar_policy::{Effect, Policy};

use crate::limits::{POLICY_PEOPLE_MAX, POLICY_REASON_MAX};

/// Every annotation that has a meaning. Another one is a mistake: a misspelt `@approve` must not permit.
const KNOWN: [&str; 5] = ["id", "approve", "people", "reason", "note"];

/// What the annotations of a policy say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Annotations {
    /// Why it is there, for people and agents.
    pub reason: String,
    /// Who must approve what it permits, and how many of them.
    pub approve: Option<(String, u32)>,
}

/// What is wrong with an annotation: which, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub annotation: String,
    pub message: String,
    pub help: &'static str,
}

impl Annotations {
    pub fn of(policy: &Policy) -> Result<Self, Fault> {
        let fault = |annotation: &str, message: String, help| Fault {
            annotation: annotation.to_owned(),
            message,
            help,
        };
        for (name, _) in policy.annotations() {
            if !KNOWN.contains(&name) {
                let message = format!("@{name} has no meaning");
                let help = "known are @id, @approve, @people, @reason and, for remarks, @note";
                return Err(fault(name, message, help));
            }
        }
        let reason = policy.annotation("reason").unwrap_or_default().to_owned();
        if reason.len() > POLICY_REASON_MAX {
            let message = format!("a reason has at most {POLICY_REASON_MAX} bytes");
            return Err(fault("reason", message, "say it in one sentence"));
        }
        let (approve, people) = (policy.annotation("approve"), policy.annotation("people"));
        let Some(by) = approve else {
            return match people {
                Some(_) => Err(fault(
                    "people",
                    "@people says how many must approve, and nothing says who".to_owned(),
                    "write @approve(\"role:NAME\") beside it",
                )),
                None => Ok(Self {
                    reason,
                    approve: None,
                }),
            };
        };
        if policy.effect() == Effect::Forbid {
            return Err(fault(
                "approve",
                "what is forbidden cannot be approved".to_owned(),
                "annotate the permit",
            ));
        }
        if !matches!(by.split_once(':'), Some(("role" | "user", name)) if !name.is_empty()) {
            return Err(fault(
                "approve",
                format!("{by:?} is nobody"),
                "write role:NAME or user:NAME",
            ));
        }
        let people = match people.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(people)) if (1..=POLICY_PEOPLE_MAX).contains(&people) => people,
            Some(_) => {
                return Err(fault(
                    "people",
                    format!("@people is a number from 1 to {POLICY_PEOPLE_MAX}, in quotes"),
                    "write @people(\"2\") for two people",
                ));
            }
        };
        Ok(Self {
            reason,
            approve: Some((by.to_owned(), people)),
        })
    }
}
