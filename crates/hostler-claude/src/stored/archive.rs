//! The transcripts of this user, as the engine asks for them.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{Archive, ArchiveError, Chronicle, Found, FoundConversation, Lead, ResumeToken};
use serde_json::json;
use uuid::Uuid;

use super::book::{Book, Opening, Shelf};
use super::leaders::{self, OwnAgents};
use super::{Conversation, Conversations};

/// The archive of Claude Code.
#[derive(Debug)]
pub struct Transcripts {
    directory: PathBuf,
    conversations: Arc<Mutex<Conversations>>,
    shelf: Arc<Mutex<Shelf>>,
    own: Arc<OwnAgents>,
}

impl Transcripts {
    /// Those of an agent with this configuration directory.
    pub fn under(configuration: &Path) -> Self {
        let conversations = Conversations::under(configuration);
        Self {
            directory: conversations.directory().to_owned(),
            conversations: Arc::new(Mutex::new(conversations)),
            shelf: Arc::default(),
            own: Arc::default(),
        }
    }

    /// The agents of this host are known by this.
    pub(crate) fn own_agents(&self) -> Arc<OwnAgents> {
        Arc::clone(&self.own)
    }
}

impl Transcripts {
    /// Sees to it that an agent which is opened now goes on with the conversation, and not with a branch that it has left.
    pub(crate) fn lead_back(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let shelf = Arc::clone(&self.shelf);
        self.with(conversation, move |found| {
            let note = Book::open(found, &shelf, Opening::ToStay)?.note_to_go_on(conversation);
            note.map_or(Ok(()), |note| append(&found.path, &note))
        })
    }
}

impl Archive for Transcripts {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn look(&self) -> BoxFuture<'static, Found> {
        let conversations = Arc::clone(&self.conversations);
        async move {
            let looking = Arc::clone(&conversations);
            let look = tokio::task::spawn_blocking(move || lock(&looking).look()).await;
            // A look that failed has seen nothing; that does not mean that there is nothing.
            let look = look.unwrap_or_else(|error| lock(&conversations).as_it_was(&error.to_string()));
            Found {
                conversations: look.found.iter().map(|found| listed(found)).collect(),
                unreadable: look.unreadable.into_iter().map(|unreadable| (unreadable.path, unreadable.why)).collect(),
            }
        }
        .boxed()
    }

    fn conversation(&self, token: &ResumeToken) -> Option<Uuid> {
        Path::new(&token.0).file_stem()?.to_str().and_then(|stem| Uuid::try_parse(stem).ok())
    }

    fn keeps(&self, token: &ResumeToken) -> BoxFuture<'static, bool> {
        let path = PathBuf::from(&token.0);
        // Whoever cannot see it does not know that it is gone.
        let keeps = move || match path.metadata() {
            Ok(facts) => facts.is_file(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        async move { tokio::task::spawn_blocking(keeps).await.unwrap_or(true) }.boxed()
    }

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        self.book(conversation, Opening::ToStay)
    }

    fn open_in_passing(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        self.book(conversation, Opening::InPassing)
    }

    fn lead(&self, conversation: Uuid) -> BoxFuture<'static, Option<Lead>> {
        let configuration = self.directory.parent().map(Path::to_owned);
        let own = Arc::clone(&self.own);
        let look = move || configuration.and_then(|configuration| leaders::lead(&configuration, conversation, &own));
        async move { tokio::task::spawn_blocking(look).await.ok().flatten() }.boxed()
    }

    fn rename(&self, conversation: Uuid, title: &str) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let record = note("custom-title", "customTitle", title, conversation);
        self.with(conversation, move |found| append(&found.path, &record))
    }

    fn tag(&self, conversation: Uuid, tag: Option<&str>) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let record = note("tag", "tag", tag.unwrap_or_default(), conversation);
        self.with(conversation, move |found| append(&found.path, &record))
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let conversations = Arc::clone(&self.conversations);
        let work = move || {
            let copies = lock(&conversations).copies(conversation);
            // One that cannot be removed does not keep the others.
            let removed: Vec<_> = copies.map_err(ArchiveError::Failed)?.iter().map(|path| remove(path)).collect();
            removed.into_iter().collect::<io::Result<()>>().map_err(|error| ArchiveError::Failed(error.to_string()))
        };
        blocking(work)
    }
}

impl Transcripts {
    fn book(
        &self,
        conversation: Uuid,
        opening: Opening,
    ) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        let shelf = Arc::clone(&self.shelf);
        self.with(conversation, move |found| Ok(Arc::new(Book::open(found, &shelf, opening)?) as Arc<dyn Chronicle>))
    }

    /// Does something with the file of a conversation, where it may block.
    fn with<T: Send + 'static>(
        &self,
        conversation: Uuid,
        work: impl FnOnce(&Conversation) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ArchiveError>> {
        let conversations = Arc::clone(&self.conversations);
        let work = move || {
            let found = lock(&conversations).find(conversation);
            let found = found.map_err(ArchiveError::Failed)?.ok_or(ArchiveError::Missing)?;
            work(&found).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ArchiveError::Missing,
                _ => ArchiveError::Failed(error.to_string()),
            })
        };
        blocking(work)
    }
}

fn lock(conversations: &Mutex<Conversations>) -> MutexGuard<'_, Conversations> {
    conversations.lock().unwrap_or_else(PoisonError::into_inner)
}

fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> BoxFuture<'static, Result<T, ArchiveError>> {
    async move { tokio::task::spawn_blocking(work).await.map_err(|error| ArchiveError::Failed(error.to_string()))? }
        .boxed()
}

/// Removes a transcript and those of its sub-agents.
fn remove(path: &Path) -> io::Result<()> {
    let unless_gone = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    std::fs::remove_file(path).or_else(unless_gone)?;
    std::fs::remove_dir_all(path.with_extension("")).or_else(unless_gone)
}

/// A note about the whole conversation. Whoever looks for notes, the agent too, knows them by their first bytes.
fn note(kind: &str, field: &str, value: &str, conversation: Uuid) -> String {
    format!(r#"{{"type":"{kind}","{field}":{},"sessionId":"{conversation}"}}"#, json!(value))
}

/// Writes a record behind all others, in one piece.
fn append(path: &Path, record: &str) -> io::Result<()> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let mut last = *b"\n";
    if let Some(end) = file.metadata()?.len().checked_sub(1) {
        file.read_at(&mut last, end)?;
    }
    // What was cut off stays alone on its line.
    let before = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{before}{record}\n").as_bytes())
}

fn listed(found: &Conversation) -> FoundConversation {
    FoundConversation {
        id: found.id,
        token: ResumeToken(found.path.to_string_lossy().into_owned()),
        title: found.outline.name().unwrap_or_default().to_owned(),
        given_title: found.given_title.clone(),
        tag: found.tag.clone(),
        directory: found.outline.directory.as_ref().map(PathBuf::from),
        created: found.outline.created.clone(),
        modified: found.modified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::Said;

    #[tokio::test]
    async fn a_conversation_is_listed_and_read() {
        let home = tempfile::tempdir().unwrap();
        let archive = Transcripts::under(home.path());
        assert!(archive.look().await.conversations.is_empty());
        let id = Uuid::from_u128(7);
        assert_eq!(archive.open(id).await.err(), Some(ArchiveError::Missing));
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
        let found = archive.look().await;
        let [listed] = &found.conversations[..] else { panic!("{found:?}") };
        assert_eq!((listed.id, listed.title.as_str(), listed.directory.as_deref()), (id, "hi", Some(Path::new("/p"))));
        assert_eq!(Path::new(&listed.token.0), path);
        assert_eq!(archive.conversation(&listed.token), Some(id));
        assert_eq!(archive.conversation(&ResumeToken("no name".to_owned())), None);
        let book = archive.open(id).await.unwrap();
        assert_eq!(book.turns().len(), 1);
        let told = Arc::clone(&book).tell(0..1).await.unwrap();
        assert_eq!(told[0].id, book.turns()[0].id);
        assert_eq!(told[0].said, Said::Person { text: "hi".to_owned(), attached: 0 });
        assert_eq!(
            book.damage().await,
            ["line 2 is not a record (column 2)", "5 bytes at the end are no whole record"]
        );
    }

    #[tokio::test]
    async fn a_turn_is_longer_when_something_was_said_or_done_in_it() {
        let home = tempfile::tempdir().unwrap();
        let archive = Transcripts::under(home.path());
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
            append(&path, record).unwrap();
            lengths.push(archive.open(id).await.unwrap().turns()[0].length);
        }
        assert_eq!(lengths, [1, 2, 2, 2, 2, 3]);
    }

    #[tokio::test]
    async fn a_conversation_is_deleted_wherever_it_was_copied_to() {
        let home = tempfile::tempdir().unwrap();
        let archive = Transcripts::under(home.path());
        let id = Uuid::from_u128(7);
        let text = "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"hi\"}}\n";
        for (folder, name) in [("-p", id), ("-q", id), ("-q", Uuid::from_u128(8))] {
            let path = archive.directory().join(folder).join(name.to_string());
            std::fs::create_dir_all(path.join("subagents")).unwrap();
            std::fs::write(path.with_extension("jsonl"), text).unwrap();
        }
        std::fs::write(archive.directory().join("loose"), "x").unwrap();
        archive.delete(id).await.unwrap();
        let left: Vec<_> = archive.look().await.conversations.into_iter().map(|one| one.id).collect();
        assert_eq!(left, [Uuid::from_u128(8)]);
        assert_eq!(std::fs::read_dir(archive.directory().join("-p")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(archive.directory().join("-q")).unwrap().count(), 2);
        // It is forgotten already.
        archive.delete(id).await.unwrap();
    }

    #[tokio::test]
    async fn what_cannot_be_seen_is_not_said_to_be_gone() {
        let home = tempfile::tempdir().unwrap();
        let archive = Transcripts::under(home.path());
        std::fs::create_dir_all(archive.directory()).unwrap();
        let folder = archive.directory().join("-p");
        std::os::unix::fs::symlink(&folder, &folder).unwrap();
        let token = ResumeToken(folder.join(format!("{}.jsonl", Uuid::from_u128(7))).display().to_string());
        assert!(archive.keeps(&token).await);
        for refused in [archive.open(Uuid::from_u128(7)).await.err(), archive.delete(Uuid::from_u128(7)).await.err()] {
            assert!(matches!(refused, Some(ArchiveError::Failed(_))), "{refused:?}");
        }
        std::fs::remove_file(&folder).unwrap();
        assert!(!archive.keeps(&token).await);
        assert_eq!(archive.open(Uuid::from_u128(7)).await.err(), Some(ArchiveError::Missing));
    }
}
