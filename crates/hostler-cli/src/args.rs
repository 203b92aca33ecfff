//! Arguments of the command line and their help. Values are text here; `settings` parses them.

mod redacted;
mod rules;
mod sessions;
mod trust;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use redacted::RedactedArg;
pub(crate) use rules::{RuleArgs, RuleEffect, RulesCommand};
pub(crate) use sessions::{SearchArgs, SessionsCommand};
pub(crate) use trust::TrustCommand;

use crate::settings::{SettingKey, SettingValue};

/// Runs coding agents on this machine for any number of clients.
///
/// Hostler runs Claude Code and speaks the Agent Host Protocol (AHP). Editors, browsers, terminals and scripts share the same
/// sessions.
#[derive(Debug, Parser)]
#[command(
    name = "hostler",
    version,
    max_term_width = 100,
    after_long_help = "\
Examples:
  hostler demo                          Run a demo offline
  hostler agents install claude         Install the tested build of Claude Code
  hostler run \"what is in here?\"       Send a message and stream the answer
  hostler sessions list                 List sessions
  hostler rules test 'Bash(rm -rf x)'   Check whether a tool call is allowed
  hostler trust check                   Show the configuration of this folder
  hostler serve                         Run the host for other clients
  hostler link                          Create a sign-in link for the web page
  hostler proxy                         Run the gateway for SDKs, curl and your own claude
  hostler doctor                        Report problems and how to fix them

Settings: a flag (--state-dir) overrides the variable (HOSTLER_STATE_DIR), which overrides the key
(state-dir) in $XDG_CONFIG_HOME/hostler/config.toml, which overrides the default. The upstream's key
comes from HOSTLER_UPSTREAM_KEY, from the source that the file names, from ANTHROPIC_API_KEY,
GITHUB_TOKEN or OPENAI_API_KEY, or from `hostler agents login`; never from the command line.

With --json, a failed command prints {\"error\":{\"code\":…,\"message\":…}} as its last line on stdout.

Exit codes: 0 success, 1 failure, 2 usage error, 3 agent missing, 4 credential rejected by the
upstream, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// State directory [default: $XDG_STATE_HOME/hostler]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Configuration file [default: $XDG_CONFIG_HOME/hostler/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Serve(ServeArgs),
    Run(RunArgs),
    Proxy(ProxyArgs),
    Demo(DemoArgs),
    #[command(subcommand)]
    Sessions(SessionsCommand),
    #[command(subcommand)]
    Rules(RulesCommand),
    #[command(subcommand)]
    Trust(TrustCommand),
    #[command(subcommand)]
    Grants(GrantsCommand),
    Link(LinkArgs),
    /// Lists and installs agents, and manages keys of upstreams.
    #[command(subcommand)]
    Agents(AgentsCommand),
    Doctor(DoctorArgs),
    /// Prints a completion script for a shell.
    #[command(after_long_help = "\
Examples:
  hostler completions bash > ~/.local/share/bash-completion/completions/hostler
  hostler completions fish > ~/.config/fish/completions/hostler.fish")]
    Completions {
        /// Shell
        shell: Shell,
    },
}

/// Runs the host until it is stopped.
///
/// Prints READY:<port> on stdout when it accepts connections; everything else goes to stderr. SIGTERM and SIGINT stop it:
/// turns are canceled and agents are closed. A second signal stops it at once. SIGHUP reloads the configuration file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler serve
  hostler serve --listen 127.0.0.1:0 --upstream scripted
  hostler serve --token-file ~/.hostler-token --claude js
  hostler serve --listen 0.0.0.0:8137 --tls-cert box.pem --tls-key box.key

