//! Watches: channels that report changes in a directory or a file.
//!
//! A watch is a channel without a journal; clients that watch the same share it, and it ends with its last subscriber.
//! Its queues are bounded; what does not fit is reported as one change of the whole directory.

mod change_batch;
mod file_watcher;
mod patterns;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::ResourceWatchChangedAction;
use ahp_types::state::{ResourceChange, ResourceWatchState};
use hostler_files::{FileAccess, FileError};
use hostler_store::{ActionEntry, Batch, BatchDurability};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ResourceError, ResourceService, Resources};
use crate::clients::broadcaster::Subscriber;
use crate::host::Host;
use crate::sessions::state::ChannelState;
use crate::{EngineError, uri};
use file_watcher::{FileChangeReceiver, FileWatcher};
pub use patterns::WatchPatternError;
use patterns::WatchPatterns;

/// Maximum number of watches. The operating system's watch handles are limited.
const MAX_WATCHES: usize = 64;

/// How long a channel waits for its first subscriber.
const FIRST_SUBSCRIBER_TIMEOUT: Duration = Duration::from_secs(30);

/// What a client requests to watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchResource {
    /// A directory, or one file.
    pub uri: String,
    /// Whether all levels below the directory are watched, not only its entries.
    pub recursive: bool,
    /// Patterns or paths, as `{items}`: only matching paths are reported.
    pub includes: Option<Value>,
    /// Patterns or paths, as `{items}`: matching paths are not reported.
    pub excludes: Option<Value>,
}

/// All watches, by channel.
#[derive(Default)]
pub(crate) struct WatchRegistry(Mutex<HashMap<Arc<str>, ResourceWatch>>);

struct ResourceWatch {
    state: Arc<ResourceWatchState>,
    /// The watched path, with links resolved.
    path: PathBuf,
    /// Clients that received the channel and have not subscribed yet, by number.
    expected_subscribers: Vec<u64>,
    last_subscriber_number: u64,
    /// Dropping it stops the watcher and ends the task.
    _watcher: FileWatcher,
}

impl WatchRegistry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, ResourceWatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// The channel of an equal watch, with one more expected subscriber.
    fn join_existing(&self, state: &ResourceWatchState) -> Option<(Arc<str>, u64)> {
        let mut watches = self.lock();
        let (channel, watch) = watches.iter_mut().find(|(_, watch)| *watch.state == *state)?;
        Some((Arc::clone(channel), watch.expect_subscriber()))
    }

    /// Checks the limit before the watcher is created. The limit is checked again when the watch is added.
    fn check_capacity(&self) -> Result<(), ResourceError> {
        check_watch_count(&self.lock())
    }

    fn add(&self, channel: &Arc<str>, mut watch: ResourceWatch) -> Result<u64, ResourceError> {
        let mut watches = self.lock();
        check_watch_count(&watches)?;
        let number = watch.expect_subscriber();
        watches.insert(Arc::clone(channel), watch);
        Ok(number)
    }

    fn state(&self, channel: &str) -> Option<Arc<ResourceWatchState>> {
        self.lock().get(channel).map(|watch| Arc::clone(&watch.state))
    }

    /// Removes one expected subscriber after a subscription.
    fn mark_subscribed(&self, channel: &str) {
        if let Some(watch) = self.lock().get_mut(channel)
            && !watch.expected_subscribers.is_empty()
        {
            watch.expected_subscribers.remove(0);
        }
    }

    /// Removes an expected subscriber that did not subscribe in time.
    fn forget_expected_subscriber(&self, channel: &str, number: u64) {
        if let Some(watch) = self.lock().get_mut(channel) {
            watch.expected_subscribers.retain(|awaited| *awaited != number);
        }
    }

    fn remove(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Removes watches of matching paths, and returns their channels.
    pub(crate) fn remove_where(&self, ends: impl Fn(&Path) -> bool) -> Vec<Arc<str>> {
        let ended = |_: &Arc<str>, watch: &mut ResourceWatch| ends(&watch.path);
        self.lock().extract_if(ended).map(|(channel, _)| channel).collect()
    }
}

impl ResourceWatch {
    fn expect_subscriber(&mut self) -> u64 {
        self.last_subscriber_number += 1;
        self.expected_subscribers.push(self.last_subscriber_number);
        self.last_subscriber_number
    }
}

fn check_watch_count(watches: &HashMap<Arc<str>, ResourceWatch>) -> Result<(), ResourceError> {
    if watches.len() < MAX_WATCHES {
        return Ok(());
    }
    Err(ResourceError::TooManyWatches { max: MAX_WATCHES })
}

