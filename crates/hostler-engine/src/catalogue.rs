//! The list of announced sessions, in memory, so that listing asks nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::SessionSummary;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::EngineError;

/// A page of the session list.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Newest first.
    pub items: Vec<SessionSummary>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    listed: Mutex<HashMap<Arc<str>, SessionSummary>>,
}

impl Catalogue {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, SessionSummary>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line.
    pub(crate) fn put(&self, uri: &Arc<str>, summary: SessionSummary) {
        self.lock().insert(Arc::clone(uri), summary);
    }

    pub(crate) fn remove(&self, uri: &str) -> bool {
        self.lock().remove(uri).is_some()
    }

    /// A page of the list, newest first; the order is total, so that a cursor means one place.
    pub(crate) fn page(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<SessionPage, EngineError> {
        let after = cursor.map(decode).transpose()?;
        let mut items: Vec<_> = self.lock().values().cloned().collect();
        items.sort_by(|a, b| key(b).cmp(&key(a)));
        if let Some(after) = &after {
            items.retain(|item| key(item) < (after.0.as_str(), after.1.as_str()));
        }
        let limit = limit.unwrap_or(usize::MAX).max(1);
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|last| URL_SAFE_NO_PAD.encode(format!("{}\n{}", last.modified_at, last.resource)));
        Ok(SessionPage { items, next_cursor })
    }
}

fn key(summary: &SessionSummary) -> (&str, &str) {
    (&summary.modified_at, &summary.resource)
}

fn decode(cursor: &str) -> Result<(String, String), EngineError> {
    URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.split_once('\n').map(|(at, uri)| (at.to_owned(), uri.to_owned())))
        .ok_or_else(|| EngineError::Invalid("the cursor is not one that this host gave".to_owned()))
}

/// The mutable fields that differ. What is no longer done is told as an empty text: an absent one means no change.
pub(crate) fn difference(old: &SessionSummary, new: &SessionSummary) -> PartialSessionSummary {
    PartialSessionSummary {
        title: (old.title != new.title).then(|| new.title.clone()),
        status: (old.status != new.status).then_some(new.status),
        activity: (old.activity != new.activity).then(|| new.activity.clone().unwrap_or_default()),
        working_directories: (old.working_directories != new.working_directories)
            .then(|| new.working_directories.clone().unwrap_or_default()),
        modified_at: (old.modified_at != new.modified_at).then(|| new.modified_at.clone()),
        chats: (old.chats != new.chats).then(|| new.chats.clone()).flatten(),
        ..PartialSessionSummary::default()
    }
}
