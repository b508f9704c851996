//! Whether the log is whole and agrees with everything that was made from it.

use coppice_messages::{
    Digest,
    digest::LengthPrefixed,
    ids::{RunId, TenantId, TreeId},
};
use coppice_store::{
    log::{Row, RowFilter},
    verify::{self, StreamFault},
};

use super::{Inspect, with_causes};
use crate::{
    api::{ApiError, Compared, Finding, Law, VerifyReport, VerifyRequest},
    limits::FINDINGS_MAX,
    run::{fold, fold_until, walk},
};

/// What the actor of a run says of its state.
pub(crate) struct Live {
    pub run: RunId,
    /// The last commit that it has recorded.
    pub head: Digest,
    /// Hash of its state at that commit.
    pub state: Digest,
}

/// What was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// Runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
}

impl Inspect {
    /// Folds every chain of a tenant from its first event to its last.
    ///
    /// # Errors
    /// The log cannot be read, or a chain does not fold.
    pub fn rebuild(&self, tenant: &TenantId) -> Result<Rebuilt, ApiError> {
        let mut rebuilt = Rebuilt { runs: 0, events: 0 };
        let all = RowFilter {
            tenant: Some(tenant.clone()),
            ..RowFilter::default()
        };
        for row in self.log.rows(all) {
            let row = row?;
            let folded = walk(
                &self.log,
                &self.releases,
                tenant,
                &row.run,
                &mut |_, commit, _| {
                    rebuilt.events += commit.events.len() as u64;
                },
            )?;
            rebuilt.runs += u64::from(folded.is_some());
        }
        Ok(rebuilt)
    }

    /// Reads every chain of a tenant and folds it. The stream and living actors are the host's to compare. What cannot be read is named, and does not
    /// end the host: its operator decides when.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn verify(
        &self,
        tenant: &TenantId,
        request: &VerifyRequest,
    ) -> Result<VerifyReport, ApiError> {
        let looking = Self {
            log: self.log.untold(),
            ..self.clone()
        };
        looking.verify_all(tenant, request)
    }

    fn verify_all(
        &self,
        tenant: &TenantId,
        request: &VerifyRequest,
    ) -> Result<VerifyReport, ApiError> {
        let read = verify::log(&self.log)?;
        let mut report = VerifyReport {
            pos: self.log.position()?,
            chains: read.chains,
            commits: read.commits,
            events: read.events,
            state: Digest::ZERO,
            log: Compared::Equal(read.chains),
            live: Compared::Skipped,
            stream: Compared::Skipped,
            findings: read
                .faults
                .iter()
                .map(|fault| damaged(tenant, fault))
                .collect(),
        };
        let mut states = LengthPrefixed::new();
        let runs = RowFilter {
            tenant: Some(tenant.clone()),
            tree: request.tree.clone(),
            state: None,
        };
        for row in self.log.rows(runs) {
            let row = match row {
                // Named above, with its place.
                Err(_) if !report.findings.is_empty() => break,
                row => row?,
            };
            let run = row.run.clone();
            let state = self.verify_run(row, &mut report)?;
            states = states.part(run.as_str().as_bytes()).part(&state.0);
        }
        report.state = states.finish();
        if !report.findings.is_empty() {
            report.log = Compared::Different;
        }
        report.findings.truncate(FINDINGS_MAX);
        Ok(report)
    }

    /// Folds one chain and holds its row against it.
    fn verify_run(&self, mut row: Row, report: &mut VerifyReport) -> Result<Digest, ApiError> {
        let folded = fold(&self.log, &self.releases, &row.tenant, &row.run);
        let ended = folded.as_ref().is_ok_and(|folded| {
            let state = folded.as_ref().map(|folded| &folded.state);
            state.is_some_and(|state| state.ended().is_some())
        });
        if ended && row.ended.is_none() {
            // It may have ended since its row was read; row and chain are written as one.
            row = self.log.row(&row.tenant, &row.run)?.unwrap_or(row);
        }
        let mut find = |law, pos, what: String| {
            report.findings.push(Finding {
                law,
                tenant: row.tenant.clone(),
                run: Some(row.run.clone()),
                pos,
                what,
            });
        };
        let folded = match folded {
            Ok(Some(folded)) => folded,
            Ok(None) => {
                find(Law::Index, None, "it has a row and no chain".to_owned());
                return Ok(Digest::ZERO);
            }
            Err(error) => {
                find(Law::Fold, None, with_causes(&error));
                return Ok(Digest::ZERO);
            }
        };
        let says = row.ended.as_ref().map(|end| (end.reason, &end.class));
        let is = folded.state.ended().map(|end| (end.reason, &end.class));
        if says != is {
            let what = format!("its row says {says:?}, its chain {is:?}");
            find(Law::Index, Some(folded.pos), what);
        }
        Ok(folded.state.hash())
    }

    /// Holds what a run's actor says against the fold of the log up to the same commit.
    pub(crate) fn verify_live(&self, tenant: &TenantId, live: &Live) -> Option<Finding> {
        let find = |what: String| {
            Some(Finding {
                law: Law::Live,
                tenant: tenant.clone(),
                run: Some(live.run.clone()),
                pos: None,
                what,
            })
        };
        let run = (tenant, &live.run);
        match fold_until(&self.log, &self.releases, run, live.head) {
            Ok(Some(folded)) if folded.state.head() != live.head => find(format!(
                "its actor stands at a commit {} that the log does not have",
                live.head
            )),
            Ok(Some(folded)) if folded.state.hash() != live.state => find(format!(
                "its actor's state is {}, the fold of the log is {}",
                live.state,
                folded.state.hash()
            )),
            Ok(Some(_)) => None,
            Ok(None) => find("it has an actor and no chain".to_owned()),
            Err(error) => find(with_causes(&error)),
        }
    }

    /// Whether a run belongs to the tree that is asked for.
    pub(crate) fn is_of(
        &self,
        tenant: &TenantId,
        run: &RunId,
        tree: Option<&TreeId>,
    ) -> Result<bool, ApiError> {
        let Some(tree) = tree else {
            return Ok(true);
        };
        Ok(self
            .log
            .head(tenant, run)?
            .is_some_and(|head| head.tree == *tree))
    }
}

