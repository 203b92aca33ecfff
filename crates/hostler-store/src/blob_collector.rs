//! Finds blobs without a reference: their message was removed or edited, or their draft was changed.
//!
//! The collector runs at start, periodically, and when a client's contents exceed the quota. It works concurrently with
//! the writer, on a connection of its own. The writer deletes what it finds in small steps, and retains blobs that
//! were referenced meanwhile, because it compares sequence numbers.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::blob_cleanup::BlobCleanup;
use crate::sequencer::SequencerShared;
use crate::{BlobOptions, StoreError};

/// The length of a hash in hexadecimal digits.
const HASH_HEX_DIGITS: usize = 64;

/// Maximum number of references that one cleanup removes.
const MAX_REFERENCES_PER_JOB: usize = 256;

/// Maximum size of the blobs that one cleanup removes, unless a single one is larger.
const MAX_BYTES_PER_JOB: i64 = 8 << 20;

/// Where a session's states refer to blobs. Every row counts, including those that serve replay only.
const REFERENCING_TEXT_QUERIES: [&str; 3] = [
    "SELECT body FROM turns WHERE session = ?1",
    "SELECT body FROM snapshots WHERE session = ?1",
    "SELECT j.body FROM journal j JOIN channels c ON c.id = j.channel WHERE c.session = ?1",
];

