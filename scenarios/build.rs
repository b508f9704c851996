//! Embeds `library/` in the crate: a table of every file below it, by its path there.

use std::{env, error::Error, fmt::Write as _, fs, path::Path, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("library");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    gather(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&root)?.to_string_lossy().into_owned();
        let full = file.to_string_lossy().into_owned();
        writeln!(table, "    ({name:?}, include_str!({full:?})),")?;
    }
    table.push_str("]\n");
    fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("library.rs"),
        table,
    )?;
    Ok(())
}

fn gather(directory: &Path, into: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            gather(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}
