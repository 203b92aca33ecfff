//! Local turns: messages that the host carries out itself.
//!
//! A command runs in the session's directory on behalf of the person who sent it: it needs no confirmation, a deny rule
//! overrides it, and the audit log records it. Tasks read its output in chunks, each of which ends in an input.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::{Message, TerminalSessionClaim, ToolResultContent};
use hostler_store::AuditEntry;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use super::context::SessionContext;
use super::effect::SessionEffect;
use super::input::SessionInput;
use super::naming::MAX_TITLE_BYTES;
use crate::clock::ClockExt as _;
use crate::permissions::session_gate::summarize_input;
use crate::sessions::action_mapper::{ActionBuffer, LOCAL_COMMAND_TOOL};
use crate::sessions::local_command::{self, LocalCommand, OutputTail};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::turn::{TurnInput, TurnMachine, TurnPhase};
use crate::terminals::ToolCallTerminal;
use crate::terminals::command_runner::{CommandExit, CommandProgram, CommandSpec, CommandStartError, RunningCommand};

/// How long a running command's output is collected before it is published.
const OUTPUT_PUBLISH_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of lines per read.
const MAX_LINES_PER_READ: usize = 10_000;

/// The decider in the audit log for a queued command, whose client is no longer known.
const QUEUE_AUDIT_NAME: &str = "queue";

/// The running local commands.
#[derive(Default)]
pub(super) struct LocalCommands(Vec<LocalCommandRun>);

struct LocalCommandRun {
    turn: String,
    cancel: CancellationToken,
}

/// A chunk of a command's output, or its end.
pub(crate) struct LocalCommandEvent {
    turn: String,
    output: OutputTail,
    /// The terminal that displays the output as well, if there is one.
    printer: Option<ToolCallTerminal>,
    state: LocalCommandState,
}

enum LocalCommandState {
    Running(Box<dyn RunningCommand>),
    Ended(CommandExit),
    NotStarted(CommandStartError),
    Stopped,
}

impl LocalCommands {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts a local turn.
    pub(super) async fn run(&mut self, turn: String, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        // A session with a turn is announced, even without an agent.
        if let Err(error) = ctx.announce_session().await {
            tracing::error!(session = &*ctx.session.uri, %error, "failed to announce session");
        }
        let text = ctx.session.chat.active_turn.as_ref().filter(|active| active.id == turn).map(|a| &a.message.text);
        match text.and_then(|text| ctx.host.local_command(text)) {
            Some(LocalCommand::Shell(line)) => {
                let is_over = self.start(&turn, line, ctx).await;
                if !is_over {
                    return Vec::new();
                }
            }
            Some(LocalCommand::Rename(title)) => ctx.rename_session(title).await,
            None => {}
        }
        vec![SessionEffect::Turn(TurnInput::LocalFinished(turn))]
    }

    /// Starts a command. `true` if it ends at once.
    async fn start(&mut self, turn: &str, line: String, ctx: &mut SessionContext) -> bool {
        let call = format!("local-{turn}");
        let Ok(input) = to_raw_value(&json!({ "command": line })) else { return true };
        let input: Arc<RawValue> = input.into();
        let denied = ctx.gate.user_command_denial(LOCAL_COMMAND_TOOL, &input).await;
        let who = ctx.turn.client_id.take().unwrap_or_else(|| QUEUE_AUDIT_NAME.to_owned());
        ctx.write_audit(vec![AuditEntry {
            at_ms: ctx.host.clock.now_ms(),
            decided_by: if denied.is_some() { "rule".to_owned() } else { who },
            tool_call_id: call.clone(),
            tool: LOCAL_COMMAND_TOOL.to_owned(),
            input: summarize_input(input.get()),
            sub_agent: None,
            decision: if denied.is_some() { "deny" } else { "allow" }.to_owned(),
            reason: Some(denied.clone().unwrap_or_else(|| "Command of a user.".to_owned())),
        }])
        .await;
        let mut output = ActionBuffer::default();
        if let Some(transcript) = ctx.turn.mapper.as_mut() {
            transcript.start_local_command(&call, &line, input, &mut output);
        }
        ctx.publish_output(&mut output).await;
        if let Some(why) = denied {
            ctx.publish_command_end(turn, None, why, None).await;
            return true;
        }
        let directory = ctx.session.working_directory().unwrap_or_default();
        let spec = CommandSpec { program: CommandProgram::Shell(line.clone()), directory: directory.clone() };
        let claim = TerminalSessionClaim {
            session: ctx.session.uri.to_string(),
            chat: ctx.session.chat_uri.to_string(),
            turn_id: Some(turn.to_owned()),
            tool_call_id: Some(call),
        };
        let stop = CancellationToken::new();
        self.0.push(LocalCommandRun { turn: turn.to_owned(), cancel: stop.clone() });
        let (host, turn) = (Arc::clone(&ctx.host), turn.to_owned());
        ctx.tasks.spawn(async move {
            let (printer, state) = match host.terminals.command_runner().start(spec).await {
                Ok(running) => {
                    (host.open_tool_call_terminal(claim, &line, &directory).await, LocalCommandState::Running(running))
                }
                Err(error) => (None, LocalCommandState::NotStarted(error)),
            };
            SessionInput::LocalCommand(LocalCommandEvent { turn, output: OutputTail::default(), printer, state })
        });
        false
    }

