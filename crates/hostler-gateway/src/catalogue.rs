//! What is known about an upstream's models: asked for when needed, once for all who need it, and kept for a while.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::{Upstream, UpstreamError, UpstreamModel};

/// A list that is older is asked for again; until the answer comes it still counts.
const FRESH: Duration = Duration::from_secs(30 * 60);
/// A model that a list lacks may be new, but not every wrong id is worth a call.
const RECENT: Duration = Duration::from_secs(60);
/// How long a list may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A model that an agent may be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
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
    known: RwLock<Option<Known>>,
    /// Held while the upstream is asked; the others wait for the same answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    models: Arc<[UpstreamModel]>,
    /// Absent for a list that an earlier run knew.
    since: Option<Instant>,
}

impl Known {
    fn younger_than(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() < age)
    }
}

impl ModelList {
    /// What is known, however old.
    pub(crate) fn known(&self) -> Option<Arc<[UpstreamModel]>> {
        self.read().map(|known| known.models)
    }

    /// What an earlier run knew.
    pub(crate) fn remember(&self, models: Vec<UpstreamModel>) {
        self.write(Known { models: models.into(), since: None });
    }

    /// The list, asked for if none is known or the one that is known is old.
    pub(crate) async fn fetched(&self, upstream: &dyn Upstream) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        match self.younger(upstream, FRESH).await {
            Ok(models) => Ok(models),
            // An old list is better than none.
            Err(error) => self.known().ok_or(error),
        }
    }

    /// The list as it is now, give or take a minute.
    pub(crate) async fn renewed(&self, upstream: &dyn Upstream) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        match self.younger(upstream, RECENT).await {
            Ok(models) => Ok(models),
            Err(error) => self.known().ok_or(error),
        }
    }

    async fn younger(&self, upstream: &dyn Upstream, age: Duration) -> Result<Arc<[UpstreamModel]>, UpstreamError> {
        let young = || self.read().filter(|known| known.younger_than(age)).map(|known| known.models);
        if let Some(models) = young() {
            return Ok(models);
        }
        let _asking = self.asking.lock().await;
        if let Some(models) = young() {
            return Ok(models);
        }
        let models = tokio::time::timeout(PATIENCE, upstream.models()).await.map_err(|_| UpstreamError::TimedOut)??;
        let models: Arc<[UpstreamModel]> = models.into();
        self.write(Known { models: Arc::clone(&models), since: Some(Instant::now()) });
        Ok(models)
    }

    fn read(&self) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}

/// The list that is used while no upstream has told its own; never empty, the default first.
pub(crate) fn bundled() -> Vec<UpstreamModel> {
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
