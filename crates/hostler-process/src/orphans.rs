//! The host as a subreaper: it adopts and reaps the processes of a supervisor that was killed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::child_registry::RegisteredChildren;
use crate::{file_limit, platform, signals};

static IS_HOST: AtomicBool = AtomicBool::new(false);

static REAPER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

const MIN_KILL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(200);

/// Makes the calling process a host: orphans of its agents become its children, no other process can read its
/// environment, and its limit of open files is the system's maximum. Does nothing where the system does not support
/// it.
pub fn become_host() -> io::Result<()> {
    signals::restore_default_sigchld()?;
    platform::become_subreaper()?;
    platform::hide_memory()?;
    if let Err(error) = file_limit::raise_soft_limit() {
        tracing::warn!(%error, "failed to raise the limit of open files");
    }
    IS_HOST.store(true, Ordering::Relaxed);
    Ok(())
}

/// Hides the calling process's memory and environment from other programs of the user. Does nothing where the system
/// does not support it.
pub fn hide_memory() -> io::Result<()> {
    platform::hide_memory()
}

/// Kills and reaps every orphan with its descendants; returns when there is none.
///
/// Called after a dead supervisor has been reaped: its children are the host's by then. Orphans of another dead
/// supervisor are not distinguished; they have to end as well.
pub(crate) async fn kill_orphans() {
    let mut repeat = MIN_KILL_INTERVAL;
    while let Ok(found @ 1..) = tokio::task::spawn_blocking(kill_adopted).await {
        tracing::debug!(found, "killed orphans of a supervisor that died");
        tokio::time::sleep(repeat).await;
        repeat = (repeat * 2).min(MAX_KILL_INTERVAL);
    }
}

/// Starts a task on the current runtime that reaps adopted children when they exit. Other children are left to the
/// code that waits for them.
pub(crate) fn ensure_reaper_running() {
    if !IS_HOST.load(Ordering::Relaxed) {
        return;
    }
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    // The task ends with its runtime.
    if reaper.as_ref().is_none_or(JoinHandle::is_finished) {
        *reaper = Some(tokio::spawn(run_reaper()));
    }
}

async fn run_reaper() {
    let Ok(mut ends) = signal(SignalKind::child()) else {
        tracing::warn!("orphans of agents will not be reaped: this runtime has no signals");
        return;
    };
    loop {
        // Usually the child is one that other code waits for, and the expensive listing is not needed.
        if platform::has_exited_child() && tokio::task::spawn_blocking(reap_adopted).await.is_err() {
            return;
        }
        if ends.recv().await.is_none() {
            return;
        }
    }
}

/// Kills all orphans; returns how many there were.
fn kill_adopted() -> usize {
    let own = RegisteredChildren::lock();
    let adopted = platform::adopted_children(|pid| own.contains(pid));
    for orphan in &adopted {
        for pid in orphan.descendants.iter().chain([&orphan.pid]) {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        let _ = waitpid(orphan.pid, Some(WaitPidFlag::WNOHANG));
    }
    adopted.len()
}

fn reap_adopted() {
    let own = RegisteredChildren::lock();
    for orphan in platform::adopted_children(|pid| own.contains(pid)) {
        let _ = waitpid(orphan.pid, Some(WaitPidFlag::WNOHANG));
    }
}
