//! An archive in pages, for somebody who asks for them one by one and may ask for the last one again.

use super::{Encoder, GatherError, Header, Record};

type Frames = Box<dyn Iterator<Item = Result<Vec<u8>, GatherError>> + Send>;

/// An archive that is being made.
pub struct Pages {
    frames: Frames,
    /// Made, and not given yet.
    ready: Vec<u8>,
    done: bool,
    last: Page,
}

/// A piece of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Where in the archive it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether nothing follows.
    pub end: bool,
}

impl Page {
    /// Where the next one begins.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl Pages {
    /// An archive of these records.
    pub fn new(
        header: Header,
        records: impl Iterator<Item = Result<Record, GatherError>> + Send + 'static,
    ) -> Self {
        Self {
            frames: Box::new(Encoder::new(header, records)),
            ready: Vec::new(),
            done: false,
            last: Page::default(),
        }
    }

    /// The page at `offset`: the next one, or the one before once more. Nothing for any other place.
    ///
    /// # Errors
    /// [`GatherError`]; the archive cannot be made.
    pub fn page(&mut self, offset: u64, bytes_max: usize) -> Result<Option<Page>, GatherError> {
        if offset == self.last.offset && !self.last.bytes.is_empty() {
            return Ok(Some(self.last.clone()));
        }
        if offset != self.last.next() {
            return Ok(None);
        }
        while !self.done && self.ready.len() < bytes_max {
            match self.frames.next() {
                Some(frame) => self.ready.extend_from_slice(&frame?),
                None => self.done = true,
            }
        }
        let rest = self.ready.split_off(self.ready.len().min(bytes_max));
        let bytes = std::mem::replace(&mut self.ready, rest);
        self.last = Page {
            offset,
            bytes,
            end: self.done && self.ready.is_empty(),
        };
        Ok(Some(self.last.clone()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use coppice_messages::{Timestamp, ids::TenantId};

    use super::*;
    use crate::archive::{Carried, FORMAT};

    fn pages() -> Pages {
        let header = Header {
            v: FORMAT,
            at: Timestamp(0),
            pos: 0,
            trees: Some(0),
        };
        let commit = |n| {
            Ok(Record::Commit(Carried {
                tenant: TenantId::default_tenant(),
                bytes: Bytes::from(vec![n; 1_000]),
            }))
        };
        Pages::new(header, (0..3).map(commit))
    }

    #[test]
    fn pages_of_any_size_are_the_same_archive_and_the_last_can_be_had_again() {
        let whole = pages().page(0, usize::MAX).expect("made").expect("there");
        assert!(whole.end);
        for size in [1, 7, 1_000, 3_000] {
            let (mut pages, mut got, mut offset) = (pages(), Vec::new(), 0);
            loop {
                let page = pages.page(offset, size).expect("made").expect("there");
                let again = pages.page(offset, size).expect("made").expect("there");
                assert_eq!(page, again);
                assert_eq!(pages.page(offset + 100_000, size).expect("made"), None);
                got.extend_from_slice(&page.bytes);
                offset = page.next();
                if page.end {
                    break;
                }
            }
            assert_eq!(got, whole.bytes, "{size}");
        }
    }
}
