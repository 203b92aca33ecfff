//! Names that are written into the agents' records, one after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_driver::ArchiveError;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::host::Host;

/// How many names may wait. People do not name faster than disks write.
const WAITING: usize = 1024;

/// Writes names.
pub(crate) struct Namer {
    sender: mpsc::Sender<Name>,
    receiver: Mutex<Option<mpsc::Receiver<Name>>>,
    known: Mutex<HashMap<Uuid, Known>>,
}

/// What is known of the name in a record.
#[derive(Default)]
struct Known {
    title: String,
    /// How many names are on their way there: what stands there meanwhile is old.
    writing: usize,
}

struct Name {
    provider: String,
    conversation: Uuid,
    title: String,
}

impl Default for Namer {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self { sender, receiver: Mutex::new(Some(receiver)), known: Mutex::default() }
    }
}

impl Namer {
    fn known(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record is to have this name soon.
    pub(crate) fn write(&self, provider: &str, conversation: Uuid, title: String) {
        self.known().entry(conversation).or_default().writing += 1;
        if self.sender.try_send(Name { provider: provider.to_owned(), conversation, title }).is_err() {
            tracing::warn!(%conversation, "the agent's record does not get the session's new name");
            self.written(conversation, None);
        }
    }

    fn written(&self, conversation: Uuid, title: Option<String>) {
        let mut known = self.known();
        let known = known.entry(conversation).or_default();
        known.writing = known.writing.saturating_sub(1);
        if let Some(title) = title {
            known.title = title;
        }
    }

    /// Whether a name that stands in a record is another one than before, and not about to be replaced. It is known now.
    pub(crate) fn is_news(&self, conversation: Uuid, title: &str) -> bool {
        let mut known = self.known();
        let known = known.entry(conversation).or_default();
        let news = known.writing == 0 && known.title != title;
        if news {
            title.clone_into(&mut known.title);
        }
        news
    }
}

impl Host {
    /// Writes what is to be written, until the host goes down and nothing is left.
    pub(crate) fn write_names(self: &Arc<Self>) {
        let receiver = self.namer.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut names) = receiver else { return };
        let (host, stop) = (Arc::downgrade(self), self.stop.clone());
        self.tasks.spawn(async move {
            loop {
                let name = tokio::select! {
                    biased;
                    Some(name) = names.recv() => name,
                    () = stop.cancelled() => return,
                    else => return,
                };
                let Some(host) = host.upgrade() else { return };
                host.write_name(name).await;
            }
        });
    }

    async fn write_name(&self, Name { provider, conversation, title }: Name) {
        let written = match self.archive(&provider) {
            Some(archive) => archive.rename(conversation, &title).await,
            None => Err(ArchiveError::Missing),
        };
        if let Err(error) = &written {
            tracing::warn!(%conversation, %error, "the agent's record does not have the session's new name");
        }
        self.namer.written(conversation, written.is_ok().then_some(title));
    }
}
