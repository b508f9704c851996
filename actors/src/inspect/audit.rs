//! Whether a tree kept the laws, read from its log and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use coppice_kernel::State;
use coppice_messages::{
    Commit, Digest, Event,
    commit::Entry,
    event::{
        child,
        effect::{self, LostCall},
        run::{Ended, Reason},
    },
    ids::{EffectKey, RunId, TenantId},
};
use coppice_store::{LogReader, log::RowFilter};

use super::{Inspect, unknown_tree, with_causes};
use crate::{
    api::{ApiError, AuditReport, AuditRequest, Finding, Law},
    limits::FINDINGS_MAX,
    run::walk,
};

impl Inspect {
    /// Reads a whole tree and says which laws it broke.
    ///
    /// # Errors
    /// It is unknown, or the log cannot be read.
    pub fn audit(
        &self,
        tenant: &TenantId,
        request: &AuditRequest,
    ) -> Result<AuditReport, ApiError> {
        let filter = RowFilter {
            tenant: Some(tenant.clone()),
            tree: Some(request.tree.clone()),
            state: None,
        };
        let rows: Vec<_> = self.log.rows(filter).collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Err(unknown_tree(tenant, &request.tree));
        }
        let mut audit = Audit {
            tenant,
            log: &self.log,
            events: 0,
            findings: Vec::new(),
            ends: BTreeMap::new(),
            children: Vec::new(),
        };
        for row in &rows {
            audit.run(self, &row.run);
        }
        audit.tree(&request.tree.root());
        audit.findings.truncate(FINDINGS_MAX);
        Ok(AuditReport {
            tree: request.tree.clone(),
            runs: rows.len() as u64,
            events: audit.events,
            findings: audit.findings,
        })
    }
}

struct Audit<'a> {
    tenant: &'a TenantId,
    log: &'a LogReader,
    events: u64,
    findings: Vec<Finding>,
    /// How each run ended.
    ends: BTreeMap<RunId, Option<Ended>>,
    /// What parents say of their children.
    children: Vec<Child>,
}

struct Child {
    parent: RunId,
    child: RunId,
    settled: Option<child::Settled>,
    /// Whether the parent read its end; else it was unreachable and is charged its grant.
    returned: bool,
}

/// What one run's events say.
#[derive(Default)]
struct Seen {
    intended: BTreeSet<EffectKey>,
    open: BTreeSet<EffectKey>,
    passed: BTreeSet<u64>,
    children: BTreeMap<RunId, (Option<child::Settled>, bool)>,
}

