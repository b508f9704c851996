//! The history of a world as text: one line a step, equal for equal seeds.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
};

use coppice_messages::Digest;
use sha2::Digest as _;

/// Lines kept for a failing seed's file.
const TAIL_LINES: usize = 400;

/// The history, as a running digest and its last lines.
#[derive(Default)]
pub(super) struct Trace {
    hasher: sha2::Sha256,
    line: String,
    lines: u64,
    tail: VecDeque<String>,
}

impl Trace {
    /// Adds one line.
    pub fn line(&mut self, step: u64, mono: u64, text: fmt::Arguments<'_>) {
        self.line.clear();
        let (seconds, micros) = (mono / 1_000_000, mono % 1_000_000);
        // Writing into memory cannot fail.
        let _ = writeln!(self.line, "{step:06} {seconds}.{micros:06} {text}");
        self.hasher.update(self.line.as_bytes());
        self.lines += 1;
        // The oldest line's memory serves for the newest.
        let mut kept = if self.tail.len() < TAIL_LINES {
            String::new()
        } else {
            self.tail.pop_front().unwrap_or_default()
        };
        kept.clear();
        kept.push_str(self.line.trim_end());
        self.tail.push_back(kept);
    }

    /// The digest of all lines, how many there are, and the last ones.
    pub fn finish(self) -> (Digest, u64, Vec<String>) {
        (
            Digest(self.hasher.finalize().into()),
            self.lines,
            self.tail.into(),
        )
    }
}
