//! Encodes frames: JSON text that is written to the socket unchanged. An envelope is encoded once and shared by all
//! subscribers.

use std::sync::Arc;

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::notifications::{
    AuthRequiredParams, AuthRequiredReason, OtlpExportLogsParams, ProgressParams, SessionAddedParams,
    SessionRemovedParams, SessionSummaryChangedParams,
};
use ahp_types::state::{Snapshot, SnapshotState};
use bytes::Bytes;
use hostler_engine::{ChannelSnapshot, HostNotificationKind, PublishedAction, PublishedRejection, SessionPage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::notifications;
use crate::protocol_version::ProtocolVersion;
use crate::rpc::{JsonRpcId, RpcError};
use crate::ws::{FrameEncoding, MessageBuilder};

/// Text of a frame.
pub(crate) type Frame = Bytes;

/// A long message yields to other tasks after this many bytes.
const MAX_UNYIELDED_BYTES: usize = 1024 * 1024;

/// Whether clients of a version receive an envelope: they know the action, or the envelope answers the client that
/// dispatched it.
fn is_visible_to(version: &ProtocolVersion, item: &PublishedAction) -> bool {
    item.rejection.is_some() || version.supports_action(&item.action)
}

/// The wire frame of an envelope, made once and shared by all connections with the same version and encoding. `None` if
/// clients of the version do not receive it.
pub(crate) fn shared_envelope_frame(
    version: &ProtocolVersion,
    encoding: FrameEncoding,
    item: &PublishedAction,
) -> Option<Frame> {
    let encoding = encoding.for_length(item.action_json.len());
    let slot = version.cache_slot() * FrameEncoding::COUNT + encoding.cache_slot();
    // "No frame" is cached too, as an empty one.
    let frame = item.cached_frame(slot, |item| match is_visible_to(version, item) {
        true => encoding.frame(&envelope(item)),
        false => Frame::new(),
    });
    Some(frame).filter(|frame| !frame.is_empty())
}

/// The `action` notification of an envelope. The action itself is JSON already.
fn envelope(item: &PublishedAction) -> Frame {
    let mut text = String::with_capacity(item.action_json.len() + item.channel.len() + 160);
    text.push_str(r#"{"jsonrpc":"2.0","method":"action","params":"#);
    push_envelope(&mut text, item);
    text.push('}');
    Bytes::from(text)
}

/// The answer to `reconnect`, with all missed envelopes.
pub(crate) fn replay(
    id: &JsonRpcId,
    version: &ProtocolVersion,
    missed: &[Arc<PublishedAction>],
    missing: &[String],
) -> Frame {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"type":"replay","actions":["#);
    for (index, item) in missed.iter().filter(|item| is_visible_to(version, item)).enumerate() {
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

/// The answer to `listSessions`. The rows are JSON already.
pub(crate) fn sessions(id: &JsonRpcId, page: &SessionPage) -> Frame {
    let size: usize = page.items.iter().map(|line| line.len() + 1).sum();
    let mut text = String::with_capacity(size + 256);
    text.push_str(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"items":["#));
    for (index, line) in page.items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(line);
    }
    text.push(']');
    if let Some(cursor) = &page.next_cursor {
        text.push_str(r#","nextCursor":"#);
        text.push_str(&quote(cursor));
    }
    text.push_str("}}");
    Bytes::from(text)
}

fn push_envelope(text: &mut String, item: &PublishedAction) {
    use std::fmt::Write as _;
    text.push_str(r#"{"channel":"#);
    text.push_str(&quote(&item.channel));
    text.push_str(r#","action":"#);
    text.push_str(&item.action_json);
    // Writing to a String cannot fail.
    let _ = write!(text, r#","serverSeq":{}"#, item.seq);
    if let Some(origin) = &item.origin {
        let id = quote(&origin.client_id);
        let _ = write!(text, r#","origin":{{"clientId":{id},"clientSeq":{}}}"#, origin.client_seq);
    }
    if let Some(PublishedRejection { code, message }) = &item.rejection {
        let (reason, code) = (quote(message), quote(code));
        let _ = write!(text, r#","rejectionReason":{reason},"_meta":{{"hostler":{{"code":{code}}}}}"#);
    }
    text.push('}');
}

/// A notification about the session list.
pub(crate) fn notice(kind: &HostNotificationKind) -> Frame {
    let method = notifications::row_for(kind).name;
    let channel = ROOT_RESOURCE_URI.to_owned();
    match kind {
        HostNotificationKind::SignInExpired(resource) => {
            let (resource, reason) = ((**resource).clone(), Some(AuthRequiredReason::Expired));
            notification(method, &AuthRequiredParams { channel, resource, reason })
        }
        HostNotificationKind::Progress(step) => {
            let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let (progress_token, message) = (step.token.clone(), Some(step.message.clone()));
            let (progress, total) = (number(step.done), step.total.map(number));
            notification(method, &ProgressParams { channel, progress_token, progress, total, message })
        }
        HostNotificationKind::SessionAdded(summary) => {
            let summary = (**summary).clone();
            notification(method, &SessionAddedParams { channel, summary })
        }
        HostNotificationKind::SessionRemoved(session) => {
            let session = session.to_string();
            notification(method, &SessionRemovedParams { channel, session })
        }
        HostNotificationKind::SessionSummaryChanged { session, changes } => {
            let (session, changes) = (session.to_string(), (**changes).clone());
            notification(method, &SessionSummaryChangedParams { channel, session, changes })
        }
    }
}

/// Log records.
pub(crate) fn logs(params: &OtlpExportLogsParams) -> Frame {
    notification(notifications::EXPORT_LOGS.name, params)
}

/// The answer to a request.
pub(crate) fn answer(id: &JsonRpcId, result: Result<Value, RpcError>) -> Frame {
    match result {
        Ok(result) => success(id, &result),
        Err(error) => to_frame(&json!({"jsonrpc": "2.0", "id": id, "error": error.into_json()})),
    }
}

/// A host-to-client request.
pub(crate) fn request(id: u64, method: &'static str, params: &impl Serialize) -> Frame {
    #[derive(Serialize)]
    struct Request<'a, T> {
        jsonrpc: &'static str,
        id: u64,
        method: &'static str,
        params: &'a T,
    }
    to_frame(&Request { jsonrpc: "2.0", id, method, params })
}

/// A successful answer.
pub(crate) fn success(id: &JsonRpcId, result: &impl Serialize) -> Frame {
    #[derive(Serialize)]
    struct Answer<'a, T> {
        jsonrpc: &'static str,
        id: &'a Value,
        result: &'a T,
    }
    to_frame(&Answer { jsonrpc: "2.0", id, result })
}

/// Writes a message that can become long, in pieces, into the space behind the frame headers.
pub(crate) struct AnswerWriter {
    message: MessageBuilder,
}

impl AnswerWriter {
    /// Starts the result of an answer.
    pub(crate) fn begin_result(id: &JsonRpcId) -> Self {
        let mut long = Self { message: MessageBuilder::new() };
        long.push(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#));
        long
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.message.push(text.as_bytes());
    }

    fn push_json(&mut self, value: &impl Serialize) -> Result<(), RpcError> {
        let written = self.message.push_with(|bytes| serde_json::to_writer(bytes, value));
        written.map_err(|error| encoding_error(&error))
    }

    /// Writes an object's members and leaves it open for more.
    fn open_object(&mut self, members: Value) -> Result<(), RpcError> {
        self.push_json(&members)?;
        self.message.pop();
        if members.as_object().is_some_and(|members| !members.is_empty()) {
            self.push(",");
        }
        Ok(())
    }

    /// Writes a snapshot in wire format. Turns that were read from the store are written as stored.
    ///
    /// # Errors
    /// If the state cannot be encoded; nothing is written then.
    pub(crate) async fn write_snapshot(
        &mut self,
        version: &ProtocolVersion,
        snapshot: ChannelSnapshot,
    ) -> Result<(), RpcError> {
        let before = self.message.mark();
        let written = self.try_write_snapshot(version, snapshot).await;
        if written.is_err() {
            self.message.rewind(before);
        }
        written
    }

    async fn try_write_snapshot(
        &mut self,
        version: &ProtocolVersion,
        snapshot: ChannelSnapshot,
    ) -> Result<(), RpcError> {
        let ChannelSnapshot { resource, state, older_turns: older, from_seq } = snapshot;
        let state = version.downgrade_state(state.into());
        let (mut chat, older) = match (state, older) {
            (SnapshotState::Chat(chat), Some(older)) => (chat, older),
            (state, _) => {
                let from_seq = i64::try_from(from_seq).unwrap_or(i64::MAX);
                return self.push_json(&Snapshot { resource: resource.to_string(), state, from_seq });
            }
        };
        let turns = std::mem::take(&mut chat.turns);
        let mut members = to_value(&chat)?;
        if let Some(members) = members.as_object_mut() {
            members.remove("turns");
        }
        self.push(&format!(r#"{{"resource":{},"fromSeq":{from_seq},"state":"#, quote(&resource)));
        self.open_object(members)?;
        self.push(r#""turns":["#);
        let mut first = true;
        let mut unyielded_bytes = 0;
        for turn in older {
            self.push(if std::mem::take(&mut first) { "" } else { "," });
            self.push(&turn);
            unyielded_bytes += turn.len();
            // Other tasks of this thread continue while a long chat is written.
            if unyielded_bytes > MAX_UNYIELDED_BYTES {
                unyielded_bytes = 0;
                tokio::task::yield_now().await;
            }
        }
        for turn in turns {
            self.push(if std::mem::take(&mut first) { "" } else { "," });
            self.push_json(&turn)?;
        }
        self.push("]}}");
        Ok(())
    }

    /// Writes a result that contains snapshots. Channels that no longer exist are omitted.
    pub(crate) async fn write_result_with_snapshots(
        &mut self,
        members: &impl Serialize,
        version: &ProtocolVersion,
        snapshots: Vec<ChannelSnapshot>,
    ) -> Result<(), RpcError> {
        let mut members = to_value(members)?;
        if let Some(members) = members.as_object_mut() {
            members.remove("snapshots");
        }
        self.open_object(members)?;
        self.push(r#""snapshots":["#);
        let mut first = true;
        for snapshot in snapshots {
            let before = self.message.mark();
            self.push(if first { "" } else { "," });
            match self.write_snapshot(version, snapshot).await {
                Ok(()) => first = false,
                Err(error) => {
                    tracing::debug!(error = error.message, "snapshot omitted from the answer");
                    self.message.rewind(before);
                }
            }
        }
        self.push("]}");
        Ok(())
    }

    /// The frame of the finished answer.
    pub(crate) fn finish(mut self, encoding: FrameEncoding) -> Frame {
        self.push("}");
        self.message.finish(encoding)
    }
}

/// Converts a state to JSON by way of its text. States are large types, and a conversion without text would compile
/// their code once more for another serializer.
fn to_value(state: &impl Serialize) -> Result<Value, RpcError> {
    let value = serde_json::to_vec(state).and_then(|text| serde_json::from_slice(&text));
    value.map_err(|error| encoding_error(&error))
}

fn encoding_error(error: &serde_json::Error) -> RpcError {
    RpcError::new(-32603, format!("failed to encode the answer: {error}"))
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
            tracing::error!(%error, "failed to encode a message");
            Bytes::from_static(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error","data":{"code":"internalError"}}}"#)
        }
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol_version::negotiate;
    use ahp_types::ActionEnvelope;

    fn published(seq: u64, action: &Value) -> Arc<PublishedAction> {
        let json: Arc<str> = action.to_string().into();
        Arc::new(PublishedAction::from_journal(
            seq,
            "ahp-chat:/c".into(),
            serde_json::from_value(action.clone()).unwrap(),
            json,
            None,
        ))
    }

    #[test]
    fn rejected_envelope_has_reason_and_code() {
        let read = published(7, &json!({"type": "chat/isReadChanged", "isRead": true}));
        let mut item = Arc::into_inner(read).unwrap();
        let accepted: Value = serde_json::from_slice(&envelope(&item)).unwrap();
        assert!(accepted["params"].get("rejectionReason").is_none() && accepted["params"].get("_meta").is_none());
        item.rejection = Some(PublishedRejection { code: "queueFull", message: "the \"queue\" is full".to_owned() });
        let version = negotiate(&["1.0.0".to_owned()]).unwrap();
        let replayed: Value = serde_json::from_slice(&replay(&json!(1), &version, &[Arc::new(item)], &[])).unwrap();
        let rejected = &replayed["result"]["actions"][0];
        assert_eq!(rejected["rejectionReason"], "the \"queue\" is full");
        assert_eq!(rejected["_meta"], json!({"hostler": {"code": "queueFull"}}));
        let decoded: ActionEnvelope = serde_json::from_value(rejected.clone()).unwrap();
        assert_eq!((decoded.server_seq, decoded.rejection_reason.as_deref()), (7, Some("the \"queue\" is full")));
    }

    #[test]
    fn clients_of_an_older_version_do_not_receive_newer_actions() {
        let version = |name: &str| negotiate(&[name.to_owned()]).unwrap();
        let (old, new) = (version("0.9.0"), version("1.0.0"));
        let canvases = published(1, &json!({"type": "chat/canvasesChanged", "canvases": []}));
        let read = published(2, &json!({"type": "chat/isReadChanged", "isRead": true}));
        // Twice: the second pass uses the cache.
        for _ in 0..2 {
            for encoding in [FrameEncoding::Plain, FrameEncoding::Deflated] {
                assert!(shared_envelope_frame(&old, encoding, &canvases).is_none());
                assert!(shared_envelope_frame(&new, encoding, &canvases).is_some());
                assert_eq!(shared_envelope_frame(&old, encoding, &read), shared_envelope_frame(&new, encoding, &read));
            }
        }
        let replayed = |version: &ProtocolVersion| -> Vec<Value> {
            let frame = replay(&json!(1), version, &[Arc::clone(&canvases), Arc::clone(&read)], &[]);
            let answer: Value = serde_json::from_slice(&frame).unwrap();
            answer["result"]["actions"].as_array().unwrap().iter().map(|item| item["serverSeq"].clone()).collect()
        };
        assert_eq!(replayed(&old), [2]);
        assert_eq!(replayed(&new), [1, 2]);
    }
}
