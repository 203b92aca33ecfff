//! Token counts, read from responses as they pass.
//!
//! Counts are added to the lease, the session and the day as soon as they are read. A stream that is interrupted, by
//! the client or by the upstream, never reports its last count: output after the last report is then estimated from the
//! deltas, at four bytes per token and at least one token per delta. The estimate is never below what was reported.
//! Input that an upstream reports only at the end of a stream is not estimated.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memchr2;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::dollars::Dollars;
use crate::lease::LeaseHolder;
use crate::limits::RequestPermit;
use crate::prices::ModelPrice;
use crate::sse::SseEvent;

/// Usage of a lease, a session or a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Requests sent to the upstream.
    pub requests: u64,
    /// Input tokens without a cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: u64,
    /// Cost of the tokens of models with a known price.
    pub dollars: Dollars,
    /// Tokens of models without a known price; they are included in the counts above and cost nothing in `dollars`.
    pub unpriced_tokens: u64,
}

impl UsageTotals {
    /// One request without tokens.
    pub(crate) const ONE_REQUEST: Self = Self {
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
        self.dollars = self.dollars.saturating_add(more.dollars);
        add(&mut self.unpriced_tokens, more.unpriced_tokens);
    }
}

/// Tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Input without a cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Cache reads.
    pub cache_read: u64,
    /// Cache writes.
    pub cache_write: u64,
}

impl TokenCounts {
    /// Sum of all counts.
    #[must_use]
    pub fn total(self) -> u64 {
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

/// Usage of one lease, from all of its requests.
#[derive(Debug, Default)]
pub(crate) struct LeaseUsage(Mutex<UsageTotals>);

impl LeaseUsage {
    pub(crate) fn totals(&self) -> UsageTotals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, change: &UsageTotals) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(change);
    }
}

/// Counts the tokens of one request; holds the request's permit until the response ends.
pub(crate) struct TokenMeter {
    holder: Arc<LeaseHolder>,
    permit: RequestPermit,
    /// Absent if the model's price is unknown.
    price: Option<ModelPrice>,
    counted: TokenCounts,
    /// Cache writes for an hour, which cost more.
    cache_write_1h: u64,
    /// Output tokens that a `message_delta` event has reported.
    reported_output: u64,
    /// Content since that report.
    unreported: UnreportedContent,
}

impl TokenMeter {
    /// Tokens of this request so far.
    pub(crate) fn tokens(&self) -> TokenCounts {
        self.counted
    }

    /// Starts metering a request that is about to be sent to the upstream; the permit has counted the request already.
    pub(crate) fn start(holder: Arc<LeaseHolder>, permit: RequestPermit, price: Option<ModelPrice>) -> Self {
        holder.usage.add(&UsageTotals::ONE_REQUEST);
        let counted = TokenCounts::default();
        Self {
            holder,
            permit,
            price,
            counted,
            cache_write_1h: 0,
            reported_output: 0,
            unreported: UnreportedContent::default(),
        }
    }

    /// Reads the counts of a `message_start` event.
    pub(crate) fn read_message_start(&mut self, event: SseEvent<'_>) {
        if let Ok(start) = serde_json::from_slice::<MessageStart>(&event.data()) {
            self.report(&start.message.usage);
        }
    }

    /// Reads the counts of a `message_delta` event.
    pub(crate) fn read_message_delta(&mut self, event: SseEvent<'_>) {
        if let Ok(UsageField { usage: Some(usage) }) = serde_json::from_slice::<UsageField>(&event.data()) {
            if let Some(output @ 1..) = usage.output_tokens {
                (self.reported_output, self.unreported) = (output, UnreportedContent::default());
            }
            self.report(&usage);
        }
    }

    /// Measures a `content_block_delta` event, in case the stream is interrupted before it reports its usage.
    pub(crate) fn measure_content_delta(&mut self, event: SseEvent<'_>) {
        let data = event.data();
        if let Some(bytes) = plain_delta_bytes(&data).or_else(|| parsed_delta_bytes(&data)) {
            self.unreported.add(bytes);
        }
    }

    /// Charges the estimate for content after the last report, at the end of a stream.
    pub(crate) fn charge_unreported(&mut self) {
        let unreported = std::mem::take(&mut self.unreported).estimate_tokens();
        if unreported > 0 {
            self.reported_output = self.reported_output.saturating_add(unreported);
            self.report(&Usage { output_tokens: Some(self.reported_output), ..Usage::default() });
        }
    }

    /// Reads the counts of a complete message.
    pub(crate) fn read_message(&mut self, json: &[u8]) {
        if let Ok(UsageField { usage: Some(usage) }) = serde_json::from_slice::<UsageField>(json) {
            self.report(&usage);
        }
    }

    /// Later counts of a message replace earlier ones, so only the difference is added.
    fn report(&mut self, usage: &Usage) {
        let (before, hour_before) = (self.counted, self.cache_write_1h);
        let (now, hour) = (usage.merge_with(&before), hour_before.max(usage.cache_write_1h()));
        if (now, hour) == (before, hour_before) {
            return;
        }
        (self.counted, self.cache_write_1h) = (now, hour);
        let cost = |tokens, hour| self.price.map(|price| price.cost(tokens, hour)).unwrap_or_default();
        let change = UsageTotals {
            requests: 0,
            input_tokens: now.input - before.input,
            output_tokens: now.output - before.output,
            cache_read_tokens: now.cache_read - before.cache_read,
            cache_write_tokens: now.cache_write - before.cache_write,
            dollars: cost(now, hour).saturating_sub(cost(before, hour_before)),
            unpriced_tokens: if self.price.is_some() { 0 } else { now.total() - before.total() },
        };
        self.holder.usage.add(&change);
        self.permit.charge(&change);
    }
}

