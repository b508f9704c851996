//! Why a command does not succeed, with the exit code that says whose fault it is, and how that is told.

use std::{error::Error, fmt, io::IsTerminal as _, path::Path, process::ExitCode};

use coppice_scenarios::{library, scenario::ScenarioError};
use coppice_store::given;
use coppice_topology::{Diagnostic, Diagnostics};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde::Serialize;

use crate::out;

/// The exit code after Ctrl-C, as shells have it for whatever SIGINT ends.
const INTERRUPTED: u8 = 130;

/// Characters of a line of a file that an error shows; of a longer one the beginning, or nothing when the fault lies behind it.
const SHOWN_CHARS_MAX: usize = 160;

/// Why a command does not succeed.
#[derive(Debug)]
pub enum Failure {
    /// What was expected does not hold; the command has said what.
    NotHeld,
    /// What was given is wrong.
    Input(Problem),
    /// The machine is not as it must be: no nats-server, port, disk, or locked data.
    Environment(Problem),
    /// Ctrl-C.
    Interrupted(Problem),
    /// Whoever read the output has had enough.
    OutputClosed,
}

/// What is wrong, in words, and where in files.
#[derive(Debug, Default, Serialize)]
pub struct Problem {
    /// One sentence, and what led to it.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Places in files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// Something wrong, in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// An error and what led to it.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let said = inner.to_string();
            if !message.ends_with(&said) {
                message = format!("{message}: {said}");
            }
            source = inner.source();
        }
        Self::new(message)
    }

    /// For programs: a message is always there.
    fn as_data(&self) -> Self {
        let places = || Diagnostics(self.diagnostics.clone()).to_string();
        let message = if self.message.is_empty() {
            places()
        } else {
            self.message.clone()
        };
        Self {
            message,
            help: self.help.clone(),
            diagnostics: self.diagnostics.clone(),
        }
    }

    /// The same, and what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Failure {
    /// What was given is wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(Problem::new(message))
    }

    /// The machine is not as it must be.
    pub fn environment(error: &(dyn Error + 'static)) -> Self {
        Self::Environment(Problem::of(error))
    }

    /// The process's exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::OutputClosed => 0,
            Self::NotHeld => 1,
            Self::Input(_) => 2,
            Self::Environment(_) => 3,
            Self::Interrupted(_) => INTERRUPTED,
        })
    }

    /// Says it: to people on stderr, and as JSON on stdout when JSON was asked for.
    pub fn tell(&self, json: bool) {
        let (Self::Input(problem) | Self::Environment(problem) | Self::Interrupted(problem)) = self
        else {
            return;
        };
        if json {
            // Should nobody read it, stderr and the exit code still say it.
            let _told = out::json(&serde_json::json!({ "error": problem.as_data() }));
        }
        eprint!("{problem}");
    }
}

impl From<Diagnostics> for Failure {
    fn from(Diagnostics(diagnostics): Diagnostics) -> Self {
        Self::Input(Problem {
            diagnostics,
            ..Problem::default()
        })
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        match error {
            ScenarioError::Invalid(diagnostics) => diagnostics.into(),
            ScenarioError::Source(error) => Self::Input(Problem::of(&error)),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            f.write_str(&drawn(diagnostic))?;
        }
        if !self.message.is_empty() {
            writeln!(f, "error: {}", self.message)?;
        }
        match &self.help {
            Some(help) => writeln!(f, "  {help}"),
            None => Ok(()),
        }
    }
}

/// A place in a file that miette can draw.
#[derive(Debug)]
struct Located<'a> {
    diagnostic: &'a Diagnostic,
    text: NamedSource<String>,
    offset: usize,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            file,
            line,
            column,
            message,
            ..
        } = self.diagnostic;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

impl Error for Located<'_> {}

impl miette::Diagnostic for Located<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.diagnostic.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = LabeledSpan::new(None, self.offset, 1);
        Some(Box::new(std::iter::once(span)))
    }
}

/// The diagnostic with the lines of its file around it; without them when the file cannot be read.
fn drawn(diagnostic: &Diagnostic) -> String {
    let plain = || format!("error: {diagnostic}\n");
    let Diagnostic { line, column, .. } = *diagnostic;
    let text = text_of(&diagnostic.file).and_then(|text| showable(&text, line, column));
    let Some((text, offset)) =
        text.and_then(|text| offset(&text, line, column).map(|at| (text, at)))
    else {
        return plain();
    };
    let theme = if out::colourful(std::io::stderr().is_terminal()) {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let located = Located {
        diagnostic,
        text: NamedSource::new(&diagnostic.file, text),
        offset,
    };
    let mut drawn = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(1);
    match handler.render_report(&mut drawn, &located) {
        Ok(()) => drawn,
        Err(fmt::Error) => plain(),
    }
}

fn text_of(file: &str) -> Option<String> {
    match file.strip_prefix("library:") {
        Some(path) => library::text(path).map(str::to_owned),
        None => given::read_text(Path::new(file)).ok(),
    }
}

/// What is shown of a text around one of its lines, each line cut; none when the place lies behind what is shown of its own.
fn showable(text: &str, line: u32, column: u32) -> Option<String> {
    let cited = usize::try_from(line).ok()?;
    let column = usize::try_from(column).ok()?;
    let mut shown = String::new();
    // One line after the cited one is shown, too.
    for (number, line) in (1..=cited + 1).zip(text.split_inclusive('\n')) {
        match line.char_indices().nth(SHOWN_CHARS_MAX) {
            Some(_) if number == cited && column > SHOWN_CHARS_MAX => return None,
            Some((end, _)) => {
                shown.extend(line.get(..end));
                shown.push_str("…\n");
            }
            None => shown.push_str(line),
        }
    }
    Some(shown)
}

/// Where in the text a line and column are, in bytes.
fn offset(text: &str, line: u32, column: u32) -> Option<usize> {
    let before = usize::try_from(line).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    let inside = usize::try_from(column).ok()?.checked_sub(1)?;
    let line = text.get(start..)?;
    let at = line
        .char_indices()
        .nth(inside)
        .map_or(line.len(), |(at, _)| at);
    Some(start + at)
}
