//! Creates, disposes and lists sessions.

use std::sync::Arc;

use ahp_types::common::JsonObject;
use ahp_types::state::{SessionActiveClient, SessionConfigState};
use tokio::sync::oneshot;
use url::Url;
use uuid::Uuid;

use super::Engine;
use crate::agents::install_progress::ProgressRequest;
use crate::catalog::SessionPage;
use crate::clock::ClockExt as _;
use crate::sessions::actor::{DisposeFailure, DisposedSession, SessionHandle, SessionInput, SessionSource};
use crate::sessions::session::Session;
use crate::{EngineError, InvalidParams, uri};

/// A request to create a session.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// The session's URI, chosen by the client.
    pub uri: String,
    /// The provider; without it, the URI's scheme names it.
    pub provider: Option<String>,
    /// File URIs; the default directory if there is none.
    pub working_directories: Vec<String>,
    /// Values for the session's configuration.
    pub config: Option<JsonObject>,
    /// The client that is active in the session from the beginning.
    pub active_client: Option<SessionActiveClient>,
    /// Receives the progress of preparations, if any are needed.
    pub progress: Option<ProgressRequest>,
}

impl Engine {
    /// Creates a provisional session: in memory only, nothing started, nothing announced.
    ///
    /// # Errors
    /// If the URI is in use or invalid, the provider unknown, the directory missing or the configuration wrong, or if a
    /// sign-in is needed first.
    pub fn create_session(&self, params: CreateSession) -> Result<(), EngineError> {
        let host = &self.host;
        if !uri::is_session_uri(&params.uri) {
            return Err(InvalidParams::SessionUri(params.uri).into());
        }
        let provider = params.provider.clone().unwrap_or_else(|| self.provider_of(&params.uri));
        let Some(driver) = host.agents.driver(&provider) else {
            return Err(EngineError::ProviderNotFound(provider));
        };
        host.agents.check_signed_in()?;
        let default_directory = &host.settings.default_directory;
        let roots = host.resources.session_roots();
        let directories = roots.resolve_directories(&params.working_directories, default_directory)?;
        let home = directories.first().and_then(|uri| Url::parse(uri).ok()?.to_file_path().ok());
        let config = host.session_config(home.as_deref(), &params.config.unwrap_or_default())?;
        let config = SessionConfigState { schema: config.schema, values: config.values };
        let session_uri: Arc<str> = params.uri.into();
        let mut session = Session::provisional(
            Arc::clone(&session_uri),
            provider,
            directories,
            Some(config),
            host.clock.now_timestamp(),
        );
        if let Some(client) = params.active_client {
            host.publication.clients().mark_participant(&client.client_id);
            Arc::make_mut(&mut session.session).active_clients.push(client);
        }

        let mut sessions = host.catalog.sessions();
        if host.tasks.is_stopping() {
            return Err(EngineError::Stopping);
        }
        if sessions.contains(&session_uri) {
            return Err(EngineError::SessionExists(session_uri.to_string()));
        }
        // Regardless of the URI's spelling: this session may neither continue nor delete an existing conversation.
        if sessions.has_conversation(session.conversation) {
            session.conversation = Uuid::new_v4();
        }
        host.resources
            .set_session_directories(&session_uri, session.session.working_directories.as_deref().unwrap_or_default());
        let handle = SessionHandle::spawn(host, SessionSource::Provisional(Box::new(session)));
        sessions.insert_live(session_uri, handle);
        drop(sessions);
        if let Some(params) = params.progress {
            host.prepare_agent(driver, params);
        }
        Ok(())
    }

    /// Ends a session with its turn, its agent and all processes of the agent, and removes it.
    ///
    /// # Errors
    /// If there is no such session, another process is running a turn of it, or the store cannot delete it.
    pub async fn dispose_session(&self, session: &str) -> Result<(), EngineError> {
        self.host.wait_until_session_known(session).await;
        self.host.check_not_active_elsewhere(session).await?;
        if let Some(forgotten) = self.host.delete_external_session(session).await {
            return forgotten;
        }
        let handle = {
            let mut sessions = self.host.catalog.sessions();
            let Some(handle) = sessions.get_or_load(&self.host, session) else {
                return Err(EngineError::SessionNotFound(session.to_owned()));
            };
            sessions.begin_dispose(session.into());
            sessions.remove_live(session);
            handle
        };
        let (reply, done) = oneshot::channel();
        let sent = handle.send(SessionInput::Dispose(reply)).await;
        let disposed = done.await;
        if let Ok(Ok(DisposedSession { has_conversation })) = &disposed {
            self.host.delete_session_conversations(session, *has_conversation).await;
        }
        let result = {
            let mut sessions = self.host.catalog.sessions();
            sessions.end_dispose(session);
            match disposed {
                // The agent has ended, but the session would reappear after a restart: it is registered again now.
                Ok(Err(DisposeFailure { source: origin, error })) => {
                    sessions.restore_entry(origin);
                    Err(error)
                }
                Ok(Ok(_)) => Ok(()),
                // The session ended meanwhile, with the host.
                Err(_) => sent,
            }
        };
        if result.is_ok() {
            self.dispose_terminals_of(session).await;
        }
        result
    }

    /// Whether there is such a session, announced or not.
    pub fn has_session(&self, session: &str) -> bool {
        self.host.catalog.sessions().contains(session)
    }

    /// A page of the announced sessions, the most recently changed first.
    ///
    /// # Errors
    /// If the cursor is not one of this host's.
    pub fn list_sessions(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<SessionPage, EngineError> {
        self.host.catalog.page(limit, cursor)
    }

    fn provider_of(&self, session: &str) -> String {
        let scheme = session.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme == "ahp-session" { self.host.settings.default_provider.clone() } else { scheme.to_owned() }
    }
}
