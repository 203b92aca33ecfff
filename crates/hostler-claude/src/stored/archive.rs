//! The transcripts of this user, as the engine asks for them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{Archive, ArchiveError, Found, FoundConversation, ResumeToken, Told, ToldTurn};
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

    fn read(&self, conversation: Uuid) -> BoxFuture<'static, Result<Told, ArchiveError>> {
        let conversations = Arc::clone(&self.conversations);
        async move {
            let read = move || {
                let found = conversations.lock().unwrap_or_else(PoisonError::into_inner).look().found;
                let found = found.iter().find(|found| found.id == conversation).ok_or(ArchiveError::Missing)?;
                tell(found).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => ArchiveError::Missing,
                    _ => ArchiveError::Failed(error.to_string()),
                })
            };
            tokio::task::spawn_blocking(read).await.map_err(|error| ArchiveError::Failed(error.to_string()))?
        }
        .boxed()
    }
}

fn listed(found: &Conversation) -> FoundConversation {
    FoundConversation {
        id: found.id,
        token: ResumeToken(found.path.to_string_lossy().into_owned()),
        title: found.outline.name().unwrap_or_default().to_owned(),
        tag: found.outline.tag.clone(),
        directory: found.outline.directory.as_ref().map(PathBuf::from),
        created: found.outline.created.clone(),
        modified: found.modified,
    }
}

fn tell(found: &Conversation) -> io::Result<Told> {
    let file = File::open(&found.path)?;
    let index = Index::of(&mut BufReader::with_capacity(256 * 1024, &file))?;
    let chain = Chain::of(&index);
    let directory = PathBuf::from(found.outline.directory.as_deref().unwrap_or("/"));
    let own = found.path.with_extension("").join("subagents");
    // Each of them once: its transcript is the whole of what it did, however often it was spoken to.
    let told = RefCell::new(HashSet::new());
    let sub_agent = |id: &str| told.borrow_mut().insert(id.to_owned()).then(|| sub_agent(&own, id)).flatten();
    let mut turns = Vec::new();
    let (mut skipped, mut shortened) = (0, false);
    for Span { turn, links } in chain.spans(&index) {
        let links = links.filter_map(|at| chain.links.get(at).and_then(|at| index.links.get(*at)));
        let lines = links.map(|link| Ok((link.kind, line(&file, link)?))).collect::<io::Result<Vec<_>>>();
        let lines = match lines {
            Ok(lines) => lines,
            // Somebody has shortened it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                shortened = true;
                break;
            }
            Err(error) => return Err(error),
        };
        let told = replay(&directory, lines.iter().map(|(kind, line)| (*kind, line.as_slice())), &sub_agent);
        skipped += told.skipped;
        turns.push(ToldTurn { id: turn, said: told.said, began: told.began, ended: told.ended, events: told.events });
    }
    let mut damage = damage(&index, &chain, skipped);
    if shortened {
        damage.push("the file became shorter while it was read".to_owned());
    }
    Ok(Told { turns, damage })
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
fn damage(index: &Index, chain: &Chain, skipped: usize) -> Vec<String> {
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
    say(skipped as u64, "records have a shape that is not known");
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
        assert_eq!(archive.read(id).await.unwrap_err(), ArchiveError::Missing);
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
        let told = archive.read(id).await.unwrap();
        assert_eq!(told.turns.len(), 1);
        assert_eq!(told.turns[0].said, Said::Person { text: "hi".to_owned(), attached: 0 });
        assert_eq!(told.damage, ["line 2 is not a record (column 2)", "5 bytes at the end are no whole record"]);
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
