//! Session tags. They are stored in the agents' transcripts, where other programs see them; an imported session stores
//! its tag as well.

use hostler_driver::TranscriptStoreError;
use uuid::Uuid;

use crate::engine::Engine;
use crate::host::Host;
use crate::sessions::actor::SessionInput;
use crate::{EngineError, InvalidParams};

/// Maximum length of a tag.
const MAX_TAG_CHARS: usize = 100;

impl Engine {
    /// Sets or removes the tag of a session, and publishes the change.
    ///
    /// # Errors
    /// If there is no such session, the tag is invalid, or the transcript cannot be written.
    pub async fn tag_session(&self, session: &str, tag: Option<&str>) -> Result<(), EngineError> {
        let tag = tag.map(validate_tag).transpose()?;
        self.host.wait_until_session_known(session).await;
        let (provider, conversations) = self.host.conversations_of_session(session)?;
        let transcript_store = self.host.agents.transcript_store(&provider).ok_or(TranscriptStoreError::Missing)?;
        let mut written = Err(TranscriptStoreError::Missing);
        for conversation in conversations {
            match transcript_store.set_tag(conversation, tag).await {
                // A session that continued under another id has transcripts that no longer exist.
                Err(TranscriptStoreError::Missing) => {}
                other => written = other,
            }
        }
        written?;
        // Read before the scan, which may not cover the whole transcript.
        let is_stored = self.host.catalog.sessions().is_stored(session);
        if is_stored && let Some(handle) = self.host.load_session(session).await {
            handle.send(SessionInput::TagChanged(tag.map(str::to_owned))).await?;
        }
        self.scan_external_sessions().await;
        Ok(())
    }
}

impl Host {
    /// The provider of a session, and its conversations.
    fn conversations_of_session(&self, session: &str) -> Result<(String, Vec<Uuid>), EngineError> {
        let sessions = self.catalog.sessions();
        if let Some(found) = sessions.external(session) {
            return Ok((found.provider.clone(), vec![found.conversation.id]));
        }
        if !sessions.contains(session) {
            return Err(EngineError::SessionNotFound(session.to_owned()));
        }
        let conversations = sessions.conversations_of(session);
        let provider = self.catalog.summary(session).map(|line| line.provider);
        Ok((provider.unwrap_or_else(|| self.settings.default_provider.clone()), conversations))
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
