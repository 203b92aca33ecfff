//! The whole way of a message, shown hop by hop on a host with scratch directories.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{ResponsePart, UsageInfo};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc;

use crate::Io;
use crate::browser;
use crate::client::{Client, Event};
use crate::commands::{agents, serve};
use crate::console::{Console, Style, one_line};
use crate::exit::{Exit, Failure};
use crate::host::{OwnHost, options};
use crate::ports::{AgentDiag, ClaudeChoice, CredentialSpec, UpstreamKind, UpstreamSettings, UpstreamSpec, Wiring};
use crate::reload;
use crate::settings::Settings;
use crate::state::{HostLock, StateDir};
use crate::turn::{Session, Shown, Turn, create_session, explain};

const FIRST: &str = "hi";
const SECOND: &str = "and once more";

/// What is encoded in a place inside of the page: as browsers do it, and dots, which would make it a file.
const IN_PLACES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Shows everything at once.
pub(crate) async fn demo(once: bool, wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    install_what_is_missing(wiring, settings, io).await?;
    let scratch = tempfile::Builder::new().prefix("hostler-demo-").tempdir_in(&wiring.environment.temp_dir)?;
    let settings = scratch_settings(settings, scratch.path())?;

    let began = Instant::now();
    let own = io.signals.unless(start(wiring, &settings)).await??;
    legend(&settings, &mut io.console)?;
    hop("host", &format!("ready in {} on port {}", ms(began.elapsed()), own.endpoint().port), &mut io.console)?;

    let mut shown = show(&own, &settings, io).await;
    if let Ok(session) = &shown {
        shown = page(&own, session, once, scratch.path(), wiring, io).await.map(|()| session.clone());
    }
    match &mut shown {
        Ok(_) if !once => keep_serving(&own, &settings, io).await,
        Ok(_) => {}
        Err(failure) => failure.say(&mut io.console),
    }
    let stopped = own.stop(&mut io.signals).await;
    shown.and(stopped).map(|()| Exit::Done)
}

