//! A client's wishes in their order, although some take long.
//!
//! A wish whose message has attachments is prepared first, in a task of the lane; what the client wants next waits behind
//! it. A wish that meets nobody goes directly, and never comes near the preparation. What was received is finished even if
//! the connection ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hostler_engine::{Dispatch, Engine};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::files::ClientFiles;

/// How many wishes of one client may wait.
const MAX_WISHES: usize = 64;

/// How many bytes of frames may wait, beyond the first one.
const MAX_BYTES: usize = 128 * 1024 * 1024;

const FULL: &str = "too much of this client waits behind its attachments; send it again when they are through";

/// A client's wish, and the surface's own word on it.
struct Wish {
    dispatch: Dispatch,
    /// Why it is refused.
    refused: Option<String>,
    /// The size of its frame.
    size: usize,
}

/// What is under way.
#[derive(Default)]
struct Load {
    wishes: AtomicUsize,
    bytes: AtomicUsize,
}

/// One connection's lane.
pub(crate) struct Lane {
    engine: Engine,
    tasks: TaskTracker,
    files: ClientFiles,
    load: Arc<Load>,
    /// To the task that prepares; there is none before the first message with attachments.
    behind: OnceLock<mpsc::Sender<Wish>>,
}

impl Lane {
    pub(crate) fn new(engine: Engine, tasks: TaskTracker, files: ClientFiles) -> Self {
        Self { engine, tasks, files, load: Arc::default(), behind: OnceLock::new() }
    }

    /// Carries out a wish, or its refusal, after those that came before it.
    pub(crate) async fn take(&self, dispatch: Dispatch, refused: Option<String>, size: usize) {
        let waiting = self.load.wishes.load(Ordering::Acquire);
        let needs = refused.is_none() && dispatch.carries_attachments();
        let wish = Wish { dispatch, refused, size };
        if waiting == 0 && !needs {
            return direct(&self.engine, wish).await;
        }
        let too_much = waiting > 0 && self.load.bytes.load(Ordering::Acquire).saturating_add(size) > MAX_BYTES;
        if waiting >= MAX_WISHES || too_much {
            return self.engine.reject(wish.dispatch, FULL.to_owned()).await;
        }
        self.load.wishes.fetch_add(1, Ordering::AcqRel);
        self.load.bytes.fetch_add(size, Ordering::AcqRel);
        let behind = self.behind.get_or_init(|| self.begin());
        // There is a place for each of them, and the task lives as long as this.
        if let Err(mpsc::error::TrySendError::Full(wish) | mpsc::error::TrySendError::Closed(wish)) =
            behind.try_send(wish)
        {
            self.load.done(wish.size);
            self.engine.reject(wish.dispatch, FULL.to_owned()).await;
        }
    }

    fn begin(&self) -> mpsc::Sender<Wish> {
        let (sender, mut wishes) = mpsc::channel::<Wish>(MAX_WISHES);
        let (engine, files, load) = (self.engine.clone(), self.files.clone(), Arc::clone(&self.load));
        self.tasks.spawn(async move {
            while let Some(wish) = wishes.recv().await {
                let size = wish.size;
                if wish.refused.is_none() && wish.dispatch.carries_attachments() {
                    engine.dispatch_attached(wish.dispatch, &files).await;
                } else {
                    direct(&engine, wish).await;
                }
                load.done(size);
            }
        });
        sender
    }
}

impl Load {
    fn done(&self, size: usize) {
        self.bytes.fetch_sub(size, Ordering::AcqRel);
        self.wishes.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn direct(engine: &Engine, wish: Wish) {
    match wish.refused {
        None => engine.dispatch(wish.dispatch).await,
        Some(reason) => engine.reject(wish.dispatch, reason).await,
    }
}
