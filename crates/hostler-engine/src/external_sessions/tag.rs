//! Tags. They are in the agents' records, so that whoever looks there sees them; a session that was opened keeps its own, too.

use hostler_driver::TranscriptStoreError;
use uuid::Uuid;

use crate::EngineError;
use crate::actor::SessionInput;
use crate::engine::Engine;
use crate::host::Host;

/// The longest tag, in characters.
const MAX_TAG_CHARS: usize = 100;

impl Engine {
    /// Puts a tag on a session, or takes it off. Those who see the session are told of it.
    ///
    /// # Errors
    /// If there is no such session, the tag is none, or the agent's record cannot take it.
    pub async fn tag_session(&self, session: &str, tag: Option<&str>) -> Result<(), EngineError> {
        let tag = tag.map(validate_tag).transpose()?;
        self.host.wait_until_session_known(session).await;
        let (provider, conversations) = self.host.conversations_of_session(session)?;
        let archive = self.host.transcript_store(&provider).ok_or(TranscriptStoreError::Missing)?;
        let mut written = Err(TranscriptStoreError::Missing);
        for conversation in conversations {
            match archive.set_tag(conversation, tag).await {
                // A session that went on under another id has records that are gone.
                Err(TranscriptStoreError::Missing) => {}
                other => written = other,
            }
        }
        written?;
        // Before the look, which may see less than the whole record.
        let is_stored = self.host.sessions().is_stored(session);
        if is_stored && let Some(handle) = self.host.load_session(session).await {
            handle.send(SessionInput::TagChanged(tag.map(str::to_owned))).await?;
        }
        self.scan_external_sessions().await;
        Ok(())
    }
}

impl Host {
    /// Whose a session is, and the agent's conversations that it consists of.
    fn conversations_of_session(&self, session: &str) -> Result<(String, Vec<Uuid>), EngineError> {
        let sessions = self.sessions();
        if let Some(found) = sessions.external.get(session) {
            return Ok((found.provider.clone(), vec![found.conversation.id]));
        }
        if !sessions.contains(session) {
            return Err(EngineError::SessionNotFound(session.to_owned()));
        }
        let of_it = sessions.conversation_owners.iter().filter(|(_, owner)| owner.as_deref() == Some(session));
        let conversations = of_it.map(|(id, _)| *id).collect();
        let provider = self.catalog.summary(session).map(|line| line.provider);
        Ok((provider.unwrap_or_else(|| self.default_provider.clone()), conversations))
    }
}

/// A tag as it is kept.
fn validate_tag(tag: &str) -> Result<&str, EngineError> {
    let tag = tag.trim();
    if tag.is_empty() || tag.chars().any(char::is_control) || tag.chars().count() > MAX_TAG_CHARS {
        return Err(EngineError::Invalid(format!("a tag is one line of 1 to {MAX_TAG_CHARS} characters")));
    }
    Ok(tag)
}
