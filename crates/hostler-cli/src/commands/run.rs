//! `hostler run`: sends one message to a new or existing session and prints the answer.

use std::path::{Path, PathBuf};

use ahp_types::state::MessageAttachment;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

use super::trust::{ignored_configuration_note, trust_working_directory};
use crate::Io;
use crate::args::RunArgs;
use crate::attachments::{self, AttachmentPlanResponse};
use crate::client::{Client, HostEvent};
use crate::console::{TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::host::{HostConnection, connect_or_start};
use crate::ports::Wiring;
use crate::progress::Spinner;
use crate::session_lookup::{self, working_directory};
use crate::settings::Settings;
use crate::turn::{
    InteractiveUser, OpenedSession, RunningTurn, StdinLines, TextEditor, TurnEnd, TurnOutput, TurnRenderer,
    create_session, open_session, turn_end_result,
};

/// Maximum length of a prompt.
const MAX_PROMPT_BYTES: u64 = 16 << 20;

/// Runs `hostler run`.
pub(crate) async fn run_run_command(
    args: &RunArgs,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    if args.session.is_none() && !settings.cwd.is_dir() {
        return Err(not_a_directory(&settings.cwd));
    }
    if args.prompt.expose() == "-" && args.attach.iter().any(|name| name == "-") {
        return Err(CommandFailure::new(
            Exit::Usage,
            "invalidArguments",
            "stdin cannot be both the message and an attachment.",
        ));
    }
    let prompt = io
        .signals
        .run_or_interrupt(read_prompt(args.prompt.expose(), !args.attach.is_empty(), &mut io.stdin))
        .await??;
    if args.trust {
        trust_working_directory(args.cwd.as_deref().map(Path::new), wiring, settings, io).await?;
    }
    let reading =
        attachments::read_attachments(&args.attach, &settings.attachment_limits, &wiring.environment, &mut io.stdin);
    let attachments = match io.signals.run_or_interrupt(reading).await?? {
        Ok(attachments) => attachments,
        Err(plan) => return Err(attachment_refusal(&plan, settings.json, io)?),
    };
    let spinner = Spinner::start("Starting", &io.console);
    let mut host = io.signals.run_or_interrupt(connect_or_start(wiring, settings)).await??;
    let message = OutgoingMessage { prompt, attachments };
    let end = run_turn(message, args, wiring, settings, &mut host, spinner, io).await;
    let abandoned = matches!(end, Ok(TurnEnd::Abandoned));
    let mut outcome = end.and_then(turn_end_result);
    if let Err(failure) = &mut outcome {
        failure.report(&mut io.console);
    }
    // After a second interrupt the command does not wait for a clean close; the supervisors end the processes.
    if !abandoned {
        host.disconnect(&mut io.console, &mut io.signals).await;
    }
    outcome.map(|()| Exit::Done)
}

/// Returns the failure for a path that is not a directory.
pub(super) fn not_a_directory(path: &Path) -> CommandFailure {
    CommandFailure::new(Exit::Usage, "notADirectory", format!("{} is not a directory.", path.display()))
}

/// Message to send.
struct OutgoingMessage {
    prompt: String,
    attachments: Vec<MessageAttachment>,
}

/// Prints the attachment plan: all of it as JSON, or warnings for people.
fn print_attachment_plan(plan: &AttachmentPlanResponse, json: bool, io: &mut Io) -> Result<(), CommandFailure> {
    if json {
        plan.print_json(&mut io.console)?;
    }
    plan.print_notices(&mut io.console);
    Ok(())
}

/// Returns the failure of a message whose attachments cannot be sent.
fn attachment_refusal(
    plan: &AttachmentPlanResponse,
    json: bool,
    io: &mut Io,
) -> Result<CommandFailure, CommandFailure> {
    print_attachment_plan(plan, json, io)?;
    let reason = plan.reason.as_deref().map(|reason| format!("{}\n", to_one_line(reason))).unwrap_or_default();
    let code = plan.refusal_code().unwrap_or("attachmentsRejected").to_owned();
    Ok(CommandFailure::new(Exit::Failed, code, format!("{reason}The message was not sent.")))
}

/// Opens the session and runs one turn.
async fn run_turn(
    message: OutgoingMessage,
    args: &RunArgs,
    wiring: &Wiring,
    settings: &Settings,
    host: &mut HostConnection,
    mut spinner: Spinner,
    io: &mut Io,
) -> Result<TurnEnd, CommandFailure> {
    let HostConnection { client, events, .. } = host;
    let environment = &wiring.environment;
    // If the message came from stdin, stdin cannot answer prompts.
    let is_attended = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let is_attended = is_attended && args.prompt.expose() != "-" && !args.attach.iter().any(|name| name == "-");
    let (session, directory) =
        io.signals.run_or_interrupt(open_or_create_session(args, settings, client, events)).await??;
    if let Some(directory) = directory
        && let Some(note) = ignored_configuration_note(directory, is_attended, wiring, settings, io).await?
    {
        spinner.clear();
        io.console.write_note(&note, TextStyle::Yellow);
    }
    let OutgoingMessage { prompt, attachments } = message;
    if !attachments.is_empty()
        && let Some(plan) = io.signals.run_or_interrupt(client.plan_attachments(&session.chat, &attachments)).await??
    {
        if !plan.ok {
            return Err(attachment_refusal(&plan, settings.json, io)?);
        }
        print_attachment_plan(&plan, settings.json, io)?;
    }
    let turn = RunningTurn::start(client, &session, &prompt, attachments, settings.model.as_deref()).await?;
    if session.has_running_turn {
        spinner.set_text("Waiting for the running turn to end");
    }
    let Io { console, signals, stdin } = io;
    let user = is_attended
        .then(|| InteractiveUser { lines: StdinLines::new(stdin), editor: TextEditor::from_environment(environment) });
    if settings.json {
        drop(spinner);
        let show = |shown: TurnOutput<'_>| match shown {
            TurnOutput::Envelope(_, raw) => console.write_out(&to_json_line(raw)),
            TurnOutput::Prompt(text) => {
                console.write_prompt(text);
                Ok(())
            }
        };
        return turn.follow(events, signals, user, show).await;
    }
    let mut renderer = TurnRenderer::new(spinner);
    let show = |shown: TurnOutput<'_>| match shown {
        TurnOutput::Envelope(envelope, _) => renderer.show(envelope, console),
        TurnOutput::Prompt(text) => {
            renderer.show_prompt(text, console);
            Ok(())
        }
    };
    let end = turn.follow(events, signals, user, show).await?;
    // If stdout is closed, the last line does not matter either.
    let _unread = renderer.finish(console);
    Ok(end)
}

