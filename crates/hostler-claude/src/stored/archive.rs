//! The transcripts of this user, as the engine asks for them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{Archive, ArchiveError, Chronicle, Found, FoundConversation, Mark, ResumeToken, ToldTurn};
use serde_json::json;
use uuid::Uuid;

use super::{Chain, Conversation, Conversations, Index, Link, Span, replay};

/// No transcript of a sub-agent that is longer is read.
const LONGEST_SUB_AGENT: u64 = 256 * 1024 * 1024;

/// The archive of Claude Code.
#[derive(Debug)]
pub struct Transcripts {
    directory: PathBuf,
    conversations: Arc<Mutex<Conversations>>,
}

impl Transcripts {
    /// Those of an agent with this configuration directory.
    pub fn under(configuration: &Path) -> Self {
        let conversations = Conversations::under(configuration);
        Self { directory: conversations.directory().to_owned(), conversations: Arc::new(Mutex::new(conversations)) }
    }
}

impl Archive for Transcripts {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn look(&self) -> BoxFuture<'static, Found> {
        let conversations = Arc::clone(&self.conversations);
        async move {
            let look = move || conversations.lock().unwrap_or_else(PoisonError::into_inner).look();
            let look = tokio::task::spawn_blocking(look).await.unwrap_or_default();
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

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        self.with(conversation, |found| Ok(Arc::new(Book::open(found)?) as Arc<dyn Chronicle>))
    }

    fn rename(&self, conversation: Uuid, title: &str) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let record = json!({"type": "custom-title", "customTitle": title, "sessionId": conversation});
        self.with(conversation, move |found| append(&found.path, &record))
    }

    fn tag(&self, conversation: Uuid, tag: Option<&str>) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let record = json!({"type": "tag", "tag": tag.unwrap_or_default(), "sessionId": conversation});
        self.with(conversation, move |found| append(&found.path, &record))
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let deleted = self.with(conversation, |found| {
            std::fs::remove_file(&found.path)?;
            match std::fs::remove_dir_all(found.path.with_extension("")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        });
        async move { deleted.await.or_else(|error| if error == ArchiveError::Missing { Ok(()) } else { Err(error) }) }
            .boxed()
    }
}

impl Transcripts {
    /// Does something with the file of a conversation, where it may block.
    fn with<T: Send + 'static>(
        &self,
        conversation: Uuid,
        work: impl FnOnce(&Conversation) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ArchiveError>> {
        let conversations = Arc::clone(&self.conversations);
        let work = move || {
            let found = conversations.lock().unwrap_or_else(PoisonError::into_inner).look().found;
            let found = found.iter().find(|found| found.id == conversation).ok_or(ArchiveError::Missing)?;
            work(found).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ArchiveError::Missing,
                _ => ArchiveError::Failed(error.to_string()),
            })
        };
        async move { tokio::task::spawn_blocking(work).await.map_err(|error| ArchiveError::Failed(error.to_string()))? }
            .boxed()
    }
}

/// Writes a record behind all others, in one piece.
fn append(path: &Path, record: &serde_json::Value) -> io::Result<()> {
    let mut file = File::options().append(true).open(path)?;
    file.write_all(format!("{record}\n").as_bytes())
}

fn listed(found: &Conversation) -> FoundConversation {
    FoundConversation {
        id: found.id,
        token: ResumeToken(found.path.to_string_lossy().into_owned()),
        title: found.outline.name().unwrap_or_default().to_owned(),
        given_title: found.outline.title.clone(),
        tag: found.outline.tag.clone(),
        directory: found.outline.directory.as_ref().map(PathBuf::from),
        created: found.outline.created.clone(),
        modified: found.modified,
    }
}

/// One transcript, as it was when it was opened.
struct Book {
    file: File,
    directory: PathBuf,
    /// Where its sub-agents' transcripts are.
    sub_agents: PathBuf,
    index: Index,
    chain: Chain,
    spans: Vec<Span>,
    marks: Vec<Mark>,
    damage: Vec<String>,
}

