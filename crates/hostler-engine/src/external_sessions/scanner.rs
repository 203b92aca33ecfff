//! Scans transcript stores whenever they change, and periodically, because not every file system reports changes.

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
use crate::clock::ClockExt as _;
use crate::engine::Engine;
use crate::host::Host;
use crate::sessions::actor::SessionHandle;

/// Minimum delay between a change and its scan.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(150);

/// The delay before a scan is this multiple of the last scan's duration, within the minimum and the maximum.
const SCAN_PAUSE_FACTOR: u32 = 20;

/// Maximum delay between a change and its scan.
const MAX_CHANGE_DEBOUNCE: Duration = Duration::from_millis(800);

/// Scan interval of a store that cannot be watched.
const UNWATCHED_SCAN_INTERVAL: Duration = Duration::from_secs(3);

/// Scan interval of a watched store: not every file system reports all changes.
const WATCHED_SCAN_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum time that a request waits for the initial scan.
const INITIAL_SCAN_TIMEOUT: Duration = Duration::from_secs(5);

/// State shared by the scanning tasks and the requests that wait for them.
pub(crate) struct ExternalSessionScanner {
    sources: Vec<ScanSource>,
    /// Number of stores without a completed scan.
    unscanned_sources: watch::Sender<usize>,
    /// Counts requests for another scan.
    rescan_requests: watch::Sender<u64>,
    filter: Option<ExternalSessionFilter>,
    /// Ensures that one transcript check runs at a time.
    pub(super) check_lock: Mutex<()>,
}

/// One transcript store.
#[derive(Clone)]
struct ScanSource {
    provider: String,
    transcript_store: Arc<dyn TranscriptStore>,
    /// Locked during a scan, so that scans do not overlap.
    scan_state: Arc<Mutex<ScanState>>,
}

impl ExternalSessionScanner {
    pub(crate) fn new(
        transcript_stores: impl Iterator<Item = (String, Arc<dyn TranscriptStore>)>,
        filter: Option<ExternalSessionFilter>,
    ) -> Self {
        let place =
            |(provider, transcript_store)| ScanSource { provider, transcript_store, scan_state: Arc::default() };
        let sources: Vec<_> = transcript_stores.map(place).collect();
        let (unscanned_sources, rescan_requests) = (watch::Sender::new(sources.len()), watch::Sender::new(0));
        Self { sources, unscanned_sources, rescan_requests, filter, check_lock: Mutex::default() }
    }

    /// The filter of the host's own settings.
    pub(crate) fn filter(&self) -> Option<ExternalSessionFilter> {
        self.filter
    }

    /// Whether every store was scanned.
    pub(crate) fn is_initial_scan_complete(&self) -> bool {
        *self.unscanned_sources.borrow() == 0
    }

    /// The transcript stores, by provider.
    pub(super) fn transcript_stores(&self) -> impl Iterator<Item = (&str, &Arc<dyn TranscriptStore>)> {
        self.sources.iter().map(|place| (place.provider.as_str(), &place.transcript_store))
    }

    /// Requests a scan after a change that affects the list.
    pub(crate) fn request_rescan(&self) {
        self.rescan_requests.send_modify(|requests| *requests += 1);
    }
}

impl Engine {
    /// Whether the external sessions are listed.
    pub fn is_initial_scan_complete(&self) -> bool {
        self.host.external.is_initial_scan_complete()
    }

    /// Waits until the external sessions are listed, within a time limit.
    pub async fn wait_for_initial_scan(&self) {
        self.host.wait_for_initial_scan().await;
    }

    /// Scans all transcript stores now.
    pub async fn scan_external_sessions(&self) {
        for place in &self.host.external.scanner.sources {
            scan_source(place, &Arc::downgrade(&self.host)).await;
        }
    }
}

impl Host {
    /// Waits until every store was scanned, within a time limit.
    pub(crate) async fn wait_for_initial_scan(&self) {
        let mut unseen = self.external.scanner.unscanned_sources.subscribe();
        if *unseen.borrow() == 0 {
            return;
        }
        let looked = async { drop(unseen.wait_for(|unseen| *unseen == 0).await) };
        tokio::select! {
            looked = self.clock.timeout(INITIAL_SCAN_TIMEOUT, looked) => {
                if looked.is_none() {
                    tracing::warn!("scan of external sessions is not complete");
                }
            }
            () = self.tasks.stopped() => {}
        }
    }

