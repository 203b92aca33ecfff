//! Whether a rule matches a call. Restricting and allowing rules are matched differently.
//!
//! A rule that denies or asks matches if any part of the call is, or may be, what it names. A rule that allows matches
//! only parts that are certain, and a call is allowed only if all of its parts are.

mod allow_rules;
mod restrictions;

pub(crate) use allow_rules::{grants_write, is_granted, match_allow_rules, needs_no_rule};
pub(crate) use restrictions::{RestrictionMatch, find_restrictions};

use crate::rule::{Matcher, covers_tool};
use crate::shell::base_name;

/// Does the matcher name the call's tool, independent of the call's input?
fn matches_tool(matcher: &Matcher, tool: &str) -> bool {
    match matcher {
        Matcher::Everything => true,
        Matcher::Tool(name) => covers_tool(name, tool),
        Matcher::Mcp { name, is_prefix: true } => tool.starts_with(name.as_str()),
        Matcher::Mcp { name, is_prefix: false } => {
            tool.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
        }
        Matcher::Command(_) | Matcher::Path { .. } | Matcher::Domain(_) => false,
    }
}

/// `/bin/rm` matches `rm` in a rule that denies or asks; a rule with a directory matches that path only.
fn matches_command_name(command: &str, named: &str) -> bool {
    command == named || (!named.contains('/') && base_name(command) == named)
}
