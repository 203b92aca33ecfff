//! Transcript store whose conversations, damage and delays a test controls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    AbandonedTurn, DriverEvent, ExternalActivity, ExternalConversation, LoadedTurn, PartId, PartKind, ResumeToken,
    Transcript, TranscriptScan, TranscriptStore, TranscriptStoreError, TurnIndexEntry, TurnOrigin, TurnOutcome,
};
use tokio::sync::watch;
use uuid::Uuid;

/// Transcript store that a test controls.
pub struct FakeTranscriptStore {
    directory: PathBuf,
    shared: Arc<FakeStoreState>,
}

struct FakeStoreState {
    conversations: Mutex<BTreeMap<Uuid, FakeConversation>>,
    /// Unreadable files, with the reason.
    unreadable: Mutex<Vec<(PathBuf, String)>>,
    /// Loads that may still happen; others wait.
    remaining_loads: watch::Sender<usize>,
    /// Whether listings complete.
    listing_enabled: watch::Sender<bool>,
    /// Whether transcripts can be opened; otherwise opening blocks.
    opening_enabled: watch::Sender<bool>,
}

/// Conversation in the store.
#[derive(Debug, Clone)]
pub struct FakeConversation {
    /// Its entry in listings.
    pub listing: ExternalConversation,
    /// Its turns.
    pub turns: Vec<FakeTurn>,
    /// Turns on abandoned branches, each with the number of turns before it in the file.
    pub abandoned_turns: Vec<(FakeTurn, usize)>,
    /// Error when it is read, if any.
    pub read_error: Option<TranscriptStoreError>,
    /// Turns that cannot be loaded, by id.
    pub unreadable_turns: BTreeSet<Uuid>,
    /// Damage, though it can be read.
    pub damage: Vec<String>,
    /// Activity of another process.
    pub external_activity: Option<ExternalActivity>,
}

/// Turn of a conversation.
#[derive(Debug, Clone)]
pub struct FakeTurn {
    /// Its entry in the index.
    pub mark: TurnIndexEntry,
    /// Its origin.
    pub input: TurnOrigin,
    /// Start time.
    pub started_at: Option<String>,
    /// End time.
    pub ended_at: Option<String>,
    /// Its events.
    pub events: Vec<DriverEvent>,
}

impl FakeTurn {
    /// Creates a turn with one response. Its number determines its id and its time.
    pub fn new(number: u32, said: &str, answer: &str) -> Self {
        let part = PartId(1);
        let at = |second: u32| {
            let (hours, minutes) = (number / 60 % 24, number % 60);
            Some(format!("2026-01-{:02}T{hours:02}:{minutes:02}:{second:02}.000Z", 1 + number / 1440))
        };
        Self {
            mark: TurnIndexEntry {
                id: Uuid::from_u128(u128::from(number)),
                message_id: Some(Uuid::new_v4()),
                is_command: false,
                is_complete: true,
                record_count: 1,
                size_bytes: (said.len() + answer.len()) as u64,
            },
            input: TurnOrigin::User { text: said.to_owned(), attachment_count: 0 },
            started_at: at(0),
            ended_at: at(2),
            events: vec![
                DriverEvent::MessageStarted,
                DriverEvent::PartStarted { part, kind: PartKind::Text },
                DriverEvent::PartDelta { part, text: answer.to_owned() },
                DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }),
            ],
        }
    }

    /// Sets the id of its message.
    #[must_use]
    pub fn with_message_id(mut self, message: Option<Uuid>) -> Self {
        self.mark.message_id = message;
        self
    }
}

impl FakeTranscriptStore {
    /// Creates an empty store with this directory.
    pub fn new(directory: &Path) -> Arc<Self> {
        let shared = FakeStoreState {
            conversations: Mutex::default(),
            unreadable: Mutex::default(),
            remaining_loads: watch::Sender::new(usize::MAX),
            listing_enabled: watch::Sender::new(true),
            opening_enabled: watch::Sender::new(true),
        };
        Arc::new(Self { directory: directory.to_owned(), shared: Arc::new(shared) })
    }

