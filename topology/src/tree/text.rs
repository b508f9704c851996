//! The tree as text: one line a run, its place drawn, how it stands, and what it used of what it was granted.

use coppice_messages::{Spent, event::run::Reason};

use super::frame::{Frame, Run, State, WaitingFor};

/// Columns kept for `steps`, `tokens` and `try` at the right.
const FIGURES: usize = 25;
/// Least width at which a line can be read.
const WIDTH_MIN: usize = 56;

/// How the tree is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns.
    pub width: usize,
    /// With ANSI colours.
    pub color: bool,
    /// With box drawing and signs; else plain ASCII.
    pub unicode: bool,
    /// Children of one run that are drawn one by one; the others are counted.
    pub children_max: usize,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            width: 80,
            color: false,
            unicode: true,
            children_max: 50,
        }
    }
}

impl Frame {
    /// The frame as text; each line ends with a line feed.
    #[must_use]
    pub fn text(&self, options: &TextOptions) -> String {
        let mut rows = Vec::new();
        for (at, run) in self.runs.iter().enumerate() {
            if run.depth == 0 {
                self.rows(at, "", "", options, &mut rows);
            }
        }
        let width = options.width.max(WIDTH_MIN);
        let room = width - FIGURES;
        let longest = rows.iter().map(|row| length(&row.label)).max();
        let label = longest.unwrap_or(0).min(room * 3 / 5);
        let mut text = self.title(width, options);
        for row in rows {
            text.push_str(&row.line(label, room - label - 1, options));
            text.push('\n');
        }
        self.notes(width, options, &mut text);
        text
    }

    fn title(&self, width: usize, options: &TextOptions) -> String {
        let root = self.runs.first();
        let topology = root.and_then(|run| run.topology.as_deref());
        let name = match (&self.tree, topology) {
            (Some(tree), Some(topology)) => format!("{topology}  {tree}"),
            (Some(tree), None) => tree.to_string(),
            (None, _) => return "nothing is recorded\n".to_owned(),
        };
        let head = cut(&name, width - FIGURES, options);
        let figures = format!("{:>9}{:>12}{:>4}", "steps", "tokens", "try");
        let line = format!("{}{figures}", pad(&head, width - FIGURES));
        format!("{}\n", paint(&line, Paint::Dim, options))
    }

    /// What one line a run has no room for: why the tree did not succeed, doubts, and what this build could not read.
    fn notes(&self, width: usize, options: &TextOptions, text: &mut String) {
        let root = self.runs.first().and_then(|run| run.ended.as_ref());
        if let Some(ended) = root.filter(|ended| !ended.message.is_empty()) {
            let note = format!("why: {}", ended.message);
            text.push_str(&paint(&note, Paint::Red, options));
            text.push('\n');
        }
        for run in &self.runs {
            for doubt in &run.in_doubt {
                let key = doubt.key.hex();
                let note = format!(
                    "in doubt: {} of {}, key {}: {}",
                    doubt.tool,
                    run.path,
                    key.get(..12).unwrap_or(&key),
                    doubt.why
                );
                text.push_str(&paint(&cut(&note, width, options), Paint::Yellow, options));
                text.push('\n');
            }
        }
        if self.skipped > 0 {
            let note = format!(
                "{} events of kinds that this build does not know are not in the picture\n",
                self.skipped
            );
            text.push_str(&note);
        }
    }

    /// The children of the run at `at`, which stand behind it.
    fn children(&self, at: usize) -> Vec<usize> {
        let Some(run) = self.runs.get(at) else {
            return Vec::new();
        };
        let below = self.runs.iter().enumerate().skip(at + 1);
        below
            .take_while(|(_, other)| other.depth > run.depth)
            .filter(|(_, other)| other.depth == run.depth + 1)
            .map(|(at, _)| at)
            .collect()
    }

    fn rows(
        &self,
        at: usize,
        branch: &str,
        stem: &str,
        options: &TextOptions,
        rows: &mut Vec<Row>,
    ) {
        let Some(run) = self.runs.get(at) else { return };
        rows.push(Row::of(run, branch, options));
        let children = self.children(at);
        let shown = self.shown(&children, options.children_max);
        let hidden: Vec<&Run> = children
            .iter()
            .filter(|child| !shown.contains(child))
            .filter_map(|child| self.runs.get(*child))
            .collect();
        let signs = signs(options);
        let lines = shown.len() + usize::from(!hidden.is_empty());
        for (nth, child) in shown.iter().enumerate() {
            let (branch, below) = if nth + 1 == lines {
                (signs.last, signs.gap)
            } else {
                (signs.fork, signs.bar)
            };
            let (branch, below) = (format!("{stem}{branch}"), format!("{stem}{below}"));
            self.rows(*child, &branch, &below, options, rows);
        }
        if !hidden.is_empty() {
            rows.push(Row::hidden(&hidden, &format!("{stem}{}", signs.last)));
        }
    }

    /// Which children are drawn one by one: those that did not succeed first.
    fn shown(&self, children: &[usize], most: usize) -> Vec<usize> {
        if children.len() <= most {
            return children.to_vec();
        }
        let succeeded = |at: &usize| {
            let run = self.runs.get(*at);
            run.and_then(|run| run.ended.as_ref())
                .is_some_and(|ended| ended.reason == Reason::Succeeded)
        };
        let mut first = children.to_vec();
        first.sort_by_key(succeeded);
        first.truncate(most);
        first.sort_unstable();
        first
    }
}

/// One line before it is laid out.
struct Row {
    label: String,
    says: String,
    paint: Paint,
    figures: String,
}