/// A difference between log and stream, as a finding; one with a position is about a commit that the log has.
#[must_use]
pub fn differs(fault: &StreamFault) -> Finding {
    let (tenant, run, pos) = match fault {
        StreamFault::NotInLog { tenant, run, .. } => (tenant.clone(), Some(run), None),
        StreamFault::NotInStream {
            tenant, run, pos, ..
        } => (tenant.clone(), Some(run), Some(pos)),
        StreamFault::BlobNotInStream { tenant, pos, .. } => (tenant.clone(), None, Some(pos)),
        StreamFault::WentBack { pos, .. } => (TenantId::host(), None, Some(pos)),
    };
    Finding {
        law: Law::Stream,
        tenant,
        run: run.cloned(),
        pos: pos.copied(),
        what: fault.to_string(),
    }
}

fn damaged(tenant: &TenantId, fault: &verify::Fault) -> Finding {
    let law = match fault.damage {
        verify::Damage::Blob(_) => Law::Blob,
        verify::Damage::Unreadable { .. }
        | verify::Damage::MissingPosition
        | verify::Damage::OtherPosition
        | verify::Damage::NotListed
        | verify::Damage::Ends { .. } => Law::Index,
        verify::Damage::Altered
        | verify::Damage::Undecodable
        | verify::Damage::OtherPlace
        | verify::Damage::Missing { .. }
        | verify::Damage::BrokenChain
        | verify::Damage::Epoch => Law::Chain,
    };
    Finding {
        law,
        tenant: fault.tenant.clone().unwrap_or_else(|| tenant.clone()),
        run: fault.run.clone(),
        pos: fault.pos,
        what: fault.to_string(),
    }
}
