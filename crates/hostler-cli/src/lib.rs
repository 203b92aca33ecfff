//! The command line. Commands that need a host, except `serve`, are AHP clients of the state directory's host.
//!
//! Where no host runs, a command starts one in its own process, except `link`. `rules` and `trust` edit files that
//! hosts follow; `agents`, `doctor` and `completions` need no host.
//!
//! The crate declares the [ports](Wiring) that it needs (a launcher of hosts, installers, checks), and the binary
//! implements them. It reads no environment variables and owns no globals: [`execute`] is a function of its
//! arguments.
//!
//! **Architecture Invariant:** this crate imports no code of engine, store, gateway or drivers; of a running host
//! it knows the WebSocket, [`RunningHost`], and the files of rules and trusted folders that both write.

#![forbid(unsafe_code)]

mod args;
mod attachments;
mod browser;
mod client;
mod commands;
mod console;
mod environment;
mod escape_text;
mod exit;
mod host;
mod ports;
mod progress;
mod reload;
mod session_lookup;
mod settings;
mod signals;
mod state;
mod terminal_mode;
mod time;
mod turn;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use hostler_telemetry::LogTap;
use tokio::io::AsyncRead;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::prelude::*;

pub use client::ClientError;
pub use console::Console;
pub use environment::HostEnvironment;
pub use exit::Exit;
pub use ports::{
    AgentDiagnostics, AgentPoolOptions, BackgroundOnStopSetting, ClaudeChoice, CopilotModeSetting, CredentialSpec,
    CredentialStoreSetting, CredentialVaultPort, DeviceCodePrompt, DeviceLogin, DoctorCheck, DoctorFinding,
    DollarAmount, DurabilitySetting, FileGrantSetting, FindingSeverity, FinishedRequestRecord, FolderInspector,
    GatewayOptions, HostDiagnostics, HostLauncher, HostOptions, LaunchError, LimitSettings, PageEndpoint,
    PriceSettings, ProxyLauncher, ProxyOptions, RequestSink, RunningHost, RunningProxy, SaveCredentialResult,
    SavedCredentialLocation, TerminalOptions, TlsFiles, UnattendedSetting, UpstreamKind, UpstreamSettings,
    UpstreamSpec, VaultError, VaultSettings, Wiring,
};
pub use settings::{DEFAULT_LISTEN, SettingsError};
pub use signals::{Signal, Signals};
pub use state::StateError;

use args::{Cli, CliCommand};
use console::TextStyle;
use exit::CommandFailure;
use settings::SettingsSource;

/// Streams and signals of the process.
pub struct Io {
    /// stdout and stderr.
    pub console: Console,
    /// SIGINT and SIGTERM.
    pub signals: Signals,
    /// stdin.
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("console", &self.console).finish_non_exhaustive()
    }
}

/// Runs the whole command line for the binary's `main`: builds the runtime, uses the process's streams and signals,
/// and runs the command.
pub fn main(args: impl IntoIterator<Item = OsString>, wiring: Wiring) -> ExitCode {
    let mut console = Console::for_process(&wiring.environment);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.write_note(&format!("Failed to start the async runtime: {error}"), TextStyle::Red);
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(async {
        match Signals::install() {
            Ok(signals) => {
                let mut io = Io { console, signals, stdin: Box::new(tokio::io::stdin()) };
                execute(args, &wiring, &mut io).await
            }
            Err(error) => {
                console.write_note(&format!("Failed to install signal handlers: {error}"), TextStyle::Red);
                Exit::Failed
            }
        }
    });
    // A pending read of stdin must not keep the process alive.
    runtime.shutdown_background();
    exit.into()
}

/// Runs one command with everything passed in; the caller provides a runtime.
pub async fn execute(args: impl IntoIterator<Item = OsString>, wiring: &Wiring, io: &mut Io) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error, &mut io.console),
    };
    let mut json = cli.has_json_flag();
    match dispatch(&cli, wiring, io, &mut json).await {
        Ok(exit) => exit,
        Err(mut failure) => {
            failure.report(&mut io.console);
            if json {
                failure.report_json(&mut io.console);
            }
            failure.exit
        }
    }
}

/// Runs the command. `json` is set to whether the settings, once loaded, ask for JSON.
async fn dispatch(cli: &Cli, wiring: &Wiring, io: &mut Io, json: &mut bool) -> Result<Exit, CommandFailure> {
    if let CliCommand::Completions { shell } = cli.command {
        return commands::print_completions(shell, &mut io.console);
    }
    let source = SettingsSource::new(cli.flag_settings(), cli.common.config.as_deref(), &wiring.environment);
    let settings = Arc::new(source).load()?;
    *json = settings.json;
    start_logging(&settings.log_filter, &wiring.log_tap, &mut io.console);
    for warning in &settings.warnings {
        io.console.write_note(warning, TextStyle::Yellow);
    }
    match &cli.command {
        CliCommand::Serve(_) => commands::run_serve_command(wiring, &settings, io).await,
        CliCommand::Run(args) => commands::run_run_command(args, wiring, &settings, io).await,
        CliCommand::Demo(args) => commands::run_demo_command(args.once, wiring, &settings, io).await,
        CliCommand::Sessions(command) => commands::run_sessions_command(command, wiring, &settings, io).await,
        CliCommand::Grants(command) => commands::run_grants_command(command, wiring, &settings, io).await,
        CliCommand::Link(args) => commands::run_link_command(args, &settings, io).await,
        CliCommand::Rules(command) => commands::run_rules_command(command, wiring, &settings, io).await,
        CliCommand::Trust(command) => commands::run_trust_command(command, wiring, &settings, io).await,
        CliCommand::Proxy(_) => commands::run_proxy_command(wiring, &settings, io).await,
        CliCommand::Agents(command) => commands::run_agents_command(command, wiring, &settings, io).await,
        CliCommand::Doctor(_) => commands::run_doctor_command(wiring, &settings, io).await,
        CliCommand::Completions { .. } => Ok(Exit::Done),
    }
}

/// Prints help to stdout with success, or a usage error to stderr with failure.
fn print_usage(error: &clap::Error, console: &mut Console) -> Exit {
    if error.use_stderr() {
        console.write_note(error.to_string().trim_end(), TextStyle::Plain);
        return Exit::Usage;
    }
    match console.write_out(&error.to_string()) {
        Ok(()) => Exit::Done,
        Err(error) => CommandFailure::from(error).exit,
    }
}

fn start_logging(filter: &str, tap: &LogTap, console: &mut Console) {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|_| {
        console
            .write_note("Invalid log filter. Using `warn`. Set `log` to a filter such as `debug`.", TextStyle::Yellow);
        tracing_subscriber::EnvFilter::new("warn")
    });
    // At debug level, libraries for sockets and HTTP log the bytes that they transfer: tokens, keys and prompts.
    let harmless = filter_fn(|event| event.target().starts_with("hostler") || *event.level() <= tracing::Level::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(console.err_has_color());
    let lines = lines.with_filter(filter.and(harmless));
    // An embedding program may have set a subscriber already; then that one is used.
    let _already = tracing_subscriber::registry().with(lines).with(tap.layer()).try_init();
}
