//! Slow disk: the thread that writes the journal is delayed at each write and sync by tracing it. The host contains
//! no code for it.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Name of the thread, as truncated by the kernel.
const JOURNAL_THREAD_NAME: &str = "hostler-journal";

const TRACE_POLL_INTERVAL: Duration = Duration::from_micros(500);

/// Disk that is slow until this value is dropped, or its time is over.
pub(crate) struct SlowDisk(Option<JoinHandle<bool>>);

impl SlowDisk {
    /// Delays each write of a host, for a while.
    pub(crate) fn start(host: u32, each: Duration, lasts: Duration) -> Self {
        // The kernel requires one thread for all tracing.
        Self(Some(std::thread::spawn(move || {
            let mut held = false;
            // An error means that the host has ended, or may not be traced.
            let _ = delay_writes(host, each, lasts, &mut held);
            held
        })))
    }

    /// Waits for the end; `false` if the host could not be delayed.
    pub(crate) async fn wait_for_end(mut self) -> bool {
        let Some(thread) = self.0.take() else { return false };
        tokio::task::spawn_blocking(move || thread.join().unwrap_or(false)).await.unwrap_or(false)
    }
}

fn delay_writes(host: u32, each: Duration, lasts: Duration, held: &mut bool) -> nix::Result<()> {
    let Some(thread) = writer(host) else { return Ok(()) };
    ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD)?;
    ptrace::interrupt(thread)?;
    let deadline = Instant::now() + lasts;
    let mut leaving = false;
    loop {
        let signal = match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                if !leaving && Instant::now() >= deadline {
                    leaving = true;
                    ptrace::interrupt(thread)?;
                }
                std::thread::sleep(TRACE_POLL_INTERVAL);
                continue;
            }
            Ok(WaitStatus::PtraceSyscall(_)) => {
                if is_write(thread) {
                    std::thread::sleep(each / 2);
                    *held = true;
                }
                None
            }
            Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
            Ok(WaitStatus::PtraceEvent(..)) => None,
            // The host has ended.
            _ => return Ok(()),
        };
        if leaving || Instant::now() >= deadline {
            return ptrace::detach(thread, signal);
        }
        ptrace::syscall(thread, signal)?;
    }
}

fn writer(host: u32) -> Option<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{host}/task")).ok()?.flatten();
    let is_writer = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim_end() == JOURNAL_THREAD_NAME)
    };
    let thread = threads.into_iter().find(is_writer)?;
    Some(Pid::from_raw(thread.file_name().to_str()?.parse().ok()?))
}

/// Returns whether a stopped thread is at the entry or exit of a write call.
fn is_write(thread: Pid) -> bool {
    let calls = [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate];
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
    let number = line.split(' ').next().and_then(|number| number.parse::<libc::c_long>().ok());
    number.is_some_and(|number| calls.contains(&number))
}
