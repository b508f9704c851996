//! Files that are refused, and what is said of each: recorded beside it.

use std::path::PathBuf;

use coppice_topology::check;

use crate::{files::Directory, recorded::difference};

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
        wrong.extend(difference(&path.with_extension("txt"), &said));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
