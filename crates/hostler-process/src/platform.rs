//! What differs between operating systems, and only that.
//!
//! Linux does everything that the design asks for. Elsewhere there is no subreaper and no `/proc`: an agent that dies
//! takes its process group along, and a process that left the group is not found.

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
    /// The lifeline has something to read, or its end.
    pub(crate) lifeline_readable: bool,
    /// Somebody sent the supervisor a signal that asks it to stop.
    pub(crate) stop_requested: bool,
}
