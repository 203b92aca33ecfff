//! Token counts, read from the answers as they pass.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::lease::Holder;
use crate::sse::Event;

/// What a lease has used since it was registered.
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

    fn change(&self, change: impl FnOnce(&mut UsageTotals)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The meter of one request. Counts go to the lease as soon as they are seen, so that nothing is lost when the client
/// leaves in the middle.
pub(crate) struct Meter {
    holder: Arc<Holder>,
    reported: Usage,
}

impl Meter {
    /// What this request has used so far.
    pub(crate) fn tokens(&self) -> TokenCounts {
        TokenCounts {
            input: self.reported.input_tokens.unwrap_or(0),
            output: self.reported.output_tokens.unwrap_or(0),
            cache_read: self.reported.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.reported.cache_creation_input_tokens.unwrap_or(0),
        }
    }

    /// Starts the meter of a request that is about to be sent to the upstream.
    pub(crate) fn start(holder: Arc<Holder>) -> Self {
        holder.usage.change(|totals| totals.requests += 1);
        Self { holder, reported: Usage::default() }
    }

    /// Reads the counts of a `message_start` event.
    pub(crate) fn see_start(&mut self, event: Event<'_>) {
        if let Ok(start) = serde_json::from_slice::<MessageStart>(&event.data()) {
            self.report(start.message.usage);
        }
    }

    /// Reads the counts of a `message_delta` event.
    pub(crate) fn see_delta(&mut self, event: Event<'_>) {
        self.see_body(&event.data());
    }

    /// Reads the counts of a whole message.
    pub(crate) fn see_body(&mut self, json: &[u8]) {
        if let Ok(Metered { usage: Some(usage) }) = serde_json::from_slice::<Metered>(json) {
            self.report(usage);
        }
    }

    /// Later counts of one message replace earlier ones, so only the difference is added.
    fn report(&mut self, seen: Usage) {
        let before = self.reported;
        let now = Usage {
            input_tokens: seen.input_tokens.or(before.input_tokens),
            output_tokens: seen.output_tokens.or(before.output_tokens),
            cache_read_input_tokens: seen.cache_read_input_tokens.or(before.cache_read_input_tokens),
            cache_creation_input_tokens: seen.cache_creation_input_tokens.or(before.cache_creation_input_tokens),
        };
        let grown = |before: Option<u64>, now: Option<u64>| now.unwrap_or(0).saturating_sub(before.unwrap_or(0));
        self.holder.usage.change(|totals| {
            totals.input_tokens += grown(before.input_tokens, now.input_tokens);
            totals.output_tokens += grown(before.output_tokens, now.output_tokens);
            totals.cache_read_tokens += grown(before.cache_read_input_tokens, now.cache_read_input_tokens);
            totals.cache_write_tokens += grown(before.cache_creation_input_tokens, now.cache_creation_input_tokens);
        });
        self.reported = now;
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
}
