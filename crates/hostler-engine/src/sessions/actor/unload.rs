//! Ends an actor while the host continues: disposes or unloads its session.
//!
//! An actor without agent, subscriber and work for some minutes unloads its session: under the lock of the session
//! registry, and only if no other handle to it exists, so no request is lost.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hostler_store::{Batch, BatchDurability, CatalogChange};
use tokio::sync::mpsc;

use super::context::SessionContext;
use super::input::SessionInput;
use super::session_handle::{SessionHandle, SessionSource};
use crate::clients::broadcaster::HostNotificationKind;
use crate::host::Host;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Session;
use crate::sessions::turn::{AgentPhase, TurnMachine};
use crate::{EngineError, uri};

/// Result of a dispose.
pub(crate) type DisposeResult = Result<DisposedSession, DisposeFailure>;

/// A disposed session.
pub(crate) struct DisposedSession {
    /// Whether the agent has a conversation, which is deleted as well.
    pub(crate) has_conversation: bool,
}

/// A session that could not be deleted: it remains at its source.
pub(crate) struct DisposeFailure {
    pub(crate) source: SessionSource,
    pub(crate) error: EngineError,
}

/// Returns a session that could not be opened to its source. Waiting requests receive the error and may be repeated; a
/// dispose is carried out.
pub(super) async fn unload_unopened(
    host: &Arc<Host>,
    mut inputs: mpsc::Receiver<SessionInput>,
    origin: SessionSource,
    error: &EngineError,
) {
    tracing::warn!(session = &**origin.uri(), %error, "failed to open session");
    {
        let mut sessions = host.catalog.sessions();
        // A session that is no longer registered is about to be disposed: that input is still to come.
        if sessions.remove_live(origin.uri()) {
            sessions.restore_entry(origin.clone());
            inputs.close();
        }
    }
    while let Some(input) = inputs.recv().await {
        match input {
            SessionInput::Dispose(reply) => return drop(reply.send(dispose_unopened(host, origin).await)),
            SessionInput::Dispatch(dispatch) => {
                host.publication.reject(*dispatch, ActionRejection::from(error.clone())).await
            }
            input => {
                if refuse_input(input, error).is_break() {
                    return;
                }
            }
        }
    }
}

/// Deletes a session that could not be opened.
async fn dispose_unopened(host: &Arc<Host>, origin: SessionSource) -> DisposeResult {
    let forgotten = match &origin {
        SessionSource::Provisional(_) => Ok(DisposedSession { has_conversation: false }),
        SessionSource::Stored { uri, listed } => {
            let chats = vec![uri::default_chat_uri(uri).into()];
            let batch = Batch::new(Some(Arc::clone(uri)), BatchDurability::Durable);
            // A listed session has had an agent.
            let batch = with_session_removal(host, batch, uri, *listed).after_publish(after_session_removed(
                host,
                Arc::clone(uri),
                chats,
            ));
            host.publication.commit(batch).await.map_err(EngineError::from).map(|_| {
                host.agents.gateway().forget_session(uri);
                DisposedSession { has_conversation: *listed }
            })
        }
        SessionSource::External { uri, external: found } => {
            host.delete_external_conversation(uri, found).await.map(|()| DisposedSession { has_conversation: false })
        }
    };
    forgotten.map_err(|error| DisposeFailure { source: origin, error })
}

