//! The command line's grammar and its help. Values are text here; `settings` reads them.

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

/// Keeps coding agents running on this machine, for any number of clients.
///
/// Hostler hosts the real Claude Code and speaks the Agent Host Protocol: editors, browsers, terminals and scripts drive
/// the same sessions.
#[derive(Debug, Parser)]
#[command(
    name = "hostler",
    version,
    max_term_width = 100,
    after_long_help = "\
Examples:
  hostler demo                          see the whole way of a message, offline
  hostler agents install claude         install the tested Claude Code
  hostler run \"what is in here?\"       ask once, the answer streams to stdout
  hostler sessions list                 what was said, and where
  hostler rules test 'Bash(rm -rf x)'   may an agent do that, and why?
  hostler trust check                   what does this folder bring, and does it apply?
  hostler serve                         keep agents running for other clients
  hostler link                          open the web page, here or on a phone
  hostler proxy                         the gateway alone, for SDKs, curl and a claude of your own
  hostler doctor                        what is missing, and how to fix it

Settings: a flag beats its HOSTLER_… variable (--state-dir: HOSTLER_STATE_DIR) beats its key in
$XDG_CONFIG_HOME/hostler/config.toml (state-dir) beats the default. The upstream's key is taken from
HOSTLER_UPSTREAM_KEY, from where the file says, from ANTHROPIC_API_KEY, GITHUB_TOKEN or
OPENAI_API_KEY as the upstream has it, or from `hostler agents login`; never from the command line.

Exit codes: 0 done, 1 failed, 2 usage, 3 agent missing, 4 upstream refused, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Where the host keeps its state [default: $XDG_STATE_HOME/hostler]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The configuration file [default: $XDG_CONFIG_HOME/hostler/config.toml]
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
    /// Lists and installs the agents that Hostler manages, and logs in to the upstreams that answer them.
    #[command(subcommand)]
    Agents(AgentsCommand),
    Doctor(DoctorArgs),
    /// Prints a completion script for a shell.
    #[command(after_long_help = "\
Examples:
  hostler completions bash > ~/.local/share/bash-completion/completions/hostler
  hostler completions fish > ~/.config/fish/completions/hostler.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Runs the host until it is told to stop.
///
/// Prints READY:<port> on stdout once it accepts connections; everything else goes to stderr. SIGTERM or SIGINT end it:
/// turns end as cancelled, agents are closed, nothing is left. A second signal ends it at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler serve
  hostler serve --listen 127.0.0.1:0 --upstream scripted
  hostler serve --token-file ~/.hostler-token --claude js
  hostler serve --listen 0.0.0.0:8137 --tls-cert box.pem --tls-key box.key