impl Resources {
    /// Watches a directory or a file and returns the channel that reports changes. Equal watches share a channel.
    ///
    /// # Errors
    /// If the path does not exist, may not be read, or too many watches exist.
    pub async fn watch(&self, params: WatchResource) -> Result<String, ResourceError> {
        let patterns = WatchPatterns::parse(params.includes.as_ref(), params.excludes.as_ref())?;
        let WatchResource { uri, recursive, includes, excludes } = params;
        let state = Arc::new(ResourceWatchState { root: uri.clone(), recursive, excludes, includes });
        let watches = &self.host.resources.watches;
        let look = |context: &ResourceService, path: &Path| {
            Ok((context.roots().open(path)?.resolved().clone(), path.to_owned()))
        };
        let (found, given) = self.run_file_operation(&uri, FileAccess::Read, look).await?;
        let (channel, number) = match watches.join_existing(&state) {
            Some(same) => same,
            None => {
                let (listener, changes_receiver) = {
                    let (found, patterns) = (found.clone(), patterns);
                    watches.check_capacity()?;
                    let listen = move |context: &ResourceService, _: &Path| {
                        FileWatcher::start(
                            &found,
                            &given,
                            recursive,
                            patterns,
                            context.session_roots.resolved_private_paths(),
                        )
                    };
                    self.run_file_operation(&uri, FileAccess::Read, listen).await?
                };
                // The path may have been replaced before the watcher started.
                let (again, _) = self.run_file_operation(&uri, FileAccess::Read, look).await?;
                if again.path != found.path {
                    return Err(ResourceError::from_file_error(&uri, FileAccess::Read, FileError::Changed));
                }
                let channel: Arc<str> = format!("{}{}", uri::RESOURCE_WATCH_PREFIX, Uuid::new_v4().simple()).into();
                let path = found.path.clone();
                let watch = ResourceWatch {
                    state,
                    path: found.path,
                    expected_subscribers: Vec::new(),
                    last_subscriber_number: 0,
                    _watcher: listener,
                };
                let number = watches.add(&channel, watch)?;
                let (resources, name) = (self.clone(), Arc::clone(&channel));
                self.host.tasks.spawn_until_stopped(async move {
                    resources.publish_watch(&name, path, changes_receiver).await;
                });
                (channel, number)
            }
        };
        self.host.expire_expected_subscriber(Arc::clone(&channel), number);
        Ok(channel.to_string())
    }

    /// Publishes changes as long as the path may be read.
    async fn publish_watch(&self, channel: &Arc<str>, path: PathBuf, mut changes_receiver: FileChangeReceiver) {
        while let Some(changes) = changes_receiver.next().await {
            let watched = path.clone();
            let allowed =
                self.run_blocking(move |context| context.roots().is_allowed(&watched, FileAccess::Read)).await;
            if !allowed.unwrap_or_default() {
                self.host.resources.watches.remove(channel);
                self.host.publication.close_channel(channel);
                return;
            }
            self.host.publish_changes(channel, changes).await;
        }
    }
}

impl Host {
    pub(crate) async fn subscribe_watch(
        self: &Arc<Self>,
        channel: &str,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let state = self.resources.watches.state(channel);
        let state = state.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))?;
        self.publication
            .deliver_snapshot(channel.into(), ChannelState::ResourceWatch(state), subscriber, token)
            .await?;
        // Only now: before, the watch would have ended for lack of a subscriber.
        self.resources.watches.mark_subscribed(channel);
        Ok(())
    }

    /// Removes watches without a subscriber and without an expected one.
    pub(crate) fn remove_idle_watches(&self) {
        self.resources.watches.lock().retain(|channel, watch| {
            !watch.expected_subscribers.is_empty() || self.publication.has_subscribers(channel)
        });
    }

    /// Limits the time that an expected subscriber has to subscribe.
    fn expire_expected_subscriber(self: &Arc<Self>, channel: Arc<str>, number: u64) {
        let (host, over) = (Arc::clone(self), self.clock.sleep(FIRST_SUBSCRIBER_TIMEOUT));
        self.tasks.spawn_until_stopped(async move {
            over.await;
            host.resources.watches.forget_expected_subscriber(&channel, number);
            host.remove_idle_watches();
        });
    }

    /// Publishes changes: numbered like every action, never journaled.
    async fn publish_changes(&self, channel: &Arc<str>, changes: Vec<ResourceChange>) {
        let changes = ResourceWatchChangedAction { changes: json!({"items": changes}) };
        let published = async {
            let entry = ActionEntry::new(Arc::clone(channel), StateAction::ResourceWatchChanged(changes))?;
            self.publication.submit(Batch::new(None, BatchDurability::Memory).entry(entry)).await
        };
        if let Err(error) = published.await {
            tracing::debug!(%error, "failed to publish file changes: the store has stopped");
        }
    }
}
