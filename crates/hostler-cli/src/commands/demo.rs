//! `hostler demo`: sends a message through a host with scratch directories and prints each hop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{ResponsePart, UsageInfo};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc;

use crate::Io;
use crate::browser;
use crate::client::{Client, HostEvent};
use crate::commands::{agents, serve};
use crate::console::{Console, TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::host::{InProcessHost, host_options};
use crate::ports::{
    AgentDiagnostics, ClaudeChoice, CredentialSpec, UpstreamKind, UpstreamSettings, UpstreamSpec, Wiring,
};
use crate::reload;
use crate::settings::Settings;
use crate::state::{HostLock, StateDir};
use crate::turn::{OpenedSession, RunningTurn, TurnOutput, create_session, turn_end_result};

const FIRST_PROMPT: &str = "hi";
const SECOND_PROMPT: &str = "and once more";

/// Characters that are percent-encoded in a path inside the page: as in browsers, plus dots, which would make the
/// path a file name.
const PAGE_PATH_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Runs `hostler demo`.
pub(crate) async fn run_demo_command(
    once: bool,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    install_missing_agent(wiring, settings, io).await?;
    let scratch = tempfile::Builder::new().prefix("hostler-demo-").tempdir_in(&wiring.environment.temp_dir)?;
    let settings = scratch_settings(settings, scratch.path())?;

    let began = Instant::now();
    let host = io.signals.run_or_interrupt(start_demo_host(wiring, &settings)).await??;
    print_legend(&settings, &mut io.console)?;
    print_hop(
        "host",
        &format!("ready in {} on port {}", format_ms(began.elapsed()), host.endpoint().port),
        &mut io.console,
    )?;

    let mut shown = show_session(&host, &settings, io).await;
    if let Ok(session) = &shown {
        shown = show_page_link(&host, session, once, scratch.path(), wiring, io).await.map(|()| session.clone());
    }
    match &mut shown {
        Ok(_) if !once => serve_until_stopped(&host, &settings, io).await,
        Ok(_) => {}
        Err(failure) => failure.report(&mut io.console),
    }
    let stopped = host.stop(&mut io.signals).await;
    shown.and(stopped).map(|()| Exit::Done)
}

/// Installs the managed build that the settings select. Without network, an agent on the PATH is used instead.
async fn install_missing_agent(wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<(), CommandFailure> {
    let selected = match settings.claude {
        ClaudeChoice::Path(_) => return Ok(()),
        ClaudeChoice::Js => Some("js"),
        ClaudeChoice::Native => Some("native"),
        ClaudeChoice::Auto => None,
    };
    let Some(installer) = wiring.installers.iter().find(|installer| installer.provider() == "claude") else {
        return Ok(());
    };
    let build = match selected {
        Some(build) => build.to_owned(),
        None => agents::default_build(installer.as_ref())?,
    };
    if installer.installed_build(&build).is_some() {
        return Ok(());
    }
    match agents::install_build(installer, &build, io).await {
        Ok(installed) => io.console.write_note(&agents::install_summary(installer, &installed), TextStyle::Plain),
        Err(mut failure)
            if failure.exit == Exit::AgentMissing
                && selected.is_none()
                && wiring.environment.find_program("claude").is_some() =>
        {
            failure.report(&mut io.console);
            io.console.write_note("Continuing with the `claude` on the PATH.", TextStyle::Yellow);
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// Returns the user's settings with scratch directories for the state, the working directory and the agent's files,
/// so that nothing of the user's is changed.
fn scratch_settings(settings: &Settings, scratch: &Path) -> Result<Settings, CommandFailure> {
    let mut settings = settings.clone();
    if !settings.is_upstream_from_flag {
        let scripted = UpstreamSpec {
            name: UpstreamKind::Scripted.as_str().to_owned(),
            settings: UpstreamSettings::Scripted,
            credential: CredentialSpec::None,
        };
        settings.gateway.upstreams = vec![scripted];
    }
    // The demo does not follow changes of the configuration file.
    settings.source = None;
    if !settings.is_state_dir_explicit {
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

async fn start_demo_host(wiring: &Wiring, settings: &Settings) -> Result<InProcessHost, CommandFailure> {
    let directory = StateDir::open(&settings.state_dir)?;
    let lock = HostLock::acquire(&directory).await?;
    let token = Some(directory.load_or_create_token(&lock)?);
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = host_options(wiring, settings, listen, token);
    InProcessHost::start(wiring, &directory, lock, options, settings, reload::log_notice).await
}

/// Prints the link to the session and, on a desktop, opens the page. With `--once`, no link is printed because the
/// host ends.
async fn show_page_link(
    host: &InProcessHost,
    session: &str,
    once: bool,
    scratch: &Path,
    wiring: &Wiring,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let path = format!("session/{}", utf8_percent_encode(session, PAGE_PATH_ENCODE_SET));
    if once {
        let sentence = "Run the demo without --once to open the session in a browser.";
        return Ok(io.console.write_out_line(sentence, TextStyle::Dim)?);
    }
    if !host.has_page() {
        return Ok(io.console.write_out_line(serve::NO_PAGE_NOTICE, TextStyle::Dim)?);
    }
    let Some(link) = host.create_page_link().await else { return Ok(()) };
    print_hop("page", &link.url_for(&path), &mut io.console)?;
    // Scripts and tests read this line; on a terminal the page is opened as well.
    if io.console.out_is_terminal()
        && let Some(link) = host.create_page_link().await
        && let Err(error) = browser::open_in_browser(&link.url_for(&path), scratch, &wiring.environment)
    {
        tracing::info!(%error, "failed to open the page in a browser");
    }
    Ok(())
}

/// Prints which session was used.
async fn show_session(host: &InProcessHost, settings: &Settings, io: &mut Io) -> Result<String, CommandFailure> {
    let (client, mut events) = host.connect().await?;
    let result = show_turns(host, settings, &client, &mut events, io).await;
    drop(events);
    client.close().await;
    result
}

async fn show_turns(
    host: &InProcessHost,
    settings: &Settings,
    client: &Client,
    events: &mut mpsc::Receiver<HostEvent>,
    io: &mut Io,
) -> Result<String, CommandFailure> {
    print_hop("client", "connected over a WebSocket with AHP 1.0.0", &mut io.console)?;
    let session = create_session(client, &settings.cwd, settings.permission_mode.as_deref()).await?;
    let count = match host.host.diagnostics().agents.len() {
        0 => "no process yet".to_owned(),
        count => format!("{count} processes"),
    };
    print_hop("session", &format!("{} created: {count}", session.uri), &mut io.console)?;

    let first = show_turn(host, client, events, &session, FIRST_PROMPT, None, io).await?;
    let second = show_turn(host, client, events, &session, SECOND_PROMPT, first.as_ref(), io).await?;
    if let (Some(first), Some(second)) = (first, second) {
        let text = if first.pid == second.pid { "the same process" } else { "another process" };
        print_hop("agent", &format!("the second message went to {text} (pid {})", second.pid), &mut io.console)?;
    }
    Ok(session.uri)
}

async fn show_turn(
    host: &InProcessHost,
    client: &Client,
    events: &mut mpsc::Receiver<HostEvent>,
    session: &OpenedSession,
    message: &str,
    known: Option<&AgentDiagnostics>,
    io: &mut Io,
) -> Result<Option<AgentDiagnostics>, CommandFailure> {
    let Io { console, signals, .. } = io;
    let requests = host.host.diagnostics().gateway_requests;
    print_hop("you", &format!("“{message}”"), console)?;
    let turn = RunningTurn::start(client, session, message, Vec::new(), None).await?;
    let mut view = TurnView::new(host, session, turn.started_at(), known.cloned());
    let show = |shown: TurnOutput<'_>| match shown {
        TurnOutput::Envelope(envelope, _) => view.handle_envelope(envelope, console),
        TurnOutput::Prompt(_) => Ok(()),
    };
    let end = turn.follow(events, signals, None, show).await?;
    view.flush(console)?;
    turn_end_result(end)?;
    let after = host.host.diagnostics();
    let count = after.gateway_requests.saturating_sub(requests);
    print_hop(
        "gateway",
        &format!("{count} {} to the upstream", if count == 1 { "request" } else { "requests" }),
        console,
    )?;
    if let Some(usage) = &view.usage {
        print_hop("usage", &format_usage(usage), console)?;
    }
    print_hop("turn", &format!("complete after {}", format_ms(turn.started_at().elapsed())), console)?;
    Ok(after.agents.into_iter().find(|agent| agent.session == session.uri).or(view.agent))
}

/// Output of one turn while it runs.
struct TurnView<'a> {
    host: &'a InProcessHost,
    session: &'a OpenedSession,
    started_at: Instant,
    agent: Option<AgentDiagnostics>,
    /// Incomplete last line of the answer.
    partial_line: String,
    first_delta_after: Option<Duration>,
    usage: Option<UsageInfo>,
}

impl<'a> TurnView<'a> {
    fn new(
        host: &'a InProcessHost,
        session: &'a OpenedSession,
        started_at: Instant,
        agent: Option<AgentDiagnostics>,
    ) -> Self {
        Self { host, session, started_at, agent, partial_line: String::new(), first_delta_after: None, usage: None }
    }

    fn handle_envelope(&mut self, envelope: &ActionEnvelope, console: &mut Console) -> std::io::Result<()> {
        match &envelope.action {
            StateAction::SessionReady(_) => self.print_agent_start(console),
            StateAction::ChatResponsePart(action) => match &action.part {
                ResponsePart::Markdown(part) => self.print_answer_text(&part.content, console),
                _ => Ok(()),
            },
            StateAction::ChatDelta(action) => self.print_answer_text(&action.content, console),
            StateAction::ChatUsage(action) => {
                self.usage = Some(action.usage.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn print_agent_start(&mut self, console: &mut Console) -> std::io::Result<()> {
        let agents = self.host.host.diagnostics().agents;
        let Some(agent) = agents.into_iter().find(|agent| agent.session == self.session.uri) else {
            return Ok(());
        };
        let version = agent.version.as_deref().unwrap_or("(unknown version)");
        let text =
            format!("Claude Code {version} started in {} (pid {})", format_ms(self.started_at.elapsed()), agent.pid);
        self.agent = Some(agent);
        print_hop("agent", &text, console)
    }

    fn print_answer_text(&mut self, text: &str, console: &mut Console) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.first_delta_after.is_none() {
            let delta = *self.first_delta_after.insert(self.started_at.elapsed());
            print_hop("gateway", &format!("first output after {}", format_ms(delta)), console)?;
        }
        self.partial_line.push_str(text);
        while let Some((line, rest)) = self.partial_line.split_once('\n') {
            print_hop("claude", &to_one_line(line), console)?;
            self.partial_line = rest.to_owned();
        }
        Ok(())
    }

    fn flush(&mut self, console: &mut Console) -> std::io::Result<()> {
        let rest = std::mem::take(&mut self.partial_line);
        if rest.trim().is_empty() { Ok(()) } else { print_hop("claude", &to_one_line(&rest), console) }
    }
}

fn format_usage(usage: &UsageInfo) -> String {
    let count = |tokens: Option<i64>| tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
    let model = usage.model.as_deref().map(|model| format!(" ({})", to_one_line(model))).unwrap_or_default();
    format!("{} tokens in, {} out{model}", count(usage.input_tokens), count(usage.output_tokens))
}

fn print_legend(settings: &Settings, console: &mut Console) -> std::io::Result<()> {
    let upstream = settings.gateway.upstreams.first().map_or("none", |spec| spec.name.as_str());
    console.write_out_line("How a message travels", TextStyle::Bold)?;
    console.write_out_line("  you → client ⇄ host → session → agent → gateway → upstream, and back", TextStyle::Dim)?;
    console.write_out_line(
        &format!("  upstream: {upstream}; directories: temporary, removed afterwards"),
        TextStyle::Dim,
    )?;
    console.write_out_line("", TextStyle::Plain)
}

fn print_hop(name: &str, text: &str, console: &mut Console) -> std::io::Result<()> {
    console.write_out_line(&format!("{name:>9} │ {text}"), TextStyle::Plain)
}

async fn serve_until_stopped(host: &InProcessHost, settings: &Settings, io: &mut Io) {
    io.console.write_note("", TextStyle::Plain);
    serve::print_connection_help(host, &mut io.console);
    let state = settings.state_dir.display();
    io.console.write_note(&format!("Try: hostler run --state-dir {state} \"hello\""), TextStyle::Plain);
    io.console.write_note("Press Ctrl-C to stop the demo.", TextStyle::Dim);
    io.signals.next_stop_signal().await;
}

fn format_ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
