//! Requests to the agent over the control protocol, and its answers, correlated by id.
//!
//! Knows nothing of pipes or tasks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hostler_driver::ConnectionError;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::wire::AgentControlResponse;

/// The result of cancelling a queued message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageCancellation {
    /// The message to cancel.
    pub(crate) message_id: Uuid,
    /// Whether the agent still had it queued and has removed it.
    pub(crate) was_cancelled: bool,
}

#[derive(Deserialize)]
struct CancelResponse {
    #[serde(default)]
    cancelled: bool,
}

/// The agent answered a control request with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct ControlRequestError {
    /// The agent's message.
    pub(crate) reason: String,
}

impl From<ControlRequestError> for ConnectionError {
    fn from(error: ControlRequestError) -> Self {
        Self::Refused(error.reason)
    }
}

/// The answer to a request: its body (if it has one), or the agent's error.
pub(crate) type ControlResult = Result<Option<Box<RawValue>>, ControlRequestError>;

/// Requests that wait for the agent's answer.
#[derive(Debug, Default)]
pub(crate) struct PendingControlRequests {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    waiting: HashMap<String, oneshot::Sender<ControlResult>>,
    /// Requests that cancel a message. Their answers are processed in the order of the agent's output.
    cancellations: HashMap<String, Uuid>,
    closed: bool,
}

impl State {
    fn next_id(&mut self) -> String {
        self.last_id += 1;
        format!("hostler-{}", self.last_id)
    }
}

impl PendingControlRequests {
    /// A new request's id, and the receiver of its answer. The answer is an error as soon as the agent exits, or at
    /// once if it has.
    pub(crate) fn register(&self) -> (String, oneshot::Receiver<ControlResult>) {
        let mut state = self.lock();
        let id = state.next_id();
        let (sender, receiver) = oneshot::channel();
        if !state.closed {
            state.waiting.insert(id.clone(), sender);
        }
        (id, receiver)
    }

    /// The id of a request that cancels a message. Its answer arrives through
    /// [`take_cancellation`](Self::take_cancellation).
    pub(crate) fn register_cancellation(&self, message: Uuid) -> String {
        let mut state = self.lock();
        let id = state.next_id();
        if !state.closed {
            state.cancellations.insert(id.clone(), message);
        }
        id
    }

    /// The result for a message, if the answer belongs to a cancellation.
    pub(crate) fn take_cancellation(&self, answer: &AgentControlResponse<'_>) -> Option<MessageCancellation> {
        let message = self.lock().cancellations.remove(&*answer.request_id)?;
        let body = answer.outcome.as_ref().ok().copied().flatten();
        let body: Option<CancelResponse> = body.and_then(|body| serde_json::from_str(body.get()).ok());
        Some(MessageCancellation { message_id: message, was_cancelled: body.is_some_and(|body| body.cancelled) })
    }

    /// Passes an answer to the waiting request. Answers to unknown requests are normal: some builds echo our own.
    pub(crate) fn resolve(&self, answer: &AgentControlResponse<'_>) {
        let Some(waiting) = self.lock().waiting.remove(&*answer.request_id) else {
            return;
        };
        let outcome = match &answer.outcome {
            Ok(body) => Ok(body.map(ToOwned::to_owned)),
            Err(reason) => Err(ControlRequestError { reason: reason.to_string() }),
        };
        if let Err(Err(ControlRequestError { reason })) = waiting.send(outcome) {
            tracing::warn!(reason, "agent rejected a control request that no caller waits for");
        }
    }

    /// The agent has exited: all pending requests fail.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        state.cancellations.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

    use super::*;
    use crate::wire::WireMessage;

    fn answer(requests: &PendingControlRequests, line: &str) {
        match WireMessage::parse(line.as_bytes()).unwrap() {
            WireMessage::ControlResponse(answer) => requests.resolve(&answer),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answer_reaches_the_request_with_its_id() {
        let requests = PendingControlRequests::default();
        let (first, mut first_answer) = requests.register();
        let (second, mut second_answer) = requests.register();
        answer(
            &requests,
            &format!(
                r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{second}","response":{{"a":1}}}}}}"#
            ),
        );
        assert!(first_answer.try_recv().is_err());
        assert_eq!(second_answer.try_recv().unwrap().unwrap().unwrap().get(), r#"{"a":1}"#);
        answer(
            &requests,
            &format!(
                r#"{{"type":"control_response","response":{{"subtype":"error","request_id":"{first}","error":"no"}}}}"#
            ),
        );
        assert_eq!(first_answer.try_recv().unwrap().unwrap_err().reason, "no");
    }

    #[test]
    fn answers_to_unknown_requests_are_ignored() {
        let requests = PendingControlRequests::default();
        let (_, mut waiting) = requests.register();
        answer(&requests, r#"{"type":"control_response","response":{"subtype":"success","request_id":"whose"}}"#);
        assert_eq!(waiting.try_recv().unwrap_err(), oneshot::error::TryRecvError::Empty);
    }

    #[test]
    fn cancellation_is_answered_once_and_an_error_means_not_cancelled() {
        let requests = PendingControlRequests::default();
        let take = |id: &str, outcome: &str| {
            let line = format!(
                r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{id}","response":{outcome}}}}}"#
            );
            match WireMessage::parse(line.as_bytes()).unwrap() {
                WireMessage::ControlResponse(answer) => requests.take_cancellation(&answer),
                other => panic!("{other:?}"),
            }
        };
        for (body, is_back) in [(r#"{"cancelled":true}"#, true), (r#"{"cancelled":false}"#, false), ("{}", false)] {
            let message = Uuid::new_v4();
            let id = requests.register_cancellation(message);
            assert_eq!(take("another", body), None);
            assert_eq!(take(&id, body), Some(MessageCancellation { message_id: message, was_cancelled: is_back }));
            assert_eq!(take(&id, body), None, "reported once");
        }
    }

    #[test]
    fn close_fails_pending_requests() {
        let requests = PendingControlRequests::default();
        let (_, mut before) = requests.register();
        requests.close();
        let (_, mut after) = requests.register();
        for receiver in [&mut before, &mut after] {
            assert_eq!(receiver.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
        }
    }
}