impl Audit<'_> {
    fn find(&mut self, law: Law, run: &RunId, pos: Option<u64>, what: String) {
        self.findings.push(Finding {
            law,
            tenant: self.tenant.clone(),
            run: Some(run.clone()),
            pos,
            what,
        });
    }

    fn run(&mut self, inspect: &Inspect, run: &RunId) {
        let mut seen = Seen::default();
        let mut conserved = true;
        let tenant = self.tenant;
        let mut show = |state: &State, commit: &Commit, pos| {
            for (seq, entry) in (commit.seq..).zip(&commit.events) {
                self.events += 1;
                self.event(run, pos, seq, entry, &mut seen);
            }
            self.blobs(run, pos, commit);
            if conserved && !state.account().is_conserved() {
                conserved = false;
                let what = format!(
                    "granted is less than used and reserved: {:?}",
                    state.account()
                );
                self.find(Law::Conservation, run, Some(pos), what);
            }
        };
        let walked = walk(&inspect.log, &inspect.releases, tenant, run, &mut show);
        let last = match walked {
            Ok(folded) => folded.map(|folded| folded.state),
            Err(error) => {
                self.find(Law::Fold, run, None, with_causes(&error));
                None
            }
        };
        let ended = last.as_ref().and_then(|state| state.ended().cloned());
        if let (Some(state), Some(ended)) = (&last, &ended) {
            self.end(run, state, ended, &seen);
        }
        self.ends.insert(run.clone(), ended);
        let children = seen.children.into_iter();
        self.children
            .extend(children.map(|(child, (settled, returned))| Child {
                parent: run.clone(),
                child,
                settled,
                returned,
            }));
    }

    fn event(&mut self, run: &RunId, pos: u64, seq: u64, entry: &Entry, seen: &mut Seen) {
        match &entry.event {
            Event::Check(coppice_messages::event::check::Event::Passed(_)) => {
                seen.passed.insert(seq);
            }
            Event::Child(child::Event::Delegated(delegated)) => {
                let child = delegated.envelope.run().clone();
                seen.children.insert(child, (None, false));
            }
            Event::Child(child::Event::Returned(returned)) => {
                if let Some(child) = seen.children.get_mut(&returned.child) {
                    child.1 = true;
                }
            }
            Event::Child(child::Event::Settled(settled)) => {
                if let Some(child) = seen.children.get_mut(&settled.child) {
                    child.0 = Some(settled.clone());
                }
            }
            Event::Effect(effect::Event::Intended(intended)) => {
                seen.intended.insert(intended.key);
                seen.open.insert(intended.key);
            }
            Event::Effect(event) => {
                let Some(key) = outcome_of(event) else {
                    return;
                };
                if !seen.intended.contains(&key) {
                    let what = format!("{} of {key} without an intent", entry.event.kind());
                    self.find(Law::Effects, run, Some(pos), what);
                }
                seen.open.remove(&key);
            }
            _ => {}
        }
    }

    /// What a run's end must show.
    fn end(&mut self, run: &RunId, state: &State, ended: &Ended, seen: &Seen) {
        for seq in &ended.evidence {
            if !seen.passed.contains(seq) {
                let what = format!("its end cites event {seq}, which is no check.passed");
                self.find(Law::Evidence, run, None, what);
            }
        }
        let is_root = state.tree().root() == *run;
        if is_root && ended.reason == Reason::Succeeded && ended.evidence.len() < seen.passed.len()
        {
            let what = format!(
                "it succeeded with {} checks and cites {}",
                seen.passed.len(),
                ended.evidence.len()
            );
            self.find(Law::Evidence, run, None, what);
        }
        if is_root && ended.reason == Reason::Succeeded && ended.evidence.is_empty() {
            let what = "it succeeded and cites no check".to_owned();
            self.find(Law::Evidence, run, None, what);
        }
        for key in &seen.open {
            let what = format!("it ended while nothing was recorded of the effect {key}");
            self.find(Law::Effects, run, None, what);
        }
    }

    /// What holds between the runs of an ended tree.
    fn tree(&mut self, root: &RunId) {
        let is_over = self.ends.get(root).is_some_and(Option::is_some);
        for child in std::mem::take(&mut self.children) {
            let Child {
                parent,
                child,
                settled,
                returned,
            } = child;
            let end = self.ends.get(&child).cloned().flatten();
            if is_over && settled.is_none() {
                let what = format!("its parent {parent} ended and never settled it");
                self.find(Law::Ended, &child, None, what);
            }
            if is_over && end.is_none() && returned {
                let what = format!("its parent {parent} took its end in, and it has none");
                self.find(Law::Ended, &child, None, what);
            }
            if let (Some(settled), Some(end), true) = (&settled, &end, returned)
                && settled.charged != end.usage
            {
                let what = format!(
                    "its parent {parent} charged {:?}, it used {:?}",
                    settled.charged, end.usage
                );
                self.find(Law::Conservation, &child, None, what);
            }
        }
    }

    /// Whether the payloads that a commit cites are there.
    fn blobs(&mut self, run: &RunId, pos: u64, commit: &Commit) {
        for entry in &commit.events {
            let body = serde_json::to_value(&entry.event).unwrap_or_default();
            for digest in cited(&body) {
                let wrong = match self.log.blob(self.tenant, &digest) {
                    Ok(Some(_)) => continue,
                    Ok(None) => "is not there".to_owned(),
                    Err(error) => format!("cannot be read: {}", with_causes(&error)),
                };
                let kind = entry.event.kind();
                let what = format!("{kind} cites the blob {digest}, which {wrong}");
                self.find(Law::Blob, run, Some(pos), what);
            }
        }
    }
}

/// The effect that an event gives an outcome.
fn outcome_of(event: &effect::Event) -> Option<EffectKey> {
    match event {
        effect::Event::NotSent(e) => Some(e.key),
        effect::Event::Lost(e) => match &e.what {
            LostCall::Read { key, .. } => Some(*key),
            LostCall::Model { .. } => None,
        },
        effect::Event::Landed(e) => Some(e.key),
        effect::Event::Declined(e) => Some(e.key),
        effect::Event::Retryable(e) => Some(e.key),
        effect::Event::Unknown(e) => Some(e.key),
        effect::Event::Reconciled(e) => Some(e.key),
        effect::Event::Escalated(e) => Some(e.key),
        effect::Event::Withdrawn(e) => Some(e.key),
        effect::Event::Intended(_)
        | effect::Event::Conflicted(_)
        | effect::Event::Contradicted(_) => None,
    }
}

/// The blobs that a body cites: `{"blob": {"digest": …, "bytes": …}}` wherever it stands.
fn cited(body: &serde_json::Value) -> Vec<Digest> {
    let mut found = Vec::new();
    let mut open = vec![body];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::Object(map) => {
                let blob = map.get("blob").filter(|blob| blob.get("bytes").is_some());
                let digest = blob.and_then(|blob| blob.get("digest"));
                let digest = digest.and_then(|digest| digest.as_str()?.parse::<Digest>().ok());
                found.extend(digest);
                open.extend(map.values());
            }
            serde_json::Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    found
}
