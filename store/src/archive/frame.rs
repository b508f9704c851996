//! Frames: `<length of the payload, 4 bytes> <SHA-256 over the digest of the frame before and the payload> <payload>`, the payload a row of
//! records as MessagePack maps. Each digest covers all that lies before, so frames can be neither altered nor dropped nor moved; the
//! last record says that nothing is missing behind it.

use std::io::{self, Read};

use coppice_messages::Digest;
use sha2::Digest as _;

use super::{End, FORMAT, GatherError, Header, MAGIC, Record};
use crate::limits::{FRAME_BYTES, FRAME_BYTES_MAX};

fn digest(before: &Digest, payload: &[u8]) -> Digest {
    let mut hasher = sha2::Sha256::new();
    hasher.update(before.0);
    hasher.update(payload);
    Digest(hasher.finalize().into())
}

/// The bytes of an archive, frame by frame, from its header and the records behind it.
pub struct Encoder<I> {
    records: I,
    header: Option<Header>,
    before: Digest,
    written: u64,
    ended: bool,
}

impl<I: Iterator<Item = Result<Record, GatherError>>> Encoder<I> {
    /// An archive of these records.
    pub fn new(header: Header, records: I) -> Self {
        Self {
            records,
            header: Some(header),
            before: Digest::of(MAGIC),
            written: 0,
            ended: false,
        }
    }

    fn payload(&mut self) -> Result<Vec<u8>, GatherError> {
        let mut payload = Vec::new();
        if let Some(header) = self.header.take() {
            self.put(&mut payload, &Record::Header(header))?;
        }
        while payload.len() < FRAME_BYTES {
            if let Some(record) = self.records.next() {
                self.put(&mut payload, &record?)?;
            } else {
                let records = self.written;
                self.put(&mut payload, &Record::End(End { records }))?;
                self.ended = true;
                break;
            }
        }
        Ok(payload)
    }

    fn put(&mut self, payload: &mut Vec<u8>, record: &Record) -> Result<(), GatherError> {
        self.written += 1;
        rmp_serde::encode::write_named(payload, record).map_err(|error| GatherError::Encode {
            said: error.to_string(),
        })
    }
}

impl<I: Iterator<Item = Result<Record, GatherError>>> Iterator for Encoder<I> {
    type Item = Result<Vec<u8>, GatherError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let first = self.header.is_some();
        let payload = match self.payload() {
            Ok(payload) => payload,
            Err(error) => {
                self.ended = true;
                return Some(Err(error));
            }
        };
        self.before = digest(&self.before, &payload);
        let mut frame = if first { MAGIC.to_vec() } else { Vec::new() };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&self.before.0);
        frame.extend_from_slice(&payload);
        Some(Ok(frame))
    }
}

/// Why bytes are no archive, or not one that may be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadArchiveError {
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(
        #[from]
        #[source]
        io::Error,
    ),
    /// It is something else.
    #[error("it is no archive of coppice: log export and backup write them")]
    NoArchive,
    /// A newer build wrote it.
    #[error(
        "it has format {found}; this build knows formats up to {FORMAT}: use a newer build of coppice"
    )]
    Newer {
        /// Its format.
        found: u16,
    },
    /// It ends too early.
    #[error(
        "it ends at byte {at}, before its end record: it was cut off, or is still being written"
    )]
    CutOff {
        /// Where.
        at: u64,
    },
    /// Its bytes are not those that were written.
    #[error("the frame at byte {at} is not the one that was written: the file was altered")]
    Altered {
        /// Where the frame begins.
        at: u64,
    },
    /// There is more behind its end.
    #[error("something lies behind its end, at byte {at}: the file was altered")]
    Longer {
        /// Where.
        at: u64,
    },
}

/// Reads an archive, and checks each frame before it gives a record of it.
pub struct Reader<R> {
    from: R,
    header: Header,
    before: Digest,
    at: u64,
    /// Of the frame under way.
    frame_at: u64,
    payload: io::Cursor<Vec<u8>>,
    records: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ReadArchiveError`].
    pub fn open(mut from: R) -> Result<Self, ReadArchiveError> {
        let mut magic = vec![0; MAGIC.len()];
        let read = fill(&mut from, &mut magic)?;
        if read < MAGIC.len() || magic != MAGIC {
            return Err(ReadArchiveError::NoArchive);
        }
        let mut reader = Self {
            from,
            header: Header {
                v: FORMAT,
                at: coppice_messages::Timestamp(0),
                pos: 0,
                trees: None,
            },
            before: Digest::of(MAGIC),
            at: MAGIC.len() as u64,
            frame_at: 0,
            payload: io::Cursor::default(),
            records: 0,
            ended: false,
        };
        match reader.step()? {
            Some(Record::Header(header)) if header.v > FORMAT => {
                Err(ReadArchiveError::Newer { found: header.v })
            }
            Some(Record::Header(header)) => {
                reader.header = header;
                Ok(reader)
            }
            _ => Err(ReadArchiveError::NoArchive),
        }
    }

    /// What the archive is.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many bytes were read.
    pub fn bytes_read(&self) -> u64 {
        self.at
    }

    fn step(&mut self) -> Result<Option<Record>, ReadArchiveError> {
        if self.ended {
            return Ok(None);
        }
        if self.payload.position() >= self.payload.get_ref().len() as u64 {
            self.next_frame()?;
        }
        let altered = ReadArchiveError::Altered { at: self.frame_at };
        let record: Record = match rmp_serde::from_read(&mut self.payload) {
            Ok(record) => record,
            Err(_) => return Err(altered),
        };
        if let Record::End(end) = &record {
            if end.records != self.records {
                return Err(altered);
            }
            self.ended = true;
            let rest = self.payload.get_ref().len() as u64 - self.payload.position();
            let mut one = [0];
            if rest > 0 || fill(&mut self.from, &mut one)? > 0 {
                return Err(ReadArchiveError::Longer { at: self.at - rest });
            }
            return Ok(None);
        }
        self.records += 1;
        Ok(Some(record))
    }

    fn next_frame(&mut self) -> Result<(), ReadArchiveError> {
        self.frame_at = self.at;
        let mut head = [0; 36];
        self.exactly(&mut head)?;
        let (length, said) = head.split_at(4);
        let length = length
            .iter()
            .fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(ReadArchiveError::Altered { at: self.frame_at });
        }
        let mut payload = vec![0; length];
        self.exactly(&mut payload)?;
        self.before = digest(&self.before, &payload);
        if self.before.0 != said {
            return Err(ReadArchiveError::Altered { at: self.frame_at });
        }
        self.payload = io::Cursor::new(payload);
        Ok(())
    }

    fn exactly(&mut self, into: &mut [u8]) -> Result<(), ReadArchiveError> {
        let read = fill(&mut self.from, into)?;
        self.at += read as u64;
        if read < into.len() {
            return Err(ReadArchiveError::CutOff { at: self.at });
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        self.ended |= step.is_err();
        step.transpose()
    }
}

/// Reads until `into` is full or there is nothing more.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match from.read(&mut into[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
