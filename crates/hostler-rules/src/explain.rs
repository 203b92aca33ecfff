//! Explains decisions in sentences for people.

use crate::decide::{Decision, DecisionOutcome, DecisionReason, PermissionMode};
use crate::rule::{Effect, Rule, RuleScope};
use crate::shell::truncate_for_display;

/// Explains a decision; the first sentence begins with the outcome.
pub fn explain(decision: &Decision) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for why in &decision.reasons {
        let sentence = format_reason(why);
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    let verdict = match decision.outcome {
        DecisionOutcome::Allow => "Allowed",
        DecisionOutcome::Ask => "Asked",
        DecisionOutcome::Deny => "Denied",
        DecisionOutcome::Undecided => "Left to the agent",
    };
    if let Some(first) = said.first_mut() {
        *first = format!("{verdict}: {first}");
    }
    said
}

fn format_reason(why: &DecisionReason) -> String {
    match why {
        DecisionReason::Rule { rule, part, is_certain: certain } => format_rule_reason(rule, part, *certain),
        DecisionReason::Unanalyzable { part, reason: because } => {
            format!("no rule can allow `{}`, because {because}.", truncate_for_display(part))
        }
        DecisionReason::Mode { mode, reason: because } => format!("in the mode {}, {because}.", mode_name(*mode)),
        DecisionReason::NoRule { parts } => {
            let parts: Vec<String> = parts.iter().map(|part| format!("`{}`", truncate_for_display(part))).collect();
            format!("no rule speaks of {}.", parts.join(" and "))
        }
    }
}

fn format_rule_reason(rule: &Rule, part: &str, certain: bool) -> String {
    let scope = match rule.scope {
        RuleScope::Global => "the global rule",
        RuleScope::Workspace => "the workspace's rule",
        RuleScope::Session => "the session's rule",
    };
    let does = match (rule.effect, certain) {
        (Effect::Allow, _) => "allows",
        (Effect::Ask, true) => "asks about",
        (Effect::Ask, false) => "could ask about",
        (Effect::Deny, true) => "denies",
        (Effect::Deny, false) => "could deny",
    };
    format!("{scope} `{rule}` {does} `{}`.", truncate_for_display(part))
}

fn mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "default",
        PermissionMode::AcceptEdits => "acceptEdits",
        PermissionMode::Plan => "plan",
        PermissionMode::Bypass => "bypass",
        PermissionMode::DontAsk => "dontAsk",
    }
}
