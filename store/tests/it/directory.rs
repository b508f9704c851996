//! One process owns a data directory, and its format is known.

use std::{error::Error, fs};

use coppice_store::{DataDirError, Log, OpenError, OpenLogError, Store};

use crate::support::{open, options};

fn said(error: &dyn Error) -> String {
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_owner_of_a_data_directory_is_refused_and_told_who_has_it() {
    let data = tempfile::tempdir().expect("a directory");
    let store = open(data.path()).await;
    let second = Store::open(options(data.path())).await.err();
    let Some(OpenError::Log(OpenLogError::Directory(error @ DataDirError::Locked { .. }))) = second
    else {
        panic!("{second:?}");
    };
    let own = std::process::id().to_string();
    assert!(said(&error).contains(&own), "{error}");
    assert!(Log::open(data.path()).is_err());
    store.close().await;
    drop(store);
    assert!(Log::open(data.path()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_of_a_newer_format_is_refused_and_left_as_it_is() {
    let data = tempfile::tempdir().expect("a directory");
    fs::write(data.path().join("format"), "2\n").expect("written");
    let refused = Store::open(options(data.path())).await.err();
    let Some(OpenError::Log(OpenLogError::Directory(error @ DataDirError::NewerFormat { .. }))) =
        refused
    else {
        panic!("{refused:?}");
    };
    assert!(said(&error).contains("newer build"), "{error}");
    let mut left: Vec<_> = fs::read_dir(data.path())
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["format", "lock"]);
}

#[test]
fn reading_where_nothing_was_recorded_says_so_and_makes_nothing() {
    let data = tempfile::tempdir().expect("a directory");
    let missing = data.path().join("nothing");
    let error = Log::open(&missing).err().expect("refused");
    assert!(said(&error).contains("no data directory"), "{error}");
    assert!(!missing.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_not_made_to_its_end_is_made_again_and_nothing_is_set_aside() {
    let data = tempfile::tempdir().expect("a directory");
    // As a kill leaves it: the journal is there, what says that it is whole is not.
    fs::create_dir_all(data.path().join("log.new/keyspaces")).expect("made");
    fs::write(data.path().join("log.new/0.jnl"), [0; 64]).expect("written");
    let store = open(data.path()).await;
    store.close().await;
    drop(store);
    assert!(Log::open(data.path()).is_ok());
    for name in fs::read_dir(data.path()).expect("readable") {
        let name = name.expect("readable").file_name();
        let name = name.to_string_lossy();
        assert!(!name.contains("new") && !name.contains("aside"), "{name}");
    }
}
