//! Contents by their hash: what is too large to be part of a state. Kept as long as a session names them.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::StoreError;

/// Contents, named by their own hash: the same contents are stored once, and a name never means anything else.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    hash: String,
    content_type: String,
    body: Arc<[u8]>,
}

impl Blob {
    /// Names contents.
    pub fn new(content_type: impl Into<String>, body: impl Into<Arc<[u8]>>) -> Self {
        let body = body.into();
        Self { hash: blake3::hash(&body).to_hex().to_string(), content_type: content_type.into(), body }
    }

    /// The name: the BLAKE3 hash in hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What kind of contents they are: `text/plain`.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The contents.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

// Contents are files and outputs of commands.
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.hash, self.body.len())
    }
}

pub(crate) fn write(tx: &Connection, session: &str, blob: &Blob) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO blobs (hash, content_type, body) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING",
    )?
    .execute(params![blob.hash, blob.content_type, &*blob.body])?;
    tx.prepare_cached("INSERT INTO blob_names (session, hash) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![session, blob.hash])?;
    Ok(())
}

/// A session is gone: what only it named goes with it.
pub(crate) fn forget(tx: &Connection, session: &str) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM blobs WHERE hash IN (SELECT hash FROM blob_names WHERE session = ?1)
         AND NOT EXISTS (SELECT 1 FROM blob_names WHERE hash = blobs.hash AND session <> ?1)",
        params![session],
    )?;
    tx.execute("DELETE FROM blob_names WHERE session = ?1", params![session])?;
    Ok(())
}

pub(crate) fn read(db: &Connection, hash: String) -> Result<Option<Blob>, StoreError> {
    let found: Option<(String, Vec<u8>)> = db
        .prepare_cached("SELECT content_type, body FROM blobs WHERE hash = ?1")?
        .query_row(params![hash], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.map(|(content_type, body)| Blob { hash, content_type, body: body.into() }))
}
