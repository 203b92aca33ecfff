//! Receives file events from the operating system, debounces them and reports changes under the path that the client
//! knows. The event queue is bounded; after an overflow one change of the whole directory is reported.

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

/// How long changes are collected.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(50);

/// Maximum number of queued events; after an overflow one change of the whole directory is reported.
const MAX_QUEUED_EVENTS: usize = 8192;

/// Watches until it is dropped.
pub(super) struct FileWatcher {
    _watcher: RecommendedWatcher,
}

/// Receives the changes.
pub(super) struct FileChangeReceiver {
    events: mpsc::Receiver<Event>,
    /// Whether events were lost.
    has_missed_events: Arc<AtomicBool>,
    /// The watched path, with links resolved, and as the client names it.
    real_path: PathBuf,
    client_path: PathBuf,
    /// Whether only one file is watched.
    is_file: bool,
    patterns: WatchPatterns,
    /// Paths that are never reported.
    excluded_paths: Vec<PathBuf>,
}

impl FileWatcher {
    /// Starts to watch a directory or a file. A file is watched through its directory, because editors replace files.
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
        let handle_event = move |event: notify::Result<Event>| {
            let event = event.unwrap_or_else(|_| Event::default().set_flag(notify::event::Flag::Rescan));
            let lost = event.need_rescan();
            if lost || sender.try_send(event).is_err() {
                overflow.store(true, Ordering::Release);
                // Wakes the receiver, so that it sees the flag.
                let _ = sender.try_send(Event::default());
            }
        };
        let mut watcher = RecommendedWatcher::new(handle_event, Config::default().with_follow_symlinks(false))
            .map_err(watch_error)?;
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
    /// Waits for the next changes; never returns an empty list. `None` after the watcher was dropped.
    pub(super) async fn next(&mut self) -> Option<Vec<ResourceChange>> {
        loop {
            let first = self.events.recv().await?;
            tokio::time::sleep(CHANGE_DEBOUNCE).await;
            let mut gathered = ChangeBatch::default();
            self.collect_event(&mut gathered, first);
            // Events that arrive from now on belong to the next batch.
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
            // Joining an empty path would add a slash.
            let reported = if relative.as_os_str().is_empty() {
                self.client_path.clone()
            } else {
                self.client_path.join(relative)
            };
            gathered.add(reported, kind);
        }
    }
}

fn resource_change(path: &Path, kind: ResourceChangeType) -> Option<ResourceChange> {
    Some(ResourceChange { uri: path_to_file_uri(path).ok()?, r#type: kind })
}

/// Kind of the change that an event reports; `None` if another event reports it as well.
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
            FileError::Io(std::io::Error::other("the limit of file watches is reached; watch fewer directories"))
        }
        _ => FileError::Io(std::io::Error::other("the file cannot be watched")),
    }
}
