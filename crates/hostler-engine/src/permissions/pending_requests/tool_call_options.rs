//! The options that a pending tool call offers: once, for the session, or permanently.

use ahp_types::state::{ConfirmationOption, ConfirmationOptionKind};
use hostler_rules::{Rule, RuleScope, RuleSuggestion};

use super::AnswerError;

/// How long a rule applies that an option creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleLifetime {
    /// Until the session is deleted.
    Session,
    /// Permanently, for all sessions in the working directory.
    Permanent,
}

/// One option.
#[derive(Debug, Clone)]
pub(crate) struct ToolCallOption {
    option: ConfirmationOption,
    rules: Option<(RuleLifetime, Vec<Rule>)>,
}

/// The options of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolCallOptions(Vec<ToolCallOption>);

impl ToolCallOptions {
    /// Creates options from the session rules that would have allowed the call, the narrowest first: for the session
    /// and for the working directory.
    pub(crate) fn new(suggestions: &[RuleSuggestion]) -> Self {
        let mut choices = vec![option_without_rules("allow-once", "Allow once", ConfirmationOptionKind::Approve, 0)];
        let narrowest = suggestions.iter().take(1).map(|suggestion| {
            let label = format!("Allow {} in this session", format_rules(&suggestion.rules));
            option_with_rules("allow-session".to_owned(), label, RuleLifetime::Session, &suggestion.rules)
        });
        choices.extend(narrowest);
        choices.extend(suggestions.iter().enumerate().map(|(at, suggestion)| {
            let suggestion = suggestion.with_scope(RuleScope::Workspace);
            let label = format!("Always allow {} in this folder", format_rules(&suggestion.rules));
            option_with_rules(format!("allow-always-{}", at + 1), label, RuleLifetime::Permanent, &suggestion.rules)
        }));
        choices.push(option_without_rules("deny", "Deny", ConfirmationOptionKind::Deny, 2));
        choices.push(option_without_rules(
            "deny-with-feedback",
            "Deny, and describe what to do instead",
            ConfirmationOptionKind::Deny,
            2,
        ));
        Self(choices)
    }

    pub(super) fn to_confirmation_options(&self) -> Vec<ConfirmationOption> {
        self.0.iter().map(|choice| choice.option.clone()).collect()
    }

    pub(super) fn find(&self, id: &str) -> Result<&ToolCallOption, AnswerError> {
        let found = self.0.iter().find(|choice| choice.option.id == id);
        found.ok_or_else(|| AnswerError::UnknownOption { option: id.to_owned() })
    }
}

impl ToolCallOption {
    pub(super) fn is_approval(&self) -> bool {
        self.option.kind == ConfirmationOptionKind::Approve
    }

    pub(super) fn rules(&self) -> Option<(RuleLifetime, Vec<Rule>)> {
        self.rules.clone()
    }
}

fn option_without_rules(id: &str, label: &str, kind: ConfirmationOptionKind, group: i64) -> ToolCallOption {
    let option = ConfirmationOption { id: id.to_owned(), label: label.to_owned(), kind, group: Some(group) };
    ToolCallOption { option, rules: None }
}

fn option_with_rules(id: String, label: String, reach: RuleLifetime, rules: &[Rule]) -> ToolCallOption {
    let option = ConfirmationOption { id, label, kind: ConfirmationOptionKind::Approve, group: Some(1) };
    ToolCallOption { option, rules: Some((reach, rules.to_vec())) }
}

fn format_rules(rules: &[Rule]) -> String {
    rules.iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join(" and ")
}
