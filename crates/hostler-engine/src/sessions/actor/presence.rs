//! Presence of clients: subscribe, reconnect, and removal after an absence.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::SessionActiveClientRemovedAction;

use super::{SessionActor, SessionInput, SubscribeOutcome, SubscribeRequest};
use crate::EngineError;
use crate::attachments::ChatView;
use crate::sessions::state::ChannelState;

impl SessionActor {
    /// Starts the reconnect timeouts of clients that were active in the session before a restart.
    pub(super) async fn start_reconnect_timeouts(&mut self) {
        let active = self.ctx.session.session.active_clients.iter();
        let clients: Vec<_> = active.map(|active| active.client_id.clone()).collect();
        for client in clients {
            self.ctx.host.broadcaster.clients.mark_participant(&client);
            let Some(since) = self.ctx.host.broadcaster.clients.away_since(&client) else { continue };
            let due = since + self.ctx.host.settings.client_absence_timeout;
            let now = self.ctx.host.clock.monotonic();
            if due <= now {
                self.remove_active_client(&client).await;
            } else {
                let left = self.ctx.host.clock.sleep(due - now);
                self.ctx.tasks.spawn(async move {
                    left.await;
                    SessionInput::ClientReconnectTimeout(client)
                });
            }
        }
    }

    /// Removes a client that has not reconnected. A client that reconnected meanwhile has a timeout of its own.
    pub(super) async fn handle_reconnect_timeout(&mut self, client: &str) {
        match self.ctx.host.broadcaster.clients.away_since(client) {
            Some(since) if self.ctx.host.clock.monotonic() >= since + self.ctx.host.settings.client_absence_timeout => {
                self.remove_active_client(client).await
            }
            Some(_) => {}
            // The client may have been unknown before.
            None => self.ctx.host.broadcaster.clients.mark_participant(client),
        }
    }

    /// Removes an absent client from the session's active clients.
    pub(super) async fn remove_active_client(&mut self, client: &str) {
        if self.ctx.session.session.active_clients.iter().any(|active| active.client_id == client) {
            let client_id = client.to_owned();
            let action = SessionActiveClientRemovedAction { client_id };
            self.ctx.publish_session_action(StateAction::SessionActiveClientRemoved(action)).await;
        }
    }

    /// The current state of the session and one of its chats.
    pub(super) fn view_chat(&self, channel: &str) -> Option<ChatView> {
        let (chat, storage) = self.ctx.session.chat_with_storage(channel)?;
        Some(ChatView {
            session: Arc::clone(&self.ctx.session.session),
            chat: Arc::clone(chat),
            evicted_turns: storage.evicted.clone(),
            annotations: Arc::clone(&self.ctx.session.annotations),
        })
    }

    /// Takes the snapshot and the subscription at one sequence number. Turns that are not in memory are read by the
    /// requester before.
    pub(super) async fn handle_subscribe(&mut self, subscribe: SubscribeRequest) {
        let SubscribeRequest { channel, extent, subscriber, token, prepared, reply } = subscribe;
        let result = if let Some((chat, storage)) = self.ctx.session.chat_with_storage(&channel) {
            match self.ctx.host.chat_snapshot(chat, &storage.evicted, extent, &subscriber, prepared) {
                Ok(shown) => {
                    self.ctx.host.deliver_chat_snapshot(channel.as_str().into(), shown, subscriber, token).await
                }
                Err((part, prepared)) => {
                    let _ = reply.send(Ok(SubscribeOutcome::ReadFirst(part, prepared)));
                    return;
                }
            }
        } else {
            let (resource, state) = if channel == *self.ctx.session.uri {
                (Arc::clone(&self.ctx.session.uri), ChannelState::Session(Arc::clone(&self.ctx.session.session)))
            } else if self.ctx.session.is_annotations_channel(&channel) {
                (channel.as_str().into(), ChannelState::Annotations(Arc::clone(&self.ctx.session.annotations)))
            } else {
                let _ = reply.send(Err(EngineError::ChannelNotFound(channel)));
                return;
            };
            self.ctx.host.deliver_snapshot(resource, state, subscriber, token).await
        };
        let shown = result.is_ok();
        let _ = reply.send(result.map(|()| SubscribeOutcome::Subscribed));
        if shown {
            self.prewarm_agent().await;
        }
    }
}
