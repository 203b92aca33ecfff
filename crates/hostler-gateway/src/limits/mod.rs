//! Usage limits, and what happens to a request over a limit. `admission` applies them.
//!
//! The gateway's own counts are authoritative for tokens and dollars. A request is checked once, before it is sent,
//! against the usage so far; its own tokens are not known yet. So responses that are running when a budget is reached
//! exceed it by at most what the concurrent requests use. Requests are counted at admission and never exceed their
//! limits.
//!
//! A request over its budget waits (at most nine minutes) while the session displays it, so a client can raise the
//! limit during a running turn.

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

/// Maximum wait inside the host: agents give up a request after ten minutes.
const MAX_LIMIT_WAIT: Duration = Duration::from_secs(9 * 60);

/// Budgets. Absent values are unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageBudget {
    /// Requests sent to an upstream.
    pub requests: Option<u64>,
    /// Tokens of all kinds: input, output, cache reads and cache writes.
    pub tokens: Option<u64>,
    /// Cost by the price list. Tokens of models without a price cost nothing.
    pub dollars: Option<Dollars>,
}

/// Limits of a session. Absent values are unlimited, or use the host's default for sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Concurrent requests of the session.
    pub concurrent: Option<u32>,
    /// Requests of the session within any sixty seconds.
    pub requests_per_minute: Option<u32>,
    /// Budget for the session's lifetime.
    pub total: UsageBudget,
}

impl SessionLimits {
    /// These limits, with absent values taken from `default`.
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

/// Limits of a gateway. Absent values are unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Concurrent requests of all sessions.
    pub concurrent: Option<u32>,
    /// Requests of all sessions within any sixty seconds.
    pub requests_per_minute: Option<u32>,
    /// Budget of all sessions together for one UTC day.
    pub day: UsageBudget,
    /// Defaults for sessions.
    pub session: SessionLimits,
}

/// What happens to a request that is over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimitPolicy {
    /// Reject it with 429 at once.
    Reject,
    /// Queue it until it is within the limit, first come first served; reject it with 429 after the maximum wait.
    Wait {
        /// Maximum time a request waits.
        max_wait: Duration,
    },
}

impl OverLimitPolicy {
    /// The policy inside the host: a request waits slightly less than an agent does.
    pub const WAIT: Self = Self::Wait { max_wait: MAX_LIMIT_WAIT };
}

/// What a limit applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// One session.
    Session,
    /// All sessions together; budgets are per day.
    Host,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitMetric {
    /// Concurrent requests.
    ConcurrentRequests,
    /// Requests per minute.
    RequestsPerMinute,
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Billionths of a dollar.
    Dollars,
}

/// A limit that admits nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReachedLimit {
    /// What the limit applies to.
    pub scope: LimitScope,
    /// What the limit counts.
    pub metric: LimitMetric,
    /// Current usage, in the unit of the metric.
    pub used: u64,
    /// The limit, in the unit of the metric.
    pub allowed: u64,
}

impl ReachedLimit {
    /// Whether it is a budget, which only a higher limit or another day frees. Other limits free up by waiting.
    #[must_use]
    pub fn is_budget(&self) -> bool {
        matches!(self.metric, LimitMetric::Requests | LimitMetric::Tokens | LimitMetric::Dollars)
    }

    /// What a person can do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match (self.is_budget(), self.scope) {
            (true, LimitScope::Session) => "Raise the session's limit to continue.",
            (true, LimitScope::Host) => "Raise the host's daily limit to continue, or wait for the next day (UTC).",
            (false, _) => "Try again in a moment.",
        }
    }
}

/// Writes a sentence without a full stop.
impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.scope {
            LimitScope::Session => "the session's",
            LimitScope::Host => "the host's",
        };
        let Self { used, allowed, .. } = *self;
        let per = if self.scope == LimitScope::Host { " per day" } else { "" };
        match self.metric {
            LimitMetric::ConcurrentRequests => write!(f, "{whose} limit of {allowed} concurrent requests is reached"),
            LimitMetric::RequestsPerMinute => write!(f, "{whose} limit of {allowed} requests per minute is reached"),
            LimitMetric::Requests => write!(f, "{whose} limit of {allowed} requests{per} is reached: {used} used"),
            LimitMetric::Tokens => write!(f, "{whose} limit of {allowed} tokens{per} is reached: {used} used"),
            LimitMetric::Dollars => {
                let (used, allowed) = (Dollars::from_nanos(used), Dollars::from_nanos(allowed));
                write!(f, "{whose} limit of {allowed}{per} is reached: {used} used")
            }
        }
    }
}

/// A waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRequest {
    /// The limit that it waits for.
    pub limit: ReachedLimit,
    /// When it started to wait.
    pub since: Timestamp,
}

/// A session's usage and limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsageStatus {
    /// Usage over its lifetime, running responses included.
    pub totals: UsageTotals,
    /// Effective limits, with the host's defaults filled in.
    pub limits: SessionLimits,
    /// The longest waiting request, if any.
    pub waiting: Option<WaitingRequest>,
    /// The budget that rejected the last request; `None` once a request is admitted.
    pub rejected_by: Option<ReachedLimit>,
}

/// A rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    pub(crate) limit: ReachedLimit,
    /// When a retry makes sense; `None` if a budget is used up.
    retry_after: Option<Duration>,
}

/// Stops clients from retrying automatically.
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");

impl LimitExceeded {
    /// The error response for the client.
    pub(crate) fn into_api_error(self) -> ApiError {
        let mut headers = HeaderMap::new();
        match self.retry_after {
            Some(pause) => {
                let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            None => drop(headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"))),
        }
        let message = format!("Limit reached: {}. {}", self.limit, self.limit.advice());
        ApiError::with_body(StatusCode::TOO_MANY_REQUESTS, headers, error_body(ApiErrorKind::RateLimit, &message))
    }
}
