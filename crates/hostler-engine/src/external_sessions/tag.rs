//! Session tags. A tag that a person sets is stored with the session; an external session is imported for it.

use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::sessions::actor::SessionInput;
use crate::{EngineError, InvalidParams};

/// Maximum length of a tag.
const MAX_TAG_CHARS: usize = 100;

impl Engine {
    /// Sets or removes the tag of a session, and publishes the change.
    ///
    /// # Errors
    /// If there is no such session, it cannot be imported, or the tag is invalid.
    pub async fn tag_session(&self, session: &str, tag: Option<&str>) -> Result<(), EngineError> {
        let tag = tag.map(validate_tag).transpose()?;
        let handle = self.host.load_session(session).await;
        let handle = handle.ok_or_else(|| EngineError::SessionNotFound(session.to_owned()))?;
        let (reply, done) = oneshot::channel();
        handle.send(SessionInput::SetTag(tag.map(str::to_owned), reply)).await?;
        done.await.unwrap_or(Err(EngineError::Stopping))
    }
}

/// The normalized tag.
fn validate_tag(tag: &str) -> Result<&str, EngineError> {
    let tag = tag.trim();
    if tag.is_empty() || tag.chars().any(char::is_control) || tag.chars().count() > MAX_TAG_CHARS {
        return Err(InvalidParams::Tag { max_chars: MAX_TAG_CHARS }.into());
    }
    Ok(tag)
}
