//! The policy set at the moment of use: the question of the intent again, put to whatever set is in force by now.

use std::sync::Arc;

use coppice_kernel::governor::{Question, Subject};
use coppice_messages::event::{effect::Intended, policy::Decision};
use coppice_topology::Plan;

use super::moment::Withheld;
use crate::policy::Policies;

/// By what one effect is judged.
pub(super) struct Rules {
    pub policies: Policies,
    pub subject: Option<Subject>,
    pub plan: Arc<Plan>,
}

impl Rules {
    /// Whether the set in force lets it happen. The version that the intent names has said so already.
    pub fn check(&self, intended: &Intended) -> Result<(), Withheld> {
        let Some(governor) = self.policies.governor() else {
            return Ok(());
        };
        if intended.policy == Some(governor.version()) {
            return Ok(());
        }
        let tool = self.plan.tools.get(&intended.tool);
        let (Some(subject), Some(tool)) = (&self.subject, tool) else {
            let why = "who wants it is not known, so no policy can permit it";
            return Err(Withheld::Withdrawn(why.to_owned()));
        };
        let judged = governor.judge(&Question::about(subject, tool, intended));
        match judged.decision {
            Decision::Allow => Ok(()),
            Decision::Deny | Decision::Approve { .. } => Err(Withheld::Denied(Box::new(judged))),
        }
    }
}
