//! The commands of the documents, run as their reader would run them.
//!
//! The fenced blocks of a document are taken in order, in one directory, with the built program on the PATH:
//!
//! - `sh`: run by bash, which stops at the first command that fails; it must end with code 0, or with N after `sh exit=N`.
//!   Blocks of `make` targets are not run; that the targets exist is tested in `messages/tests/it/tidy.rs`.
//! - `sh stays`: a terminal of its own. It is up once it has printed a line, and stays until `sh ctrl-c`, which
//!   first interrupts everything that stays, or until the end of the document.
//! - `text`: output of the block before it. Each line must occur in it, in any order; `…` stands for any text, and how many
//!   spaces stand together does not matter.
//! - any other language: read, and with a name behind the language (`python follow.py`) written to that file.

use std::{
    io::{BufRead as _, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use crate::support::{Place, Said, signal};

/// How long something that stays may be silent while a line of it is waited for.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// One fenced block.
struct Block {
    line: usize,
    /// The words behind the fence.
    info: Vec<String>,
    text: String,
}

impl Block {
    fn language(&self) -> &str {
        self.info.first().map_or("", String::as_str)
    }

    fn has(&self, word: &str) -> bool {
        self.info.iter().any(|given| given == word)
    }

    fn code(&self) -> i32 {
        let given = self.info.iter().find_map(|word| word.strip_prefix("exit="));
        given.map_or(0, |code| code.parse().expect("exit=N has a number"))
    }

    fn is_make(&self) -> bool {
        let mut lines = self.text.lines().filter(|line| !line.trim().is_empty());
        lines.all(|line| line.starts_with("make "))
    }

    fn file(&self) -> Option<&str> {
        self.info.get(1).map(String::as_str)
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                found.push(Block {
                    line: index + 1,
                    info: info.split_whitespace().map(str::to_owned).collect(),
                    text: String::new(),
                });
            }
        } else if inside && let Some(block) = found.last_mut() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    assert!(!inside, "a block is not closed");
    found
}

/// Whether a line of output is what a line of a document shows.
fn shows(shown: &str, said: &str) -> bool {
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, said) = (plain(shown), plain(said));
    let mut parts = shown.split('…').map(str::trim);
    let Some(mut rest) = parts.next().and_then(|start| said.strip_prefix(start)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        rest = behind;
        last = Some(part);
    }
    match last {
        // Nothing is left open: the whole line was shown.
        None => rest.is_empty(),
        Some(end) => said.ends_with(end),
    }
}

/// A block in a terminal of its own.
struct Staying {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Staying {
    fn start(place: &Place, block: &Block) -> Self {
        let mut bash = bash(place, block);
        // A group of its own: Ctrl-C reaches everything that runs in a terminal.
        bash.process_group(0);
        bash.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = bash.spawn().expect("bash can be started");
        let (sender, lines) = channel();
        forward(child.stdout.take().expect("it is piped"), sender.clone());
        forward(child.stderr.take().expect("it is piped"), sender);
        let mut staying = Self {
            child,
            lines,
            said: Vec::new(),
        };
        staying.wait_for(block.line, |_| true);
        staying
    }

    /// Reads until a line is there that is wanted.
    fn wait_for(&mut self, at: usize, wanted: impl Fn(&str) -> bool) {
        if self.said.iter().any(|line| wanted(line)) {
            return;
        }
        loop {
            match self.lines.recv_timeout(SILENCE_MAX) {
                Ok(line) => {
                    let found = wanted(&line);
                    self.said.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("line {at}: what is shown did not come: {:#?}", self.said)
                }
            }
        }
    }

    fn interrupt(&mut self) {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("kill").args(["-INT", "--", &group]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -INT");
        let status = self.child.wait().expect("it ends");
        // Code 0, or ended by the interrupt itself.
        let code = status.code().unwrap_or(130);
        assert!([0, 130].contains(&code), "{status}: {:#?}", self.said);
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            signal("INT", self.child.id());
        }
    }
}

fn forward(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

fn bash(place: &Place, block: &Block) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_coppice"));
    let beside = program.parent().expect("it lies in a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-e", "-u", "-o", "pipefail", "-c", &block.text]);
    bash.current_dir(place.path()).stdin(Stdio::null());
    bash.env("PATH", format!("{}:{path}", beside.display()));
    bash.env_remove("RUST_LOG");
    if let Some(path) = std::env::var_os("COPPICE_TEST_PYTHONPATH") {
        bash.env("PYTHONPATH", path);
    }
    bash
}

