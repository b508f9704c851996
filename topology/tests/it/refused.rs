//! Files that are refused, and what is said of each: recorded beside it, so that a change of wording is seen in review.
//!
//! `UPDATE=1 cargo test -p coppice-topology` writes the recorded texts anew.

use std::path::PathBuf;

use coppice_topology::check;

use crate::files::Directory;

#[test]
fn every_refused_file_gets_its_recorded_diagnostics() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/refused");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "txt"))
        .collect();
    files.sort();
    assert!(files.len() > 20, "the table is there");
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let said = match check::file(name, &bytes, &Directory::library()) {
            Ok(kind) => panic!("{name} is accepted as {kind:?}"),
            Err(faults) => format!("{faults}\n"),
        };
        let record = path.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&record, &said).unwrap();
        }
        let recorded = std::fs::read_to_string(&record).unwrap_or_default();
        if said != recorded {
            wrong.push(format!("--- recorded\n{recorded}--- said\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
