//! Listening to the system: its events, bounded, gathered for a moment, as changes under the name that the client knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ahp_types::state::{ResourceChange, ResourceChangeType};
use hostler_files::{FileError, FileKind, ResolvedFile, is_temp_name, path_to_file_uri};
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::change_batch::ChangeBatch;
use super::patterns::WatchPatterns;

/// How long changes are gathered.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(50);

/// How many events may wait; of more than that only is told that much has changed.
const MAX_QUEUED_EVENTS: usize = 8192;

/// Listens until it is dropped.
pub(super) struct FileWatcher {
    _watcher: RecommendedWatcher,
}

/// What was heard.
pub(super) struct FileChangeReceiver {
    events: mpsc::Receiver<Event>,
    /// Something was not heard.
    has_missed_events: Arc<AtomicBool>,
    /// What is watched, without links and by the client's name.
    real_path: PathBuf,
    client_path: PathBuf,
    /// The only file that is told of.
    is_file: bool,
    patterns: WatchPatterns,
    /// What is never told of.
    excluded_paths: Vec<PathBuf>,
}

impl FileWatcher {
    /// Listens to a directory or a file. A file is listened to in its directory: editors put a new one in its place.
    pub(super) fn start(
        found: &ResolvedFile,
        given: &Path,
        recursive: bool,
        patterns: WatchPatterns,
        except: Vec<PathBuf>,
    ) -> Result<(Self, FileChangeReceiver), FileError> {
        let (sender, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let missed = Arc::new(AtomicBool::new(false));
        let overflow = Arc::clone(&missed);
        let hear = move |event: notify::Result<Event>| {
            let event = event.unwrap_or_else(|_| Event::default().set_flag(notify::event::Flag::Rescan));
            let lost = event.need_rescan();
            if lost || sender.try_send(event).is_err() {
                overflow.store(true, Ordering::Release);
                // Whoever waits for an event has one.
                let _ = sender.try_send(Event::default());
            }
        };
        let mut watcher =
            RecommendedWatcher::new(hear, Config::default().with_follow_symlinks(false)).map_err(watch_error)?;
        let file = found.kind == FileKind::File;
        let place = if file { found.path.parent().unwrap_or(&found.path) } else { &found.path };
        let mode = if recursive && !file { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        watcher.watch(place, mode).map_err(watch_error)?;
        let (real, given) = (found.path.clone(), given.to_owned());
        Ok((
            Self { _watcher: watcher },
            FileChangeReceiver {
                events,
                has_missed_events: missed,
                real_path: real,
                client_path: given,
                is_file: file,
                patterns,
                excluded_paths: except,
            },
        ))
    }
}

impl FileChangeReceiver {
    /// The next changes, never none. `None` when nobody listens any more.
    pub(super) async fn next(&mut self) -> Option<Vec<ResourceChange>> {
        loop {
            let first = self.events.recv().await?;
            tokio::time::sleep(CHANGE_DEBOUNCE).await;
            let mut gathered = ChangeBatch::default();
            self.collect_event(&mut gathered, first);
            // What comes from now on is of the next moment.
            for _ in 0..self.events.len() {
                let Ok(event) = self.events.try_recv() else { break };
                self.collect_event(&mut gathered, event);
            }
            if self.has_missed_events.swap(false, Ordering::AcqRel) {
                gathered.mark_overflowed();
            }
            let changes = match gathered.finish() {
                Some(changes) => changes.into_iter().filter_map(|(path, kind)| resource_change(&path, kind)).collect(),
                None => resource_change(&self.client_path, ResourceChangeType::Updated).into_iter().collect::<Vec<_>>(),
            };
            if !changes.is_empty() {
                return Some(changes);
            }
        }
    }

    fn collect_event(&self, gathered: &mut ChangeBatch, event: Event) {
        let Some(kind) = change_type(&event.kind) else { return };
        for path in event.paths {
            let Ok(relative) = path.strip_prefix(&self.real_path) else { continue };
            let own = path.file_name().is_some_and(is_temp_name);
            let beside = self.is_file && !relative.as_os_str().is_empty();
            if own
                || beside
                || self.excluded_paths.iter().any(|except| path.starts_with(except))
                || !self.patterns.includes_path(relative)
            {
                continue;
            }
            // Joining nothing would add a slash.
            let told = if relative.as_os_str().is_empty() {
                self.client_path.clone()
            } else {
                self.client_path.join(relative)
            };
            gathered.add(told, kind);
        }
    }
}

fn resource_change(path: &Path, kind: ResourceChangeType) -> Option<ResourceChange> {
    Some(ResourceChange { uri: path_to_file_uri(path).ok()?, r#type: kind })
}

/// What an event says about a path; `None` if it says nothing that was not said otherwise.
fn change_type(event: &EventKind) -> Option<ResourceChangeType> {
    match event {
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(ResourceChangeType::Added),
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
            Some(ResourceChangeType::Deleted)
        }
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Modify(_) => Some(ResourceChangeType::Updated),
        EventKind::Any | EventKind::Access(_) | EventKind::Other => None,
    }
}

fn watch_error(error: notify::Error) -> FileError {
    match error.kind {
        notify::ErrorKind::PathNotFound => FileError::NotFound,
        notify::ErrorKind::Io(error) => FileError::Io(error),
        notify::ErrorKind::MaxFilesWatch => {
            FileError::Io(std::io::Error::other("it has no more room for watches; watch fewer directories"))
        }
        _ => FileError::Io(std::io::Error::other("it cannot be watched")),
    }
}
