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

/// Why a change of annotations is rejected, or why annotations cannot be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// There is no such annotation.
    #[error("there is no annotation {id:?}")]
    NotFound {
        /// The annotation's id.
        id: String,
    },
    /// The annotation has no such entry.
    #[error("the annotation has no entry {id:?}")]
    EntryNotFound {
        /// The entry's id.
        id: String,
    },
    /// The annotation has no entries.
    #[error("an annotation needs at least one entry")]
    NoEntries,
    /// Two entries have the same id.
    #[error("two entries of the annotation have the same ID")]
    DuplicateEntryId,
    /// An id is empty or too long.
    #[error("an ID must have 1 to {MAX_ANNOTATION_ID_BYTES} bytes")]
    InvalidId,
    /// The annotation's last entry cannot be removed.
    #[error("the last entry of an annotation cannot be removed; remove the annotation instead")]
    LastEntry,
    /// The session has too many annotations.
    #[error("a session can have at most {MAX_ANNOTATIONS} annotations; remove some first")]
    TooMany,
    /// The annotations are too large.
    #[error("the annotations of the session are too large; the limit is {MAX_ANNOTATIONS_BYTES} bytes")]
    TooLarge,
    /// There are no annotations to attach.
    #[error("the session has no annotations to attach")]
    NothingToAttach,
    /// The channel does not support the action.
    #[error("this host does not support the action on this channel")]
    Unsupported,
}

impl AnnotationError {
    fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.to_owned() }
    }

    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "annotationNotFound",
            Self::EntryNotFound { .. } => "annotationEntryNotFound",
            Self::NoEntries => "annotationEmpty",
            Self::DuplicateEntryId => "duplicateAnnotationEntry",
            Self::InvalidId => "invalidAnnotationId",
            Self::LastEntry => "lastAnnotationEntry",
            Self::TooMany => "tooManyAnnotations",
            Self::TooLarge => "annotationsTooLarge",
            Self::NothingToAttach => "noAnnotations",
            Self::Unsupported => "unsupportedAction",
        }
    }
}

/// Checks whether a client may make this change.
pub(crate) fn check_action(state: &AnnotationsState, action: &StateAction) -> Result<(), AnnotationError> {
    let known = |id: &str| state.annotations.iter().find(|annotation| annotation.id == id);
    let find = |id: &str| known(id).ok_or_else(|| AnnotationError::not_found(id));
    match action {
        StateAction::AnnotationsSet(set) => {
            let annotation = &set.annotation;
            // Checked first, because the following checks visit every entry.
            check_total_size(state, annotation)?;
            check_id(&annotation.id)?;
            if annotation.entries.is_empty() {
                return Err(AnnotationError::NoEntries);
            }
            annotation.entries.iter().try_for_each(|entry| check_id(&entry.id))?;
            let mut ids = HashSet::new();
            if !annotation.entries.iter().all(|entry| ids.insert(&entry.id)) {
                return Err(AnnotationError::DuplicateEntryId);
            }
            if known(&annotation.id).is_none() && state.annotations.len() >= MAX_ANNOTATIONS {
                return Err(AnnotationError::TooMany);
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
                return Err(AnnotationError::EntryNotFound { id: removed.entry_id.clone() });
            }
            if annotation.entries.len() == 1 {
                return Err(AnnotationError::LastEntry);
            }
            Ok(())
        }
        _ => Err(AnnotationError::Unsupported),
    }
}

fn check_id(id: &str) -> Result<(), AnnotationError> {
    let fits = !id.is_empty() && id.len() <= MAX_ANNOTATION_ID_BYTES;
    if fits { Ok(()) } else { Err(AnnotationError::InvalidId) }
}

fn check_total_size(state: &AnnotationsState, more: &impl serde::Serialize) -> Result<(), AnnotationError> {
    let size = |bytes: Result<Vec<u8>, serde_json::Error>| bytes.map_or(MAX_ANNOTATIONS_BYTES, |bytes| bytes.len());
    let all = size(serde_json::to_vec(state)).saturating_add(size(serde_json::to_vec(more)));
    if all <= MAX_ANNOTATIONS_BYTES { Ok(()) } else { Err(AnnotationError::TooLarge) }
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
pub(crate) fn format_document(state: &AnnotationsState, ids: Option<&[String]>) -> Result<String, AnnotationError> {
    let chosen: Vec<&Annotation> = match ids {
        None => state.annotations.iter().collect(),
        Some(ids) => {
            let find = |id: &String| {
                let found = state.annotations.iter().find(|annotation| annotation.id == *id);
                found.ok_or_else(|| AnnotationError::not_found(id))
            };
            ids.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if chosen.is_empty() {
        return Err(AnnotationError::NothingToAttach);
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
            let body = match &entry.text {
                StringOrMarkdown::Plain(body) => body,
                StringOrMarkdown::Markdown { markdown } => markdown,
            };
            let _ = writeln!(text, "- {}", body.trim().replace('\n', "\n  "));
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
        check_action(&state(), &known).expect_err("a refusal").to_string()
    }

    #[test]
    fn invalid_annotation_changes_are_rejected() {
        let annotation = |id: &str, entries: Value| {
            json!({"type": "annotations/set", "annotation": {"id": id, "origin": {"session": "claude:/s"},
                   "resource": "file:///w/x", "resolved": false, "entries": entries}})
        };
        assert!(refused(annotation("c", json!([]))).contains("at least one entry"));
        assert!(refused(annotation("", json!([{"id": "1", "text": "x"}]))).contains("an ID must have"));
        assert!(refused(annotation("c", json!([{"id": "", "text": "x"}]))).contains("an ID must have"));
        let same = json!([{"id": "1", "text": "x"}, {"id": "1", "text": "y"}]);
        assert!(refused(annotation("c", same)).contains("same ID"));
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
        assert!(format_document(&state(), Some(&["b".into(), "x".into()])).unwrap_err().to_string().contains("\"x\""));
        assert!(format_document(&AnnotationsState { annotations: Vec::new() }, None).is_err());
        assert!(format_document(&state(), Some(&[])).is_err());
    }
}
