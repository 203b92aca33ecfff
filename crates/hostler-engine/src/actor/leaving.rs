//! The end of an actor that is no end of the host: its session is forgotten, or goes back to where it came from.

use std::ops::ControlFlow;
use std::sync::Arc;

use hostler_store::{Batch, CatalogueChange, Durability};
use tokio::sync::mpsc;

use super::{Actor, Input, Origin};
use crate::host::Host;
use crate::hub::NoticeKind;
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

impl Actor {
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