Settings without a flag, as HOSTLER_… variable or key of the configuration file:
  handshake-timeout    seconds that an agent may take to become ready [default: 60]
  idle                 seconds that an agent is kept after its last turn [default: 300]
  idle-max             seconds that it is kept at most, if work in the background or an open
                       question keeps it [default: 7200]
  stall                seconds of silence after which a turn is shown as stalled [default: 120]
  max-agents           how many agents may live at a time; more turns wait [default: 16]
  warm                 open an agent when a client looks at a session, before its first message
                       [default: false]
  max-warm             how many agents may be opened like that [default: 2]
  max-queue            how many messages may wait in one chat [default: 100]
  turns-in-memory      how many ended turns of an open chat stay in memory [default: 50]
  interrupt-grace      seconds that an agent may take to stop before it is ended [default: 2]
  background-on-stop   what becomes of work in the background when a turn is stopped: keep, stop
                       or ask [default: keep]
  show-external-sessions
                       which sessions are listed that were led elsewhere, whatever clients say:
                       none, recent, last24Hours, last7Days, last30Days or all
  absence              seconds that a client may be away before it leaves its sessions
                       [default: 30]
  session-roots        directories that sessions may work in or below; the host's own are never
                       among them [default: all that the user may use]
  allow-bypass         let clients choose the permission mode that asks nothing [default: false]
  no-commands          let nobody run `!commands` on this machine [default: false]
  no-terminals         let nobody open terminals on this machine [default: false]
  terminal-shell       the shell of terminals [default: the user's own]
  max-terminals        how many terminals there may be [default: 32]
  terminal-scrollback  bytes that are kept of what each of them shows [default: 512 KiB]
  install-agents       install the agent when a session first needs it [default: false]
  no-announce          do not tell the editors on this machine where the host is [default: false]
  announce-to          the editors' user data directories, in place of the usual ones
  unattended           what becomes of requests that nobody answers: wait, deny or allow
                       [default: wait]
  unattended-after     seconds after which they are denied [default: at once]
  durability           full: accepted messages survive a power failure too, at the price of a disk
                       sync each [default: normal]
  allowed-origins      web pages that may connect beside the built-in ones
  allowed-hosts        Host headers that are accepted beside loopback
  public-url           where browsers find the page, if not where the host listens, such as
                       https://box.example; its name is accepted as a Host header, too
  trusted-proxies      addresses of proxies that are believed when they say that a browser speaks
                       TLS; those on this machine are
  allowed-betas        betas that upstreams which take only some are told
  credential-store     where `hostler agents login` keeps keys: auto, keyring or file
                       [default: auto]
  trusted-folders      folders whose own configuration applies without a question, with their
                       subfolders, for machines without people
  log                  what is logged to stderr, such as info or hostler_engine=debug [default: warn]")]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:8137]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<OsString>,
    /// The token that clients must show; other users may see it in the process list, a file is safer
    #[arg(long, value_name = "TOKEN")]
    token: Option<RedactedArg<OsString>>,
    /// A file that holds the token [default: one made in the state directory]
    #[arg(long, value_name = "FILE")]
    token_file: Option<OsString>,
    /// Let every program on this machine in; refused with any address or name but loopback
    #[arg(long)]
    no_token: bool,
    /// Speak TLS with this certificate and those behind it, as PEM; read again when the file changes
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_cert: Option<OsString>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tls_key: Option<OsString>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Which Claude Code: a managed build (native, js), or the path of an executable or cli.js [default: the managed
    /// native build, then `claude` on the PATH]
    #[arg(long, value_name = "native|js|PATH")]
    claude: Option<OsString>,
    /// Stop when stdin ends, as a child of another program wants it
    #[arg(long)]
    exit_on_stdin_eof: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    /// Who answers the model calls: a name from [upstreams] of the configuration file, or anthropic, copilot, openai or
    /// scripted [default: anthropic]
    #[arg(long, value_name = "NAME")]
    upstream: Option<OsString>,
    /// Where that upstream is, if not at its usual address
    #[arg(long, value_name = "URL")]
    upstream_url: Option<RedactedArg<OsString>>,
}

/// Runs the gateway alone: one address and one bearer in front of all upstreams.
///
/// Speaks the Anthropic Messages API to SDKs, curl and agents that you start yourself. Prints READY:<port> and
/// NONCE:<nonce> on stdout once it accepts connections; clients send `Authorization: Bearer <nonce>.<any word>`. A model
/// of an upstream other than the default is asked for as @NAME:MODEL. SIGTERM or SIGINT end it, SIGHUP reads the
/// configuration again, which also happens when the file changes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler proxy
  hostler proxy --upstream scripted --log-requests
  hostler proxy --listen 127.0.0.1:4000 --metrics

Keys of the configuration file: proxy-listen, allowed-hosts, log-requests, metrics, and the tables
[upstreams.NAME], [limits] and [prices.\"MODEL\"].")]
pub(crate) struct ProxyArgs {
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<OsString>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Print a line per request on stderr: what was asked of whom and how it ended, nothing of its content
    #[arg(long)]
    log_requests: bool,
    /// Serve /metrics and /healthz to whoever can connect, without a bearer
    #[arg(long)]
    metrics: bool,
    /// Stop when stdin ends, as a child of another program wants it
    #[arg(long)]
    exit_on_stdin_eof: bool,
}

/// Sends one message to a session, a new one unless it is named, and streams the answer to stdout.
///
/// Uses the host of the state directory; where none runs, one is started for the time being. Ctrl-C interrupts the turn.
/// On a terminal you are asked about what needs your word, as long as no other client answers first; a tool's input can be
/// changed in $VISUAL or $EDITOR before it runs. Elsewhere it is denied.
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
    /// The message; - reads it from stdin
    pub(crate) prompt: RedactedArg<String>,
    /// The folder that the agent works in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<OsString>,
    /// Continue this session, in its own folder: its id, the beginning of the id, or its URI
    #[arg(long, value_name = "SESSION", conflicts_with = "cwd")]
    pub(crate) session: Option<String>,
    /// Send this file with the message, again for more, in this order; a directory is sent as its place, and - is stdin
    ///
    /// Pictures are shrunk where they have to be, and what else is done to files is told on stderr. If one of them cannot be
    /// sent, nothing is.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) attach: Vec<OsString>,
    /// Print each envelope as one line of JSON instead of the answer, and before them a line for each attachment
    #[arg(long)]
    json: bool,
    /// Trust the folder's own configuration as it is now, without a question, and remember that
    ///
    /// Otherwise the question is asked on a terminal, and elsewhere the configuration is ignored. The home folder and / are
    /// trusted only if --cwd gives their full path.
    #[arg(long, conflicts_with = "session")]
    pub(crate) trust: bool,
    /// The model's id [default: the host's]
    #[arg(long, value_name = "MODEL")]
    model: Option<OsString>,
    /// The agent's permission mode: default, acceptEdits, plan, … [default: default]
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<OsString>,
}

