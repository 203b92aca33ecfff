//! The end of an actor that is no end of the host: its session is forgotten, or goes back to where it came from.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hostler_store::{Batch, CatalogueChange, Durability};
use tokio::sync::mpsc;

use super::{Actor, Input, Origin, SessionHandle};
use crate::host::Host;
use crate::hub::NoticeKind;
use crate::session::Session;
use crate::turn::{AgentPhase, TurnPhase};
use crate::{EngineError, uri};

/// How a dispose went.
pub(crate) type Disposed = Result<Forgotten, NotForgotten>;

/// A session that is gone.
pub(crate) struct Forgotten {
    /// Whether the agent has led its conversation, and is to forget it, too.
    pub(crate) led: bool,
}

/// A session that could not be forgotten: it is still where it comes from.
pub(crate) struct NotForgotten {
    pub(crate) origin: Origin,
    pub(crate) error: EngineError,
}

/// A session that could not be opened goes back to where it comes from. Everybody who wanted it is told why, and may try
/// again; whoever wants to be rid of it is.
pub(super) async fn give_back(
    host: &Arc<Host>,
    mut inputs: mpsc::Receiver<Input>,
    origin: Origin,
    error: &EngineError,
) {
    tracing::warn!(session = &**origin.uri(), %error, "a session could not be opened");
    {
        let mut sessions = host.sessions();
        // One that is not there any more is about to be disposed of: that wish is still to come.
        if sessions.live.remove(origin.uri()).is_some() {
            sessions.put_back(origin.clone());
            inputs.close();
        }
    }
    while let Some(input) = inputs.recv().await {
        match input {
            Input::Dispose(reply) => return drop(reply.send(forget_unopened(host, origin).await)),
            Input::Dispatch(dispatch) => host.reject(*dispatch, error.to_string()).await,
            input => {
                if refuse(input, error).is_break() {
                    return;
                }
            }
        }
    }
}

/// Forgets a session that could not be opened.
async fn forget_unopened(host: &Arc<Host>, origin: Origin) -> Disposed {
    let forgotten = match &origin {
        Origin::Provisional(_) => Ok(Forgotten { led: false }),
        Origin::Stored { uri, listed } => {
            let chats = vec![uri::default_chat_uri(uri).into()];
            let batch = Batch::new(Some(Arc::clone(uri)), Durability::Durable);
            // What the world knows has had an agent.
            let batch = removed(host, batch, uri, *listed).then(is_gone(host, Arc::clone(uri), chats));
            host.store.sequencer().commit(batch).await.map_err(EngineError::from).map(|_| {
                host.gateway.forget_session(uri);
                Forgotten { led: *listed }
            })
        }
        Origin::Found { uri, found } => host.forget_conversation(uri, found).await.map(|()| Forgotten { led: false }),
    };
    forgotten.map_err(|error| NotForgotten { origin, error })
}

