//! The upstreams of one gateway by name; the first is the default. They can be replaced while requests run. Routes
//! requests by model id and lease.

use std::fmt;
use std::sync::Arc;

use crate::error::{ApiError, ApiErrorKind};
use crate::model_catalog::{self, AvailableModel, ModelList};
use crate::model_id;
use crate::upstream::{UnknownModelPolicy, Upstream, UpstreamError, UpstreamModel};

/// An upstream with the name that sessions and model ids refer to.
#[derive(Clone)]
pub struct NamedUpstream {
    /// Lower-case letters, digits and dashes.
    pub name: String,
    /// The implementation.
    pub upstream: Arc<dyn Upstream>,
}

/// The upstreams of a gateway: at least one, with unique names.
#[derive(Clone)]
pub struct Upstreams(Vec<NamedUpstream>);

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|named| (&named.name, named.upstream.kind()))).finish()
    }
}

/// Why a set of upstreams is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamsError {
    /// There is no upstream.
    #[error("no upstream is configured; configure at least one")]
    Empty,
    /// A name occurs twice.
    #[error("two upstreams have the name {0:?}; rename one of them")]
    DuplicateName(String),
    /// A name cannot be used in `@name:model`.
    #[error("{0:?} is not a valid upstream name; use lowercase letters, digits and hyphens")]
    InvalidName(String),
}

impl UpstreamsError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "noUpstream",
            Self::DuplicateName(_) => "duplicateUpstreamName",
            Self::InvalidName(_) => "invalidUpstreamName",
        }
    }
}

impl Upstreams {
    /// Validates a set; the first upstream is the default.
    ///
    /// # Errors
    /// If the set is empty, or if a name is invalid or not unique.
    pub fn new(upstreams: Vec<NamedUpstream>) -> Result<Self, UpstreamsError> {
        if upstreams.is_empty() {
            return Err(UpstreamsError::Empty);
        }
        for (at, NamedUpstream { name, .. }) in upstreams.iter().enumerate() {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if name.is_empty() || !name.bytes().all(fits) {
                return Err(UpstreamsError::InvalidName(name.clone()));
            }
            if upstreams.iter().take(at).any(|earlier| earlier.name == *name) {
                return Err(UpstreamsError::DuplicateName(name.clone()));
            }
        }
        Ok(Self(upstreams))
    }

    /// A single upstream, named after its kind.
    #[must_use]
    pub fn single(upstream: Arc<dyn Upstream>) -> Self {
        Self(vec![NamedUpstream { name: upstream.kind().to_owned(), upstream }])
    }
}

/// The upstreams that a caller's requests may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamScope<'a> {
    /// The one with this name, or the default.
    Single(Option<&'a str>),
    /// All of them; the default for a model id without an upstream.
    All,
}

impl<'a> UpstreamScope<'a> {
    /// The upstream for model ids that name none, if it is not the default.
    fn preferred(self) -> Option<&'a str> {
        match self {
            Self::Single(own) => own,
            Self::All => None,
        }
    }
}

/// An upstream with its model list.
pub(crate) struct RegisteredUpstream {
    pub(crate) name: String,
    pub(crate) upstream: Arc<dyn Upstream>,
    pub(crate) models: ModelList,
}

/// All upstreams, the default first.
pub(crate) struct UpstreamRegistry(Vec<Arc<RegisteredUpstream>>);

impl UpstreamRegistry {
    /// Creates the registry; upstreams that are unchanged since `before` retain their model lists.
    pub(crate) fn new(upstreams: Upstreams, before: Option<&Self>) -> Self {
        let offer = |NamedUpstream { name, upstream }| {
            let previous = before.and_then(|before| before.get(&name));
            match previous.filter(|previous| Arc::ptr_eq(&previous.upstream, &upstream)) {
                Some(previous) => Arc::clone(previous),
                None => Arc::new(RegisteredUpstream { name, upstream, models: ModelList::default() }),
            }
        };
        Self(upstreams.0.into_iter().map(offer).collect())
    }

