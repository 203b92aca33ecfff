//! Does a rule match a call? There are two questions, and they are asked differently.
//!
//! A rule that denies or asks *objects* as soon as any part of the call is what it names, or could be. A rule that allows
//! *permits* only what it names for certain, and a call is permitted only if all of its parts are.

mod objection;
mod permission;

pub(crate) use objection::{Objection, objections};
pub(crate) use permission::{grants_file, is_granted, needs_no_rule, permission};

use crate::rule::{Matcher, covers};
use crate::shell::base_name;

/// Does the matcher name the call's tool, whatever the call is about?
fn names_tool(matcher: &Matcher, tool: &str) -> bool {
    match matcher {
        Matcher::Everything => true,
        Matcher::Tool(name) => covers(name, tool),
        Matcher::Mcp { name, open: true } => tool.starts_with(name.as_str()),
        Matcher::Mcp { name, open: false } => {
            tool.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
        }
        Matcher::Command(_) | Matcher::Path { .. } | Matcher::Domain(_) => false,
    }
}

/// `/bin/rm` is `rm` to a rule that objects; a rule that names a directory means that directory.
fn is_called(command: &str, named: &str) -> bool {
    command == named || (!named.contains('/') && base_name(command) == named)
}
