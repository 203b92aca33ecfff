//! Arguments of `hostler sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::RedactedArg;

/// Lists, searches, shows and manages sessions.
///
/// Uses the running host of the state directory, or starts one for the duration of the command. A SESSION is given by its
/// id, a unique prefix of its id, or its URI.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Lists sessions, the most recently changed first. ● marks unread ones.
    #[command(after_long_help = "\
Examples:
  hostler sessions list
  hostler sessions list --all --limit 10
  hostler sessions list --tag later
  hostler sessions list --json | jq -r '.[].title'")]
    List {
        /// Include archived sessions
        #[arg(long)]
        all: bool,
        /// List only sessions with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// Maximum number of sessions
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Print the summaries as JSON
        #[arg(long)]
        json: bool,
    },
    /// Searches the messages of all sessions, including external ones.
    ///
    /// All terms must occur in one turn. Use "quotation marks" for phrases, -term to exclude a term, and prefix* for a prefix.
    /// Filters: workspace:, tool:, file:, after:, before:, from:person, from:agent, session:. Exits with 1 if nothing matches.
    #[command(after_long_help = "\
Examples:
  hostler sessions search login bcrypt
  hostler sessions search '\"the login\" -test conf*'
  hostler sessions search --workspace . --since 7d --tool Bash migrate
  hostler sessions search --json from:person deploy | jq -r .session")]
    Search(SearchArgs),
    /// Shows the messages of a session.
    Show {
        /// Session
        session: String,
        /// Include the reasoning of the agent
        #[arg(long)]
        reasoning: bool,
        /// Print the state of the session and its chat as JSON
        #[arg(long)]
        json: bool,
    },
    /// Renames a session.
    Rename {
        /// Session
        session: String,
        /// New title
        title: RedactedArg<String>,
    },
    /// Sets or removes the tag of a session. Claude Code uses the same tags.
    #[command(after_long_help = "\
Examples:
  hostler sessions tag 1f0c later
  hostler sessions tag 1f0c --remove")]
    Tag {
        /// Session
        session: String,
        /// Tag; replaces the current one
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        tag: Option<String>,
        /// Remove the tag
        #[arg(long)]
        remove: bool,
    },
    /// Archives a session: hides it from the list.
    Archive {
        /// Session
        session: String,
        /// Restore the session
        #[arg(long)]
        undo: bool,
    },
    /// Exports the audit log of a session to stdout.
    ///
    /// The audit log records who decided what about which tool call, when and why: one JSON object per line, the oldest
    /// first. It is deleted with its session.
    #[command(after_long_help = "\
Examples:
  hostler sessions export 1f0c --audit > audit.jsonl
  hostler sessions export 1f0c --audit | jq 'select(.decision == \"deny\")'

Fields of an entry: `decidedBy` is a client id, rule, mode, unattended or host; `decision` is
allow, ask, deny or withdrawn; `atMs` is in milliseconds since 1970; `reason` explains it.")]
    Export {
        /// Session
        session: String,
        /// Export the audit log
        #[arg(long)]
        audit: bool,
    },
    /// Removes images from the agent's transcript, for example if the model rejects one of them.
    ///
    /// Removes the last image, or all with --all. The session as displayed does not change.
    #[command(name = "remove-images", alias = "drop-images")]
    RemoveImages {
        /// Session
        session: String,
        /// Remove all images
        #[arg(long)]
        all: bool,
    },
    /// Checks the transcripts of all sessions and reports problems. Changes nothing.
    ///
    /// Reports damaged, unreadable and missing transcripts, and transcripts of deleted sessions that still exist. Exits with
    /// 1 if there are problems.
    #[command(after_long_help = "\
Examples:
  hostler sessions doctor
  hostler sessions doctor --json | jq -r '.findings[] | select(.kind == \"damaged\") | .session'")]
    Doctor {
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Deletes sessions permanently, with their audit logs and transcripts.
    ///
    /// Claude Code no longer lists them and cannot continue them. The project's files are not changed.
    #[command(after_long_help = "\
Examples:
  hostler sessions delete 1f0c
  hostler sessions delete --yes 1f0c 27aa")]
    Delete {
        /// Sessions
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// Arguments of a search.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Search terms
    #[arg(required = true, value_name = "QUERY")]
    pub(crate) query: Vec<RedactedArg<String>>,
    /// Search only sessions in this directory or below it, or whose directory contains this text
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Search only messages after this time: 7d, 12h, yesterday, 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = parse_time_filter)]
    pub(crate) since: Option<String>,
    /// Search only messages before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time_filter)]
    pub(crate) until: Option<String>,
    /// Search only turns that called this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Search only turns that read, wrote or attached this file
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<String>,
    /// Maximum number of sessions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Include external sessions that the host does not list
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not wait until new messages are indexed
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print each matching session as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Text that is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use a time such as 7d, 12h, yesterday, 2026-11-01 or 2026-11-01T12:00:00Z")]
struct TimeFilterError;

/// Checks that a text is a time in a form that hosts accept.
fn parse_time_filter(text: &str) -> Result<String, TimeFilterError> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ago = text.strip_suffix(['h', 'd', 'w', 'm', 'y']).is_some_and(|count| number(count) && count.len() <= 5);
    let month = |text: &str| text.parse::<jiff::civil::Date>().is_ok();
    let day = match text.len() {
        4 => number(text),
        7 => month(&format!("{text}-01")),
        10 => month(text),
        _ => false,
    };
    let is_time =
        ago || day || ["now", "today", "yesterday"].contains(&text) || text.parse::<jiff::Timestamp>().is_ok();
    match is_time {
        true => Ok(text.to_owned()),
        false => Err(TimeFilterError),
    }
}
