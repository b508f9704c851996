//! Output: results on stdout, and nothing but results; a reader that goes away ends the command in peace.

use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::{Failure, Problem};

/// Prints a text as it is.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Environment(Problem::new(format!("stdout cannot be written: {error}"))),
        })
}

/// Prints one line.
pub fn line(line: impl AsRef<str>) -> Result<(), Failure> {
    text(&format!("{}\n", line.as_ref()))
}

/// Prints one value as one line of JSON.
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json =
        serde_json::to_string(value).map_err(|error| Failure::Environment(Problem::of(&error)))?;
    line(json)
}

/// So many of something.
pub fn count(many: u64, one: &str) -> String {
    match many {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    }
}

/// Whether a stream is coloured: only a terminal, and only where nobody said no.
pub fn colourful(is_terminal: bool) -> bool {
    let says_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal && !says_no && !dumb
}

/// Rows under headings, each column as wide as its widest cell.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells
                .map(|cell| cell.chars().count())
                .chain([heading.chars().count()])
                .max()
                .unwrap_or_default()
        })
        .collect();
    let drawn = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            let missing = width.saturating_sub(cell.chars().count());
            line.push_str(cell);
            line.push_str(&" ".repeat(missing + 2));
        }
        format!("{}\n", line.trim_end())
    };
    let mut all = drawn(&mut headings.iter().copied());
    for row in rows {
        all.push_str(&drawn(&mut row.iter().map(String::as_str)));
    }
    text(&all)
}