fn refuse_input(input: SessionInput, error: &EngineError) -> ControlFlow<()> {
    match input {
        SessionInput::Subscribe(subscribe) => drop(subscribe.reply.send(Err(error.clone()))),
        SessionInput::HasChannel(_, reply) => drop(reply.send(false)),
        SessionInput::ViewChat(_, reply) => drop(reply.send(None)),
        SessionInput::CompletionContext(_, reply) => drop(reply.send(None)),
        SessionInput::SetTag(_, reply) => drop(reply.send(Err(error.clone()))),
        SessionInput::Shutdown(reply) => {
            let _ = reply.send(());
            return ControlFlow::Break(());
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// After this time, and at the latest after twice this time, an unused session is unloaded.
const QUIESCENCE_INTERVAL: Duration = Duration::from_secs(7 * 60);

/// How long a session without an agent has been inactive.
#[derive(Default)]
pub(super) struct Quiescence {
    interval: Option<BoxFuture<'static, ()>>,
    /// Whether an input arrived during the interval.
    had_input: bool,
}

impl Quiescence {
    /// Records an input.
    pub(super) fn record_input(&mut self, machine: &TurnMachine, ctx: &SessionContext) {
        self.had_input = true;
        if machine.agent_phase() != AgentPhase::Absent || !ctx.session.is_stored {
            self.interval = None;
        } else if self.interval.is_none() {
            self.interval = Some(ctx.host.clock.sleep(QUIESCENCE_INTERVAL));
        }
    }

    /// Waits for the end of the interval.
    pub(super) async fn elapsed(&mut self) {
        match &mut self.interval {
            Some(wait) => wait.await,
            None => std::future::pending().await,
        }
    }

    /// Starts another interval. Returns whether no input arrived during the last one.
    pub(super) fn restart_if_quiet(&mut self, ctx: &SessionContext) -> bool {
        self.interval = Some(ctx.host.clock.sleep(QUIESCENCE_INTERVAL));
        !std::mem::take(&mut self.had_input)
    }
}

impl SessionContext {
    /// Whether the session is stored, has no task or publication, and no person or client needs it.
    pub(super) fn is_quiescent(&self) -> bool {
        let Session { is_stored, unimported_turns, session, chat, .. } = &self.session;
        let is_quiet = self.tasks.is_empty() && self.unwritten_decisions.is_empty() && !self.summary.is_scheduled;
        let is_needed = chat.active_turn.is_some()
            || *unimported_turns > 0
            || !self.session.queued_messages().is_empty()
            || chat.steering_message.is_some()
            || !session.active_clients.is_empty()
            || self.has_subscribers();
        *is_stored && is_quiet && !is_needed
    }

    fn has_subscribers(&self) -> bool {
        let publication = &self.host.publication;
        self.session.chats().any(|(chat, ..)| publication.has_subscribers(chat))
            || publication.has_subscribers(&self.session.uri)
            || publication.has_subscribers(&uri::annotations_uri(&self.session.uri))
    }

    /// Returns the session to the store, if it is quiescent. No request can be lost: a handle is obtained under the
    /// lock, and kept until its input is in the mailbox.
    pub(super) async fn try_unload(&self, inputs: &mpsc::Receiver<SessionInput>) -> bool {
        // Commits earlier stream batches, so that the next load reads all of them.
        if self.host.publication.commit(Batch::new(None, BatchDurability::Durable)).await.is_err() {
            return false;
        }
        let mut sessions = self.host.catalog.sessions();
        let alone = sessions.live(&self.session.uri).is_some_and(SessionHandle::is_last_handle);
        if !alone || !inputs.is_empty() || !self.is_quiescent() {
            return false;
        }
        sessions.remove_live(&self.session.uri);
        sessions.restore_entry(SessionSource::Stored {
            uri: Arc::clone(&self.session.uri),
            listed: self.session.is_listed,
        });
        true
    }

    /// Removes the session from the store and the list. `began` is whether its agent was running until now.
    pub(super) async fn dispose_session(&mut self, began: bool) -> DisposeResult {
        let session = Arc::clone(&self.session.uri);
        let chats = self.session.chats().map(|(uri, ..)| Arc::clone(uri)).collect();
        // An agent creates its transcript before it reports a resume token.
        let has_conversation = began || self.session.resume_token.is_some() || self.session.delivered_turn.is_some();
        let has_conversation = has_conversation && self.session.is_listed;
        let mut batch = self.new_batch(BatchDurability::Durable);
        if self.session.is_stored {
            batch = with_session_removal(&self.host, batch, &session, has_conversation);
        }
        let batch = batch.after_publish(after_session_removed(&self.host, session, chats));
        match self.host.publication.commit(batch).await {
            Ok(_) => {
                self.host.agents.gateway().forget_session(&self.session.uri);
                Ok(DisposedSession { has_conversation })
            }
            Err(error) => {
                let origin =
                    SessionSource::Stored { uri: Arc::clone(&self.session.uri), listed: self.session.is_listed };
                Err(DisposeFailure { source: origin, error: error.into() })
            }
        }
    }
}

/// A batch that removes a session from the store. The transcripts of its agent (if `has_conversation`) are deleted
/// afterwards, at the latest after the next start.
fn with_session_removal(host: &Host, mut batch: Batch, session: &Arc<str>, has_conversation: bool) -> Batch {
    for conversation in host.catalog.sessions().conversations_of(session).iter().filter(|_| has_conversation) {
        batch = batch.deletion(conversation.to_string(), true);
    }
    batch.catalog(CatalogChange::Remove { session: Arc::clone(session) })
}

/// Publishes the removal of a session.
fn after_session_removed(
    host: &Arc<Host>,
    session: Arc<str>,
    chats: Vec<Arc<str>>,
) -> impl FnOnce(u64) + Send + 'static {
    let host = Arc::clone(host);
    move |_| {
        chats.iter().for_each(|chat| host.publication.close_channel(chat));
        host.publication.close_channel(&uri::annotations_uri(&session));
        host.publication.close_channel(&session);
        host.resources.remove_session_directories(&session);
        host.catalog.mark_removed(&session);
        if host.catalog.remove(&session) {
            host.publication.notify(HostNotificationKind::SessionRemoved(session));
        }
    }
}
