//! `result` messages: the end of a turn.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

use super::{WireText, WireTokenCounts};

/// A `result` line: the end of a turn.
#[derive(Debug, Default, Deserialize)]
pub struct TurnResult<'a> {
    /// `success` even for API failures: [`is_error`](Self::is_error) decides.
    #[serde(borrow, default)]
    pub subtype: Option<WireText<'a>>,
    /// Whether the turn failed.
    #[serde(default)]
    pub is_error: bool,
    /// The HTTP status of an API failure.
    #[serde(default)]
    pub api_error_status: Option<u16>,
    /// The last text of the turn, or the failure's text.
    #[serde(borrow, default)]
    pub result: Option<WireText<'a>>,
    /// The errors, for the error subtypes.
    #[serde(borrow, default)]
    pub errors: Option<Vec<WireText<'a>>>,
    /// Why the turn ended.
    #[serde(borrow, default)]
    pub terminal_reason: Option<WireText<'a>>,
    /// The conversation.
    #[serde(borrow, default)]
    pub session_id: Option<WireText<'a>>,
    /// Tokens of this turn alone.
    #[serde(default)]
    pub usage: Option<WireTokenCounts>,
    /// Usage per model, cumulative like the cost below: only the context window is used.
    #[serde(rename = "modelUsage", default)]
    pub model_usage: Option<BTreeMap<String, ModelUsage>>,
    /// Usage per model since the last result (newer builds).
    #[serde(default)]
    pub model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
    /// The cost of the process in US dollars; newer builds add the conversation's cost before it was resumed.
    #[serde(default)]
    pub total_cost_usd: Option<f64>,
    /// Calls that were denied in this turn.
    #[serde(borrow, default)]
    pub permission_denials: Option<Vec<PermissionDenial<'a>>>,
    /// The prompts that the turn answered (newer builds).
    #[serde(default)]
    pub user_message_uuids: Option<Vec<Uuid>>,
}

/// The agent's data about a model that it used.
#[derive(Debug, Default, Deserialize)]
pub struct ModelUsage {
    /// The size of the model's context window.
    #[serde(rename = "contextWindow", default)]
    pub context_window: Option<u64>,
    /// Its cost, in US dollars.
    #[serde(rename = "costUSD", default)]
    pub cost_usd: Option<f64>,
}

/// A denied call.
#[derive(Debug, Deserialize)]
pub struct PermissionDenial<'a> {
    /// The call.
    #[serde(borrow, default)]
    pub tool_use_id: Option<WireText<'a>>,
}
