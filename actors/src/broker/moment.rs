//! The moment of use: what must hold when the first byte of an effect leaves, whatever was checked before.
//!
//! It is looked at three times: before the request waits for a place, after it, and when its connection stands, which is the last moment at
//! which nothing has left. `send_by` is compared with two clocks: with the wall clock, in which it is written, and with one that never
//! steps and runs through suspend. So neither a clock that was set back nor a machine that slept lets an old effect out.
//!
//! What is left: a process that is stopped in the few instructions between the last look and the first byte sends late.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coppice_kernel::{command::EffectOutcome, governor::Judged, limits::SEND_WITHIN_MS};
use coppice_messages::{
    Timestamp,
    event::effect::Intended,
    ids::{RunId, TenantId},
};
use coppice_store::{
    OpenEffect,
    clock::{self, Mono},
};

use super::rules::Rules;
use crate::record::Record;

/// Why nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Withheld {
    /// A check failed: the run decides again.
    Withdrawn(String),
    /// The policy set does not let it happen any more.
    Denied(Box<Judged>),
    /// The time is over, or no connection came about: it may be sent again.
    NotSent(String),
    /// There was no place among the calls of its tool in time: it is sent when there is.
    NoPlace(String),
    /// Another run came to the same key before: whether it happened is to be found out.
    Held(String),
}

impl From<Withheld> for EffectOutcome {
    fn from(withheld: Withheld) -> Self {
        match withheld {
            Withheld::Withdrawn(why) => Self::Withdrawn { why },
            Withheld::Denied(judged) => Self::Denied(judged),
            Withheld::NotSent(why) => Self::NotSent { why },
            Withheld::NoPlace(why) => Self::NoPlace { why },
            Withheld::Held(why) => Self::Unknown { why },
        }
    }
}

/// What one effect is bound to.
pub(super) struct Moment {
    record: Arc<dyn Record>,
    tenant: TenantId,
    run: RunId,
    epoch: u64,
    deadline: Timestamp,
    intended: Arc<Intended>,
    rules: Rules,
    latest: Mono,
    passed: AtomicBool,
    withheld: OnceLock<Withheld>,
}

tokio::task_local! {
    /// Of the request whose connection is being made in this task.
    pub(super) static MOMENT: Arc<Moment>;
}

impl Moment {
    pub(super) fn new(
        record: Arc<dyn Record>,
        (tenant, run, epoch): (&TenantId, &RunId, u64),
        deadline: Timestamp,
        intended: Arc<Intended>,
        rules: Rules,
    ) -> Self {
        // An intent is never good for longer than this, whatever the wall clock says now.
        let left = intended.send_by.since(clock::now()).0.min(SEND_WITHIN_MS);
        Self {
            record,
            tenant: tenant.clone(),
            run: run.clone(),
            epoch,
            deadline,
            intended,
            rules,
            latest: clock::mono() + Duration::from_millis(left),
            passed: AtomicBool::new(false),
            withheld: OnceLock::new(),
        }
    }

    /// Until when the first byte must leave.
    pub(super) fn latest(&self) -> Mono {
        self.latest
    }

    /// Whether the effect may leave now.
    pub(super) fn check(&self) -> Result<(), Withheld> {
        let open = self.check_intent().map_err(Withheld::Withdrawn)?;
        if let Some(holder) = open.held_by {
            return Err(Withheld::Held(holder.to_string()));
        }
        if let Some(why) = self.record.cancelled(&self.tenant, &self.run) {
            return Err(Withheld::Withdrawn(why));
        }
        self.rules.check(&self.intended)?;
        let now = clock::now();
        if now >= self.deadline {
            let why = format!("the run's deadline, {}, has passed", self.deadline);
            return Err(Withheld::Withdrawn(why));
        }
        if now >= self.intended.send_by || clock::mono() >= self.latest {
            let send_by = self.intended.send_by;
            return Err(Withheld::NotSent(format!(
                "{send_by}, by which it had to leave, has passed"
            )));
        }
        Ok(())
    }

    /// The run's word counts for nothing: the log must show this very intent, open, in the run's present epoch.
    fn check_intent(&self) -> Result<OpenEffect, String> {
        let intended = &self.intended;
        let open = self
            .record
            .open_effect(&self.tenant, &self.run, &intended.key)
            .ok_or("the log shows no open intent under this key")?;
        let agrees = [
            ("epoch", open.epoch == self.epoch),
            ("attempt", open.attempt == intended.attempt),
            ("action digest", open.action == intended.action),
            ("tool", open.tool == intended.tool),
            (
                "arguments",
                // By digest only when one of the two is cited and the other is not.
                open.arguments == intended.arguments
                    || open.arguments.digest() == intended.arguments.digest(),
            ),
            ("send_by", open.send_by == intended.send_by),
        ];
        match agrees.iter().find(|(_, equal)| !equal) {
            Some((what, _)) => Err(format!(
                "the open intent in the log has another {what} than this one"
            )),
            None => Ok(open),
        }
    }

    /// The last look, when the connection stands. From here on a byte may have left.
    pub(super) fn pass(&self) -> Result<(), Withheld> {
        self.check().inspect_err(|withheld| {
            // Set once: one request makes one connection, and of several reasons the first is the one.
            let _had = self.withheld.set(withheld.clone());
        })?;
        self.passed.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether a byte may have left.
    pub(super) fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }

    /// Why the last look let nothing out.
    pub(super) fn withheld(&self) -> Option<Withheld> {
        self.withheld.get().cloned()
    }
}
