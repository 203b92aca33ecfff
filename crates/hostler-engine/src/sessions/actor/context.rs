//! What all components of a session's actor share: its state, its publication, its gate and its tasks.
//!
//! State changes through [`SessionContext::commit`] and the publishing functions only, which apply what they publish.

use std::sync::Arc;
use std::time::Instant;

use ahp_types::state::SessionSummary;
use hostler_store::{Batch, BatchDurability, CatalogChange, StoreError};
use tokio::task::JoinSet;

use super::SessionInput;
use super::publishing::SummaryPublisher;
use crate::host::Host;
use crate::permissions::session_gate::SessionGate;
use crate::sessions::action_mapper::ActionMapper;
use crate::sessions::record::SessionRecord;
use crate::sessions::session::Session;

/// The session's state with everything that publishes it.
pub(super) struct SessionContext {
    pub(super) host: Arc<Host>,
    pub(super) session: Session,
    /// Decides on every call.
    pub(super) gate: Arc<SessionGate>,
    /// The session summary as clients know it.
    pub(super) summary: SummaryPublisher,
    /// Opening, sending, closing, timers. Each ends in an input; dropping the actor drops them all.
    pub(super) tasks: JoinSet<SessionInput>,
    pub(super) turn: RunningTurn,
}

/// The running turn.
pub(super) struct RunningTurn {
    /// Maps the turn's events. `None` without a turn.
    pub(super) mapper: Option<ActionMapper>,
    /// The client that started the turn.
    pub(super) client_id: Option<String>,
    pub(super) started_at: Instant,
}

impl SessionContext {
    pub(super) fn new(host: Arc<Host>, session: Session, gate: Arc<SessionGate>) -> Self {
        Self {
            host,
            session,
            gate,
            summary: SummaryPublisher::default(),
            tasks: JoinSet::new(),
            turn: RunningTurn { mapper: None, client_id: None, started_at: Instant::now() },
        }
    }

    /// A batch of this session; in memory only while the session is provisional.
    pub(super) fn new_batch(&self, durability: BatchDurability) -> Batch {
        let durability = if self.session.is_stored { durability } else { BatchDurability::Memory };
        Batch::new(Some(Arc::clone(&self.session.uri)), durability)
    }

    pub(super) async fn submit(&self, batch: Batch) {
        if let Err(error) = self.host.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "failed to submit a batch: the store has stopped");
        }
    }

    /// Appends a host record.
    pub(super) async fn append_record(&mut self, record: &SessionRecord) {
        match record.to_host_record(&self.session.chat_uri) {
            Ok(record) => {
                let batch = self.new_batch(BatchDurability::Stream).record(record);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "failed to encode a host record; skipped"),
        }
    }
}

/// The catalog row of a session.
pub(crate) fn build_catalog_put(
    session: &Arc<str>,
    listed: bool,
    summary: &SessionSummary,
) -> Result<CatalogChange, StoreError> {
    let summary = serde_json::to_string(summary)
        .map_err(|error| StoreError::Database(format!("a summary cannot be encoded: {error}")))?;
    Ok(CatalogChange::Put { session: Arc::clone(session), listed, summary })
}
