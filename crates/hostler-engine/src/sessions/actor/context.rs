//! What all components of a session's actor share: its state, its publication, its gate and its tasks.
//!
//! State changes through [`SessionContext::commit`] and the publishing functions only, which apply what they publish.

use std::sync::Arc;
use std::time::Instant;

use ahp_types::state::SessionSummary;
use hostler_rules::PermissionMode;
use hostler_store::{AuditEntry, Batch, BatchDurability, CatalogChange, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::SessionInput;
use super::publishing::SummaryPublisher;
use crate::attachments::AttachmentContents;
use crate::host::Host;
use crate::permissions::session_gate::{GateDirectories, SessionGate};
use crate::sessions::action_mapper::ActionMapper;
use crate::sessions::config;
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
    /// Decisions of the gate that are not in the audit log yet.
    pub(super) unwritten_decisions: mpsc::Receiver<AuditEntry>,
    /// The contents of the draft, until the session is stored.
    pub(super) draft_contents: AttachmentContents,
    /// Number of commands that the agent has received and that the transcript did not show yet.
    pub(super) own_commands: usize,
}

/// The running turn.
pub(super) struct RunningTurn {
    /// Maps the turn's events. `None` without a turn.
    pub(super) mapper: Option<ActionMapper>,
    /// The client that started the turn.
    pub(super) client_id: Option<String>,
    pub(super) started_at: Instant,
}

impl RunningTurn {
    pub(super) fn duration_ms(&self) -> i64 {
        i64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl SessionContext {
    pub(super) fn new(host: Arc<Host>, session: Session) -> Self {
        let driver = host.agents.driver(&session.session.provider);
        let directories = GateDirectories {
            working_directory: session.working_directory().unwrap_or_default(),
            home: host.permissions.config().home_directory.clone(),
            plans_directory: driver.and_then(|driver| driver.describe().plans_directory),
            host_directories: host.permissions.config().host_directories.clone(),
        };
        let (gate, unwritten_decisions) = SessionGate::new(
            directories,
            Arc::clone(host.permissions.rules()),
            Arc::clone(host.permissions.gate_workers()),
            configured_mode(&host, &session),
            session.rules.clone(),
            Arc::clone(&host.clock),
        );
        Self {
            host,
            session,
            gate,
            summary: SummaryPublisher::default(),
            tasks: JoinSet::new(),
            turn: RunningTurn { mapper: None, client_id: None, started_at: Instant::now() },
            unwritten_decisions,
            draft_contents: AttachmentContents::default(),
            own_commands: 0,
        }
    }

    /// The permission mode of the session's configuration.
    pub(super) fn configured_mode(&self) -> PermissionMode {
        configured_mode(&self.host, &self.session)
    }

    /// A batch of this session; in memory only while the session is provisional.
    pub(super) fn new_batch(&self, durability: BatchDurability) -> Batch {
        let durability = if self.session.is_stored { durability } else { BatchDurability::Memory };
        Batch::new(Some(Arc::clone(&self.session.uri)), durability)
    }

    pub(super) async fn submit(&self, batch: Batch) {
        if let Err(error) = self.host.publication.submit(batch).await {
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

fn configured_mode(host: &Host, session: &Session) -> PermissionMode {
    let name = session.config_value(config::PERMISSION_MODE).unwrap_or(config::DEFAULT_MODE);
    config::parse_mode(name, host.permissions.config().allow_bypass)
}

/// The input of the next task that ends; pending without tasks.
pub(super) async fn next_task_input(tasks: &mut JoinSet<SessionInput>) -> SessionInput {
    loop {
        match tasks.join_next().await {
            Some(Ok(input)) => return input,
            Some(Err(error)) if error.is_cancelled() => {}
            Some(Err(error)) => tracing::error!(%error, "a task of a session panicked"),
            None => std::future::pending().await,
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