    fn conversations(&self) -> MutexGuard<'_, BTreeMap<Uuid, FakeConversation>> {
        self.shared.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a conversation with this many turns: `message 1` has the `answer 1`.
    pub fn add_conversation(&self, id: Uuid, directory: &Path, turns: u32) {
        let found = ExternalConversation {
            id,
            resume_token: ResumeToken(format!("record-{id}")),
            title: "message 1".to_owned(),
            custom_title: None,
            tag: None,
            working_directory: Some(directory.to_owned()),
            created: Some("2026-01-01T00:00:00.000Z".to_owned()),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        };
        let turns = (1..=turns).map(|n| FakeTurn::new(n, &format!("message {n}"), &format!("answer {n}"))).collect();
        let (abandoned, broken, torn, damage) = (Vec::new(), None, BTreeSet::new(), Vec::new());
        let conversation = FakeConversation {
            listing: found,
            turns,
            abandoned_turns: abandoned,
            read_error: broken,
            unreadable_turns: torn,
            damage,
            external_activity: None,
        };
        self.conversations().insert(id, conversation);
    }

    /// Changes a conversation.
    pub fn update_conversation(&self, id: Uuid, change: impl FnOnce(&mut FakeConversation)) {
        let mut conversations = self.conversations();
        let conversation = conversations.get_mut(&id).expect("the conversation is there");
        change(conversation);
        // A write changes the modification time.
        conversation.listing.modified += std::time::Duration::from_millis(1);
    }

    /// Returns a conversation's entry in listings.
    pub fn external_conversation(&self, id: Uuid) -> Option<ExternalConversation> {
        self.conversations().get(&id).map(|known| known.listing.clone())
    }

    /// Removes a conversation.
    pub fn remove_conversation(&self, id: Uuid) {
        self.conversations().remove(&id);
    }

    /// Adds an unreadable file.
    pub fn add_unreadable_file(&self, path: &Path, why: &str) {
        let mut unreadable = self.shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.push((path.to_owned(), why.to_owned()));
    }

