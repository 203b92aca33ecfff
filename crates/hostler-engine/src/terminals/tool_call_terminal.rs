//! Terminals of tool calls: read-only output of a turn's command, while it runs and for some time afterwards.
//!
//! For the terminal's actor the command is a shell without input, at the other end of a bounded pipe; the session's
//! actor knows only where to print. The command belongs to its turn, and runs on without its terminal.

use std::path::Path;
use std::sync::Arc;

use ahp_types::state::{
    TerminalClaim, TerminalCommandResult, TerminalInfo, TerminalLifecycleState, TerminalRunningLifecycleState,
    TerminalSessionClaim, TerminalState, ToolResultContent, ToolResultTerminalContent,
};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_files::path_to_file_uri;
use hostler_terminal::{ShellNonce, ShellOutputParser};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Mutex, oneshot, watch};
use uuid::Uuid;

use super::actor::{self, TerminalActor, TerminalRequest};
use super::screen::TerminalScreen;
use super::shell::{TerminalShell, TerminalSize};
use super::{LiveTerminal, TerminalError};
use crate::host::Host;
use crate::terminals::command_runner::CommandExit;
use crate::uri;

/// Maximum number of terminals of tool calls, running and ended.
pub(super) const MAX_TOOL_CALL_TERMINALS: usize = 32;

/// Maximum length of a title in bytes: the first line of the command.
const MAX_COMMAND_TITLE_BYTES: usize = 200;

/// How much output the terminal's actor may leave unread. Beyond it the command waits, as it would for a slow terminal.
const OUTPUT_PIPE_BYTES: usize = 64 * 1024;

/// The command's end of a tool call terminal. Dropping it ends the terminal without an exit code.
pub(crate) struct ToolCallTerminal {
    link: ToolResultTerminalContent,
    // Closed before the exit is reported, so that all output is read by then.
    output: DuplexStream,
    end: watch::Sender<Option<CommandExit>>,
}

impl ToolCallTerminal {
    /// The tool call's reference to the terminal.
    pub(crate) fn link(&self) -> ToolResultContent {
        ToolResultContent::Terminal(self.link.clone())
    }

    /// Prints a line. Succeeds also without a reader.
    pub(crate) async fn write_line(&mut self, line: &[u8]) {
        if self.output.write_all(line).await.is_ok() {
            let _ = self.output.write_all(b"\n").await;
        }
    }

    /// Reports the command's exit, and returns the tool call's reference to the terminal from now on.
    pub(crate) fn finish(self, end: CommandExit) -> ToolResultContent {
        let Self { mut link, output, end: exit_sender } = self;
        drop(output);
        exit_sender.send_replace(Some(end));
        link.result = Some(TerminalCommandResult { exit_code: end.exit_code(), ..TerminalCommandResult::default() });
        ToolResultContent::Terminal(link)
    }
}

/// The terminal's end of the pipe, as a shell.
struct ToolCallOutput {
    output: Mutex<DuplexStream>,
    end: watch::Receiver<Option<CommandExit>>,
}

impl TerminalShell for ToolCallOutput {
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize> {
        async { self.output.lock().await.read(buffer).await.unwrap_or(0) }.boxed()
    }

    fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, usize> {
        ready(0).boxed()
    }

    fn resize(&self, _: TerminalSize) {}

    fn wait(&self) -> BoxFuture<'_, CommandExit> {
        let mut end = self.end.clone();
        async move { end.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(CommandExit::Unknown) }
            .boxed()
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}

