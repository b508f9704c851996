//! Recorded texts: a change of wording is seen in review. `UPDATE=1 cargo test -p coppice-topology` writes them anew.

use std::path::Path;

/// What is wrong, when `said` is not what is recorded at `record`.
pub fn difference(record: &Path, said: &str) -> Option<String> {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(record, said).unwrap();
    }
    let recorded = std::fs::read_to_string(record).unwrap_or_default();
    let file = record.display();
    (said != recorded).then(|| format!("{file}\n--- recorded\n{recorded}--- said\n{said}"))
}
