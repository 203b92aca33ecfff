//! The question whether a folder's own configuration applies: its text, and the decision that an answer means. Pure.
//!
//! Names come from untrusted files. Each is displayed as code, where markup has no effect. Characters that are
//! invisible or change the direction of text are replaced by their names.

use std::collections::BTreeMap;

use hostler_driver::{ConfigurationItem, Question, QuestionAnswer, QuestionKind, QuestionOption};
use hostler_trust::{TrustAssessment, TrustDecision, TrustState};

use super::AnswerError;

/// Id of the only question, and of its options.
const FOLDER_QUESTION_ID: &str = "folder";
const TRUST_OPTIONS: [(&str, &str, TrustDecision); 3] = [
    ("trust", "Trust this folder", TrustDecision::Trust),
    ("trust-subfolders", "Trust this folder and its subfolders", TrustDecision::TrustSubfolders),
    ("restrict", "Do not trust (ignore its configuration)", TrustDecision::Restrict),
];

/// Maximum number of listed items. Each kind has a share, so that many items of one kind cannot hide another kind.
const MAX_LISTED_ITEMS: usize = 36;

/// Maximum length of a displayed name or path, in characters.
const MAX_NAME_CHARS: usize = 200;

pub(super) fn trust_question() -> Question {
    let option = |(id, label, _): (&str, &str, TrustDecision)| QuestionOption {
        id: id.to_owned(),
        label: label.to_owned(),
        description: None,
    };
    Question {
        id: FOLDER_QUESTION_ID.to_owned(),
        header: Some("Workspace trust".to_owned()),
        text: "Do you trust the authors of the files in this folder?".to_owned(),
        kind: QuestionKind::Choice {
            options: TRUST_OPTIONS.map(option).into(),
            allows_multiple: false,
            allows_free_text: false,
        },
        required: true,
    }
}

/// Returns the decision that an answer means.
pub(super) fn parse_decision(answers: &[(String, QuestionAnswer)]) -> Result<TrustDecision, AnswerError> {
    let chosen = answers.iter().find_map(|(_, answer)| match answer {
        QuestionAnswer::Selected { options, .. } => options.first(),
        _ => None,
    });
    let option = TRUST_OPTIONS.iter().find(|(id, ..)| chosen.is_some_and(|chosen| chosen == id));
    let missing = || AnswerError::AnswerRequired { question: trust_question().text };
    option.map(|(.., decision)| *decision).ok_or_else(missing)
}

/// Describes the folder's configuration, or what has changed since it was trusted, as Markdown.
pub(super) fn describe_configuration(assessment: &TrustAssessment) -> String {
    let directory = code_span(&assessment.directory.display().to_string());
    let items = &assessment.configuration.items;
    let (first, lines) = match &assessment.state {
        TrustState::Changed(difference) => {
            let marked: Vec<_> = difference.iter_marked().map(|(mark, item)| (change_label(mark), item)).collect();
            let first = format!("The configuration of {directory} has changed since you trusted it.");
            let first = if marked.is_empty() {
                format!("{first} The files differ, but the effective settings are the same.")
            } else {
                first
            };
            (first, list_items(&marked))
        }
        _ => {
            let all: Vec<_> = items.iter().map(|item| ("", item)).collect();
            (format!("{directory} contains its own configuration for the agent."), list_items(&all))
        }
    };
    let last = "If you do not trust the folder, the agent starts without this configuration. Files and CLAUDE.md can be read in any case.";
    format!("{first}\n\n{lines}\n{last}")
}

fn change_label(mark: char) -> &'static str {
    match mark {
        '+' => "Added: ",
        '-' => "Removed: ",
        _ => "Changed: ",
    }
}

