//! A rule, its parts and its text.

mod display;
mod parse;

use serde::{Deserialize, Serialize};

use crate::path_pattern::PathPattern;

/// What a rule does about what it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It runs without a question.
    Allow,
    /// A person is asked, whatever other rules allow.
    Ask,
    /// It does not run, whatever other rules say.
    Deny,
}

/// How far a rule reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// All sessions of this user.
    Global,
    /// All sessions in one workspace.
    Workspace,
    /// One session, as long as it lives.
    Session,
}

/// A permission rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What it does.
    pub effect: Effect,
    /// What it is about. Its text is read by [`Rule::parse`] and written by `Display`.
    pub matcher: Matcher,
    /// How far it reaches.
    pub scope: RuleScope,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// `*`: every call.
    Everything,
    /// `Write`, `Bash`, `KillShell`: every call of a tool. `Edit` stands for Edit, MultiEdit, Write and NotebookEdit, and
    /// `Read` for Read, Glob, Grep, LS and NotebookRead.
    Tool(String),
    /// `mcp__github` (all tools of a server), `mcp__github__create_issue`, and prefixes: `mcp__*`, `mcp__github__get_*`.
    Mcp {
        /// The name, without the star.
        name: String,
        /// Whether a star followed, so that every name with this beginning matches.
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

/// The words of a command, all of them or the first ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    /// The words, without quotes. There is at least one.
    pub(crate) words: Vec<String>,
    /// Whether any further words may follow. Words are whole words: `git` does not begin `gitk`.
    pub(crate) is_prefix: bool,
}

/// A host on the web.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainPattern {
    pub(crate) host: String,
    /// `domain:*.example.com`: the hosts below it, and not itself. A rule that denies or asks covers those always.
    pub(crate) subdomains_only: bool,
}

/// A rule's text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a rule: {problem} (at character {position})")]
pub struct RuleError {
    /// The text, as far as it can be shown.
    pub text: String,
    /// Where, in characters from 1.
    pub position: usize,
    /// What to do about it.
    pub problem: String,
}

/// Does a rule that names the tool `named` speak of the tool `called`?
pub(crate) fn covers_tool(named: &str, called: &str) -> bool {
    named == called
        || match named {
            "Edit" => matches!(called, "MultiEdit" | "Write" | "NotebookEdit"),
            "Read" => matches!(called, "Glob" | "Grep" | "LS" | "NotebookRead"),
            _ => false,
        }
}
