//! Conversations that were never led: a test says what is in them, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    Archive, ArchiveError, Chronicle, DriverEvent, Found, FoundConversation, Lead, PartId, PartKind, ResumeToken, Said,
    Stray, Tag, ToldTurn, TurnMark, TurnOutcome,
};
use tokio::sync::watch;
use uuid::Uuid;

/// An archive in a test's hands.
pub struct FakeArchive {
    directory: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    conversations: Mutex<BTreeMap<Uuid, FakeConversation>>,
    /// Files that cannot be read, and why.
    unreadable: Mutex<Vec<(PathBuf, String)>>,
    /// How many tellings may still happen; the others wait.
    tellings: watch::Sender<usize>,
    /// Whether looks come to their end.
    looks: watch::Sender<bool>,
    /// Whether records can be opened; otherwise it takes long.
    opens: watch::Sender<bool>,
}

/// A conversation of such an archive.
#[derive(Debug, Clone)]
pub struct FakeConversation {
    /// What a look shows of it.
    pub found: FoundConversation,
    /// What is told of it.
    pub turns: Vec<FakeTurn>,
    /// Turns that it has left, each with the place of the turn in which it goes on instead.
    pub strays: Vec<(FakeTurn, usize)>,
    /// Why it cannot be read, if it cannot.
    pub broken: Option<ArchiveError>,
    /// Turns that cannot be told, by their ids.
    pub torn: BTreeSet<Uuid>,
    /// What is wrong with it, though it can be read.
    pub damage: Vec<String>,
    /// What somebody who leads it says.
    pub lead: Option<Lead>,
}

/// A turn of such a conversation.
#[derive(Debug, Clone)]
pub struct FakeTurn {
    /// Where it stands.
    pub mark: TurnMark,
    /// What it was begun with.
    pub said: Said,
    /// When.
    pub began: Option<String>,
    /// And until when it went on.
    pub ended: Option<String>,
    /// What happened in it.
    pub events: Vec<DriverEvent>,
}

impl FakeTurn {
    /// A turn with one answer. Its number makes its id, and its time.
    pub fn new(number: u32, said: &str, answer: &str) -> Self {
        let part = PartId(1);
        let at = |second: u32| {
            let (hours, minutes) = (number / 60 % 24, number % 60);
            Some(format!("2026-01-{:02}T{hours:02}:{minutes:02}:{second:02}.000Z", 1 + number / 1440))
        };
        Self {
            mark: TurnMark {
                id: Uuid::from_u128(u128::from(number)),
                message: Some(Uuid::new_v4()),
                command: false,
                over: true,
                length: 1,
                bytes: (said.len() + answer.len()) as u64,
            },
            said: Said::Person { text: said.to_owned(), attached: 0 },
            began: at(0),
            ended: at(2),
            events: vec![
                DriverEvent::MessageStarted,
                DriverEvent::PartStarted { part, kind: PartKind::Text },
                DriverEvent::Delta { part, text: answer.to_owned() },
                DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }),
            ],
        }
    }

    /// The same, by a message of this id.
    #[must_use]
    pub fn of(mut self, message: Option<Uuid>) -> Self {
        self.mark.message = message;
        self
    }
}

impl FakeArchive {
    /// An empty archive that says that it lives in this directory.
    pub fn new(directory: &Path) -> Arc<Self> {
        let shared = Shared {
            conversations: Mutex::default(),
            unreadable: Mutex::default(),
            tellings: watch::Sender::new(usize::MAX),
            looks: watch::Sender::new(true),
            opens: watch::Sender::new(true),
        };
        Arc::new(Self { directory: directory.to_owned(), shared: Arc::new(shared) })
    }