/// Shows the whole way of a message, step by step.
///
/// Installs Claude Code if it is missing, starts a host with scratch directories on the built-in scripted model (no
/// account, no network), runs two turns, shows what happened at each hop, and keeps serving so that you can connect.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler demo
  hostler demo --once
  ANTHROPIC_API_KEY=… hostler demo --upstream anthropic")]
pub(crate) struct DemoArgs {
    /// Exit after the turns and leave nothing behind
    #[arg(long)]
    pub(crate) once: bool,
    /// Who answers the model calls: a name from [upstreams] of the configuration file, or anthropic, copilot, openai or
    /// scripted [default: scripted]
    #[arg(long, value_name = "NAME")]
    upstream: Option<OsString>,
}

/// What clients were granted beyond the directories of the sessions.
///
/// Clients reach the files of the sessions' directories and nothing else, unless the configuration lets them ask for more
/// (`grant` in `[files]`). What they asked for stays granted until it is revoked.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  hostler grants list
  hostler grants allow 3f2a         what waits for a person, by the beginning of its id
  hostler grants revoke ~/notes     or by what it is about")]
pub(crate) enum GrantsCommand {
    /// Lists what was granted, and what waits to be.
    List {
        /// Print the grants as JSON
        #[arg(long)]
        json: bool,
    },
    /// Allows what a client has asked for.
    Allow {
        /// The grant's id, the beginning of it, or the file or directory
        grant: String,
    },
    /// Takes back what was granted, or refuses what waits.
    Revoke {
        /// The grant's id, the beginning of it, or the file or directory
        grant: String,
    },
}

/// Prints a link that opens the web page in one browser, and a QR code of it for a phone.
///
/// The link works once and for a few minutes; the browser stays signed in until it was away for 90 days or is signed out. Whoever
/// opens it first can do everything that you can, so show it to nobody else. Needs a host that runs: `hostler serve`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  hostler link
  hostler link --url https://box.example --label \"Anna's phone\"
  hostler link --list
  hostler link --revoke 3f2a

A link is for the address that the host listens on. Where browsers reach it by another one, through
a proxy or a tunnel, say so with --url, or for all links with `public-url` in the configuration
file.")]
pub(crate) struct LinkArgs {
    /// How long the link works, up to a day [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) minutes: Option<u64>,
    /// What to call the browser in the list [default: what it says about itself]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Where browsers find the page, such as https://box.example [default: where the host listens]
    #[arg(long, value_name = "BASE")]
    url: Option<OsString>,
    /// Print the QR code, also where stdout is no terminal or a phone could not follow it
    #[arg(long, conflicts_with = "no_qr")]
    pub(crate) qr: bool,
    /// Print no QR code
    #[arg(long)]
    pub(crate) no_qr: bool,
    /// Print the link, or the list, as JSON
    #[arg(long, conflicts_with_all = ["qr", "revoke", "revoke_all"])]
    json: bool,
    /// List the browsers that have signed in, in place of making a link
    #[arg(long, conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr"])]
    pub(crate) list: bool,
    /// Sign one of them out: its id, or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr", "list"])]
    pub(crate) revoke: Option<String>,
    /// Sign all of them out; links that were not opened yet work no more
    #[arg(long, conflicts_with_all = ["minutes", "label", "url", "qr", "no_qr", "list", "revoke"])]
    pub(crate) revoke_all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Lists the builds on offer and what is installed.
    List,
    /// Installs the tested build of an agent through npm, into the cache directory.
    #[command(after_long_help = "\
Examples:
  hostler agents install claude
  hostler agents install claude --build js")]
    Install {
        /// The agent: claude
        agent: String,
        /// The build: native or js [default: native]
        #[arg(long)]
        build: Option<String>,
    },
    /// Takes the key of an upstream and keeps it for the hosts of this user.
    ///
    /// It goes into the system keyring, or into a private file of the state directory where there is none. A key is
    /// typed without being shown, or read from stdin; GitHub Copilot shows a code to type on a web page instead.
    #[command(after_long_help = "\
Examples:
  hostler agents login copilot
  hostler agents login anthropic
  hostler agents login work < work.key")]
    Login {
        /// The upstream: a name from [upstreams] of the configuration file, or anthropic, copilot or openai
        upstream: String,
    },
    /// Forgets the key that `login` was given.
    Logout {
        /// The upstream
        upstream: String,
    },
}

/// Reports what is missing and how to fix it.
///
/// Looks and changes nothing. Exits with 0 if Hostler is usable, 3 if the agent is missing, 1 for other problems.
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
    use crate::settings::SETTINGS;

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
            let typed = Cli::try_parse_from(["hostler"].into_iter().chain(line.split(' '))).unwrap();
            let shown = format!("{typed:?}");
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
                assert!(known, "--{flag} of {} is no setting", command.get_name());
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
