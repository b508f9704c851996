//! Chunks that come in order, twice, after a restart, or with the wrong bytes.

use super::*;
use crate::limits::BLOB_CHUNK_BYTES;

/// A log, and what a host that lives since its start knows of partial blobs.
struct Place {
    tables: Tables,
    assembly: Assembly,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self {
            tables: Tables::open(directory.path()).expect("opens"),
            assembly: Assembly::default(),
            _directory: directory,
        }
    }

    /// Takes chunks of a blob in one batch; the address of the blob for each that made it whole.
    fn take(&mut self, blob: Digest, whole: &[u8], chunks: &[u32]) -> Vec<Option<Digest>> {
        let mut write = self.tables.db.batch();
        let took = chunks
            .iter()
            .map(|index| {
                let message = Chunk::of(blob, whole, *index).encode();
                let chunk = Chunk::decode(&message).expect("a chunk");
                let took = self
                    .assembly
                    .take(&self.tables, &mut write, &tenant(), &chunk);
                match took.expect("readable") {
                    Took::Whole(blob) => Some(blob),
                    Took::Part | Took::Nothing => None,
                }
            })
            .collect();
        write.commit().expect("written");
        took
    }

    fn read(&self, blob: &Digest) -> Option<Vec<u8>> {
        let found = blobs::get(&self.tables.blobs, &tenant(), blob).expect("readable");
        found.map(|bytes| bytes.to_vec())
    }
}

fn tenant() -> TenantId {
    TenantId::default_tenant()
}

fn three_chunks() -> (Digest, Vec<u8>) {
    let whole: Vec<u8> = (0..2 * BLOB_CHUNK_BYTES + 10)
        .map(|at| (at % 253) as u8)
        .collect();
    (Digest::of(&whole), whole)
}

#[test]
fn a_blob_counts_once_its_last_chunk_is_there() {
    let (blob, whole) = three_chunks();
    let mut place = Place::new();
    assert_eq!(place.take(blob, &whole, &[0, 1]), [None, None]);
    assert_eq!(place.read(&blob), None);
    assert_eq!(place.take(blob, &whole, &[2]), [Some(blob)]);
    assert_eq!(place.read(&blob), Some(whole));
}

#[test]
fn the_chunks_that_an_earlier_host_recorded_are_taken_up() {
    let (blob, whole) = three_chunks();
    let mut place = Place::new();
    place.take(blob, &whole, &[0, 1]);
    place.assembly = Assembly::default();
    assert_eq!(place.take(blob, &whole, &[2]), [Some(blob)]);
    assert_eq!(place.read(&blob), Some(whole));
}

#[test]
fn a_blob_sent_again_from_its_first_chunk_becomes_whole_as_if_sent_once() {
    let (blob, whole) = three_chunks();
    let mut place = Place::new();
    let took = place.take(blob, &whole, &[0, 1, 0, 1, 2]);
    assert_eq!(took, [None, None, None, None, Some(blob)]);
    // What of it comes later is told the same.
    assert_eq!(place.take(blob, &whole, &[1]), [Some(blob)]);
    assert_eq!(place.read(&blob), Some(whole));
}

#[test]
fn chunks_that_do_not_have_the_digest_are_thrown_away_and_the_right_ones_taken() {
    let (blob, whole) = three_chunks();
    let mut other = whole.clone();
    other[5] ^= 1;
    let mut place = Place::new();
    assert_eq!(place.take(blob, &other, &[0, 1, 2]), [None; 3]);
    assert_eq!(place.read(&blob), None);
    place.take(blob, &whole, &[0, 1, 2]);
    assert_eq!(place.read(&blob), Some(whole));
}
