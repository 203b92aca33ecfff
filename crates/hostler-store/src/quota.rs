//! How much contents may be in all.
//!
//! What clients bring is refused where it does not fit; what agents put out is counted and kept, so that no turn is shown with
//! holes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::Connection;

use crate::rows::Row;
use crate::sequencer::Numbered;
use crate::{StoreError, blob};

/// How contents are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobOptions {
    /// How many bytes they may be in all.
    pub quota: u64,
    /// How often those are looked for that nothing names any more.
    pub interval: Duration,
    /// How long after such a look another one is not worth it, even if there is no room.
    pub pause: Duration,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self { quota: 2 << 30, interval: Duration::from_secs(60 * 60), pause: Duration::from_secs(60) }
    }
}

/// Takes out the batches for which there is no room.
pub(crate) fn refuse(db: &Connection, quota: u64, batches: &mut Vec<Numbered>) -> Result<Vec<Numbered>, StoreError> {
    if !batches.iter().any(|batch| batch.brought) {
        return Ok(Vec::new());
    }
    let mut over = over(db, quota, batches)?.into_iter();
    Ok(batches.extract_if(.., |_| over.next().unwrap_or_default()).collect())
}

/// For each batch, whether there is no room for it beside those before it.
fn over(db: &Connection, quota: u64, batches: &[Numbered]) -> Result<Vec<bool>, StoreError> {
    let mut total = blob::total(db)?;
    let mut counted = HashSet::new();
    let mut answers = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut fresh = HashMap::new();
        for row in &batch.rows {
            if let Row::Blob { blob, .. } = row
                && !counted.contains(blob.hash())
                && !blob::is_stored(db, blob.hash())?
            {
                fresh.insert(blob.hash(), blob.body().len() as u64);
            }
        }
        let bytes: u64 = fresh.values().sum();
        let over = batch.brought && bytes > 0 && total.saturating_add(bytes) > quota;
        if !over {
            total = total.saturating_add(bytes);
            counted.extend(fresh.into_keys());
        }
        answers.push(over);
    }
    Ok(answers)
}