fn refuse(input: Input, error: &EngineError) -> ControlFlow<()> {
    match input {
        Input::Subscribe(subscribe) => drop(subscribe.reply.send(Err(error.clone()))),
        Input::Exists(_, reply) => drop(reply.send(false)),
        Input::View(_, reply) => drop(reply.send(None)),
        Input::Known(_, reply) => drop(reply.send(None)),
        Input::Shutdown(reply) => {
            let _ = reply.send(());
            return ControlFlow::Break(());
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// After this time, and at the latest after twice of it, a session that nobody needs gives its actor up.
const CALM: Duration = Duration::from_secs(7 * 60);

/// How long nothing has happened in a session without an agent.
#[derive(Default)]
pub(super) struct Calm {
    wait: Option<BoxFuture<'static, ()>>,
    /// Something has happened since the wait began.
    broken: bool,
}

impl Calm {
    /// Something has happened.
    pub(super) fn after_input(&mut self, actor: &Actor) {
        self.broken = true;
        if actor.machine.agent() != AgentPhase::Absent || !actor.session.stored {
            self.wait = None;
        } else if self.wait.is_none() {
            self.wait = Some(actor.host.clock.sleep(CALM));
        }
    }

    /// Waits until it is over.
    pub(super) async fn over(&mut self) {
        match &mut self.wait {
            Some(wait) => wait.await,
            None => std::future::pending().await,
        }
    }

    /// It is over. Says whether nothing has happened in it; another one begins.
    pub(super) fn was_kept(&mut self, actor: &Actor) -> bool {
        self.wait = Some(actor.host.clock.sleep(CALM));
        !std::mem::take(&mut self.broken)
    }
}

impl Actor {
    /// Whether the actor does nothing for anybody.
    fn is_at_rest(&self) -> bool {
        let Session { stored, untold, session, chat, .. } = &self.session;
        let quiet =
            self.tasks.is_empty() && self.decisions.is_empty() && self.elsewhere.is_quiet() && !self.summary_due;
        let waits = !self.desk.is_empty() || !self.beside.is_empty() || !self.runs.is_empty() || *untold > 0;
        let works = chat.active_turn.is_some() || self.machine.agent() != AgentPhase::Absent || self.agent.is_there();
        let wanted = !self.session.queue().is_empty()
            || chat.steering_message.is_some()
            || !session.active_clients.is_empty()
            || self.is_heard();
        *stored && quiet && !waits && !works && *self.machine.turn() == TurnPhase::None && !wanted
    }

    fn is_heard(&self) -> bool {
        let hub = &self.host.hub;
        self.session.chats().any(|(chat, ..)| hub.is_heard(chat))
            || hub.is_heard(&self.session.uri)
            || hub.is_heard(&uri::annotations(&self.session.uri))
    }

    /// Gives the session back to the store, if nobody needs its actor. Nobody can come between: whoever has a way to the actor
    /// got it under the lock, and keeps it until its wish is in the mailbox.
    pub(super) async fn goes_back(&self, inputs: &mpsc::Receiver<Input>) -> bool {
        if !self.is_at_rest() {
            return false;
        }
        // What was streamed before is committed with it, so that whoever opens the session next reads all of it.
        if self.host.store.sequencer().commit(Batch::new(None, Durability::Durable)).await.is_err() {
            return false;
        }
        let mut sessions = self.host.sessions();
        let alone = sessions.live.get(&self.session.uri).is_some_and(SessionHandle::is_the_only_one);
        if !alone || !inputs.is_empty() || !self.is_at_rest() {
            return false;
        }
        sessions.live.remove(&self.session.uri);
        sessions.put_back(Origin::Stored { uri: Arc::clone(&self.session.uri), listed: self.session.listed });
        true
    }

    /// Removes the session from the store and the list. `began` says whether its agent was there just now.
    pub(super) async fn forget(&mut self, began: bool) -> Disposed {
        let session = Arc::clone(&self.session.uri);
        let chats = self.session.chats().map(|(uri, ..)| Arc::clone(uri)).collect();
        // An agent begins its record before it says how the conversation is resumed.
        let led = began || self.session.token.is_some() || self.session.delivered.is_some();
        let led = led && self.session.listed;
        let mut batch = self.batch(Durability::Durable);
        if self.session.stored {
            batch = removed(&self.host, batch, &session, led);
        }
        match self.host.store.sequencer().commit(batch.then(is_gone(&self.host, session, chats))).await {
            Ok(_) => {
                self.forget_budget();
                Ok(Forgotten { led })
            }
            Err(error) => {
                let origin = Origin::Stored { uri: Arc::clone(&self.session.uri), listed: self.session.listed };
                Err(NotForgotten { origin, error: error.into() })
            }
        }
    }
}

/// A batch that removes a session from the store. The records that its agent has `led` go after that, at the latest in the
/// next life of the host.
fn removed(host: &Host, mut batch: Batch, session: &Arc<str>, led: bool) -> Batch {
    for conversation in host.sessions().conversations_of(session).iter().filter(|_| led) {
        batch = batch.removal(conversation.to_string(), true);
    }
    batch.catalogue(CatalogueChange::Remove { session: Arc::clone(session) })
}

/// What follows when the store has forgotten a session.
fn is_gone(host: &Arc<Host>, session: Arc<str>, chats: Vec<Arc<str>>) -> impl FnOnce(u64) + Send + 'static {
    let host = Arc::clone(host);
    move |_| {
        chats.iter().for_each(|chat| host.hub.close(chat));
        host.hub.close(&uri::annotations(&session));
        host.hub.close(&session);
        host.shelf.places.remove(&session);
        host.search.gone(&session);
        if host.catalogue.remove(&session) {
            host.hub.notify(uri::ROOT, NoticeKind::SessionRemoved(session));
        }
    }
}
