//! Model list of one upstream: fetched on demand, one fetch for all concurrent callers, and cached. `model_cache`
//! stores it across runs.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::{Upstream, UpstreamError, UpstreamModel};

/// Age after which a list is fetched again; the old list is used if that fails.
const MODEL_LIST_MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// Minimum age for a refetch because of a missing model, so that not every wrong id causes a call.
const MISSING_MODEL_REFETCH_AGE: Duration = Duration::from_secs(60);
/// Maximum time for fetching a list.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// A model that an agent may be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableModel {
    /// The id in the agent's form, as used in requests; `@name:id` for upstreams other than the default.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The upstream that serves it.
    pub upstream: String,
    /// Maximum input tokens, if known.
    pub context_window: Option<u64>,
    /// Maximum output tokens, if known.
    pub max_output: Option<u64>,
    /// Whether it accepts images, if known.
    pub vision: Option<bool>,
}

/// The list of one upstream.
#[derive(Default)]
pub(crate) struct ModelList {
    cached: RwLock<Option<CachedModels>>,
    /// Held during a fetch; concurrent callers wait for the same result.
    fetch_lock: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedModels {
    models: Arc<[UpstreamModel]>,
    /// Absent for a list from an earlier run.
    fetched_at: Option<Instant>,
}

impl CachedModels {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.fetched_at.is_some_and(|since| since.elapsed() < age)
    }
}

impl ModelList {
    /// The cached list, of any age.
    pub(crate) fn cached(&self) -> Option<Arc<[UpstreamModel]>> {
        self.read().map(|known| known.models)
    }

    /// Sets the list of an earlier run.
    pub(crate) fn restore(&self, models: Vec<UpstreamModel>) {
        self.write(CachedModels { models: models.into(), fetched_at: None });
    }

    /// The list, fetched if it is missing or old; an old list if that fails.
    pub(crate) async fn get_or_fetch(&self, upstream: &dyn Upstream) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        match self.fetch_if_older(upstream, MODEL_LIST_MAX_AGE).await {
            Ok(models) => Ok(models),
            Err(error) => self.cached().ok_or(error),
        }
    }

    /// The list, fetched if it is older than a minute; an older list if that fails.
    pub(crate) async fn get_recent_or_fetch(
        &self,
        upstream: &dyn Upstream,
    ) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        match self.fetch_if_older(upstream, MISSING_MODEL_REFETCH_AGE).await {
            Ok(models) => Ok(models),
            Err(error) => self.cached().ok_or(error),
        }
    }

    async fn fetch_if_older(
        &self,
        upstream: &dyn Upstream,
        age: Duration,
    ) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        let young = || self.read().filter(|known| known.is_younger_than(age)).map(|known| known.models);
        if let Some(models) = young() {
            return Ok(models);
        }
        let _asking = self.fetch_lock.lock().await;
        if let Some(models) = young() {
            return Ok(models);
        }
        let models = tokio::time::timeout(MODEL_LIST_TIMEOUT, upstream.models())
            .await
            .map_err(|_| UpstreamError::TimedOut)??;
        let models: Arc<[UpstreamModel]> = models.into();
        self.write(CachedModels { models: Arc::clone(&models), fetched_at: Some(Instant::now()) });
        Ok(models)
    }

    fn read(&self) -> Option<CachedModels> {
        self.cached.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, known: CachedModels) {
        *self.cached.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}

/// The list for upstreams without a list of their own; never empty, the default first.
#[must_use]
pub fn bundled_models() -> Vec<UpstreamModel> {
    [
        ("claude-sonnet-4-5", "Claude Sonnet 4.5"),
        ("claude-opus-4-5", "Claude Opus 4.5"),
        ("claude-haiku-4-5", "Claude Haiku 4.5"),
    ]
    .map(|(id, name)| UpstreamModel {
        id: id.to_owned(),
        name: name.to_owned(),
        context_window: Some(200_000),
        max_output: Some(64_000),
        vision: Some(true),
    })
    .into()
}
