//! Looking at an archive whenever something changes in it. Where the system does not say so, it is looked at from time to
//! time.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hostler_driver::TranscriptStore;
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::catalog_sync::ScanState;
use super::filter::ExternalSessionFilter;
use crate::actor::SessionHandle;
use crate::clock::ClockExt as _;
use crate::engine::Engine;
use crate::host::Host;

/// How long changes are gathered.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(150);

/// A look takes at most this part of the time, however often something changes.
const SCAN_PAUSE_FACTOR: u32 = 20;

/// But nobody waits longer than this for what has changed.
const MAX_CHANGE_DEBOUNCE: Duration = Duration::from_millis(800);

/// How often an archive is looked at that cannot be watched.
const UNWATCHED_SCAN_INTERVAL: Duration = Duration::from_secs(3);

/// The same where it can: not every file system says what happens in it.
const WATCHED_SCAN_INTERVAL: Duration = Duration::from_secs(15);

/// How long somebody waits for the first look.
const INITIAL_SCAN_TIMEOUT: Duration = Duration::from_secs(5);

/// What those who look share with those who wait for it.
pub(crate) struct ExternalSessionScanner {
    sources: Vec<ScanSource>,
    /// How many archives were never looked at.
    unscanned_sources: watch::Sender<usize>,
    /// Counts the wishes for another look.
    rescan_requests: watch::Sender<u64>,
    filter: Option<ExternalSessionFilter>,
    /// Whoever examines everything does it alone.
    pub(super) check_lock: Mutex<()>,
}

/// One archive.
#[derive(Clone)]
struct ScanSource {
    provider: String,
    transcript_store: Arc<dyn TranscriptStore>,
    /// Looks do not overtake each other.
    scan_state: Arc<Mutex<ScanState>>,
}

impl ExternalSessionScanner {
    pub(crate) fn new(
        archives: impl Iterator<Item = (String, Arc<dyn TranscriptStore>)>,
        filter: Option<ExternalSessionFilter>,
    ) -> Self {
        let place =
            |(provider, archive)| ScanSource { provider, transcript_store: archive, scan_state: Arc::default() };
        let sources: Vec<_> = archives.map(place).collect();
        let (unscanned_sources, rescan_requests) = (watch::Sender::new(sources.len()), watch::Sender::new(0));
        Self { sources, unscanned_sources, rescan_requests, filter, check_lock: Mutex::default() }
    }

    /// What the host's own settings say.
    pub(crate) fn filter(&self) -> Option<ExternalSessionFilter> {
        self.filter
    }

    /// Whether every archive was looked at.
    pub(crate) fn is_initial_scan_complete(&self) -> bool {
        *self.unscanned_sources.borrow() == 0
    }

    /// The archives, and whose they are.
    pub(super) fn transcript_stores(&self) -> impl Iterator<Item = (&str, &Arc<dyn TranscriptStore>)> {
        self.sources.iter().map(|place| (place.provider.as_str(), &place.transcript_store))
    }

    /// Something that the list depends on has changed.
    pub(crate) fn request_rescan(&self) {
        self.rescan_requests.send_modify(|wishes| *wishes += 1);
    }
}

impl Engine {
    /// Whether what the agents keep is in the list.
    pub fn is_initial_scan_complete(&self) -> bool {
        self.host.external_scanner.is_initial_scan_complete()
    }

    /// Waits until what the agents keep is in the list, but not for ever.
    pub async fn wait_for_initial_scan(&self) {
        self.host.wait_for_initial_scan().await;
    }

    /// Looks at the agents' archives now.
    pub async fn scan_external_sessions(&self) {
        for place in &self.host.external_scanner.sources {
            scan_source(place, &Arc::downgrade(&self.host)).await;
        }
    }
}

impl Host {
    /// Waits until every archive was looked at, but not for ever.
    pub(crate) async fn wait_for_initial_scan(&self) {
        let mut unseen = self.external_scanner.unscanned_sources.subscribe();
        if *unseen.borrow() == 0 {
            return;
        }
        let looked = async { drop(unseen.wait_for(|unseen| *unseen == 0).await) };
        tokio::select! {
            looked = self.clock.timeout(INITIAL_SCAN_TIMEOUT, looked) => {
                if looked.is_none() {
                    tracing::warn!("the agents' conversations are not all found yet");
                }
            }
            () = self.stop.cancelled() => {}
        }
    }

