//! The opened store: gives access to the sequencer, and reads concurrently with the writer.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::{Publisher, StoredClient, StoredConversation};
use crate::queries::{self, JournalRow, StoredSession, StoredSessionState};
use crate::reader_pool::ReaderPool;
use crate::retention::JournalRetention;
use crate::sequencer::Sequencer;
use crate::turns::{self, StoredTurn, StoredTurnRef, TurnPageLimits};
use crate::{AuditRow, Blob, BlobOptions, StoreError, audit, blob};

/// Location and limits of the store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The state directory; must exist.
    pub dir: PathBuf,
    /// Whether acceptances must survive a power failure: a sync for each commit.
    pub full_durability: bool,
    /// Limits of the journal that is stored for reconnecting clients.
    pub retention: JournalRetention,
    /// How blobs are stored and collected.
    pub blobs: BlobOptions,
}

impl StoreOptions {
    /// Options with defaults for a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            full_durability: false,
            retention: JournalRetention::default(),
            blobs: BlobOptions::default(),
        }
    }
}

/// Sequence numbers at the start of this run of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceAtStart {
    /// The last number before this run; every number of this run is above it.
    pub base_seq: u64,
    /// The last number that an earlier run committed.
    pub last_durable_seq: u64,
}

/// The opened store: gives access to the sequencer, and reads concurrently with the writer.
pub struct Store {
    sequencer: Sequencer,
    reader_pool: Arc<ReaderPool>,
    sequence_at_start: SequenceAtStart,
}

impl Store {
    /// Opens or creates the store and starts its threads.
    ///
    /// # Errors
    /// If the file cannot be opened, created or migrated.
    pub fn open(options: &StoreOptions, publisher: Arc<dyn Publisher>) -> Result<Self, StoreError> {
        let (sequencer, sequence_at_start) = Sequencer::start(options, publisher)?;
        let reader_pool = Arc::new(ReaderPool::open(&options.dir)?);
        Ok(Self { sequencer, reader_pool, sequence_at_start })
    }

    /// Entry point for changes.
    pub fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    /// All sessions that have a row, announced or not, in no particular order.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub async fn sessions(&self) -> Result<Vec<StoredSession>, StoreError> {
        self.query(queries::sessions).await
    }

    /// The agents' conversations that belong to a session, or did until a person deleted them.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn conversations(&self) -> Result<Vec<StoredConversation>, StoreError> {
        self.query(queries::conversations).await
    }

    /// The conversations that a person has deleted and whose transcripts may still exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn pending_deletions(&self) -> Result<Vec<String>, StoreError> {
        self.query(queries::pending_deletions).await
    }

    /// The chats whose first turns are not stored yet, although later ones are.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn chats_missing_start(&self) -> Result<Vec<String>, StoreError> {
        self.query(turns::chats_missing_start).await
    }

    /// Sequence numbers at the start of this run.
    pub fn sequence_at_start(&self) -> SequenceAtStart {
        self.sequence_at_start
    }

    /// The stored state of a session: its last snapshot, its ended turns, and the journal after the snapshot.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn load_session(&self, session: &str) -> Result<StoredSessionState, StoreError> {
        let session = session.to_owned();
        self.query(move |db| queries::load_session(db, &session)).await
    }

    /// Turns of a chat between two positions, in their order: as many as the page allows.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn load_turns(
        &self,
        chat: &str,
        between: Range<usize>,
        page: TurnPageLimits,
    ) -> Result<Vec<StoredTurn>, StoreError> {
        let chat = chat.to_owned();
        self.query(move |db| turns::load_page(db, &chat, between, page)).await
    }

    /// The chat of a session that has a turn with this id, and the turn's position in it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn find_turn(&self, session: &str, id: &str) -> Result<Option<(String, usize)>, StoreError> {
        let (session, id) = (session.to_owned(), id.to_owned());
        self.query(move |db| turns::find(db, &session, &id)).await
    }

    /// The ids and positions of all ended turns of a session, in no particular order.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn turn_index(&self, session: &str) -> Result<Vec<StoredTurnRef>, StoreError> {
        let session = session.to_owned();
        self.query(move |db| turns::load_index(db, &session)).await
    }

    /// The sequence number of each session's last snapshot: while it is unchanged, so are the session's rows.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn snapshot_seqs(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.query(queries::snapshot_seqs).await
    }

    /// The sequence number of one session's last snapshot; `None` without a snapshot.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn snapshot_seq(&self, session: &str) -> Result<Option<u64>, StoreError> {
        let session = session.to_owned();
        self.query(move |db| queries::snapshot_seq(db, &session)).await
    }

    /// The id of the turn at a position of a chat.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn turn_id_at(&self, chat: &str, position: usize) -> Result<Option<String>, StoreError> {
        let chat = chat.to_owned();
        self.query(move |db| turns::turn_id_at(db, &chat, position)).await
    }

    /// The actions on some channels with numbers above `after` and up to `until`, in order.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn actions(&self, after: u64, until: u64, channels: Vec<String>) -> Result<Vec<JournalRow>, StoreError> {
        self.query(move |db| queries::actions(db, after, until, &channels)).await
    }

    /// Like [`Store::actions`], for a client that has received everything up to `after`; `None` if rows after that were
    /// removed.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn missed_actions(
        &self,
        after: u64,
        until: u64,
        channels: Vec<String>,
    ) -> Result<Option<Vec<JournalRow>>, StoreError> {
        self.query(move |db| queries::missed_actions(db, after, until, &channels)).await
    }

    /// The action that a client dispatched under this client sequence number, if it was accepted.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn dispatched_action(&self, client: &str, client_seq: i64) -> Result<Option<JournalRow>, StoreError> {
        let client = client.to_owned();
        self.query(move |db| queries::dispatched_action(db, &client, client_seq)).await
    }

    /// The highest client sequence number of a client's dispatches that are still in the journal.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn last_dispatch_seq(&self, client: &str) -> Result<Option<i64>, StoreError> {
        let client = client.to_owned();
        self.query(move |db| queries::last_dispatch_seq(db, &client)).await
    }

    /// The clients that were connected since a time (milliseconds since the epoch), at most `limit`, the latest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn clients(&self, since_ms: i64, limit: usize) -> Result<Vec<StoredClient>, StoreError> {
        self.query(move |db| queries::clients(db, since_ms, limit)).await
    }

    /// The blob with a hash, if a session of this host refers to it. Does not block the writer.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn blob(&self, hash: &str) -> Result<Option<Blob>, StoreError> {
        let hash = hash.to_owned();
        self.query(move |db| blob::read(db, hash)).await
    }

    /// A page of a session's audit log: the decisions after an entry (0: from the start), in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn audit(&self, session: &str, after: i64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        let session = session.to_owned();
        self.query(move |db| audit::read(db, &session, after, limit)).await
    }

    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.reader_pool);
        tokio::task::spawn_blocking(move || query(&readers.acquire())).await.map_err(|_| StoreError::Stopped)?
    }
}

impl Drop for Store {
    /// A store that is dropped without [`Sequencer::stop`] still saves waiting batches and ends its thread.
    fn drop(&mut self) {
        self.sequencer.close();
    }
}
