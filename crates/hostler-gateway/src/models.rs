//! `GET /v1/models` and `GET /v1/models/{id}`: the merged catalogue in the shape of the Messages API.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{Either, Full};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::catalogue::Model;
use crate::error::{ApiError, ErrorKind};
use crate::gateway::Shared;
use crate::lease::Holder;
use crate::model_id;
use crate::relay::ResponseBody;
use crate::upstreams;

/// The page that holds them all.
#[derive(Serialize)]
struct Page<'a> {
    data: Vec<Listed<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// No upstream's list has it in common; clients require it.
    created_at: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

impl<'a> Listed<'a> {
    fn new(model: &'a Model) -> Self {
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

/// All models.
pub(crate) async fn list(shared: &Arc<Shared>, holder: &Holder) -> Result<Response<ResponseBody>, ApiError> {
    let models = known(shared, holder).await;
    let page = Page {
        has_more: false,
        first_id: models.first().map(|model| model.id.as_str()),
        last_id: models.last().map(|model| model.id.as_str()),
        data: models.iter().map(Listed::new).collect(),
    };
    json(&page)
}

/// One of them, by an id of any form.
pub(crate) async fn one(shared: &Arc<Shared>, holder: &Holder, id: &str) -> Result<Response<ResponseBody>, ApiError> {
    let id = percent_decode_str(id).decode_utf8_lossy();
    let id = id.as_ref();
    let models = known(shared, holder).await;
    let found = models.iter().find(|model| model.id == id).or_else(|| {
        let (name, asked) = upstreams::split(id).unwrap_or(("", id));
        models.iter().find(|model| {
            let (upstream, listed) = upstreams::split(&model.id).unwrap_or(("", &model.id));
            upstream == name && model_id::same_model(listed, asked)
        })
    });
    match found {
        Some(model) => json(&Listed::new(model)),
        None => Err(ApiError::new(ErrorKind::NotFound, &format!("There is no model {id:?}; see /v1/models."))),
    }
}

async fn known(shared: &Arc<Shared>, holder: &Holder) -> Vec<Model> {
    // The lists are asked for here, where a client waits for them, and nowhere on the way of a message.
    let offers = shared.fetch_models().await;
    offers.known_models(holder.reach())
}

fn json(value: &impl Serialize) -> Result<Response<ResponseBody>, ApiError> {
    let body = serde_json::to_vec(value)
        .map_err(|error| ApiError::new(ErrorKind::Api, &format!("The list could not be written: {error}.")))?;
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body))));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