impl Book {
    fn open(found: &Conversation) -> io::Result<Self> {
        let file = File::open(&found.path)?;
        let index = Index::of(&mut BufReader::with_capacity(256 * 1024, &file))?;
        let chain = Chain::of(&index);
        let spans = chain.spans(&index);
        let marks = spans.iter().map(|span| Mark { id: span.turn, message: span.message, over: true }).collect();
        Ok(Self {
            directory: PathBuf::from(found.outline.directory.as_deref().unwrap_or("/")),
            sub_agents: found.path.with_extension("").join("subagents"),
            damage: damage(&index, &chain),
            file,
            index,
            chain,
            spans,
            marks,
        })
    }

    fn read(&self, places: Range<usize>) -> io::Result<Vec<ToldTurn>> {
        // Each of them once: its transcript is the whole of what it did, however often it was spoken to.
        let told = RefCell::new(HashSet::new());
        let sub_agent =
            |id: &str| told.borrow_mut().insert(id.to_owned()).then(|| sub_agent(&self.sub_agents, id)).flatten();
        let mut turns = Vec::new();
        for span in self.spans.get(places).unwrap_or_default() {
            let links = span.links.clone().filter_map(|at| self.chain.links.get(at));
            let links = links.filter_map(|at| self.index.links.get(*at));
            let lines = links.map(|link| Ok((link.kind, line(&self.file, link)?))).collect::<io::Result<Vec<_>>>()?;
            let told = replay(&self.directory, lines.iter().map(|(kind, line)| (*kind, line.as_slice())), &sub_agent);
            turns.push(ToldTurn {
                id: span.turn,
                said: told.said,
                began: told.began,
                ended: told.ended,
                events: told.events,
            });
        }
        Ok(turns)
    }
}

impl Chronicle for Book {
    fn turns(&self) -> &[Mark] {
        &self.marks
    }

    fn tell(self: Arc<Self>, places: Range<usize>) -> BoxFuture<'static, Result<Vec<ToldTurn>, ArchiveError>> {
        let tell = tokio::task::spawn_blocking(move || self.read(places));
        async move {
            let told = tell.await.map_err(|error| ArchiveError::Failed(error.to_string()))?;
            told.map_err(|error| ArchiveError::Failed(error.to_string()))
        }
        .boxed()
    }

    fn damage(&self) -> &[String] {
        &self.damage
    }
}

fn line(file: &File, link: &Link) -> io::Result<Vec<u8>> {
    let length = link.place.end.saturating_sub(link.place.start);
    let mut line = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut line, link.place.start)?;
    Ok(line)
}

/// The transcript of a sub-agent. Its id stands in a file that anybody may have written.
fn sub_agent(directory: &Path, id: &str) -> Option<Vec<u8>> {
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return None;
    }
    let path = directory.join(format!("agent-{id}.jsonl"));
    let facts = std::fs::metadata(&path).ok()?;
    (facts.is_file() && facts.len() <= LONGEST_SUB_AGENT).then(|| std::fs::read(&path).ok()).flatten()
}

/// What is wrong with a transcript, in sentences.
fn damage(index: &Index, chain: &Chain) -> Vec<String> {
    let mut damage: Vec<String> =
        index.damage.first.iter().map(|(number, what)| format!("line {number} {what}")).collect();
    let unnamed = index.damage.lines.saturating_sub(damage.len() as u64);
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            damage.push(format!("{count} {what}"));
        }
    };
    say(unnamed, "further lines are not records");
    say(index.damage.unfinished, "bytes at the end are no whole record");
    say(chain.gaps as u64, "records hang from records that are not there");
    say(chain.doubles as u64, "records have a name that another one has");
    if chain.circle {
        damage.push("the records run in a circle, so that the beginning is missing".to_owned());
    }
    damage
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
        assert_eq!(book.damage(), ["line 2 is not a record (column 2)", "5 bytes at the end are no whole record"]);
    }

    #[test]
    fn a_sub_agents_name_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("subagents")).unwrap();
        std::fs::write(home.path().join("secret.jsonl"), "x").unwrap();
        std::fs::write(home.path().join("subagents/agent-a1.jsonl"), "y").unwrap();
        let directory = home.path().join("subagents");
        assert_eq!(sub_agent(&directory, "a1"), Some(b"y".to_vec()));
        for id in ["", "../secret", "a1/../../secret", "\0", "a2", "é"] {
            assert_eq!(sub_agent(&directory, id), None, "{id:?}");
        }
    }
}
