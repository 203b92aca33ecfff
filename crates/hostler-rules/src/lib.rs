//! Permission rules: what does a tool call touch, which rule says what about it, and why?
//!
//! A [`Rule`] allows, asks about or denies what its [`Matcher`] matches; its text is the one that people know from Claude Code:
//! `Bash(git status)`, `Bash(npm run:*)`, `Edit(src/**)`, `mcp__github`. A [`Call`] is what an agent wants to do.
//! [`decide`] brings both together with the session's [`Mode`], and [`judge`] leaves nothing open; [`explain`] puts the answer
//! into sentences; [`suggest`] finds the narrow rules that a person can be offered instead of being asked again. The
//! [`RuleBook`] keeps the rules that outlive sessions.
//!
//! ```
//! use hostler_rules::{Call, Disk, Effect, Mode, Rule, RuleSet, Scope, Verdict, decide, explain};
//!
//! let mut rules = RuleSet::default();
//! rules.add(Rule::parse(Effect::Allow, Scope::Global, "Bash(git status)")?)?;
//! rules.add(Rule::parse(Effect::Deny, Scope::Workspace, "Bash(rm:*)")?)?;
//!
//! let call = Call::shell("git status && rm -rf x", "/home/me/project");
//! let decision = decide(&rules, Mode::Default, &call, &Disk);
//! assert_eq!(decision.verdict, Verdict::Deny);
//! assert_eq!(explain(&decision), ["Denied: the workspace's rule `Bash(rm:*)` denies `rm -rf x`."]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What holds for all decisions:
//!
//! * Deny beats ask beats allow, over all scopes.
//! * A command line is allowed only if every command that it can run is, and every file that it writes. One denied command
//!   denies the line.
//! * What cannot be seen is *opaque*: a line that is no shell grammar, a name that only the shell will know (`$CMD`), a
//!   file of commands (`source x`). No rule allows it; it is asked about, and denied if what can be seen of it is.
//! * A path is judged as it is written and as it really is, after its links.
//!
//! **Architecture Invariant:** this crate knows no session, no client and no agent's wire. Decisions read links and
//! Git configurations through a [`Resolver`] and do no other I/O, and whatever they are given, they answer. Only the book reads and writes a file.

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
