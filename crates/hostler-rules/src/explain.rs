//! Explains decisions in sentences for people.

use crate::decide::{Decision, DecisionOutcome, DecisionReason, PermissionMode};
use crate::rule::{Effect, Rule, RuleScope};
use crate::shell::truncate_for_display;

/// Explains a decision; the first sentence begins with the outcome.
pub fn explain(decision: &Decision) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for why in &decision.reasons {
        let sentence = format_reason(why);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    let outcome = match decision.outcome {
        DecisionOutcome::Allow => "Allowed",
        DecisionOutcome::Ask => "Requires approval",
        DecisionOutcome::Deny => "Denied",
        DecisionOutcome::Undecided => "Undecided",
    };
    sentences
        .iter()
        .enumerate()
        .map(|(at, text)| if at == 0 { format!("{outcome}: {text}") } else { capitalize(text) })
        .collect()
}

fn capitalize(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

fn format_reason(why: &DecisionReason) -> String {
    match why {
        DecisionReason::Rule { rule, part, is_certain: certain } => format_rule_reason(rule, part, *certain),
        DecisionReason::Unanalyzable { part, reason: because } => {
            format!("no rule can allow `{}`, because {because}.", truncate_for_display(part))
        }
        DecisionReason::Mode { mode, reason: because } => format!("{because} ({} mode).", mode_name(*mode)),
        DecisionReason::NoRule { parts } => {
            let parts: Vec<String> = parts.iter().map(|part| format!("`{}`", truncate_for_display(part))).collect();
            format!("no rule matches {}.", parts.join(" or "))
        }
    }
}

fn format_rule_reason(rule: &Rule, part: &str, certain: bool) -> String {
    let scope = match rule.scope {
        RuleScope::Global => "the global rule",
        RuleScope::Workspace => "the workspace rule",
        RuleScope::Session => "the session rule",
    };
    let does = match (rule.effect, certain) {
        (Effect::Allow, _) => "allows",
        (Effect::Ask, true) => "asks about",
        (Effect::Ask, false) => "may ask about",
        (Effect::Deny, true) => "denies",
        (Effect::Deny, false) => "may deny",
    };
    format!("{scope} `{rule}` {does} `{}`.", truncate_for_display(part))
}

fn mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "default",
        PermissionMode::AcceptEdits => "acceptEdits",
        PermissionMode::Plan => "plan",
        PermissionMode::Bypass => "bypassPermissions",
        PermissionMode::DontAsk => "dontAsk",
    }
}
