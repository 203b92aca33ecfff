//! Translates a Messages request into a chat-completions request.
//!
//! Each field is translated, ignored, or rejected. Ignored fields are hints that do not change what is requested
//! ([`IGNORED_FIELDS`], and `cache_control` anywhere). All other fields, unknown ones included, reject the request with
//! their path, because dropping them would change its meaning.
//!
//! `thinking` and `output_config.effort` specify how much the model thinks. If the dialect supports `reasoning_effort`,
//! they are sent as that; otherwise they are ignored and the server decides. They always determine whether the client
//! receives the reasoning.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat_completions::{ChatRequest, JsonSchema, ResponseFormat, StreamOptions};
use crate::conversation::ChatConversation;
use crate::dialect::{ChatDialect, TokenLimitField};
use crate::request_body_fields::{RequestBodyFields, UnsupportedRequest};
use crate::tools;

/// Fields for Anthropic's caches, queues and diagnostics, and `metadata`, which identifies the user and is not sent to
/// others.
const IGNORED_FIELDS: [&str; 6] =
    ["cache_control", "context_management", "diagnostics", "metadata", "service_tier", "speed"];

/// A translated request, and the context for translating its response.
#[derive(Debug)]
pub(super) struct TranslatedRequest {
    pub(super) body: Bytes,
    pub(super) response_context: ResponseContext,
}

/// What is needed to translate a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseContext {
    /// The client requested thinking, so it receives the model's reasoning.
    pub(super) include_reasoning: bool,
    /// Ids of earlier tool calls; a new id must differ.
    pub(super) call_ids: HashSet<String>,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputConfig<'a> {
    effort: Option<String>,
    #[serde(borrow)]
    format: Option<OutputFormat<'a>>,
}

#[derive(Deserialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

/// Translates a body; `model` is the upstream's id.
pub(super) fn translate_request(
    body: &[u8],
    model: &str,
    stream: bool,
    dialect: ChatDialect,
) -> Result<TranslatedRequest, UnsupportedRequest> {
    let mut fields = RequestBodyFields::parse(body)?;
    fields.ignore(&["model", "stream"]);
    fields.ignore(&IGNORED_FIELDS);

    let system: Option<&RawValue> = fields.take("system")?;
    let messages: Vec<&RawValue> = fields.take("messages")?.unwrap_or_default();
    let conversation = ChatConversation::translate(system, &messages, dialect.late_system_role)?;
    let tools: Vec<&RawValue> = fields.take("tools")?.unwrap_or_default();
    let tools = tools::translate_tools(&tools, &conversation.referenced_tools)?;
    let (tool_choice, parallel_tool_calls) =
        tools::translate_tool_choice(fields.take("tool_choice")?, !tools.is_empty())?;
    let limit: Option<u64> = fields.take("max_tokens")?;
    let (max_tokens, max_completion_tokens) = match dialect.token_limit_field {
        TokenLimitField::MaxTokens => (limit, None),
        TokenLimitField::MaxCompletionTokens => (None, limit),
    };
    let thinking: Option<Thinking> = fields.take("thinking")?;
    let output: Option<OutputConfig<'_>> = fields.take("output_config")?;
    let (wished_effort, format) = output.map_or((None, None), |output| (output.effort, output.format));
    let format = format.or(fields.take("output_format")?);
    let request = ChatRequest {
        model,
        messages: conversation.messages,
        max_tokens,
        max_completion_tokens,
        temperature: fields.take("temperature")?,
        top_p: fields.take("top_p")?,
        stop: fields.take("stop_sequences")?.unwrap_or_default(),
        tools,
        tool_choice,
        parallel_tool_calls,
        response_format: format.map(translate_response_format).transpose()?,
        reasoning_effort: reasoning_effort(thinking.as_ref(), wished_effort.as_deref())
            .filter(|_| dialect.supports_reasoning_effort),
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
    };
    fields.reject_remaining()?;
    let expected = ResponseContext {
        include_reasoning: thinking.is_some_and(|thinking| thinking.kind != "disabled"),
        call_ids: conversation.call_ids.into_iter().map(|id| id.into_owned()).collect(),
    };
    let body = serde_json::to_vec(&request)
        .map_err(|error| UnsupportedRequest::new("body", format!("failed to serialize the request: {error}.")))?;
    Ok(TranslatedRequest { body: body.into(), response_context: expected })
}

/// The requested effort, in the three values that all servers with efforts know. The thresholds for a budget are
/// Hostler's: a quarter and a half of the 32 000 tokens that agents request at most.
fn reasoning_effort(thinking: Option<&Thinking>, wished: Option<&str>) -> Option<&'static str> {
    if thinking.is_some_and(|thinking| thinking.kind == "disabled") {
        return None;
    }
    match wished {
        Some("low") => return Some("low"),
        Some("medium") => return Some("medium"),
        Some("high" | "xhigh" | "max") => return Some("high"),
        Some(_) | None => {}
    }
    Some(match thinking?.budget_tokens? {
        ..8_000 => "low",
        8_000..16_000 => "medium",
        16_000.. => "high",
    })
}

fn translate_response_format(format: OutputFormat<'_>) -> Result<ResponseFormat<'_>, UnsupportedRequest> {
    match (format.kind.as_str(), format.schema) {
        ("json_schema", Some(schema)) => {
            let json_schema = JsonSchema { name: "answer", strict: true, schema };
            Ok(ResponseFormat { kind: "json_schema", json_schema })
        }
        ("json_schema", None) => {
            Err(UnsupportedRequest::new("output_config.format.schema", "a JSON schema is required."))
        }
        (other, _) => {
            let reason =
                format!("the Chat Completions API does not support the output format {other:?}; use json_schema.");
            Err(UnsupportedRequest::new("output_config.format.type", reason))
        }
    }
}