    fn conversations(&self) -> MutexGuard<'_, BTreeMap<Uuid, FakeConversation>> {
        self.shared.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a conversation into it, with so many turns: `message 1` has the `answer 1`.
    pub fn put(&self, id: Uuid, directory: &Path, turns: u32) {
        let found = FoundConversation {
            id,
            token: ResumeToken(format!("record-{id}")),
            title: "message 1".to_owned(),
            given_title: None,
            tag: Tag::Off,
            directory: Some(directory.to_owned()),
            created: Some("2026-01-01T00:00:00.000Z".to_owned()),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        };
        let turns = (1..=turns).map(|n| FakeTurn::new(n, &format!("message {n}"), &format!("answer {n}"))).collect();
        let (strays, broken, torn, damage) = (Vec::new(), None, BTreeSet::new(), Vec::new());
        let conversation = FakeConversation { found, turns, strays, broken, torn, damage, lead: None };
        self.conversations().insert(id, conversation);
    }

    /// Changes a conversation.
    pub fn change(&self, id: Uuid, change: impl FnOnce(&mut FakeConversation)) {
        let mut conversations = self.conversations();
        let conversation = conversations.get_mut(&id).expect("the conversation is there");
        change(conversation);
        // Whoever writes leaves a trace.
        conversation.found.modified += std::time::Duration::from_millis(1);
    }

    /// What a look shows of a conversation.
    pub fn found(&self, id: Uuid) -> Option<FoundConversation> {
        self.conversations().get(&id).map(|known| known.found.clone())
    }

    /// Takes a conversation out.
    pub fn remove(&self, id: Uuid) {
        self.conversations().remove(&id);
    }

    /// Puts a file into it that cannot be read.
    pub fn put_unreadable(&self, path: &Path, why: &str) {
        let mut unreadable = self.shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.push((path.to_owned(), why.to_owned()));
    }

    /// Everything can be read again.
    pub fn clear_unreadable(&self) {
        self.shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Lets looks come to their end, or not.
    pub fn let_look(&self, may: bool) {
        self.shared.looks.send_replace(may);
    }

    /// Lets records be opened, or lets it take long.
    pub fn let_open(&self, may: bool) {
        self.shared.opens.send_replace(may);
    }

    /// Lets so many tellings happen; the others wait until there are more.
    pub fn allow(&self, tellings: usize) {
        self.shared.tellings.send_replace(tellings);
    }

    /// Waits until all tellings that were allowed have happened.
    pub async fn told(&self) {
        let mut tellings = self.shared.tellings.subscribe();
        let _ = tellings.wait_for(|left| *left == 0).await;
    }
}

impl Shared {
    /// Waits for the right to tell something.
    async fn may_tell(&self) {
        let mut tellings = self.tellings.subscribe();
        loop {
            let _ = tellings.wait_for(|left| *left > 0).await;
            let taken = self.tellings.send_if_modified(|left| {
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

impl Archive for FakeArchive {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn look(&self) -> BoxFuture<'static, Found> {
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = shared.looks.subscribe().wait_for(|may| *may).await;
            let conversations = shared.conversations.lock().unwrap_or_else(PoisonError::into_inner);
            let mut conversations: Vec<_> = conversations.values().map(|known| known.found.clone()).collect();
            conversations.sort_by_key(|found| std::cmp::Reverse(found.modified));
            let unreadable = shared.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Found { conversations, unreadable }
        }
        .boxed()
    }

    fn conversation(&self, token: &ResumeToken) -> Option<Uuid> {
        Uuid::try_parse(token.0.strip_prefix("record-")?).ok()
    }

    fn keeps(&self, token: &ResumeToken) -> BoxFuture<'static, bool> {
        let kept = self.conversation(token).is_some_and(|id| self.conversations().contains_key(&id));
        std::future::ready(kept).boxed()
    }

    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        let opened = match self.conversations().get(&conversation) {
            None => Err(ArchiveError::Missing),
            Some(FakeConversation { broken: Some(error), .. }) => Err(error.clone()),
            Some(FakeConversation { turns, strays, damage, .. }) => {
                let chronicle = FakeChronicle {
                    shared: Arc::clone(&self.shared),
                    conversation,
                    marks: turns.iter().map(|turn| turn.mark).collect(),
                    strays: strays.iter().map(|(turn, fork)| Stray { mark: turn.mark, fork: *fork }).collect(),
                    turns: turns.clone(),
                    strayed: strays.iter().map(|(turn, _)| turn.clone()).collect(),
                    damage: damage.clone(),
                };
                Ok(Arc::new(chronicle) as Arc<dyn Chronicle>)
            }
        };
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = shared.opens.subscribe().wait_for(|may| *may).await;
            opened
        }
        .boxed()
    }

