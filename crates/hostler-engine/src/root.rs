//! The root channel: what belongs to the host as a whole. Its one writer is the lock around its state.

use std::sync::Arc;

use ahp::reducers::apply_action_to_root;
use ahp_types::StateAction;
use ahp_types::state::RootState;
use hostler_store::{Batch, Durability, Entry, JournalRow};
use tokio::sync::Mutex;

use crate::engine::Host;
use crate::hub::{ChannelState, Subscriber};
use crate::session::Dispatch;
use crate::{EngineError, uri};

/// How large the clients' own values may grow.
const MAX_CONFIG: usize = 1024 * 1024;

pub(crate) struct Root {
    state: Mutex<Arc<RootState>>,
}

impl Root {
    pub(crate) fn new(state: RootState) -> Self {
        Self { state: Mutex::new(Arc::new(state)) }
    }

    pub(crate) async fn state(&self) -> Arc<RootState> {
        Arc::clone(&*self.state.lock().await)
    }
}

impl Host {
    /// What clients configured in earlier lives.
    pub(crate) async fn load_root(&self) -> Result<(), EngineError> {
        let rows = self.store.actions(0, u64::MAX, vec![uri::ROOT.to_owned()]).await?;
        let mut state = self.root.state.lock().await;
        for row in rows {
            let JournalRow::Action { json, .. } = row else { continue };
            if let Ok(action) = serde_json::from_str(&json) {
                apply_action_to_root(Arc::make_mut(&mut state), &action);
            }
        }
        Ok(())
    }

    pub(crate) async fn subscribe_root(
        self: &Arc<Self>,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        // The lock makes the snapshot and its number one moment.
        let state = self.root.state.lock().await;
        let snapshot = ChannelState::Root(Arc::clone(&state));
        self.deliver_snapshot(uri::ROOT.into(), snapshot, subscriber, token).await
    }

    pub(crate) async fn dispatch_root(&self, dispatch: Dispatch) {
        let mut state = self.root.state.lock().await;
        if self.answer_repetition(&dispatch).await {
            return;
        }
        if let Err(reason) = self.accept_root(&mut state, &dispatch).await {
            self.reject(dispatch, reason).await;
        }
    }

    async fn accept_root(&self, state: &mut Arc<RootState>, dispatch: &Dispatch) -> Result<(), String> {
        let StateAction::RootConfigChanged(_) = &dispatch.action else {
            return Err("this host does not support that action on this channel".to_owned());
        };
        let mut next = Arc::clone(state);
        apply_action_to_root(Arc::make_mut(&mut next), &dispatch.action);
        let size =
            next.config.as_ref().and_then(|config| serde_json::to_vec(&config.values).ok()).map_or(0, |v| v.len());
        if size > MAX_CONFIG {
            return Err("the host's configuration would become too large".to_owned());
        }
        let entry = Entry::new(uri::ROOT.into(), dispatch.action.clone()).map_err(|error| error.to_string())?;
        // Nothing changes: the client gets its echo, the journal need not grow.
        let durability = if next == *state { Durability::Memory } else { Durability::Durable };
        let batch = Batch::new(None, durability).entry(entry.with_origin(Some(dispatch.origin())));
        self.store.sequencer().commit(batch).await.map_err(|error| error.to_string())?;
        *state = next;
        Ok(())
    }
}
