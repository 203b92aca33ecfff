//! Loopback gateway: serves the Anthropic Messages API to agents and calls the configured upstreams.
//!
//! An agent process gets a bearer that is valid only at this gateway and only while the process is registered; the
//! upstream's key never leaves this crate. The path of a request:
//!
//! 1. `server` accepts the connection, which `connection` limits in number and time; `handler` checks the `Host`
//!    header, authenticates before anything else, and reads and validates the body;
//! 2. `limits` admits, queues or rejects it, based on the usage in the `ledger`;
//! 3. an [`Upstream`] answers with a whole body or with a stream of server-sent events;
//! 4. `relay` waits for the first event, then forwards events as they arrive, while `usage` reads token counts from
//!    them.
//!
//! The upstream for Anthropic is here. Every other upstream has a crate of its own, which implements [`Upstream`] with
//! the help of [`upstream_support`].
//!
//! The crate does not know sessions, drivers or clients: a [`Lease`] only carries their names.

#![forbid(unsafe_code)]

mod auth;
mod betas;
mod connection;
mod credential;
mod dollars;
mod error;
mod forwarded_request;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod handler;
mod host_header;
mod lease;
mod ledger;
mod limits;
mod metrics;
mod model_cache;
mod model_catalog;
mod model_id;
mod models_endpoint;
mod prices;
mod relay;
mod request_fields;
mod request_observer;
mod server;
mod sign_in;
mod sse;
mod upstream;
mod upstream_registry;
pub mod upstream_support;
mod usage;

pub use betas::DEFAULT_ALLOWED_BETAS;
pub use connection::GatewayConnectionLimits;
pub use credential::keyring::{Keyring, SystemKeyring};
pub use credential::vault::{CredentialLocation, CredentialVault, SavedCredential, StoredCredential};
pub use credential::{
    CredentialError, CredentialSource, CredentialStatus, CredentialVersion, FileCredential, FixedCredential,
    MissingCredential,
};
pub use dollars::Dollars;
pub use gateway::{Gateway, GatewayConfig, GatewayError, ModelSelection};
pub use lease::{Lease, Registration};
pub use ledger::LedgerError;
pub use limits::{
    GatewayLimits, LimitMetric, LimitScope, OverLimitPolicy, ReachedLimit, SessionLimits, SessionUsageStatus,
    UsageBudget, WaitingRequest,
};
pub use model_catalog::AvailableModel;
pub use prices::{InvalidPricePattern, ModelPrice, PriceList};
pub use request_observer::{FinishedRequest, ObservedRequest, RequestLog, RequestObserver, RequestOutcome};
pub use sign_in::{
    ProtectedResource, ProtectedResourceStatus, ProvidedCredential, SignInError, SignInSequence, SignInStore,
};
pub use upstream::anthropic::{AnthropicConfig, AnthropicUpstream, CredentialHeader};
pub use upstream::http_client::UpstreamTimeouts;
pub use upstream::{
    BetaPolicy, EventByteStream, UnknownModelPolicy, Upstream, UpstreamCapabilities, UpstreamError,
    UpstreamErrorResponse, UpstreamModel, UpstreamRequest, UpstreamResponse, UpstreamResponseBody,
};
pub use upstream_registry::{NamedUpstream, Upstreams, UpstreamsError};
pub use usage::{TokenCounts, UsageTotals};
