//! Parses frames from the host into answers, events and requests.

use std::borrow::Cow;

use ahp_types::actions::ActionEnvelope;
use ahp_types::messages::JsonRpcError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ClientError;

/// Notification from the host.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// Action, parsed and as sent.
    Envelope { envelope: Box<ActionEnvelope>, raw: Box<RawValue> },
    /// A session was removed; its URI.
    SessionRemoved(String),
    /// The connection ended; nothing follows.
    Closed(ClientError),
}

/// Parsed frame, by kind.
#[derive(Debug)]
pub(super) enum IncomingFrame {
    Event(HostEvent),
    Answer {
        id: u64,
        result: Result<Box<RawValue>, JsonRpcError>,
    },
    /// Request of the host. This client offers no methods, but every request is answered.
    Request {
        id: Box<RawValue>,
    },
    /// Notification that this client does not use: a host that has just started announces every session that it
    /// lists, possibly thousands.
    Ignored,
    /// Frame that was not understood and is skipped.
    Unrecognized,
}

/// Union of all JSON-RPC shapes: the present fields determine which one it is.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<JsonRpcError>,
}

#[derive(Deserialize)]
struct RemovedSessionParams {
    session: String,
}

/// Metadata of a rejected action's envelope.
#[derive(Deserialize)]
struct RejectionEnvelope {
    #[serde(rename = "_meta")]
    meta: RejectionMeta,
}

#[derive(Deserialize)]
struct RejectionMeta {
    hostler: RejectionDetails,
}

#[derive(Deserialize)]
struct RejectionDetails {
    code: String,
}

/// Returns the code of a rejection, if the envelope carries one.
pub(crate) fn rejection_code(raw: &RawValue) -> Option<String> {
    serde_json::from_str::<RejectionEnvelope>(raw.get()).ok().map(|envelope| envelope.meta.hostler.code)
}

pub(super) fn parse_frame(text: &str) -> IncomingFrame {
    let Ok(frame) = serde_json::from_str::<Frame<'_>>(text) else {
        return IncomingFrame::Unrecognized;
    };
    match (frame.method, frame.id) {
        (Some(_), Some(id)) => IncomingFrame::Request { id: id.to_owned() },
        (Some(method), None) => {
            let params = frame.params.map_or("null", RawValue::get);
            match &*method {
                "action" => serde_json::from_str(params).map_or(IncomingFrame::Unrecognized, |envelope| {
                    let raw = frame.params.map_or_else(null_value, ToOwned::to_owned);
                    IncomingFrame::Event(HostEvent::Envelope { envelope: Box::new(envelope), raw })
                }),
                "root/sessionRemoved" => serde_json::from_str(params)
                    .map_or(IncomingFrame::Unrecognized, |RemovedSessionParams { session }| {
                        IncomingFrame::Event(HostEvent::SessionRemoved(session))
                    }),
                _ => IncomingFrame::Ignored,
            }
        }
        (None, Some(id)) => match (id.get().parse(), frame.error) {
            (Err(_), _) => IncomingFrame::Unrecognized,
            (Ok(id), Some(error)) => IncomingFrame::Answer { id, result: Err(error) },
            // `"result": null` and a missing result deserialize alike and mean the same.
            (Ok(id), None) => {
                IncomingFrame::Answer { id, result: Ok(frame.result.map_or_else(null_value, ToOwned::to_owned)) }
            }
        },
        (None, None) => IncomingFrame::Unrecognized,
    }
}

#[derive(Serialize)]
struct OutgoingFrame<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a RawValue,
}

pub(super) fn encode_request(id: u64, method: &'static str, params: &RawValue) -> Result<String, ClientError> {
    encode_frame(method, &OutgoingFrame { jsonrpc: "2.0", id: Some(id), method, params })
}

