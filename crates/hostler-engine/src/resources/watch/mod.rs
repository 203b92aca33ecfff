//! Watches: channels that tell what changes in a directory or a file. They live as long as somebody hears them.

mod gather;
mod listen;
mod patterns;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::ResourceWatchChangedAction;
use ahp_types::state::{ResourceChange, ResourceWatchState};
use hostler_files::{Access, FileError};
use hostler_store::{Batch, Durability, Entry};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ResourceError, Resources, Shelf};
use crate::host::Host;
use crate::hub::Subscriber;
use crate::state::ChannelState;
use crate::{EngineError, uri};
use listen::{Heard, Listener};
use patterns::Patterns;

/// How many there may be. Each takes one of the few handles that a system has for this.
const MAX_WATCHES: usize = 64;

/// How long a channel waits for its first subscriber.
const UNHEARD: Duration = Duration::from_secs(30);

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
pub(crate) struct Watches(Mutex<HashMap<Arc<str>, Watch>>);

struct Watch {
    state: Arc<ResourceWatchState>,
    /// What is watched, without links.
    path: PathBuf,
    /// Those who were told of the channel and have yet to subscribe, by number.
    awaited: Vec<u64>,
    next: u64,
    /// Dropped, nothing is listened to any more and the task ends.
    _listener: Listener,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn knows(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// The channel of a watch of the same kind, with one more who is going to subscribe.
    fn same(&self, state: &ResourceWatchState) -> Option<(Arc<str>, u64)> {
        let mut watches = self.lock();
        let (channel, watch) = watches.iter_mut().find(|(_, watch)| *watch.state == *state)?;
        Some((Arc::clone(channel), watch.expect()))
    }

    /// Adds a watch, unless there are too many.
    /// Before the work is done; whoever is faster then gets the last place.
    fn check_room(&self) -> Result<(), ResourceError> {
        is_room(&self.lock())
    }

    fn add(&self, channel: &Arc<str>, mut watch: Watch) -> Result<u64, ResourceError> {
        let mut watches = self.lock();
        is_room(&watches)?;
        let number = watch.expect();
        watches.insert(Arc::clone(channel), watch);
        Ok(number)
    }

    fn state(&self, channel: &str) -> Option<Arc<ResourceWatchState>> {
        self.lock().get(channel).map(|watch| Arc::clone(&watch.state))
    }

    /// Somebody has subscribed.
    fn heard(&self, channel: &str) {
        if let Some(watch) = self.lock().get_mut(channel)
            && !watch.awaited.is_empty()
        {
            watch.awaited.remove(0);
        }
    }

    /// Somebody was told of the channel and did not come.
    fn give_up(&self, channel: &str, number: u64) {
        if let Some(watch) = self.lock().get_mut(channel) {
            watch.awaited.retain(|awaited| *awaited != number);
        }
    }

    fn end(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Ends those that watch such a path, and says which.
    pub(crate) fn end_if(&self, ends: impl Fn(&Path) -> bool) -> Vec<Arc<str>> {
        let ended = |_: &Arc<str>, watch: &mut Watch| ends(&watch.path);
        self.lock().extract_if(ended).map(|(channel, _)| channel).collect()
    }
}

impl Watch {
    fn expect(&mut self) -> u64 {
        self.next += 1;
        self.awaited.push(self.next);
        self.next
    }
}

fn is_room(watches: &HashMap<Arc<str>, Watch>) -> Result<(), ResourceError> {
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
        let patterns = Patterns::read(wish.includes.as_ref(), wish.excludes.as_ref())?;
        let WatchResource { uri, recursive, includes, excludes } = wish;
        let state = Arc::new(ResourceWatchState { root: uri.clone(), recursive, excludes, includes });
        let watches = &self.host.shelf.watches;
        let look = |shelf: &Shelf, path: &Path| Ok((shelf.roots().open(path)?.found().clone(), path.to_owned()));
        let (found, given) = self.act(&uri, Access::Read, look).await?;
        let (channel, number) = match watches.same(&state) {
            Some(same) => same,
            None => {
                let (listener, heard) = {
                    let (found, patterns) = (found.clone(), patterns);
                    watches.check_room()?;
                    let listen = move |shelf: &Shelf, _: &Path| {
                        Listener::start(&found, &given, recursive, patterns, shelf.session_roots.private())
                    };
                    self.act(&uri, Access::Read, listen).await?
                };
                // What was found may have been put away before it was listened to.
                let (again, _) = self.act(&uri, Access::Read, look).await?;
                if again.path != found.path {
                    return Err(ResourceError::of(&uri, Access::Read, FileError::Changed));
                }
                let channel: Arc<str> = format!("{}{}", uri::WATCH, Uuid::new_v4().simple()).into();
                let path = found.path.clone();
                let watch = Watch { state, path: found.path, awaited: Vec::new(), next: 0, _listener: listener };
                let number = watches.add(&channel, watch)?;
                let (resources, name, stop) = (self.clone(), Arc::clone(&channel), self.host.stop.clone());
                self.host.tasks.spawn(async move {
                    stop.run_until_cancelled(resources.tell(&name, path, heard)).await;
                });
                (channel, number)
            }
        };
        self.host.await_subscriber(Arc::clone(&channel), number);
        Ok(channel.to_string())
    }

    /// Tells what is heard, as long as it may be read.
    async fn tell(&self, channel: &Arc<str>, path: PathBuf, mut heard: Heard) {
        while let Some(changes) = heard.next().await {
            let watched = path.clone();
            let allowed = self.blocking(move |shelf| shelf.roots().allow(&watched, Access::Read)).await;
            if !allowed.unwrap_or_default() {
                self.host.shelf.watches.end(channel);
                self.host.hub.close(channel);
                return;
            }
            self.host.tell_changes(channel, changes).await;
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
        let state = self.shelf.watches.state(channel);
        let state = state.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))?;
        self.deliver_snapshot(channel.into(), ChannelState::ResourceWatch(state), subscriber, token).await?;
        // Only now: it would have ended for want of a subscriber.
        self.shelf.watches.heard(channel);
        Ok(())
    }

    /// Ends what nobody hears and nobody is going to.
    pub(crate) fn end_watches(&self) {
        self.shelf.watches.lock().retain(|channel, watch| !watch.awaited.is_empty() || self.hub.is_heard(channel));
    }

    /// Whoever was told of a channel has some time to subscribe to it.
    fn await_subscriber(self: &Arc<Self>, channel: Arc<str>, number: u64) {
        let (host, over) = (Arc::clone(self), self.clock.sleep(UNHEARD));
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if stop.run_until_cancelled(over).await.is_some() {
                host.shelf.watches.give_up(&channel, number);
                host.end_watches();
            }
        });
    }

    /// Numbered like everything else, and never written.
    async fn tell_changes(&self, channel: &Arc<str>, changes: Vec<ResourceChange>) {
        let changes = ResourceWatchChangedAction { changes: json!({"items": changes}) };
        let told = async {
            let entry = Entry::new(Arc::clone(channel), StateAction::ResourceWatchChanged(changes))?;
            self.store.sequencer().submit(Batch::new(None, Durability::Memory).entry(entry)).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "what changed came too late");
        }
    }
}
