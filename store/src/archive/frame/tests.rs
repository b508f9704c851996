//! Archives come out of their bytes as they went in, or not at all.

use bytes::Bytes;
use coppice_messages::{Timestamp, ids::TenantId};

use super::*;
use crate::archive::Carried;

fn header() -> Header {
    Header {
        v: FORMAT,
        at: Timestamp(1_700_000_000_000_000),
        pos: 3,
        trees: Some(1),
    }
}

fn commit(byte: u8, bytes: usize) -> Record {
    Record::Commit(Carried {
        tenant: TenantId::default_tenant(),
        bytes: Bytes::from(vec![byte; bytes]),
    })
}

fn encoded(records: &[Record]) -> Vec<u8> {
    Encoder::new(header(), records.iter().cloned().map(Ok))
        .map(|frame| frame.expect("encodes"))
        .collect::<Vec<_>>()
        .concat()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, ReadArchiveError> {
    Reader::open(bytes)?.collect()
}

#[test]
fn records_come_out_as_they_went_in_over_many_frames() {
    let records: Vec<_> = (0..9).map(|n| commit(n, 70 << 10)).collect();
    let bytes = encoded(&records);
    assert_eq!(read(&bytes).expect("whole"), records);
    assert_eq!(*Reader::open(&bytes[..]).expect("opens").header(), header());
    let frames = Encoder::new(header(), records.into_iter().map(Ok)).count();
    assert!(frames > 2, "{frames}");
}

#[test]
fn no_byte_can_be_changed_without_being_noticed() {
    let bytes = encoded(&[commit(1, 30), commit(2, 30)]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            assert!(read(&altered).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn an_archive_cut_off_anywhere_or_with_something_behind_it_is_refused() {
    let bytes = encoded(&[commit(1, 30), commit(2, 30)]);
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(matches!(
        read(&longer),
        Err(ReadArchiveError::Longer { at }) if at == bytes.len() as u64
    ));
}

#[test]
fn frames_cannot_change_places_nor_be_left_out() {
    let records: Vec<_> = (0..9).map(|n| commit(n, 300 << 10)).collect();
    let frames: Vec<_> = Encoder::new(header(), records.into_iter().map(Ok))
        .map(|frame| frame.expect("encodes"))
        .collect();
    let mut swapped = frames.clone();
    swapped.swap(3, 4);
    assert!(matches!(
        read(&swapped.concat()),
        Err(ReadArchiveError::Altered { .. })
    ));
    let mut without = frames;
    without.remove(4);
    assert!(matches!(
        read(&without.concat()),
        Err(ReadArchiveError::Altered { .. })
    ));
}

#[test]
fn an_archive_of_a_newer_build_and_what_is_none_are_named() {
    let newer = Header {
        v: FORMAT + 1,
        ..header()
    };
    let bytes = Encoder::new(newer, std::iter::empty())
        .map(|frame| frame.expect("encodes"))
        .collect::<Vec<_>>()
        .concat();
    assert!(matches!(
        read(&bytes),
        Err(ReadArchiveError::Newer { found }) if found == FORMAT + 1
    ));
    assert!(matches!(read(b"hello"), Err(ReadArchiveError::NoArchive)));
}