/// What the block before has said.
enum Before {
    Nothing,
    Ended(Said),
    Stays,
}

/// Goes through a document; `COUNT` commands at least, so that one whose blocks are not found fails.
fn follow(document: &str, count: usize) {
    let place = Place::new();
    let mut staying: Vec<Staying> = Vec::new();
    let mut before = Before::Nothing;
    let mut run = 0;
    for block in blocks(document) {
        let at = block.line;
        match block.language() {
            "sh" if block.is_make() => before = Before::Nothing,
            "sh" if block.has("stays") => {
                staying.push(Staying::start(&place, &block));
                before = Before::Stays;
                run += 1;
            }
            "sh" => {
                if block.has("ctrl-c") {
                    staying.drain(..).rev().for_each(|mut one| one.interrupt());
                }
                let said = Place::end(&mut bash(&place, &block));
                let Said { stdout, stderr, .. } = &said;
                assert_eq!(said.code, block.code(), "line {at}: {stdout}{stderr}");
                before = Before::Ended(said);
                run += 1;
            }
            "text" => check(at, &block.text, &before, staying.last_mut()),
            "python" | "yaml" | "ts" | "json" => {
                if let Some(file) = block.file() {
                    place.write(file, &block.text);
                }
            }
            other => panic!("line {at}: a block of {other:?} is not known"),
        }
    }
    staying.drain(..).rev().for_each(|mut one| one.interrupt());
    assert!(run >= count, "only {run} blocks of commands were found");
}

fn check(at: usize, shown: &str, before: &Before, staying: Option<&mut Staying>) {
    let lines = shown.lines().zip(at + 1..);
    match (before, staying) {
        (Before::Ended(said), _) => {
            let all = format!("{}\n{}", said.stderr, said.stdout);
            for (line, at) in lines {
                let found = all.lines().any(|said| shows(line, said));
                assert!(found, "line {at}: {line:?} is not in\n{all}");
            }
        }
        (Before::Stays, Some(staying)) => {
            for (line, at) in lines {
                staying.wait_for(at, |said| shows(line, said));
            }
        }
        (Before::Nothing, _) | (Before::Stays, None) => {
            panic!("line {at}: there is no command whose output this is")
        }
    }
}

#[test]
fn every_command_of_the_readme_does_what_is_shown() {
    follow(include_str!("../../../README.md"), 5);
}

#[test]
fn every_command_of_the_tour_does_what_is_shown() {
    follow(include_str!("../../../docs/tour.md"), 15);
}

#[test]
fn every_command_of_the_page_on_the_feed_does_what_is_shown() {
    follow(include_str!("../../../docs/events.md"), 2);
}

#[test]
fn every_command_of_the_page_on_tools_does_what_is_shown() {
    follow(include_str!("../../../docs/tools.md"), 5);
}

#[test]
fn every_command_of_the_page_on_keeping_does_what_is_shown() {
    follow(include_str!("../../../docs/keeping.md"), 4);
}

#[test]
fn every_command_of_the_page_on_callbacks_does_what_is_shown() {
    follow(include_str!("../../../docs/callbacks.md"), 4);
}

#[test]
fn a_line_with_gaps_is_shown_by_each_line_that_fills_them() {
    assert!(shows("a  b", "a b"));
    assert!(shows("tree … of …", "tree x of 3"));
    assert!(shows("…", "anything"));
    assert!(shows("… ended", "it has ended"));
    assert!(!shows("a b", "a b c"));
    assert!(!shows("tree … of", "tree x of 3"));
    assert!(!shows("b", "a b"));
}

#[test]
fn the_page_about_policies_works_as_written() {
    follow(include_str!("../../../docs/policies.md"), 2);
}
