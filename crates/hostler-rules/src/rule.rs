//! A rule and its parts. Parsing and printing are in submodules.

mod display;
mod parse;

use serde::{Deserialize, Serialize};

use crate::path_pattern::PathPattern;

/// What a rule does with the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The call runs without asking.
    Allow,
    /// A person is asked, even if other rules allow the call.
    Ask,
    /// The call does not run, even if other rules allow it.
    Deny,
}

/// Where a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// All sessions of this user.
    Global,
    /// All sessions in one workspace.
    Workspace,
    /// One session, until it ends.
    Session,
}

/// A permission rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Its effect.
    pub effect: Effect,
    /// The calls that it matches. [`Rule::parse`] reads its text and `Display` prints it.
    pub matcher: Matcher,
    /// Where it applies.
    pub scope: RuleScope,
}

/// The calls that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// `*`: every call.
    Everything,
    /// `Write`, `Bash`, `KillShell`: every call of a tool. `Edit` covers Edit, MultiEdit, Write and NotebookEdit, and
    /// `Read` covers Read, Glob, Grep, LS and NotebookRead.
    Tool(String),
    /// `mcp__github` (all tools of a server), `mcp__github__create_issue`, and prefixes: `mcp__*`,
    /// `mcp__github__get_*`.
    Mcp {
        /// The name, without the star.
        name: String,
        /// Whether a star follows, so that every name with this prefix matches.
        is_prefix: bool,
    },
    /// `Bash(git status)`, `Bash(npm run:*)`.
    Command(CommandPattern),
    /// `Read(~/secrets/**)`, `Edit(src/**)`, `Write(./out.txt)`. Tools are grouped as for [`Matcher::Tool`].
    Path {
        /// The tool.
        tool: String,
        /// The paths.
        pattern: PathPattern,
    },
    /// `WebFetch(domain:example.com)`.
    Domain(DomainPattern),
}

/// The words of a command, or its first words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    /// The words, without quotes. There is at least one.
    pub(crate) words: Vec<String>,
    /// Whether further words may follow. Words match as a whole: `git` does not match `gitk`.
    pub(crate) is_prefix: bool,
}

/// A web host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainPattern {
    pub(crate) host: String,
    /// `domain:*.example.com`: only the subdomains. A rule that denies or asks always covers them.
    pub(crate) subdomains_only: bool,
}

/// A rule text that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid rule `{text}`: {problem} (at character {position})")]
pub struct RuleError {
    /// The text, truncated for display.
    pub text: String,
    /// Position in characters, from 1.
    pub position: usize,
    /// How to fix it.
    pub problem: &'static str,
}

impl RuleError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        "invalidRule"
    }
}

/// Does a rule for the tool `named` cover the tool `called`?
pub(crate) fn covers_tool(named: &str, called: &str) -> bool {
    named == called
        || match named {
            "Edit" => matches!(called, "MultiEdit" | "Write" | "NotebookEdit"),
            "Read" => matches!(called, "Glob" | "Grep" | "LS" | "NotebookRead"),
            _ => false,
        }
}
