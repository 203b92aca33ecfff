//! Frames: JSON text that is written to the socket as it is. Envelopes are encoded once and shared by all subscribers.

use std::sync::Arc;

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::notifications::{
    AuthRequiredParams, AuthRequiredReason, OtlpExportLogsParams, ProgressParams, SessionAddedParams,
    SessionRemovedParams, SessionSummaryChangedParams,
};
use ahp_types::state::{Snapshot, SnapshotState};
use bytes::Bytes;
use hostler_engine::{NoticeKind, Published, SessionPage, SnapshotAt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::notifications;
use crate::rpc::{RequestId, RpcError};
use crate::version::Version;
use crate::ws::{Encoding, Room};

/// A frame's text.
pub(crate) type Frame = Bytes;

/// Whether clients of a version are sent an envelope: if they know the action, or if it is the answer to one who said it
/// nevertheless.
fn is_for(version: &Version, item: &Published) -> bool {
    item.rejection.is_some() || version.knows_action(&item.action)
}

/// The wire frame of an envelope, made once and shared by all connections that speak alike. `None` if it is not for clients
/// of the version.
pub(crate) fn shared(version: &Version, encoding: Encoding, item: &Published) -> Option<Frame> {
    let encoding = encoding.for_length(item.action_json.len());
    let slot = version.slot() * Encoding::COUNT + encoding.slot();
    // No frame is remembered like any other, as an empty one.
    let frame = item.frame(slot, |item| match is_for(version, item) {
        true => encoding.frame(&envelope(item)),
        false => Frame::new(),
    });
    Some(frame).filter(|frame| !frame.is_empty())
}

/// The `action` notification of an envelope. The action itself is JSON already.
fn envelope(item: &Published) -> Frame {
    let mut text = String::with_capacity(item.action_json.len() + item.channel.len() + 160);
    text.push_str(r#"{"jsonrpc":"2.0","method":"action","params":"#);
    push_envelope(&mut text, item);
    text.push('}');
    Bytes::from(text)
}

/// The answer to `reconnect` with everything that was missed.
pub(crate) fn replay(id: &RequestId, version: &Version, missed: &[Arc<Published>], missing: &[String]) -> Frame {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"type":"replay","actions":["#);
    for (index, item) in missed.iter().filter(|item| is_for(version, item)).enumerate() {
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

/// The answer to `listSessions`. The lines are JSON already.
pub(crate) fn sessions(id: &RequestId, page: &SessionPage) -> Frame {
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
        text.push_str(&string(cursor));
    }
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
    let method = notifications::row(kind).name;
    let channel = ROOT_RESOURCE_URI.to_owned();
    match kind {
        NoticeKind::SignInOver(resource) => {
            let (resource, reason) = ((**resource).clone(), Some(AuthRequiredReason::Expired));
            notification(method, &AuthRequiredParams { channel, resource, reason })
        }
        NoticeKind::Progress(step) => {
            let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let (progress_token, message) = (step.token.clone(), Some(step.message.clone()));
            let (progress, total) = (number(step.done), step.total.map(number));
            notification(method, &ProgressParams { channel, progress_token, progress, total, message })
        }
        NoticeKind::SessionAdded(summary) => {
            let summary = (**summary).clone();
            notification(method, &SessionAddedParams { channel, summary })
        }
        NoticeKind::SessionRemoved(session) => {
            let session = session.to_string();
            notification(method, &SessionRemovedParams { channel, session })
        }
        NoticeKind::SessionSummaryChanged { session, changes } => {
            let (session, changes) = (session.to_string(), (**changes).clone());
            notification(method, &SessionSummaryChangedParams { channel, session, changes })
        }
    }
}

/// Lines of the log.
pub(crate) fn logs(params: &OtlpExportLogsParams) -> Frame {
    notification(notifications::EXPORT_LOGS.name, params)
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

/// A request of the host.
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
pub(crate) fn success(id: &RequestId, result: &impl Serialize) -> Frame {
    #[derive(Serialize)]
    struct Answer<'a, T> {
        jsonrpc: &'static str,
        id: &'a Value,
        result: &'a T,
    }
    to_frame(&Answer { jsonrpc: "2.0", id, result })
}

/// A message that may become long: it is written piece by piece, into the room behind the headers of its frames.
pub(crate) struct Long {
    text: Room,
}

impl Long {
    /// The beginning of an answer's result.
    pub(crate) fn result(id: &RequestId) -> Self {
        let mut long = Self { text: Room::new() };
        long.push(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#));
        long
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push(text.as_bytes());
    }

    fn push_json(&mut self, value: &impl Serialize) -> Result<(), RpcError> {
        serde_json::to_writer(&mut self.text, value).map_err(|error| internal(&error))
    }

    /// An object's members, with room for more behind them.
    fn open(&mut self, members: Value) -> Result<(), RpcError> {
        self.push_json(&members)?;
        self.text.pop();
        if members.as_object().is_some_and(|members| !members.is_empty()) {
            self.push(",");
        }
        Ok(())
    }

    /// A snapshot as the wire has it. Turns that are not in memory are read page by page and written as they were stored.
    ///
    /// # Errors
    /// If they cannot be read; then nothing was written.
    pub(crate) async fn snapshot(&mut self, version: &Version, snapshot: SnapshotAt) -> Result<(), RpcError> {
        let before = self.text.mark();
        let written = self.try_snapshot(version, snapshot).await;
        if written.is_err() {
            self.text.go_back(before);
        }
        written
    }

    async fn try_snapshot(&mut self, version: &Version, snapshot: SnapshotAt) -> Result<(), RpcError> {
        let SnapshotAt { resource, state, older, from_seq } = snapshot;
        let state = version.lower(state.into());
        let (mut chat, mut older) = match (state, older) {
            (SnapshotState::Chat(chat), Some(older)) => (chat, older),
            (state, _) => {
                let from_seq = i64::try_from(from_seq).unwrap_or(i64::MAX);
                return self.push_json(&Snapshot { resource: resource.to_string(), state, from_seq });
            }
        };
        let turns = std::mem::take(&mut chat.turns);
        let mut members = serde_json::to_value(&chat).map_err(|error| internal(&error))?;
        if let Some(members) = members.as_object_mut() {
            members.remove("turns");
        }
        self.push(&format!(r#"{{"resource":{},"fromSeq":{from_seq},"state":"#, string(&resource)));
        self.open(members)?;
        self.push(r#""turns":["#);
        let mut first = true;
        while let Some(page) = older.next_page().await? {
            for turn in page {
                self.push(if std::mem::take(&mut first) { "" } else { "," });
                self.push(&turn);
            }
        }
        for turn in turns {
            self.push(if std::mem::take(&mut first) { "" } else { "," });
            self.push_json(&turn)?;
        }
        self.push("]}}");
        Ok(())
    }

    /// An answer's result with snapshots among its members. Channels that are gone by now are left out.
    pub(crate) async fn with_snapshots(
        &mut self,
        members: &impl Serialize,
        version: &Version,
        snapshots: Vec<SnapshotAt>,
    ) -> Result<(), RpcError> {
        let mut members = serde_json::to_value(members).map_err(|error| internal(&error))?;
        if let Some(members) = members.as_object_mut() {
            members.remove("snapshots");
        }
        self.open(members)?;
        self.push(r#""snapshots":["#);
        let mut first = true;
        for snapshot in snapshots {
            let before = self.text.mark();
            self.push(if first { "" } else { "," });
            match self.snapshot(version, snapshot).await {
                Ok(()) => first = false,
                Err(error) => {
                    tracing::debug!(error = error.message, "a snapshot was left out");
                    self.text.go_back(before);
                }
            }
        }
        self.push("]}");
        Ok(())
    }

    /// The frame of the finished answer.
    pub(crate) fn finish(mut self, encoding: Encoding) -> Frame {
        self.push("}");
        self.text.finish(encoding)
    }
}

fn internal(error: &serde_json::Error) -> RpcError {
    RpcError::new(-32603, format!("the answer cannot be encoded: {error}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::negotiate;

    fn published(seq: u64, action: &Value) -> Arc<Published> {
        let json: Arc<str> = action.to_string().into();
        Arc::new(Published::stored(
            seq,
            "ahp-chat:/c".into(),
            serde_json::from_value(action.clone()).unwrap(),
            json,
            None,
        ))
    }

    #[test]
    fn clients_of_an_older_version_never_hear_of_newer_actions() {
        let version = |name: &str| negotiate(&[name.to_owned()]).unwrap();
        let (old, new) = (version("0.9.0"), version("1.0.0"));
        let canvases = published(1, &json!({"type": "chat/canvasesChanged", "canvases": []}));
        let read = published(2, &json!({"type": "chat/isReadChanged", "isRead": true}));
        // Twice: the second time comes from the cache.
        for _ in 0..2 {
            for encoding in [Encoding::Plain, Encoding::Deflated] {
                assert!(shared(&old, encoding, &canvases).is_none());
                assert!(shared(&new, encoding, &canvases).is_some());
                assert_eq!(shared(&old, encoding, &read), shared(&new, encoding, &read));
            }
        }
        let replayed = |version: &Version| -> Vec<Value> {
            let frame = replay(&json!(1), version, &[Arc::clone(&canvases), Arc::clone(&read)], &[]);
            let answer: Value = serde_json::from_slice(&frame).unwrap();
            answer["result"]["actions"].as_array().unwrap().iter().map(|item| item["serverSeq"].clone()).collect()
        };
        assert_eq!(replayed(&old), [2]);
        assert_eq!(replayed(&new), [1, 2]);
    }
}
