//! Noticing that fjall could not read something, whatever becomes of the error: a caller that goes on as if nothing were there would say, or record,
//! what is not so.

use std::sync::Arc;

use super::ReadError;

type Tell = dyn Fn(&ReadError) + Send + Sync;

/// Is told of the first error, and of each one after it, before whoever asked is.
#[derive(Clone, Default)]
pub(crate) struct Unread(Option<Arc<Tell>>);

impl Unread {
    pub fn telling(tell: impl Fn(&ReadError) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// The same result, looked at.
    pub fn seen<T>(&self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if let (Some(tell), Err(error @ ReadError::Database(_))) = (&self.0, &read) {
            tell(error);
        }
        read
    }

    /// The same results, looked at.
    pub fn each<T>(
        &self,
        read: impl Iterator<Item = Result<T, ReadError>> + Send + 'static,
    ) -> impl Iterator<Item = Result<T, ReadError>> + Send + 'static {
        let unread = self.clone();
        read.map(move |read| unread.seen(read))
    }
}
