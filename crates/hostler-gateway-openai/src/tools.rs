//! Translates tools into functions.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat_completions::{ChatToolChoice, FunctionDefinition, FunctionName, FunctionTool};
use crate::request_body_fields::{UnsupportedRequest, decode_field};

#[derive(Deserialize)]
#[serde(expecting = "a tool with a name and an input_schema")]
struct ToolField<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
    strict: Option<bool>,
    defer_loading: Option<bool>,
}

/// The functions that the model receives. A deferred tool is included only after a tool result has referenced it.
pub(super) fn translate_tools<'a>(
    tools: &[&'a RawValue],
    referred: &HashSet<Cow<'a, str>>,
) -> Result<Vec<FunctionTool<'a>>, UnsupportedRequest> {
    let mut functions = Vec::with_capacity(tools.len());
    for (index, raw) in tools.iter().copied().enumerate() {
        let path = format!("tools.{index}");
        let tool: ToolField<'a> = decode_field(&path, raw)?;
        if let Some(kind) = tool.kind.filter(|kind| kind != "custom") {
            let reason = format!("the tool {kind:?} runs on Anthropic's servers and is not available here; remove it.");
            return Err(UnsupportedRequest::new(path, reason));
        }
        let name = tool.name.ok_or_else(|| UnsupportedRequest::new(format!("{path}.name"), "a name is required."))?;
        let parameters = tool
            .input_schema
            .ok_or_else(|| UnsupportedRequest::new(format!("{path}.input_schema"), "a JSON schema is required."))?;
        if tool.defer_loading == Some(true) && !referred.contains(&name) {
            continue;
        }
        let function = FunctionDefinition { name, description: tool.description, parameters, strict: tool.strict };
        functions.push(FunctionTool { kind: "function", function });
    }
    Ok(functions)
}

#[derive(Deserialize)]
#[serde(expecting = "a choice with a type")]
pub(super) struct ToolChoiceField {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

/// How the model chooses a function, and whether it may call several at once (`None`: the server's default).
///
/// A request without functions must not contain these fields.
pub(super) fn translate_tool_choice(
    field: Option<ToolChoiceField>,
    any_function: bool,
) -> Result<(Option<ChatToolChoice>, Option<bool>), UnsupportedRequest> {
    let Some(ToolChoiceField { kind, name, disable_parallel_tool_use }) = field else { return Ok((None, None)) };
    let choice = match (kind.as_str(), name) {
        ("auto" | "none", _) if !any_function => return Ok((None, None)),
        ("auto", _) => ChatToolChoice::Mode("auto"),
        ("none", _) => ChatToolChoice::Mode("none"),
        ("any" | "tool", _) if !any_function => {
            return Err(UnsupportedRequest::new("tool_choice", "a tool is required, but `tools` is empty."));
        }
        ("any", _) => ChatToolChoice::Mode("required"),
        ("tool", Some(name)) => ChatToolChoice::Function { kind: "function", function: FunctionName { name } },
        ("tool", None) => return Err(UnsupportedRequest::new("tool_choice.name", "a name is required.")),
        (other, _) => {
            let reason = format!("unexpected type {other:?}; use auto, any, tool or none.");
            return Err(UnsupportedRequest::new("tool_choice.type", reason));
        }
    };
    let parallel = disable_parallel_tool_use.filter(|disable| *disable).map(|_| false);
    Ok((Some(choice), parallel))
}
