//! A whole chat completion becomes a message.

use bytes::Bytes;
use hostler_redact::json_fault;
use serde_json::value::RawValue;

use super::answer::{Block, Message, Usage};
use super::call_ids::CallIds;
use super::failure;
use super::finish::Finish;
use super::request::Expected;
use super::wire::{CallDelta, Choice, Completion};
use crate::upstream::UpstreamError;

/// Translates a body; `id` is the new message's and `model` the one that was asked for.
pub(super) fn translate(body: &[u8], id: &str, model: &str, expected: Expected) -> Result<Bytes, UpstreamError> {
    let completion: Completion<'_> = serde_json::from_slice(body)
        .map_err(|error| unintelligible(format!("it is no chat completion: {}", json_fault(&error))))?;
    if let Some(error) = completion.error {
        return Err(failure::told(error).into());
    }
    let choice = completion
        .choices
        .and_then(|choices| choices.into_iter().find(Choice::is_first))
        .ok_or_else(|| unintelligible("it holds no choice".to_owned()))?;
    let finish = Finish::of(&choice).ok_or_else(|| unintelligible("it has no finish_reason".to_owned()))?;
    let said = choice.said().ok_or_else(|| unintelligible("its choice holds no message".to_owned()))?;

    let reasoning = said.reasoning().filter(|_| expected.reasoning);
    let text = said.text().map_err(unintelligible)?.filter(|text| !text.trim().is_empty());
    let refusal = said.refusal();
    let mut ids = CallIds::new(id, expected.call_ids);
    let mut calls = Vec::new();
    for call in said.tool_calls.iter().flatten() {
        match Call::read(call, &mut ids) {
            Ok(call) => calls.push(call),
            // What the limit has cut off was never called; the stop reason says so.
            Err(_) if finish.is_cut() => break,
            Err(reason) => return Err(unintelligible(reason)),
        }
    }

    let mut content = Vec::new();
    content.extend(reasoning.as_deref().map(|thinking| Block::Thinking { thinking, signature: "" }));
    content.extend([&text, &refusal].into_iter().flatten().map(|text| Block::Text { text }));
    content.extend(calls.iter().map(|call| Block::ToolUse { id: &call.id, name: call.name, input: &call.input }));
    let message = Message {
        id,
        role: "assistant",
        model: completion.model.as_deref().filter(|model| !model.is_empty()).unwrap_or(model),
        content,
        stop: finish.stop(!calls.is_empty(), refusal.is_some())?,
        usage: Usage::from(completion.usage.unwrap_or_default()),
    };
    serde_json::to_vec(&message)
        .map(Bytes::from)
        .map_err(|error| UpstreamError::Internal { reason: format!("a message could not be written: {error}") })
}

struct Call<'a> {
    id: String,
    name: &'a str,
    input: Box<RawValue>,
}

impl<'a> Call<'a> {
    fn read(call: &'a CallDelta<'_>, ids: &mut CallIds) -> Result<Self, String> {
        let name = call.name();
        if name.is_empty() {
            return Err("it calls a tool without naming it".to_owned());
        }
        let arguments = call.arguments();
        // A call without arguments often comes as an empty string.
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
        let input = RawValue::from_string(arguments.to_owned())
            .ok()
            .filter(|input| input.get().starts_with('{'))
            .ok_or_else(|| format!("the arguments of its call to {name:?} are not a JSON object"))?;
        Ok(Self { id: ids.choose(call.id()), name, input })
    }
}

fn unintelligible(reason: String) -> UpstreamError {
    UpstreamError::Unintelligible { reason }
}
