//! Looking at an archive whenever something changes in it. Where the system does not say so, it is looked at from time to
//! time.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hostler_driver::Archive;
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::list::Seen;
use super::show::ShowExternal;
use crate::actor::SessionHandle;
use crate::clock::ClockExt as _;
use crate::engine::Engine;
use crate::host::Host;

/// How long changes are gathered.
const MOMENT: Duration = Duration::from_millis(150);

/// A look takes at most this part of the time, however often something changes.
const SHARE: u32 = 20;

/// But nobody waits longer than this for what has changed.
const LONG: Duration = Duration::from_millis(800);

/// How often an archive is looked at that cannot be watched.
const POLL: Duration = Duration::from_secs(3);

/// The same where it can: not every file system says what happens in it.
const SLOW_POLL: Duration = Duration::from_secs(15);

/// How long somebody waits for the first look.
const PATIENCE: Duration = Duration::from_secs(5);

/// What those who look share with those who wait for it.
pub(crate) struct Finder {
    archives: Vec<Place>,
    /// How many archives were never looked at.
    unseen: watch::Sender<usize>,
    /// Counts the wishes for another look.
    wishes: watch::Sender<u64>,
    show: Option<ShowExternal>,
    /// Whoever examines everything does it alone.
    pub(super) examining: Mutex<()>,
}

/// One archive.
#[derive(Clone)]
struct Place {
    provider: String,
    archive: Arc<dyn Archive>,
    /// Looks do not overtake each other.
    seen: Arc<Mutex<Seen>>,
}

impl Finder {
    pub(crate) fn new(archives: impl Iterator<Item = (String, Arc<dyn Archive>)>, show: Option<ShowExternal>) -> Self {
        let place = |(provider, archive)| Place { provider, archive, seen: Arc::default() };
        let archives: Vec<_> = archives.map(place).collect();
        let (unseen, wishes) = (watch::Sender::new(archives.len()), watch::Sender::new(0));
        Self { archives, unseen, wishes, show, examining: Mutex::default() }
    }

    /// What the host's own settings say.
    pub(crate) fn show(&self) -> Option<ShowExternal> {
        self.show
    }

    /// Whether every archive was looked at.
    pub(crate) fn has_looked(&self) -> bool {
        *self.unseen.borrow() == 0
    }

    /// The archives, and whose they are.
    pub(super) fn archives(&self) -> impl Iterator<Item = (&str, &Arc<dyn Archive>)> {
        self.archives.iter().map(|place| (place.provider.as_str(), &place.archive))
    }

    /// Something that the list depends on has changed.
    pub(crate) fn look_again(&self) {
        self.wishes.send_modify(|wishes| *wishes += 1);
    }
}

impl Engine {
    /// Whether what the agents keep is in the list.
    pub fn are_sessions_found(&self) -> bool {
        self.host.finder.has_looked()
    }

    /// Waits until what the agents keep is in the list, but not for ever.
    pub async fn sessions_are_found(&self) {
        self.host.sessions_are_found().await;
    }

    /// Looks at the agents' archives now.
    pub async fn look_at_archives(&self) {
        for place in &self.host.finder.archives {
            look(place, &Arc::downgrade(&self.host)).await;
        }
    }
}

impl Host {
    /// Waits until every archive was looked at, but not for ever.
    pub(crate) async fn sessions_are_found(&self) {
        let mut unseen = self.finder.unseen.subscribe();
        if *unseen.borrow() == 0 {
            return;
        }
        let looked = async { drop(unseen.wait_for(|unseen| *unseen == 0).await) };
        tokio::select! {
            looked = self.clock.timeout(PATIENCE, looked) => {
                if looked.is_none() {
                    tracing::warn!("the agents' conversations are not all found yet");
                }
            }
            () = self.stop.cancelled() => {}
        }
    }

    /// A session may be one of those that are about to be found.
    pub(crate) async fn is_known_soon(&self, session: &str) {
        if *self.finder.unseen.borrow() > 0 && !self.sessions().knows(session) {
            self.sessions_are_found().await;
        }
    }

