//! The session list: an ordered in-memory index of announced sessions, so that listing needs no actor, no store and no
//! sorting.
//!
//! Each summary is stored as the JSON that clients receive: thousands of them need little memory, and a page is a copy.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, MutexGuard, PoisonError};

use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::SessionSummary;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::CatalogService;
use crate::{EngineError, InvalidParams, external_sessions};

/// A page of the session list.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Newest first; each is a `SessionSummary` as JSON.
    pub items: Vec<Arc<str>>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl SessionPage {
    /// Parses the summaries.
    pub fn summaries(&self) -> Vec<SessionSummary> {
        self.items.iter().filter_map(|item| serde_json::from_str(item).ok()).collect()
    }
}

/// A summary's position: the session's time of modification, and its URI. The order is total, so a cursor is
/// unambiguous.
type CatalogPosition = (Arc<str>, Arc<str>);

/// The announced sessions, by position.
#[derive(Debug, Default)]
pub(super) struct CatalogEntries {
    by_position: BTreeMap<CatalogPosition, Arc<str>>,
    /// Time of modification of each session, by URI.
    modified_at: HashMap<Arc<str>, Arc<str>>,
}

impl CatalogEntries {
    fn remove(&mut self, uri: &str) -> Option<Arc<str>> {
        let (uri, changed) = self.modified_at.remove_entry(uri)?;
        self.by_position.remove(&(changed, Arc::clone(&uri)));
        Some(uri)
    }
}

impl CatalogService {
    fn lock(&self) -> MutexGuard<'_, CatalogEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts or replaces a summary.
    pub(crate) fn upsert(&self, uri: &Arc<str>, summary: &SessionSummary) {
        match serde_json::to_string(summary) {
            Ok(line) => self.upsert_encoded(uri, &summary.modified_at, line.into()),
            Err(error) => tracing::error!(%error, "failed to encode a session summary"),
        }
    }

    /// Inserts or replaces an encoded summary.
    pub(crate) fn upsert_encoded(&self, uri: &Arc<str>, changed: &str, line: Arc<str>) {
        let mut lines = self.lock();
        lines.remove(uri);
        let changed: Arc<str> = changed.into();
        lines.modified_at.insert(Arc::clone(uri), Arc::clone(&changed));
        lines.by_position.insert((changed, Arc::clone(uri)), line);
    }

    /// The encoded summary of a session.
    pub(crate) fn encoded_summary(&self, uri: &str) -> Option<Arc<str>> {
        let lines = self.lock();
        let (uri, changed) = lines.modified_at.get_key_value(uri)?;
        lines.by_position.get(&(Arc::clone(changed), Arc::clone(uri))).cloned()
    }

    /// The parsed summary of a session.
    pub(crate) fn summary(&self, uri: &str) -> Option<SessionSummary> {
        serde_json::from_str(&self.encoded_summary(uri)?).ok()
    }

    /// Whether a session is listed.
    pub(crate) fn contains(&self, uri: &str) -> bool {
        self.lock().modified_at.contains_key(uri)
    }

    /// All listed sessions, in no particular order.
    pub(crate) fn session_uris(&self) -> Vec<Arc<str>> {
        self.lock().modified_at.keys().cloned().collect()
    }

    pub(crate) fn remove(&self, uri: &str) -> bool {
        self.lock().remove(uri).is_some()
    }

    /// A page of the list, newest first. A cursor is the position of a page's last summary: changed sessions move to
    /// the front, so a session that does not change appears exactly once.
    pub(crate) fn page(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<SessionPage, EngineError> {
        let after = cursor.map(decode_cursor).transpose()?;
        let limit = limit.unwrap_or(usize::MAX).max(1);
        let lines = self.lock();
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut older = lines.by_position.range((Bound::Unbounded, end)).rev();
        let mut items = Vec::new();
        let mut last = None;
        for (place, line) in older.by_ref().take(limit) {
            items.push(Arc::clone(line));
            last = Some(place);
        }
        let next_cursor = last.filter(|_| older.next().is_some()).map(encode_cursor);
        Ok(SessionPage { items, next_cursor })
    }
}

fn encode_cursor((changed, uri): &CatalogPosition) -> String {
    URL_SAFE_NO_PAD.encode(format!("{changed}\n{uri}"))
}

fn decode_cursor(cursor: &str) -> Result<CatalogPosition, EngineError> {
    URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| text.split_once('\n').map(|(changed, uri)| (changed.into(), uri.into())))
        .ok_or_else(|| InvalidParams::SessionCursor.into())
}

