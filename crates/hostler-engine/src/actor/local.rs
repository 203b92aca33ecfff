//! Local turns: what a person wants of the host itself.
//!
//! A command runs in the session's directory as the person's own act: nobody is asked, a rule that denies it is stronger, and
//! the audit log tells of it. It is read piece by piece in tasks, each of which ends in an input.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::{Message, TerminalSessionClaim, ToolResultContent};
use hostler_store::AuditEntry;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use super::dispatch::{MAX_TITLE, Refusal};
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::commands::{CommandEnd, CommandSpec, Program, RunningCommand};
use crate::gate::summary;
use crate::local::{self, Kept, Local};
use crate::terminals::Printer;
use crate::transcript::{Failure, Output, TOOL};
use crate::turn::{Input as TurnInput, TurnPhase};

/// What a running command prints is gathered for this long before it is shown.
const GATHER: Duration = Duration::from_millis(200);

/// How many lines are read at once.
const MOST_LINES: usize = 10_000;

/// Who is said to have decided about a command whose client is not known any more: it waited in the queue.
const SOMEBODY: &str = "queue";

/// A command that runs.
pub(super) struct Run {
    turn: String,
    stop: CancellationToken,
}

/// A piece of a command's output, or its end.
pub(crate) struct LocalNews {
    turn: String,
    kept: Kept,
    /// Where it is shown besides, if there is such a place.
    printer: Option<Printer>,
    state: RunState,
}

enum RunState {
    Runs(Box<dyn RunningCommand>),
    Over(CommandEnd),
    /// It did not start; why.
    Never(String),
    Stopped,
}

impl Actor {
    /// Whether a message that is for the host itself can be carried out.
    pub(super) fn check_local(&self, message: &Message) -> Result<(), Refusal> {
        local::check(self.host.local(&message.text).as_ref(), MAX_TITLE)
    }

    /// The turn of a message is accepted: the agent works on it, or the host.
    pub(super) fn accepted(&self, turn: String, text: &str) -> TurnInput<Failure> {
        match self.host.local(text) {
            Some(_) => TurnInput::AcceptedLocal(turn),
            None => TurnInput::Accepted { turn, need: self.need() },
        }
    }

    /// Begins a local turn. `true` if it is over at once.
    pub(super) async fn run_local(&mut self, turn: &str) -> bool {
        // It has a turn, so it is there for everybody, although no agent is.
        if let Err(error) = self.announce().await {
            tracing::error!(session = &*self.session.uri, %error, "a session could not be announced");
        }
        let text = self.session.chat.active_turn.as_ref().filter(|active| active.id == turn).map(|a| &a.message.text);
        match text.and_then(|text| self.host.local(text)) {
            Some(Local::Command(line)) => self.run_command(turn, line).await,
            Some(Local::Rename(title)) => {
                self.rename(title).await;
                true
            }
            None => true,
        }
    }

