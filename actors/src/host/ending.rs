//! What a host tells its parent: that it is up, and when it ends with exit code 3, what kind of end that is. Said on standard output, a pipe: a file
//! would have no room on a full disk.

use std::{
    error::Error,
    io::{self, Write as _},
};

use coppice_store::{Fatal, OpenError};

use super::HostError;

/// Why a host ended that the environment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// A disk is full: it can go on when there is space.
    DiskFull,
    /// The log could not be written or fsynced: somebody must look before it goes on.
    LogWrite,
    /// Something else.
    Other,
}

impl Ending {
    pub fn of(error: &HostError) -> Self {
        let fatal = match error {
            HostError::Fatal(fatal) => Some(fatal),
            HostError::Store(error) => match &**error {
                OpenError::Fatal(fatal) => Some(fatal),
                _ => None,
            },
            _ => None,
        };
        match fatal {
            Some(fatal) if fatal.is_disk_full() => Self::DiskFull,
            Some(Fatal::LogWrite { .. }) => Self::LogWrite,
            _ if is_storage_full(error) => Self::DiskFull,
            _ => Self::Other,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::LogWrite => "log_write",
            Self::Other => "other",
        }
    }

    /// Tells the parent.
    pub fn say(self) {
        say(self.word());
    }
}

const UP: &str = "up";

/// Tells the parent that everything is started.
pub(super) fn say_up() {
    say(UP);
}

fn say(word: &str) {
    // A parent that is gone hears nothing, and ends this host anyway.
    let _ = writeln!(io::stdout(), "{word}");
}

/// What a host told until it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heard {
    /// It was up.
    pub was_up: bool,
    /// Why it ended.
    pub ending: Ending,
}

impl Heard {
    pub fn of(said: &str) -> Self {
        let told = said.lines().last().unwrap_or_default();
        Self {
            was_up: said.lines().any(|word| word == UP),
            ending: [Ending::DiskFull, Ending::LogWrite]
                .into_iter()
                .find(|ending| ending.word() == told)
                .unwrap_or(Ending::Other),
        }
    }
}

/// Whether the system said so, at whatever depth.
fn is_storage_full(error: &HostError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointError;

    #[test]
    fn what_a_host_says_of_its_end_is_what_its_parent_hears() {
        for ending in [Ending::DiskFull, Ending::LogWrite, Ending::Other] {
            for (was_up, before) in [(true, "up\n"), (false, "")] {
                let heard = Heard::of(&format!("{before}{}\n", ending.word()));
                assert_eq!(heard, Heard { was_up, ending });
            }
        }
        let (was_up, ending) = (false, Ending::Other);
        assert_eq!(Heard::of(""), Heard { was_up, ending });
    }

    #[test]
    fn a_full_disk_is_told_from_a_failed_write_whatever_met_it() {
        let fatal = |fatal| Ending::of(&HostError::Fatal(fatal));
        assert_eq!(fatal(Fatal::DiskFull), Ending::DiskFull);
        assert_eq!(fatal(Fatal::StreamDiskFull), Ending::DiskFull);
        let said = "input/output error".to_owned();
        assert_eq!(fatal(Fatal::LogWrite { said }), Ending::LogWrite);
        let opening = OpenError::Fatal(Fatal::DiskFull);
        assert_eq!(
            Ending::of(&HostError::Store(Box::new(opening))),
            Ending::DiskFull
        );
        let endpoint = |kind: io::ErrorKind| {
            let error = EndpointError::Io {
                path: "endpoint.json".into(),
                source: kind.into(),
            };
            Ending::of(&HostError::Endpoint(error))
        };
        assert_eq!(endpoint(io::ErrorKind::StorageFull), Ending::DiskFull);
        assert_eq!(endpoint(io::ErrorKind::PermissionDenied), Ending::Other);
    }
}
