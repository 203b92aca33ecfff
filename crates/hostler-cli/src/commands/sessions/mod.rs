//! `hostler sessions`: lists, prints, changes, exports and deletes sessions.

mod doctor;
mod search;
mod table;
mod transcript;

use ahp_types::actions::{SessionIsArchivedChangedAction, SessionTitleChangedAction, StateAction};
use ahp_types::state::{ChatState, SessionState, SessionStatus, SessionSummary};
use hostler_redact::redact_json_error;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::Io;
use crate::args::SessionsCommand;
use crate::client::{ClientError, default_chat};
use crate::console::{TextStyle, to_one_line};
use crate::environment::HostEnvironment;
use crate::exit::{CommandFailure, Exit};
use crate::host::{HostConnection, connect_or_start};
use crate::ports::Wiring;
use crate::session_lookup;
use crate::settings::Settings;

/// Maximum length of an answer to a question.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Runs `hostler sessions`.
pub(crate) async fn run_sessions_command(
    command: &SessionsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    check_arguments(command, &wiring.environment)?;
    let mut host = io.signals.run_or_interrupt(connect_or_start(wiring, settings)).await??;
    let mut outcome = execute(command, &wiring.environment, settings, &mut host, io).await;
    if let Err(failure) = &mut outcome {
        failure.report(&mut io.console);
    }
    host.disconnect(&mut io.console, &mut io.signals).await;
    outcome
}

/// Checks arguments before a host is contacted.
fn check_arguments(command: &SessionsCommand, environment: &HostEnvironment) -> Result<(), CommandFailure> {
    match command {
        SessionsCommand::Delete { yes: false, .. } if !is_interactive(environment) => Err(CommandFailure::new(
            Exit::Usage,
            "confirmationRequired",
            "Not running in a terminal. Pass --yes to delete.",
        )),
        SessionsCommand::Export { audit: false, .. } => Err(CommandFailure::new(
            Exit::Usage,
            "invalidArguments",
            "Nothing to export. Pass --audit to export the audit log.",
        )),
        SessionsCommand::Rename { title, .. } if title.expose().trim().is_empty() => {
            Err(CommandFailure::new(Exit::Usage, "invalidTitle", "The title is empty."))
        }
        _ => Ok(()),
    }
}

/// Returns whether the command can ask questions on a terminal.
pub(super) fn is_interactive(environment: &HostEnvironment) -> bool {
    environment.stdin_is_terminal && environment.stderr_is_terminal
}

async fn execute(
    command: &SessionsCommand,
    environment: &HostEnvironment,
    settings: &Settings,
    host: &mut HostConnection,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    match command {
        SessionsCommand::Search(args) => {
            return search::search_sessions(args, settings.json, environment, host, io).await;
        }
        SessionsCommand::Doctor { .. } => {
            return doctor::check_transcripts(settings.json, environment, host, io).await;
        }
        SessionsCommand::List { all, tag, limit, .. } => {
            let filter = SessionFilter { all: *all, tag: tag.as_deref(), limit: *limit };
            list_sessions(&filter, settings.json, environment, host, io).await?;
        }
        SessionsCommand::Tag { session, tag, .. } => set_tag(session, tag.as_deref(), host, io).await?,
        SessionsCommand::Show { session, reasoning, .. } => {
            show_session(session, *reasoning, settings.json, environment, host, io).await?;
        }
        SessionsCommand::Rename { session, title } => {
            let action = SessionTitleChangedAction { title: title.expose().clone() };
            let session = update_session(session, StateAction::SessionTitleChanged(action), host, io).await?;
            io.console.write_note(
                &format!("Renamed {} to {}.", describe_session(&session), to_one_line(title.expose())),
                TextStyle::Plain,
            );
        }
        SessionsCommand::Archive { session, undo } => {
            let action = SessionIsArchivedChangedAction { is_archived: !undo };
            let session = update_session(session, StateAction::SessionIsArchivedChanged(action), host, io).await?;
            let done = if *undo { "Restored" } else { "Archived" };
            io.console.write_note(&format!("{done} {}.", describe_session(&session)), TextStyle::Plain);
        }
        SessionsCommand::Export { session, .. } => export_audit_log(session, host, io).await?,
        SessionsCommand::RemoveImages { session, all } => remove_images(session, *all, host, io).await?,
        SessionsCommand::Delete { sessions, yes } => delete_sessions(sessions, *yes, host, io).await?,
    }
    Ok(Exit::Done)
}