    async fn rename(&mut self, title: String) {
        let mut renamed = false;
        let said = if title.is_empty() {
            "Nothing was renamed. Say the title: /rename TITLE".to_owned()
        } else {
            match self.retitle(title.clone()).await {
                Ok(()) => {
                    renamed = true;
                    format!("Renamed to {title:?}.")
                }
                Err(error) => format!("Nothing was renamed: {error}"),
            }
        };
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.notice(said, &mut output);
        }
        self.flush(&mut output).await;
        self.project().await;
        if renamed {
            self.write_title().await;
        }
    }

    async fn run_command(&mut self, turn: &str, line: String) -> bool {
        let call = format!("local-{turn}");
        let Ok(input) = to_raw_value(&json!({ "command": line })) else { return true };
        let input: Arc<RawValue> = input.into();
        let denied = self.gate.forbids(TOOL, input.get());
        let who = self.asked_by.take().unwrap_or_else(|| SOMEBODY.to_owned());
        self.write_down(vec![AuditEntry {
            at_ms: self.host.clock.now_ms(),
            who: if denied.is_some() { "rule".to_owned() } else { who },
            call: call.clone(),
            tool: TOOL.to_owned(),
            input: summary(input.get()),
            sub_agent: None,
            decision: if denied.is_some() { "deny" } else { "allow" }.to_owned(),
            why: Some(denied.clone().unwrap_or_else(|| "A person's own command.".to_owned())),
        }])
        .await;
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.command_began(&call, &line, input, &mut output);
        }
        self.flush(&mut output).await;
        if let Some(why) = denied {
            self.show_end(turn, None, why, None).await;
            return true;
        }
        let directory = self.session.working_directory().unwrap_or_default();
        let spec = CommandSpec { program: Program::Shell(line.clone()), directory: directory.clone() };
        let claim = TerminalSessionClaim {
            session: self.session.uri.to_string(),
            chat: self.session.chat_uri.to_string(),
            turn_id: Some(turn.to_owned()),
            tool_call_id: Some(call),
        };
        let stop = CancellationToken::new();
        self.runs.push(Run { turn: turn.to_owned(), stop: stop.clone() });
        let (host, turn) = (Arc::clone(&self.host), turn.to_owned());
        self.tasks.spawn(async move {
            let (printer, state) = match host.commands.start(spec).await {
                Ok(running) => (host.print(claim, &line, &directory).await, RunState::Runs(running)),
                Err(why) => (None, RunState::Never(why)),
            };
            Input::Local(LocalNews { turn, kept: Kept::default(), printer, state })
        });
        false
    }

    /// A command has printed something, or is over.
    pub(super) async fn local_news(&mut self, news: LocalNews) {
        let LocalNews { turn, kept, printer, state } = news;
        let Some(run) = self.runs.iter().find(|run| run.turn == turn) else { return };
        let stop = run.stop.clone();
        let (end, printed, terminal) = match state {
            RunState::Runs(running) => {
                let (text, terminal, of) = (kept.shown(), printer.as_ref().map(Printer::link), turn.clone());
                self.tasks.spawn(async move { Input::Local(read_on(turn, kept, printer, running, stop).await) });
                return self.show_printed(&of, text, terminal).await;
            }
            RunState::Over(end) => (Some(end), kept.whole(), printer.map(|printer| printer.ended(end))),
            RunState::Never(why) => (None, why, None),
            RunState::Stopped => (None, String::new(), None),
        };
        self.runs.retain(|run| run.turn != turn);
        if matches!(self.machine.turn(), TurnPhase::Local(running) if *running == turn) {
            self.show_end(&turn, end, printed, terminal).await;
            self.drive(TurnInput::LocalOver(turn)).await;
        }
    }

    /// Shows what is printed. The end has all of it, so that this need not be kept.
    async fn show_printed(&mut self, of: &str, text: String, terminal: Option<ToolResultContent>) {
        if !matches!(self.machine.turn(), TurnPhase::Local(turn) if turn == of) {
            return;
        }
        let call = format!("local-{of}");
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_ref() {
            transcript.command_printed(&call, text, terminal, &mut output);
        }
        self.show_in_passing(output).await;
    }

    async fn show_end(
        &mut self,
        turn: &str,
        end: Option<CommandEnd>,
        printed: String,
        terminal: Option<ToolResultContent>,
    ) {
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.command_ended(&format!("local-{turn}"), end, printed, terminal, &mut output);
        }
        self.flush(&mut output).await;
    }

    /// Ends all commands, with everything that they have started.
    pub(super) fn stop_local(&mut self) {
        self.runs.iter().for_each(|run| run.stop.cancel());
    }
}

/// Reads until there is something to show, the command is over, or somebody wants it to end.
async fn read_on(
    turn: String,
    mut kept: Kept,
    mut printer: Option<Printer>,
    mut running: Box<dyn RunningCommand>,
    stop: CancellationToken,
) -> LocalNews {
    let mut lines = 0;
    let mut gathered = std::pin::pin!(tokio::time::sleep(GATHER));
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                running.end().await;
                return LocalNews { turn, kept, printer, state: RunState::Stopped };
            }
            () = &mut gathered, if lines > 0 => break,
            line = running.next_line() => match line {
                Some(line) => {
                    kept.line(&line);
                    if let Some(printer) = printer.as_mut() {
                        // Its terminal may let it wait.
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = printer.line(&line) => {}
                        }
                    }
                    lines += 1;
                    if lines >= MOST_LINES {
                        break;
                    }
                }
                None => {
                    let state = tokio::select! {
                        biased;
                        () = stop.cancelled() => None,
                        end = running.ended() => Some(RunState::Over(end)),
                    };
                    let state = match state {
                        Some(state) => state,
                        None => {
                            running.end().await;
                            RunState::Stopped
                        }
                    };
                    return LocalNews { turn, kept, printer, state };
                }
            },
        }
    }
    LocalNews { turn, kept, printer, state: RunState::Runs(running) }
}
