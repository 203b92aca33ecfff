//! Token usage, context size and cost of turns.

use hostler_driver::TokenUsage;

use crate::wire::{SYNTHETIC_MODEL, TurnResult, WireTokenCounts};

/// Token usage of the running turn. A turn may contain several answers of the model (one per round of tool calls).
#[derive(Debug, Default)]
pub(super) struct TurnUsage {
    /// Completed answers.
    finished: TokenUsage,
    /// The answer that is being streamed; the API repeats and corrects its counts, so later ones replace earlier
    /// ones.
    current: TokenUsage,
    model: Option<String>,
}

/// State across turns: context size and total cost.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    context: Option<u64>,
    total_cost_usd: f64,
}

impl UsageMeter {
    /// The context size after the turn's latest answer, or the previous one.
    pub(super) fn context(&mut self, turn: &TurnUsage) -> Option<u64> {
        self.context = turn.context().or(self.context);
        self.context
    }

    /// The conversation was compacted.
    pub(super) fn on_compaction(&mut self, turn: &mut TurnUsage, tokens: Option<u64>) {
        turn.finish_answer();
        self.context = tokens.or(self.context);
    }

    /// The turn's cost. If the agent does not report it, it is the growth of the total.
    pub(super) fn turn_cost(&mut self, result: &TurnResult<'_>) -> Option<f64> {
        let total = result.total_cost_usd?;
        // A cleared conversation restarts its total.
        let growth = if total < self.total_cost_usd { total } else { total - self.total_cost_usd };
        self.total_cost_usd = total;
        let reported = result.model_usage_since_last_result.as_ref();
        Some(reported.map_or(growth, |models| models.values().filter_map(|model| model.cost_usd).sum()))
    }
}

impl TurnUsage {
    pub(super) fn start_message(&mut self, tokens: WireTokenCounts, model: Option<&str>) {
        self.finish_answer();
        self.update_counts(tokens);
        self.set_model(model);
    }

    fn finish_answer(&mut self) {
        self.finished = sum(&self.finished, &self.current);
        self.current = TokenUsage::default();
    }

    /// The tokens that the latest answer read and wrote are the next answer's input.
    fn context(&self) -> Option<u64> {
        let TokenUsage { input, output, cache_read, cache_write, .. } = self.current;
        let tokens = [input, output, cache_read, cache_write].into_iter().fold(0, u64::saturating_add);
        (tokens > 0).then_some(tokens)
    }

    pub(super) fn update_counts(&mut self, tokens: WireTokenCounts) {
        merge(&mut self.current, tokens);
    }

    pub(super) fn set_model(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|model| *model != SYNTHETIC_MODEL && self.model.as_deref() != Some(model)) {
            self.model = Some(model.to_owned());
        }
    }

    pub(super) fn so_far(&self) -> TokenUsage {
        TokenUsage { model: self.model.clone(), ..sum(&self.finished, &self.current) }
    }

    /// The result's counts, which also cover answers that were not streamed. The result of an interrupted turn has no
    /// counts; then the streamed counts apply.
    pub(super) fn final_usage(&self, result: &TurnResult<'_>) -> TokenUsage {
        let mut usage = TokenUsage::default();
        merge(&mut usage, result.usage.unwrap_or_default());
        if usage == TokenUsage::default() {
            usage = self.so_far();
        }
        let facts = self.model.as_ref().and_then(|model| result.model_usage.as_ref()?.get(model));
        TokenUsage { model: self.model.clone(), context_window: facts.and_then(|facts| facts.context_window), ..usage }
    }
}

fn merge(usage: &mut TokenUsage, tokens: WireTokenCounts) {
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
