//! Annotations of files by people. Pure: checks clients' changes, and formats annotations as a document.

use std::collections::HashSet;
use std::fmt::Write as _;

use ahp_types::StateAction;
use ahp_types::StringOrMarkdown;
use ahp_types::state::{Annotation, AnnotationsState, AnnotationsSummary};

/// Maximum number of annotations of a session.
const MAX_ANNOTATIONS: usize = 1_000;

/// Maximum size of all annotations of a session as JSON.
const MAX_ANNOTATIONS_BYTES: usize = 1024 * 1024;

/// Maximum length of an id.
const MAX_ANNOTATION_ID_BYTES: usize = 256;

/// Checks whether a client may make this change.
pub(crate) fn check_action(state: &AnnotationsState, action: &StateAction) -> Result<(), String> {
    let known = |id: &str| state.annotations.iter().find(|annotation| annotation.id == id);
    let find = |id: &str| known(id).ok_or_else(|| format!("there is no annotation {id:?}"));
    match action {
        StateAction::AnnotationsSet(set) => {
            let annotation = &set.annotation;
            // Checked first, because the following checks visit every entry.
            check_total_size(state, annotation)?;
            check_id(&annotation.id)?;
            if annotation.entries.is_empty() {
                return Err("an annotation has at least one entry".to_owned());
            }
            annotation.entries.iter().try_for_each(|entry| check_id(&entry.id))?;
            let mut ids = HashSet::new();
            if !annotation.entries.iter().all(|entry| ids.insert(&entry.id)) {
                return Err("two entries of an annotation have the same id".to_owned());
            }
            if known(&annotation.id).is_none() && state.annotations.len() >= MAX_ANNOTATIONS {
                return Err(format!("a session can have {MAX_ANNOTATIONS} annotations"));
            }
            Ok(())
        }
        StateAction::AnnotationsUpdated(update) => {
            find(&update.annotation_id)?;
            check_total_size(state, update)
        }
        StateAction::AnnotationsRemoved(removed) => find(&removed.annotation_id).map(drop),
        StateAction::AnnotationsEntrySet(set) => {
            find(&set.annotation_id)?;
            check_id(&set.entry.id)?;
            check_total_size(state, &set.entry)
        }
        StateAction::AnnotationsEntryRemoved(removed) => {
            let annotation = find(&removed.annotation_id)?;
            if !annotation.entries.iter().any(|entry| entry.id == removed.entry_id) {
                return Err(format!("the annotation has no entry {:?}", removed.entry_id));
            }
            if annotation.entries.len() == 1 {
                return Err("it is the annotation's only entry; remove the annotation instead".to_owned());
            }
            Ok(())
        }
        _ => Err("this host does not support that action on this channel".to_owned()),
    }
}

fn check_id(id: &str) -> Result<(), String> {
    let fits = !id.is_empty() && id.len() <= MAX_ANNOTATION_ID_BYTES;
    if fits { Ok(()) } else { Err(format!("an id has 1 to {MAX_ANNOTATION_ID_BYTES} bytes")) }
}

fn check_total_size(state: &AnnotationsState, more: &impl serde::Serialize) -> Result<(), String> {
    let size = |bytes: Result<Vec<u8>, serde_json::Error>| bytes.map_or(MAX_ANNOTATIONS_BYTES, |bytes| bytes.len());
    let all = size(serde_json::to_vec(state)).saturating_add(size(serde_json::to_vec(more)));
    if all <= MAX_ANNOTATIONS_BYTES {
        Ok(())
    } else {
        Err("the session's annotations would become too large".to_owned())
    }
}

/// The number of annotations for the session summary; `None` without annotations.
pub(crate) fn summarize(channel: String, state: &AnnotationsState) -> Option<AnnotationsSummary> {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let entries = state.annotations.iter().map(|annotation| annotation.entries.len()).sum();
    (!state.annotations.is_empty()).then(|| AnnotationsSummary {
        resource: channel,
        annotation_count: count(state.annotations.len()),
        entry_count: count(entries),
    })
}

