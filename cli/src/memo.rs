//! `run.json`: what a data directory was made for, so that later commands need not be told again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coppice_messages::ids::{TenantId, TreeId};
use coppice_scenarios::{desk::World, runner::DESK};
use serde::{Deserialize, Serialize};

/// Name of the file in the data directory.
pub const FILE: &str = "run.json";

/// What a data directory was made for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memo {
    /// Whose tree runs there.
    pub tenant: TenantId,
    /// The tree, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// The desk that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desk: Option<World>,
    /// Where below the directory that desk lies.
    #[serde(default = "usual_desk")]
    pub desk_in: PathBuf,
}

fn usual_desk() -> PathBuf {
    DESK.into()
}

/// Writes a file as a whole or not at all: on a full disk the old one stays.
fn whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

impl Memo {
    /// What is remembered, if anything usable is.
    pub fn read(data: &Path) -> Option<Self> {
        let text = fs::read(data.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Remembers it. Commands that find nothing ask, so that a failure costs no more than a question.
    pub fn write(&self, data: &Path) {
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|text| whole(&data.join(FILE), &text));
        if let Err(error) = written {
            tracing::warn!(%error, "{FILE} cannot be written");
        }
    }
}
