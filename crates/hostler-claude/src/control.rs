//! The control protocol, our side: requests to the agent and its answers, correlated by id.
//!
//! Knows nothing of pipes or tasks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::wire::ControlAnswer;

/// An answer to a request of ours: its body (where it has one), or the agent's reason to refuse.
pub(crate) type Answer = Result<Option<Box<RawValue>>, String>;

/// Our requests that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    waiting: HashMap<String, oneshot::Sender<Answer>>,
    closed: bool,
}

impl Requests {
    /// A new request's id, and its answer. The answer is an error at once if the agent has ended, and as soon as it ends.
    pub(crate) fn register(&self) -> (String, oneshot::Receiver<Answer>) {
        let mut state = self.lock();
        state.last_id += 1;
        let id = format!("hostler-{}", state.last_id);
        let (sender, receiver) = oneshot::channel();
        if !state.closed {
            state.waiting.insert(id.clone(), sender);
        }
        (id, receiver)
    }

    /// Hands an answer to whoever waits for it. Answers to requests that we do not know are normal: some builds echo
    /// our own.
    pub(crate) fn resolve(&self, answer: &ControlAnswer<'_>) {
        let Some(waiting) = self.lock().waiting.remove(&*answer.request_id) else {
            return;
        };
        let outcome = match &answer.outcome {
            Ok(body) => Ok(body.map(ToOwned::to_owned)),
            Err(reason) => Err(reason.to_string()),
        };
        if let Err(Err(reason)) = waiting.send(outcome) {
            tracing::warn!(reason, "the agent refused a request");
        }
    }

    /// The agent has ended: nobody waits any longer.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
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

    fn answer(requests: &Requests, line: &str) {
        match WireMessage::parse(line.as_bytes()).unwrap() {
            WireMessage::ControlResponse(answer) => requests.resolve(&answer),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_reaches_the_request_with_its_id() {
        let requests = Requests::default();
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
        assert_eq!(first_answer.try_recv().unwrap().unwrap_err(), "no");
    }

    #[test]
    fn answers_to_unknown_requests_are_ignored() {
        let requests = Requests::default();
        let (_, mut waiting) = requests.register();
        answer(&requests, r#"{"type":"control_response","response":{"subtype":"success","request_id":"whose"}}"#);
        assert_eq!(waiting.try_recv().unwrap_err(), oneshot::error::TryRecvError::Empty);
    }

    #[test]
    fn nobody_waits_for_an_agent_that_has_ended() {
        let requests = Requests::default();
        let (_, mut before) = requests.register();
        requests.close();
        let (_, mut after) = requests.register();
        for receiver in [&mut before, &mut after] {
            assert_eq!(receiver.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
        }
    }
}
