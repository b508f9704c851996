//! A run that is not in the directory that was read: each `coppice run` has a directory of its own, and the right one may be another.

use std::{fs, path::Path, path::PathBuf};

use coppice_actors::endpoint::Endpoint;
use coppice_messages::ids::{RunId, TenantId};
use coppice_store::{Log, log::RowFilter};

use crate::{
    data,
    failure::{Failure, Problem},
    memo::Memo,
};

/// Says that a run or tree is not in the directory that was searched, and in which it is.
pub fn unknown(what: &str, run: &RunId, tenant: &TenantId, searched: &Path) -> Failure {
    let shown = searched.display();
    let message = format!("the tenant {tenant} has no {what} {run} in {shown}");
    let help = match find(run, searched) {
        Some(found) => format!("it is in {0}: add --data {0}", found.display()),
        None => format!(
            "coppice ls --roots --data {shown} lists what there is, and --data names another directory"
        ),
    };
    Failure::Input(Problem::new(message).help(help))
}

/// The other directory below `.coppice` that has this run.
fn find(run: &RunId, searched: &Path) -> Option<PathBuf> {
    let searched = fs::canonicalize(searched).ok();
    let mut others = data::all();
    others.retain(|path| fs::canonicalize(path).ok() != searched);
    let memo_names = |path: &&PathBuf| {
        let tree = Memo::read(path).and_then(|memo| memo.tree);
        tree.is_some_and(|tree| tree.root() == *run)
    };
    let named = others.iter().find(memo_names);
    named
        .or_else(|| others.iter().find(|path| has(path, run)))
        .cloned()
}

/// Whether the log there has the run. One that belongs to a host, or does not open, is passed by.
fn has(data: &Path, run: &RunId) -> bool {
    if Endpoint::read(data).is_ok() || !data.join("log").is_dir() {
        return false;
    }
    let Ok(log) = Log::open(data) else {
        return false;
    };
    let mut rows = log.reader().rows(RowFilter::default());
    rows.any(|row| row.is_ok_and(|row| row.run == *run))
}