Settings without a flag (HOSTLER_… variable, or key of the configuration file):
  handshake-timeout    Seconds that an agent may take to become ready [default: 60]
  idle-timeout         Seconds that an idle agent is kept running [default: 300]
  idle-timeout-max     Maximum if background work or an open question keeps it running
                       [default: 7200]
  stall-timeout        Seconds without output after which a turn is shown as stalled; 0: never
                       [default: 120]
  client-timeout       Seconds after which a disconnected client is removed from its sessions
                       [default: 30]
  interrupt-grace      Seconds that an agent may take to stop before it is killed [default: 2]
  max-agents           Maximum number of agents; further turns wait [default: 16]
  prewarm              Start an agent when a client opens a session [default: false]
  max-prewarmed        Maximum number of agents that are started ahead [default: 2]
  max-queued-messages  Maximum number of queued messages in a chat [default: 100]
  turns-in-memory      Completed turns of an open chat that stay in memory [default: 50]
  background-on-stop   What happens to background work when a turn is stopped: keep, stop or ask
                       [default: keep]
  show-external-sessions
                       External sessions that are listed, regardless of clients: none, recent,
                       last24Hours, last7Days, last30Days or all
  session-roots        Directories that sessions may work in, with their subdirectories
                       [default: every directory that the user can access]
  allow-bypass-permissions
                       Let clients choose the mode bypassPermissions [default: false]
  no-shell-commands    Disable `!` commands [default: false]
  no-terminals         Disable terminals [default: false]
  terminal-shell       Shell of terminals [default: the user's shell]
  max-terminals        Maximum number of terminals [default: 32]
  terminal-scrollback  Output that is stored per terminal [default: 512 KiB]
  install-agents       Install the agent when a session first needs it [default: false]
  no-editor-announcement
                       Do not announce the host to editors on this machine [default: false]
  editor-data-dirs     User data directories of those editors
  unattended           What happens to requests without an answer: wait, deny or allow
                       [default: wait]
  unattended-after     Seconds after which they are denied [default: at once]
  durability           full: accepted messages also survive a power failure, at the cost of a disk
                       sync for each [default: normal]
  allowed-origins      Web origins that may connect, in addition to the built-in ones
  allowed-hosts        Host headers that are accepted, in addition to loopback
  public-url           URL of the web page for browsers, such as https://box.example
  trusted-proxies      Addresses of proxies whose X-Forwarded-Proto header is trusted
                       [default: proxies on this machine]
  allowed-betas        Beta headers for upstreams that accept only some of them
  credential-store     Where `hostler agents login` stores keys: auto, keyring or file
                       [default: auto]
  trusted-folders      Folders whose own configuration applies without a question, with their
                       subfolders
  log                  Log filter for stderr, such as info or hostler_engine=debug [default: warn]")]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:8137]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<OsString>,
    /// Token that clients must send; visible in the process list, so a file is safer
    #[arg(long, value_name = "TOKEN")]
    token: Option<RedactedArg<OsString>>,
    /// File that contains the token [default: created in the state directory]
    #[arg(long, value_name = "FILE")]
    token_file: Option<OsString>,
    /// Accept every program on this machine without a token; loopback only
    #[arg(long)]
    no_token: bool,
    /// Certificate chain (PEM) for TLS; reloaded when the file changes
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_cert: Option<OsString>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_key: Option<OsString>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Claude Code to run: a managed build (native, js), or the path of an executable or cli.js [default: the managed
    /// native build, then `claude` on the PATH]
    #[arg(long, value_name = "native|js|PATH")]
    claude: Option<OsString>,
    /// Stop when stdin ends
    #[arg(long)]
    exit_on_stdin_eof: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    /// Default upstream: a name from [upstreams] in the configuration file, or anthropic, copilot, openai or scripted
    /// [default: anthropic]
    #[arg(long, value_name = "NAME")]
    upstream: Option<OsString>,
    /// URL of that upstream, if not the provider's own
    #[arg(long, value_name = "URL")]
    upstream_url: Option<RedactedArg<OsString>>,
}

/// Runs the gateway without a host: one address and one bearer for all upstreams.
///
/// Offers the Anthropic Messages API to SDKs, curl and your own agents. Prints READY:<port> and NONCE:<nonce> on stdout when
/// it accepts connections; clients send `Authorization: Bearer <nonce>.<any text>`. @NAME:MODEL selects a model of another
/// upstream than the default. SIGTERM and SIGINT stop it; SIGHUP reloads the configuration file, as does a change of the
/// file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler proxy
  hostler proxy --upstream scripted --log-requests
  hostler proxy --listen 127.0.0.1:4000 --metrics

Keys of the configuration file: proxy-listen, allowed-hosts, log-requests, metrics, and the tables
[upstreams.NAME], [limits] and [prices.\"MODEL\"].")]
pub(crate) struct ProxyArgs {
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<OsString>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Print a line per request on stderr, without its contents
    #[arg(long)]
    log_requests: bool,
    /// Serve /metrics and /healthz without a bearer
    #[arg(long)]
    metrics: bool,
    /// Stop when stdin ends
    #[arg(long)]
    exit_on_stdin_eof: bool,
}

