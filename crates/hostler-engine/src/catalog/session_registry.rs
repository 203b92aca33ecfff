//! The registry of sessions: knows for each session whether it has an actor, is only stored, or is external, and which
//! session each conversation belongs to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahp_types::state::{SessionStatus, SessionSummary};
use hostler_redact::redact_json_error;
use uuid::Uuid;

use crate::EngineError;
use crate::external_sessions::ExternalSession;
use crate::host::Host;
use crate::sessions::actor::{SessionHandle, SessionSource};

/// Every known session: with an actor, only in the store, or external.
#[derive(Default)]
pub(crate) struct SessionRegistry {
    live: HashMap<Arc<str>, SessionHandle>,
    /// Stored sessions without an actor, and whether each of them is listed.
    unloaded: HashMap<Arc<str>, bool>,
    /// External sessions that are not imported yet.
    external: HashMap<Arc<str>, ExternalSession>,
    /// The session that each of the agents' conversations belongs to; `None` if it was deleted.
    conversation_owners: HashMap<Uuid, Option<Arc<str>>>,
    /// URIs that are being disposed.
    disposing: HashSet<Arc<str>>,
}

impl SessionRegistry {
    pub(crate) fn contains(&self, session: &str) -> bool {
        self.live.contains_key(session)
            || self.unloaded.contains_key(session)
            || self.external.contains_key(session)
            || self.disposing.contains(session)
    }

    /// Whether the session is known and not external.
    pub(crate) fn is_stored(&self, session: &str) -> bool {
        self.contains(session) && !self.external.contains_key(session)
    }

    /// The actor of a session, started if the session is only in the store or external.
    pub(crate) fn get_or_load(&mut self, host: &Arc<Host>, session: &str) -> Option<SessionHandle> {
        if let Some(handle) = self.live.get(session) {
            return Some(handle.clone());
        }
        if host.tasks.is_stopping() {
            return None;
        }
        let (session_uri, origin) = match self.unloaded.remove_entry(session) {
            Some((uri, listed)) => (Arc::clone(&uri), SessionSource::Stored { uri, listed }),
            None => {
                let (uri, found) = self.external.remove_entry(session)?;
                (Arc::clone(&uri), SessionSource::External { uri, external: Box::new(found) })
            }
        };
        let handle = SessionHandle::spawn(host, origin);
        self.live.insert(session_uri, handle.clone());
        Some(handle)
    }

    /// Puts a session without an actor back where it came from.
    pub(crate) fn restore_entry(&mut self, origin: SessionSource) {
        match origin {
            SessionSource::Provisional(_) => {}
            SessionSource::Stored { uri, listed } => drop(self.unloaded.insert(uri, listed)),
            SessionSource::External { uri, external: found } => drop(self.external.insert(uri, *found)),
        }
    }

    /// Whether a session is more than an external one.
    pub(crate) fn is_local(&self, session: &str) -> bool {
        self.live.contains_key(session) || self.unloaded.contains_key(session) || self.disposing.contains(session)
    }

    /// The actor of a session, if it has one.
    pub(crate) fn live(&self, session: &str) -> Option<&SessionHandle> {
        self.live.get(session)
    }

    /// All sessions with an actor.
    pub(crate) fn live_sessions(&self) -> impl Iterator<Item = (&Arc<str>, &SessionHandle)> {
        self.live.iter()
    }

    pub(crate) fn insert_live(&mut self, session: Arc<str>, handle: SessionHandle) {
        self.live.insert(session, handle);
    }

    /// Removes the actor of a session; returns whether there was one.
    pub(crate) fn remove_live(&mut self, session: &str) -> bool {
        self.live.remove(session).is_some()
    }

    /// Removes the actors of all sessions.
    pub(crate) fn take_live(&mut self) -> Vec<SessionHandle> {
        self.live.drain().map(|(_, handle)| handle).collect()
    }

