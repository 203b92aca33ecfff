//! Who is there: clients that subscribe, come back, or stay away.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::SessionActiveClientRemovedAction;

use super::{Actor, Input, Subscribe};
use crate::EngineError;
use crate::attach::View;
use crate::state::ChannelState;

impl Actor {
    /// The clients that were part of the session in an earlier life have some time to come back.
    pub(super) async fn expect_clients(&mut self) {
        let active = self.session.session.active_clients.iter();
        let clients: Vec<_> = active.map(|active| active.client_id.clone()).collect();
        for client in clients {
            self.host.hub.clients.take_part(&client);
            let Some(since) = self.host.hub.clients.away_since(&client) else { continue };
            let due = since + self.host.absence;
            let now = self.host.clock.monotonic();
            if due <= now {
                self.client_gone(&client).await;
            } else {
                let left = self.host.clock.sleep(due - now);
                self.tasks.spawn(async move {
                    left.await;
                    Input::ClientDue(client)
                });
            }
        }
    }

    /// A client that is still away is gone. One that was here in between has a time of its own.
    pub(super) async fn client_due(&mut self, client: &str) {
        match self.host.hub.clients.away_since(client) {
            Some(since) if self.host.clock.monotonic() >= since + self.host.absence => self.client_gone(client).await,
            Some(_) => {}
            // It may have been unknown before.
            None => self.host.hub.clients.take_part(client),
        }
    }

    /// A client that does not come back is no longer part of the session.
    pub(super) async fn client_gone(&mut self, client: &str) {
        if self.session.session.active_clients.iter().any(|active| active.client_id == client) {
            let client_id = client.to_owned();
            let action = SessionActiveClientRemovedAction { client_id };
            self.tell_session(StateAction::SessionActiveClientRemoved(action)).await;
        }
    }

    /// The session and one of its chats, as they are now.
    pub(super) fn view(&self, channel: &str) -> Option<View> {
        let (chat, kept) = self.session.chat_and_past(channel)?;
        Some(View {
            session: Arc::clone(&self.session.session),
            chat: Arc::clone(chat),
            past: kept.past.clone(),
            annotations: Arc::clone(&self.session.annotations),
        })
    }

    /// Takes the snapshot and the subscription at one number.
    pub(super) async fn subscribe(&mut self, subscribe: Subscribe) {
        let Subscribe { channel, extent, subscriber, token, reply } = subscribe;
        let result = if let Some((chat, kept)) = self.session.chat_and_past(&channel) {
            match self.host.shown(chat, &kept.past, extent, &subscriber).await {
                Ok(shown) => self.host.deliver_chat(channel.as_str().into(), shown, subscriber, token).await,
                Err(error) => Err(error),
            }
        } else {
            let (resource, state) = if channel == *self.session.uri {
                (Arc::clone(&self.session.uri), ChannelState::Session(Arc::clone(&self.session.session)))
            } else if self.session.is_annotations(&channel) {
                (channel.as_str().into(), ChannelState::Annotations(Arc::clone(&self.session.annotations)))
            } else {
                let _ = reply.send(Err(EngineError::ChannelNotFound(channel)));
                return;
            };
            self.host.deliver_snapshot(resource, state, subscriber, token).await
        };
        let shown = result.is_ok();
        let _ = reply.send(result);
        if shown {
            self.warm_up().await;
        }
    }
}
