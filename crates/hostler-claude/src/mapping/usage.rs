use hostler_driver::TokenUsage;

use crate::wire::{SYNTHETIC, Tokens, TurnResult};

/// Token use of the running turn. A turn may hold several answers of the model (one per round of tool calls).
#[derive(Debug, Default)]
pub(super) struct TurnUsage {
    /// Answers that are over.
    before: TokenUsage,
    /// The answer that is being streamed; the API repeats and corrects its counts, so they replace each other.
    current: TokenUsage,
    model: Option<String>,
}

impl TurnUsage {
    pub(super) fn message_started(&mut self, tokens: Tokens, model: Option<&str>) {
        self.before = sum(&self.before, &self.current);
        self.current = TokenUsage::default();
        self.message_counted(tokens);
        self.answered_by(model);
    }

    pub(super) fn message_counted(&mut self, tokens: Tokens) {
        merge(&mut self.current, tokens);
    }

    pub(super) fn answered_by(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| *model != SYNTHETIC && self.model.as_deref() != Some(model)) {
            self.model = Some(model.to_owned());
        }
    }

    pub(super) fn so_far(&self) -> TokenUsage {
        TokenUsage { model: self.model.clone(), ..sum(&self.before, &self.current) }
    }

    /// The result's own counts, which also cover answers that were not streamed. An interrupted turn's result counts
    /// nothing; then what was streamed counts.
    pub(super) fn at_the_end(&self, result: &TurnResult<'_>) -> TokenUsage {
        let mut usage = TokenUsage::default();
        merge(&mut usage, result.usage.unwrap_or_default());
        if usage == TokenUsage::default() {
            usage = self.so_far();
        }
        let facts = self.model.as_ref().and_then(|model| result.model_usage.as_ref()?.get(model));
        TokenUsage { model: self.model.clone(), context_window: facts.and_then(|facts| facts.context_window), ..usage }
    }
}

fn merge(usage: &mut TokenUsage, tokens: Tokens) {
    usage.input = tokens.input_tokens.unwrap_or(usage.input);
    usage.output = tokens.output_tokens.unwrap_or(usage.output);
    usage.cache_read = tokens.cache_read_input_tokens.unwrap_or(usage.cache_read);
    usage.cache_write = tokens.cache_creation_input_tokens.unwrap_or(usage.cache_write);
}

fn sum(a: &TokenUsage, b: &TokenUsage) -> TokenUsage {
    TokenUsage {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_write: a.cache_write.saturating_add(b.cache_write),
        ..TokenUsage::default()
    }
}