/// Average UTF-8 bytes per output token; tokens of prose and code have three to five.
const BYTES_PER_TOKEN: u64 = 4;

/// Content that the model has written.
#[derive(Default)]
struct UnreportedContent {
    bytes: u64,
    /// Deltas that were not empty.
    deltas: u64,
}

impl UnreportedContent {
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.deltas += u64::from(bytes > 0);
    }

    /// Estimates the tokens; a non-empty delta has at least one.
    fn estimate_tokens(&self) -> u64 {
        self.bytes.div_ceil(BYTES_PER_TOKEN).max(self.deltas)
    }
}

/// Length of the content of a delta that has the usual form and no escapes. It is called for every delta, and JSON takes
/// ten times as long.
fn plain_delta_bytes(data: &[u8]) -> Option<u64> {
    let rest = data.trim_ascii_end().strip_prefix(br#"{"type":"content_block_delta","index":"#)?;
    let index_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let delta = rest.get(index_digits..)?.strip_prefix(br#","delta":{"type":"#)?;
    let content = PLAIN_DELTAS.iter().find_map(|start| delta.strip_prefix(*start))?.strip_suffix(br#""}}"#)?;
    memchr2(b'\\', b'"', content).is_none().then_some(content.len() as u64)
}

const PLAIN_DELTAS: [&[u8]; 3] =
    [br#""text_delta","text":""#, br#""thinking_delta","thinking":""#, br#""input_json_delta","partial_json":""#];

fn parsed_delta_bytes(data: &[u8]) -> Option<u64> {
    serde_json::from_slice::<ContentDelta>(data).ok().map(|event| event.delta.bytes())
}

/// A delta of content: text, thinking, or the input of a tool.
#[derive(Deserialize)]
struct ContentDelta {
    delta: WrittenContent,
}

#[derive(Deserialize)]
struct WrittenContent {
    #[serde(default)]
    text: StringLength,
    #[serde(default)]
    thinking: StringLength,
    #[serde(default)]
    partial_json: StringLength,
}

impl WrittenContent {
    fn bytes(&self) -> u64 {
        self.text.0.saturating_add(self.thinking.0).saturating_add(self.partial_json.0)
    }
}

/// The length of a string in bytes, without the string.
#[derive(Default)]
struct StringLength(u64);

impl<'de> Deserialize<'de> for StringLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;
        impl Visitor<'_> for Counter {
            type Value = StringLength;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<StringLength, E> {
                Ok(StringLength(u64::try_from(text.len()).unwrap_or(u64::MAX)))
            }
        }
        deserializer.deserialize_str(Counter)
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
struct UsageField {
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
    /// Merges new counts: absent ones are unchanged, and none decreases, since it has been charged.
    fn merge_with(&self, before: &TokenCounts) -> TokenCounts {
        TokenCounts {
            input: before.input.max(self.input_tokens.unwrap_or(0)),
            output: before.output.max(self.output_tokens.unwrap_or(0)),
            cache_read: before.cache_read.max(self.cache_read_input_tokens.unwrap_or(0)),
            cache_write: before.cache_write.max(self.cache_creation_input_tokens.unwrap_or(0)),
        }
    }

    /// Cache writes for an hour.
    fn cache_write_1h(&self) -> u64 {
        self.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delta(index: u8, start: &[u8], content: &str) -> Vec<u8> {
        let content = serde_json::to_string(content).unwrap();
        let head = format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"#);
        let start = start.strip_suffix(b"\"").unwrap();
        [head.as_bytes(), start, content.as_bytes(), b"}}  "].concat()
    }

    proptest! {
        #[test]
        fn the_quick_measure_of_a_delta_equals_the_parsed_one(index: u8, kind in 0..3_usize, content: String) {
            let data = delta(index, PLAIN_DELTAS[kind], &content);
            prop_assert_eq!(parsed_delta_bytes(&data), Some(content.len() as u64));
            if let Some(bytes) = plain_delta_bytes(&data) {
                prop_assert_eq!(bytes, content.len() as u64);
            }
        }
    }

    #[test]
    fn only_deltas_of_the_usual_form_are_measured_without_parsing() {
        assert_eq!(plain_delta_bytes(&delta(12, PLAIN_DELTAS[0], "four")), Some(4));
        assert_eq!(plain_delta_bytes(&delta(0, PLAIN_DELTAS[2], r#"{"a""#)), None);
        let signature =
            br#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#;
        assert_eq!((plain_delta_bytes(signature), parsed_delta_bytes(signature)), (None, Some(0)));
        let two_fields =
            br#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","more":"b"}}"#;
        assert_eq!((plain_delta_bytes(two_fields), parsed_delta_bytes(two_fields)), (None, Some(1)));
    }
}
