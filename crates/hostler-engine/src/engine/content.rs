//! Reads contents that states and actions refer to by hash.

use std::fmt;

use hostler_redact::byte_length;

use super::Engine;
use crate::EngineError;
use crate::sessions::action_mapper::content_hash;

/// Contents that states and actions refer to.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredContent {
    /// Their media type.
    pub content_type: String,
    /// The contents.
    pub body: Vec<u8>,
}

impl fmt::Debug for StoredContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({}, {:?})", self.content_type, byte_length(&self.body))
    }
}

impl Engine {
    /// The contents of a URI in a state or an action.
    ///
    /// # Errors
    /// [`EngineError::ContentNotFound`] if no session of this host refers to it.
    pub async fn content(&self, uri: &str) -> Result<StoredContent, EngineError> {
        let not_found = || EngineError::ContentNotFound(uri.to_owned());
        let hash = content_hash(uri).ok_or_else(not_found)?;
        let blob = self.host.store.blob(hash).await?.ok_or_else(not_found)?;
        Ok(StoredContent { content_type: blob.content_type().to_owned(), body: blob.body().to_vec() })
    }
}