impl Host {
    /// Creates a terminal for the output of a tool call. `None` if terminals are off, or if the limit of running ones
    /// is reached.
    pub(crate) async fn open_tool_call_terminal(
        self: &Arc<Self>,
        claim: TerminalSessionClaim,
        line: &str,
        directory: &Path,
    ) -> Option<ToolCallTerminal> {
        let scrollback = self.terminals.config.as_ref()?.scrollback_bytes;
        let stream = ShellOutputParser::new(ShellNonce::new().ok()?);
        let (title, claim) = (command_title(line), TerminalClaim::Session(claim));
        let uri: Arc<str> = format!("{}/{}", uri::TERMINAL_SCHEME, Uuid::new_v4()).into();
        let state = TerminalState {
            title: title.clone(),
            cwd: path_to_file_uri(directory).ok(),
            cols: None,
            rows: None,
            content: Vec::new(),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
            claim,
            supports_command_detection: None,
            is_pty: Some(false),
        };
        let info = TerminalInfo {
            resource: uri.to_string(),
            title: title.clone(),
            claim: state.claim.clone(),
            lifecycle: state.lifecycle.clone(),
        };
        let (inputs, wanted) = actor::request_channel();
        let oldest = match self.terminals.register_tool_call(&uri, LiveTerminal { requests: inputs, info }) {
            Ok(oldest) => oldest,
            Err(error) => {
                tracing::debug!(%error, "failed to open a terminal for a command");
                return None;
            }
        };
        let (output, read) = tokio::io::duplex(OUTPUT_PIPE_BYTES);
        let (end, ended) = watch::channel(None);
        let shell: Arc<dyn TerminalShell> = Arc::new(ToolCallOutput { output: Mutex::new(read), end: ended });
        // Counts as named by a person, so that programs do not change the title.
        let screen = TerminalScreen::new(state, scrollback, true);
        let (host, name) = (Arc::clone(self), Arc::clone(&uri));
        TerminalActor { host, uri: name, screen, shell: Some(shell), stream, is_tool_call: true }.spawn(wanted);
        if let Some(oldest) = oldest {
            let (reply, gone) = oneshot::channel();
            if oldest.send(TerminalRequest::Dispose(reply)).await.is_ok() {
                let _ = gone.await;
            }
        }
        self.publish_terminals().await;
        let link = ToolResultTerminalContent { resource: uri.to_string(), title, is_pty: Some(false), result: None };
        Some(ToolCallTerminal { link, output, end })
    }
}

fn command_title(line: &str) -> String {
    let first = line.lines().next().unwrap_or_default();
    first.get(..first.floor_char_boundary(MAX_COMMAND_TITLE_BYTES)).unwrap_or(first).to_owned()
}

impl super::TerminalService {
    /// Registers a tool call terminal. Beyond the limit an ended one is removed, and its request channel is returned.
    fn register_tool_call(
        &self,
        uri: &Arc<str>,
        live: LiveTerminal,
    ) -> Result<Option<actor::TerminalRequestSender>, TerminalError> {
        let mut all = self.lock();
        let mut oldest = None;
        if all.iter().filter(|terminal| terminal.is_tool_call).count() >= MAX_TOOL_CALL_TERMINALS {
            let over = |terminal: &super::TerminalEntry| terminal.is_tool_call && !terminal.is_running();
            let place = all.iter().position(over).ok_or(TerminalError::TooMany(MAX_TOOL_CALL_TERMINALS))?;
            oldest = all.remove(place).live.map(|live| live.requests);
        }
        all.push(super::TerminalEntry { uri: Arc::clone(uri), live: Some(live), is_tool_call: true });
        Ok(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminals::TerminalService;
    use crate::terminals::command_runner::{CommandRunner, CommandSpec, CommandStartError, RunningCommand};
    use ahp_types::state::{TerminalClientClaim, TerminalExitedLifecycleState};
    use futures::future::BoxFuture;

    struct NoCommands;

    impl CommandRunner for NoCommands {
        fn start(&self, _: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, CommandStartError>> {
            unreachable!("no test starts a command")
        }
    }

    fn live(uri: &str) -> LiveTerminal {
        let info = TerminalInfo {
            resource: uri.into(),
            title: "ls".into(),
            claim: TerminalClaim::Client(TerminalClientClaim { client_id: "me".into() }),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
        };
        LiveTerminal { requests: actor::request_channel().0, info }
    }

    #[test]
    fn oldest_ended_terminal_is_evicted_and_running_ones_never() {
        let terminals = TerminalService::new(None, Arc::new(NoCommands));
        let begin = |uri: &str| terminals.register_tool_call(&uri.into(), live(uri));
        for number in 0..MAX_TOOL_CALL_TERMINALS {
            assert!(begin(&number.to_string()).unwrap().is_none());
        }
        assert!(begin("more").is_err(), "all of them run");
        for number in ["7", "3"] {
            let mut info = live(number).info;
            info.lifecycle = TerminalLifecycleState::Exited(TerminalExitedLifecycleState { exit_code: Some(0) });
            assert!(terminals.update_info(info));
        }
        assert_eq!(terminals.list().len(), MAX_TOOL_CALL_TERMINALS - 2, "those that are over are not listed");
        assert!(begin("more").unwrap().is_some());
        assert!(terminals.contains("7") && !terminals.contains("3"), "the oldest went");
        terminals.reserve(&"person's".into(), 1).expect("people have their own places");
    }

    #[test]
    fn title_is_the_start_of_the_first_line() {
        assert_eq!(command_title("ls -la\necho b"), "ls -la");
        assert_eq!(command_title(&"ü".repeat(MAX_COMMAND_TITLE_BYTES)).len(), MAX_COMMAND_TITLE_BYTES);
    }
}
