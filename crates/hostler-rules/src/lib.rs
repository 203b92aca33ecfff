//! Permission rules: what a tool call touches, which rules match it, and the decision with its reasons.
//!
//! A [`Rule`] allows, asks about or denies the calls that its [`Matcher`] matches; its text has the form of Claude
//! Code's rules: `Bash(git status)`, `Bash(npm run:*)`, `Edit(src/**)`, `mcp__github`. A [`ToolUse`] is a call that an
//! agent wants to make. [`decide()`] applies the rules and the session's [`PermissionMode`]; [`decide_or_ask()`] also
//! decides what those leave undecided; [`explain()`] turns a decision into sentences; [`suggest_rules()`] finds narrow
//! rules that would have allowed the call. The [`RuleStore`] stores the rules that outlive sessions.
//! `tests/it/modes.rs` has examples.
//!
//! For all decisions:
//!
//! * Deny beats ask beats allow, over all scopes.
//! * A command line is allowed only if every command that it can run is allowed, and every file that it writes. One
//!   denied command denies the line.
//! * A part that cannot be analyzed is *unanalyzable*: text outside the shell grammar, a name that only the shell knows
//!   at run time (`$CMD`), a file of commands (`source x`). No rule allows it; it is asked about, and denied if another
//!   part is denied.
//! * A path is checked as it is written and as it resolves after its links.
//!
//! **Architecture Invariant:** this crate does not know sessions, clients or an agent's wire format. Decisions read
//! links and Git configurations through a [`PathResolver`] and do no other I/O, and every input gets a decision. Only
//! the rule store reads and writes a file.

#![forbid(unsafe_code)]

mod decide;
mod decide_or_ask;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod matching;
mod path;
mod path_pattern;
mod plan_file;
mod protected_paths;
mod read_only;
mod rule;
mod rule_set;
mod rule_store;
mod shell;
mod suggest;
mod tool_use;

pub use decide::{Decision, DecisionOutcome, DecisionReason, PermissionMode, decide};
pub use decide_or_ask::decide_or_ask;
pub use explain::explain;
pub use path::{DiskResolver, PathKind, PathResolver, StaticLinks, normalize_path};
pub use path_pattern::PathPattern;
pub use plan_file::find_plan_file;
pub use rule::{CommandPattern, DomainPattern, Effect, Matcher, Rule, RuleError, RuleScope};
pub use rule_set::{RuleSet, RuleSetError};
pub use rule_store::{RuleStore, RuleStoreError, RuleStoreSnapshot};
pub use suggest::{RuleSuggestion, suggest_additional_rules, suggest_rules};
pub use tool_use::{ToolUse, ToolUseError};
