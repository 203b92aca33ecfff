//! `hostler sessions`: what the host keeps, for people and scripts.

mod doctor;
mod search;
mod table;
mod transcript;

use ahp_types::actions::{SessionIsArchivedChangedAction, SessionTitleChangedAction, StateAction};
use ahp_types::state::{ChatState, SessionState, SessionStatus, SessionSummary};
use hostler_redact::json_fault;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::Io;
use crate::args::SessionsCommand;
use crate::catalogue;
use crate::client::default_chat;
use crate::console::{Style, one_line};
use crate::environment::HostEnvironment;
use crate::exit::{Exit, Failure};
use crate::host::{Reached, reach};
use crate::ports::Wiring;
use crate::settings::Settings;

/// An answer to a question is shorter than this.
const MAX_ANSWER: u64 = 1024;

/// Lists, shows and tidies sessions.
pub(crate) async fn sessions(
    command: &SessionsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, Failure> {
    check(command, &wiring.environment)?;
    let mut host = io.signals.unless(reach(wiring, settings)).await??;
    let mut outcome = act(command, &wiring.environment, settings, &mut host, io).await;
    if let Err(failure) = &mut outcome {
        failure.say(&mut io.console);
    }
    host.leave(&mut io.console, &mut io.signals).await;
    outcome.map(|()| Exit::Done)
}

/// What is wrong without asking anybody.
fn check(command: &SessionsCommand, environment: &HostEnvironment) -> Result<(), Failure> {
    match command {
        SessionsCommand::Delete { yes: false, .. } if !can_ask(environment) => {
            Err(Failure::new(Exit::Usage, "Nobody can be asked here whether to delete: say --yes."))
        }
        SessionsCommand::Export { audit: false, .. } => {
            Err(Failure::new(Exit::Usage, "Say what to export: --audit, the session's audit log."))
        }
        SessionsCommand::Rename { title, .. } if title.expose().trim().is_empty() => {
            Err(Failure::new(Exit::Usage, "The title is empty."))
        }
        _ => Ok(()),
    }
}

/// Whether a person can be asked.
pub(super) fn can_ask(environment: &HostEnvironment) -> bool {
    environment.stdin_is_terminal && environment.stderr_is_terminal
}

async fn act(
    command: &SessionsCommand,
    environment: &HostEnvironment,
    settings: &Settings,
    host: &mut Reached,
    io: &mut Io,
) -> Result<(), Failure> {
    match command {
        SessionsCommand::List { all, tag, limit, .. } => {
            let wanted = Wanted { all: *all, tag: tag.as_deref(), limit: *limit };
            list(&wanted, settings.json, environment, host, io).await
        }
        SessionsCommand::Tag { session, tag, .. } => put_tag(session, tag.as_deref(), host, io).await,
        SessionsCommand::Search(args) => search::search(args, settings.json, environment, host, io).await,
        SessionsCommand::Show { session, reasoning, .. } => {
            show(session, *reasoning, settings.json, environment, host, io).await
        }
        SessionsCommand::Rename { session, title } => {
            let action = SessionTitleChangedAction { title: title.expose().clone() };
            let session = change(session, StateAction::SessionTitleChanged(action), host, io).await?;
            io.console.note(&format!("{} is now called {}.", name(&session), one_line(title.expose())), Style::Plain);
            Ok(())
        }
        SessionsCommand::Archive { session, undo } => {
            let action = SessionIsArchivedChangedAction { is_archived: !undo };
            let session = change(session, StateAction::SessionIsArchivedChanged(action), host, io).await?;
            let what = if *undo { "is back in the list" } else { "is archived" };
            io.console.note(&format!("{} {what}.", name(&session)), Style::Plain);
            Ok(())
        }
        SessionsCommand::Export { session, .. } => export_audit(session, host, io).await,
        SessionsCommand::DropImages { session, all } => drop_images(session, *all, host, io).await,
        SessionsCommand::Doctor { .. } => doctor::doctor(settings.json, environment, host, io).await,
        SessionsCommand::Delete { sessions, yes } => delete(sessions, *yes, host, io).await,
    }
}

/// Which sessions are listed.
struct Wanted<'a> {
    all: bool,
    tag: Option<&'a str>,
    limit: Option<u32>,
}

