//! What is known about an upstream's models: asked for when needed, once for all who need it, and kept for a while.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::{Upstream, UpstreamError, UpstreamModel};

/// A list that is older is asked for again; until the answer comes it still counts.
const MODEL_LIST_MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// A model that a list lacks may be new, but not every wrong id is worth a call.
const MISSING_MODEL_REFETCH_AGE: Duration = Duration::from_secs(60);
/// How long a list may take.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// A model that an agent may be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableModel {
    /// The id in the agent's form, as it stands in a request; `@name:id` for upstreams other than the default.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The upstream that serves it.
    pub upstream: String,
    /// How many tokens it can read, if that is known.
    pub context_window: Option<u64>,
    /// How many tokens it can write, if that is known.
    pub max_output: Option<u64>,
    /// Whether it takes pictures, if that is known.
    pub vision: Option<bool>,
}

/// The list of one upstream.
#[derive(Default)]
pub(crate) struct ModelList {
    cached: RwLock<Option<CachedModels>>,
    /// Held while the upstream is asked; the others wait for the same answer.
    fetch_lock: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedModels {
    models: Arc<[UpstreamModel]>,
    /// Absent for a list that an earlier run knew.
    fetched_at: Option<Instant>,
}

impl CachedModels {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.fetched_at.is_some_and(|since| since.elapsed() < age)
    }
}

impl ModelList {
    /// What is known, however old.
    pub(crate) fn cached(&self) -> Option<Arc<[UpstreamModel]>> {
        self.read().map(|known| known.models)
    }

    /// What an earlier run knew.
    pub(crate) fn restore(&self, models: Vec<UpstreamModel>) {
        self.write(CachedModels { models: models.into(), fetched_at: None });
    }

    /// The list, asked for if none is known or the one that is known is old.
    pub(crate) async fn get_or_fetch(&self, upstream: &dyn Upstream) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        match self.fetch_if_older(upstream, MODEL_LIST_MAX_AGE).await {
            Ok(models) => Ok(models),
            // An old list is better than none.
            Err(error) => self.cached().ok_or(error),
        }
    }

    /// The list as it is now, give or take a minute.
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

/// The list that is used while no upstream has told its own; never empty, the default first.
pub(crate) fn bundled_models() -> Vec<UpstreamModel> {
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