    fn lead(&self, conversation: Uuid) -> BoxFuture<'static, Option<Lead>> {
        std::future::ready(self.conversations().get(&conversation).and_then(|conversation| conversation.lead)).boxed()
    }

    fn rename(&self, conversation: Uuid, title: &str) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let mut conversations = self.conversations();
        let renamed = writable(&mut conversations, conversation);
        let renamed = renamed.map(|conversation| {
            title.clone_into(&mut conversation.found.title);
            conversation.found.given_title = Some(title.to_owned());
        });
        std::future::ready(renamed).boxed()
    }

    fn tag(&self, conversation: Uuid, tag: Option<&str>) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let mut conversations = self.conversations();
        let tagged = writable(&mut conversations, conversation);
        let tag = tag.map_or(Tag::Off, |tag| Tag::On(tag.to_owned()));
        let tagged = tagged.map(|conversation| conversation.found.tag = tag);
        std::future::ready(tagged).boxed()
    }

    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), ArchiveError>> {
        let mut conversations = self.conversations();
        let broken = conversations.get(&conversation).and_then(|known| known.broken.clone());
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

/// A conversation that something can be written into.
fn writable(
    conversations: &mut BTreeMap<Uuid, FakeConversation>,
    id: Uuid,
) -> Result<&mut FakeConversation, ArchiveError> {
    let conversation = conversations.get_mut(&id).ok_or(ArchiveError::Missing)?;
    conversation.broken.clone().map_or(Ok(()), Err)?;
    // Whoever writes leaves a trace.
    conversation.found.modified += Duration::from_millis(1);
    Ok(conversation)
}

struct FakeChronicle {
    shared: Arc<Shared>,
    conversation: Uuid,
    turns: Vec<FakeTurn>,
    marks: Vec<TurnMark>,
    strayed: Vec<FakeTurn>,
    strays: Vec<Stray>,
    damage: Vec<String>,
}

impl FakeChronicle {
    /// Tells what a test has put there, unless it is to fail.
    async fn told(&self, turns: &[FakeTurn]) -> Result<Vec<ToldTurn>, ArchiveError> {
        self.shared.may_tell().await;
        let conversations = self.shared.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let now = conversations.get(&self.conversation);
        if let Some(error) = now.and_then(|now| now.broken.clone()) {
            return Err(error);
        }
        if turns.iter().any(|turn| now.is_some_and(|now| now.torn.contains(&turn.mark.id))) {
            return Err(ArchiveError::Untellable("it is torn".to_owned()));
        }
        let told = |FakeTurn { mark, said, began, ended, events }| ToldTurn { id: mark.id, said, began, ended, events };
        Ok(turns.iter().cloned().map(told).collect())
    }
}

impl Chronicle for FakeChronicle {
    fn turns(&self) -> &[TurnMark] {
        &self.marks
    }

    fn tell(self: Arc<Self>, places: Range<usize>) -> BoxFuture<'static, Result<Vec<ToldTurn>, ArchiveError>> {
        async move { self.told(self.turns.get(places).unwrap_or_default()).await }.boxed()
    }

    fn strays(&self) -> &[Stray] {
        &self.strays
    }

    fn tell_stray(self: Arc<Self>, place: usize) -> BoxFuture<'static, Result<Option<ToldTurn>, ArchiveError>> {
        async move {
            let stray = self.strayed.get(place).map(std::slice::from_ref).unwrap_or_default();
            Ok(self.told(stray).await?.pop())
        }
        .boxed()
    }

    fn damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>> {
        std::future::ready(self.damage.clone()).boxed()
    }
}
