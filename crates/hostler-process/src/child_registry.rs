//! Registry of children that the host starts in a session of their own and reaps itself.
//!
//! A subreaper also becomes the parent of processes that it never started. Children in the host's own session count
//! as its own, because everything below a supervisor runs in other sessions; a child that starts a session of its own
//! is registered here.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

static REGISTERED_CHILDREN: Mutex<Option<HashSet<Pid>>> = Mutex::new(None);

/// Starts a child that calls `setsid` (a terminal's shell, for example) and registers it, so that it is never
/// mistaken for an orphan of an agent. `start` starts it and returns its pid; no orphan is collected meanwhile.
///
/// Children that stay in the host's session need no registration.
pub fn spawn_registered_child<T>(start: impl FnOnce() -> io::Result<(u32, T)>) -> io::Result<RegisteredChild<T>> {
    let mut own = lock();
    let (pid, child) = start()?;
    let pid = Pid::from_raw(pid.cast_signed());
    own.get_or_insert_default().insert(pid);
    Ok(RegisteredChild { child, _registration: Registration { pid } })
}

/// A registered child and the value that `start` returned. Drop it after the child has been waited for.
#[derive(Debug)]
pub struct RegisteredChild<T> {
    /// The value that `start` returned.
    pub child: T,
    _registration: Registration,
}

#[derive(Debug)]
struct Registration {
    pid: Pid,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(own) = lock().as_mut() {
            own.remove(&self.pid);
        }
    }
}

/// The registered children. While this is held, none is added or removed.
pub(crate) struct RegisteredChildren(MutexGuard<'static, Option<HashSet<Pid>>>);

impl RegisteredChildren {
    pub(crate) fn lock() -> Self {
        Self(lock())
    }

    pub(crate) fn contains(&self, pid: Pid) -> bool {
        self.0.as_ref().is_some_and(|own| own.contains(&pid))
    }
}

fn lock() -> MutexGuard<'static, Option<HashSet<Pid>>> {
    REGISTERED_CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}
