//! The children that this process has started itself and will reap itself.
//!
//! A subreaper also gets children that it never started. Those in the host's own session are taken for its own, since
//! everything below a supervisor lives in other sessions; a child that begins a session of its own is registered here.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

static REGISTERED_CHILDREN: Mutex<Option<HashSet<Pid>>> = Mutex::new(None);

/// Starts a child that will call `setsid` (a terminal's shell, for example), so that it is never taken for an orphan of
/// an agent. `start` starts it and gives back its process number; no orphan is looked for meanwhile.
///
/// Children that stay in the host's session need no registration.
pub fn spawn_registered_child<T>(start: impl FnOnce() -> io::Result<(u32, T)>) -> io::Result<RegisteredChild<T>> {
    let mut own = lock();
    let (pid, child) = start()?;
    let pid = Pid::from_raw(pid.cast_signed());
    own.get_or_insert_default().insert(pid);
    Ok(RegisteredChild { child, _registration: Registration { pid } })
}

/// A registered child and what its start gave back. Drop it when the child has been waited for.
#[derive(Debug)]
pub struct RegisteredChild<T> {
    /// What the start gave back.
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

/// The registered children. None is started or forgotten while this is held.
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
