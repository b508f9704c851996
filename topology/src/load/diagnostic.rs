//! What is wrong with a file, where, and what would be right.

use std::fmt;

use serde::Serialize;

use super::yaml::Position;

/// Characters of a message about a file, which may quote what stands there; the rest is cut off.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnostic {
    /// The file, as it was named.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Diagnostic {
    /// Something wrong at a position.
    #[must_use]
    pub fn new(file: &str, at: Position, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            message: cut(message.into()),
            help: None,
        }
    }

    /// The same, and what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(cut(help.into()));
        self
    }
}

fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(end);
        message.push('…');
    }
    message
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.message
        )?;
        match &self.help {
            Some(help) => write!(f, "\n  {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// All that is wrong with a file and the files that it names, in the order of files and lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, diagnostic) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}