pub(super) fn encode_notification(method: &'static str, params: &impl Serialize) -> Result<String, ClientError> {
    let params = encode_params(method, params)?;
    encode_frame(method, &OutgoingFrame { jsonrpc: "2.0", id: None, method, params: &params })
}

/// Returns the answer to any request of the host.
pub(super) fn method_not_found_response(id: &RawValue) -> String {
    let id = id.get();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"This client does not answer requests."}}}}"#
    )
}

pub(super) fn encode_params(method: &'static str, params: &impl Serialize) -> Result<Box<RawValue>, ClientError> {
    serde_json::value::to_raw_value(params).map_err(|error| encoding_error(method, &error))
}

fn encode_frame(method: &'static str, frame: &impl Serialize) -> Result<String, ClientError> {
    serde_json::to_string(frame).map_err(|error| encoding_error(method, &error))
}

fn encoding_error(method: &'static str, error: &serde_json::Error) -> ClientError {
    ClientError::UnexpectedResponse { method, reason: format!("failed to encode the request: {error}") }
}

fn null_value() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_result_is_a_response() {
        let IncomingFrame::Answer { id: 7, result: Ok(result) } =
            parse_frame(r#"{"jsonrpc":"2.0","id":7,"result":null}"#)
        else {
            panic!("not an answer");
        };
        assert_eq!(result.get(), "null");
    }

    #[test]
    fn error_is_a_response() {
        let text = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no such session"}}"#;
        let IncomingFrame::Answer { id: 7, result: Err(error) } = parse_frame(text) else { panic!("not an answer") };
        assert_eq!((error.code, error.message.as_str()), (-32001, "no such session"));
    }

    #[test]
    fn rejection_code_is_read_from_the_envelopes_metadata() {
        let code = |text: &str| rejection_code(&RawValue::from_string(text.to_owned()).unwrap());
        let rejected = r#"{"channel":"c","rejectionReason":"no","_meta":{"hostler":{"code":"turnActive","more":1}}}"#;
        assert_eq!(code(rejected).as_deref(), Some("turnActive"));
        for text in [r#"{"channel":"c"}"#, r#"{"_meta":{"hostler":{}}}"#, r#"{"_meta":{"hostler":{"code":5}}}"#] {
            assert_eq!(code(text), None, "{text}");
        }
    }

    #[test]
    fn error_response_code_is_read_from_its_data() {
        let code = |data: serde_json::Value| {
            let error = JsonRpcError { code: -32_001, message: "no".to_owned(), data: Some(data) };
            ClientError::from(error).code().to_owned()
        };
        assert_eq!(code(serde_json::json!({ "code": "sessionNotFound" })), "sessionNotFound");
        assert_eq!(code(serde_json::json!({ "code": 5 })), "protocolError");
        assert_eq!(code(serde_json::json!("text")), "protocolError");
    }

    #[test]
    fn host_request_is_refused_with_its_own_id() {
        let IncomingFrame::Request { id } = parse_frame(r#"{"jsonrpc":"2.0","id":"a\"b","method":"resourceRead"}"#)
        else {
            panic!("not a request");
        };
        let answer: serde_json::Value = serde_json::from_str(&method_not_found_response(&id)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&"a\"b".into(), &(-32601).into()));
    }

    #[test]
    fn unknown_action_is_still_an_envelope() {
        let text = r#"{"jsonrpc":"2.0","method":"action","params":{"channel":"c","serverSeq":4,"action":{"type":"chat/sung","tune":1}}}"#;
        let IncomingFrame::Event(HostEvent::Envelope { envelope, raw }) = parse_frame(text) else {
            panic!("not an envelope")
        };
        assert_eq!(envelope.server_seq, 4);
        assert!(raw.get().contains("tune"));
    }

    #[test]
    fn unrecognized_frames_are_skipped() {
        for text in ["", "{}", "[]", r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#, r#"{"id":"x"}"#] {
            assert!(matches!(parse_frame(text), IncomingFrame::Unrecognized), "{text}");
        }
    }
}