/// Lists the items by kind, one line each.
fn list_items(items: &[(&str, &ConfigurationItem)]) -> String {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (prefix, item) in items {
        kinds.entry(item.kind).or_default().push((prefix, item));
    }
    let share = MAX_LISTED_ITEMS / kinds.len().max(1);
    let mut lines = String::new();
    for (kind, items) in kinds {
        for (prefix, item) in items.iter().take(share) {
            let blocked =
                item.blocked.as_ref().map(|why| format!(" (not applied: {})", code_span(why))).unwrap_or_default();
            let (name, source) = (code_span(&item.name), code_span(&item.source));
            lines.push_str(&format!("* {prefix}{}: {name} in {source}{blocked}\n", kind.label()));
        }
        if let Some(more) = items.len().checked_sub(share).filter(|more| *more > 0) {
            lines.push_str(&format!("* {}: {more} more\n", kind.label()));
        }
    }
    lines
}

/// Formats a code span whose backtick fence is longer than any run of backticks in the text.
fn code_span(text: &str) -> String {
    let mut shown = String::new();
    for (place, char) in text.chars().enumerate() {
        if place == MAX_NAME_CHARS {
            shown.push('…');
            break;
        }
        match char {
            char if is_invisible(char) => shown.push_str(&format!("[U+{:04X}]", u32::from(char))),
            char => shown.push(char),
        }
    }
    let longest = shown.split(|char| char != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 || shown.trim().is_empty() { " " } else { "" };
    format!("{fence}{pad}{shown}{pad}{fence}")
}

/// Whether a character is invisible, ends a line or changes the direction of text.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hostler_driver::{ConfigurationKind, WorkspaceConfiguration};
    use hostler_trust::ConfigurationDifference;

    use super::*;

    fn item(kind: ConfigurationKind, name: &str) -> ConfigurationItem {
        let source = ".claude/settings.json".to_owned();
        ConfigurationItem { kind, name: name.to_owned(), source, hash: String::new(), blocked: None }
    }

    fn assessed(items: Vec<ConfigurationItem>, state: TrustState) -> TrustAssessment {
        let configuration = WorkspaceConfiguration { items, ..Default::default() };
        TrustAssessment { directory: PathBuf::from("/project/app"), configuration, state }
    }

    #[test]
    fn names_are_displayed_as_code() {
        let evil = "x`**b** [a](http://e)``\n# <b>\u{202e}\u{200b}\u{2800}";
        let text = describe_configuration(&assessed(vec![item(ConfigurationKind::Hook, evil)], TrustState::Undecided));
        assert!(
            text.contains(
                "* Hook: ``` x`**b** [a](http://e)``[U+000A]# <b>[U+202E][U+200B][U+2800] ``` in `.claude/settings.json`"
            ),
            "{text}"
        );
        assert_eq!(code_span(""), "`  `");
        assert!(code_span(&"a".repeat(300)).ends_with("a…`"));
    }

    #[test]
    fn many_items_of_one_kind_do_not_hide_other_kinds() {
        let mut items: Vec<_> = (0..500).map(|n| item(ConfigurationKind::Command, &format!("/c{n}"))).collect();
        items.push(item(ConfigurationKind::Hook, "SessionStart: ./evil"));
        let text = describe_configuration(&assessed(items, TrustState::Undecided));
        assert!(
            text.contains("* Hook: `SessionStart: ./evil`") && text.contains("* Slash command: 482 more"),
            "{text}"
        );
        assert!(text.lines().count() <= 45);
    }

    #[test]
    fn changed_configuration_is_displayed_as_a_difference() {
        let hook = item(ConfigurationKind::Hook, "Stop: ./new");
        let gone = item(ConfigurationKind::Skill, "old");
        let difference =
            ConfigurationDifference { added: vec![hook.clone()], changed: Vec::new(), removed: vec![gone] };
        let text = describe_configuration(&assessed(vec![hook], TrustState::Changed(difference)));
        assert!(text.contains("* Added: Hook: `Stop: ./new`") && text.contains("* Removed: Skill: `old`"), "{text}");
        let same =
            describe_configuration(&assessed(Vec::new(), TrustState::Changed(ConfigurationDifference::default())));
        assert!(same.contains("the effective settings are the same"), "{same}");
    }
}
