//! Names and tags that are written into the agents' records, one after the other. What could not be written is tried again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_driver::ArchiveError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::host::Host;

/// How many notes may wait. People do not name faster than disks write.
const WAITING: usize = 1024;

/// How long a note waits that could not be written; then twice as long, and so on.
const PAUSE: Duration = Duration::from_secs(1);

/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// After so many tries it is left to whoever opens the session again, or changes its record.
const TRIES: u32 = 10;

/// Writes names and tags.
pub(crate) struct Namer {
    sender: mpsc::Sender<Wish>,
    receiver: Mutex<Option<mpsc::Receiver<Wish>>>,
    known: Mutex<HashMap<Uuid, Known>>,
    /// Whoever writes, and when nothing more can come.
    writer: TaskTracker,
    last: CancellationToken,
}

/// What a person has put on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    Title(String),
    Tag(Option<String>),
}

/// What is known of the notes for a record.
#[derive(Default)]
struct Known {
    /// How many are on their way there: what stands there meanwhile is old.
    writing: usize,
    /// How many wait to be tried again.
    waiting: usize,
    /// The last wish of each kind; those before it are void.
    title: u64,
    tag: u64,
}

impl Known {
    fn last(&mut self, note: &Note) -> &mut u64 {
        match note {
            Note::Title(_) => &mut self.title,
            Note::Tag(_) => &mut self.tag,
        }
    }
}

#[derive(Clone)]
struct Wish {
    provider: String,
    conversation: Uuid,
    note: Note,
    number: u64,
    tries: u32,
}

impl Default for Namer {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (writer, last) = (TaskTracker::new(), CancellationToken::new());
        Self { sender, receiver: Mutex::new(Some(receiver)), known: Mutex::default(), writer, last }
    }
}

impl Namer {
    fn known(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record is to say this soon.
    pub(crate) fn write(&self, provider: &str, conversation: Uuid, note: Note) {
        let number = {
            let mut known = self.known();
            let last = known.entry(conversation).or_default().last(&note);
            *last += 1;
            *last
        };
        self.send(Wish { provider: provider.to_owned(), conversation, note, number, tries: 0 });
    }

    fn send(&self, wish: Wish) {
        let conversation = wish.conversation;
        self.known().entry(conversation).or_default().writing += 1;
        if self.sender.try_send(wish).is_err() {
            tracing::warn!(%conversation, "the agent's record does not get what a person has put on the session");
            self.written(conversation);
        }
    }

    /// All sessions have ended, and with them those who write notes: what they have left here is written.
    pub(crate) async fn finish(&self) {
        self.last.cancel();
        self.writer.close();
        self.writer.wait().await;
    }

    /// Somebody else has named the conversation since: what was to be written is old.
    pub(crate) fn forget_title(&self, conversation: Uuid) {
        self.known().entry(conversation).or_default().title += 1;
    }

    fn written(&self, conversation: Uuid) {
        let mut known = self.known();
        let known = known.entry(conversation).or_default();
        known.writing = known.writing.saturating_sub(1);
    }

    /// Whether a wish is the last one of its kind.
    fn holds(&self, wish: &Wish) -> bool {
        *self.known().entry(wish.conversation).or_default().last(&wish.note) == wish.number
    }

    /// Whether something is on its way into a record, which replaces what stands there.
    pub(crate) fn is_writing(&self, conversation: Uuid) -> bool {
        self.known().get(&conversation).is_some_and(|known| known.writing > 0)
    }

    /// Whether something is on its way, or is tried again soon.
    pub(crate) fn is_at_it(&self, conversation: Uuid) -> bool {
        self.known().get(&conversation).is_some_and(|known| known.writing + known.waiting > 0)
    }
}

impl Host {
    /// Writes what is to be written, until nothing more can come and nothing is left. That is later than the host's wish to
    /// stop: sessions write until their own end.
    pub(crate) fn write_notes(self: &Arc<Self>) {
        let receiver = self.namer.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut wishes) = receiver else { return };
        let (host, last) = (Arc::downgrade(self), self.namer.last.clone());
        self.namer.writer.spawn(async move {
            loop {
                let wish = tokio::select! {
                    biased;
                    wish = wishes.recv() => wish,
                    () = last.cancelled() => None,
                };
                let (Some(wish), Some(host)) = (wish, host.upgrade()) else { return };
                host.write_note(wish).await;
            }
        });
    }

    async fn write_note(self: &Arc<Self>, wish: Wish) {
        let conversation = wish.conversation;
        let written = match (self.archive(&wish.provider), &wish.note) {
            _ if !self.namer.holds(&wish) => Ok(()),
            (Some(archive), Note::Title(title)) => archive.rename(conversation, title).await,
            (Some(archive), Note::Tag(tag)) => archive.tag(conversation, tag.as_deref()).await,
            (None, _) => Err(ArchiveError::Missing),
        };
        if let Err(error) = written {
            tracing::warn!(%conversation, %error, "the agent's record does not say what a person has put on the session");
            self.try_again(wish);
        }
        self.namer.written(conversation);
    }

    /// A disk that is away comes back, and a record that has not begun begins.
    fn try_again(self: &Arc<Self>, wish: Wish) {
        let tries = wish.tries + 1;
        if tries >= TRIES {
            return;
        }
        self.namer.known().entry(wish.conversation).or_default().waiting += 1;
        let pause = self.clock.sleep(LONGEST_PAUSE.min(PAUSE * (1 << wish.tries)));
        let (host, stop) = (Arc::downgrade(self), self.stop.clone());
        self.tasks.spawn(async move {
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let Some(host) = host.upgrade() else { return };
            if let Some(known) = host.namer.known().get_mut(&wish.conversation) {
                known.waiting = known.waiting.saturating_sub(1);
            }
            if host.namer.holds(&wish) {
                host.namer.send(Wish { tries, ..wish });
            }
        });
    }
}
