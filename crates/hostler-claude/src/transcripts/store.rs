//! Implements the driver's [`TranscriptStore`] on the agent's configuration directory.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    ExternalActivity, ExternalConversation, ResumeToken, Transcript, TranscriptScan, TranscriptStore,
    TranscriptStoreError,
};
use uuid::Uuid;

use super::open_transcript::{IndexCache, OpenTranscript};
use super::session_registry::{self, HostAgents};
use super::{CatalogEntry, ConversationCatalog, UnreadablePath};

/// The transcript store of Claude Code.
#[derive(Debug)]
pub struct ClaudeTranscriptStore {
    directory: PathBuf,
    conversations: Arc<Mutex<ConversationCatalog>>,
    index_cache: Arc<Mutex<IndexCache>>,
    host_agents: Arc<HostAgents>,
}

impl ClaudeTranscriptStore {
    /// The store of an agent with this configuration directory.
    pub fn for_config_directory(configuration: &Path) -> Self {
        let conversations = ConversationCatalog::for_config_directory(configuration);
        Self {
            directory: conversations.directory().to_owned(),
            conversations: Arc::new(Mutex::new(conversations)),
            index_cache: Arc::default(),
            host_agents: Arc::default(),
        }
    }

    /// The agents of this host, which do not count as external activity.
    pub(crate) fn host_agents(&self) -> Arc<HostAgents> {
        Arc::clone(&self.host_agents)
    }
}

impl ClaudeTranscriptStore {
    /// Ensures that an agent that is opened now continues the active branch, not an abandoned one.
    pub(crate) fn ensure_active_branch(
        &self,
        conversation: Uuid,
    ) -> BoxFuture<'static, Result<(), TranscriptStoreError>> {
        let cache = Arc::clone(&self.index_cache);
        self.with_transcript(conversation, move |found| {
            let note = OpenTranscript::open(found, &cache, false)?.leaf_correction_record(conversation);
            note.map_or(Ok(()), |note| append_record(&found.path, &note))
        })
    }
}

impl TranscriptStore for ClaudeTranscriptStore {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn scan(&self) -> BoxFuture<'static, TranscriptScan> {
        let conversations = Arc::clone(&self.conversations);
        async move {
            let looking = Arc::clone(&conversations);
            let look = tokio::task::spawn_blocking(move || lock_catalog(&looking).scan()).await;
            // A failed scan has seen nothing, which does not mean that there is nothing.
            let look = look.unwrap_or_else(|error| lock_catalog(&conversations).last_scan(&error.to_string()));
            TranscriptScan {
                conversations: look.conversations.iter().map(|found| to_external_conversation(found)).collect(),
                unreadable: look
                    .unreadable
                    .into_iter()
                    .map(|unreadable| (unreadable.path, unreadable.reason))
                    .collect(),
            }
        }
        .boxed()
    }

    fn conversation_id(&self, token: &ResumeToken) -> Option<Uuid> {
        Path::new(&token.0).file_stem()?.to_str().and_then(|stem| Uuid::try_parse(stem).ok())
    }

    fn has_transcript(&self, token: &ResumeToken) -> BoxFuture<'static, bool> {
        let path = PathBuf::from(&token.0);
        // A transcript that cannot be accessed may still exist.
        let exists = move || match path.metadata() {
            Ok(facts) => facts.is_file(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        async move { tokio::task::spawn_blocking(exists).await.unwrap_or(true) }.boxed()
    }

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        self.open_transcript(conversation, false)
    }

    fn open_for_scan(
        &self,
        conversation: Uuid,
    ) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        self.open_transcript(conversation, true)
    }

    fn external_activity(&self, conversation: Uuid) -> BoxFuture<'static, Option<ExternalActivity>> {
        let configuration = self.directory.parent().map(Path::to_owned);
        let own = Arc::clone(&self.host_agents);
        let look = move || {
            configuration
                .and_then(|configuration| session_registry::find_external_activity(&configuration, conversation, &own))
        };
        async move { tokio::task::spawn_blocking(look).await.ok().flatten() }.boxed()
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), TranscriptStoreError>> {
        let conversations = Arc::clone(&self.conversations);
        let work = move || {
            let copies = lock_catalog(&conversations).copies(conversation);
            // A file that cannot be removed does not prevent the removal of the others.
            let removed: Vec<_> = copies.map_err(read_failed)?.iter().map(|path| remove_transcript(path)).collect();
            removed
                .into_iter()
                .collect::<io::Result<()>>()
                .map_err(|error| TranscriptStoreError::Failed(error.to_string()))
        };
        run_blocking(work)
    }
}

