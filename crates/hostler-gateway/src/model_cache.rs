//! Cache file of the upstreams' model lists: clients that connect right after the start get the models at once, also
//! without a network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::upstream::UpstreamModel;
use crate::upstream_registry::UpstreamRegistry;

const FILE_NAME: &str = "models.json";
/// Maximum file size; a larger file is not a valid cache.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// By upstream name.
type CachedLists = BTreeMap<String, CachedList>;

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct CachedList {
    /// A list applies only to an upstream of the same kind.
    kind: String,
    models: Vec<UpstreamModel>,
}

/// The cache file.
pub(crate) struct ModelCache {
    path: PathBuf,
}

impl ModelCache {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { path: dir.join(FILE_NAME) }
    }

    /// Restores the lists of an earlier run. An unreadable file is ignored.
    pub(crate) fn restore(&self, offers: &UpstreamRegistry) {
        let mut lists = self.read();
        for offer in offers.all() {
            if let Some(list) = lists.remove(&offer.name)
                && list.kind == offer.upstream.kind()
                && !list.models.is_empty()
            {
                offer.models.restore(list.models);
            }
        }
    }

    /// Saves the current lists, unless the file has them already.
    pub(crate) fn save(&self, offers: &UpstreamRegistry) {
        let before = self.read();
        let mut lists = before.clone();
        for offer in offers.all() {
            if let Some(models) = offer.models.cached() {
                let list = CachedList { kind: offer.upstream.kind().to_owned(), models: models.to_vec() };
                lists.insert(offer.name.clone(), list);
            }
        }
        if lists != before
            && let Err(error) = self.write(&lists)
        {
            tracing::warn!(%error, "failed to store the model list for the next start");
        }
    }

    fn read(&self) -> CachedLists {
        let small = std::fs::metadata(&self.path).is_ok_and(|about| about.len() <= MAX_FILE_BYTES);
        let json = if small { std::fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        serde_json::from_slice(&json).unwrap_or_default()
    }

    fn write(&self, lists: &CachedLists) -> std::io::Result<()> {
        let json = serde_json::to_vec_pretty(lists)?;
        let new = self.path.with_extension("json.new");
        std::fs::write(&new, json)?;
        std::fs::rename(&new, &self.path)
    }
}
