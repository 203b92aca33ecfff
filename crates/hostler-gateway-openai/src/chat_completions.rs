//! Wire types of chat completions: the request that is sent, and the responses and chunks that are received.

use std::borrow::Cow;

use hostler_redact::redact_json_error;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use hostler_gateway::UpstreamError;
/// Why a response is not a usable chat completion. Never contains its text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum CompletionError {
    #[error("not a chat completion: {reason}")]
    Malformed { reason: String },
    #[error("the completion has no choices")]
    NoChoice,
    #[error("the choice has no finish_reason")]
    NoFinishReason,
    #[error("the choice has no message")]
    NoMessage,
    #[error("the content is not text: {reason}")]
    ContentNotText { reason: String },
    #[error("the content has a part of type {kind:?}")]
    UnsupportedContentPart { kind: String },
    #[error("a tool call has no name")]
    UnnamedToolCall,
    #[error("a tool call has arguments before its name")]
    ArgumentsBeforeName,
    #[error("the arguments of the call to {tool:?} are not a JSON object")]
    InvalidArguments { tool: String },
    #[error("the arguments of a tool call are not a JSON object")]
    InvalidStreamedArguments,
    #[error("more than {most} tool calls in one message")]
    TooManyToolCalls { most: usize },
}

impl From<CompletionError> for UpstreamError {
    fn from(error: CompletionError) -> Self {
        Self::InvalidResponse { reason: error.to_string() }
    }
}

/// Separator of text blocks that are joined into one string.
pub(super) const PARAGRAPH_BREAK: &str = "\n\n";

#[derive(Debug, Serialize)]
pub(super) struct ChatRequest<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ChatToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Debug, Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum ChatMessage<'a> {
    System {
        content: String,
    },
    User {
        #[serde(serialize_with = "user_content")]
        content: Vec<UserContentPart>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: String,
    },
}

/// A part of a user message.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum UserContentPart {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

/// Text alone is sent as a string, because small servers do not support parts.
fn user_content<S: Serializer>(parts: &[UserContentPart], serializer: S) -> Result<S::Ok, S::Error> {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            UserContentPart::Text { text } => Some(text.as_str()),
            UserContentPart::ImageUrl { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => serializer.serialize_str(&texts.join(PARAGRAPH_BREAK)),
        None => parts.serialize(serializer),
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ChatToolCall<'a> {
    pub(super) id: Cow<'a, str>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: FunctionCall<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    pub(super) name: Cow<'a, str>,
    /// JSON in a string, as the protocol requires.
    pub(super) arguments: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionTool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: FunctionDefinition<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionDefinition<'a> {
    pub(super) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Cow<'a, str>>,
    pub(super) parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ChatToolChoice {
    Mode(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: FunctionName,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionName {
    pub(super) name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) json_schema: JsonSchema<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) name: &'static str,
    pub(super) strict: bool,
    pub(super) schema: &'a RawValue,
}

/// A complete response or one chunk of a stream: they differ only in the field name of a choice's content.
#[derive(Debug, Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<CompletionChoice<'a>>>,
    pub(super) usage: Option<CompletionUsage>,
    /// Some servers report a failure with status 200.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CompletionChoice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<CompletionDelta<'a>>,
    #[serde(borrow)]
    message: Option<CompletionDelta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    /// vLLM only: the stop sequence that was met, as a string.
    #[serde(borrow)]
    pub(super) stop_reason: Option<&'a RawValue>,
}

/// Output of the model. Raw values where servers disagree about the type.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CompletionDelta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCallDelta<'a>>>,
}

/// A tool call, or a part of one.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCallDelta<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct CompletionUsage {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for the cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl CompletionUsage {
    /// Prompt tokens that were read from a cache.
    pub(super) fn cached_tokens(self) -> u64 {
        self.prompt_tokens_details
            .and_then(|details| details.cached_tokens)
            .or(self.prompt_cache_hit_tokens)
            .unwrap_or(0)
    }
}

#[derive(Debug, Deserialize)]
struct TextPart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

impl<'a> CompletionChoice<'a> {
    /// Whether it is the first choice; servers that return only one may omit its index.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }

    /// The content of this choice; some servers send the other field as `null`.
    pub(super) fn message_or_delta(&self) -> Option<&CompletionDelta<'a>> {
        self.delta.as_ref().or(self.message.as_ref())
    }
}

impl<'a> CompletionDelta<'a> {
    /// The text; `None` if it is empty, an error if it is neither a string nor text parts.
    pub(super) fn text(&self) -> Result<Option<Cow<'a, str>>, CompletionError> {
        let Some(raw) = self.content else { return Ok(None) };
        if let Some(text) = as_string(raw) {
            return Ok(Some(text).filter(|text| !text.is_empty()));
        }
        let parts: Vec<TextPart<'_>> = serde_json::from_str(raw.get())
            .map_err(|error| CompletionError::ContentNotText { reason: redact_json_error(&error) })?;
        let mut text = String::new();
        for part in parts {
            if part.kind != "text" {
                return Err(CompletionError::UnsupportedContentPart { kind: part.kind.into_owned() });
            }
            text.push_str(&part.text);
        }
        Ok(Some(Cow::<str>::Owned(text)).filter(|text| !text.is_empty()))
    }

    /// The reasoning, by either of the two field names that servers use.
    pub(super) fn reasoning(&self) -> Option<Cow<'a, str>> {
        let named = [self.reasoning_content, self.reasoning];
        named.into_iter().flatten().filter_map(as_string).find(|text| !text.is_empty())
    }

    /// The text of a refusal.
    pub(super) fn refusal(&self) -> Option<Cow<'a, str>> {
        self.refusal.and_then(as_string).filter(|text| !text.is_empty())
    }
}

impl<'a> ToolCallDelta<'a> {
    pub(super) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default()
    }

    /// The arguments as JSON text; some servers send the object instead of a string.
    pub(super) fn arguments(&self) -> Cow<'a, str> {
        match self.function.as_ref().and_then(|function| function.arguments) {
            Some(raw) => as_string(raw).unwrap_or(Cow::Borrowed(raw.get())),
            None => Cow::Borrowed(""),
        }
    }
}

/// The value if it is a string.
pub(super) fn as_string<'a>(raw: &'a RawValue) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    raw.get().starts_with('"').then(|| serde_json::from_str::<Text<'a>>(raw.get()).ok().map(|text| text.0)).flatten()
}
