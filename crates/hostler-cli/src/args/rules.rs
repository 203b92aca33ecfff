//! Arguments of `hostler rules`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Lists, changes and tests permission rules.
///
/// The rules are in rules.toml in the state directory. A running host applies changes from the next tool call on, also to
/// pending requests. Deny overrides ask, and ask overrides allow.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
A RULE names a tool, with an optional pattern in parentheses:
  Bash(git status)             This command
  Bash(npm run:*)              Commands with this prefix
  Read(~/secrets/**)           Files, also for searches; Edit(src/**) matches all tools that write
  WebFetch(domain:example.com) A web host
  mcp__github                  All tools of an MCP server; mcp__github__get_* matches some of them
  KillShell                    Every call of a tool; * matches every tool")]
pub(crate) enum RulesCommand {
    /// Lists the rules, global ones first.
    List {
        /// Print the rules as JSON
        #[arg(long)]
        json: bool,
    },
    /// Adds a rule.
    #[command(after_long_help = "\
Examples:
  hostler rules add allow 'Bash(npm run:*)' --workspace ~/project
  hostler rules add ask 'Bash(git push:*)'
  hostler rules add deny 'Read(~/secrets/**)'")]
    Add(RuleArgs),
    /// Removes a rule.
    #[command(after_long_help = "\
Examples:
  hostler rules remove ask 'Bash(git push:*)'
  hostler rules remove allow 'Bash(npm run:*)' --workspace ~/project")]
    Remove(RuleArgs),
    /// Shows how a tool call would be decided, and why.
    ///
    /// Runs nothing. Uses the global rules and those of the directory, not those of a single session.
    ///
    /// Exits with 0 for every decision, with 2 if the call is invalid, and with 1 if the rules cannot be read.
    #[command(after_long_help = "\
Examples:
  hostler rules test 'Bash(rm -rf x)'
  hostler rules test 'Bash(git status && npm test)' --cwd ~/project
  hostler rules test 'Read(src/main.rs)'
  hostler rules test 'Write(src/main.rs)' --mode acceptEdits
  hostler rules test 'WebFetch(https://example.com/a)'
  hostler rules test mcp__github__create_issue")]
    Test {
        /// Tool call: a tool, with its command, file or URL in parentheses
        call: String,
        /// Working directory of the session [default: the current directory]
        #[arg(long, value_name = "DIR")]
        cwd: Option<OsString>,
        /// Permission mode of the session [default: default]
        #[arg(long, value_parser = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"])]
        mode: Option<String>,
        /// Print `{"decision": "allow"|"ask"|"deny", "reason": …, "rule": …}`; `rule` is null if no rule decided
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Effect on the calls that the rule matches
    pub(crate) effect: RuleEffect,
    /// Rule, such as `Bash(git status)`
    pub(crate) rule: String,
    /// Apply only to sessions in this folder [default: all sessions]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RuleEffect {
    /// Run without asking
    Allow,
    /// Ask a person, even if another rule allows the call
    Ask,
    /// Do not run, even if another rule allows the call
    Deny,
}
