use std::borrow::Cow;

use ahp_types::actions::ActionEnvelope;
use ahp_types::messages::JsonRpcError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ClientError;

/// Something that the host said of its own accord.
#[derive(Debug)]
pub(crate) enum Event {
    /// An action, as typed and as sent.
    Envelope { envelope: Box<ActionEnvelope>, raw: Box<RawValue> },
    /// A session is gone, by its URI.
    SessionRemoved(String),
    /// The connection ended; nothing follows.
    Closed(ClientError),
}

/// A frame, sorted by what it asks of us.
#[derive(Debug)]
pub(super) enum Incoming {
    Event(Event),
    Answer {
        id: u64,
        result: Result<Box<RawValue>, JsonRpcError>,
    },
    /// The host asks us something. We offer nothing, but nothing stays unanswered.
    Request {
        id: Box<RawValue>,
    },
    /// Nobody here asks for it: a host that has just begun tells of every session that it finds, thousands maybe.
    Unasked,
    /// Not understood, and skipped.
    Unknown,
}

/// Every JSON-RPC shape at once: which one it is shows by the fields.
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
struct Removed {
    session: String,
}

pub(super) fn read(text: &str) -> Incoming {
    let Ok(frame) = serde_json::from_str::<Frame<'_>>(text) else {
        return Incoming::Unknown;
    };
    match (frame.method, frame.id) {
        (Some(_), Some(id)) => Incoming::Request { id: id.to_owned() },
        (Some(method), None) => {
            let params = frame.params.map_or("null", RawValue::get);
            match &*method {
                "action" => serde_json::from_str(params).map_or(Incoming::Unknown, |envelope| {
                    let raw = frame.params.map_or_else(null, ToOwned::to_owned);
                    Incoming::Event(Event::Envelope { envelope: Box::new(envelope), raw })
                }),
                "root/sessionRemoved" => serde_json::from_str(params)
                    .map_or(Incoming::Unknown, |Removed { session }| Incoming::Event(Event::SessionRemoved(session))),
                _ => Incoming::Unasked,
            }
        }
        (None, Some(id)) => match (id.get().parse(), frame.error) {
            (Err(_), _) => Incoming::Unknown,
            (Ok(id), Some(error)) => Incoming::Answer { id, result: Err(error) },
            // `"result": null` and a missing result look the same, and mean the same.
            (Ok(id), None) => Incoming::Answer { id, result: Ok(frame.result.map_or_else(null, ToOwned::to_owned)) },
        },
        (None, None) => Incoming::Unknown,
    }
}

#[derive(Serialize)]
struct Outgoing<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a RawValue,
}

pub(super) fn request(id: u64, method: &'static str, params: &RawValue) -> Result<String, ClientError> {
    text(method, &Outgoing { jsonrpc: "2.0", id: Some(id), method, params })
}

pub(super) fn notification(method: &'static str, params: &impl Serialize) -> Result<String, ClientError> {
    let params = raw(method, params)?;
    text(method, &Outgoing { jsonrpc: "2.0", id: None, method, params: &params })
}

/// The answer to whatever the host asks of this client.
pub(super) fn refusal(id: &RawValue) -> String {
    let id = id.get();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"This client answers no requests."}}}}"#)
}

pub(super) fn raw(method: &'static str, params: &impl Serialize) -> Result<Box<RawValue>, ClientError> {
    serde_json::value::to_raw_value(params).map_err(|error| unsendable(method, &error))
}

fn text(method: &'static str, frame: &impl Serialize) -> Result<String, ClientError> {
    serde_json::to_string(frame).map_err(|error| unsendable(method, &error))
}

fn unsendable(method: &'static str, error: &serde_json::Error) -> ClientError {
    ClientError::Unexpected { method, reason: format!("it cannot be written: {error}") }
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_result_is_an_answer() {
        let Incoming::Answer { id: 7, result: Ok(result) } = read(r#"{"jsonrpc":"2.0","id":7,"result":null}"#) else {
            panic!("not an answer");
        };
        assert_eq!(result.get(), "null");
    }

    #[test]
    fn an_error_is_an_answer() {
        let text = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no such session"}}"#;
        let Incoming::Answer { id: 7, result: Err(error) } = read(text) else { panic!("not an answer") };
        assert_eq!((error.code, error.message.as_str()), (-32001, "no such session"));
    }

    #[test]
    fn a_request_of_the_host_is_refused_under_its_own_id() {
        let Incoming::Request { id } = read(r#"{"jsonrpc":"2.0","id":"a\"b","method":"resourceRead"}"#) else {
            panic!("not a request");
        };
        let answer: serde_json::Value = serde_json::from_str(&refusal(&id)).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&"a\"b".into(), &(-32601).into()));
    }

    #[test]
    fn an_action_of_the_future_is_an_envelope_all_the_same() {
        let text = r#"{"jsonrpc":"2.0","method":"action","params":{"channel":"c","serverSeq":4,"action":{"type":"chat/sung","tune":1}}}"#;
        let Incoming::Event(Event::Envelope { envelope, raw }) = read(text) else { panic!("not an envelope") };
        assert_eq!(envelope.server_seq, 4);
        assert!(raw.get().contains("tune"));
    }

    #[test]
    fn noise_is_skipped() {
        for text in ["", "{}", "[]", r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#, r#"{"id":"x"}"#] {
            assert!(matches!(read(text), Incoming::Unknown), "{text}");
        }
    }
}
