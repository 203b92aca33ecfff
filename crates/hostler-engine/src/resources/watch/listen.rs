//! Listening to the system: its events, bounded, gathered for a moment, as changes under the name that the client knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ahp_types::state::{ResourceChange, ResourceChangeType};
use hostler_files::{FileError, FileKind, Found, is_fresh, uri_of};
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::gather::Gathered;
use super::patterns::Patterns;

/// How long changes are gathered.
const MOMENT: Duration = Duration::from_millis(50);

/// How many events may wait; of more than that only is told that much has changed.
const MAX_EVENTS: usize = 8192;

/// Listens until it is dropped.
pub(super) struct Listener {
    _watcher: RecommendedWatcher,
}

/// What was heard.
pub(super) struct Heard {
    events: mpsc::Receiver<Event>,
    /// Something was not heard.
    missed: Arc<AtomicBool>,
    /// What is watched, without links and by the client's name.
    real: PathBuf,
    given: PathBuf,
    /// The only file that is told of.
    file: bool,
    patterns: Patterns,
    /// What is never told of.
    except: Vec<PathBuf>,
}

impl Listener {
    /// Listens to a directory or a file. A file is listened to in its directory: editors put a new one in its place.
    pub(super) fn start(
        found: &Found,
        given: &Path,
        recursive: bool,
        patterns: Patterns,
        except: Vec<PathBuf>,
    ) -> Result<(Self, Heard), FileError> {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
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
            RecommendedWatcher::new(hear, Config::default().with_follow_symlinks(false)).map_err(refused)?;
        let file = found.kind == FileKind::File;
        let place = if file { found.path.parent().unwrap_or(&found.path) } else { &found.path };
        let mode = if recursive && !file { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        watcher.watch(place, mode).map_err(refused)?;
        let (real, given) = (found.path.clone(), given.to_owned());
        Ok((Self { _watcher: watcher }, Heard { events, missed, real, given, file, patterns, except }))
    }
}

impl Heard {
    /// The next changes, never none. `None` when nobody listens any more.
    pub(super) async fn next(&mut self) -> Option<Vec<ResourceChange>> {
        loop {
            let first = self.events.recv().await?;
            tokio::time::sleep(MOMENT).await;
            let mut gathered = Gathered::default();
            self.gather(&mut gathered, first);
            // What comes from now on is of the next moment.
            for _ in 0..self.events.len() {
                let Ok(event) = self.events.try_recv() else { break };
                self.gather(&mut gathered, event);
            }
            if self.missed.swap(false, Ordering::AcqRel) {
                gathered.flood();
            }
            let changes = match gathered.finish() {
                Some(changes) => changes.into_iter().filter_map(|(path, kind)| change(&path, kind)).collect(),
                None => change(&self.given, ResourceChangeType::Updated).into_iter().collect::<Vec<_>>(),
            };
            if !changes.is_empty() {
                return Some(changes);
            }
        }
    }

    fn gather(&self, gathered: &mut Gathered, event: Event) {
        let Some(kind) = kind(&event.kind) else { return };
        for path in event.paths {
            let Ok(relative) = path.strip_prefix(&self.real) else { continue };
            let own = path.file_name().is_some_and(is_fresh);
            let beside = self.file && !relative.as_os_str().is_empty();
            if own
                || beside
                || self.except.iter().any(|except| path.starts_with(except))
                || !self.patterns.tell(relative)
            {
                continue;
            }
            // Joining nothing would add a slash.
            let told = if relative.as_os_str().is_empty() { self.given.clone() } else { self.given.join(relative) };
            gathered.add(told, kind);
        }
    }
}

fn change(path: &Path, kind: ResourceChangeType) -> Option<ResourceChange> {
    Some(ResourceChange { uri: uri_of(path).ok()?, r#type: kind })
}

/// What an event says about a path; `None` if it says nothing that was not said otherwise.
fn kind(event: &EventKind) -> Option<ResourceChangeType> {
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

fn refused(error: notify::Error) -> FileError {
    match error.kind {
        notify::ErrorKind::PathNotFound => FileError::NotFound,
        notify::ErrorKind::Io(error) => FileError::Io(error),
        notify::ErrorKind::MaxFilesWatch => {
            FileError::Io(std::io::Error::other("it has no more room for watches; watch fewer directories"))
        }
        _ => FileError::Io(std::io::Error::other("it cannot be watched")),
    }
}