/// Selects the sessions to list.
struct SessionFilter<'a> {
    all: bool,
    tag: Option<&'a str>,
    limit: Option<u32>,
}

async fn list_sessions(
    filter: &SessionFilter<'_>,
    json: bool,
    environment: &HostEnvironment,
    host: &HostConnection,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let SessionFilter { all, tag, limit } = *filter;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let is_listed = |session: &SessionSummary| {
        (all || !has_status(session.status, SessionStatus::IsArchived))
            && tag.is_none_or(|tag| session_tag(session) == Some(tag))
    };
    let sessions = io.signals.run_or_interrupt(session_lookup::list_sessions(&host.client, limit, is_listed)).await??;
    if json {
        return print_json(&sessions, io);
    }
    if sessions.is_empty() {
        let text = match (tag, all) {
            (Some(_), true) => "No sessions with this tag.",
            (Some(_), false) => "No active sessions with this tag. Pass --all to include archived sessions.",
            (None, true) => "No sessions.",
            (None, false) => "No active sessions. Pass --all to include archived sessions.",
        };
        io.console.write_note(text, TextStyle::Dim);
        return Ok(());
    }
    let rows = table::session_rows(&sessions, &environment.home, jiff::Timestamp::now());
    let mut lines = table::format_table(&rows, environment.columns).into_iter();
    if let Some(header) = lines.next() {
        io.console.write_out_line(&header, TextStyle::Bold)?;
    }
    for line in lines {
        io.console.write_out_line(&line, TextStyle::Plain)?;
    }
    Ok(())
}

/// Session and its chat in JSON output.
#[derive(Serialize)]
struct SessionJson<'a> {
    resource: &'a str,
    session: &'a SessionState,
    chat: &'a ChatState,
}

async fn show_session(
    name: &str,
    reasoning: bool,
    json: bool,
    environment: &HostEnvironment,
    host: &mut HostConnection,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let HostConnection { client, events, .. } = host;
    let load = async {
        let summary = session_lookup::find_session(client, name).await?;
        let session = client.subscribe_to_session(&summary.resource).await?;
        let chat = client.load_chat(events, &default_chat(&session)?).await?;
        Ok::<_, CommandFailure>((summary, session, chat))
    };
    let (summary, session, chat) = io.signals.run_or_interrupt(load).await??;
    if json {
        return print_json(&SessionJson { resource: &summary.resource, session: &session, chat: &chat }, io);
    }
    let heading = table::format_heading(&summary, &environment.home);
    for block in transcript::render_transcript(&heading, &chat, reasoning) {
        io.console.write_out_untrusted(&block.text, block.style)?;
        io.console.write_out("\n")?;
    }
    Ok(())
}

/// Changes a session and waits until the host has accepted the change.
async fn update_session(
    name: &str,
    action: StateAction,
    host: &mut HostConnection,
    io: &mut Io,
) -> Result<SessionSummary, CommandFailure> {
    let HostConnection { client, events, .. } = host;
    let work = async {
        let summary = session_lookup::find_session(client, name).await?;
        client.subscribe_to_session(&summary.resource).await?;
        client.dispatch_and_confirm(events, &summary.resource, action).await?;
        Ok(summary)
    };
    io.signals.run_or_interrupt(work).await?
}

async fn set_tag(name: &str, tag: Option<&str>, host: &HostConnection, io: &mut Io) -> Result<(), CommandFailure> {
    let client = &host.client;
    let work = async {
        let session = session_lookup::find_session(client, name).await?;
        client.set_tag(&session.resource, tag).await?;
        Ok::<_, CommandFailure>(session)
    };
    let session = io.signals.run_or_interrupt(work).await??;
    let text = match tag {
        Some(tag) => format!("Tagged {} with {}.", describe_session(&session), to_one_line(tag)),
        None => format!("Removed the tag of {}.", describe_session(&session)),
    };
    io.console.write_note(&text, TextStyle::Plain);
    Ok(())
}

fn session_tag(session: &SessionSummary) -> Option<&str> {
    session.meta.as_ref()?.get("hostler")?.get("tag")?.as_str()
}