/// The managed build that the settings mean. Without network, an agent on the PATH will do.
async fn install_what_is_missing(wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<(), Failure> {
    let wanted = match settings.claude {
        ClaudeChoice::Path(_) => return Ok(()),
        ClaudeChoice::Js => Some("js"),
        ClaudeChoice::Native => Some("native"),
        ClaudeChoice::Auto => None,
    };
    let Some(installer) = wiring.installers.iter().find(|installer| installer.provider() == "claude") else {
        return Ok(());
    };
    let build = match wanted {
        Some(build) => build.to_owned(),
        None => agents::default_build(installer.as_ref())?,
    };
    if installer.installed(&build).is_some() {
        return Ok(());
    }
    match agents::install(installer, &build, io).await {
        Ok(installed) => io.console.note(&agents::summary(installer, &installed), Style::Plain),
        Err(mut failure)
            if failure.exit == Exit::AgentMissing
                && wanted.is_none()
                && wiring.environment.find_program("claude").is_some() =>
        {
            failure.say(&mut io.console);
            io.console.note("Going on with the `claude` on the PATH.", Style::Yellow);
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// The user's settings, but nothing of theirs is touched: state, working directory and the agent's own files are scratch.
fn scratch_settings(settings: &Settings, scratch: &Path) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    if !settings.upstream_from_flag {
        let scripted = UpstreamSpec {
            name: UpstreamKind::Scripted.as_str().to_owned(),
            settings: UpstreamSettings::Scripted,
            credential: CredentialSpec::None,
        };
        settings.gateway.upstreams = vec![scripted];
    }
    // What it shows does not change while it is shown.
    settings.source = None;
    if !settings.state_dir_given {
        settings.state_dir = scratch.join("state");
    }
    settings.cwd = scratch.join("project");
    let claude = scratch.join("claude");
    for directory in [&settings.cwd, &claude] {
        std::fs::create_dir(directory)?;
    }
    settings.agent_env.retain(|(name, _)| name != "CLAUDE_CONFIG_DIR");
    settings.agent_env.push(("CLAUDE_CONFIG_DIR".to_owned(), claude.display().to_string().into()));
    Ok(settings)
}

async fn start(wiring: &Wiring, settings: &Settings) -> Result<OwnHost, Failure> {
    let directory = StateDir::open(&settings.state_dir)?;
    let lock = HostLock::take(&directory).await?;
    let token = Some(directory.token(&lock)?);
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = options(wiring, settings, listen, token);
    OwnHost::start(wiring, &directory, lock, options, settings, reload::log).await
}

/// Where the session can be seen, and on a desktop the page itself. A host that ends now shows nothing any more.
async fn page(
    own: &OwnHost,
    session: &str,
    once: bool,
    scratch: &Path,
    wiring: &Wiring,
    io: &mut Io,
) -> Result<(), Failure> {
    let place = format!("session/{}", utf8_percent_encode(session, IN_PLACES));
    if once {
        let sentence = "To see the session in a browser, run the demo without --once.";
        return Ok(io.console.out_line(sentence, Style::Dim)?);
    }
    if !own.has_page() {
        return Ok(io.console.out_line(serve::NO_PAGE, Style::Dim)?);
    }
    let Some(link) = own.link().await else { return Ok(()) };
    hop("page", &link.to(&place), &mut io.console)?;
    // Scripts and tests read the line; a person who reads it on a terminal looks at the page next.
    if io.console.out_is_terminal()
        && let Some(link) = own.link().await
        && let Err(error) = browser::show(&link.to(&place), scratch, &wiring.environment)
    {
        tracing::info!(%error, "the page could not be opened in a browser");
    }
    Ok(())
}

/// Says which session it has shown.
async fn show(own: &OwnHost, settings: &Settings, io: &mut Io) -> Result<String, Failure> {
    let (client, mut events) = own.connect().await?;
    let result = show_turns(own, settings, &client, &mut events, io).await;
    drop(events);
    client.close().await;
    result
}

async fn show_turns(
    own: &OwnHost,
    settings: &Settings,
    client: &Client,
    events: &mut mpsc::Receiver<Event>,
    io: &mut Io,
) -> Result<String, Failure> {
    hop("client", "connected over a WebSocket, speaks AHP 1.0.0", &mut io.console)?;
    let session = create_session(client, &settings.cwd, settings.permission_mode.as_deref()).await?;
    let count = match own.host.diagnostics().agents.len() {
        0 => "no process yet".to_owned(),
        count => format!("{count} processes"),
    };
    hop("session", &format!("{} created: {count}", session.uri), &mut io.console)?;

    let first = show_turn(own, client, events, &session, FIRST, None, io).await?;
    let second = show_turn(own, client, events, &session, SECOND, first.as_ref(), io).await?;
    if let (Some(first), Some(second)) = (first, second) {
        let text = if first.pid == second.pid { "the same process" } else { "another process" };
        hop("agent", &format!("the second message went to {text} (pid {})", second.pid), &mut io.console)?;
    }
    Ok(session.uri)
}

async fn show_turn(
    own: &OwnHost,
    client: &Client,
    events: &mut mpsc::Receiver<Event>,
    session: &Session,
    message: &str,
    known: Option<&AgentDiag>,
    io: &mut Io,
) -> Result<Option<AgentDiag>, Failure> {
    let Io { console, signals, .. } = io;
    let requests = own.host.diagnostics().gateway_requests;
    hop("you", &format!("“{message}”"), console)?;
    let turn = Turn::start(client, session, message, Vec::new(), None).await?;
    let mut view = TurnView::new(own, session, turn.started(), known.cloned());
    let show = |shown: Shown<'_>| match shown {
        Shown::Envelope(envelope, _) => view.see(envelope, console),
        Shown::Prompt(_) => Ok(()),
    };
    let end = turn.follow(events, signals, None, show).await?;
    view.flush(console)?;
    explain(end)?;
    let after = own.host.diagnostics();
    let count = after.gateway_requests.saturating_sub(requests);
    hop("gateway", &format!("{count} {} to the upstream", if count == 1 { "request" } else { "requests" }), console)?;
    if let Some(usage) = &view.usage {
        hop("usage", &usage_text(usage), console)?;
    }
    hop("turn", &format!("complete after {}", ms(turn.started().elapsed())), console)?;
    Ok(after.agents.into_iter().find(|agent| agent.session == session.uri).or(view.agent))
}

/// What one turn shows while it runs.
struct TurnView<'a> {
    own: &'a OwnHost,
    session: &'a Session,
    began: Instant,
    agent: Option<AgentDiag>,
    /// The answer's line that is not complete yet.
    text: String,
    delta: Option<Duration>,
    usage: Option<UsageInfo>,
}

impl<'a> TurnView<'a> {
    fn new(own: &'a OwnHost, session: &'a Session, began: Instant, agent: Option<AgentDiag>) -> Self {
        Self { own, session, began, agent, text: String::new(), delta: None, usage: None }
    }

    fn see(&mut self, envelope: &ActionEnvelope, console: &mut Console) -> std::io::Result<()> {
        match &envelope.action {
            StateAction::SessionReady(_) => self.meet_agent(console),
            StateAction::ChatResponsePart(action) => match &action.part {
                ResponsePart::Markdown(part) => self.hear(&part.content, console),
                _ => Ok(()),
            },
            StateAction::ChatDelta(action) => self.hear(&action.content, console),
            StateAction::ChatUsage(action) => {
                self.usage = Some(action.usage.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn meet_agent(&mut self, console: &mut Console) -> std::io::Result<()> {
        let agents = self.own.host.diagnostics().agents;
        let Some(agent) = agents.into_iter().find(|agent| agent.session == self.session.uri) else {
            return Ok(());
        };
        let version = agent.version.as_deref().unwrap_or("of an unknown version");
        let text = format!("Claude Code {version} started in {} (pid {})", ms(self.began.elapsed()), agent.pid);
        self.agent = Some(agent);
        hop("agent", &text, console)
    }

    fn hear(&mut self, text: &str, console: &mut Console) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.delta.is_none() {
            let delta = *self.delta.insert(self.began.elapsed());
            hop("gateway", &format!("first words after {}", ms(delta)), console)?;
        }
        self.text.push_str(text);
        while let Some((line, rest)) = self.text.split_once('\n') {
            hop("claude", &one_line(line), console)?;
            self.text = rest.to_owned();
        }
        Ok(())
    }

    fn flush(&mut self, console: &mut Console) -> std::io::Result<()> {
        let rest = std::mem::take(&mut self.text);
        if rest.trim().is_empty() { Ok(()) } else { hop("claude", &one_line(&rest), console) }
    }
}

fn usage_text(usage: &UsageInfo) -> String {
    let count = |tokens: Option<i64>| tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
    let model = usage.model.as_deref().map(|model| format!(" ({})", one_line(model))).unwrap_or_default();
    format!("{} tokens in, {} out{model}", count(usage.input_tokens), count(usage.output_tokens))
}

fn legend(settings: &Settings, console: &mut Console) -> std::io::Result<()> {
    let upstream = settings.gateway.upstreams.first().map_or("none", |spec| spec.name.as_str());
    console.out_line("The way of a message", Style::Bold)?;
    console.out_line("  you → client ⇄ host → session → agent → gateway → upstream, and back", Style::Dim)?;
    console.out_line(&format!("  upstream: {upstream}; directories: scratch, gone afterwards"), Style::Dim)?;
    console.out_line("", Style::Plain)
}

fn hop(name: &str, text: &str, console: &mut Console) -> std::io::Result<()> {
    console.out_line(&format!("{name:>9} │ {text}"), Style::Plain)
}

async fn keep_serving(own: &OwnHost, settings: &Settings, io: &mut Io) {
    io.console.note("", Style::Plain);
    serve::introduce(own, &mut io.console);
    let state = settings.state_dir.display();
    io.console.note(&format!("Try: hostler run --state-dir {state} \"hello\""), Style::Plain);
    io.console.note("Ctrl-C ends the demo.", Style::Dim);
    io.signals.next().await;
}

fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