    pub(crate) fn all(&self) -> &[Arc<RegisteredUpstream>] {
        &self.0
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<RegisteredUpstream>> {
        self.0.iter().find(|offer| offer.name == name)
    }

    /// Selects the upstream of a request: the one that its model id names, else the caller's own, else the default. A
    /// caller with one upstream is rejected for another one.
    ///
    /// Also returns the model id without the upstream's name.
    pub(crate) fn route<'a>(
        &self,
        reach: UpstreamScope<'_>,
        model: &'a str,
    ) -> Result<(&Arc<RegisteredUpstream>, &'a str), ApiError> {
        let (asked, model) = split_model_id(model).map_or((None, model), |(name, model)| (Some(name), model));
        let own = match reach.preferred() {
            None => self.0.first().ok_or_else(|| unknown_upstream_error("default")),
            Some(name) => self.get(name).ok_or_else(|| unknown_upstream_error(name)),
        };
        match asked {
            None => own.map(|own| (own, model)),
            Some(name) if reach == UpstreamScope::All => {
                self.get(name).map(|offer| (offer, model)).ok_or_else(|| unknown_upstream_error(name))
            }
            Some(name) => match own? {
                own if own.name == name => Ok((own, model)),
                own => Err(upstream_not_allowed_error(name, &own.name)),
            },
        }
    }
}

impl UpstreamRegistry {
    /// Fetches the models of all upstreams concurrently. A failing upstream does not hide the others.
    pub(crate) async fn fetch_models(&self) {
        let asking = self.0.iter().map(|offer| async move {
            if let Err(error) = offer.models.get_or_fetch(&*offer.upstream).await {
                tracing::info!(upstream = offer.name, %error, "failed to fetch the upstream's model list");
            }
        });
        futures::future::join_all(asking).await;
    }

    /// The known models that a caller reaches, by the ids that it uses: its own upstream's first and without a name.
    pub(crate) fn known_models(&self, reach: UpstreamScope<'_>) -> Vec<AvailableModel> {
        let own = reach.preferred().and_then(|name| self.get(name)).or(self.0.first());
        let is_own = |offer: &Arc<RegisteredUpstream>| own.is_some_and(|own| Arc::ptr_eq(own, offer));
        let others = self.0.iter().filter(|offer| reach == UpstreamScope::All && !is_own(offer));
        let mut models = Vec::new();
        for offer in own.into_iter().chain(others) {
            let listed = match offer.models.cached() {
                Some(listed) => listed,
                None if is_own(offer) => model_catalog::bundled_models().into(),
                None => continue,
            };
            models.extend(listed.iter().map(|model| {
                let id = RegisteredUpstream::agent_id(model);
                AvailableModel {
                    id: if is_own(offer) { id } else { join_model_id(&offer.name, &id) },
                    name: model.name.clone(),
                    upstream: offer.name.clone(),
                    context_window: model.context_window,
                    max_output: model.max_output,
                    vision: model.vision,
                }
            }));
        }
        models
    }
}

/// Splits `@name:model`.
pub(crate) fn split_model_id(model: &str) -> Option<(&str, &str)> {
    model.strip_prefix('@')?.split_once(':').filter(|(_, model)| !model.is_empty())
}

/// The id of a model of a named upstream.
pub(crate) fn join_model_id(name: &str, model: &str) -> String {
    format!("@{name}:{model}")
}

fn unknown_upstream_error(name: &str) -> ApiError {
    ApiError::new(
        ApiErrorKind::NotFound,
        &format!("No upstream named {name:?}. GET /v1/models lists the available models."),
    )
}

fn upstream_not_allowed_error(name: &str, own: &str) -> ApiError {
    let message =
        format!("This bearer is valid for the upstream {own:?}, not for {name:?}. GET /v1/models lists the models.");
    ApiError::new(ApiErrorKind::Permission, &message)
}

/// Result of resolving a model id.
pub(crate) enum ModelResolution {
    /// The id at the upstream.
    Model(String),
    /// The upstream does not list the model.
    Unknown,
}