    /// Waits for the initial scan if a session is unknown, because the scan may find it.
    pub(crate) async fn wait_until_session_known(&self, session: &str) {
        if *self.external.scanner.unscanned_sources.borrow() > 0 && !self.catalog.sessions().contains(session) {
            self.wait_for_initial_scan().await;
        }
    }

    /// The actor of a session, loaded if necessary.
    pub(crate) async fn load_session(self: &Arc<Self>, session: &str) -> Option<SessionHandle> {
        self.wait_until_session_known(session).await;
        self.catalog.sessions().get_or_load(self, session)
    }

    /// Starts the scanning tasks. They end with the host.
    pub(crate) fn watch_external_sessions(self: &Arc<Self>) {
        for place in &self.external.scanner.sources {
            let (place, host) = (place.clone(), Arc::downgrade(self));
            let requests = self.external.scanner.rescan_requests.subscribe();
            self.tasks.spawn_until_stopped(watch_source(place, host, requests));
        }
    }
}

async fn watch_source(place: ScanSource, host: Weak<Host>, mut requests: watch::Receiver<u64>) {
    let mut listener = TranscriptDirectoryWatcher::new(place.transcript_store.directory());
    let mut first = true;
    loop {
        // Watched before the scan, so that no change is missed in between.
        let whole = listener.watch_directories().await;
        let took = scan_source(&place, &host).await;
        let wait = {
            let Some(host) = host.upgrade() else { return };
            if std::mem::take(&mut first) {
                host.external.scanner.unscanned_sources.send_modify(|unseen| *unseen = unseen.saturating_sub(1));
            }
            host.clock.sleep(if whole { WATCHED_SCAN_INTERVAL } else { UNWATCHED_SCAN_INTERVAL })
        };
        tokio::select! {
            () = listener.changed() => tokio::time::sleep((took * SCAN_PAUSE_FACTOR).clamp(CHANGE_DEBOUNCE, MAX_CHANGE_DEBOUNCE)).await,
            changed = requests.changed() => if changed.is_err() { return },
            () = wait => {}
        }
    }
}

/// Scans a store, and returns the duration.
async fn scan_source(place: &ScanSource, host: &Weak<Host>) -> Duration {
    let mut seen = place.scan_state.lock().await;
    let began = Instant::now();
    let found = place.transcript_store.scan().await;
    let took = began.elapsed();
    let Some(host) = host.upgrade() else { return took };
    if !found.unreadable.is_empty() {
        tracing::debug!(files = found.unreadable.len(), "failed to read some transcripts");
    }
    host.sync_catalog(&place.provider, &mut seen, found.conversations).await;
    took
}

/// Watches a directory and its subdirectories for changes.
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
        let handle_event = move |event: notify::Result<Event>| {
            // A failed event may have been any change.
            if event.map_or(true, |event| is_relevant_event(&wanted, &event)) {
                sender.send_modify(|changes| *changes += 1);
            }
        };
        let watcher = RecommendedWatcher::new(handle_event, Config::default().with_follow_symlinks(false));
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "failed to watch transcripts")).ok();
        Self { directory: directory.to_owned(), watcher, watched: HashSet::new(), changes }
    }

    /// Watches every directory that exists now. Returns whether all could be watched.
    async fn watch_directories(&mut self) -> bool {
        let directory = self.directory.clone();
        let wanted = tokio::task::spawn_blocking(move || directories_to_watch(&directory)).await.unwrap_or_default();
        let Some(watcher) = &mut self.watcher else { return false };
        for gone in self.watched.extract_if(|path| !wanted.contains(path)) {
            // A removed directory is no longer watched anyway.
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
                    tracing::debug!(%error, "failed to watch a transcript directory");
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

/// The directories to watch: the directory and its subdirectories or, if it does not exist yet, its nearest existing
/// ancestor.
fn directories_to_watch(directory: &Path) -> HashSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return directory.ancestors().skip(1).find(|path| path.is_dir()).map(Path::to_owned).into_iter().collect();
    };
    let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.map(|entry| entry.path()).chain([directory.to_owned()]).collect()
}

/// Whether an event concerns the directory, its contents, or its ancestors.
fn is_relevant_event(directory: &Path, event: &Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.need_rescan() || event.paths.iter().any(|path| path.starts_with(directory) || directory.starts_with(path))
}
