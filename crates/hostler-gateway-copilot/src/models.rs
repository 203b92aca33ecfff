//! Parses Copilot's model list and selects the models that serve the Messages API.

use serde::Deserialize;
use serde_json::value::RawValue;

use hostler_gateway::UpstreamModel;

const SUPPORTED_VENDOR: &str = "anthropic";
const MESSAGES_ENDPOINT: &str = "/v1/messages";

#[derive(Deserialize)]
struct CopilotModelList<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct CopilotModel {
    id: String,
    name: Option<String>,
    vendor: String,
    #[serde(default)]
    supported_endpoints: Vec<String>,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    limits: ModelLimits,
    #[serde(default)]
    supports: ModelSupports,
}

#[derive(Default, Deserialize)]
struct ModelSupports {
    vision: Option<bool>,
}

#[derive(Default, Deserialize)]
struct ModelLimits {
    max_context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
}

/// The models that serve the Messages API. Entries of another format are skipped.
pub(super) fn parse_models(body: &[u8]) -> Result<Vec<UpstreamModel>, serde_json::Error> {
    let list: CopilotModelList<'_> = serde_json::from_slice(body)?;
    Ok(list.data.into_iter().filter_map(|entry| into_upstream_model(serde_json::from_str(entry.get()).ok()?)).collect())
}

fn into_upstream_model(entry: CopilotModel) -> Option<UpstreamModel> {
    let serves = entry.supported_endpoints.iter().any(|endpoint| endpoint == MESSAGES_ENDPOINT);
    if !serves || !entry.vendor.eq_ignore_ascii_case(SUPPORTED_VENDOR) || entry.id.is_empty() {
        return None;
    }
    let limits = entry.capabilities.limits;
    Some(UpstreamModel {
        name: entry.name.filter(|name| !name.is_empty()).unwrap_or_else(|| entry.id.clone()),
        id: entry.id,
        context_window: limits.max_context_window_tokens,
        max_output: limits.max_output_tokens,
        vision: entry.capabilities.supports.vision,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_anthropic_models_with_the_messages_api_are_listed() {
        let endpoints = json!(["/chat/completions", "/v1/messages"]);
        let limits = json!({"limits": {"max_context_window_tokens": 200_000, "max_output_tokens": 64_000, "vision": {}},
                   "supports": {"vision": true}});
        let list = json!({"object": "list", "data": [
            {"id": "claude-sonnet-4.5", "name": "Claude Sonnet 4.5", "vendor": "Anthropic",
             "supported_endpoints": endpoints, "capabilities": limits, "policy": {"state": "enabled"}},
            {"id": "claude-bare", "vendor": "anthropic", "supported_endpoints": ["/v1/messages"]},
            {"id": "claude-chat-only", "name": "x", "vendor": "Anthropic", "supported_endpoints": ["/chat/completions"]},
            {"id": "claude-none", "name": "x", "vendor": "Anthropic"},
            {"id": "gpt-5", "name": "x", "vendor": "Azure OpenAI", "supported_endpoints": endpoints},
            {"id": "no-vendor", "name": "x", "supported_endpoints": endpoints},
            {"id": "", "name": "x", "vendor": "Anthropic", "supported_endpoints": endpoints},
            {"id": 5, "name": "x", "vendor": "Anthropic", "supported_endpoints": endpoints},
            "something else",
        ]});
        let parsed = parse_models(list.to_string().as_bytes()).unwrap();
        let parsed: Vec<_> = parsed
            .iter()
            .map(|model| (&*model.id, &*model.name, model.context_window, model.max_output, model.vision))
            .collect();
        assert_eq!(
            parsed,
            [
                ("claude-sonnet-4.5", "Claude Sonnet 4.5", Some(200_000), Some(64_000), Some(true)),
                ("claude-bare", "claude-bare", None, None, None),
            ]
        );
    }

    #[test]
    fn an_invalid_list_is_an_error() {
        for body in ["", "[]", "{}", r#"{"data":{}}"#, r#"{"data":[{]}"#] {
            assert!(parse_models(body.as_bytes()).is_err(), "{body}");
        }
    }
}