async fn list(
    wanted: &Wanted<'_>,
    json: bool,
    environment: &HostEnvironment,
    host: &Reached,
    io: &mut Io,
) -> Result<(), Failure> {
    let Wanted { all, tag, limit } = *wanted;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let wanted = |session: &SessionSummary| {
        (all || !is(session.status, SessionStatus::IsArchived)) && tag.is_none_or(|tag| tag_of(session) == Some(tag))
    };
    let sessions = io.signals.unless(catalogue::list(&host.client, limit, wanted)).await??;
    if json {
        return print_json(&sessions, io);
    }
    if sessions.is_empty() {
        let text = match (tag, all) {
            (Some(_), true) => "There are no sessions with this tag.",
            (Some(_), false) => "There are no sessions with this tag that are not archived.",
            (None, true) => "There are no sessions.",
            (None, false) => "There are no sessions that are not archived.",
        };
        io.console.note(text, Style::Dim);
        return Ok(());
    }
    let rows = table::rows(&sessions, &environment.home, jiff::Timestamp::now());
    let mut lines = table::lines(&rows, environment.columns).into_iter();
    if let Some(header) = lines.next() {
        io.console.out_line(&header, Style::Bold)?;
    }
    for line in lines {
        io.console.out_line(&line, Style::Plain)?;
    }
    Ok(())
}

/// A session and its chat, as the host keeps them.
#[derive(Serialize)]
struct Shown<'a> {
    resource: &'a str,
    session: &'a SessionState,
    chat: &'a ChatState,
}

async fn show(
    wanted: &str,
    reasoning: bool,
    json: bool,
    environment: &HostEnvironment,
    host: &mut Reached,
    io: &mut Io,
) -> Result<(), Failure> {
    let Reached { client, events, .. } = host;
    let read = async {
        let summary = catalogue::find(client, wanted).await?;
        let session = client.session(&summary.resource).await?;
        let chat = client.chat(events, &default_chat(&session)?).await?;
        Ok::<_, Failure>((summary, session, chat))
    };
    let (summary, session, chat) = io.signals.unless(read).await??;
    if json {
        return print_json(&Shown { resource: &summary.resource, session: &session, chat: &chat }, io);
    }
    let heading = table::heading(&summary, &environment.home);
    for block in transcript::blocks(&heading, &chat, reasoning) {
        io.console.out_foreign(&block.text, block.style)?;
        io.console.out("\n")?;
    }
    Ok(())
}

/// Changes a session and waits until the host has taken it.
async fn change(wanted: &str, action: StateAction, host: &mut Reached, io: &mut Io) -> Result<SessionSummary, Failure> {
    let Reached { client, events, .. } = host;
    let work = async {
        let summary = catalogue::find(client, wanted).await?;
        client.session(&summary.resource).await?;
        client.settle(events, &summary.resource, action).await?;
        Ok(summary)
    };
    io.signals.unless(work).await?
}

async fn put_tag(wanted: &str, tag: Option<&str>, host: &Reached, io: &mut Io) -> Result<(), Failure> {
    let client = &host.client;
    let work = async {
        let session = catalogue::find(client, wanted).await?;
        client.tag(&session.resource, tag).await?;
        Ok::<_, Failure>(session)
    };
    let session = io.signals.unless(work).await??;
    let text = match tag {
        Some(tag) => format!("{} has the tag {}.", name(&session), one_line(tag)),
        None => format!("{} has no tag.", name(&session)),
    };
    io.console.note(&text, Style::Plain);
    Ok(())
}

