//! Watches: channels that tell what changes in a directory or a file. They live as long as somebody hears them.

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

use super::{ResourceContext, ResourceError, Resources};
use crate::broadcaster::Subscriber;
use crate::host::Host;
use crate::state::ChannelState;
use crate::{EngineError, uri};
use file_watcher::{FileChangeReceiver, FileWatcher};
use patterns::WatchPatterns;

/// How many there may be. Each takes one of the few handles that a system has for this.
const MAX_WATCHES: usize = 64;

/// How long a channel waits for its first subscriber.
const FIRST_SUBSCRIBER_TIMEOUT: Duration = Duration::from_secs(30);

/// What is to be watched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchResource {
    /// A directory, or one file.
    pub uri: String,
    /// Whether everything below it is meant, and not only what is in it.
    pub recursive: bool,
    /// Patterns or paths, as `{items}`: only what they match is told.
    pub includes: Option<Value>,
    /// Patterns or paths, as `{items}`: what they match is not told.
    pub excludes: Option<Value>,
}

/// All watches, by channel.
#[derive(Default)]
pub(crate) struct WatchRegistry(Mutex<HashMap<Arc<str>, ResourceWatch>>);

struct ResourceWatch {
    state: Arc<ResourceWatchState>,
    /// What is watched, without links.
    path: PathBuf,
    /// Those who were told of the channel and have yet to subscribe, by number.
    expected_subscribers: Vec<u64>,
    last_subscriber_number: u64,
    /// Dropped, nothing is listened to any more and the task ends.
    _watcher: FileWatcher,
}

impl WatchRegistry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, ResourceWatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// The channel of a watch of the same kind, with one more who is going to subscribe.
    fn join_existing(&self, state: &ResourceWatchState) -> Option<(Arc<str>, u64)> {
        let mut watches = self.lock();
        let (channel, watch) = watches.iter_mut().find(|(_, watch)| *watch.state == *state)?;
        Some((Arc::clone(channel), watch.expect_subscriber()))
    }

    /// Adds a watch, unless there are too many.
    /// Before the work is done; whoever is faster then gets the last place.
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

    /// Somebody has subscribed.
    fn mark_subscribed(&self, channel: &str) {
        if let Some(watch) = self.lock().get_mut(channel)
            && !watch.expected_subscribers.is_empty()
        {
            watch.expected_subscribers.remove(0);
        }
    }

    /// Somebody was told of the channel and did not come.
    fn forget_expected_subscriber(&self, channel: &str, number: u64) {
        if let Some(watch) = self.lock().get_mut(channel) {
            watch.expected_subscribers.retain(|awaited| *awaited != number);
        }
    }

    fn remove(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Ends those that watch such a path, and says which.
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
    Err(ResourceError::TooMany("there are as many watches as there may be; unsubscribe from some"))
}

impl Resources {
    /// Watches a directory or a file. The channel tells what changes; there is one for all who watch the same.
    ///
    /// # Errors
    /// If there is nothing, if it may not be read, or if too much is watched already.
    pub async fn watch(&self, wish: WatchResource) -> Result<String, ResourceError> {
        let patterns = WatchPatterns::parse(wish.includes.as_ref(), wish.excludes.as_ref())?;
        let WatchResource { uri, recursive, includes, excludes } = wish;
        let state = Arc::new(ResourceWatchState { root: uri.clone(), recursive, excludes, includes });
        let watches = &self.host.resources.watches;
        let look =
            |shelf: &ResourceContext, path: &Path| Ok((shelf.roots().open(path)?.resolved().clone(), path.to_owned()));
        let (found, given) = self.run_file_operation(&uri, FileAccess::Read, look).await?;
        let (channel, number) = match watches.join_existing(&state) {
            Some(same) => same,
            None => {
                let (listener, heard) = {
                    let (found, patterns) = (found.clone(), patterns);
                    watches.check_capacity()?;
                    let listen = move |shelf: &ResourceContext, _: &Path| {
                        FileWatcher::start(
                            &found,
                            &given,
                            recursive,
                            patterns,
                            shelf.session_roots.resolved_private_paths(),
                        )
                    };
                    self.run_file_operation(&uri, FileAccess::Read, listen).await?
                };
                // What was found may have been put away before it was listened to.
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
                let (resources, name, stop) = (self.clone(), Arc::clone(&channel), self.host.stop.clone());
                self.host.tasks.spawn(async move {
                    stop.run_until_cancelled(resources.publish_watch(&name, path, heard)).await;
                });
                (channel, number)
            }
        };
        self.host.expire_expected_subscriber(Arc::clone(&channel), number);
        Ok(channel.to_string())
    }

    /// Tells what is heard, as long as it may be read.
    async fn publish_watch(&self, channel: &Arc<str>, path: PathBuf, mut heard: FileChangeReceiver) {
        while let Some(changes) = heard.next().await {
            let watched = path.clone();
            let allowed = self.run_blocking(move |shelf| shelf.roots().is_allowed(&watched, FileAccess::Read)).await;
            if !allowed.unwrap_or_default() {
                self.host.resources.watches.remove(channel);
                self.host.broadcaster.close_channel(channel);
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
        self.deliver_snapshot(channel.into(), ChannelState::ResourceWatch(state), subscriber, token).await?;
        // Only now: it would have ended for want of a subscriber.
        self.resources.watches.mark_subscribed(channel);
        Ok(())
    }

    /// Ends what nobody hears and nobody is going to.
    pub(crate) fn remove_idle_watches(&self) {
        self.resources.watches.lock().retain(|channel, watch| {
            !watch.expected_subscribers.is_empty() || self.broadcaster.has_subscribers(channel)
        });
    }

    /// Whoever was told of a channel has some time to subscribe to it.
    fn expire_expected_subscriber(self: &Arc<Self>, channel: Arc<str>, number: u64) {
        let (host, over) = (Arc::clone(self), self.clock.sleep(FIRST_SUBSCRIBER_TIMEOUT));
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if stop.run_until_cancelled(over).await.is_some() {
                host.resources.watches.forget_expected_subscriber(&channel, number);
                host.remove_idle_watches();
            }
        });
    }

    /// Numbered like everything else, and never written.
    async fn publish_changes(&self, channel: &Arc<str>, changes: Vec<ResourceChange>) {
        let changes = ResourceWatchChangedAction { changes: json!({"items": changes}) };
        let told = async {
            let entry = ActionEntry::new(Arc::clone(channel), StateAction::ResourceWatchChanged(changes))?;
            self.store.sequencer().submit(Batch::new(None, BatchDurability::Memory).entry(entry)).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "what changed came too late");
        }
    }
}
