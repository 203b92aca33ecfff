//! Token counts, read from the answers as they pass.
//!
//! Counts go to the lease, the session and the day as soon as they are seen. A client that leaves in the middle cancels
//! the upstream call, so the upstream's last count never comes: what had been seen until then is what is charged, which
//! is all of the input and of the output what the upstream had told.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::dollars::Dollars;
use crate::lease::Holder;
use crate::limits::Permit;
use crate::prices::Price;
use crate::sse::Event;

/// What a lease, a session or a day has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Requests that were sent to the upstream.
    pub requests: u64,
    /// Tokens read without a cache.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: u64,
    /// What the tokens of models with a known price cost.
    pub dollars: Dollars,
    /// Tokens of models without a known price; they are counted above too, and cost nothing in `dollars`.
    pub unpriced_tokens: u64,
}

impl UsageTotals {
    /// One request, before any token.
    pub(crate) const REQUEST: Self = Self {
        requests: 1,
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        dollars: Dollars::ZERO,
        unpriced_tokens: 0,
    };

    /// Tokens of all four kinds together.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let cached = self.cache_read_tokens.saturating_add(self.cache_write_tokens);
        self.input_tokens.saturating_add(self.output_tokens).saturating_add(cached)
    }

    /// Adds another total to this one.
    pub fn add(&mut self, more: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.requests, more.requests);
        add(&mut self.input_tokens, more.input_tokens);
        add(&mut self.output_tokens, more.output_tokens);
        add(&mut self.cache_read_tokens, more.cache_read_tokens);
        add(&mut self.cache_write_tokens, more.cache_write_tokens);
        self.dollars = self.dollars.plus(more.dollars);
        add(&mut self.unpriced_tokens, more.unpriced_tokens);
    }
}

/// The tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Read without a cache.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from the prompt cache.
    pub cache_read: u64,
    /// Written to the prompt cache.
    pub cache_write: u64,
}

impl TokenCounts {
    /// All of them together.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.by_kind().into_iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Each count with its name.
    #[must_use]
    pub fn by_kind(self) -> [(&'static str, u64); 4] {
        [
            ("input", self.input),
            ("output", self.output),
            ("cache-read", self.cache_read),
            ("cache-write", self.cache_write),
        ]
    }
}

/// The totals of one lease, added to by all of its requests.
#[derive(Debug, Default)]
pub(crate) struct UsageCell(Mutex<UsageTotals>);

impl UsageCell {
    pub(crate) fn totals(&self) -> UsageTotals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: &UsageTotals) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(change);
    }
}

/// The meter of one request; holds the request's permit until the answer is over.
pub(crate) struct Meter {
    holder: Arc<Holder>,
    permit: Permit,
    /// Absent if nobody knows what the model costs.
    price: Option<Price>,
    seen: TokenCounts,
    /// The part of what was written to the cache that is kept for an hour, which costs more.
    hour: u64,
}

impl Meter {
    /// What this request has used so far.
    pub(crate) fn tokens(&self) -> TokenCounts {
        self.seen
    }

    /// Starts the meter of a request that is about to be sent to the upstream; the permit has counted it already.
    pub(crate) fn start(holder: Arc<Holder>, permit: Permit, price: Option<Price>) -> Self {
        holder.usage.add(&UsageTotals::REQUEST);
        Self { holder, permit, price, seen: TokenCounts::default(), hour: 0 }
    }

    /// Reads the counts of a `message_start` event.
    pub(crate) fn see_start(&mut self, event: Event<'_>) {
        if let Ok(start) = serde_json::from_slice::<MessageStart>(&event.data()) {
            self.report(&start.message.usage);
        }
    }

    /// Reads the counts of a `message_delta` event.
    pub(crate) fn see_delta(&mut self, event: Event<'_>) {
        self.see_body(&event.data());
    }

    /// Reads the counts of a whole message.
    pub(crate) fn see_body(&mut self, json: &[u8]) {
        if let Ok(Metered { usage: Some(usage) }) = serde_json::from_slice::<Metered>(json) {
            self.report(&usage);
        }
    }

    /// Later counts of one message replace earlier ones, so only what they have grown by is added.
    fn report(&mut self, usage: &Usage) {
        let (before, hour_before) = (self.seen, self.hour);
        let (now, hour) = (usage.after(&before), hour_before.max(usage.hour()));
        if (now, hour) == (before, hour_before) {
            return;
        }
        (self.seen, self.hour) = (now, hour);
        let cost = |tokens, hour| self.price.map(|price| price.cost(tokens, hour)).unwrap_or_default();
        let change = UsageTotals {
            requests: 0,
            input_tokens: now.input - before.input,
            output_tokens: now.output - before.output,
            cache_read_tokens: now.cache_read - before.cache_read,
            cache_write_tokens: now.cache_write - before.cache_write,
            dollars: cost(now, hour).minus(cost(before, hour_before)),
            unpriced_tokens: if self.price.is_some() { 0 } else { now.sum() - before.sum() },
        };
        self.holder.usage.add(&change);
        self.permit.charge(&change);
    }
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    usage: Usage,
}

#[derive(Deserialize)]
struct Metered {
    usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

impl Usage {
    /// The counts after these have been seen: what is not told stays, and nothing shrinks, since it has been charged.
    fn after(&self, before: &TokenCounts) -> TokenCounts {
        TokenCounts {
            input: before.input.max(self.input_tokens.unwrap_or(0)),
            output: before.output.max(self.output_tokens.unwrap_or(0)),
            cache_read: before.cache_read.max(self.cache_read_input_tokens.unwrap_or(0)),
            cache_write: before.cache_write.max(self.cache_creation_input_tokens.unwrap_or(0)),
        }
    }

    /// What is kept in the cache for an hour.
    fn hour(&self) -> u64 {
        self.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens).unwrap_or(0)
    }
}
