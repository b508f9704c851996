//! The live tree on stderr: drawn over itself on a terminal, printed again when it has grown elsewhere.

use std::{
    io::{IsTerminal, Write as _, stderr},
    os::fd::AsFd,
    path::PathBuf,
};

use coppice_messages::ids::{TenantId, TreeId};
use coppice_scenarios::{desk::World, runner::Watcher};
use coppice_topology::tree::{Frame, State, TextOptions};

use terminal_size::{Height, Width, terminal_size_of};

use crate::{data, memo::Memo, out};

/// Columns where there is no terminal that says how many it has.
const WIDTH: usize = 100;
/// Lines of a picture beside those of children.
const LINES_BESIDE: usize = 6;

/// Draws on stderr what happens.
pub struct Live {
    terminal: bool,
    options: TextOptions,
    /// Lines of the last picture, to be drawn over.
    drawn: usize,
    /// Runs and ended runs of the last picture that was printed where nothing can be drawn over.
    printed: (usize, usize),
    /// Where to remember what runs there.
    memo: Option<(PathBuf, World, PathBuf)>,
    started: bool,
}

/// How trees are drawn on a stream.
pub fn text_options(stream: &(impl IsTerminal + AsFd)) -> TextOptions {
    let usual = TextOptions::default();
    let is_terminal = stream.is_terminal();
    let size = terminal_size_of(stream).filter(|_| is_terminal);
    let (width, lines) = match size {
        Some((Width(columns), Height(lines))) => (usize::from(columns), usize::from(lines)),
        None => (columns().unwrap_or(WIDTH), usize::MAX),
    };
    TextOptions {
        width,
        color: out::colourful(is_terminal),
        unicode: speaks_unicode(),
        // What is drawn over itself must fit.
        children_max: usual
            .children_max
            .min(lines.saturating_sub(LINES_BESIDE))
            .max(1),
    }
}

/// What the environment says of the width, where no terminal says it.
fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

/// Whether the locale's encoding has the signs of the picture. One that says nothing is taken to have them.
fn speaks_unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty());
    said.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        !locale.contains('.') || locale.contains("utf-8") || locale.contains("utf8")
    })
}

impl Live {
    /// Draws.
    pub fn new() -> Self {
        let terminal = stderr().is_terminal();
        Self {
            terminal,
            options: text_options(&stderr()),
            drawn: 0,
            printed: (0, 0),
            memo: None,
            started: false,
        }
    }

    /// Also remembers in a data directory what runs there, once it does, and makes it the latest.
    #[must_use]
    pub fn remembering(mut self, data: PathBuf, desk: World, desk_in: PathBuf) -> Self {
        self.memo = Some((data, desk, desk_in));
        self
    }

    /// Whether its tree was started.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// A line of its own; the next picture is drawn below it.
    pub fn say(&mut self, text: &str) {
        self.drawn = 0;
        put(&format!("{text}\n"));
    }

    /// The tree, whole, and below it whatever comes next.
    pub fn picture(&mut self, frame: &Frame) {
        let text = frame.text(&self.options);
        if self.terminal {
            let over = match self.drawn {
                0 => String::new(),
                lines => format!("\x1b[{lines}A\x1b[J"),
            };
            self.drawn = text.lines().count();
            put(&format!("{over}{text}"));
            return;
        }
        let ended = frame.runs.iter().filter(|run| run.state == State::Ended);
        let size = (frame.runs.len(), ended.count());
        if size != self.printed {
            self.printed = size;
            put(&text);
        }
    }
}

/// That the host died, and how often it has been started again.
pub fn restarted(restarts: u32) -> String {
    let times = match restarts {
        1 => "once".to_owned(),
        many => format!("{many} times"),
    };
    format!("the host died and was started again ({times})")
}

fn put(text: &str) {
    // Progress that nobody can see is no reason to stop.
    let _unseen = stderr().lock().write_all(text.as_bytes());
}

impl Watcher for Live {
    fn phase(&mut self, text: &str) {
        self.say(text);
    }

    fn started(&mut self, tenant: &TenantId, tree: &TreeId) {
        self.started = true;
        if let Some((directory, desk, desk_in)) = &self.memo {
            let memo = Memo {
                tenant: tenant.clone(),
                tree: Some(tree.clone()),
                desk: Some(desk.clone()),
                desk_in: desk_in.clone(),
            };
            memo.write(directory);
            data::is_latest(directory);
        }
        self.say(&format!("tree {tree}"));
    }

    fn frame(&mut self, frame: &Frame) {
        self.picture(frame);
    }

    fn restarted(&mut self, restarts: u32) {
        self.say(&format!("{}; the tree goes on", self::restarted(restarts)));
    }
}
