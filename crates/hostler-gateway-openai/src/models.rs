//! Parses model lists. Only the id is common to all servers; some report sizes in fields of their own.

use hostler_redact::redact_json_error;
use serde::Deserialize;

use hostler_gateway::{UpstreamError, UpstreamModel};

#[derive(Deserialize)]
struct ModelListResponse {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
    name: Option<String>,
    /// vLLM.
    max_model_len: Option<u64>,
    /// OpenRouter.
    context_length: Option<u64>,
    /// Groq.
    context_window: Option<u64>,
    max_completion_tokens: Option<u64>,
    top_provider: Option<TopProvider>,
    /// OpenRouter.
    architecture: Option<Architecture>,
}

#[derive(Deserialize)]
struct Architecture {
    input_modalities: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct TopProvider {
    max_completion_tokens: Option<u64>,
}

/// Parses the response to `GET …/models`.
pub(super) fn parse_models(body: &[u8]) -> Result<Vec<UpstreamModel>, UpstreamError> {
    let list: ModelListResponse = serde_json::from_slice(body).map_err(|error| UpstreamError::InvalidResponse {
        reason: format!("invalid model list: {}", redact_json_error(&error)),
    })?;
    Ok(list.data.into_iter().map(into_upstream_model).collect())
}

fn into_upstream_model(listed: ListedModel) -> UpstreamModel {
    let taken = listed.architecture.and_then(|architecture| architecture.input_modalities);
    UpstreamModel {
        name: listed.name.unwrap_or_else(|| listed.id.clone()),
        id: listed.id,
        context_window: listed.max_model_len.or(listed.context_length).or(listed.context_window),
        max_output: listed.max_completion_tokens.or(listed.top_provider.and_then(|top| top.max_completion_tokens)),
        vision: taken.map(|kinds| kinds.iter().any(|kind| kind == "image")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_different_servers_are_parsed() {
        let body = br#"{"object":"list","data":[
            {"id":"gpt-4o","object":"model","created":1,"owned_by":"system"},
            {"id":"Qwen/Qwen3-32B","max_model_len":40960,"root":"Qwen/Qwen3-32B"},
            {"id":"qwen/qwen3-32b","name":"Qwen: Qwen3 32B","context_length":131072,
             "architecture":{"modality":"text->text","input_modalities":["text"]},
             "top_provider":{"context_length":131072,"max_completion_tokens":16384}},
            {"id":"llama-3.3-70b-versatile","context_window":131072,"max_completion_tokens":32768}]}"#;
        let model = |id: &str, name: &str, context_window, max_output, vision| UpstreamModel {
            id: id.to_owned(),
            name: name.to_owned(),
            context_window,
            max_output,
            vision,
        };
        assert_eq!(
            parse_models(body).unwrap(),
            [
                model("gpt-4o", "gpt-4o", None, None, None),
                model("Qwen/Qwen3-32B", "Qwen/Qwen3-32B", Some(40_960), None, None),
                model("qwen/qwen3-32b", "Qwen: Qwen3 32B", Some(131_072), Some(16_384), Some(false)),
                model("llama-3.3-70b-versatile", "llama-3.3-70b-versatile", Some(131_072), Some(32_768), None),
            ]
        );
        assert!(parse_models(b"<html>").is_err());
        let refused = parse_models(br#"{"data":[{"id":"m","context_window":"planted"}]}"#).unwrap_err().to_string();
        assert!(refused.contains("invalid type: string, expected u64") && !refused.contains("planted"), "{refused}");
    }
}
