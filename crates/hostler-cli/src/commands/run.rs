use std::path::{Path, PathBuf};

use ahp_types::state::MessageAttachment;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

use super::trust::{ignored_configuration, trust_working_directory};
use crate::Io;
use crate::args::RunArgs;
use crate::attach::{self, Plan};
use crate::catalogue::{self, working_directory};
use crate::client::{Client, Event};
use crate::console::{Style, one_line};
use crate::exit::{Exit, Failure};
use crate::host::{Reached, reach};
use crate::ports::Wiring;
use crate::progress::Spinner;
use crate::settings::Settings;
use crate::turn::{
    Editor, Lines, Person, Renderer, Session, Shown, Turn, TurnEnd, create_session, explain, open_session,
};

/// A prompt that is longer than this is a mistake.
const MAX_PROMPT: u64 = 16 << 20;

/// Sends one message to a session, a new one or the one that is named, and shows the answer.
pub(crate) async fn run(args: &RunArgs, wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    if args.session.is_none() && !settings.cwd.is_dir() {
        return Err(Failure::new(Exit::Usage, format!("{} is not a directory.", settings.cwd.display())));
    }
    if args.prompt.expose() == "-" && args.attach.iter().any(|name| name == "-") {
        return Err(Failure::new(Exit::Usage, "stdin is either the message or an attachment, not both."));
    }
    let prompt = io.signals.unless(read_prompt(args.prompt.expose(), !args.attach.is_empty(), &mut io.stdin)).await??;
    if args.trust {
        trust_working_directory(args.cwd.as_deref().map(Path::new), wiring, settings, io).await?;
    }
    let reading = attach::attached(&args.attach, &settings.attachments, &wiring.environment, &mut io.stdin);
    let attachments = match io.signals.unless(reading).await?? {
        Ok(attachments) => attachments,
        Err(plan) => return Err(refused(&plan, settings.json, io)?),
    };
    let spinner = Spinner::start("Starting", &io.console);
    let mut host = io.signals.unless(reach(wiring, settings)).await??;
    let said = Said { prompt, attachments };
    let end = converse(said, args, wiring, settings, &mut host, spinner, io).await;
    let abandoned = matches!(end, Ok(TurnEnd::Abandoned));
    let mut outcome = end.and_then(explain);
    if let Err(failure) = &mut outcome {
        failure.say(&mut io.console);
    }
    // Who does not want to wait does not wait for goodbyes either; the supervisors end what is left.
    if !abandoned {
        host.leave(&mut io.console, &mut io.signals).await;
    }
    outcome.map(|()| Exit::Done)
}

/// What is to be said.
struct Said {
    prompt: String,
    attachments: Vec<MessageAttachment>,
}

/// Tells what becomes of attachments: programs everything, people what they should know.
fn show(plan: &Plan, json: bool, io: &mut Io) -> Result<(), Failure> {
    if json {
        plan.print(&mut io.console)?;
    }
    plan.tell(&mut io.console);
    Ok(())
}

/// The end of a message whose attachments cannot be sent.
fn refused(plan: &Plan, json: bool, io: &mut Io) -> Result<Failure, Failure> {
    show(plan, json, io)?;
    let why = plan.reason.as_deref().map(|reason| format!("{}\n", one_line(reason))).unwrap_or_default();
    Ok(Failure::new(Exit::Failed, format!("{why}Nothing was sent.")))
}

/// One session, one turn.
async fn converse(
    said: Said,
    args: &RunArgs,
    wiring: &Wiring,
    settings: &Settings,
    host: &mut Reached,
    mut spinner: Spinner,
    io: &mut Io,
) -> Result<TurnEnd, Failure> {
    let Reached { client, events, .. } = host;
    let environment = &wiring.environment;
    // Who gave the message on stdin has nothing more to say there.
    let attended = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let attended = attended && args.prompt.expose() != "-" && !args.attach.iter().any(|name| name == "-");
    let (session, directory) = io.signals.unless(enter_session(args, settings, client, events)).await??;
    if let Some(directory) = directory
        && let Some(note) = ignored_configuration(directory, attended, wiring, settings, io).await?
    {
        spinner.clear();
        io.console.note(&note, Style::Yellow);
    }
    let Said { prompt, attachments } = said;
    if !attachments.is_empty()
        && let Some(plan) = io.signals.unless(client.plan(&session.chat, &attachments)).await??
    {
        if !plan.ok {
            return Err(refused(&plan, settings.json, io)?);
        }
        show(&plan, settings.json, io)?;
    }
    let turn = Turn::start(client, &session, &prompt, attachments, settings.model.as_deref()).await?;
    if session.busy {
        spinner.say("Waiting behind the running turn");
    }
    let Io { console, signals, stdin } = io;
    let person = attended.then(|| Person { lines: Lines::new(stdin), editor: Editor::of(environment) });
    if settings.json {
        drop(spinner);
        let show = |shown: Shown<'_>| match shown {
            Shown::Envelope(_, raw) => console.out(&json_line(raw)),
            Shown::Prompt(text) => {
                console.prompt(text);
                Ok(())
            }
        };
        return turn.follow(events, signals, person, show).await;
    }
    let mut renderer = Renderer::new(spinner);
    let show = |shown: Shown<'_>| match shown {
        Shown::Envelope(envelope, _) => renderer.show(envelope, console),
        Shown::Prompt(text) => {
            renderer.prompt(text, console);
            Ok(())
        }
    };
    let end = turn.follow(events, signals, person, show).await?;
    // An answer that nobody reads needs no last line either.
    let _unread = renderer.finish(console);
    Ok(end)
}

/// The session, and the directory that it works in, where that is known.
async fn enter_session(
    args: &RunArgs,
    settings: &Settings,
    client: &Client,
    events: &mut mpsc::Receiver<Event>,
) -> Result<(Session, Option<PathBuf>), Failure> {
    let mode = settings.permission_mode.as_deref();
    match &args.session {
        None => Ok((create_session(client, &settings.cwd, mode).await?, Some(settings.cwd.clone()))),
        Some(name) => {
            let found = catalogue::find(client, name).await?;
            // A default for new sessions does not change one that has its own mode.
            let mode = mode.filter(|_| args.permission_mode.is_some());
            let directory = working_directory(&found);
            Ok((open_session(client, events, found.resource, mode).await?, directory))
        }
    }
}

/// The envelope as the host wrote it, on one line.
fn json_line(raw: &RawValue) -> String {
    let text = raw.get();
    if !text.contains(['\n', '\r']) {
        return format!("{text}\n");
    }
    // Line breaks inside of strings are escaped in JSON: these stand between the tokens.
    format!("{}\n", text.replace(['\n', '\r'], " "))
}

async fn read_prompt(prompt: &str, attached: bool, stdin: &mut (impl AsyncRead + Unpin)) -> Result<String, Failure> {
    let usage = |text: &str| Failure::new(Exit::Usage, text);
    let prompt = if prompt == "-" {
        let mut bytes = Vec::new();
        stdin.take(MAX_PROMPT + 1).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 > MAX_PROMPT {
            return Err(usage("The message on stdin is longer than 16 MiB."));
        }
        String::from_utf8(bytes).map_err(|_| usage("The message on stdin is not UTF-8 text."))?
    } else {
        prompt.to_owned()
    };
    // A picture may speak for itself.
    if prompt.trim().is_empty() && !attached {
        return Err(usage("The message is empty."));
    }
    Ok(prompt)
}