impl Row {
    fn of(run: &Run, branch: &str, options: &TextOptions) -> Self {
        let (sign, paint) = sign(run, options);
        let place = run.path.rsplit('/').next().unwrap_or(&run.path);
        let mut says = says(run);
        match run.refused.len() {
            0 => {}
            many if run.ended.is_some() => says.push_str(&format!(", {many} refused")),
            many => says = format!("{many} refused; {says}"),
        }
        let of = |used: fn(&Spent) -> u64| {
            format!(
                "{}/{}",
                compact(used(&run.subtree)),
                compact(used(&run.budget.granted))
            )
        };
        let figures = format!(
            "{:>9}{:>12}{:>4}",
            of(|spent| spent.steps),
            of(|spent| spent.tokens),
            run.attempt
        );
        Self {
            label: format!("{branch}{sign} {place}"),
            says,
            paint,
            figures,
        }
    }

    fn hidden(runs: &[&Run], branch: &str) -> Self {
        let count = |state: State| runs.iter().filter(|run| run.state == state).count();
        let succeeded = runs
            .iter()
            .filter_map(|run| run.ended.as_ref())
            .filter(|ended| ended.reason == Reason::Succeeded)
            .count();
        let parts = [
            (succeeded, "succeeded"),
            (count(State::Ended) - succeeded, "ended otherwise"),
            (count(State::Running), "running"),
            (count(State::Waiting), "waiting"),
            (count(State::Opened) + count(State::Delegated), "to begin"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(many, _)| *many > 0)
            .map(|(many, what)| format!("{many} {what}"))
            .collect();
        Self {
            label: format!("{branch}{} more", runs.len()),
            says: parts.join(", "),
            paint: Paint::Dim,
            figures: String::new(),
        }
    }

    fn line(&self, label: usize, says: usize, options: &TextOptions) -> String {
        let left = pad(&cut(&self.label, label, options), label);
        let said = cut(&self.says, says, options);
        let gap = " ".repeat(says.saturating_sub(length(&said)));
        let said = paint(&said, self.paint, options);
        let line = format!("{left} {said}{gap}{}", self.figures);
        line.trim_end().to_owned()
    }
}

fn says(run: &Run) -> String {
    match (&run.ended, &run.waiting) {
        (Some(ended), _) => {
            let class = ended.class.as_ref();
            let class = class.map_or(String::new(), |class| format!(" ({class})"));
            let rejected = ended.rejected.as_ref();
            let rejected = rejected.map_or("", |_| ", its answer was rejected");
            format!("{}{class}{rejected}", ended.reason)
        }
        // The children that it waits for stand below it.
        (None, Some(waiting)) if waiting.what == WaitingFor::Child => run.doing.clone(),
        (None, Some(waiting)) => format!("{}: {}", run.doing, waiting.who),
        (None, None) if run.state == State::Ended => "settled without its own end".to_owned(),
        (None, None) => run.doing.clone(),
    }
}

struct Signs {
    fork: &'static str,
    last: &'static str,
    bar: &'static str,
    gap: &'static str,
}

fn signs(options: &TextOptions) -> Signs {
    if options.unicode {
        Signs {
            fork: "├─ ",
            last: "└─ ",
            bar: "│  ",
            gap: "   ",
        }
    } else {
        Signs {
            fork: "|- ",
            last: "`- ",
            bar: "|  ",
            gap: "   ",
        }
    }
}

fn sign(run: &Run, options: &TextOptions) -> (char, Paint) {
    let (drawn, plain, paint) = match (run.state, run.ended.as_ref().map(|ended| ended.reason)) {
        (_, Some(Reason::Succeeded)) => ('✓', '+', Paint::Green),
        (_, Some(Reason::NeedsHuman)) => ('?', '?', Paint::Yellow),
        (_, Some(Reason::Cancelled | Reason::Refused)) => ('⊘', '-', Paint::Dim),
        (_, Some(Reason::Failed | Reason::TimedOut | Reason::BudgetExhausted)) => {
            ('✗', 'x', Paint::Red)
        }
        (State::Ended, None) => ('✗', 'x', Paint::Red),
        (State::Running, None) => ('●', '*', Paint::Cyan),
        (State::Waiting, None) => ('◌', '~', Paint::Yellow),
        (State::Opened, None) => ('○', 'o', Paint::Dim),
        (State::Delegated, None) => ('·', '.', Paint::Dim),
    };
    (if options.unicode { drawn } else { plain }, paint)
}

#[derive(Debug, Clone, Copy)]
enum Paint {
    Green,
    Red,
    Yellow,
    Cyan,
    Dim,
}

fn paint(text: &str, paint: Paint, options: &TextOptions) -> String {
    if !options.color || text.trim().is_empty() {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Green => 32,
        Paint::Red => 31,
        Paint::Yellow => 33,
        Paint::Cyan => 36,
        Paint::Dim => 2,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// `950`, `3.5k`, `18k`, `4M`
fn compact(number: u64) -> String {
    let (size, unit) = match number {
        0..1_000 => return number.to_string(),
        1_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    let (whole, tenth) = (number / size, number % size * 10 / size);
    if whole < 10 && tenth > 0 {
        format!("{whole}.{tenth}{unit}")
    } else {
        format!("{whole}{unit}")
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(length(text));
    format!("{text}{}", " ".repeat(missing))
}

/// At most `width` characters; what is cut off is marked, and no control character gets through.
fn cut(text: &str, width: usize, options: &TextOptions) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let shown = |c: char| {
        if options.unicode || c.is_ascii() {
            c
        } else {
            '?'
        }
    };
    let text: String = text.chars().map(|c| shown(clean(c))).collect();
    if length(&text) <= width {
        return text;
    }
    let mark = if options.unicode { "…" } else { "..." };
    let kept: String = text
        .chars()
        .take(width.saturating_sub(length(mark)))
        .collect();
    format!("{}{mark}", kept.trim_end())
}