    /// An external session that is not imported yet.
    pub(crate) fn external(&self, session: &str) -> Option<&ExternalSession> {
        self.external.get(session)
    }

    /// All external sessions that are not imported yet.
    pub(crate) fn external_sessions(&self) -> impl Iterator<Item = (&Arc<str>, &ExternalSession)> {
        self.external.iter()
    }

    pub(crate) fn insert_external(&mut self, session: Arc<str>, external: ExternalSession) {
        self.external.insert(session, external);
    }

    pub(crate) fn remove_external(&mut self, session: &str) -> Option<(Arc<str>, ExternalSession)> {
        self.external.remove_entry(session)
    }

    /// Reserves the URI of a session while it is disposed.
    pub(crate) fn begin_dispose(&mut self, session: Arc<str>) {
        self.disposing.insert(session);
    }

    pub(crate) fn end_dispose(&mut self, session: &str) {
        self.disposing.remove(session);
    }

    /// Sets the session of a conversation; `None` if it was deleted.
    pub(crate) fn set_conversation_owner(&mut self, conversation: Uuid, owner: Option<Arc<str>>) {
        self.conversation_owners.insert(conversation, owner);
    }

    /// The session of a stored conversation; `Some(None)` if it was deleted.
    pub(crate) fn conversation_owner(&self, conversation: Uuid) -> Option<Option<&Arc<str>>> {
        self.conversation_owners.get(&conversation).map(Option::as_ref)
    }

    /// The conversations of stored sessions, each with its session.
    pub(crate) fn owned_conversations(&self) -> impl Iterator<Item = (Uuid, &Arc<str>)> {
        self.conversation_owners.iter().filter_map(|(id, owner)| Some((*id, owner.as_ref()?)))
    }

    /// Whether a conversation is known, stored or external.
    pub(crate) fn has_conversation(&self, id: Uuid) -> bool {
        self.conversation_owners.contains_key(&id) || self.external.values().any(|found| found.conversation.id == id)
    }

    /// The conversations of a stored session.
    pub(crate) fn conversations_of(&self, session: &str) -> Vec<Uuid> {
        self.owned_conversations().filter(|(_, owner)| ***owner == *session).map(|(id, _)| id).collect()
    }

    /// Marks the conversations of a session as deleted, and returns them.
    pub(crate) fn delete_conversations_of(&mut self, session: &str) -> Vec<Uuid> {
        let of_it = self.conversation_owners.iter_mut().filter(|(_, owner)| owner.as_deref() == Some(session));
        of_it.map(|(id, owner)| (*id, owner.take()).0).collect()
    }
}

impl Host {
    /// Lists the stored sessions, and loads those that had a running turn when the last host died.
    pub(crate) async fn load_catalog(self: &Arc<Self>) -> Result<(), EngineError> {
        for stored in self.store.conversations().await? {
            if let Ok(id) = Uuid::try_parse(&stored.id) {
                self.catalog.sessions().set_conversation_owner(id, stored.session.map(Arc::from));
            }
        }
        for stored in self.store.sessions().await? {
            let session: Arc<str> = stored.uri.into();
            let summary: SessionSummary = match serde_json::from_str(&stored.summary) {
                Ok(summary) => summary,
                Err(error) => {
                    let error = redact_json_error(&error);
                    tracing::warn!(session = &*session, error, "failed to read a stored session summary");
                    continue;
                }
            };
            self.resources
                .set_session_directories(&session, summary.working_directories.as_deref().unwrap_or_default());
            let interrupted = summary.status & SessionStatus::InProgress.bits() != 0;
            if stored.listed {
                self.catalog.upsert_encoded(&session, &summary.modified_at, stored.summary.into());
            }
            let mut sessions = self.catalog.sessions();
            sessions.unloaded.insert(Arc::clone(&session), stored.listed);
            if interrupted {
                // Loading the session ends its interrupted turn.
                sessions.get_or_load(self, &session);
            }
        }
        Ok(())
    }
}
