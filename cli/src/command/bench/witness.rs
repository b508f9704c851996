//! The outside world of the workloads: a file outside the data directory to which each effect appends its key, and whose look-up reads it.
//!
//! It is written and read by the host's process, as a function of the program; nothing of it is cached, so it survives the host's death
//! as far as its effects have happened.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use coppice_actors::{
    broker::{InProcessTool, InProcessTools, NoAnswer, ToolCall, ToolFailure, ToolFuture},
    host::{HostOptions, host_main_with_tools},
};
use coppice_messages::Value;

/// The name under which the host has the function.
pub const NOTE: &str = "note";

struct Note {
    path: PathBuf,
    file: File,
}

impl InProcessTool for Note {
    fn call(&self, call: ToolCall) -> ToolFuture<'_, Result<Value, ToolFailure>> {
        Box::pin(async move {
            let why = || "a call without a key".to_owned();
            let key = call
                .key
                .ok_or_else(|| ToolFailure::NotDone { why: why() })?;
            // One write of less than a page to a file opened for appending: whole or not at all.
            let written = (&self.file).write_all(format!("{}\n", key.hex()).as_bytes());
            written.map_err(|error| ToolFailure::Unknown {
                why: error.to_string(),
            })?;
            Ok(noted())
        })
    }

    fn look_up(&self, call: ToolCall) -> ToolFuture<'_, Result<Option<Value>, NoAnswer>> {
        Box::pin(async move {
            let keys = std::fs::read_to_string(&self.path);
            let keys = keys.map_err(|error| NoAnswer(error.to_string()))?;
            let key = call.key.map(|key| key.hex());
            let is_there = keys.lines().any(|line| Some(line) == key.as_deref());
            Ok(is_there.then(noted))
        })
    }
}

fn noted() -> Value {
    Value::map([("noted", Value::Bool(true))])
}

/// The process of a host under measurement.
pub fn host(options: &str, witness: &Path) -> ExitCode {
    let options = match serde_json::from_str::<HostOptions>(options) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("coppice bench-host: its options are not ones: {error}");
            return ExitCode::from(2);
        }
    };
    let opened = OpenOptions::new().create(true).append(true).open(witness);
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            eprintln!("coppice bench-host: {}: {error}", witness.display());
            return ExitCode::from(3);
        }
    };
    let path = witness.to_owned();
    host_main_with_tools(
        options,
        InProcessTools::new().with(NOTE, Note { path, file }),
    )
}

/// What the file shows.
pub struct Witnessed {
    /// Different keys.
    pub effects: u64,
    /// Lines beyond the first of each key.
    pub duplicates: u64,
}

/// Reads the file.
pub fn read(path: &Path) -> io::Result<Witnessed> {
    let text = std::fs::read_to_string(path)?;
    let keys: HashSet<&str> = text.lines().collect();
    let (effects, lines) = (keys.len() as u64, text.lines().count() as u64);
    Ok(Witnessed {
        effects,
        duplicates: lines - effects,
    })
}
