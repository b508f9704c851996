//! The verb `copy`: an archive of what is recorded, in pages.

use coppice_store::archive::{Page, Selection};
use serde::{Deserialize, Serialize};

/// A page of an archive. The first request says what the archive is to hold; the others name it and where they go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRequest {
    /// The archive, as the first reply named it; absent in the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u64>,
    /// Where the page begins; the last page can be had once more.
    #[serde(default)]
    pub offset: u64,
    /// What the archive is to hold; looked at in the first request only.
    #[serde(default)]
    pub of: CopyOf,
}

/// What an archive is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyOf {
    /// Trees.
    Trees(Selection),
    /// The whole log, as it is when the first page is asked for.
    Log,
}

impl Default for CopyOf {
    fn default() -> Self {
        Self::Trees(Selection::default())
    }
}

/// A page of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPage {
    /// The archive.
    pub copy: u64,
    /// Where the page begins.
    pub offset: u64,
    /// Where the next one begins.
    pub next: u64,
    /// Whether nothing follows.
    pub end: bool,
    /// The bytes, two hexadecimal digits each.
    pub hex: String,
}

impl CopyPage {
    /// A page as it is sent.
    #[must_use]
    pub fn new(copy: u64, page: &Page) -> Self {
        Self {
            copy,
            offset: page.offset,
            next: page.next(),
            end: page.end,
            hex: hex(&page.bytes),
        }
    }

    /// The page's bytes; nothing when they are not as many as it says.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = unhex(&self.hex)?;
        (self.offset + bytes.len() as u64 == self.next).then_some(bytes)
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_page_arrive_as_they_were() {
        let page = Page {
            offset: 7,
            bytes: (0..=255).collect(),
            end: true,
        };
        let sent = CopyPage::new(3, &page);
        assert_eq!(sent.bytes(), Some(page.bytes));
        let short = CopyPage {
            hex: sent.hex[2..].to_owned(),
            ..sent.clone()
        };
        assert_eq!(short.bytes(), None);
        let odd = CopyPage {
            hex: "0g".to_owned(),
            ..sent
        };
        assert_eq!(odd.bytes(), None);
    }
}