impl RegisteredUpstream {
    /// Resolves a model id of either form to the upstream's id.
    pub(crate) async fn resolve(&self, asked: &str) -> Result<ModelResolution, UpstreamError> {
        let listed = match self.upstream.capabilities().unknown_models {
            UnknownModelPolicy::Forward => return Ok(ModelResolution::Model(asked.to_owned())),
            UnknownModelPolicy::RejectIfListKnown => self.models.cached(),
            UnknownModelPolicy::Reject => Some(self.models.get_or_fetch(&*self.upstream).await?),
        };
        let Some(listed) = listed else {
            return Ok(ModelResolution::Model(asked.to_owned()));
        };
        if let Some(found) = model_id::find_model(&listed, asked) {
            return Ok(ModelResolution::Model(found.id.clone()));
        }
        // The model may be newer than the list.
        let renewed = self.models.get_recent_or_fetch(&*self.upstream).await?;
        Ok(model_id::find_model(&renewed, asked)
            .map_or(ModelResolution::Unknown, |found| ModelResolution::Model(found.id.clone())))
    }

    /// The agent's id of a listed model.
    pub(crate) fn agent_id(model: &UpstreamModel) -> String {
        model_id::agent_form(&model.id).unwrap_or_else(|| model.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::anthropic::{AnthropicConfig, AnthropicUpstream};

    fn named(name: &str) -> NamedUpstream {
        let config = AnthropicConfig::new("http://127.0.0.1:9".parse().unwrap());
        NamedUpstream { name: name.to_owned(), upstream: Arc::new(AnthropicUpstream::new(config)) }
    }

    #[test]
    fn invalid_and_duplicate_names_are_rejected() {
        assert_eq!(Upstreams::new(vec![]).err(), Some(UpstreamsError::Empty));
        for name in ["", "Work", "a:b", "a b", "@a", "ä"] {
            assert_eq!(Upstreams::new(vec![named(name)]).err(), Some(UpstreamsError::InvalidName(name.to_owned())));
        }
        let twice = Upstreams::new(vec![named("a"), named("b"), named("a")]);
        assert_eq!(twice.err(), Some(UpstreamsError::DuplicateName("a".to_owned())));
        assert!(Upstreams::new(vec![named("a"), named("b-2")]).is_ok());
    }

    #[test]
    fn a_lease_reaches_one_upstream_and_unregistered_callers_reach_all() {
        use UpstreamScope::{All, Single};
        let offers = UpstreamRegistry::new(Upstreams::new(vec![named("a"), named("b"), named("c")]).unwrap(), None);
        for (own, model, expected) in [
            (Single(None), "m", Some(("a", "m"))),
            (Single(None), "@a:m", Some(("a", "m"))),
            (Single(None), "@c:m", None),
            (Single(Some("b")), "m", Some(("b", "m"))),
            (Single(Some("b")), "@b:m", Some(("b", "m"))),
            (Single(Some("b")), "@a:m", None),
            (Single(Some("b")), "@c:m", None),
            (Single(Some("d")), "m", None),
            (Single(Some("d")), "@a:m", None),
            (All, "m", Some(("a", "m"))),
            (All, "@c:x:y", Some(("c", "x:y"))),
            (All, "@d:m", None),
            // Not of the form `@name:model`, so an ordinary id.
            (All, "@c", Some(("a", "@c"))),
            (Single(None), "@c:", Some(("a", "@c:"))),
        ] {
            let routed = offers.route(own, model).map(|(offer, model)| (offer.name.clone(), model)).ok();
            assert_eq!(routed.as_ref().map(|(name, model)| (name.as_str(), *model)), expected, "{own:?} {model}");
        }
    }

    #[test]
    fn an_unchanged_upstream_retains_its_model_list() {
        let (a, b) = (named("a"), named("b"));
        let before = UpstreamRegistry::new(Upstreams::new(vec![a.clone(), b]).unwrap(), None);
        let after = UpstreamRegistry::new(Upstreams::new(vec![named("b"), a]).unwrap(), Some(&before));
        assert!(Arc::ptr_eq(before.get("a").unwrap(), after.get("a").unwrap()));
        assert!(!Arc::ptr_eq(before.get("b").unwrap(), after.get("b").unwrap()));
    }
}
