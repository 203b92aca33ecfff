//! A child process that ends with its owner, together with what it started.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// How long an abandoned child is waited for: it must be gone before its files are removed.
const REAP_TRIES: u32 = 200;
const REAP_PAUSE: Duration = Duration::from_millis(5);

/// A running child in a process group of its own; killed when dropped.
#[derive(Debug)]
pub(super) struct OwnedChild(Child);

impl OwnedChild {
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }

    pub(super) fn inner(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // A child that was waited for has no id any more: its group is not ours to signal.
        let Some(pid) = self.0.id().and_then(|id| i32::try_from(id).ok()) else {
            return;
        };
        let _gone_already = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        for _ in 0..REAP_TRIES {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(REAP_PAUSE);
        }
    }
}

/// `exit code 1`, `signal 9`.
pub(super) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}
