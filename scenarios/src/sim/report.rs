//! What a simulation comes to, for people and for machines.

use std::path::PathBuf;

use coppice_messages::Digest;
use serde::{Deserialize, Serialize};

use super::{History, file};

/// How seeds are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where failing seeds leave their files; none: nowhere.
    pub directory: Option<PathBuf>,
    /// After so many failing seeds the rest is not run.
    pub failures_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: None,
            failures_max: 10,
        }
    }
}

/// How far a run of seeds is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The seed that was run last.
    pub seed: u64,
    /// Seeds run.
    pub seeds: u64,
    /// Of them failed.
    pub failures: u64,
}

/// What seeds came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// Steps of all worlds.
    pub steps: u64,
    /// Commits in all logs at the end.
    pub commits: u64,
    /// Starts of hosts after a crash.
    pub restarts: u64,
    /// Seeds that broke a law.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Whether no law was broken.
    #[must_use]
    pub fn held(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn add(&mut self, history: &History) {
        self.seeds += 1;
        self.steps += history.steps;
        self.commits += history.commits;
        self.restarts += history.hosts.saturating_sub(1);
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seeds,
            steps,
            commits,
            restarts,
            failures,
        } = self;
        write!(
            f,
            "{seeds} seeds, {steps} steps, {commits} commits, {restarts} host restarts: "
        )?;
        if failures.is_empty() {
            return f.write_str("every law held");
        }
        write!(f, "{} failed", failures.len())?;
        for failure in failures {
            write!(f, "\n{failure}")?;
        }
        Ok(())
    }
}

/// A seed that broke a law.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which seed.
    pub seed: u64,
    /// Which law.
    pub law: String,
    /// What was seen.
    pub what: String,
    /// After so many steps.
    pub steps: u64,
    /// SHA-256 of the whole history.
    pub history: Digest,
    /// Its last lines.
    pub tail: Vec<String>,
    /// The file that it left.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Failure {
    pub(super) fn leave(&mut self, options: &Options) {
        if let Some(directory) = &options.directory {
            match file::write(directory, self) {
                Ok(path) => self.file = Some(path),
                Err(error) => {
                    tracing::warn!(%error, seed = self.seed, "a failing seed left no file")
                }
            }
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            seed,
            law,
            what,
            steps,
            ..
        } = self;
        write!(f, "seed {seed}, step {steps}: not held: {law}: {what}")?;
        match &self.file {
            Some(file) => write!(f, "\n  again: coppice sim replay {}", file.display()),
            None => write!(f, "\n  again: coppice sim run --seeds {seed}..{seed}"),
        }
    }
}
