//! A session's usage and limits: as the gateway reports them, and as clients see them in `_meta`. Pure.

use ahp_types::common::JsonObject;
use serde_json::{Value, json};

/// Nanodollars in a dollar.
const NANODOLLARS_PER_DOLLAR: f64 = 1e9;

/// Maximum of a limit in dollars.
const MAX_LIMIT_DOLLARS: f64 = 1e9;

/// The total usage of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Requests to a model.
    pub requests: u64,
    /// Tokens read without the prompt cache.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: u64,
    /// Their cost in nanodollars.
    pub nanodollars: u64,
    /// Tokens of models without a known price; they are not part of the cost.
    pub unpriced_tokens: u64,
}

/// The limits of a session's total usage. Absent ones are not limited, or the host's default applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionBudgetLimits {
    /// Requests to a model.
    pub requests: Option<u64>,
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Nanodollars.
    pub nanodollars: Option<u64>,
}

/// The subject of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests at the same time.
    Concurrent,
    /// Requests within a minute.
    PerMinute,
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Nanodollars.
    Dollars,
}

impl LimitKind {
    /// Whether the limit is a budget that is used up; the others pass with time.
    fn is_budget(self) -> bool {
        matches!(self, Self::Requests | Self::Tokens | Self::Dollars)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::PerMinute => "perMinute",
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Dollars => "dollars",
        }
    }

    fn amount(self, amount: u64) -> Value {
        if self == Self::Dollars { to_dollars(amount) } else { amount.into() }
    }
}

/// A limit that blocks further requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    /// Its subject.
    pub kind: LimitKind,
    /// Whether it is the limit of all sessions together.
    pub host_wide: bool,
    /// The used amount.
    pub used: u64,
    /// The allowed amount.
    pub allowed: u64,
    /// Which limit, and how much of it is used: a sentence in lower case without its full stop.
    pub description: String,
    /// What a person can do: a complete sentence.
    pub advice: String,
}

impl LimitReached {
    /// The activity of a waiting chat.
    pub(crate) fn activity(&self) -> String {
        let what = if self.kind.is_budget() { "Budget reached" } else { "Waiting" };
        format!("{what}: {}", self.description)
    }

    /// The notice in the turn; limits that pass with time have none.
    pub(crate) fn notice(&self) -> Option<String> {
        let notice = format!("Budget reached: {}. {} The turn waits until then.", self.description, self.advice);
        self.kind.is_budget().then_some(notice)
    }

    /// Whether it is the same limit, regardless of the used amount.
    pub(crate) fn is_same_limit(&self, other: &Self) -> bool {
        (self.kind, self.host_wide, self.allowed) == (other.kind, other.host_wide, other.allowed)
    }
}

/// A request that waits for a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWait {
    /// The limit.
    pub limit: LimitReached,
    /// The start of the wait, as an RFC 3339 time.
    pub since: String,
}

/// The gateway's data about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionBudget {
    /// Its usage.
    pub usage: SessionUsage,
    /// Its limits, with the host's defaults.
    pub limits: SessionBudgetLimits,
    /// The waiting request, if there is one.
    pub waiting_for: Option<LimitWait>,
    /// The budget that rejected the last request.
    pub refused_by: Option<LimitReached>,
}

impl SessionBudget {
    /// The session's `_meta` with this budget; `None` if nothing has changed.
    pub(crate) fn merge_into_meta(&self, now: Option<&JsonObject>) -> Option<JsonObject> {
        let mut meta = now.cloned().unwrap_or_default();
        let mut hostler = meta.get("hostler").and_then(Value::as_object).cloned().unwrap_or_default();
        if !hostler.contains_key("usage") && *self == Self::default() {
            return None;
        }
        hostler.insert("usage".to_owned(), self.usage_json());
        hostler.insert("limits".to_owned(), self.limits_json());
        hostler.insert("limitReached".to_owned(), self.waiting_for.as_ref().map_or(Value::Null, limit_wait_json));
        // The former name of `limitReached`, in stored sessions.
        hostler.remove("held");
        meta.insert("hostler".to_owned(), hostler.into());
        (now != Some(&meta)).then_some(meta)
    }

    fn usage_json(&self) -> Value {
        let spent = &self.usage;
        json!({
            "requests": spent.requests,
            "inputTokens": spent.input_tokens,
            "outputTokens": spent.output_tokens,
            "cacheReadTokens": spent.cache_read_tokens,
            "cacheWriteTokens": spent.cache_write_tokens,
            "dollars": to_dollars(spent.nanodollars),
            "unpricedTokens": spent.unpriced_tokens,
        })
    }

