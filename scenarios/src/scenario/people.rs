//! People of a scenario: what each does, and on what.

use std::{fmt, str::FromStr};

use coppice_messages::{Millis, Value};
use serde::{Deserialize, Deserializer, de};

use super::EventKind;

/// Somebody who does something to a run, on an event of the tree or after a time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The path of the run that it is done to, and whose event they wait for; absent: it is done to the root, on the event of any run.
    #[serde(rename = "where", default)]
    pub place: Option<String>,
    /// What they wait for.
    pub event: On,
    /// The how-manieth event of that kind.
    #[serde(default = "once")]
    pub nth: u32,
    /// What they do then.
    #[serde(rename = "do")]
    pub deed: Deed,
    /// How often they do it; each time it is the same.
    #[serde(default = "once")]
    pub times: u32,
}

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// That this is recorded.
    Event(EventKind),
    /// That so much time has passed since the start.
    After(Millis),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(kind) => f.write_str(kind.as_str()),
            Self::After(span) => write!(f, "{span}"),
        }
    }
}

impl FromStr for On {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<Millis>()
            .map(Self::After)
            .or_else(|_| text.parse().map(Self::Event))
    }
}

impl<'de> Deserialize<'de> for On {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// What somebody does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Signals the run.
    Signal(Signal),
    /// Cancels the run and everything below it.
    Cancel,
}

/// A signal to a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// What it says.
    #[serde(default)]
    pub value: Value,
}

/// A cancel as the command line has it: `WHERE@EVENT[#n]` or `WHERE@DURATION`.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelAddress {
    place: String,
    on: On,
    nth: u32,
}

/// What is no cancel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a cancel: {reason}")]
pub struct InvalidCancel {
    /// What was given.
    pub given: String,
    /// What is wrong with it, and what would be right.
    pub reason: String,
}

impl FromStr for CancelAddress {
    type Err = InvalidCancel;
    fn from_str(given: &str) -> Result<Self, InvalidCancel> {
        let refuse = |reason: String| InvalidCancel {
            given: given.chars().take(120).collect(),
            reason,
        };
        let shape = "expected WHERE@EVENT[#n] or WHERE@DURATION, such as 'root@2s' or 'root/research[1]@model.proposed'";
        let (place, rest) = given
            .split_once('@')
            .filter(|(place, rest)| !place.is_empty() && !rest.is_empty())
            .ok_or_else(|| refuse(shape.to_owned()))?;
        let (on, nth) = match rest.split_once('#') {
            Some((on, nth)) => {
                let nth = nth.parse().ok().filter(|nth| *nth > 0);
                let nth =
                    nth.ok_or_else(|| refuse("a count is a whole number from 1".to_owned()))?;
                (on, nth)
            }
            None => (rest, 1),
        };
        Ok(Self {
            place: place.to_owned(),
            on: on.parse().map_err(refuse)?,
            nth,
        })
    }
}

impl fmt::Display for CancelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.place, self.on)?;
        if self.nth != 1 {
            write!(f, "#{}", self.nth)?;
        }
        Ok(())
    }
}

impl From<CancelAddress> for Person {
    fn from(cancel: CancelAddress) -> Self {
        Self {
            place: Some(cancel.place),
            event: cancel.on,
            nth: cancel.nth,
            deed: Deed::Cancel,
            times: 1,
        }
    }
}

fn once() -> u32 {
    1
}