/// The mutable fields that differ. A cleared activity is an empty text, because an absent field means no change.
pub(crate) fn summary_changes(old: &SessionSummary, new: &SessionSummary) -> PartialSessionSummary {
    PartialSessionSummary {
        title: (old.title != new.title).then(|| new.title.clone()),
        status: (old.status != new.status).then_some(new.status),
        activity: (old.activity != new.activity).then(|| new.activity.clone().unwrap_or_default()),
        working_directories: (old.working_directories != new.working_directories)
            .then(|| new.working_directories.clone().unwrap_or_default()),
        modified_at: (old.modified_at != new.modified_at).then(|| new.modified_at.clone()),
        // Most of `_meta` changes all the time; the list displays only the tag.
        meta: (external_sessions::session_tag(old.meta.as_ref()) != external_sessions::session_tag(new.meta.as_ref()))
            .then(|| new.meta.clone())
            .flatten(),
        chats: (old.chats != new.chats).then(|| new.chats.clone()).flatten(),
        ..PartialSessionSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(catalogue: &CatalogService, name: usize, changed: usize) {
        let uri: Arc<str> = format!("claude:/{name}").into();
        catalogue.upsert_encoded(&uri, &format!("{changed:09}"), Arc::clone(&uri));
    }

    /// Reads all pages of the list and calls `between` after each of them.
    fn all(catalogue: &CatalogService, limit: usize, mut between: impl FnMut(usize)) -> Vec<String> {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = catalogue.page(Some(limit), cursor.as_deref()).unwrap();
            assert!(page.items.len() <= limit && (page.items.len() == limit || page.next_cursor.is_none()));
            seen.extend(page.items.iter().map(ToString::to_string));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return seen;
            }
            between(pages);
            pages += 1;
        }
    }

    #[test]
    fn every_page_size_yields_the_same_list() {
        let catalogue = CatalogService::without_search();
        // Several with equal times: the order is still total.
        (0..20).for_each(|n| put(&catalogue, n, n / 3));
        let whole: Vec<_> = catalogue.page(None, None).unwrap().items.iter().map(ToString::to_string).collect();
        assert_eq!(whole.len(), 20);
        for limit in 1..=21 {
            assert_eq!(all(&catalogue, limit, |_| ()), whole, "{limit}");
        }
        assert_eq!(catalogue.page(Some(20), None).unwrap().next_cursor, None, "no page is empty");
        assert_eq!(catalogue.page(Some(0), None).unwrap().items.len(), 1, "nor is the first");
    }

    #[test]
    fn unchanged_sessions_are_listed_once_while_others_change() {
        let catalogue = CatalogService::without_search();
        (0..100).for_each(|n| put(&catalogue, n, n));
        // After each page every third session changes, one is added, and one is removed.
        let seen = all(&catalogue, 7, |page| {
            put(&catalogue, page * 3, 1_000 + page);
            put(&catalogue, 500 + page, 2_000 + page);
            catalogue.remove(&format!("claude:/{}", 1 + page * 3));
        });
        for n in (2..100).step_by(3) {
            assert_eq!(seen.iter().filter(|uri| **uri == format!("claude:/{n}")).count(), 1, "{n}");
        }
    }

    #[test]
    fn invalid_cursor_is_refused_and_cursor_of_a_deleted_session_stays_valid() {
        let catalogue = CatalogService::without_search();
        (0..3).for_each(|n| put(&catalogue, n, n));
        for cursor in ["", "!", "bm90IG91cnM"] {
            assert!(catalogue.page(None, Some(cursor)).is_err(), "{cursor:?}");
        }
        let cursor = catalogue.page(Some(1), None).unwrap().next_cursor.unwrap();
        assert!(catalogue.remove("claude:/2") && !catalogue.remove("claude:/2"));
        let rest = catalogue.page(None, Some(&cursor)).unwrap();
        assert_eq!(rest.items.iter().map(|uri| &**uri).collect::<Vec<_>>(), ["claude:/1", "claude:/0"]);
    }
}