    /// Makes all files readable again.
    pub fn clear_unreadable_files(&self) {
        self.shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets listings complete, or blocks them.
    pub fn set_listing_enabled(&self, may: bool) {
        self.shared.listing_enabled.send_replace(may);
    }

    /// Lets transcripts be opened, or blocks opening.
    pub fn set_opening_enabled(&self, may: bool) {
        self.shared.opening_enabled.send_replace(may);
    }

    /// Allows this many more loads; others wait.
    pub fn allow_loads(&self, loads: usize) {
        self.shared.remaining_loads.send_replace(loads);
    }

    /// Waits until all allowed loads have happened.
    pub async fn wait_for_loads(&self) {
        let mut loads = self.shared.remaining_loads.subscribe();
        let _ = loads.wait_for(|left| *left == 0).await;
    }
}

impl FakeStoreState {
    /// Waits for an allowed load.
    async fn acquire_load(&self) {
        let mut loads = self.remaining_loads.subscribe();
        loop {
            let _ = loads.wait_for(|left| *left > 0).await;
            let taken = self.remaining_loads.send_if_modified(|left| {
                let taken = *left > 0;
                if taken && *left != usize::MAX {
                    *left -= 1;
                }
                taken
            });
            if taken {
                return;
            }
        }
    }
}

impl TranscriptStore for FakeTranscriptStore {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn scan(&self) -> BoxFuture<'static, TranscriptScan> {
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = shared.listing_enabled.subscribe().wait_for(|may| *may).await;
            let conversations = shared.conversations.lock().unwrap_or_else(PoisonError::into_inner);
            let mut conversations: Vec<_> = conversations.values().map(|known| known.listing.clone()).collect();
            conversations.sort_by_key(|found| std::cmp::Reverse(found.modified));
            let unreadable = shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
            TranscriptScan { conversations, unreadable }
        }
        .boxed()
    }

    fn conversation_id(&self, token: &ResumeToken) -> Option<Uuid> {
        Uuid::try_parse(token.0.strip_prefix("record-")?).ok()
    }

    fn has_transcript(&self, token: &ResumeToken) -> BoxFuture<'static, bool> {
        let exists = self.conversation_id(token).is_some_and(|id| self.conversations().contains_key(&id));
        std::future::ready(exists).boxed()
    }

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        let opened = match self.conversations().get(&conversation) {
            None => Err(TranscriptStoreError::Missing),
            Some(FakeConversation { read_error: Some(error), .. }) => Err(error.clone()),
            Some(FakeConversation { turns, abandoned_turns: abandoned, damage, .. }) => {
                let transcript = FakeTranscript {
                    shared: Arc::clone(&self.shared),
                    conversation,
                    marks: turns.iter().map(|turn| turn.mark).collect(),
                    abandoned_marks: abandoned
                        .iter()
                        .map(|(turn, before)| AbandonedTurn { turn: turn.mark, turns_before: *before })
                        .collect(),
                    turns: turns.clone(),
                    abandoned_turns: abandoned.iter().map(|(turn, _)| turn.clone()).collect(),
                    damage: damage.clone(),
                };
                Ok(Arc::new(transcript) as Arc<dyn Transcript>)
            }
        };
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = shared.opening_enabled.subscribe().wait_for(|may| *may).await;
            opened
        }
        .boxed()
    }

    fn external_activity(&self, conversation: Uuid) -> BoxFuture<'static, Option<ExternalActivity>> {
        std::future::ready(
            self.conversations().get(&conversation).and_then(|conversation| conversation.external_activity),
        )
        .boxed()
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), TranscriptStoreError>> {
        let mut conversations = self.conversations();
        let broken = conversations.get(&conversation).and_then(|known| known.read_error.clone());
        let deleted = match broken {
            Some(error) => Err(error),
            None => {
                conversations.remove(&conversation);
                Ok(())
            }
        };
        std::future::ready(deleted).boxed()
    }
}

struct FakeTranscript {
    shared: Arc<FakeStoreState>,
    conversation: Uuid,
    turns: Vec<FakeTurn>,
    marks: Vec<TurnIndexEntry>,
    abandoned_turns: Vec<FakeTurn>,
    abandoned_marks: Vec<AbandonedTurn>,
    damage: Vec<String>,
}

impl FakeTranscript {
    /// Loads the turns, unless the test made one of them fail.
    async fn load_fake_turns(&self, turns: &[FakeTurn]) -> Result<Vec<LoadedTurn>, TranscriptStoreError> {
        self.shared.acquire_load().await;
        let conversations = self.shared.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let now = conversations.get(&self.conversation);
        if let Some(error) = now.and_then(|now| now.read_error.clone()) {
            return Err(error);
        }
        if turns.iter().any(|turn| now.is_some_and(|now| now.unreadable_turns.contains(&turn.mark.id))) {
            return Err(TranscriptStoreError::Unreadable("torn".to_owned()));
        }
        let to_loaded = |FakeTurn { mark, input: said, started_at: began, ended_at: ended, events }| LoadedTurn {
            id: mark.id,
            origin: said,
            started_at: began,
            ended_at: ended,
            events,
        };
        Ok(turns.iter().cloned().map(to_loaded).collect())
    }
}

impl Transcript for FakeTranscript {
    fn turns(&self) -> &[TurnIndexEntry] {
        &self.marks
    }

    fn load_turns(
        self: Arc<Self>,
        places: Range<usize>,
    ) -> BoxFuture<'static, Result<Vec<LoadedTurn>, TranscriptStoreError>> {
        async move {
            let all: Vec<_> = self.turns.iter().chain(&self.abandoned_turns).cloned().collect();
            self.load_fake_turns(all.get(places).unwrap_or_default()).await
        }
        .boxed()
    }

    fn abandoned_turns(&self) -> &[AbandonedTurn] {
        &self.abandoned_marks
    }

    fn describe_damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>> {
        std::future::ready(self.damage.clone()).boxed()
    }
}