/// The thread's main loop: collects at start, periodically, and on request. Requesters are notified when a collection
/// ends.
pub(crate) fn run(
    shared: &SequencerShared,
    db: &Connection,
    options: BlobOptions,
    requests: &Receiver<oneshot::Sender<()>>,
) {
    let (mut last, mut waiters) = (None, Vec::<oneshot::Sender<()>>::new());
    loop {
        if last.is_none_or(|last: Instant| last.elapsed() >= options.min_collection_pause) {
            match remove_unreferenced(shared, db) {
                Ok(()) => {}
                Err(StoreError::Stopped) => return,
                Err(error) => tracing::warn!(%error, "failed to remove unreferenced blobs"),
            }
            last = Some(Instant::now());
        }
        for waiter in waiters.drain(..) {
            // The requester may have stopped waiting.
            let _ = waiter.send(());
        }
        match requests.recv_timeout(options.collection_interval) {
            Ok(waiter) => waiters.extend(std::iter::once(waiter).chain(requests.try_iter())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn remove_unreferenced(shared: &SequencerShared, db: &Connection) -> Result<(), StoreError> {
    for session in query_strings(db, "SELECT DISTINCT session FROM blob_references")? {
        match find_unreferenced(db, &session) {
            Ok((until, hashes)) => {
                for hashes in hashes.chunks(MAX_REFERENCES_PER_JOB) {
                    let (session, hashes) = (session.clone(), hashes.to_vec());
                    shared.run_cleanup(BlobCleanup::References { session, hashes, until_seq: until })?;
                }
            }
            // A session that cannot be read may refer to any blob.
            Err(error) => {
                tracing::warn!(session, %error, "failed to search session for blob references; all of its blobs are retained")
            }
        }
    }
    let mut step = (Vec::new(), 0);
    for (hash, bytes) in find_orphans(db)? {
        if !step.0.is_empty() && step.1 + bytes > MAX_BYTES_PER_JOB {
            shared.run_cleanup(BlobCleanup::Blobs(std::mem::take(&mut step).0))?;
        }
        step.0.push(hash);
        step.1 += bytes;
    }
    if !step.0.is_empty() {
        shared.run_cleanup(BlobCleanup::Blobs(step.0))?;
    }
    Ok(())
}

/// The blobs that are stored for a session and that it no longer refers to, as of a sequence number.
fn find_unreferenced(db: &Connection, session: &str) -> Result<(i64, Vec<String>), StoreError> {
    // One transaction, so that a reference cannot move from a row that is not read yet to one that was read already.
    let tx = db.unchecked_transaction()?;
    let until: i64 = tx.query_row("SELECT COALESCE(MAX(seq), 0) FROM journal", [], |row| row.get(0))?;
    let mut unreferenced: HashSet<String> = tx
        .prepare_cached("SELECT hash FROM blob_references WHERE session = ?1 AND referenced_at_seq <= ?2")?
        .query_map(params![session, until], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for texts in REFERENCING_TEXT_QUERIES {
        let mut statement = tx.prepare_cached(texts)?;
        let mut rows = statement.query(params![session])?;
        while let (false, Some(row)) = (unreferenced.is_empty(), rows.next()?) {
            discard_referenced(row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?, &mut unreferenced);
        }
    }
    Ok((until, unreferenced.into_iter().collect()))
}

/// Removes what a text refers to from `unreferenced`. The store does not know how a state refers to blobs: everything that
/// looks like a hash counts.
fn discard_referenced(text: &[u8], unreferenced: &mut HashSet<String>) {
    let digits = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    for run in text.split(|byte| !digits(byte)).filter(|run| run.len() >= HASH_HEX_DIGITS) {
        for hash in run.windows(HASH_HEX_DIGITS).filter_map(|hash| std::str::from_utf8(hash).ok()) {
            unreferenced.remove(hash);
        }
    }
}

/// The blobs that no session refers to, with their sizes: those that were just found, and those that remained after a
/// crash.
fn find_orphans(db: &Connection) -> Result<Vec<(String, i64)>, StoreError> {
    db.prepare_cached(
        "SELECT hash, length(body) FROM blobs
         WHERE NOT EXISTS (SELECT 1 FROM blob_references WHERE hash = blobs.hash)",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect::<Result<_, _>>()
    .map_err(StoreError::from)
}

fn query_strings(db: &Connection, query: &str) -> Result<Vec<String>, StoreError> {
    db.prepare_cached(query)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>().map_err(StoreError::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blob, blob, database};

    #[test]
    fn blobs_referenced_after_the_search_survive_cleanup() {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open_writer(dir.path(), false).unwrap();
        db.execute("INSERT INTO journal VALUES (7, 1, 0, 'no reference', NULL, NULL)", []).unwrap();
        let [again, never] = ["again", "never"].map(|text| Blob::new("text/plain", text.as_bytes()));
        for contents in [&again, &never] {
            blob::write(&db, "claude:/1", 7, contents).unwrap();
        }
        let (until, hashes) = find_unreferenced(&db, "claude:/1").unwrap();
        assert_eq!((until, hashes.len()), (7, 2));
        blob::write(&db, "claude:/1", 8, &again).unwrap();
        blob::remove_references(&db, "claude:/1", &hashes, until).unwrap();
        assert_eq!(blob::remove_orphans(&db, &hashes).unwrap(), 5);
        assert_eq!(blob::read(&db, again.hash().to_owned()).unwrap(), Some(again));
        assert_eq!(blob::read(&db, never.hash().to_owned()).unwrap(), None);
        assert_eq!(blob::total_bytes(&db).unwrap(), 5);
        assert!(
            find_unreferenced(&db, "claude:/1").unwrap().1.is_empty(),
            "a reference after the last journal row is not searched"
        );
    }

    #[test]
    fn blobs_referenced_between_search_and_cleanup_are_retained() {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open_writer(dir.path(), false).unwrap();
        let contents = Blob::new("text/plain", "shared".as_bytes());
        blob::write(&db, "claude:/1", 1, &contents).unwrap();
        blob::remove_references(&db, "claude:/1", &[contents.hash().to_owned()], 1).unwrap();
        let orphans = find_orphans(&db).unwrap();
        assert_eq!(orphans, [(contents.hash().to_owned(), 6)]);
        blob::write(&db, "claude:/2", 2, &contents).unwrap();
        assert_eq!(blob::remove_orphans(&db, &[contents.hash().to_owned()]).unwrap(), 0);
        assert!(blob::is_stored(&db, contents.hash()).unwrap() && find_orphans(&db).unwrap().is_empty());
    }

    #[test]
    fn a_hash_is_found_at_any_position() {
        let hash = blake3::hash(b"x").to_hex().to_string();
        let is_found = |text: String| {
            let mut unreferenced = HashSet::from([hash.clone()]);
            discard_referenced(text.as_bytes(), &mut unreferenced);
            unreferenced.is_empty()
        };
        assert!(is_found(format!(r#"{{"uri":"ahp-content:/{hash}"}}"#)));
        assert!(is_found(hash.clone()));
        assert!(is_found(format!("ahp-content:\\/{hash}?x")));
        assert!(is_found(format!("00{hash}ff")), "a longer run of digits may contain a hash");
        assert!(!is_found(hash.chars().skip(1).collect()));
        assert!(!is_found(hash.to_uppercase()), "hashes are written in lower case");
        assert!(!is_found(String::new()));
    }
}
