//! What Cedar says is wrong, as diagnostics with line and column.

use coppice_topology::{Diagnostic, load::Position};
use miette::Diagnostic as Said;

/// A file and its text.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Place<'_> {
    /// Something wrong with the file as a whole.
    pub fn whole(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.file, Position::START, message)
    }

    /// Something wrong where this text stands first, else with the whole.
    pub fn at_text(&self, wanted: &str, message: impl Into<String>) -> Diagnostic {
        let at = self.text.find(wanted).unwrap_or(0);
        Diagnostic::new(self.file, self.position(at), message)
    }

    /// The place of a byte.
    fn position(&self, at: usize) -> Position {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Position {
            line: small(line),
            column: small(column),
        }
    }

    /// Everything that an error of Cedar says, each at its place.
    pub fn said(&self, error: &dyn Said) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.gather(error, &mut found);
        found
    }

    fn gather(&self, error: &dyn Said, found: &mut Vec<Diagnostic>) {
        let label = error.labels().and_then(|mut labels| labels.next());
        let at = label.as_ref().map_or(0, miette::LabeledSpan::offset);
        let words = label.as_ref().and_then(|label| label.label());
        let message = match words {
            Some(words) => format!("{error}: {words}"),
            None => error.to_string(),
        };
        let mut diagnostic = Diagnostic::new(self.file, self.position(at), message);
        if let Some(help) = error.help() {
            diagnostic = diagnostic.help(help.to_string());
        }
        found.push(diagnostic);
        for related in error.related().into_iter().flatten() {
            self.gather(related, found);
        }
    }
}
