//! Decisions in sentences.

use crate::decide::{Decision, Mode, Verdict, Why};
use crate::rule::{Effect, Rule, Scope};
use crate::shell::shown;

/// Says in sentences why a decision is as it is; the first one begins with what it is.
pub fn explain(decision: &Decision) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for why in &decision.why {
        let sentence = sentence(why);
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    let verdict = match decision.verdict {
        Verdict::Allow => "Allowed",
        Verdict::Ask => "Asked",
        Verdict::Deny => "Denied",
        Verdict::Leave => "Left to the agent",
    };
    if let Some(first) = said.first_mut() {
        *first = format!("{verdict}: {first}");
    }
    said
}

fn sentence(why: &Why) -> String {
    match why {
        Why::Rule { rule, part, certain } => about(rule, part, *certain),
        Why::Opaque { part, because } => format!("no rule can allow `{}`, because {because}.", shown(part)),
        Why::Mode { mode, because } => format!("in the mode {}, {because}.", name(*mode)),
        Why::NoRule { parts } => {
            let parts: Vec<String> = parts.iter().map(|part| format!("`{}`", shown(part))).collect();
            format!("no rule speaks of {}.", parts.join(" and "))
        }
    }
}

fn about(rule: &Rule, part: &str, certain: bool) -> String {
    let scope = match rule.scope {
        Scope::Global => "the global rule",
        Scope::Workspace => "the workspace's rule",
        Scope::Session => "the session's rule",
    };
    let does = match (rule.effect, certain) {
        (Effect::Allow, _) => "allows",
        (Effect::Ask, true) => "asks about",
        (Effect::Ask, false) => "could ask about",
        (Effect::Deny, true) => "denies",
        (Effect::Deny, false) => "could deny",
    };
    format!("{scope} `{rule}` {does} `{}`.", shown(part))
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::Bypass => "bypass",
        Mode::DontAsk => "dontAsk",
    }
}
