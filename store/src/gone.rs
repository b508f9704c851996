//! Messages that the stream does not have although it should, and which positions of the log went with them.

use std::fmt;

use async_nats::jetstream::stream::Stream;
use coppice_messages::{Header, ids::TenantId};

use crate::{
    log::{LogReader, ReadError, commits},
    passage::Passage,
    ranges::Ranges,
    subjects::{Lane, parse_stream_subject},
    wire,
};

/// What of the stream is gone that the log, which is read from it, does not have either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Which messages.
    pub messages: Ranges,
    /// The log's last position before the first of them.
    pub after: u64,
    /// Commits that can be read in the messages behind.
    pub behind: u64,
    /// How many commits the log had, as far as that is known.
    pub had: Option<u64>,
    /// The last position of the log as it was found, where it ended before and was set aside for that.
    pub older: Option<u64>,
}

impl Gone {
    /// That the log had more than a stream has that ends after so many commits, and a log that was found to end after `older`.
    #[must_use]
    pub fn at_the_end(commits: u64, older: Option<u64>, had: u64) -> Option<String> {
        let found = commits.max(older.unwrap_or_default());
        (found < had).then(|| format!("{} in neither", positions(found + 1, had)))
    }

    /// How many positions are missing, as far as that is known.
    #[must_use]
    pub fn positions(&self) -> Option<u64> {
        let had = self.had?;
        Some(had.saturating_sub(self.after + self.behind))
    }
}

/// What a look through a stretch of the stream found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Looked {
    /// Messages that can be read.
    pub messages: u64,
    /// Commits in them that come before the first that cannot.
    pub before: u64,
    /// Commits in them that come behind.
    pub behind: u64,
    /// Messages that cannot be read.
    pub gone: Ranges,
}

/// Goes through the messages `from..=last`, without recording anything of them. `is_new` says whether a commit is to be counted.
pub(crate) async fn look(
    stream: &Stream,
    (from, last): (u64, u64),
    mut is_new: impl FnMut(&TenantId, &Header, &[u8]) -> Result<bool, ReadError>,
) -> Result<Looked, String> {
    let mut passage = Passage::new(stream.clone(), from, last);
    let mut looked = Looked::default();
    while let Some(message) = passage.next().await? {
        looked.messages += 1;
        let Some((Lane::Commits, tenant)) = parse_stream_subject(&message.subject) else {
            continue;
        };
        for bytes in wire::decode_commits(&message.payload).unwrap_or_default() {
            let Ok(header) = Header::decode(&bytes) else {
                continue;
            };
            let new = is_new(&tenant, &header, &bytes).map_err(|error| error.to_string())?;
            let counted = match passage.gone().is_empty() {
                true => &mut looked.before,
                false => &mut looked.behind,
            };
            *counted += u64::from(new);
        }
    }
    looked.gone = passage.gone().clone();
    Ok(looked)
}

/// Looks through what the stream has behind the log's position in it. None when all of it can be read.
pub(crate) async fn behind(
    stream: &Stream,
    log: &LogReader,
    stretch: (u64, u64),
) -> Result<Option<Gone>, String> {
    let position = log.position().map_err(|error| error.to_string())?;
    let looked = look(stream, stretch, |tenant, header, _| {
        let commits = &log.tables.commits;
        let stored = commits::at_or_before(commits, tenant, &header.run, header.seq)?;
        // One that was sent twice has one position.
        Ok(stored.is_none_or(|stored| stored.seq != header.seq))
    })
    .await?;
    Ok((!looked.gone.is_empty()).then(|| Gone {
        after: position + looked.before,
        behind: looked.behind,
        messages: looked.gone,
        had: None,
        older: None,
    }))
}

/// Positions of the log, as the subject of a sentence.
pub(crate) fn positions(first: u64, last: u64) -> String {
    if first == last {
        format!("position {first} is")
    } else {
        format!("positions {first} to {last} are")
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            messages,
            after,
            behind,
            older,
            ..
        } = self;
        let older = older.filter(|older| older > after);
        let many = if messages.count() == 1 {
            "message"
        } else {
            "messages"
        };
        write!(f, "{many} {messages} of the stream cannot be read, and ")?;
        let last = self.positions().map(|missing| after + missing);
        if let (Some(older), Some(last)) = (older, last)
            && older >= last
            && messages.runs() == 1
        {
            return write!(
                f,
                "the log, which is older than it was and ends at position {older}, still has what they held: {} in the log alone, and what came behind position {older} in the stream alone; {behind} commits behind can be read",
                positions(after + 1, last.max(after + 1))
            );
        }
        f.write_str("the log does not have what they held either: ")?;
        match (self.positions(), messages.runs()) {
            (None, _) => write!(f, "it came behind position {after} of the log")?,
            (Some(0), _) => write!(
                f,
                "no position is missing, so it was part of a blob or a repetition, behind position {after} of the log"
            )?,
            (Some(missing), 1) => {
                let first = older.unwrap_or(*after) + 1;
                write!(f, "{} in neither", positions(first, after + missing))?;
            }
            (Some(missing), _) => write!(
                f,
                "{missing} positions from {} on are not in the stream, and those behind position {} in neither",
                after + 1,
                older.unwrap_or(*after)
            )?,
        }
        write!(f, "; {behind} commits behind can be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(runs: &[(u64, u64)], had: Option<u64>) -> String {
        beside(runs, had, None)
    }

    fn beside(runs: &[(u64, u64)], had: Option<u64>, older: Option<u64>) -> String {
        let mut messages = Ranges::default();
        for (first, last) in runs {
            messages.insert_run(*first..=*last);
        }
        let (after, behind) = (10, 20);
        let gone = Gone {
            messages,
            after,
            behind,
            had,
            older,
        };
        gone.to_string()
    }

    #[test]
    fn it_is_said_which_positions_are_missing_as_far_as_that_is_known() {
        let one = gone(&[(12, 12)], Some(31));
        assert!(one.starts_with("message 12 of the stream"), "{one}");
        assert!(one.contains("position 11 is in neither"), "{one}");
        let some = gone(&[(12, 14)], Some(35));
        assert!(some.starts_with("messages 12 to 14 of"), "{some}");
        assert!(some.contains("positions 11 to 15 are in"), "{some}");
        let apart = gone(&[(12, 12), (17, 18)], Some(35));
        assert!(apart.starts_with("messages 12, 17 to 18 of"), "{apart}");
        assert!(apart.contains("5 positions from 11 on"), "{apart}");
        assert!(apart.contains("behind position 10 in neither"), "{apart}");
        let chunk = gone(&[(12, 12)], Some(30));
        assert!(chunk.contains("no position is missing"), "{chunk}");
        let older = |older| beside(&[(12, 14)], Some(35), Some(older));
        assert!(older(10).contains("positions 11 to 15 are in neither"));
        assert!(older(13).contains("positions 14 to 15 are in neither"));
        let has_it = older(15);
        assert!(!has_it.contains("neither"), "{has_it}");
        assert!(
            has_it.contains("ends at position 15, still has"),
            "{has_it}"
        );
        let unknown = gone(&[(12, 12)], None);
        assert!(unknown.contains("behind position 10"), "{unknown}");
    }
}
