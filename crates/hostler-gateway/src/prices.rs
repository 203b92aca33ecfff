//! Token prices by model id. The configuration can override the bundled list.
//!
//! The bundled list contains the public prices per token of the Messages API. Other charges (web searches, higher rates
//! for long prompts, subscriptions) are not included.

use crate::dollars::Dollars;
use crate::usage::TokenCounts;

/// Number of tokens that a price applies to.
const TOKENS_PER_PRICE: u128 = 1_000_000;

/// Prices of one model, each per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// Input without a cache.
    pub input: Dollars,
    /// Output.
    pub output: Dollars,
    /// Cache reads.
    pub cache_read: Dollars,
    /// Cache writes for five minutes.
    pub cache_write: Dollars,
    /// Cache writes for an hour.
    pub cache_write_1h: Dollars,
}

impl ModelPrice {
    /// Derives cache prices by the usual ratios: a read costs a tenth of the input, a write 5/4, and a write for an
    /// hour twice.
    #[must_use]
    pub const fn new(input: Dollars, output: Dollars) -> Self {
        let nanos = input.nanos();
        Self {
            input,
            output,
            cache_read: Dollars::from_nanos(nanos / 10),
            cache_write: Dollars::from_nanos(nanos.saturating_add(nanos / 4)),
            cache_write_1h: Dollars::from_nanos(nanos.saturating_mul(2)),
        }
    }

    /// The cost of these tokens; `hour` of the cache writes are for an hour. Rounded down once for the sum, so a
    /// growing response is charged by the difference of two costs, not by the cost of differences.
    pub(crate) fn cost(&self, tokens: TokenCounts, hour: u64) -> Dollars {
        let hour = hour.min(tokens.cache_write);
        let sum: u128 = [
            (self.input, tokens.input),
            (self.output, tokens.output),
            (self.cache_read, tokens.cache_read),
            (self.cache_write, tokens.cache_write - hour),
            (self.cache_write_1h, hour),
        ]
        .into_iter()
        .map(|(price, count)| u128::from(price.nanos()) * u128::from(count))
        .fold(0, u128::saturating_add);
        Dollars::from_nanos(u64::try_from(sum / TOKENS_PER_PRICE).unwrap_or(u64::MAX))
    }
}

/// Why a pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid model pattern {0:?}; use a model ID, or a prefix of one followed by *")]
pub struct InvalidPricePattern(String);

impl InvalidPricePattern {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "invalidPricePattern"
    }
}

/// Prices by model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    entries: Vec<PriceEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PriceEntry {
    /// Set by the configuration, which overrides the bundled list.
    is_configured: bool,
    /// Whether the pattern is a complete id rather than a prefix.
    is_exact: bool,
    id: String,
    price: ModelPrice,
}

/// Bundled prices: input and output in cents per million tokens. Other models have no price.
const BUNDLED_PRICES: [(&str, u64, u64); 12] = [
    ("claude-opus-4-6*", 500, 2_500),
    ("claude-opus-4-5*", 500, 2_500),
    ("claude-opus-4-1*", 1_500, 7_500),
    ("claude-opus-4-0", 1_500, 7_500),
    ("claude-opus-4-2025*", 1_500, 7_500),
    ("claude-opus-4", 1_500, 7_500),
    ("claude-3-opus*", 1_500, 7_500),
    ("claude-sonnet-4*", 300, 1_500),
    ("claude-3-7-sonnet*", 300, 1_500),
    ("claude-3-5-sonnet*", 300, 1_500),
    ("claude-haiku-4-5*", 100, 500),
    ("claude-3-5-haiku*", 80, 400),
];

impl PriceList {
    /// The public prices of the models that this version knows.
    #[must_use]
    pub fn bundled() -> Self {
        let entry = |(pattern, input, output): (&str, u64, u64)| {
            let (id, exact) = pattern.strip_suffix('*').map_or((pattern, true), |id| (id, false));
            let price = ModelPrice::new(Dollars::from_cents(input), Dollars::from_cents(output));
            PriceEntry { is_configured: false, is_exact: exact, id: id.to_owned(), price }
        };
        Self { entries: BUNDLED_PRICES.into_iter().map(entry).collect() }
    }

    /// Adds a price that overrides the bundled ones. `pattern` is a model id, or a prefix and a `*`.
    ///
    /// # Errors
    /// If the pattern is empty or has a `*` anywhere but at its end.
    pub fn with_price(mut self, pattern: &str, price: ModelPrice) -> Result<Self, InvalidPricePattern> {
        let (id, exact) = pattern.strip_suffix('*').map_or((pattern, true), |id| (id, false));
        if pattern.trim().is_empty() || id.contains('*') {
            return Err(InvalidPricePattern(pattern.to_owned()));
        }
        let id = normalize_model_id(id);
        self.entries.retain(|entry| !(entry.is_configured && entry.is_exact == exact && entry.id == id));
        self.entries.push(PriceEntry { is_configured: true, is_exact: exact, id, price });
        Ok(self)
    }

