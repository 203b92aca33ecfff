//! Blobs: contents that are too large for a state, stored by hash and stored as long as a session refers to them.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::StoreError;

/// Contents, identified by their hash: equal contents are stored once, and a hash never refers to other contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    hash: String,
    content_type: String,
    body: Arc<[u8]>,
}

impl Blob {
    /// Hashes contents.
    pub fn new(content_type: impl Into<String>, body: impl Into<Arc<[u8]>>) -> Self {
        let body = body.into();
        Self { hash: blake3::hash(&body).to_hex().to_string(), content_type: content_type.into(), body }
    }

    /// The BLAKE3 hash in hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The content type, such as `text/plain`.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The contents.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

// Debug output is redacted: blobs contain files and outputs of commands.
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.hash, self.body.len())
    }
}

/// Stores a blob and a session's reference to it, as of a sequence number.
pub(crate) fn write(tx: &Connection, session: &str, seq: i64, blob: &Blob) -> Result<(), StoreError> {
    let fresh = tx
        .prepare_cached(
            "INSERT INTO blobs (hash, content_type, body) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING",
        )?
        .execute(params![blob.hash, blob.content_type, &*blob.body])?;
    if fresh > 0 {
        add_to_total(tx, i64::try_from(blob.body.len()).unwrap_or(i64::MAX))?;
    }
    tx.prepare_cached(
        "INSERT INTO blob_references (session, hash, referenced_at_seq) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET referenced_at_seq = MAX(referenced_at_seq, excluded.referenced_at_seq)",
    )?
    .execute(params![session, blob.hash, seq])?;
    Ok(())
}

/// Removes a session's references, and the blobs that only it referred to.
pub(crate) fn remove_session(tx: &Connection, session: &str) -> Result<(), StoreError> {
    let hashes: Vec<String> = tx
        .prepare_cached("DELETE FROM blob_references WHERE session = ?1 RETURNING hash")?
        .query_map(params![session], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    remove_orphans(tx, &hashes)?;
    Ok(())
}

/// Removes a session's references to blobs, unless the session referred to them again after a sequence number.
pub(crate) fn remove_references(
    tx: &Connection,
    session: &str,
    hashes: &[String],
    until: i64,
) -> Result<(), StoreError> {
    let mut statement =
        tx.prepare_cached("DELETE FROM blob_references WHERE session = ?1 AND hash = ?2 AND referenced_at_seq <= ?3")?;
    for hash in hashes {
        statement.execute(params![session, hash, until])?;
    }
    Ok(())
}

/// Removes those of some blobs that no session refers to. Returns their size in bytes.
pub(crate) fn remove_orphans(tx: &Connection, hashes: &[String]) -> Result<i64, StoreError> {
    let mut statement = tx.prepare_cached(
        "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_references WHERE hash = ?1)
         RETURNING length(body)",
    )?;
    let mut removed = 0;
    for hash in hashes {
        let bytes: Option<i64> = statement.query_row(params![hash], |row| row.get(0)).optional()?;
        removed += bytes.unwrap_or_default();
    }
    add_to_total(tx, -removed)?;
    Ok(removed)
}

fn add_to_total(tx: &Connection, bytes: i64) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE blob_totals SET bytes = MAX(0, bytes + ?1)")?.execute(params![bytes])?;
    Ok(())
}

/// Total size of all blobs, in bytes.
pub(crate) fn total_bytes(db: &Connection) -> Result<u64, StoreError> {
    let total: i64 = db.prepare_cached("SELECT bytes FROM blob_totals")?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(total).unwrap_or_default())
}

pub(crate) fn is_stored(db: &Connection, hash: &str) -> Result<bool, StoreError> {
    Ok(db.prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")?.exists(params![hash])?)
}

/// The blob with a hash. A stored blob that does not match its hash counts as missing.
pub(crate) fn read(db: &Connection, hash: String) -> Result<Option<Blob>, StoreError> {
    let found: Option<(String, Vec<u8>)> = db
        .prepare_cached("SELECT content_type, body FROM blobs WHERE hash = ?1")?
        .query_row(params![hash], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let blob = found.map(|(content_type, body)| Blob::new(content_type, body));
    if blob.as_ref().is_some_and(|blob| blob.hash != hash) {
        tracing::error!(hash, "failed to read blob: contents do not match the hash");
        return Ok(None);
    }
    Ok(blob)
}
