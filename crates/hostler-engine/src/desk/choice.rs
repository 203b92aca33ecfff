//! What a person can choose when a call waits.

use ahp_types::state::{ConfirmationOption, ConfirmationOptionKind};
use hostler_rules::{Rule, Suggestion};

/// How far a choice reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// As long as the session lives.
    Session,
    /// For ever, for all sessions in the working directory.
    Always,
}

/// One choice.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    option: ConfirmationOption,
    rules: Option<(Reach, Vec<Rule>)>,
}

/// What a person can choose about one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices(Vec<Choice>);

impl Choices {
    /// From the rules that would have let the call pass, the narrowest first, as rules of the session and of the
    /// working directory.
    pub(crate) fn new(session: &[Suggestion], always: &[Suggestion]) -> Self {
        let mut choices = vec![plain("allow-once", "Allow once", ConfirmationOptionKind::Approve, 0)];
        let narrowest = session.iter().take(1).map(|suggestion| {
            let label = format!("Allow {} in this session", texts(&suggestion.rules));
            ruled("allow-session".to_owned(), label, Reach::Session, &suggestion.rules)
        });
        choices.extend(narrowest);
        choices.extend(always.iter().enumerate().map(|(at, suggestion)| {
            let label = format!("Always allow {} in this folder", texts(&suggestion.rules));
            ruled(format!("allow-always-{}", at + 1), label, Reach::Always, &suggestion.rules)
        }));
        choices.push(plain("deny", "Deny", ConfirmationOptionKind::Deny, 2));
        choices.push(plain("deny-tell", "Deny, and say what to do instead", ConfirmationOptionKind::Deny, 2));
        Self(choices)
    }

    pub(super) fn options(&self) -> Vec<ConfirmationOption> {
        self.0.iter().map(|choice| choice.option.clone()).collect()
    }

    pub(super) fn find(&self, id: &str) -> Result<&Choice, String> {
        let found = self.0.iter().find(|choice| choice.option.id == id);
        found.ok_or_else(|| format!("there is no option {id:?}"))
    }
}

impl Choice {
    pub(super) fn approves(&self) -> bool {
        self.option.kind == ConfirmationOptionKind::Approve
    }

    pub(super) fn rules(&self) -> Option<(Reach, Vec<Rule>)> {
        self.rules.clone()
    }
}

fn plain(id: &str, label: &str, kind: ConfirmationOptionKind, group: i64) -> Choice {
    let option = ConfirmationOption { id: id.to_owned(), label: label.to_owned(), kind, group: Some(group) };
    Choice { option, rules: None }
}

fn ruled(id: String, label: String, reach: Reach, rules: &[Rule]) -> Choice {
    let option = ConfirmationOption { id, label, kind: ConfirmationOptionKind::Approve, group: Some(1) };
    Choice { option, rules: Some((reach, rules.to_vec())) }
}

fn texts(rules: &[Rule]) -> String {
    rules.iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join(" and ")
}