    /// A session may be one of those that are about to be found.
    pub(crate) async fn wait_until_session_known(&self, session: &str) {
        if *self.external_scanner.unscanned_sources.borrow() > 0 && !self.sessions().contains(session) {
            self.wait_for_initial_scan().await;
        }
    }

    /// The actor of a session.
    pub(crate) async fn load_session(self: &Arc<Self>, session: &str) -> Option<SessionHandle> {
        self.wait_until_session_known(session).await;
        self.sessions().get_or_load(self, session)
    }

    /// Looks at the archives from now on. Ends with the host.
    pub(crate) fn watch_external_sessions(self: &Arc<Self>) {
        for place in &self.external_scanner.sources {
            let (place, host, stop) = (place.clone(), Arc::downgrade(self), self.stop.clone());
            let wishes = self.external_scanner.rescan_requests.subscribe();
            self.tasks.spawn(async move { stop.run_until_cancelled(watch_source(place, host, wishes)).await });
        }
    }
}

async fn watch_source(place: ScanSource, host: Weak<Host>, mut wishes: watch::Receiver<u64>) {
    let mut listener = TranscriptDirectoryWatcher::new(place.transcript_store.directory());
    let mut first = true;
    loop {
        // Before the look, so that nothing falls between.
        let whole = listener.watch_directories().await;
        let took = scan_source(&place, &host).await;
        let wait = {
            let Some(host) = host.upgrade() else { return };
            if std::mem::take(&mut first) {
                host.external_scanner.unscanned_sources.send_modify(|unseen| *unseen = unseen.saturating_sub(1));
            }
            host.clock.sleep(if whole { WATCHED_SCAN_INTERVAL } else { UNWATCHED_SCAN_INTERVAL })
        };
        tokio::select! {
            () = listener.changed() => tokio::time::sleep((took * SCAN_PAUSE_FACTOR).clamp(CHANGE_DEBOUNCE, MAX_CHANGE_DEBOUNCE)).await,
            changed = wishes.changed() => if changed.is_err() { return },
            () = wait => {}
        }
    }
}

/// Looks, and says how long the archive took for it.
async fn scan_source(place: &ScanSource, host: &Weak<Host>) -> Duration {
    let mut seen = place.scan_state.lock().await;
    let began = Instant::now();
    let found = place.transcript_store.scan().await;
    let took = began.elapsed();
    let Some(host) = host.upgrade() else { return took };
    if !found.unreadable.is_empty() {
        tracing::debug!(files = found.unreadable.len(), "some of the agent's files could not be read");
    }
    host.sync_catalog(&place.provider, &mut seen, found.conversations).await;
    took
}

/// Hears that something has changed in a directory, or in one of those in it.
struct TranscriptDirectoryWatcher {
    directory: PathBuf,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    changes: watch::Receiver<u64>,
}

impl TranscriptDirectoryWatcher {
    fn new(directory: &Path) -> Self {
        let (sender, changes) = watch::channel(0);
        let wanted = directory.to_owned();
        let hear = move |event: notify::Result<Event>| {
            // What could not be heard may have been anything.
            if event.map_or(true, |event| is_relevant_event(&wanted, &event)) {
                sender.send_modify(|changes| *changes += 1);
            }
        };
        let watcher = RecommendedWatcher::new(hear, Config::default().with_follow_symlinks(false));
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "the agent's files cannot be watched")).ok();
        Self { directory: directory.to_owned(), watcher, watched: HashSet::new(), changes }
    }

    /// Listens to every directory that is there now. Says whether that is all.
    async fn watch_directories(&mut self) -> bool {
        let directory = self.directory.clone();
        let wanted = tokio::task::spawn_blocking(move || directories_to_watch(&directory)).await.unwrap_or_default();
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

    async fn changed(&mut self) {
        if self.watcher.is_none() || self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The directories to listen to: the one and those in it, or, where it is not there yet, the one where it will begin.
fn directories_to_watch(directory: &Path) -> HashSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return directory.ancestors().skip(1).find(|path| path.is_dir()).map(Path::to_owned).into_iter().collect();
    };
    let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| entry.path()).chain([directory.to_owned()]).collect()
}

/// Whether an event is about the directory, what is in it, or the way to it.
fn is_relevant_event(directory: &Path, event: &Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.need_rescan() || event.paths.iter().any(|path| path.starts_with(directory) || directory.starts_with(path))
}
