//! Frames: JSON text that is written to the socket as it is. Envelopes are encoded once and shared by all subscribers.

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::notifications::{SessionAddedParams, SessionRemovedParams, SessionSummaryChangedParams};
use ahp_types::state::Snapshot;
use bytes::Bytes;
use hostler_engine::{NoticeKind, Published, SnapshotAt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::rpc::{RequestId, RpcError};

/// A frame's text.
pub(crate) type Frame = Bytes;

/// The `action` notification of an envelope. The action itself is JSON already.
pub(crate) fn envelope(item: &Published) -> Frame {
    let mut text = String::with_capacity(item.action_json.len() + item.channel.len() + 160);
    text.push_str(r#"{"jsonrpc":"2.0","method":"action","params":"#);
    push_envelope(&mut text, item);
    text.push('}');
    Bytes::from(text)
}

/// The answer to `reconnect` with everything that was missed.
pub(crate) fn replay(id: &RequestId, missed: &[std::sync::Arc<Published>], missing: &[String]) -> Frame {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"type":"replay","actions":["#);
    for (index, item) in missed.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        push_envelope(&mut text, item);
    }
    text.push_str(r#"],"missing":"#);
    text.push_str(&Value::from(missing).to_string());
    text.push_str("}}");
    Bytes::from(text)
}

fn push_envelope(text: &mut String, item: &Published) {
    use std::fmt::Write as _;
    text.push_str(r#"{"channel":"#);
    text.push_str(&string(&item.channel));
    text.push_str(r#","action":"#);
    text.push_str(&item.action_json);
    // Writing to a String cannot fail.
    let _ = write!(text, r#","serverSeq":{}"#, item.seq);
    if let Some(origin) = &item.origin {
        let id = string(&origin.client_id);
        let _ = write!(text, r#","origin":{{"clientId":{id},"clientSeq":{}}}"#, origin.client_seq);
    }
    if let Some(reason) = &item.rejection {
        let _ = write!(text, r#","rejectionReason":{}"#, string(reason));
    }
    text.push('}');
}

/// A catalogue notification.
pub(crate) fn notice(kind: &NoticeKind) -> Frame {
    let channel = ROOT_RESOURCE_URI.to_owned();
    match kind {
        NoticeKind::SessionAdded(summary) => {
            let summary = (**summary).clone();
            notification("root/sessionAdded", &SessionAddedParams { channel, summary })
        }
        NoticeKind::SessionRemoved(session) => {
            let session = session.to_string();
            notification("root/sessionRemoved", &SessionRemovedParams { channel, session })
        }
        NoticeKind::SessionSummaryChanged { session, changes } => {
            let (session, changes) = (session.to_string(), (**changes).clone());
            notification("root/sessionSummaryChanged", &SessionSummaryChangedParams { channel, session, changes })
        }
    }
}

/// The answer to a request.
pub(crate) fn answer(id: &RequestId, result: Result<Value, RpcError>) -> Frame {
    match result {
        Ok(result) => success(id, &result),
        Err(error) => {
            let mut body = json!({"code": error.code, "message": error.message});
            if let (Some(data), Some(body)) = (error.data, body.as_object_mut()) {
                body.insert("data".to_owned(), data);
            }
            to_frame(&json!({"jsonrpc": "2.0", "id": id, "error": body}))
        }
    }
}

/// A successful answer.
pub(crate) fn success(id: &RequestId, result: &impl Serialize) -> Frame {
    #[derive(Serialize)]
    struct Answer<'a, T> {
        jsonrpc: &'static str,
        id: &'a Value,
        result: &'a T,
    }
    to_frame(&Answer { jsonrpc: "2.0", id, result })
}

/// A snapshot as the wire has it. The state is shared with the session until somebody changes it.
pub(crate) fn snapshot(snapshot: SnapshotAt) -> Snapshot {
    let from_seq = i64::try_from(snapshot.from_seq).unwrap_or(i64::MAX);
    Snapshot { resource: snapshot.resource.to_string(), state: snapshot.state.into(), from_seq }
}

fn notification(method: &'static str, params: &impl Serialize) -> Frame {
    #[derive(Serialize)]
    struct Notification<'a, T> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a T,
    }
    to_frame(&Notification { jsonrpc: "2.0", method, params })
}

fn to_frame(value: &impl Serialize) -> Frame {
    match serde_json::to_vec(value) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) => {
            tracing::error!(%error, "a message could not be encoded");
            Bytes::from_static(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}"#)
        }
    }
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}
