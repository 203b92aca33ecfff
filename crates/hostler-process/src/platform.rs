//! Everything that differs between operating systems.
//!
//! Linux supports the whole design. Elsewhere there is no subreaper and no `/proc`: ending an agent ends its process
//! group, and a process that left the group is not found.

use nix::unistd::Pid;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

/// A child that this process did not start.
#[derive(Clone, Debug)]
pub(crate) struct AdoptedChild {
    pub(crate) pid: Pid,
    pub(crate) descendants: Vec<Pid>,
}

/// Why a supervisor stopped waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeReason {
    /// The lifeline is readable or closed.
    pub(crate) lifeline_readable: bool,
    /// The supervisor received a signal that asks it to stop.
    pub(crate) stop_requested: bool,
}
