//! `hostler sessions`: the grammar.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::RedactedArg;

/// Lists, shows and tidies the sessions of the host.
///
/// Uses the host of the state directory; where none runs, one is started for the time being. A SESSION is named by its
/// id, by the beginning of its id as long as no other begins like it, or by its URI.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Lists the sessions, the most recently changed first; ● marks the unread ones.
    #[command(after_long_help = "\
Examples:
  hostler sessions list
  hostler sessions list --all --limit 10
  hostler sessions list --tag later
  hostler sessions list --json | jq -r '.[].title'")]
    List {
        /// The archived ones too
        #[arg(long)]
        all: bool,
        /// Only those with this tag
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Print the summaries as JSON
        #[arg(long)]
        json: bool,
    },
    /// Finds sessions by what was said in them, here or with the agent's own command.
    ///
    /// All words have to be in one turn. "Phrases" stand in quotation marks, -word must not be there, begin* may go on.
    /// Filters: workspace:, tool:, file:, after:, before:, from:person, from:agent, session:. Ends with 1 if nothing is found.
    #[command(after_long_help = "\
Examples:
  hostler sessions search login bcrypt
  hostler sessions search '\"the login\" -test conf*'
  hostler sessions search --workspace . --since 7d --tool Bash migrate
  hostler sessions search --json from:person deploy | jq -r .session")]
    Search(SearchArgs),
    /// Shows what was said in a session.
    Show {
        /// The session
        session: String,
        /// With what the agent thought
        #[arg(long)]
        reasoning: bool,
        /// Print the session's and its chat's state as JSON
        #[arg(long)]
        json: bool,
    },
    /// Gives a session another title.
    Rename {
        /// The session
        session: String,
        /// The new title
        title: RedactedArg<String>,
    },
    /// Puts a tag on a session, where the agent's own command keeps tags, too.
    #[command(after_long_help = "\
Examples:
  hostler sessions tag 1f0c later
  hostler sessions tag 1f0c --remove")]
    Tag {
        /// The session
        session: String,
        /// The tag, which replaces the one it has
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        tag: Option<String>,
        /// Take the tag off
        #[arg(long)]
        remove: bool,
    },
    /// Hides a session from the list; nothing is lost.
    Archive {
        /// The session
        session: String,
        /// Bring it back
        #[arg(long)]
        undo: bool,
    },
    /// Writes what the host keeps about a session to stdout.
    ///
    /// The audit log says who decided what about which tool call, when and why: one entry a line, as JSON, the oldest
    /// first. It goes with its session: export it before you delete that.
    #[command(after_long_help = "\
Examples:
  hostler sessions export 1f0c --audit > audit.jsonl
  hostler sessions export 1f0c --audit | jq -r 'select(.decision == \"deny\") | [.decidedBy, .tool, .input] | @tsv'

Of an entry, who is a client's id, rule, mode, unattended or host; decision is allow, ask, deny or withdrawn; atMs counts
milliseconds since 1970; why is the rule, or the reason.")]
    Export {
        /// The session
        session: String,
        /// Its audit log
        #[arg(long)]
        audit: bool,
    },
    /// Takes pictures out of what the agent remembers, so that a session goes on whose model refuses one of them.
    ///
    /// Without --all it is the last one. What people see of the session stays as it is.
    #[command(name = "drop-images")]
    RemoveImages {
        /// The session
        session: String,
        /// All of them
        #[arg(long)]
        all: bool,
    },
    /// Says what is wrong with the agents' own records of conversations; nothing is changed.
    ///
    /// Every record is read: what is damaged in it, whether it can be read at all, whether a session's record is gone, and
    /// whether the record of a deleted session is still there. Ends with 1 if something is wrong.
    #[command(after_long_help = "\
Examples:
  hostler sessions doctor
  hostler sessions doctor --json | jq -r '.findings[] | select(.kind == \"damaged\") | .session'")]
    Doctor {
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes sessions for good: what the host keeps, their audit logs, and the agent's own records of them.
    ///
    /// The agent's own command does not list them any more, and cannot continue them. The project's files are not touched.
    #[command(after_long_help = "\
Examples:
  hostler sessions delete 1f0c
  hostler sessions delete --yes 1f0c 27aa")]
    Delete {
        /// The sessions
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What is looked for.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(required = true, value_name = "QUERY")]
    pub(crate) query: Vec<RedactedArg<String>>,
    /// Only sessions of this directory and those below it, or with this in their directory's name
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Only what was said since then: 7d, 12h, yesterday, 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = parse_time_filter)]
    pub(crate) since: Option<String>,
    /// Only what was said until then
    #[arg(long, value_name = "TIME", value_parser = parse_time_filter)]
    pub(crate) until: Option<String>,
    /// Only turns in which this tool was called
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only turns in which this file was read, written or attached
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<String>,
    /// At most so many sessions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Also conversations that were led elsewhere, where the host is set not to list any
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not wait until everything new was read
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print each session found as a line of JSON
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
