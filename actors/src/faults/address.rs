//! Where and when a fault strikes: `WHERE@EVENT[(TOOL)][#n][:MOMENT]=ACTION[*times]`, and the same as a map in a scenario file.

use std::{fmt, str::FromStr};

use coppice_messages::{Millis, event::KINDS, ids::ToolName};
use serde::{Deserialize, Serialize};

use crate::api::request::glob;

/// The moment of a fault, seen from the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Decided and not published.
    Before,
    /// FP4: acknowledged by JetStream, not recorded.
    Acked,
    /// FP3: recorded and fsynced, and nobody who waits for it knows.
    Synced,
    /// Recorded, and nothing that follows from it is carried out.
    After,
}

impl When {
    fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Acked => "acked",
            Self::Synced => "synced",
            Self::After => "after",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        match word {
            "before" => Some(Self::Before),
            "acked" | "FP4" => Some(Self::Acked),
            "synced" | "FP3" => Some(Self::Synced),
            "after" => Some(Self::After),
            _ => None,
        }
    }

    /// Whether the moment lies in the recorder, where no run's actor is at work.
    fn is_in_the_recorder(self) -> bool {
        matches!(self, Self::Acked | Self::Synced)
    }
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to the host's process.
    KillHost,
    /// Kills the run's actor.
    KillActor,
    /// The run's actor panics.
    Panic,
    /// Everything at this point stands still for this long, then goes on.
    Delay(Millis),
    /// A callback of the outside world is delivered as often as the fault says.
    Duplicate,
    /// A callback of the outside world is lost on its way as often as the fault says, before it is sent again.
    Drop,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillHost => f.write_str("kill_host"),
            Self::KillActor => f.write_str("kill_actor"),
            Self::Panic => f.write_str("panic"),
            Self::Delay(span) => write!(f, "delay({span})"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl FromStr for Action {
    type Err = InvalidFault;
    fn from_str(text: &str) -> Result<Self, InvalidFault> {
        let delay = || {
            let span = text.strip_prefix("delay(")?.strip_suffix(')')?;
            span.parse().ok().map(Self::Delay)
        };
        match text {
            "kill_host" => Ok(Self::KillHost),
            "kill_actor" => Ok(Self::KillActor),
            "panic" => Ok(Self::Panic),
            "duplicate" => Ok(Self::Duplicate),
            "drop" => Ok(Self::Drop),
            _ => delay().ok_or_else(|| {
                InvalidFault::new(
                    text,
                    "no such action: expected kill_host, kill_actor, panic or delay(DURATION), such as delay(500ms); for callbacks duplicate, drop or delay",
                )
            }),
        }
    }
}

/// One fault. `nth` and `times` together: it strikes the nth time that its event comes, and the `times - 1` times after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Document", try_from = "Document")]
pub struct Fault {
    place: String,
    event: String,
    tool: Option<ToolName>,
    nth: u32,
    when: When,
    action: Action,
    times: u32,
}

/// What is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a fault: {reason}")]
pub struct InvalidFault {
    /// What was given.
    pub given: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl InvalidFault {
    fn new(given: &str, reason: impl Into<String>) -> Self {
        Self {
            given: given.chars().take(120).collect(),
            reason: reason.into(),
        }
    }
}

/// What stands for the kind of event in a fault of the outside world's callbacks.
const CALLBACK: &str = "callback";

/// Kinds of events that no run writes.
const HOSTS_OWN: [&str; 4] = [
    "host.started",
    "host.stopped",
    "fault.injected",
    "callback.refused",
];

/// Whether a part of a path can be one of a run's: `root`, or a slot with its number, with `*` for anything.
fn is_step(step: &str) -> bool {
    let slot = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
    let number = |c: char| c.is_ascii_digit() || c == '*';
    match step.split_once('[') {
        None => !step.is_empty() && step.chars().all(slot),
        Some((name, rest)) => {
            let ordinal = rest.strip_suffix(']').unwrap_or_default();
            let named = !name.is_empty() && name.chars().all(slot);
            named && !ordinal.is_empty() && ordinal.chars().all(number)
        }
    }
}

const SHAPE: &str = "expected WHERE@EVENT[#n][:before|:after|:synced|:acked]=ACTION, \
                     such as 'root/research[1]@effect.landed:before=kill_host'";

/// The same as a map, as scenario files have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// A path in the tree; `*` stands for anything.
    #[serde(rename = "where")]
    place: String,
    /// A kind of event, with `*` for anything, or FP1, FP2, FP5.
    event: String,
    /// Only effects of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<ToolName>,
    /// The how-manieth time; absent: the first.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    nth: u32,
    /// Absent: after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when: Option<When>,
    /// What happens.
    #[serde(rename = "do")]
    action: String,
    /// How often; absent: once.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    times: u32,
}

fn once() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_once(count: &u32) -> bool {
    *count == 1
}

impl From<Fault> for Document {
    fn from(fault: Fault) -> Self {
        Self {
            place: fault.place,
            event: fault.event,
            tool: fault.tool,
            nth: fault.nth,
            when: Some(fault.when),
            action: fault.action.to_string(),
            times: fault.times,
        }
    }
}

impl TryFrom<Document> for Fault {
    type Error = InvalidFault;
    fn try_from(document: Document) -> Result<Self, InvalidFault> {
        let (event, when) = match (alias(&document.event), document.when) {
            (Some((event, when)), None) => (event.to_owned(), when),
            (Some(_), Some(_)) => {
                let reason = "FP1, FP2 and FP5 say the moment themselves: leave out when";
                return Err(InvalidFault::new(&document.event, reason));
            }
            (None, when) => (document.event, when.unwrap_or(When::After)),
        };
        let fault = Self {
            place: document.place,
            event,
            tool: document.tool,
            nth: document.nth,
            when,
            action: document.action.parse()?,
            times: document.times,
        };
        fault.checked()
    }
}

/// The fault points with a name of their own (`spec/scenarios.md` 3).
fn alias(event: &str) -> Option<(&'static str, When)> {
    match event {
        "FP1" => Some(("effect.intended", When::After)),
        "FP2" => Some(("effect.landed", When::Before)),
        "FP5" => Some(("effect.landed", When::After)),
        _ => None,
    }
}

impl FromStr for Fault {
    type Err = InvalidFault;
    fn from_str(given: &str) -> Result<Self, InvalidFault> {
        let refuse = |reason: &str| InvalidFault::new(given, reason);
        let (address, action) = given.rsplit_once('=').ok_or_else(|| refuse(SHAPE))?;
        let (place, rest) = address.split_once('@').ok_or_else(|| refuse(SHAPE))?;
        let (rest, when) = match rest.rsplit_once(':') {
            Some((rest, word)) => {
                let when = When::of_word(word).ok_or_else(|| {
                    refuse("the moment is one of before, after, synced (FP3), acked (FP4)")
                })?;
                (rest, Some(when))
            }
            None => (rest, None),
        };
        let count = |text: &str| {
            let count = text.parse::<u32>().ok().filter(|count| *count > 0);
            count.ok_or_else(|| refuse("a count is a whole number from 1"))
        };
        let (rest, nth) = match rest.split_once('#') {
            Some((rest, nth)) => (rest, count(nth)?),
            None => (rest, 1),
        };
        let (event, tool) = match rest.split_once('(') {
            Some((event, tool)) => {
                let tool = tool.strip_suffix(')').ok_or_else(|| refuse(SHAPE))?;
                (
                    event,
                    Some(tool.parse().map_err(|e| refuse(&format!("{e}")))?),
                )
            }
            None => (rest, None),
        };
        let (action, times) = match action.rsplit_once('*') {
            Some((action, times)) => (action, count(times)?),
            None => (action, 1),
        };
        Self::try_from(Document {
            place: place.to_owned(),
            event: event.to_owned(),
            tool,
            nth,
            when,
            action: action.to_owned(),
            times,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.place, self.event)?;
        if let Some(tool) = &self.tool {
            write!(f, "({tool})")?;
        }
        if self.nth != 1 {
            write!(f, "#{}", self.nth)?;
        }
        if !self.is_of_callbacks() {
            write!(f, ":{}", self.when.word())?;
        }
        write!(f, "={}", self.action)?;
        if self.times != 1 {
            write!(f, "*{}", self.times)?;
        }
        Ok(())
    }
}

impl Fault {
    /// A fault at the nth event of one kind of one run.
    #[must_use]
    pub fn at(path: &str, kind: &str, nth: u32, when: When, action: Action) -> Self {
        Self {
            place: path.to_owned(),
            event: kind.to_owned(),
            tool: None,
            nth,
            when,
            action,
            times: 1,
        }
    }

    fn checked(self) -> Result<Self, InvalidFault> {
        let refuse = |reason: String| Err(InvalidFault::new(&self.to_string(), reason));
        if !self.place.split('/').all(is_step) {
            return refuse(
                "WHERE is a path in the tree such as root/research[2], with * for anything"
                    .to_owned(),
            );
        }
        if self.nth == 0 || self.times == 0 {
            return refuse("counts begin with 1".to_owned());
        }
        if self.is_of_callbacks() {
            let whole = self.place == "*" && self.nth == 1 && self.tool.is_none();
            let theirs = matches!(
                self.action,
                Action::Duplicate | Action::Drop | Action::Delay(_)
            );
            return if whole && theirs && self.when == When::After {
                Ok(self)
            } else {
                refuse("of callbacks there is '*@callback=duplicate*3', '*@callback=drop' and '*@callback=delay(500ms)': all of them are meant".to_owned())
            };
        }
        if matches!(self.action, Action::Duplicate | Action::Drop) {
            return refuse(
                "only a callback is duplicated or dropped: '*@callback=duplicate*3'".to_owned(),
            );
        }
        let meant = || KINDS.iter().filter(|(kind, _)| glob(&self.event, kind));
        if meant().next().is_none() {
            return refuse(format!(
                "there is no event {:?}; coppice faults SCENARIO lists those that a run offers",
                self.event
            ));
        }
        if self.tool.is_some() && !meant().any(|(kind, _)| kind.starts_with("effect.")) {
            return refuse(format!("{} concerns no tool", self.event));
        }
        if meant().all(|(kind, _)| HOSTS_OWN.contains(kind)) {
            let theirs = matches!(self.action, Action::KillHost | Action::Delay(_));
            let strikes = glob(&self.place, "") && self.when.is_in_the_recorder() && theirs;
            return if strikes {
                Ok(self)
            } else {
                refuse(format!(
                    "{event} is written by the host and by no run: there is '*@{event}:synced' and '*@{event}:acked', with kill_host or delay(500ms)",
                    event = self.event
                ))
            };
        }
        if self.when.is_in_the_recorder() && self.action == Action::Panic {
            return refuse(
                "at this moment no actor is at work that could panic: use kill_actor or kill_host"
                    .to_owned(),
            );
        }
        Ok(self)
    }

    /// Every callback of the outside world, delivered so often.
    #[must_use]
    pub fn duplicate_callbacks(times: u32) -> Self {
        Self {
            times,
            ..Self::at("*", CALLBACK, 1, When::After, Action::Duplicate)
        }
    }

    /// Whether it befalls the callbacks of the outside world, and no host.
    #[must_use]
    pub fn is_of_callbacks(&self) -> bool {
        self.event == CALLBACK
    }

    /// What it does.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// When it strikes.
    #[must_use]
    pub fn when(&self) -> When {
        self.when
    }

    /// Whether it means this event, at whatever moment.
    pub(crate) fn means(&self, path: &str, kind: &str, tool: Option<&ToolName>) -> bool {
        glob(&self.event, kind)
            && glob(&self.place, path)
            && self.tool.as_ref().is_none_or(|wanted| Some(wanted) == tool)
    }

    /// Which of the events that it means it strikes: from this one on.
    pub(crate) fn nth(&self) -> u32 {
        self.nth
    }

    /// How often it strikes.
    #[must_use]
    pub fn times(&self) -> u32 {
        self.times
    }
}