/// Sends one message to a new or existing session and streams the answer to stdout.
///
/// Uses the running host of the state directory, or starts one for the duration of the command. Ctrl-C cancels the turn. On
/// a terminal, you are asked to approve tool calls unless another client answers first; the input of a tool can be edited
/// in $VISUAL or $EDITOR. Without a terminal, such calls are denied.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler run \"explain src/main.rs\"
  hostler run --cwd ~/project --model claude-sonnet-4-5 \"what does this do?\"
  git diff | hostler run -
  hostler run --attach shot.png --attach spec.pdf \"what differs?\"
  git diff | hostler run --attach - \"review this\"
  hostler run --session 1f0c \"and the tests?\"
  hostler run --json \"hi\" | jq -r 'select(.action.type == \"chat/delta\") | .action.content'")]
pub(crate) struct RunArgs {
    /// Message; - reads it from stdin
    pub(crate) prompt: RedactedArg<String>,
    /// Working directory of the session [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<OsString>,
    /// Continue this session, given by its id, the beginning of its id, or its URI
    #[arg(long, value_name = "SESSION", conflicts_with = "cwd")]
    pub(crate) session: Option<String>,
    /// Attach a file; can be repeated. A directory is attached as its path, and - is stdin
    ///
    /// Large images are shrunk; changes to files are reported on stderr. If a file cannot be sent, the message is not sent.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) attach: Vec<OsString>,
    /// Print each attachment and each envelope as a line of JSON instead of the answer
    #[arg(long)]
    json: bool,
    /// Trust the folder's current configuration without a question
    ///
    /// Otherwise you are asked on a terminal, and without a terminal the configuration is ignored. The home folder and / are
    /// trusted only if --cwd gives their full path.
    #[arg(long, conflicts_with = "session")]
    pub(crate) trust: bool,
    /// Model id [default: the default of the agent]
    #[arg(long, value_name = "MODEL")]
    model: Option<OsString>,
    /// Permission mode: default, acceptEdits, plan, … [default: default]
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<OsString>,
}

/// Runs a demo: shows how a message travels, step by step.
///
/// Installs Claude Code if it is missing, starts a host with temporary directories and the built-in scripted model (no
/// account, no network), runs two turns, prints each step, and keeps running so that you can connect.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler demo
  hostler demo --once
  ANTHROPIC_API_KEY=… hostler demo --upstream anthropic")]
pub(crate) struct DemoArgs {
    /// Exit after the turns and remove the temporary directories
    #[arg(long)]
    pub(crate) once: bool,
    /// Default upstream: a name from [upstreams] in the configuration file, or anthropic, copilot, openai or scripted
    /// [default: scripted]
    #[arg(long, value_name = "NAME")]
    upstream: Option<OsString>,
}

/// Manages access of clients to files outside the sessions' directories.
///
/// Clients can access only files in the sessions' directories, unless the configuration lets them ask for more (`grant` in
/// `[files]`). A grant stays until it is revoked.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  hostler grants list
  hostler grants allow 3f2a
  hostler grants revoke ~/notes")]
pub(crate) enum GrantsCommand {
    /// Lists grants and pending requests.
    List {
        /// Print the grants as JSON
        #[arg(long)]
        json: bool,
    },
    /// Allows a pending request.
    Allow {
        /// Id of the grant, the beginning of the id, or the file or directory
        grant: String,
    },
    /// Revokes a grant or rejects a pending request.
    Revoke {
        /// Id of the grant, the beginning of the id, or the file or directory
        grant: String,
    },
}

/// Creates a link that signs in one browser to the web page, with a QR code for a phone.
///
/// The link works once, for a few minutes. The browser stays signed in until it is signed out or not used for 90 days. Anyone
/// who opens the link has full access: do not share it. Requires a running host (`hostler serve`).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler link
  hostler link --url https://box.example --label \"Anna's phone\"
  hostler link --list
  hostler link --revoke 3f2a