    /// The actor of a session.
    pub(crate) async fn waken(self: &Arc<Self>, session: &str) -> Option<SessionHandle> {
        self.is_known_soon(session).await;
        self.sessions().wake(self, session)
    }

    /// Looks at the archives from now on. Ends with the host.
    pub(crate) fn watch_archives(self: &Arc<Self>) {
        for place in &self.finder.archives {
            let (place, host, stop) = (place.clone(), Arc::downgrade(self), self.stop.clone());
            let wishes = self.finder.wishes.subscribe();
            self.tasks.spawn(async move { stop.run_until_cancelled(follow(place, host, wishes)).await });
        }
    }
}

async fn follow(place: Place, host: Weak<Host>, mut wishes: watch::Receiver<u64>) {
    let mut listener = Listener::new(place.archive.directory());
    let mut first = true;
    loop {
        // Before the look, so that nothing falls between.
        let whole = listener.listen().await;
        let took = look(&place, &host).await;
        let wait = {
            let Some(host) = host.upgrade() else { return };
            if std::mem::take(&mut first) {
                host.finder.unseen.send_modify(|unseen| *unseen = unseen.saturating_sub(1));
            }
            host.clock.sleep(if whole { SLOW_POLL } else { POLL })
        };
        tokio::select! {
            () = listener.heard() => tokio::time::sleep((took * SHARE).clamp(MOMENT, LONG)).await,
            changed = wishes.changed() => if changed.is_err() { return },
            () = wait => {}
        }
    }
}

/// Looks, and says how long the archive took for it.
async fn look(place: &Place, host: &Weak<Host>) -> Duration {
    let mut seen = place.seen.lock().await;
    let began = Instant::now();
    let found = place.archive.look().await;
    let took = began.elapsed();
    let Some(host) = host.upgrade() else { return took };
    if !found.unreadable.is_empty() {
        tracing::debug!(files = found.unreadable.len(), "some of the agent's files could not be read");
    }
    host.compare(&place.provider, &mut seen, found.conversations).await;
    took
}

/// Hears that something has changed in a directory, or in one of those in it.
struct Listener {
    directory: PathBuf,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    changes: watch::Receiver<u64>,
}

impl Listener {
    fn new(directory: &Path) -> Self {
        let (sender, changes) = watch::channel(0);
        let wanted = directory.to_owned();
        let hear = move |event: notify::Result<Event>| {
            // What could not be heard may have been anything.
            if event.map_or(true, |event| is_news(&wanted, &event)) {
                sender.send_modify(|changes| *changes += 1);
            }
        };
        let watcher = RecommendedWatcher::new(hear, Config::default().with_follow_symlinks(false));
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "the agent's files cannot be watched")).ok();
        Self { directory: directory.to_owned(), watcher, watched: HashSet::new(), changes }
    }

    /// Listens to every directory that is there now. Says whether that is all.
    async fn listen(&mut self) -> bool {
        let directory = self.directory.clone();
        let wanted = tokio::task::spawn_blocking(move || places(&directory)).await.unwrap_or_default();
        let Some(watcher) = &mut self.watcher else { return false };
        for gone in self.watched.extract_if(|path| !wanted.contains(path)) {
            // What is removed is not watched any more anyway.
            let _ = watcher.unwatch(&gone);
        }
        let mut whole = true;
        for path in wanted {
            if self.watched.contains(&path) {
                continue;
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(path)),
                Err(error) => {
                    tracing::debug!(%error, "a directory of the agent cannot be watched");
                    whole = false;
                }
            }
        }
        whole
    }

    async fn heard(&mut self) {
        if self.watcher.is_none() || self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The directories to listen to: the one and those in it, or, where it is not there yet, the one where it will begin.
fn places(directory: &Path) -> HashSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return directory.ancestors().skip(1).find(|path| path.is_dir()).map(Path::to_owned).into_iter().collect();
    };
    let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| entry.path()).chain([directory.to_owned()]).collect()
}

/// Whether an event is about the directory, what is in it, or the way to it.
fn is_news(directory: &Path, event: &Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.need_rescan() || event.paths.iter().any(|path| path.starts_with(directory) || directory.starts_with(path))
}