/// Writes each entry as a line, as the host sent it.
async fn export_audit_log(name: &str, host: &HostConnection, io: &mut Io) -> Result<(), CommandFailure> {
    let client = &host.client;
    let session = io.signals.run_or_interrupt(session_lookup::find_session(client, name)).await??.resource;
    let mut after = Some(0);
    while let Some(from) = after {
        let page = io.signals.run_or_interrupt(client.fetch_audit_page(&session, from)).await??;
        for entry in &page.items {
            io.console.write_out_untrusted(&format!("{}\n", entry.get()), TextStyle::Plain)?;
        }
        // Stops if the host repeats the same page.
        after = page.next_cursor.filter(|next| *next > from);
    }
    Ok(())
}

async fn remove_images(name: &str, all: bool, host: &HostConnection, io: &mut Io) -> Result<(), CommandFailure> {
    let client = &host.client;
    let work = async {
        let summary = session_lookup::find_session(client, name).await?;
        let chat = default_chat(&client.subscribe_to_session(&summary.resource).await?)?;
        let removed = client.remove_images(&chat, all).await?;
        Ok::<_, CommandFailure>((summary, removed))
    };
    let (session, removed) = io.signals.run_or_interrupt(work).await??;
    let text = match removed {
        0 => format!("There are no images to remove from {}.", describe_session(&session)),
        1 => format!("Removed 1 image from {}.", describe_session(&session)),
        many => format!("Removed {many} images from {}.", describe_session(&session)),
    };
    io.console.write_note(&text, TextStyle::Plain);
    Ok(())
}

/// Finds all sessions before it deletes the first.
async fn delete_sessions(
    names: &[String],
    yes: bool,
    host: &HostConnection,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let client = &host.client;
    let all = io.signals.run_or_interrupt(session_lookup::list_sessions(client, usize::MAX, |_| true)).await??;
    let mut chosen: Vec<SessionSummary> = Vec::new();
    for name in names {
        let session = io.signals.run_or_interrupt(session_lookup::resolve_session(client, &all, name)).await??;
        if !chosen.iter().any(|other| other.resource == session.resource) {
            chosen.push(session);
        }
    }
    if !yes {
        for session in &chosen {
            io.console.write_note(&describe_session(session), TextStyle::Plain);
        }
        let what =
            if chosen.len() == 1 { "this session".to_owned() } else { format!("these {} sessions", chosen.len()) };
        io.console.write_note(&format!("Delete {what} permanently? [y/N]"), TextStyle::Bold);
        if !io.signals.run_or_interrupt(read_confirmation(&mut io.stdin)).await?? {
            return Err(CommandFailure::new(Exit::Failed, "notConfirmed", "Canceled. Nothing was deleted."));
        }
    }
    for session in &chosen {
        let disposed = io.signals.run_or_interrupt(client.dispose_session(&session.resource)).await?;
        let failed = |error: ClientError| {
            let text = format!("Failed to delete {}: {error}", describe_session(session));
            CommandFailure::new(Exit::Failed, error.code().to_owned(), text)
        };
        disposed.map_err(failed)?;
        io.console.write_note(&format!("Deleted {}.", describe_session(session)), TextStyle::Plain);
    }
    Ok(())
}

/// Reads one line; everything but a yes is a no.
pub(super) async fn read_confirmation(stdin: &mut (impl AsyncRead + Unpin)) -> std::io::Result<bool> {
    let mut line = Vec::new();
    let mut stdin = stdin.take(MAX_ANSWER_BYTES);
    loop {
        let mut byte = [0];
        if stdin.read(&mut byte).await? == 0 || byte == *b"\n" {
            break;
        }
        line.extend(byte);
    }
    let answer = String::from_utf8_lossy(&line).trim().to_lowercase();
    Ok(answer == "y" || answer == "yes")
}

/// Failure for an answer that is newer or older than this command.
fn unexpected_response(error: &serde_json::Error) -> CommandFailure {
    let text = format!("Unexpected response of the host: {}.", redact_json_error(error));
    CommandFailure::new(Exit::Failed, "unexpectedResponse", text)
}

pub(super) fn print_json(value: &impl Serialize, io: &mut Io) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::other)?;
    io.console.write_out(&format!("{text}\n"))?;
    Ok(())
}

/// Formats a session's name for a sentence.
fn describe_session(session: &SessionSummary) -> String {
    match to_one_line(&session.title) {
        title if title.is_empty() => to_one_line(&session.resource),
        title => format!("{} ({title})", to_one_line(&session.resource)),
    }
}

fn has_status(status: u32, flag: SessionStatus) -> bool {
    SessionStatus::from_bits(status).contains(flag)
}