The link uses the address that the host listens on. If browsers connect through a proxy or a tunnel,
pass their address with --url, or set `public-url` in the configuration file.")]
pub(crate) struct LinkArgs {
    /// Validity of the link in minutes, up to 1440 [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) minutes: Option<u64>,
    /// Label of the browser in the list [default: its own description]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// URL of the web page for browsers, such as https://box.example [default: the address of the host]
    #[arg(long, value_name = "BASE")]
    url: Option<OsString>,
    /// Print the QR code even without a terminal or for a loopback address
    #[arg(long, conflicts_with = "no_qr")]
    pub(crate) qr: bool,
    /// Do not print a QR code
    #[arg(long)]
    pub(crate) no_qr: bool,
    /// Print the link or the list as JSON
    #[arg(long, conflicts_with_all = ["qr", "revoke", "revoke_all"])]
    json: bool,
    /// List the signed-in browsers
    #[arg(long, conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr"])]
    pub(crate) list: bool,
    /// Sign out a browser, given by its id or the beginning of its id
    #[arg(long, value_name = "ID", conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr", "list"])]
    pub(crate) revoke: Option<String>,
    /// Sign out all browsers and invalidate unused links
    #[arg(long, conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr", "list", "revoke"])]
    pub(crate) revoke_all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Lists the available and the installed builds.
    List,
    /// Installs the tested build of an agent with npm into the cache directory.
    #[command(after_long_help = "\
Examples:
  hostler agents install claude
  hostler agents install claude --build js")]
    Install {
        /// Agent: claude
        agent: String,
        /// Build: native or js [default: native]
        #[arg(long)]
        build: Option<String>,
    },
    /// Saves the key of an upstream.
    ///
    /// The key is saved in the system keyring, or in a private file of the state directory if there is no keyring. It is
    /// typed without echo, or read from stdin. For GitHub Copilot, you enter a code on a web page instead.
    #[command(after_long_help = "\
Examples:
  hostler agents login copilot
  hostler agents login anthropic
  hostler agents login work < work.key")]
    Login {
        /// Upstream: a name from [upstreams] in the configuration file, or anthropic, copilot or openai
        upstream: String,
    },
    /// Removes the saved key of an upstream.
    Logout {
        /// Upstream
        upstream: String,
    },
}

/// Reports problems and how to fix them.
///
/// Changes nothing. Exits with 0 if Hostler is usable, 3 if the agent is missing, 1 for other problems.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

impl Cli {
    /// Returns whether the command line asks for JSON.
    pub(crate) fn has_json_flag(&self) -> bool {
        self.flag_settings().contains(&(SettingKey::Json, SettingValue::Flag(true)))
    }

    /// Returns the settings among the flags.
    pub(crate) fn flag_settings(&self) -> Vec<(SettingKey, SettingValue)> {
        let mut flags = FlagSettings::default();
        flags.text(
            SettingKey::StateDir,
            self.common.state_dir.as_ref().map(|path| path.as_os_str().to_owned()).as_ref(),
        );
        match &self.command {
            CliCommand::Serve(args) => {
                flags.text(SettingKey::Listen, args.listen.as_ref());
                flags.text(SettingKey::Token, args.token.as_ref().map(RedactedArg::expose));
                flags.text(SettingKey::TokenFile, args.token_file.as_ref());
                flags.switch(SettingKey::NoToken, args.no_token);
                flags.text(SettingKey::TlsCert, args.tls_cert.as_ref());
                flags.text(SettingKey::TlsKey, args.tls_key.as_ref());
                flags.text(SettingKey::Upstream, args.upstream.upstream.as_ref());
                flags.text(SettingKey::UpstreamUrl, args.upstream.upstream_url.as_ref().map(RedactedArg::expose));
                flags.text(SettingKey::Claude, args.claude.as_ref());
                flags.switch(SettingKey::ExitOnStdinEof, args.exit_on_stdin_eof);
            }
            CliCommand::Proxy(args) => {
                flags.text(SettingKey::ProxyListen, args.listen.as_ref());
                flags.text(SettingKey::Upstream, args.upstream.upstream.as_ref());
                flags.text(SettingKey::UpstreamUrl, args.upstream.upstream_url.as_ref().map(RedactedArg::expose));
                flags.switch(SettingKey::LogRequests, args.log_requests);
                flags.switch(SettingKey::Metrics, args.metrics);
                flags.switch(SettingKey::ExitOnStdinEof, args.exit_on_stdin_eof);
            }
            CliCommand::Run(args) => {
                flags.text(SettingKey::Cwd, args.cwd.as_ref());
                flags.switch(SettingKey::Json, args.json);
                flags.text(SettingKey::Model, args.model.as_ref());
                flags.text(SettingKey::PermissionMode, args.permission_mode.as_ref());
            }
            CliCommand::Sessions(
                SessionsCommand::List { json, .. }
                | SessionsCommand::Show { json, .. }
                | SessionsCommand::Doctor { json },
            ) => {
                flags.switch(SettingKey::Json, *json);
            }
            CliCommand::Sessions(SessionsCommand::Search(args)) => flags.switch(SettingKey::Json, args.json),
            CliCommand::Rules(RulesCommand::List { json }) | CliCommand::Grants(GrantsCommand::List { json }) => {
                flags.switch(SettingKey::Json, *json);
            }
            CliCommand::Rules(RulesCommand::Test { cwd, mode, json, .. }) => {
                flags.switch(SettingKey::Json, *json);
                flags.text(SettingKey::Cwd, cwd.as_ref());
                flags.text(SettingKey::PermissionMode, mode.as_ref().map(OsString::from).as_ref());
            }
            CliCommand::Trust(command) => flags.switch(SettingKey::Json, command.is_json()),
            CliCommand::Demo(args) => flags.text(SettingKey::Upstream, args.upstream.as_ref()),
            CliCommand::Doctor(args) => flags.switch(SettingKey::Json, args.json),
            CliCommand::Link(args) => {
                flags.text(SettingKey::PublicUrl, args.url.as_ref());
                flags.switch(SettingKey::Json, args.json);
            }
            CliCommand::Sessions(_)
            | CliCommand::Rules(_)
            | CliCommand::Grants(_)
            | CliCommand::Agents(_)
            | CliCommand::Completions { .. } => {}
        }
        flags.0
    }
}

