//! Which digests bytes mention: as `bin` of 32 bytes, the form in commits, or as `sha256:` and 64 digits, the form in documents. A mention counts as
//! a citation, whatever field it stands in: so a kind of event that this build does not know keeps its blobs, and one blob too many costs
//! its bytes while one too few cannot be had again.

use coppice_messages::Digest;

const BIN: [u8; 2] = [0xc4, 32];
const TEXT: &[u8] = b"sha256:";
const DIGITS: usize = 64;

/// Every digest that is mentioned, in order, with repetitions.
pub fn mentioned(bytes: &[u8]) -> impl Iterator<Item = Digest> + '_ {
    (0..bytes.len()).filter_map(move |at| {
        let rest = &bytes[at..];
        match rest[0] {
            first if first == BIN[0] => rest
                .strip_prefix(&BIN)
                .and_then(|rest| rest.first_chunk::<32>())
                .map(|digest| Digest(*digest)),
            b's' if rest.starts_with(TEXT) => rest
                .get(..TEXT.len() + DIGITS)
                .and_then(|text| std::str::from_utf8(text).ok())
                .and_then(|text| text.parse().ok()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_in_both_forms_wherever_they_stand() {
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let mut bytes = b"\xc4\xc4\x20".to_vec();
        bytes.extend_from_slice(&one.0);
        bytes.extend_from_slice(format!("ssha256:{other}sha256:0").as_bytes());
        bytes.extend_from_slice(b"\xc4\x20short");
        // The digest's own text begins with the word that was put in front of it.
        assert_eq!(mentioned(&bytes).collect::<Vec<_>>(), [one, other]);
    }
}