impl ClaudeTranscriptStore {
    fn open_transcript(
        &self,
        conversation: Uuid,
        is_scanned: bool,
    ) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        let cache = Arc::clone(&self.index_cache);
        self.with_transcript(conversation, move |found| {
            Ok(Arc::new(OpenTranscript::open(found, &cache, is_scanned)?) as Arc<dyn Transcript>)
        })
    }

    /// Runs a blocking operation on the file of a conversation.
    fn with_transcript<T: Send + 'static>(
        &self,
        conversation: Uuid,
        work: impl FnOnce(&CatalogEntry) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, TranscriptStoreError>> {
        let conversations = Arc::clone(&self.conversations);
        let work = move || {
            let found = lock_catalog(&conversations).find(conversation);
            let found = found.map_err(read_failed)?.ok_or(TranscriptStoreError::Missing)?;
            work(&found).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => TranscriptStoreError::Missing,
                _ => TranscriptStoreError::Failed(error.to_string()),
            })
        };
        run_blocking(work)
    }
}

fn read_failed(unreadable: UnreadablePath) -> TranscriptStoreError {
    TranscriptStoreError::Failed(unreadable.to_string())
}

fn lock_catalog(conversations: &Mutex<ConversationCatalog>) -> MutexGuard<'_, ConversationCatalog> {
    conversations.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TranscriptStoreError> + Send + 'static,
) -> BoxFuture<'static, Result<T, TranscriptStoreError>> {
    async move { tokio::task::spawn_blocking(work).await.map_err(|error| TranscriptStoreError::Failed(error.to_string()))? }
        .boxed()
}

/// Removes a transcript and those of its sub-agents.
fn remove_transcript(path: &Path) -> io::Result<()> {
    let unless_gone = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    std::fs::remove_file(path).or_else(unless_gone)?;
    std::fs::remove_dir_all(path.with_extension("")).or_else(unless_gone)
}

/// Appends a record in one write.
fn append_record(path: &Path, record: &str) -> io::Result<()> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let mut last = *b"\n";
    if let Some(end) = file.metadata()?.len().checked_sub(1) {
        file.read_at(&mut last, end)?;
    }
    // A truncated last line stays alone on its line.
    let before = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{before}{record}\n").as_bytes())
}