#[derive(Default)]
struct FlagSettings(Vec<(SettingKey, SettingValue)>);

impl FlagSettings {
    fn text(&mut self, key: SettingKey, value: Option<&OsString>) {
        self.0.extend(value.map(|value| (key, SettingValue::Text(value.clone()))));
    }

    fn switch(&mut self, key: SettingKey, on: bool) {
        self.0.extend(on.then_some((key, SettingValue::Flag(true))));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::settings::{FORMER_NAMES, FormerSettingName, SETTINGS};

    #[test]
    fn clap_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn debug_output_redacts_secret_arguments() {
        for line in [
            "serve --token planted --upstream-url https://ada:planted@box.example",
            "proxy --upstream-url https://ada:planted@box.example",
            "run planted",
            "sessions search planted",
            "sessions rename 1f0c planted",
        ] {
            let cli = Cli::try_parse_from(["hostler"].into_iter().chain(line.split(' '))).unwrap();
            let shown = format!("{cli:?}");
            assert!(shown.contains("[hidden]") && !shown.contains("planted"), "{shown}");
        }
    }

    #[test]
    fn every_flag_is_a_setting_except_per_call_options() {
        // Options of one call, and the location of the settings.
        let not_settings = [
            "help",
            "version",
            "config",
            "once",
            "build",
            "session",
            "all",
            "limit",
            "reasoning",
            "undo",
            "audit",
            "yes",
            "attach",
            "workspace",
            "mode",
            "since",
            "until",
            "tool",
            "file",
            "no-wait",
            "tag",
            "remove",
            "minutes",
            "label",
            "url",
            "qr",
            "no-qr",
            "list",
            "revoke",
            "revoke-all",
            "subfolders",
            "trust",
        ];
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                let known = SETTINGS.iter().any(|setting| setting.name == flag) || not_settings.contains(&flag);
                assert!(known, "--{flag} of {} is not a setting", command.get_name());
            }
        }
    }

    #[test]
    fn former_names_are_not_flags() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                let is_renamed = |former: &FormerSettingName| {
                    former.name == flag || SETTINGS.iter().any(|it| it.key == former.key && it.name == flag)
                };
                assert!(!FORMER_NAMES.iter().any(is_renamed), "--{flag} needs an alias for its former name");
            }
        }
    }

    #[test]
    fn help_text_matches_snapshot() {
        let mut pages = Vec::new();
        collect(Cli::command().term_width(100), "hostler", &mut pages);
        insta::assert_snapshot!(pages.join("\n"));
    }

    fn collect(mut command: clap::Command, path: &str, pages: &mut Vec<String>) {
        command.build();
        pages.push(format!("$ {path} --help\n{}", command.render_long_help()));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            collect(sub.clone().term_width(100), &format!("{path} {}", sub.get_name()), pages);
        }
    }
}
