//! The quota on the total size of blobs.
//!
//! Contents of clients are refused if they do not fit; outputs of agents are counted and always stored, so that no turn
//! has gaps.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::Connection;

use crate::pending_rows::PendingRow;
use crate::sequencer::NumberedBatch;
use crate::{StoreError, blob};

/// How blobs are stored and collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobOptions {
    /// Maximum total size, in bytes.
    pub quota_bytes: u64,
    /// Interval between searches for blobs without a reference.
    pub collection_interval: Duration,
    /// Minimum time between two searches, even if the quota is exceeded.
    pub min_collection_pause: Duration,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self {
            quota_bytes: 2 << 30,
            collection_interval: Duration::from_secs(60 * 60),
            min_collection_pause: Duration::from_secs(60),
        }
    }
}

/// Removes the batches that exceed the quota.
pub(crate) fn extract_over_quota(
    db: &Connection,
    quota: u64,
    batches: &mut Vec<NumberedBatch>,
) -> Result<Vec<NumberedBatch>, StoreError> {
    if !batches.iter().any(|batch| batch.has_client_blobs) {
        return Ok(Vec::new());
    }
    let mut over = find_over_quota(db, quota, batches)?.into_iter();
    Ok(batches.extract_if(.., |_| over.next().unwrap_or_default()).collect())
}

/// For each batch, whether it exceeds the quota together with those before it.
fn find_over_quota(db: &Connection, quota: u64, batches: &[NumberedBatch]) -> Result<Vec<bool>, StoreError> {
    let mut total = blob::total_bytes(db)?;
    let mut counted = HashSet::new();
    let mut over_quota = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut fresh = HashMap::new();
        for row in &batch.rows {
            if let PendingRow::Blob { blob, .. } = row
                && !counted.contains(blob.hash())
                && !blob::is_stored(db, blob.hash())?
            {
                fresh.insert(blob.hash(), blob.body().len() as u64);
            }
        }
        let bytes: u64 = fresh.values().sum();
        let over = batch.has_client_blobs && bytes > 0 && total.saturating_add(bytes) > quota;
        if !over {
            total = total.saturating_add(bytes);
            counted.extend(fresh.into_keys());
        }
        over_quota.push(over);
    }
    Ok(over_quota)
}
