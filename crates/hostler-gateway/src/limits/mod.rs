//! How much may be used, and what happens to a request that would be too much.
//!
//! A request is checked once, before it is sent, against what has been used until then; its own tokens are not known
//! yet. So the answers that are under way when a budget is reached are paid over it: the overshoot is at most what the
//! concurrent requests of one moment use. Requests themselves are counted as they are let through and never overshoot.

mod desk;
mod window;

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;

pub(crate) use self::desk::{Account, Desk, Permit};
use crate::dollars::Dollars;
use crate::error::{ApiError, ErrorKind, envelope};
use crate::usage::UsageTotals;

/// How long a request is held at most inside the host: agents give a request up after ten minutes.
const LONGEST_HOLD: Duration = Duration::from_secs(9 * 60);

/// An amount that may be used up. What is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
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
    pub total: Budget,
}

impl SessionLimits {
    /// These limits, and where they say nothing the default's.
    fn or(self, default: Self) -> Self {
        Self {
            concurrent: self.concurrent.or(default.concurrent),
            requests_per_minute: self.requests_per_minute.or(default.requests_per_minute),
            total: Budget {
                requests: self.total.requests.or(default.total.requests),
                tokens: self.total.tokens.or(default.total.tokens),
                dollars: self.total.dollars.or(default.total.dollars),
            },
        }
    }
}

/// The limits of a gateway. What is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests of all sessions at the same time.
    pub concurrent: Option<u32>,
    /// Requests of all sessions within any sixty seconds.
    pub requests_per_minute: Option<u32>,
    /// What all sessions together may use in one day of UTC.
    pub day: Budget,
    /// What applies to each session that has no limits of its own.
    pub session: SessionLimits,
}

/// What happens to a request that is over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    /// It is answered with 429 at once.
    Refuse,
    /// It waits, first come first served, until the limit lets it through; with 429 when the time is over.
    Hold {
        /// How long it waits at most.
        at_most: Duration,
    },
}

impl OverLimit {
    /// As inside the host: a request waits as long as an agent does.
    pub const HOLD: Self = Self::Hold { at_most: LONGEST_HOLD };
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The session's own.
    Session,
    /// That of all sessions together; a budget is the day's.
    Host,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Requests at the same time.
    Concurrent,
    /// Requests within a minute.
    PerMinute,
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Billionths of a dollar.
    Dollars,
}

/// A limit that lets nothing more through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Whose limit it is.
    pub scope: Scope,
    /// What is limited.
    pub measure: Measure,
    /// How much of it is used, in the unit of the measure.
    pub used: u64,
    /// How much of it is allowed, in the unit of the measure.
    pub allowed: u64,
}

impl Reached {
    /// Whether an amount is used up, which only a higher limit or another day changes. Otherwise waiting helps.
    #[must_use]
    pub fn is_budget(&self) -> bool {
        matches!(self.measure, Measure::Requests | Measure::Tokens | Measure::Dollars)
    }

    /// What a person can do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match (self.is_budget(), self.scope) {
            (true, Scope::Session) => "Raise the session's limit to go on.",
            (true, Scope::Host) => "Raise the host's limit for a day to go on, or wait for the next day (UTC).",
            (false, _) => "Try again in a moment.",
        }
    }
}

/// A sentence without its full stop.
impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.scope {
            Scope::Session => "the session's",
            Scope::Host => "the host's",
        };
        let Self { used, allowed, .. } = *self;
        let per = if self.scope == Scope::Host { " a day" } else { "" };
        match self.measure {
            Measure::Concurrent => write!(f, "{whose} limit of {allowed} requests at a time is reached"),
            Measure::PerMinute => write!(f, "{whose} limit of {allowed} requests a minute is reached"),
            Measure::Requests => write!(f, "{whose} limit of {allowed} requests{per} is reached: {used} are used"),
            Measure::Tokens => write!(f, "{whose} limit of {allowed} tokens{per} is reached: {used} are used"),
            Measure::Dollars => {
                let (used, allowed) = (Dollars::from_nanos(used), Dollars::from_nanos(allowed));
                write!(f, "{whose} limit of {allowed}{per} is reached: {used} is used")
            }
        }
    }
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// What it waits for.
    pub reached: Reached,
    /// Since when.
    pub since: Timestamp,
}

/// What is to be known about a session's use of the gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// What it has used in its whole life, running answers included.
    pub totals: UsageTotals,
    /// What it may use, the host's defaults filled in.
    pub limits: SessionLimits,
    /// The request that has waited longest, if one waits.
    pub held: Option<Held>,
    /// The budget for which the last request was refused; nothing as soon as a request is let through.
    pub refused: Option<Reached>,
}

/// A request that was not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch {
    pub(crate) reached: Reached,
    /// When it makes sense to try again; never, if an amount is used up.
    retry_after: Option<Duration>,
}

/// Told to clients that would otherwise try again by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl TooMuch {
    /// The answer that the client gets.
    pub(crate) fn into_error(self) -> ApiError {
        let mut headers = HeaderMap::new();
        match self.retry_after {
            Some(pause) => {
                let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            None => drop(headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"))),
        }
        let message = format!("Over the limit: {}. {}", self.reached, self.reached.advice());
        ApiError::passed_on(StatusCode::TOO_MANY_REQUESTS, headers, envelope(ErrorKind::RateLimit, &message))
    }
}
