//! Handles to a session's actor, and where its session comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostler_driver::Transcript;
use tokio::sync::mpsc;

use super::input::SessionInput;
use super::{importer, run_session, unload};
use crate::EngineError;
use crate::external_sessions::ExternalSession;
use crate::host::Host;
use crate::sessions::restore;
use crate::sessions::session::Session;

/// Maximum number of inputs that wait for one session.
const MAILBOX_CAPACITY: usize = 256;

/// The source of a session.
#[derive(Clone)]
pub(crate) enum SessionSource {
    /// Newly created.
    Provisional(Box<Session>),
    /// In the store.
    Stored { uri: Arc<str>, listed: bool },
    /// Only in an agent's transcripts.
    External { uri: Arc<str>, external: Box<ExternalSession> },
}

/// A session, with its transcript if it is imported now.
pub(super) type OpenedSession = (Session, Option<Arc<dyn Transcript>>);

impl SessionSource {
    pub(super) fn uri(&self) -> &Arc<str> {
        match self {
            Self::Provisional(session) => &session.uri,
            Self::Stored { uri, .. } | Self::External { uri, .. } => uri,
        }
    }

    async fn open(&self, host: &Arc<Host>) -> Result<OpenedSession, EngineError> {
        match self {
            Self::Provisional(session) => Ok(((**session).clone(), None)),
            Self::Stored { uri, listed } => {
                let stored = host.store.load_session(uri).await?;
                let session = restore::restore_session(uri, *listed, stored);
                let mut session = session.ok_or_else(|| EngineError::SessionNotFound(uri.to_string()))?;
                session.evict_turns(host.settings.turns_in_memory);
                Ok((session, None))
            }
            Self::External { uri, external } => {
                let (session, transcript) = importer::import_session(host, uri, external).await?;
                Ok((session, Some(transcript)))
            }
        }
    }
}

/// A handle to a session's actor.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    mailbox: mpsc::Sender<SessionInput>,
    has_stored_turns: Arc<AtomicBool>,
}

impl SessionHandle {
    /// Starts an actor. It ends after a dispose, an unload or a shutdown.
    pub(crate) fn spawn(host: &Arc<Host>, origin: SessionSource) -> Self {
        let (mailbox, inputs) = mpsc::channel(MAILBOX_CAPACITY);
        // Known exactly when the session is loaded.
        let is_restored = !matches!(origin, SessionSource::Provisional(_));
        let has_stored_turns = Arc::new(AtomicBool::new(is_restored));
        let (session_host, has_evicted_turns) = (Arc::clone(host), Arc::clone(&has_stored_turns));
        host.tasks.spawn(async move {
            match origin.open(&session_host).await {
                Ok(opened) => {
                    has_evicted_turns.store(opened.0.has_evicted_turns(), Ordering::Release);
                    run_session(session_host, opened, is_restored, inputs).await;
                }
                Err(error) => unload::unload_unopened(&session_host, inputs, origin, &error).await,
            }
        });
        Self { mailbox, has_stored_turns }
    }

    /// Whether the session may have turns that were only in the store when it was loaded.
    pub(crate) fn has_stored_turns(&self) -> bool {
        self.has_stored_turns.load(Ordering::Acquire)
    }

    /// Sends without waiting. `false` if the mailbox is full or the actor has ended.
    pub(crate) fn try_send(&self, input: SessionInput) -> bool {
        self.mailbox.try_send(input).is_ok()
    }

    /// Whether no other handle can send inputs.
    pub(super) fn is_last_handle(&self) -> bool {
        self.mailbox.strong_count() == 1
    }

    pub(crate) async fn send(&self, input: SessionInput) -> Result<(), EngineError> {
        self.mailbox.send(input).await.map_err(|_| EngineError::Stopping)
    }
}
