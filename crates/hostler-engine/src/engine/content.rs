//! Contents that are named by their hash.

use std::fmt;

use hostler_redact::byte_length;

use super::Engine;
use crate::EngineError;
use crate::action_mapper::content_hash;

/// Contents that states and actions name instead of carrying them.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredContent {
    /// What kind of contents they are.
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
    /// The contents behind a URI that a state or an action names.
    ///
    /// # Errors
    /// [`EngineError::ContentNotFound`] if no session of this host names it.
    pub async fn content(&self, uri: &str) -> Result<StoredContent, EngineError> {
        let not_found = || EngineError::ContentNotFound(uri.to_owned());
        let hash = content_hash(uri).ok_or_else(not_found)?;
        let blob = self.host.store.blob(hash).await?.ok_or_else(not_found)?;
        Ok(StoredContent { content_type: blob.content_type().to_owned(), body: blob.body().to_vec() })
    }
}
