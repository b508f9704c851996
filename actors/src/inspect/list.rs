//! Lists of runs.

use coppice_messages::ids::TenantId;
use coppice_store::log::{Row, RowFilter, RowState};

use super::{Inspect, view::row_view};
use crate::{
    api::{ApiError, ListReply, ListRequest, RunStateFilter},
    limits::PAGE_BYTES,
};

/// About what a row takes as JSON, beside its labels.
const ROW_BYTES: usize = 512;

impl Inspect {
    /// A page of runs.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn list(&self, tenant: &TenantId, request: &ListRequest) -> Result<ListReply, ApiError> {
        let filter = RowFilter {
            tenant: Some(tenant.clone()),
            tree: request.tree.clone(),
            state: request.state.map(|state| match state {
                RunStateFilter::Open => RowState::Open,
                RunStateFilter::Ended => RowState::Ended,
            }),
        };
        let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut reply = ListReply::default();
        let mut bytes = 0;
        for row in self.log.rows(filter) {
            let row = row?;
            if !takes(request, &row) {
                continue;
            }
            bytes += ROW_BYTES
                + row
                    .labels
                    .iter()
                    .map(|(k, v)| k.len() + v.len())
                    .sum::<usize>();
            let full = reply.runs.len() >= limit || bytes > PAGE_BYTES;
            if full && !reply.runs.is_empty() {
                reply.next = reply.runs.last().map(|row| row.run.clone());
                return Ok(reply);
            }
            reply.runs.push(row_view(row));
        }
        Ok(reply)
    }
}

fn takes(request: &ListRequest, row: &Row) -> bool {
    let has = |(key, value): (&String, &String)| row.labels.get(key) == Some(value);
    request.after.as_ref().is_none_or(|after| row.run > *after)
        && (!request.roots || row.parent.is_none())
        && request.labels.iter().all(has)
}
