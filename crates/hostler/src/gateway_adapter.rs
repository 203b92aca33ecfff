//! Implements the engine's gateway port.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::GatewayEndpoint;
use hostler_engine::{
    LimitKind, LimitReached, LimitWait, ModelGateway, ModelInfo, ModelLease, SessionBudget, SessionBudgetLimits,
    SessionUsage, SignInNeed, UpstreamSignInSequence,
};
use hostler_gateway::{
    CredentialStatus, Dollars, Gateway, LimitMetric, LimitScope, ModelSelection, ProtectedResource,
    ProtectedResourceStatus, ReachedLimit, SessionUsageStatus, SignInError, UsageBudget,
};
use secrecy::SecretString;

/// Gateway behind the engine's port.
pub(crate) struct GatewayAdapter(pub(crate) Arc<Gateway>);

impl ModelGateway for GatewayAdapter {
    fn models(&self) -> Vec<ModelInfo> {
        let info = |model: hostler_gateway::AvailableModel| ModelInfo {
            id: model.id,
            name: model.name,
            context_window: model.context_window,
            max_output_tokens: model.max_output,
            supports_vision: model.vision,
        };
        self.0.models().into_iter().map(info).collect()
    }

    fn lease(&self, session: &str, chat: &str, model: &str) -> ModelLease {
        let selection = self.0.select_model(model);
        let terms = lease_terms(&selection);
        let ModelSelection { upstream, model, supports_web_search } = selection;
        let lease = hostler_gateway::Lease { session: session.to_owned(), chat: chat.to_owned(), upstream };
        let registration = self.0.register(lease);
        let endpoint = GatewayEndpoint { base_url: self.0.base_url(), bearer: registration.bearer().clone() };
        ModelLease::new(endpoint, model, supports_web_search, registration).with_terms(terms)
    }

    fn switch_model(&self, lease: &ModelLease, model: &str) -> Option<String> {
        let selection = self.0.select_model(model);
        (lease_terms(&selection) == lease.terms).then_some(selection.model)
    }

    fn protected_resources(&self) -> Vec<hostler_engine::SignInResource> {
        self.0.protected_resources().into_iter().map(protected).collect()
    }

    fn required_sign_in(&self, model: &str) -> Option<hostler_engine::SignInResource> {
        self.0.required_sign_in(model).map(protected)
    }

    fn next_sign_in_sequence(&self) -> UpstreamSignInSequence {
        UpstreamSignInSequence(self.0.next_sign_in_sequence().0)
    }

    fn sign_in<'a>(
        &'a self,
        sequence: UpstreamSignInSequence,
        resource: &'a str,
        token: SecretString,
        lifetime: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), hostler_engine::UpstreamSignInError>> {
        let sequence = hostler_gateway::SignInSequence(sequence.0);
        async move { self.0.sign_in(sequence, resource, token, lifetime).await.map_err(to_engine_sign_in_error) }
            .boxed()
    }

    fn sign_out(
        &self,
        sequence: UpstreamSignInSequence,
        resource: &str,
    ) -> Result<(), hostler_engine::UpstreamSignInError> {
        self.0.sign_out(hostler_gateway::SignInSequence(sequence.0), resource).map_err(to_engine_sign_in_error)
    }

    fn is_model_script(&self, text: &str) -> bool {
        self.0.is_script(text)
    }

    fn to_session_budget(&self, session: &str) -> Option<SessionBudget> {
        Some(budget(&self.0.session_status(session).borrow()))
    }

    fn budget_changes(&self, session: &str) -> BoxStream<'static, ()> {
        let status = self.0.session_status(session);
        stream::unfold(status, |mut status| async move { status.changed().await.ok().map(|()| ((), status)) }).boxed()
    }

    fn set_session_limits(&self, session: &str, limits: SessionBudgetLimits) {
        let total = UsageBudget {
            requests: limits.requests,
            tokens: limits.tokens,
            dollars: limits.nanodollars.map(Dollars::from_nanos),
        };
        self.0.set_session_limits(session, hostler_gateway::SessionLimits { total, ..Default::default() });
    }

    fn forget_session(&self, session: &str) {
        self.0.delete_session_usage(session);
    }
}

/// Converts a resource that clients can sign in to.
fn protected(protected: ProtectedResourceStatus) -> hostler_engine::SignInResource {
    let ProtectedResourceStatus {
        resource: ProtectedResource { id, name, authorization_server, scopes },
        credential_status,
        required,
    } = protected;
    let sign_in_need = match credential_status {
        CredentialStatus::Ready => None,
        CredentialStatus::Missing => Some(SignInNeed::NotSignedIn),
        CredentialStatus::Expired => Some(SignInNeed::Expired),
    };
    hostler_engine::SignInResource {
        resource: id,
        name,
        authorization_server,
        scopes,
        sign_in_need,
        is_required: required,
    }
}

fn to_engine_sign_in_error(error: SignInError) -> hostler_engine::UpstreamSignInError {
    let sentence = error.to_string();
    match error {
        SignInError::UnknownResource(_) => hostler_engine::UpstreamSignInError::UnknownResource(sentence),
        SignInError::InvalidToken(_) => hostler_engine::UpstreamSignInError::InvalidToken(sentence),
        SignInError::Rejected(_) => hostler_engine::UpstreamSignInError::TokenRejected(sentence),
    }
}

/// Returns what must stay the same for a process to change its model: the upstream, whether it offers web search, and,
/// for models other than Claude, the model itself, because the process was started for it.
fn lease_terms(choice: &ModelSelection) -> String {
    let ModelSelection { upstream, model, supports_web_search } = choice;
    let family = if model.starts_with("claude") { "claude" } else { model };
    format!("{upstream:?} {supports_web_search} {family}")
}

/// Converts a session's usage to the engine's budget.
fn budget(status: &SessionUsageStatus) -> SessionBudget {
    let SessionUsageStatus { totals, limits, waiting, rejected_by } = status;
    SessionBudget {
        usage: SessionUsage {
            requests: totals.requests,
            input_tokens: totals.input_tokens,
            output_tokens: totals.output_tokens,
            cache_read_tokens: totals.cache_read_tokens,
            cache_write_tokens: totals.cache_write_tokens,
            nanodollars: totals.dollars.nanos(),
            unpriced_tokens: totals.unpriced_tokens,
        },
        limits: SessionBudgetLimits {
            requests: limits.total.requests,
            tokens: limits.total.tokens,
            nanodollars: limits.total.dollars.map(Dollars::nanos),
        },
        waiting_for: waiting
            .map(|waiting| LimitWait { limit: to_limit_reached(&waiting.limit), since: waiting.since.to_string() }),
        refused_by: rejected_by.as_ref().map(to_limit_reached),
    }
}

fn to_limit_reached(reached: &ReachedLimit) -> LimitReached {
    LimitReached {
        kind: match reached.metric {
            LimitMetric::ConcurrentRequests => LimitKind::Concurrent,
            LimitMetric::RequestsPerMinute => LimitKind::PerMinute,
            LimitMetric::Requests => LimitKind::Requests,
            LimitMetric::Tokens => LimitKind::Tokens,
            LimitMetric::Dollars => LimitKind::Dollars,
        },
        host_wide: reached.scope == LimitScope::Host,
        used: reached.used,
        allowed: reached.allowed,
        description: reached.to_string(),
        advice: reached.advice().to_owned(),
    }
}
