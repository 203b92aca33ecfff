//! What a session uses of the models and may use: as the gateway tells it, and as clients see it. Pure.

use ahp_types::common::JsonObject;
use serde_json::{Value, json};

/// Billionths in a dollar.
const NANODOLLARS_PER_DOLLAR: f64 = 1e9;

/// The largest amount of dollars that a limit can be.
const MAX_LIMIT_DOLLARS: f64 = 1e9;

/// What a session has used in its whole life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Requests to a model.
    pub requests: u64,
    /// Tokens read without a cache.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: u64,
    /// Their cost in billionths of a dollar.
    pub nanodollars: u64,
    /// Tokens of models whose price nobody knows; they cost nothing above.
    pub unpriced_tokens: u64,
}

/// What a session may use in its whole life. What is absent is not limited, or left to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionBudgetLimits {
    /// Requests to a model.
    pub requests: Option<u64>,
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Billionths of a dollar.
    pub nanodollars: Option<u64>,
}

/// What a limit is about.
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
    /// Billionths of a dollar.
    Dollars,
}

impl LimitKind {
    /// Whether an amount is used up; the others pass by themselves.
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

/// A limit that lets nothing more through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    /// What it is about.
    pub kind: LimitKind,
    /// Whether it is the limit of all sessions together.
    pub host_wide: bool,
    /// How much is used.
    pub used: u64,
    /// How much is allowed.
    pub allowed: u64,
    /// Which limit, and how much of it is used: a sentence without its full stop, in lower case.
    pub description: String,
    /// What a person can do: a whole sentence.
    pub advice: String,
}

impl LimitReached {
    /// The activity of a chat that waits.
    pub(crate) fn activity(&self) -> String {
        let what = if self.kind.is_budget() { "Budget reached" } else { "Waiting" };
        format!("{what}: {}", self.description)
    }

    /// The note in the turn; what passes by itself is worth none.
    pub(crate) fn notice(&self) -> Option<String> {
        let notice = format!("Budget reached: {}. {} The turn waits until then.", self.description, self.advice);
        self.kind.is_budget().then_some(notice)
    }

    /// Whether it is the same limit, whatever is used of it.
    pub(crate) fn is_same_limit(&self, other: &Self) -> bool {
        (self.kind, self.host_wide, self.allowed) == (other.kind, other.host_wide, other.allowed)
    }
}

/// A request that waits for a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWait {
    /// The limit.
    pub limit: LimitReached,
    /// Since when, as an RFC 3339 time.
    pub since: String,
}

/// What the gateway knows about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionBudget {
    /// What it has used.
    pub usage: SessionUsage,
    /// What it may use, the host's defaults filled in.
    pub limits: SessionBudgetLimits,
    /// The request that waits, if one does.
    pub waiting_for: Option<LimitWait>,
    /// The budget for which the last request was refused.
    pub refused_by: Option<LimitReached>,
}

impl SessionBudget {
    /// The session's `_meta` with this in it; nothing if there is nothing new to tell.
    pub(crate) fn merge_into_meta(&self, now: Option<&JsonObject>) -> Option<JsonObject> {
        let mut meta = now.cloned().unwrap_or_default();
        let mut hostler = meta.get("hostler").and_then(Value::as_object).cloned().unwrap_or_default();
        if !hostler.contains_key("usage") && *self == Self::default() {
            return None;
        }
        hostler.insert("usage".to_owned(), self.usage_json());
        hostler.insert("limits".to_owned(), self.limits_json());
        hostler.insert("held".to_owned(), self.waiting_for.as_ref().map_or(Value::Null, limit_wait_json));
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

/// For people; the exact amount stays in the gateway.
fn to_dollars(nanos: u64) -> Value {
    json!(nanos as f64 / NANODOLLARS_PER_DOLLAR)
}

/// Billionths from a number of dollars; nothing if it is no amount of money.
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
            description: "the session's limit of $2.00 is reached: $2.50 is used".to_owned(),
            advice: "Raise the session's limit to go on.".to_owned(),
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
    fn clients_see_totals_limits_and_what_is_waited_for() {
        let meta = budget().merge_into_meta(None).unwrap();
        let expected = json!({"hostler": {
            "usage": {
                "requests": 3, "inputTokens": 10, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0,
                "dollars": 2.5, "unpricedTokens": 0,
            },
            "limits": {"dollars": 2.0},
            "held": {
                "limit": "dollars", "scope": "session", "used": 2.5, "allowed": 2.0, "since": "2026-11-15T08:00:00Z",
                "message":
                    "the session's limit of $2.00 is reached: $2.50 is used. Raise the session's limit to go on.",
            },
        }});
        assert_eq!(Value::from(meta.clone()), expected);
        assert_eq!(budget().merge_into_meta(Some(&meta)), None, "nothing new");
        let goes_on = SessionBudget { waiting_for: None, ..budget() }.merge_into_meta(Some(&meta)).unwrap();
        assert_eq!(goes_on["hostler"]["held"], Value::Null);
    }

    #[test]
    fn what_else_is_in_the_meta_stays() {
        let Value::Object(now) = json!({"vscode": 1, "hostler": {"queuePaused": true}}) else { panic!() };
        let meta = budget().merge_into_meta(Some(&now)).unwrap();
        assert_eq!((&meta["vscode"], &meta["hostler"]["queuePaused"]), (&json!(1), &json!(true)));
    }

    #[test]
    fn a_session_that_has_used_nothing_says_nothing() {
        assert_eq!(SessionBudget::default().merge_into_meta(None), None);
    }

    #[test]
    fn only_amounts_of_money_are_limits() {
        for (number, nanos) in
            [(0.0, Some(0)), (0.1, Some(100_000_000)), (2.5, Some(2_500_000_000)), (-0.1, None), (1e10, None)]
        {
            assert_eq!(to_nanodollars(number), nanos, "{number}");
        }
        assert_eq!(to_nanodollars(f64::NAN), None);
    }
}
