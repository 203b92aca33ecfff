//! The engine's port to the gateway.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::Endpoint;
use hostler_engine::{
    Held, Lease, LimitKind, LimitReached, ModelGateway, ModelInfo, SessionBudget, SessionLimits, SignInNeed,
    SignInTurn, Spent,
};
use hostler_gateway::{
    Budget, Choice, Dollars, Gateway, Measure, Protected, Reached, Resource, Scope, SessionStatus, SignInError,
    Standing,
};
use secrecy::SecretString;

/// The gateway as the engine wants it.
pub(crate) struct Port(pub(crate) Arc<Gateway>);

impl ModelGateway for Port {
    fn models(&self) -> Vec<ModelInfo> {
        let info = |model: hostler_gateway::Model| ModelInfo {
            id: model.id,
            name: model.name,
            context_window: model.context_window,
            max_output: model.max_output,
            vision: model.vision,
        };
        self.0.models().into_iter().map(info).collect()
    }

    fn lease(&self, session: &str, chat: &str, model: &str) -> Lease {
        let choice = self.0.choose(model);
        let terms = terms(&choice);
        let Choice { upstream, model, searches_the_web } = choice;
        let lease = hostler_gateway::Lease { session: session.to_owned(), chat: chat.to_owned(), upstream };
        let registration = self.0.register(lease);
        let endpoint = Endpoint { base_url: self.0.base_url(), bearer: registration.bearer().clone() };
        Lease::new(endpoint, model, searches_the_web, registration).on(terms)
    }

    fn relet(&self, lease: &Lease, model: &str) -> Option<String> {
        let choice = self.0.choose(model);
        (terms(&choice) == lease.terms).then_some(choice.model)
    }

    fn protected(&self) -> Vec<hostler_engine::Protected> {
        self.0.protected().into_iter().map(protected).collect()
    }

    fn sign_in_for(&self, model: &str) -> Option<hostler_engine::Protected> {
        self.0.sign_in_for(model).map(protected)
    }

    fn sign_in_turn(&self) -> SignInTurn {
        SignInTurn(self.0.sign_in_turn().0)
    }

    fn sign_in<'a>(
        &'a self,
        turn: SignInTurn,
        resource: &'a str,
        token: SecretString,
        lasts: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), hostler_engine::SignInError>> {
        let turn = hostler_gateway::SignInTurn(turn.0);
        async move { self.0.sign_in(turn, resource, token, lasts).await.map_err(not_signed_in) }.boxed()
    }

    fn sign_out(&self, turn: SignInTurn, resource: &str) -> Result<(), hostler_engine::SignInError> {
        self.0.sign_out(hostler_gateway::SignInTurn(turn.0), resource).map_err(not_signed_in)
    }

    fn is_script(&self, text: &str) -> bool {
        self.0.is_script(text)
    }

    fn budget(&self, session: &str) -> Option<SessionBudget> {
        Some(budget(&self.0.session_status(session).borrow()))
    }

    fn budget_changes(&self, session: &str) -> BoxStream<'static, ()> {
        let status = self.0.session_status(session);
        stream::unfold(status, |mut status| async move { status.changed().await.ok().map(|()| ((), status)) }).boxed()
    }

    fn set_session_limits(&self, session: &str, limits: SessionLimits) {
        let total = Budget {
            requests: limits.requests,
            tokens: limits.tokens,
            dollars: limits.nanodollars.map(Dollars::from_nanos),
        };
        self.0.set_session_limits(session, hostler_gateway::SessionLimits { total, ..Default::default() });
    }

    fn forget_session(&self, session: &str) {
        self.0.forget_session(session);
    }
}

/// What clients can sign in to, in the engine's words.
fn protected(protected: Protected) -> hostler_engine::Protected {
    let Protected { resource: Resource { id, name, authorization_server, scopes }, standing, required } = protected;
    let needed = match standing {
        Standing::Ready => None,
        Standing::Missing => Some(SignInNeed::First),
        Standing::Over => Some(SignInNeed::Over),
    };
    hostler_engine::Protected { resource: id, name, authorization_server, scopes, needed, required }
}

fn not_signed_in(error: SignInError) -> hostler_engine::SignInError {
    let sentence = error.to_string();
    match error {
        SignInError::Unknown(_) => hostler_engine::SignInError::Unknown(sentence),
        SignInError::Unfit(_) => hostler_engine::SignInError::Unfit(sentence),
        SignInError::Refused(_) => hostler_engine::SignInError::Refused(sentence),
    }
}

/// What must stay the same for a process to change its model: where it is served, what is served with it, and, for models
/// that are not Claude's, the model itself, since the process was started for it.
fn terms(choice: &Choice) -> String {
    let Choice { upstream, model, searches_the_web } = choice;
    let family = if model.starts_with("claude") { "claude" } else { model };
    format!("{upstream:?} {searches_the_web} {family}")
}

/// What the gateway says about a session, in the engine's words.
fn budget(status: &SessionStatus) -> SessionBudget {
    let SessionStatus { totals, limits, held, refused } = status;
    SessionBudget {
        spent: Spent {
            requests: totals.requests,
            input_tokens: totals.input_tokens,
            output_tokens: totals.output_tokens,
            cache_read_tokens: totals.cache_read_tokens,
            cache_write_tokens: totals.cache_write_tokens,
            nanodollars: totals.dollars.nanos(),
            unpriced_tokens: totals.unpriced_tokens,
        },
        limits: SessionLimits {
            requests: limits.total.requests,
            tokens: limits.total.tokens,
            nanodollars: limits.total.dollars.map(Dollars::nanos),
        },
        held: held.map(|held| Held { reached: reached(&held.reached), since: held.since.to_string() }),
        refused: refused.as_ref().map(reached),
    }
}

fn reached(reached: &Reached) -> LimitReached {
    LimitReached {
        kind: match reached.measure {
            Measure::Concurrent => LimitKind::Concurrent,
            Measure::PerMinute => LimitKind::PerMinute,
            Measure::Requests => LimitKind::Requests,
            Measure::Tokens => LimitKind::Tokens,
            Measure::Dollars => LimitKind::Dollars,
        },
        host_wide: reached.scope == Scope::Host,
        used: reached.used,
        allowed: reached.allowed,
        sentence: reached.to_string(),
        advice: reached.advice().to_owned(),
    }
}
