//! Lenient parsing of parameters: existing clients omit members.

use ahp_types::{ROOT_RESOURCE_URI, StateAction};
use hostler_engine::{AttachmentContents, Dispatch, DispatchFacts};
use hostler_redact::redact_json_error;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::rpc::RpcError;

/// Parses a method's parameters. A missing channel is the root channel, as VS Code intends it.
pub(crate) fn params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let mut object = match params {
        Value::Object(object) => object,
        Value::Null => Map::new(),
        _ => return Err(RpcError::invalid_params("params must be an object")),
    };
    object.entry("channel").or_insert_with(|| ROOT_RESOURCE_URI.into());
    round_numbers(&mut object, &["cols", "rows", "expiresIn"]);
    serde_json::from_value(Value::Object(object))
        .map_err(|error| RpcError::invalid_params(format!("invalid parameters: {}", redact_json_error(&error))))
}

/// Parses a dispatch; `None` if it lacks what an answer needs.
pub(crate) fn dispatch(params: Value, client_id: &str) -> Option<(Dispatch, String)> {
    let Value::Object(mut params) = params else { return None };
    let Some(Value::String(channel)) = params.remove("channel") else { return None };
    let client_seq = to_integer(params.get("clientSeq")?)?;
    let mut action = params.remove("action")?;
    let name = action.get("type")?.as_str()?.to_owned();
    if let Value::Object(action) = &mut action {
        round_numbers(action, &["duration", "cols", "rows"]);
    }
    let action: StateAction = serde_json::from_value(action).ok()?;
    let client_id = client_id.to_owned();
    Some((
        Dispatch {
            client_id,
            client_seq,
            channel,
            action,
            subscriber: None,
            attachment_contents: AttachmentContents::default(),
            facts: DispatchFacts::default(),
        },
        name,
    ))
}

/// The protocol's types reject fractions, but clients may send them.
fn round_numbers(object: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(number) = object.get_mut(*name)
            && let Some(rounded) = to_integer(number)
        {
            *number = rounded.into();
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended; huge values saturate")]
fn to_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|number| number.round() as i64))
}
