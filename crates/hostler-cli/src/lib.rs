//! The command line: every command that needs a host, but `serve`, is an AHP client of the state directory's host.
//!
//! The crate declares the [ports](Wiring) that it needs (a launcher of hosts, installers, checks) and the binary fills
//! them in. It reads no environment variables and owns no global: [`execute`] is a function of what it is given.
//!
//! **Architecture Invariant:** this crate imports no engine, no store, no gateway and no driver's code; of a running
//! host it knows the WebSocket, [`RunningHost`], the book of rules and the trusted folders that both write.

#![forbid(unsafe_code)]

mod args;
mod attach;
mod browser;
mod catalogue;
mod client;
mod commands;
mod console;
mod echo;
mod environment;
mod exit;
mod host;
mod ports;
mod progress;
mod reload;
mod settings;
mod signals;
mod state;
mod time;
mod turn;
mod visible;

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
    AgentDiag, BackgroundOnStop, ClaudeChoice, CopilotMode, CredentialSpec, CredentialStore, CredentialVault,
    DeviceCode, DeviceLogin, DoctorCheck, Dollars, Durability, Finding, FleetOptions, FolderInspector, GatewayOptions,
    GrantSetting, HostDiagnostics, HostLauncher, HostOptions, KeptCredential, KeptPlace, LaunchError, Level,
    LimitSettings, PageAt, PriceSettings, ProxyLauncher, ProxyOptions, RequestLine, RequestSink, RunningHost,
    RunningProxy, TerminalOptions, TlsFiles, Unattended, UpstreamKind, UpstreamSettings, UpstreamSpec, VaultError,
    VaultSettings, Wiring,
};
pub use settings::{DEFAULT_LISTEN, SettingsError};
pub use signals::{Signal, Signals};
pub use state::StateError;

use args::{Cli, Command};
use console::Style;
use exit::Failure;
use settings::Source;

/// What a command has of the process: its streams and its signals.
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

/// The whole command line, for the binary's `main`: builds the runtime, takes the process's streams and signals, and
/// runs the command.
pub fn main(args: impl IntoIterator<Item = OsString>, wiring: Wiring) -> ExitCode {
    let mut console = Console::of_process(&wiring.environment);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.note(&format!("The runtime cannot be started: {error}"), Style::Red);
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
                console.note(&format!("Signals cannot be received: {error}"), Style::Red);
                Exit::Failed
            }
        }
    });
    // A read of stdin that nobody wants any more must not hold the process.
    runtime.shutdown_background();
    exit.into()
}

/// Runs one command with everything passed in; the caller has a runtime.
pub async fn execute(args: impl IntoIterator<Item = OsString>, wiring: &Wiring, io: &mut Io) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return say_usage(&error, &mut io.console),
    };
    match dispatch(&cli, wiring, io).await {
        Ok(exit) => exit,
        Err(mut failure) => {
            failure.say(&mut io.console);
            failure.exit
        }
    }
}

async fn dispatch(cli: &Cli, wiring: &Wiring, io: &mut Io) -> Result<Exit, Failure> {
    if let Command::Completions { shell } = cli.command {
        return commands::completions(shell, &mut io.console);
    }
    let source = Source::new(cli.flags(), cli.common.config.as_deref(), &wiring.environment);
    let settings = Arc::new(source).load()?;
    start_log(&settings.log, &wiring.log, &mut io.console);
    for warning in &settings.warnings {
        io.console.note(warning, Style::Yellow);
    }
    match &cli.command {
        Command::Serve(_) => commands::serve(wiring, &settings, io).await,
        Command::Run(args) => commands::run(args, wiring, &settings, io).await,
        Command::Demo(args) => commands::demo(args.once, wiring, &settings, io).await,
        Command::Sessions(command) => commands::sessions(command, wiring, &settings, io).await,
        Command::Grants(command) => commands::grants(command, wiring, &settings, io).await,
        Command::Link(args) => commands::link(args, &settings, io).await,
        Command::Rules(command) => commands::rules(command, wiring, &settings, io).await,
        Command::Trust(command) => commands::trust(command, wiring, &settings, io).await,
        Command::Proxy(_) => commands::proxy(wiring, &settings, io).await,
        Command::Agents(command) => commands::agents(command, wiring, &settings, io).await,
        Command::Doctor(_) => commands::doctor(wiring, &settings, io).await,
        Command::Completions { .. } => Ok(Exit::Done),
    }
}

/// Help goes to stdout and is a success, a wrong command line goes to stderr and is not.
fn say_usage(error: &clap::Error, console: &mut Console) -> Exit {
    if error.use_stderr() {
        console.note(error.to_string().trim_end(), Style::Plain);
        return Exit::Usage;
    }
    match console.out(&error.to_string()) {
        Ok(()) => Exit::Done,
        Err(error) => Failure::from(error).exit,
    }
}

fn start_log(filter: &str, tap: &LogTap, console: &mut Console) {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|_| {
        console.note("HOSTLER_LOG is not a log filter such as `debug`: using `warn`.", Style::Yellow);
        tracing_subscriber::EnvFilter::new("warn")
    });
    // In detail, libraries for sockets and HTTP log the bytes that pass through them: tokens, keys and prompts.
    let harmless = filter_fn(|event| event.target().starts_with("hostler") || *event.level() <= tracing::Level::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(console.err_has_colour());
    let lines = lines.with_filter(filter.and(harmless));
    // Somebody who calls us may have a log already; then that one is used.
    let _already = tracing_subscriber::registry().with(lines).with(tap.layer()).try_init();
}