    fn limits_json(&self) -> Value {
        let SessionBudgetLimits { requests, tokens, nanodollars } = self.limits;
        let limits = [
            ("requests", requests.map(Value::from)),
            ("tokens", tokens.map(Value::from)),
            ("dollars", nanodollars.map(to_dollars)),
        ];
        let limits = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?)));
        Value::Object(limits.collect())
    }
}

fn limit_wait_json(held: &LimitWait) -> Value {
    let LimitWait { limit: reached, since } = held;
    json!({
        "limit": reached.kind.as_str(),
        "scope": if reached.host_wide { "host" } else { "session" },
        "used": reached.kind.amount(reached.used),
        "allowed": reached.kind.amount(reached.allowed),
        "since": since,
        "message": format!("{}. {}", reached.description, reached.advice),
    })
}

/// For display; the exact amount stays in the gateway.
fn to_dollars(nanos: u64) -> Value {
    json!(nanos as f64 / NANODOLLARS_PER_DOLLAR)
}

/// Converts dollars to nanodollars; `None` if the amount is invalid.
pub(crate) fn to_nanodollars(dollars: f64) -> Option<u64> {
    (dollars.is_finite() && (0.0..=MAX_LIMIT_DOLLARS).contains(&dollars))
        .then(|| (dollars * NANODOLLARS_PER_DOLLAR).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> SessionBudget {
        let reached = LimitReached {
            kind: LimitKind::Dollars,
            host_wide: false,
            used: 2_500_000_000,
            allowed: 2_000_000_000,
            description: "the session's limit of $2.00 is reached: $2.50 used".to_owned(),
            advice: "Raise the session's limit to continue.".to_owned(),
        };
        SessionBudget {
            usage: SessionUsage {
                requests: 3,
                input_tokens: 10,
                nanodollars: 2_500_000_000,
                ..SessionUsage::default()
            },
            limits: SessionBudgetLimits { nanodollars: Some(2_000_000_000), ..SessionBudgetLimits::default() },
            waiting_for: Some(LimitWait { limit: reached, since: "2026-11-15T08:00:00Z".to_owned() }),
            refused_by: None,
        }
    }

    #[test]
    fn meta_contains_usage_limits_and_the_wait() {
        let meta = budget().merge_into_meta(None).unwrap();
        let expected = json!({"hostler": {
            "usage": {
                "requests": 3, "inputTokens": 10, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0,
                "dollars": 2.5, "unpricedTokens": 0,
            },
            "limits": {"dollars": 2.0},
            "limitReached": {
                "limit": "dollars", "scope": "session", "used": 2.5, "allowed": 2.0, "since": "2026-11-15T08:00:00Z",
                "message":
                    "the session's limit of $2.00 is reached: $2.50 used. Raise the session's limit to continue.",
            },
        }});
        assert_eq!(Value::from(meta.clone()), expected);
        assert_eq!(budget().merge_into_meta(Some(&meta)), None, "nothing new");
        let goes_on = SessionBudget { waiting_for: None, ..budget() }.merge_into_meta(Some(&meta)).unwrap();
        assert_eq!(goes_on["hostler"]["limitReached"], Value::Null);
    }

    #[test]
    fn former_name_of_the_reached_limit_is_removed() {
        let Value::Object(now) = json!({"hostler": {"usage": {}, "held": {"message": "x"}}}) else { panic!() };
        let meta = budget().merge_into_meta(Some(&now)).unwrap();
        assert_eq!(meta["hostler"].get("held"), None);
        assert_eq!(meta["hostler"]["limitReached"]["limit"], "dollars");
    }

    #[test]
    fn other_meta_entries_are_kept() {
        let Value::Object(now) = json!({"vscode": 1, "hostler": {"queuePaused": true}}) else { panic!() };
        let meta = budget().merge_into_meta(Some(&now)).unwrap();
        assert_eq!((&meta["vscode"], &meta["hostler"]["queuePaused"]), (&json!(1), &json!(true)));
    }

    #[test]
    fn unused_session_adds_no_meta() {
        assert_eq!(SessionBudget::default().merge_into_meta(None), None);
    }

    #[test]
    fn to_nanodollars_rejects_invalid_amounts() {
        for (number, nanos) in
            [(0.0, Some(0)), (0.1, Some(100_000_000)), (2.5, Some(2_500_000_000)), (-0.1, None), (1e10, None)]
        {
            assert_eq!(to_nanodollars(number), nanos, "{number}");
        }
        assert_eq!(to_nanodollars(f64::NAN), None);
    }
}
