//! Starts the agent process.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::errno::Errno;
use nix::unistd::{Pid, execve, getppid};

use crate::lifeline::{LaunchMessage, StartStep, SupervisorReport};
use crate::programs::find_program;
use crate::{platform, pty, signals};

/// Starts the agent with the supervisor's standard streams, in a process group of its own; in a terminal, in a
/// session of its own that controls the terminal.
pub(super) fn start_agent(launch: &LaunchMessage) -> Result<Pid, SupervisorReport> {
    std::env::set_current_dir(&launch.cwd).map_err(|error| start_failure(StartStep::Directory, &error))?;
    let exec = ExecArguments::new(launch).map_err(|error| start_failure(StartStep::Program, &error))?;
    // `Command` forks and returns errors of the child; `exec` runs in our closure.
    let mut command = Command::new(&launch.program);
    if !launch.terminal {
        command.process_group(0);
    }
    set_up_child(&mut command, Pid::this(), exec, launch.terminal);
    let child = command.spawn().map_err(|error| start_failure(StartStep::Program, &error))?;
    // The supervisor must not prevent the agent's directory from being unmounted.
    let _ = std::env::set_current_dir("/");
    // A pid always fits.
    Ok(Pid::from_raw(child.id().cast_signed()))
}

fn start_failure(step: StartStep, error: &io::Error) -> SupervisorReport {
    // Without an errno: the arguments or the environment contain a NUL byte.
    let errno = error.raw_os_error().unwrap_or(Errno::EINVAL as i32);
    SupervisorReport::Failed { step, errno }
}

#[expect(unsafe_code, reason = "the child is set up between fork and exec")]
fn set_up_child(command: &mut Command, supervisor: Pid, exec: ExecArguments, terminal: bool) {
    // SAFETY: the supervisor has no other thread, so no lock (such as the allocator's) can be held by a missing
    // thread in the forked child. The closure makes plain system calls.
    unsafe {
        command.pre_exec(move || {
            signals::reset_signals()?;
            platform::die_with_parent()?;
            if getppid() != supervisor {
                return Err(Errno::ECANCELED.into());
            }
            if terminal {
                pty::acquire_controlling_terminal()?;
            }
            exec.run()
        });
    }
}

/// The arguments of `execve`. The standard library would pass a file that the kernel cannot execute to a shell, which
/// then reports syntax errors in an executable for another machine.
struct ExecArguments {
    path: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl ExecArguments {
    fn new(launch: &LaunchMessage) -> io::Result<Self> {
        let args = launch.args.iter().map(|arg| CString::new(arg.as_bytes()));
        let env =
            launch.env.iter().map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let name = CString::new(launch.program.as_os_str().as_bytes());
        Ok(Self {
            path: CString::new(find_executable(launch)?.into_os_string().into_vec())?,
            args: std::iter::once(name).chain(args).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
        })
    }

    /// Returns only on failure.
    fn run(&self) -> io::Result<()> {
        match execve(&self.path, &self.args, &self.env) {
            Ok(never) => match never {},
            Err(error) => Err(error.into()),
        }
    }
}

/// The program's path: as given, or found in the agent's own `PATH`. The current directory is not searched.
fn find_executable(launch: &LaunchMessage) -> io::Result<PathBuf> {
    if launch.program.as_os_str().as_bytes().contains(&b'/') {
        return Ok(launch.program.clone());
    }
    let path = launch.env.iter().find(|(name, _)| name == "PATH");
    path.and_then(|(_, path)| find_program(&launch.program, path)).ok_or_else(|| Errno::ENOENT.into())
}
