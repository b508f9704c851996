//! Files that a person hands over: documents, inputs, credentials. Whatever stands behind the name, a device or a pipe without an end too,
//! no more is read than such a file may have.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use crate::limits::GIVEN_BYTES_MAX;

/// Reads a file that a person handed over.
///
/// # Errors
/// It cannot be read, or has more than [`GIVEN_BYTES_MAX`] bytes (`FileTooLarge`).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let most = u64::try_from(GIVEN_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > GIVEN_BYTES_MAX {
        let message = format!(
            "it has more than {} MiB, the most that a document or an input may have",
            GIVEN_BYTES_MAX >> 20
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads such a file as text.
///
/// # Errors
/// As [`read`], and it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(read(path)?).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused_and_one_of_the_greatest_size_is_read() {
        let endless = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("most");
        std::fs::write(&path, vec![b'x'; GIVEN_BYTES_MAX]).unwrap();
        assert_eq!(read_text(&path).unwrap().len(), GIVEN_BYTES_MAX);
        std::fs::write(&path, vec![b'x'; GIVEN_BYTES_MAX + 1]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
