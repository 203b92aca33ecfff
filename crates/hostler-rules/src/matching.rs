//! Does a rule match a call? There are two questions, and they are asked differently.
//!
//! A rule that denies or asks *objects* as soon as any part of the call is what it names, or could be. A rule that allows
//! *permits* only what it names for certain, and a call is permitted only if all of its parts are.

mod allow_rules;
mod restrictions;

pub(crate) use allow_rules::{grants_write, is_granted, match_allow_rules, needs_no_rule};
pub(crate) use restrictions::{RestrictionMatch, find_restrictions};

use crate::rule::{Matcher, covers_tool};
use crate::shell::base_name;

/// Does the matcher name the call's tool, whatever the call is about?
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

/// `/bin/rm` is `rm` to a rule that objects; a rule that names a directory means that directory.
fn matches_command_name(command: &str, named: &str) -> bool {
    command == named || (!named.contains('/') && base_name(command) == named)
}
