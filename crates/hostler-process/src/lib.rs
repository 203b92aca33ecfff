//! Agent processes: supervised spawn, line framing, stderr tail, exit watching, termination, conversation locks.
//!
//! ```text
//!   host ──lifeline (fd 3)──► supervisor ──► agent ──► shells, tools, processes that call setsid
//!    └────────── pipes: stdin, stdout, stderr ──┘
//! ```
//!
//! Each agent runs under a small supervisor: a re-exec of the running binary that only starts the agent, watches it
//! and ends its whole tree on the host's order or when the host dies. The agent holds the host's pipes directly, so
//! no byte of a conversation passes through the supervisor. A program that needs a terminal gets one end of a pty
//! instead of pipes, starts a session that controls the terminal, and is ended in the same way.
//!
//! **Invariants.** No process of a tree outlives all of its [`ProcessHandle`]s, the host or the agent itself. A
//! [`ConversationLock`] is free only when its tree is empty. This crate does not interpret the lines that it carries.
//!
//! This is the one crate that may contain `unsafe`: between `fork` and `exec`, and for inherited file descriptors.
//! Each such block states why it is sound.

mod child_registry;
mod environment;
mod exit_report;
mod file_limit;
mod lifeline;
mod lines;
mod lock;
mod orphans;
mod platform;
mod process_handle;
mod process_watcher;
mod programs;
mod pty;
mod redact;
mod runtime_dir;
mod signals;
mod spawn;
mod stderr_buffer;
mod stdin;
mod supervisor;

pub use child_registry::{RegisteredChild, spawn_registered_child};
pub use environment::Environment;
pub use exit_report::ExitReport;
pub use lines::{LineError, LineReader, MAX_LINE_BYTES};
pub use lock::{ConversationLock, LockError, ProcessTreeLock};
pub use orphans::{become_host, hide_memory};
pub use process_handle::{ProcessHandle, TerminationMode};
pub use programs::{find_program, is_executable};
pub use pty::{Pty, PtySize};
pub use runtime_dir::{runtime_dir, runtime_dir_path};
pub use spawn::{AgentProcess, SpawnError, SpawnSpec, SupervisorCommand, TerminalProcess, spawn, spawn_in_terminal};
pub use stdin::AgentStdin;
pub use supervisor::supervise_main;