    /// Handles output or the end of a command.
    pub(super) async fn step(
        &mut self,
        event: LocalCommandEvent,
        machine: &TurnMachine,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let LocalCommandEvent { turn, output: tail, printer, state } = event;
        let Some(run) = self.0.iter().find(|run| run.turn == turn) else { return Vec::new() };
        let is_shown = matches!(machine.turn_phase(), TurnPhase::Local(running) if *running == turn);
        let stop = run.cancel.clone();
        let (end, printed, terminal) = match state {
            LocalCommandState::Running(running) => {
                let (text, terminal, of) = (tail.preview(), printer.as_ref().map(ToolCallTerminal::link), turn.clone());
                ctx.tasks.spawn(async move {
                    SessionInput::LocalCommand(read_output(turn, tail, printer, running, stop).await)
                });
                if is_shown {
                    ctx.publish_command_output(&of, text, terminal).await;
                }
                return Vec::new();
            }
            LocalCommandState::Ended(end) => (Some(end), tail.into_text(), printer.map(|printer| printer.finish(end))),
            LocalCommandState::NotStarted(error) => (None, error.to_string(), None),
            LocalCommandState::Stopped => (None, String::new(), None),
        };
        self.0.retain(|run| run.turn != turn);
        if !is_shown {
            return Vec::new();
        }
        ctx.publish_command_end(&turn, end, printed, terminal).await;
        vec![SessionEffect::Turn(TurnInput::LocalFinished(turn))]
    }

    /// Stops all commands and their process trees.
    pub(super) fn stop(&self) {
        self.0.iter().for_each(|run| run.cancel.cancel());
    }
}

impl SessionContext {
    /// Checks whether a local command can be carried out.
    pub(super) fn check_local_command(&self, message: &Message) -> Result<(), ActionRejection> {
        local_command::validate(self.host.local_command(&message.text).as_ref(), MAX_TITLE_BYTES)
    }

    /// Publishes recent output. It is not stored, because the end of the command repeats it.
    async fn publish_command_output(&mut self, of: &str, text: String, terminal: Option<ToolResultContent>) {
        let call = format!("local-{of}");
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.turn.mapper.as_ref() {
            transcript.update_local_command(&call, text, terminal, &mut output);
        }
        self.publish_transient(output).await;
    }

    async fn publish_command_end(
        &mut self,
        turn: &str,
        end: Option<CommandExit>,
        printed: String,
        terminal: Option<ToolResultContent>,
    ) {
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.turn.mapper.as_mut() {
            transcript.end_local_command(&format!("local-{turn}"), end, printed, terminal, &mut output);
        }
        self.publish_output(&mut output).await;
    }
}

/// Reads until there is output to publish, the command has ended, or it is cancelled.
async fn read_output(
    turn: String,
    mut tail: OutputTail,
    mut printer: Option<ToolCallTerminal>,
    mut running: Box<dyn RunningCommand>,
    stop: CancellationToken,
) -> LocalCommandEvent {
    let mut lines = 0;
    let mut gathered = std::pin::pin!(tokio::time::sleep(OUTPUT_PUBLISH_INTERVAL));
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                running.terminate().await;
                return LocalCommandEvent { turn, output: tail, printer, state: LocalCommandState::Stopped };
            }
            () = &mut gathered, if lines > 0 => break,
            line = running.next_line() => match line {
                Some(line) => {
                    tail.push_line(&line);
                    if let Some(printer) = printer.as_mut() {
                        // The terminal may apply backpressure.
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = printer.write_line(&line) => {}
                        }
                    }
                    lines += 1;
                    if lines >= MAX_LINES_PER_READ {
                        break;
                    }
                }
                None => {
                    let state = tokio::select! {
                        biased;
                        () = stop.cancelled() => None,
                        end = running.wait() => Some(LocalCommandState::Ended(end)),
                    };
                    let state = match state {
                        Some(state) => state,
                        None => {
                            running.terminate().await;
                            LocalCommandState::Stopped
                        }
                    };
                    return LocalCommandEvent { turn, output: tail, printer, state };
                }
            },
        }
    }
    LocalCommandEvent { turn, output: tail, printer, state: LocalCommandState::Running(running) }
}
