//! Agent processes: supervised spawn, line framing, stderr tail, exit watching, close ladder, conversation locks.
//!
//! ```text
//!   host ──lifeline (fd 3)──► supervisor ──► agent ──► shells, tools, whatever calls setsid
//!    └────────── pipes: stdin, stdout, stderr ──┘
//! ```
//!
//! Each agent runs under a tiny supervisor: a re-exec of the running binary that only starts the agent, watches it and
//! ends its whole tree when the host says so or dies. The agent holds the host's pipes directly, so no byte of a
//! conversation passes through the supervisor. A program that needs a terminal gets one end of a pty instead of pipes,
//! begins a session that the terminal belongs to, and is ended in the same way.
//!
//! **Invariants.** No process of a tree outlives the tree's reason: its [`ProcessHandle`]s, the host, the agent itself.
//! A [`ConversationLock`] is free only when its tree is empty. Nothing here knows what the lines mean that it carries.
//!
//! This is the one crate that may contain `unsafe`: between `fork` and `exec`, and for file descriptors that a process
//! is born with. Each such block says why it is sound.

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
mod programs;
mod pty;
mod redact;
mod runtime_dir;
mod signals;
mod spawn;
mod stderr_buffer;
mod stdin;
mod supervisor;
mod watcher;

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
