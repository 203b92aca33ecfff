//! How much may be used, and what happens to a request that would be too much.
//!
//! A request is checked once, before it is sent, against what has been used until then; its own tokens are not known
//! yet. So the answers that are under way when a budget is reached are paid over it: the overshoot is at most what the
//! concurrent requests of one moment use. Requests themselves are counted as they are let through and never overshoot.

mod admission;
mod request_window;

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;

pub(crate) use self::admission::{AdmissionControl, RequestPermit, SessionAccount};
use crate::dollars::Dollars;
use crate::error::{ApiError, ApiErrorKind, error_body};
use crate::usage::UsageTotals;

/// How long a request is held at most inside the host: agents give a request up after ten minutes.
const MAX_LIMIT_WAIT: Duration = Duration::from_secs(9 * 60);

/// An amount that may be used up. What is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageBudget {
    /// Requests that are sent to an upstream.
    pub requests: Option<u64>,
    /// Tokens of all kinds together: read, written, read from and written to the cache.
    pub tokens: Option<u64>,
    /// Dollars by the list of prices. Tokens of models without a price cost nothing here.
    pub dollars: Option<Dollars>,
}

/// The limits of a session. What is absent is not limited, or left to the host's default where there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Requests of the session at the same time.
    pub concurrent: Option<u32>,
    /// Requests of the session within any sixty seconds.
    pub requests_per_minute: Option<u32>,
    /// What the session may use in its whole life.
    pub total: UsageBudget,
}

impl SessionLimits {
    /// These limits, and where they say nothing the default's.
    fn or_defaults(self, default: Self) -> Self {
        Self {
            concurrent: self.concurrent.or(default.concurrent),
            requests_per_minute: self.requests_per_minute.or(default.requests_per_minute),
            total: UsageBudget {
                requests: self.total.requests.or(default.total.requests),
                tokens: self.total.tokens.or(default.total.tokens),
                dollars: self.total.dollars.or(default.total.dollars),
            },
        }
    }
}

/// The limits of a gateway. What is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Requests of all sessions at the same time.
    pub concurrent: Option<u32>,
    /// Requests of all sessions within any sixty seconds.
    pub requests_per_minute: Option<u32>,
    /// What all sessions together may use in one day of UTC.
    pub day: UsageBudget,
    /// What applies to each session that has no limits of its own.
    pub session: SessionLimits,
}

/// What happens to a request that is over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimitPolicy {
    /// It is answered with 429 at once.
    Reject,
    /// It waits, first come first served, until the limit lets it through; with 429 when the time is over.
    Wait {
        /// How long it waits at most.
        max_wait: Duration,
    },
}

impl OverLimitPolicy {
    /// As inside the host: a request waits as long as an agent does.
    pub const WAIT: Self = Self::Wait { max_wait: MAX_LIMIT_WAIT };
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// The session's own.
    Session,
    /// That of all sessions together; a budget is the day's.
    Host,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitMetric {
    /// Requests at the same time.
    ConcurrentRequests,
    /// Requests within a minute.
    RequestsPerMinute,
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Billionths of a dollar.
    Dollars,
}

/// A limit that lets nothing more through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReachedLimit {
    /// Whose limit it is.
    pub scope: LimitScope,
    /// What is limited.
    pub metric: LimitMetric,
    /// How much of it is used, in the unit of the measure.
    pub used: u64,
    /// How much of it is allowed, in the unit of the measure.
    pub allowed: u64,
}

impl ReachedLimit {
    /// Whether an amount is used up, which only a higher limit or another day changes. Otherwise waiting helps.
    #[must_use]
    pub fn is_budget(&self) -> bool {
        matches!(self.metric, LimitMetric::Requests | LimitMetric::Tokens | LimitMetric::Dollars)
    }

    /// What a person can do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match (self.is_budget(), self.scope) {
            (true, LimitScope::Session) => "Raise the session's limit to go on.",
            (true, LimitScope::Host) => "Raise the host's limit for a day to go on, or wait for the next day (UTC).",
            (false, _) => "Try again in a moment.",
        }
    }
}

/// A sentence without its full stop.
impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.scope {
            LimitScope::Session => "the session's",
            LimitScope::Host => "the host's",
        };
        let Self { used, allowed, .. } = *self;
        let per = if self.scope == LimitScope::Host { " a day" } else { "" };
        match self.metric {
            LimitMetric::ConcurrentRequests => write!(f, "{whose} limit of {allowed} requests at a time is reached"),
            LimitMetric::RequestsPerMinute => write!(f, "{whose} limit of {allowed} requests a minute is reached"),
            LimitMetric::Requests => write!(f, "{whose} limit of {allowed} requests{per} is reached: {used} are used"),
            LimitMetric::Tokens => write!(f, "{whose} limit of {allowed} tokens{per} is reached: {used} are used"),
            LimitMetric::Dollars => {
                let (used, allowed) = (Dollars::from_nanos(used), Dollars::from_nanos(allowed));
                write!(f, "{whose} limit of {allowed}{per} is reached: {used} is used")
            }
        }
    }
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRequest {
    /// What it waits for.
    pub limit: ReachedLimit,
    /// Since when.
    pub since: Timestamp,
}

/// What is to be known about a session's use of the gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsageStatus {
    /// What it has used in its whole life, running answers included.
    pub totals: UsageTotals,
    /// What it may use, the host's defaults filled in.
    pub limits: SessionLimits,
    /// The request that has waited longest, if one waits.
    pub waiting: Option<WaitingRequest>,
    /// The budget for which the last request was refused; nothing as soon as a request is let through.
    pub rejected_by: Option<ReachedLimit>,
}

/// A request that was not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    pub(crate) limit: ReachedLimit,
    /// When it makes sense to try again; never, if an amount is used up.
    retry_after: Option<Duration>,
}

/// Told to clients that would otherwise try again by themselves.
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");

impl LimitExceeded {
    /// The answer that the client gets.
    pub(crate) fn into_api_error(self) -> ApiError {
        let mut headers = HeaderMap::new();
        match self.retry_after {
            Some(pause) => {
                let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            None => drop(headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"))),
        }
        let message = format!("Over the limit: {}. {}", self.limit, self.limit.advice());
        ApiError::with_body(StatusCode::TOO_MANY_REQUESTS, headers, error_body(ApiErrorKind::RateLimit, &message))
    }
}