fn tag_of(session: &SessionSummary) -> Option<&str> {
    session.meta.as_ref()?.get("hostler")?.get("tag")?.as_str()
}

/// Each entry is a line, as the host wrote it.
async fn export_audit(wanted: &str, host: &Reached, io: &mut Io) -> Result<(), Failure> {
    let client = &host.client;
    let session = io.signals.unless(catalogue::find(client, wanted)).await??.resource;
    let mut after = Some(0);
    while let Some(from) = after {
        let page = io.signals.unless(client.audit(&session, from)).await??;
        for entry in &page.items {
            io.console.out_foreign(&format!("{}\n", entry.get()), Style::Plain)?;
        }
        // A host that sends the same page for ever is not followed.
        after = page.next.filter(|next| *next > from);
    }
    Ok(())
}

async fn drop_images(wanted: &str, all: bool, host: &Reached, io: &mut Io) -> Result<(), Failure> {
    let client = &host.client;
    let work = async {
        let summary = catalogue::find(client, wanted).await?;
        let chat = default_chat(&client.session(&summary.resource).await?)?;
        let dropped = client.drop_images(&chat, all).await?;
        Ok::<_, Failure>((summary, dropped))
    };
    let (session, dropped) = io.signals.unless(work).await??;
    let text = match dropped {
        0 => format!("The agent of {} remembers no picture.", name(&session)),
        1 => format!("The agent of {} has forgotten a picture.", name(&session)),
        many => format!("The agent of {} has forgotten {many} pictures.", name(&session)),
    };
    io.console.note(&text, Style::Plain);
    Ok(())
}

/// All are found before one is removed.
async fn delete(wanted: &[String], yes: bool, host: &Reached, io: &mut Io) -> Result<(), Failure> {
    let client = &host.client;
    let all = io.signals.unless(catalogue::list(client, usize::MAX, |_| true)).await??;
    let mut chosen: Vec<SessionSummary> = Vec::new();
    for wanted in wanted {
        let session = io.signals.unless(catalogue::choose(client, &all, wanted)).await??;
        if !chosen.iter().any(|other| other.resource == session.resource) {
            chosen.push(session);
        }
    }
    if !yes {
        for session in &chosen {
            io.console.note(&name(session), Style::Plain);
        }
        let what =
            if chosen.len() == 1 { "this session".to_owned() } else { format!("these {} sessions", chosen.len()) };
        io.console.note(&format!("Delete {what} for good? [y/N]"), Style::Bold);
        if !io.signals.unless(agreed(&mut io.stdin)).await?? {
            return Err(Failure::new(Exit::Failed, "Nothing was deleted."));
        }
    }
    for session in &chosen {
        let disposed = io.signals.unless(client.dispose_session(&session.resource)).await?;
        let failed = |error| Failure::new(Exit::Failed, format!("{} could not be deleted: {error}", name(session)));
        disposed.map_err(failed)?;
        io.console.note(&format!("{} is deleted.", name(session)), Style::Plain);
    }
    Ok(())
}

/// Reads one line; what is not a yes is a no.
pub(super) async fn agreed(stdin: &mut (impl AsyncRead + Unpin)) -> std::io::Result<bool> {
    let mut line = Vec::new();
    let mut stdin = stdin.take(MAX_ANSWER);
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

/// An answer that is newer, or older, than what this command knows.
fn not_understood(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, format!("The host's answer was not understood: {}.", json_fault(error)))
}

pub(super) fn print_json(value: &impl Serialize, io: &mut Io) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::other)?;
    io.console.out(&format!("{text}\n"))?;
    Ok(())
}

/// How a session is called in a sentence.
fn name(session: &SessionSummary) -> String {
    match one_line(&session.title) {
        title if title.is_empty() => one_line(&session.resource),
        title => format!("{} ({title})", one_line(&session.resource)),
    }
}

fn is(status: u32, flag: SessionStatus) -> bool {
    SessionStatus::from_bits(status).contains(flag)
}