/// Formats annotations as a document for an agent: the given ones, or all.
///
/// # Errors
/// If an id is unknown, or there are no annotations.
pub(crate) fn format_document(state: &AnnotationsState, ids: Option<&[String]>) -> Result<String, String> {
    let chosen: Vec<&Annotation> = match ids {
        None => state.annotations.iter().collect(),
        Some(ids) => {
            let find = |id: &String| {
                let found = state.annotations.iter().find(|annotation| annotation.id == *id);
                found.ok_or_else(|| format!("there is no annotation {id:?}"))
            };
            ids.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if chosen.is_empty() {
        return Err("there are no annotations to attach".to_owned());
    }
    let mut text = String::new();
    for annotation in chosen {
        let place = annotation
            .range
            .as_ref()
            .map(|range| (range.start.line.saturating_add(1), range.end.line.saturating_add(1)));
        let place = match place {
            None => String::new(),
            Some((first, last)) if first == last => format!(", line {first}"),
            Some((first, last)) => format!(", lines {first} to {last}"),
        };
        let resolved = if annotation.resolved { " (resolved)" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{place}{resolved}:", annotation.resource);
        for entry in &annotation.entries {
            let words = match &entry.text {
                StringOrMarkdown::Plain(words) => words,
                StringOrMarkdown::Markdown { markdown } => markdown,
            };
            let _ = writeln!(text, "- {}", words.trim().replace('\n', "\n  "));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn state() -> AnnotationsState {
        serde_json::from_value(json!({"annotations": [
            {"id": "a", "origin": {"session": "claude:/s"}, "resource": "file:///w/main.rs", "resolved": false,
             "range": {"start": {"line": 2, "character": 0}, "end": {"line": 4, "character": 1}},
             "entries": [{"id": "1", "text": "Why?\nReally."}, {"id": "2", "text": {"markdown": "*Because.*"}}]},
            {"id": "b", "origin": {"session": "claude:/s"}, "resource": "file:///w/lib.rs", "resolved": true,
             "entries": [{"id": "1", "text": "whole file"}]},
        ]}))
        .unwrap()
    }

    fn refused(action: Value) -> String {
        let known: StateAction = serde_json::from_value(action.clone()).unwrap();
        assert!(!matches!(known, StateAction::Unknown(_)), "{action}");
        check_action(&state(), &known).expect_err("a refusal")
    }

    #[test]
    fn invalid_annotation_changes_are_rejected() {
        let annotation = |id: &str, entries: Value| {
            json!({"type": "annotations/set", "annotation": {"id": id, "origin": {"session": "claude:/s"},
                   "resource": "file:///w/x", "resolved": false, "entries": entries}})
        };
        assert!(refused(annotation("c", json!([]))).contains("at least one entry"));
        assert!(refused(annotation("", json!([{"id": "1", "text": "x"}]))).contains("an id has"));
        assert!(refused(annotation("c", json!([{"id": "", "text": "x"}]))).contains("an id has"));
        let same = json!([{"id": "1", "text": "x"}, {"id": "1", "text": "y"}]);
        assert!(refused(annotation("c", same)).contains("same id"));
        let large = json!([{"id": "1", "text": "x".repeat(MAX_ANNOTATIONS_BYTES)}]);
        assert!(refused(annotation("c", large)).contains("too large"));
        let moved =
            json!({"type": "annotations/updated", "annotationId": "a", "resource": "x".repeat(MAX_ANNOTATIONS_BYTES)});
        assert!(refused(moved).contains("too large"));
        for action in [
            json!({"type": "annotations/updated", "annotationId": "c", "resolved": true}),
            json!({"type": "annotations/removed", "annotationId": "c"}),
            json!({"type": "annotations/entrySet", "annotationId": "c", "entry": {"id": "1", "text": "x"}}),
            json!({"type": "annotations/entryRemoved", "annotationId": "c", "entryId": "1"}),
        ] {
            assert!(refused(action).contains("no annotation \"c\""));
        }
        let entry = |annotation: &str, entry: &str| {
            refused(json!({"type": "annotations/entryRemoved", "annotationId": annotation, "entryId": entry}))
        };
        assert!(entry("a", "7").contains("no entry \"7\""));
        assert!(entry("b", "1").contains("remove the annotation instead"));
    }

    #[test]
    fn format_document_lists_annotations_and_rejects_unknown_ids() {
        let all = format_document(&state(), None).unwrap();
        assert_eq!(
            all,
            "file:///w/main.rs, lines 3 to 5:\n- Why?\n  Really.\n- *Because.*\n\nfile:///w/lib.rs (resolved):\n- whole \
             file\n"
        );
        assert!(!format_document(&state(), Some(&["b".into()])).unwrap().contains("main.rs"));
        assert!(format_document(&state(), Some(&["b".into(), "x".into()])).unwrap_err().contains("\"x\""));
        assert!(format_document(&AnnotationsState { annotations: Vec::new() }, None).is_err());
        assert!(format_document(&state(), Some(&[])).is_err());
    }
}