    /// The price of a model. The configuration overrides the bundled list, a complete id overrides a prefix, and a
    /// longer prefix overrides a shorter one.
    #[must_use]
    pub fn price_of(&self, model: &str) -> Option<ModelPrice> {
        let model = normalize_model_id(model);
        let named = |entry: &&PriceEntry| if entry.is_exact { entry.id == model } else { model.starts_with(&entry.id) };
        let best =
            self.entries.iter().filter(named).max_by_key(|entry| (entry.is_configured, entry.is_exact, entry.id.len()));
        best.map(|entry| entry.price)
    }
}

impl Default for PriceList {
    fn default() -> Self {
        Self::bundled()
    }
}

/// Agents write `claude-sonnet-4-5`, some upstreams `claude-sonnet-4.5`; both have the same price.
fn normalize_model_id(id: &str) -> String {
    id.trim().to_ascii_lowercase().replace('.', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cents(input: u64, output: u64) -> ModelPrice {
        ModelPrice::new(Dollars::from_cents(input), Dollars::from_cents(output))
    }

    #[test]
    fn bundled_models_have_the_published_prices() {
        for (model, price) in [
            ("claude-sonnet-4-5", Some(cents(300, 1_500))),
            ("claude-sonnet-4.5", Some(cents(300, 1_500))),
            ("claude-sonnet-4-5-20250929", Some(cents(300, 1_500))),
            ("claude-sonnet-4-20250514", Some(cents(300, 1_500))),
            ("claude-opus-4-5-20251101", Some(cents(500, 2_500))),
            ("claude-opus-4.5", Some(cents(500, 2_500))),
            ("claude-opus-4-20250514", Some(cents(1_500, 7_500))),
            ("claude-opus-4-1-20250805", Some(cents(1_500, 7_500))),
            ("claude-haiku-4-5-20251001", Some(cents(100, 500))),
            ("claude-3-5-haiku-latest", Some(cents(80, 400))),
            ("claude-opus-9", None),
            ("gpt-5", None),
            ("", None),
        ] {
            assert_eq!(PriceList::bundled().price_of(model), price, "{model}");
        }
    }

    #[test]
    fn cost_of_a_million_tokens_of_each_kind_is_the_listed_price() {
        let sonnet = cents(300, 1_500);
        let million = 1_000_000;
        let none = TokenCounts::default();
        for (tokens, hour, dollars) in [
            (TokenCounts { input: million, ..none }, 0, "$3.00"),
            (TokenCounts { output: million, ..none }, 0, "$15.00"),
            (TokenCounts { cache_read: million, ..none }, 0, "$0.30"),
            (TokenCounts { cache_write: million, ..none }, 0, "$3.75"),
            (TokenCounts { cache_write: million, ..none }, million, "$6.00"),
            (TokenCounts { input: 7, output: 11, cache_read: 5, cache_write: 3 }, 0, "$0.00019875"),
            (none, 5, "$0.00"),
        ] {
            assert_eq!(sonnet.cost(tokens, hour).to_string(), dollars, "{tokens:?}");
        }
    }

    #[test]
    fn extreme_token_counts_do_not_overflow() {
        let tokens = TokenCounts { input: u64::MAX, output: u64::MAX, ..TokenCounts::default() };
        let most = Dollars::from_nanos(u64::MAX);
        assert_eq!(ModelPrice::new(most, most).cost(tokens, 0), most);
    }

    #[test]
    fn configured_prices_override_bundled_ones_and_longer_patterns_win() {
        let prices = PriceList::bundled()
            .with_price("*", cents(1, 1))
            .and_then(|prices| prices.with_price("claude-sonnet*", cents(2, 2)))
            .and_then(|prices| prices.with_price("claude-sonnet-4.5", cents(3, 3)))
            .and_then(|prices| prices.with_price("gpt-5*", cents(9, 9)))
            .and_then(|prices| prices.with_price("gpt-5*", cents(4, 4)))
            .unwrap();
        for (model, price) in [
            ("anything", cents(1, 1)),
            ("claude-opus-4-5", cents(1, 1)),
            ("claude-sonnet-4-5-20250929", cents(2, 2)),
            ("claude-sonnet-4-5", cents(3, 3)),
            ("gpt-5-mini", cents(4, 4)),
        ] {
            assert_eq!(prices.price_of(model), Some(price), "{model}");
        }
        for wrong in ["", " ", "a*b", "**"] {
            assert!(PriceList::bundled().with_price(wrong, cents(1, 1)).is_err(), "{wrong:?}");
        }
    }
}
