//! Translates a complete chat completion into a message.

use bytes::Bytes;
use hostler_gateway::UpstreamError;
use hostler_redact::redact_json_error;
use serde_json::value::RawValue;

use crate::chat_completions::{Completion, CompletionChoice, CompletionError, ToolCallDelta};
use crate::finish_reason::FinishReason;
use crate::messages_response::{ContentBlock, MessageResponse, MessageUsage};
use crate::request::ResponseContext;
use crate::server_error;
use crate::tool_call_ids::ToolCallIds;

/// Translates a body; `id` is the id of the new message and `model` the requested model.
pub(super) fn translate_response(
    body: &[u8],
    id: &str,
    model: &str,
    expected: ResponseContext,
) -> Result<Bytes, UpstreamError> {
    let completion: Completion<'_> = serde_json::from_slice(body)
        .map_err(|error| CompletionError::Malformed { reason: redact_json_error(&error) })?;
    if let Some(error) = completion.error {
        return Err(server_error::parse_server_error(error).into());
    }
    let choice = completion
        .choices
        .and_then(|choices| choices.into_iter().find(CompletionChoice::is_first))
        .ok_or(CompletionError::NoChoice)?;
    let finish = FinishReason::from_choice(&choice).ok_or(CompletionError::NoFinishReason)?;
    let message = choice.message_or_delta().ok_or(CompletionError::NoMessage)?;

    let reasoning = message.reasoning().filter(|_| expected.include_reasoning);
    let text = message.text()?.filter(|text| !text.trim().is_empty());
    let refusal = message.refusal();
    let mut ids = ToolCallIds::new(id, expected.call_ids);
    let mut calls = Vec::new();
    for call in message.tool_calls.iter().flatten() {
        match CompletedToolCall::parse(call, &mut ids) {
            Ok(call) => calls.push(call),
            // A call that the token limit truncated is dropped; the stop reason reports the truncation.
            Err(_) if finish.is_truncated() => break,
            Err(error) => return Err(error.into()),
        }
    }

    let mut content = Vec::new();
    content.extend(reasoning.as_deref().map(|thinking| ContentBlock::Thinking { thinking, signature: "" }));
    content.extend([&text, &refusal].into_iter().flatten().map(|text| ContentBlock::Text { text }));
    content.extend(calls.iter().map(|call| ContentBlock::ToolUse {
        id: &call.id,
        name: call.name,
        input: &call.input,
    }));
    let response = MessageResponse {
        id,
        role: "assistant",
        model: completion.model.as_deref().filter(|model| !model.is_empty()).unwrap_or(model),
        content,
        stop: finish.into_stop_fields(!calls.is_empty(), refusal.is_some())?,
        usage: MessageUsage::from(completion.usage.unwrap_or_default()),
    };
    serde_json::to_vec(&response)
        .map(Bytes::from)
        .map_err(|error| UpstreamError::Internal { reason: format!("failed to serialize a message: {error}") })
}

struct CompletedToolCall<'a> {
    id: String,
    name: &'a str,
    input: Box<RawValue>,
}

impl<'a> CompletedToolCall<'a> {
    fn parse(call: &'a ToolCallDelta<'_>, ids: &mut ToolCallIds) -> Result<Self, CompletionError> {
        let name = call.name();
        if name.is_empty() {
            return Err(CompletionError::UnnamedToolCall);
        }
        let arguments = call.arguments();
        // A call without arguments often has an empty string.
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
        let input = RawValue::from_string(arguments.to_owned())
            .ok()
            .filter(|input| input.get().starts_with('{'))
            .ok_or_else(|| CompletionError::InvalidArguments { tool: name.to_owned() })?;
        Ok(Self { id: ids.choose(call.id()), name, input })
    }
}
