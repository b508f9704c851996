//! One run, and one tree.

use coppice_kernel::State;
use coppice_messages::{
    Commit, Digest, Event, Payload, Timestamp, Value, event::run, ids::TenantId,
};
use coppice_store::{
    ReadError,
    log::{Row, RowFilter},
};
use coppice_topology::{
    plan::Progress,
    tree::{Frame, Tree},
};

use super::{Inspect, unknown_run, unknown_tree};
use crate::{
    api::{ApiError, Code, Ended, GetRequest, RunRow, RunView, TreePage, TreeRequest},
    limits::PAGE_BYTES,
    release::ReleaseError,
    run::{Folded, fold},
};

impl Inspect {
    /// One run.
    ///
    /// # Errors
    /// It is unknown, or its chain cannot be folded.
    pub fn get(&self, tenant: &TenantId, request: &GetRequest) -> Result<RunView, ApiError> {
        let unknown = || unknown_run(tenant, &request.run);
        let row = self.log.row(tenant, &request.run)?.ok_or_else(unknown)?;
        let folded = fold(&self.log, &self.releases, tenant, &request.run)?;
        let Folded { state, pos, .. } = folded.ok_or_else(unknown)?;
        let opened = state.opened().ok_or_else(unknown)?;
        Ok(RunView {
            release: opened.release,
            epoch: state.epoch(),
            events: state.next_seq() - 1,
            head: state.head(),
            pos,
            state: state.hash(),
            account: state.account().clone(),
            nodes: nodes(&state),
            ended: self.ended(tenant, &row, &state)?,
            row: row_view(row),
        })
    }

    fn ended(
        &self,
        tenant: &TenantId,
        row: &Row,
        state: &State,
    ) -> Result<Option<Ended>, ReadError> {
        let Some(ended) = state.ended().cloned() else {
            return Ok(None);
        };
        let answer = ended.answer.map(|answer| self.value(tenant, &answer));
        Ok(Some(Ended {
            at: row.ended.as_ref().map_or(Timestamp(0), |end| end.at),
            reason: ended.reason,
            class: ended.class,
            message: ended.message,
            answer: answer.transpose()?,
            evidence: ended.evidence,
            usage: ended.usage,
            in_doubt: state.in_doubt(),
        }))
    }

    /// The value of a payload; of a blob that is gone, its digest.
    fn value(&self, tenant: &TenantId, payload: &Payload) -> Result<Value, ReadError> {
        let digest = match payload {
            Payload::Inline(value) => return Ok(value.clone()),
            Payload::Blob { digest, .. } => digest,
        };
        let found = self.log.blob(tenant, digest)?;
        let value = found.and_then(|bytes| Value::parse(&bytes).ok());
        let gone = || Value::map([("blob", Value::Text(digest.to_string()))]);
        Ok(value.unwrap_or_else(gone))
    }

    /// A page of the ownership tree.
    ///
    /// # Errors
    /// It is unknown, or the log cannot be read.
    pub fn tree_page(
        &self,
        tenant: &TenantId,
        request: &TreeRequest,
    ) -> Result<TreePage, ApiError> {
        let mut frame = self.tree(tenant, request)?;
        let all = std::mem::take(&mut frame.runs).into_iter();
        let mut bytes = 0;
        let mut next = None;
        for (nth, run) in (0..).zip(all).skip_while(|(nth, _)| *nth < request.from) {
            bytes += serde_json::to_vec(&run).map_or(0, |json| json.len());
            if bytes > PAGE_BYTES && !frame.runs.is_empty() {
                next = Some(nth);
                break;
            }
            frame.runs.push(run);
        }
        Ok(TreePage { frame, next })
    }

    /// The whole ownership tree, now or as it was at a position.
    ///
    /// # Errors
    /// It is unknown, or the log cannot be read.
    pub fn tree(&self, tenant: &TenantId, request: &TreeRequest) -> Result<Frame, ApiError> {
        let filter = RowFilter {
            tenant: Some(tenant.clone()),
            tree: Some(request.tree.clone()),
            state: None,
        };
        let until = request.at.unwrap_or(u64::MAX);
        let mut tree = Tree::new();
        let (mut known, mut release) = (false, None);
        for row in self.log.rows(filter) {
            known = true;
            for recorded in self.log.chain(tenant, &row?.run) {
                let recorded = recorded?;
                if recorded.pos > until {
                    break;
                }
                let commit = Commit::decode(&recorded.bytes)
                    .map_err(|e| ApiError::new(Code::LogUnreadable, super::with_causes(&e)))?;
                release = release.or_else(|| release_of(&commit));
                tree.apply(&commit, recorded.pos);
            }
        }
        if !known {
            return Err(unknown_tree(tenant, &request.tree));
        }
        let mut frame = tree.frame();
        let plan = release.map(|release| self.releases.plan(&self.log, tenant, release));
        match plan {
            Some(Ok(plan)) => frame.name_waits(&plan),
            Some(Err(error @ ReleaseError::Log { .. })) => {
                return Err(ApiError::new(
                    Code::LogUnreadable,
                    super::with_causes(&error),
                ));
            }
            // A release that this build refuses says nothing; the frame stands without it.
            Some(Err(ReleaseError::Refused { .. })) | None => {}
        }
        Ok(frame)
    }
}

fn release_of(commit: &Commit) -> Option<Digest> {
    commit.events.iter().find_map(|entry| match &entry.event {
        Event::Run(run::Event::Opened(opened)) => Some(opened.release),
        _ => None,
    })
}

fn nodes(state: &State) -> std::collections::BTreeMap<coppice_messages::ids::NodeName, String> {
    let word = |progress| match progress {
        Progress::Waiting => "waiting",
        Progress::Started => "started",
        Progress::Done => "done",
        Progress::Failed => "failed",
        Progress::Skipped => "skipped",
    };
    let progress = state.progress().into_iter();
    progress
        .map(|(node, at)| (node, word(at).to_owned()))
        .collect()
}

pub(super) fn row_view(row: Row) -> RunRow {
    let Row {
        tenant,
        tree,
        run,
        parent,
        path,
        opened_at,
        ended,
        labels,
    } = row;
    let (reason, class, ended_at) = match ended {
        Some(end) => (Some(end.reason), end.class, Some(end.at)),
        None => (None, None, None),
    };
    RunRow {
        tenant,
        tree,
        run,
        parent,
        path,
        opened_at,
        reason,
        class,
        ended_at,
        labels,
    }
}
