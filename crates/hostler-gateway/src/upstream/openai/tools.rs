//! Tools become functions.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::{Inexpressible, read};
use super::wire::{Function, FunctionName, Tool, ToolChoice};

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

/// The functions that the model may know of. A deferred tool is one only after a tool result has referred to it.
pub(super) fn functions<'a>(
    tools: &[&'a RawValue],
    referred: &HashSet<Cow<'a, str>>,
) -> Result<Vec<Tool<'a>>, Inexpressible> {
    let mut functions = Vec::with_capacity(tools.len());
    for (index, raw) in tools.iter().copied().enumerate() {
        let path = format!("tools.{index}");
        let tool: ToolField<'a> = read(&path, raw)?;
        if let Some(kind) = tool.kind.filter(|kind| kind != "custom") {
            let reason = format!("the tool {kind:?} runs at Anthropic and this upstream has no such; leave it out.");
            return Err(Inexpressible::new(path, reason));
        }
        let name = tool.name.ok_or_else(|| Inexpressible::new(format!("{path}.name"), "a name is required."))?;
        let parameters = tool
            .input_schema
            .ok_or_else(|| Inexpressible::new(format!("{path}.input_schema"), "a JSON schema is required."))?;
        if tool.defer_loading == Some(true) && !referred.contains(&name) {
            continue;
        }
        let function = Function { name, description: tool.description, parameters, strict: tool.strict };
        functions.push(Tool { kind: "function", function });
    }
    Ok(functions)
}

#[derive(Deserialize)]
#[serde(expecting = "a choice with a type")]
pub(super) struct ChoiceField {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

/// How the model is to choose, and whether it may call several at once (nothing: as the server likes).
///
/// Without functions a request must say nothing about them.
pub(super) fn choice(
    field: Option<ChoiceField>,
    any_function: bool,
) -> Result<(Option<ToolChoice>, Option<bool>), Inexpressible> {
    let Some(ChoiceField { kind, name, disable_parallel_tool_use }) = field else { return Ok((None, None)) };
    let choice = match (kind.as_str(), name) {
        ("auto" | "none", _) if !any_function => return Ok((None, None)),
        ("auto", _) => ToolChoice::Word("auto"),
        ("none", _) => ToolChoice::Word("none"),
        ("any" | "tool", _) if !any_function => {
            return Err(Inexpressible::new("tool_choice", "a tool is demanded and the model knows none."));
        }
        ("any", _) => ToolChoice::Word("required"),
        ("tool", Some(name)) => ToolChoice::Function { kind: "function", function: FunctionName { name } },
        ("tool", None) => return Err(Inexpressible::new("tool_choice.name", "a name is required.")),
        (other, _) => {
            let reason = format!("{other:?} is none of auto, any, tool and none.");
            return Err(Inexpressible::new("tool_choice.type", reason));
        }
    };
    let parallel = disable_parallel_tool_use.filter(|disable| *disable).map(|_| false);
    Ok((Some(choice), parallel))
}
