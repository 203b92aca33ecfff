//! `hostler rules`: the grammar.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Lists, changes and tests the rules that say what agents may do.
///
/// They are in rules.toml of the state directory. A host that runs follows them from the next tool call on, and decides what
/// waits for a person by them. Deny beats ask beats allow, over all rules.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
A RULE names a tool, and what it is about in parentheses:
  Bash(git status)             this command
  Bash(npm run:*)              commands that begin like this
  Read(~/secrets/**)           files, also by searches; Edit(src/**) stands for all that write
  WebFetch(domain:example.com) a host on the web
  mcp__github                  all tools of an MCP server; mcp__github__get_* some of them
  KillShell                    a tool, whatever it is about; * is every tool")]
pub(crate) enum RulesCommand {
    /// Lists the rules, those for all sessions first.
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
    /// Says what would become of a tool call, and why.
    ///
    /// Nothing is run. The rules for all sessions and those of the directory count; what a session allows itself does not.
    ///
    /// Exits with 0 whatever the decision is, with 2 if this is not a call, and with 1 if the rules cannot be read.
    #[command(after_long_help = "\
Examples:
  hostler rules test 'Bash(rm -rf x)'
  hostler rules test 'Bash(git status && npm test)' --cwd ~/project
  hostler rules test 'Read(src/main.rs)'
  hostler rules test 'Write(src/main.rs)' --mode acceptEdits
  hostler rules test 'WebFetch(https://example.com/a)'
  hostler rules test mcp__github__create_issue")]
    Test {
        /// The call: a tool, and in parentheses its command line, file or address
        call: String,
        /// The folder that the agent works in [default: the current one]
        #[arg(long, value_name = "DIR")]
        cwd: Option<OsString>,
        /// The session's permission mode [default: default]
        #[arg(long, value_parser = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"])]
        mode: Option<String>,
        /// Print `{"decision": "allow"|"ask"|"deny", "reason": …, "rule": …}`; `rule` is null where no rule decided
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// What it does about the calls that it matches
    pub(crate) effect: RuleEffect,
    /// The rule, as in `Bash(git status)`
    pub(crate) rule: String,
    /// Only for sessions in this folder [default: for all]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RuleEffect {
    /// They run without a question
    Allow,
    /// A person is asked, whatever other rules allow
    Ask,
    /// They do not run, whatever other rules say
    Deny,
}
