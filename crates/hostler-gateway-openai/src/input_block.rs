//! Parses content blocks of a request; only a few kinds have a counterpart in chat completions.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat_completions;
use crate::request_body_fields::{UnsupportedRequest, decode_field};

/// A block that can be translated.
pub(super) enum InputBlock<'a> {
    /// Text, or a plain-text document.
    Text(Cow<'a, str>),
    /// An image, by a URL or a data URL.
    Image {
        url: String,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: &'a RawValue,
    },
    ToolResult(ToolResultBlock<'a>),
    /// A reference that makes a deferred tool available.
    ToolReference {
        name: Cow<'a, str>,
    },
    /// Thinking, readable or redacted.
    Thinking,
}

#[derive(Deserialize)]
pub(super) struct ToolResultBlock<'a> {
    #[serde(borrow)]
    pub(super) tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "null_is_false")]
    pub(super) is_error: bool,
}

fn null_is_false<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<bool>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Deserialize)]
#[serde(expecting = "a block with a type")]
struct BlockType<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    source: Source<'a>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    source: Source<'a>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    context: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a source with a type")]
struct Source<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    media_type: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    url: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ToolUse<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct ToolReference<'a> {
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
}

impl InputBlock<'_> {
    /// Its name in the Messages API, for error messages.
    pub(super) fn description(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text block",
            Self::Image { .. } => "an image block",
            Self::ToolUse { .. } => "a tool_use block",
            Self::ToolResult(_) => "a tool_result block",
            Self::ToolReference { .. } => "a tool_reference block",
            Self::Thinking => "a thinking block",
        }
    }
}

/// The blocks of a content field with their paths. A string is one text block; blank text blocks are skipped.
pub(super) fn parse_blocks<'a>(
    path: &str,
    content: &'a RawValue,
) -> Result<Vec<(String, InputBlock<'a>)>, UnsupportedRequest> {
    if let Some(text) = chat_completions::as_string(content) {
        return Ok(if text.is_empty() { Vec::new() } else { vec![(path.to_owned(), InputBlock::Text(text))] });
    }
    if !content.get().starts_with('[') {
        return Err(UnsupportedRequest::new(path, "a string or an array of blocks is required."));
    }
    let raws: Vec<&'a RawValue> = decode_field(path, content)?;
    let mut blocks = Vec::with_capacity(raws.len());
    for (index, raw) in raws.into_iter().enumerate() {
        let path = format!("{path}.{index}");
        let block = parse_block(&path, raw)?;
        if !matches!(&block, InputBlock::Text(text) if text.is_empty()) {
            blocks.push((path, block));
        }
    }
    Ok(blocks)
}

fn parse_block<'a>(path: &str, raw: &'a RawValue) -> Result<InputBlock<'a>, UnsupportedRequest> {
    let BlockType { kind } = decode_field(path, raw)?;
    Ok(match kind.as_ref() {
        "text" => InputBlock::Text(decode_field::<Text<'a>>(path, raw)?.text),
        "image" => convert_image(path, decode_field::<Image<'a>>(path, raw)?.source)?,
        "document" => convert_document(path, decode_field(path, raw)?)?,
        "tool_use" => {
            let ToolUse { id, name, input } = decode_field(path, raw)?;
            InputBlock::ToolUse { id, name, input }
        }
        "tool_result" => InputBlock::ToolResult(decode_field(path, raw)?),
        "tool_reference" => InputBlock::ToolReference { name: decode_field::<ToolReference<'a>>(path, raw)?.tool_name },
        "thinking" | "redacted_thinking" => InputBlock::Thinking,
        other => {
            let reason = format!(
                "a block of type {other:?} is not supported by the Chat Completions API; remove it or use another \
                 upstream."
            );
            return Err(UnsupportedRequest::new(path, reason));
        }
    })
}

fn convert_image<'a>(path: &str, source: Source<'a>) -> Result<InputBlock<'a>, UnsupportedRequest> {
    let url = match source.kind.as_ref() {
        "base64" if source.media_type.is_empty() => {
            return Err(UnsupportedRequest::new(format!("{path}.source.media_type"), "a media type is required."));
        }
        "base64" => format!("data:{};base64,{}", source.media_type, source.data),
        "url" => source.url.into_owned(),
        other => {
            let reason =
                format!("an image source of type {other:?} is not supported by this upstream; use base64 or url.");
            return Err(UnsupportedRequest::new(format!("{path}.source"), reason));
        }
    };
    Ok(InputBlock::Image { url })
}

/// A plain-text document becomes text with a title; few servers support other kinds.
fn convert_document<'a>(path: &str, document: Document<'a>) -> Result<InputBlock<'a>, UnsupportedRequest> {
    let Document { source, title, context } = document;
    if source.kind != "text" {
        let kind = if source.media_type.is_empty() { source.kind } else { source.media_type };
        let reason = format!("a document of type {kind:?} is not supported by this upstream; send its text instead.");
        return Err(UnsupportedRequest::new(path, reason));
    }
    let mut text = String::from("<document>\n");
    for (name, value) in [("title", title), ("context", context)] {
        if let Some(value) = value {
            text.push_str(&format!("<{name}>{value}</{name}>\n"));
        }
    }
    text.push_str(&source.data);
    text.push_str("\n</document>");
    Ok(InputBlock::Text(Cow::Owned(text)))
}
