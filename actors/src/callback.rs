//! What vouches for a callback that comes over HTTP: HMAC-SHA256 of its body, with a secret of the tenant.
//!
//! The secrets of all tenants are derived from one file of the data directory that only its owner can read, so that nobody has to make them.
//! A signature says who sent a body and not when: a body that is sent again is the same callback again, and changes nothing.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use coppice_messages::ids::TenantId;
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::limits::CALLBACK_SECRET_BYTES;

/// The header that carries the signature: `sha256=` and 64 hexadecimal digits.
pub const SIGNATURE_HEADER: &str = "Coppice-Signature";

/// Name of the file in the data directory.
pub const FILE: &str = "callbacks.key";
/// What a signature begins with.
const SCHEME: &str = "sha256=";

/// The secrets of all tenants of a data directory.
pub struct CallbackSecrets(hmac::Key);

/// What a tenant and whoever calls back for it share.
#[derive(Clone)]
pub struct CallbackSecret(String);

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file.
    #[error("{path}, from which the secrets for callbacks are made, cannot be used")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It is too short to be one.
    #[error(
        "{path} should hold {CALLBACK_SECRET_BYTES} bytes and holds {bytes}: remove it to have new secrets"
    )]
    Short {
        /// Which.
        path: PathBuf,
        /// How many it holds.
        bytes: usize,
    },
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
}

impl CallbackSecrets {
    /// Those of a data directory that is there. They are made when there are none.
    ///
    /// # Errors
    /// [`SecretsError`].
    pub fn open(data: &Path) -> Result<Self, SecretsError> {
        let path = data.join(FILE);
        let unusable = |source| SecretsError::Io {
            path: path.clone(),
            source,
        };
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut fresh = vec![0; CALLBACK_SECRET_BYTES];
                SystemRandom::new()
                    .fill(&mut fresh)
                    .map_err(|_| SecretsError::Random)?;
                make(&path, &fresh).map_err(unusable)?;
                // Another process may have been first.
                fs::read(&path).map_err(unusable)?
            }
            read => read.map_err(unusable)?,
        };
        if bytes.len() != CALLBACK_SECRET_BYTES {
            let bytes = bytes.len();
            return Err(SecretsError::Short { path, bytes });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// That of one tenant.
    #[must_use]
    pub fn of(&self, tenant: &TenantId) -> CallbackSecret {
        let text = format!("callbacks of {tenant}");
        CallbackSecret(hex(hmac::sign(&self.0, text.as_bytes()).as_ref()))
    }
}

/// Whoever reads the file sees all of it or none.
pub(crate) fn make(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    // Unlike renaming, this does not replace what another process made meanwhile.
    let linked = fs::hard_link(&fresh, path);
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl CallbackSecret {
    /// One that was handed over as text.
    #[must_use]
    pub fn given(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text to hand over: 64 hexadecimal digits, whose bytes are the key.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The signature of a body, as its header says it.
    #[must_use]
    pub fn sign(&self, body: &[u8]) -> String {
        let signature = hmac::sign(&self.key(), body);
        format!("{SCHEME}{}", hex(signature.as_ref()))
    }

    /// Whether a signature is that of a body; compared in constant time.
    #[must_use]
    pub fn vouches(&self, body: &[u8], signature: &str) -> bool {
        let given = signature.strip_prefix(SCHEME).and_then(bytes);
        given.is_some_and(|given| hmac::verify(&self.key(), body, &given).is_ok())
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes())
    }
}

pub(crate) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            let is_hex = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| is_hex)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[test]
    fn a_secret_is_the_same_after_every_start_and_another_for_every_tenant_and_directory() {
        let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let of = |data: &Path, name: &str| {
            let secrets = CallbackSecrets::open(data).unwrap();
            secrets.of(&tenant(name)).text().to_owned()
        };
        assert_eq!(of(here.path(), "a"), of(here.path(), "a"));
        assert_ne!(of(here.path(), "a"), of(here.path(), "b"));
        assert_ne!(of(here.path(), "a"), of(there.path(), "a"));
        let mode = fs::metadata(here.path().join(FILE)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let left = fs::read_dir(here.path()).unwrap().count();
        assert_eq!(left, 1, "nothing half made is left");
    }

    #[test]
    fn a_signature_vouches_for_this_body_with_this_secret_alone() {
        let secret = CallbackSecret::given("key");
        // RFC 4231 has no case with a text as key; this one is what openssl dgst -sha256 -hmac key says.
        let known = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        let body = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(secret.sign(body), known);
        assert!(secret.vouches(body, known));
        assert!(secret.vouches(body, &known.to_uppercase().replace("SHA", "sha")));
        assert!(!secret.vouches(b"The quick brown fox jumps over the lazy cog", known));
        assert!(!CallbackSecret::given("other").vouches(body, known));
        for wrong in [
            "",
            "sha256=",
            "sha256=f7",
            "sha256=zz",
            "sha256=+7",
            "f7bc",
            &known[..70],
        ] {
            assert!(!secret.vouches(body, wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_was_cut_short_makes_no_secrets() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join(FILE), b"short").unwrap();
        let refused = CallbackSecrets::open(data.path()).err().unwrap();
        assert!(refused.to_string().contains("holds 5"), "{refused}");
    }
}