fn to_external_conversation(found: &CatalogEntry) -> ExternalConversation {
    ExternalConversation {
        id: found.id,
        resume_token: ResumeToken(found.path.to_string_lossy().into_owned()),
        title: found.listing.title().unwrap_or_default().to_owned(),
        custom_title: found.listing.metadata.custom_title.clone().filter(|title| !title.is_empty()),
        tag: found.listing.metadata.tag.clone(),
        working_directory: found.listing.working_directory.as_ref().map(PathBuf::from),
        created: found.listing.created.clone(),
        modified: found.modified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::TurnOrigin;

    #[tokio::test]
    async fn conversation_is_listed_and_loaded() {
        let home = tempfile::tempdir().unwrap();
        let archive = ClaudeTranscriptStore::for_config_directory(home.path());
        assert!(archive.scan().await.conversations.is_empty());
        let id = Uuid::from_u128(7);
        assert_eq!(archive.open(id).await.err(), Some(TranscriptStoreError::Missing));
        let folder = archive.directory().join("-p");
        std::fs::create_dir_all(&folder).unwrap();
        let text = concat!(
            r#"{"type":"user","uuid":"a","cwd":"/p","timestamp":"2026-01-01T00:00:00Z","message":{"content":"hi"}}"#,
            "\nnoise\n",
            r#"{"type":"assistant","uuid":"b","parentUuid":"a","message":{"id":"1","content":[{"type":"text","text":"yes"}]}}"#,
            "\n{\"cut",
        );
        let path = folder.join(format!("{id}.jsonl"));
        std::fs::write(&path, text).unwrap();
        let found = archive.scan().await;
        let [listed] = &found.conversations[..] else { panic!("{found:?}") };
        assert_eq!(
            (listed.id, listed.title.as_str(), listed.working_directory.as_deref()),
            (id, "hi", Some(Path::new("/p")))
        );
        assert_eq!(Path::new(&listed.resume_token.0), path);
        assert_eq!(archive.conversation_id(&listed.resume_token), Some(id));
        assert_eq!(archive.conversation_id(&ResumeToken("no name".to_owned())), None);
        let transcript = archive.open(id).await.unwrap();
        assert_eq!(transcript.turns().len(), 1);
        let loaded = Arc::clone(&transcript).load_turns(0..1).await.unwrap();
        assert_eq!(loaded[0].id, transcript.turns()[0].id);
        assert_eq!(loaded[0].origin, TurnOrigin::User { text: "hi".to_owned(), attachment_count: 0 });
        assert_eq!(
            transcript.describe_damage().await,
            ["line 2 is not a record (column 2)", "5 bytes at the end are an incomplete record"]
        );
    }

    #[tokio::test]
    async fn record_count_grows_with_activity() {
        let home = tempfile::tempdir().unwrap();
        let archive = ClaudeTranscriptStore::for_config_directory(home.path());
        let (id, folder) = (Uuid::from_u128(7), archive.directory().join("-p"));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{id}.jsonl"));
        std::fs::write(&path, "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"hi\"}}\n").unwrap();
        let mut lengths = Vec::new();
        for record in [
            r#"{"type":"assistant","uuid":"b","parentUuid":"a","message":{"id":"1","content":[{"type":"tool_use","id":"t"}]}}"#,
            r#"{"type":"user","uuid":"c","parentUuid":"b","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]}}"#,
            r#"{"type":"system","subtype":"turn_duration","uuid":"d","parentUuid":"c"}"#,
            r#"{"type":"system","subtype":"compact_boundary","uuid":"e","parentUuid":null,"logicalParentUuid":"d"}"#,
            r#"{"type":"user","uuid":"f","parentUuid":"e","isCompactSummary":true,"message":{"content":"so far"}}"#,
            r#"{"type":"assistant","uuid":"g","parentUuid":"f","message":{"id":"2","content":[{"type":"text","text":"yes"}]}}"#,
        ] {
            append_record(&path, record).unwrap();
            lengths.push(archive.open(id).await.unwrap().turns()[0].record_count);
        }
        assert_eq!(lengths, [1, 2, 2, 2, 2, 3]);
    }

    #[tokio::test]
    async fn delete_removes_all_copies() {
        let home = tempfile::tempdir().unwrap();
        let archive = ClaudeTranscriptStore::for_config_directory(home.path());
        let id = Uuid::from_u128(7);
        let text = "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"hi\"}}\n";
        for (folder, name) in [("-p", id), ("-q", id), ("-q", Uuid::from_u128(8))] {
            let path = archive.directory().join(folder).join(name.to_string());
            std::fs::create_dir_all(path.join("subagents")).unwrap();
            std::fs::write(path.with_extension("jsonl"), text).unwrap();
        }
        std::fs::write(archive.directory().join("loose"), "x").unwrap();
        archive.delete(id).await.unwrap();
        let left: Vec<_> = archive.scan().await.conversations.into_iter().map(|one| one.id).collect();
        assert_eq!(left, [Uuid::from_u128(8)]);
        assert_eq!(std::fs::read_dir(archive.directory().join("-p")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(archive.directory().join("-q")).unwrap().count(), 2);
        // It is deleted already.
        archive.delete(id).await.unwrap();
    }

    #[tokio::test]
    async fn inaccessible_transcript_is_not_reported_as_missing() {
        let home = tempfile::tempdir().unwrap();
        let archive = ClaudeTranscriptStore::for_config_directory(home.path());
        std::fs::create_dir_all(archive.directory()).unwrap();
        let folder = archive.directory().join("-p");
        std::os::unix::fs::symlink(&folder, &folder).unwrap();
        let token = ResumeToken(folder.join(format!("{}.jsonl", Uuid::from_u128(7))).display().to_string());
        assert!(archive.has_transcript(&token).await);
        for refused in [archive.open(Uuid::from_u128(7)).await.err(), archive.delete(Uuid::from_u128(7)).await.err()] {
            assert!(matches!(refused, Some(TranscriptStoreError::Failed(_))), "{refused:?}");
        }
        std::fs::remove_file(&folder).unwrap();
        assert!(!archive.has_transcript(&token).await);
        assert_eq!(archive.open(Uuid::from_u128(7)).await.err(), Some(TranscriptStoreError::Missing));
    }
}
