//! `GET /v1/models` and `GET /v1/models/{id}`: the merged model list in the format of the Messages API.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{Either, Full};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::error::{ApiError, ApiErrorKind};
use crate::gateway::GatewayState;
use crate::lease::LeaseHolder;
use crate::model_catalog::AvailableModel;
use crate::model_id;
use crate::relay::ResponseBody;
use crate::upstream_registry;

/// The only page of the list.
#[derive(Serialize)]
struct ModelsPage<'a> {
    data: Vec<ListedModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct ListedModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// A constant, because not every upstream reports it and clients require it.
    created_at: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

impl<'a> ListedModel<'a> {
    fn new(model: &'a AvailableModel) -> Self {
        Self {
            kind: "model",
            id: &model.id,
            display_name: &model.name,
            created_at: "1970-01-01T00:00:00Z",
            max_input_tokens: model.context_window,
            max_tokens: model.max_output,
        }
    }
}

/// Lists all models.
pub(crate) async fn list_models(
    shared: &Arc<GatewayState>,
    holder: &LeaseHolder,
) -> Result<Response<ResponseBody>, ApiError> {
    let models = available_models(shared, holder).await;
    let page = ModelsPage {
        has_more: false,
        first_id: models.first().map(|model| model.id.as_str()),
        last_id: models.last().map(|model| model.id.as_str()),
        data: models.iter().map(ListedModel::new).collect(),
    };
    json_response(&page)
}

/// Returns one model, by an id of any form.
pub(crate) async fn get_model(
    shared: &Arc<GatewayState>,
    holder: &LeaseHolder,
    id: &str,
) -> Result<Response<ResponseBody>, ApiError> {
    let id = percent_decode_str(id).decode_utf8_lossy();
    let id = id.as_ref();
    let models = available_models(shared, holder).await;
    let found = models.iter().find(|model| model.id == id).or_else(|| {
        let (name, asked) = upstream_registry::split_model_id(id).unwrap_or(("", id));
        models.iter().find(|model| {
            let (upstream, listed) = upstream_registry::split_model_id(&model.id).unwrap_or(("", &model.id));
            upstream == name && model_id::same_model(listed, asked)
        })
    });
    match found {
        Some(model) => json_response(&ListedModel::new(model)),
        None => Err(ApiError::new(
            ApiErrorKind::NotFound,
            &format!("Model {id:?} not found. GET /v1/models lists the available models."),
        )),
    }
}

async fn available_models(shared: &Arc<GatewayState>, holder: &LeaseHolder) -> Vec<AvailableModel> {
    // All lists are fetched only here, where a client waits for them, and not while a message is forwarded.
    let offers = shared.fetch_models().await;
    offers.known_models(holder.upstream_scope())
}

fn json_response(value: &impl Serialize) -> Result<Response<ResponseBody>, ApiError> {
    let body = serde_json::to_vec(value)
        .map_err(|error| ApiError::new(ApiErrorKind::Api, &format!("Failed to serialize the model list: {error}.")))?;
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body))));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
