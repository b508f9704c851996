//! Events from a position on.

use coppice_messages::{Commit, Digest, ids::TenantId};
use coppice_store::FeedEvent;

use super::{Inspect, with_causes};
use crate::{
    api::{ApiError, Code, EventView, TailPage, TailRequest},
    limits::PAGE_BYTES,
};

/// Commits read for one page, so that a filter that takes hardly anything does not hold one request up for long.
const COMMITS_READ: u64 = 20_000;

impl Inspect {
    /// A page of events.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn tail(&self, tenant: &TenantId, request: &TailRequest) -> Result<TailPage, ApiError> {
        let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut page = TailPage {
            events: Vec::new(),
            next: request.from.max(1),
            end: true,
        };
        let mut bytes = 0;
        let first = page.next;
        for positioned in self.log.commits_from(first) {
            let positioned = positioned?;
            if positioned.pos - first >= COMMITS_READ {
                page.end = false;
                return Ok(page);
            }
            if positioned.tenant == *tenant {
                let commit = Commit::decode(&positioned.bytes)
                    .map_err(|e| ApiError::new(Code::LogUnreadable, with_causes(&e)))?;
                let hash = Digest::of(&positioned.bytes);
                let (events, size) = taken(request, positioned.pos, hash, &commit);
                let is_full = bytes + size > PAGE_BYTES || page.events.len() + events.len() > limit;
                if is_full && !page.events.is_empty() {
                    page.end = false;
                    return Ok(page);
                }
                bytes += size;
                page.events.extend(events);
            }
            page.next = positioned.pos + 1;
        }
        Ok(page)
    }
}

/// The events of a commit that are asked for, and how many bytes they take.
fn taken(
    request: &TailRequest,
    pos: u64,
    hash: Digest,
    commit: &Commit,
) -> (Vec<EventView>, usize) {
    let mut bytes = 0;
    let events = FeedEvent::of_commit(pos, hash, commit)
        .filter(|event| request.filter.takes(event.tree, event.run, event.kind))
        .map(|event| {
            let body = serde_json::to_value(event.body).unwrap_or_default();
            bytes += 600 + body.to_string().len();
            EventView {
                pos,
                tenant: event.tenant.clone(),
                tree: event.tree.clone(),
                run: event.run.clone(),
                seq: event.seq,
                epoch: event.epoch,
                at: event.at,
                kind: event.kind.to_owned(),
                v: event.v,
                cause: event.cause.cloned(),
                body,
                commit: hash,
            }
        })
        .collect();
    (events, bytes)
}
