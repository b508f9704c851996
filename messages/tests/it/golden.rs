//! The bytes of every kind of event at every version that was ever written: what is recorded stays readable, with
//! the same meaning.
//!
//! `golden/<kind>.v<version>.hex` holds one whole commit. `UPDATE_GOLDEN=1` writes files that are missing and never
//! touches one that is there: other bytes mean another version.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf};

use coppice_messages::{Commit, commit::Header, event::KINDS};

use crate::samples;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn file_name(kind: &str, version: u16) -> String {
    format!("{kind}.v{version}.hex")
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").expect("a String takes all");
        }
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("hex is ASCII");
            u8::from_str_radix(pair, 16).expect("the file holds hex")
        })
        .collect()
}

/// Every golden file: its name, its kind and its bytes.
fn files() -> Vec<(String, String, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| {
            let entry = entry.expect("the folder can be read");
            let name = entry.file_name().into_string().expect("a plain name");
            let kind = name.rsplit_once(".v").expect("kind.vN.hex").0.to_owned();
            let text = std::fs::read_to_string(entry.path()).expect("the file can be read");
            (name, kind, from_hex(&text))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_kind_at_its_version_has_the_golden_bytes() {
    for (kind, version) in KINDS {
        let path = folder().join(file_name(kind, *version));
        let encoded = samples::commit(kind).encode().expect("a sample encodes");
        if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(folder()).expect("the folder can be made");
            std::fs::write(&path, to_hex(&encoded)).expect("the file can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; write it with UPDATE_GOLDEN=1", path.display())
        });
        assert_eq!(
            to_hex(&encoded),
            golden,
            "{kind} has other bytes than were recorded: raise its version and read the old one into the new shape"
        );
    }
}

#[test]
fn golden_bytes_of_every_version_decode_to_the_same_meaning() {
    for (name, kind, bytes) in files() {
        let commit = Commit::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(commit, samples::commit(&kind), "{name}");
        let header = Header::decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(
            header.events.iter().all(|event| event.kind == kind),
            "{name}"
        );
    }
}

#[test]
fn a_golden_file_is_of_a_kind_in_the_catalogue() {
    let kinds: BTreeSet<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let strangers: Vec<_> = files()
        .into_iter()
        .filter(|(_, kind, _)| !kinds.contains(kind.as_str()))
        .map(|(name, ..)| name)
        .collect();
    assert!(
        strangers.is_empty(),
        "a kind is never renamed or removed: {strangers:?}"
    );
}

#[test]
fn every_kind_has_a_sample() {
    let sampled: BTreeSet<String> = samples::events()
        .iter()
        .map(|event| event.kind().to_owned())
        .collect();
    let kinds: BTreeSet<String> = KINDS.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    assert_eq!(sampled, kinds);
}

#[test]
fn a_kind_stands_once_in_the_catalogue() {
    let kinds: BTreeSet<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), KINDS.len());
}