/// Returns the session, and its working directory if that is known.
async fn open_or_create_session(
    args: &RunArgs,
    settings: &Settings,
    client: &Client,
    events: &mut mpsc::Receiver<HostEvent>,
) -> Result<(OpenedSession, Option<PathBuf>), CommandFailure> {
    let mode = settings.permission_mode.as_deref();
    match &args.session {
        None => Ok((create_session(client, &settings.cwd, mode).await?, Some(settings.cwd.clone()))),
        Some(name) => {
            let found = session_lookup::find_session(client, name).await?;
            // The default for new sessions does not change the mode of an existing session.
            let mode = mode.filter(|_| args.permission_mode.is_some());
            let directory = working_directory(&found);
            Ok((open_session(client, events, found.resource, mode).await?, directory))
        }
    }
}

/// Returns the envelope as the host wrote it, on one line.
fn to_json_line(raw: &RawValue) -> String {
    let text = raw.get();
    if !text.contains(['\n', '\r']) {
        return format!("{text}\n");
    }
    // Line breaks inside strings are escaped in JSON: these are between the tokens.
    format!("{}\n", text.replace(['\n', '\r'], " "))
}

async fn read_prompt(
    prompt: &str,
    attached: bool,
    stdin: &mut (impl AsyncRead + Unpin),
) -> Result<String, CommandFailure> {
    let invalid = |code: &'static str, text: &str| CommandFailure::new(Exit::Usage, code, text);
    let prompt = if prompt == "-" {
        let mut bytes = Vec::new();
        stdin.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 > MAX_PROMPT_BYTES {
            return Err(invalid("messageTooLong", "The message on stdin is longer than 16 MiB."));
        }
        String::from_utf8(bytes).map_err(|_| invalid("invalidMessage", "The message on stdin is not valid UTF-8."))?
    } else {
        prompt.to_owned()
    };
    // An attachment without text is a valid message.
    if prompt.trim().is_empty() && !attached {
        return Err(invalid("emptyMessage", "The message is empty."));
    }
    Ok(prompt)
}
