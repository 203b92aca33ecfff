//! Decides when a turn is over and what to do until then: a pure function over inputs. It does no I/O.

use ahp_types::actions::{
    ActionEnvelope, ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatTurnCompleteAction, StateAction,
};
use ahp_types::state::{ChatInputResponseKind, ErrorInfo, ToolCallCancellationReason};

use super::prompts::{PromptQueue, PromptStep, UnansweredPrompt};
use super::sub_agents::{SubAgentRequestChange, SubAgentRequests};
use super::{EditorError, OpenedSession};

/// Reason that the agent receives with a denial when no person can be asked.
const UNATTENDED_DENY_MESSAGE: &str =
    "Denied: not running in a terminal, so there is no one to ask. Continue without it.";

/// Input while a turn is followed.
#[derive(Debug)]
pub(crate) enum FollowerInput<'a> {
    Envelope(&'a ActionEnvelope),
    /// A client disposed of the session.
    SessionRemoved,
    /// The connection is lost; the sentence explains why.
    Closed(String),
    /// A typed line.
    Line(&'a str),
    /// The editor was closed: the edited text, or why there is none.
    Edited(Result<String, EditorError>),
    /// Stdin ended.
    StdinClosed,
    /// Ctrl-C, or SIGTERM.
    Interrupt,
    /// Stdout was closed.
    StdoutClosed,
}

/// Step that follows from an input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FollowerStep {
    Wait,
    /// Ask the host to cancel the turn.
    Cancel,
    /// Ask the user.
    Ask(String),
    /// Open this in the user's editor.
    Edit(String),
    /// Answer pending requests: with the user's answer, or with a denial.
    Answer(Vec<StateAction>),
    End(TurnEnd),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnEnd {
    Complete,
    /// Cancelled because stdout was closed.
    OutputClosed,
    /// Interrupted by the user.
    Interrupted,
    /// Interrupted a second time, so the command does not wait.
    Abandoned,
    /// Cancelled by another client, or by the host's shutdown.
    Cancelled,
    Failed(ErrorInfo),
    /// The host rejected the message.
    Rejected {
        /// Code of the condition, if the host sent one.
        code: Option<String>,
        reason: String,
    },
    /// The session was removed.
    SessionRemoved,
    /// The connection was lost; the sentence explains why.
    ConnectionLost(String),
}

/// Follows one turn of one chat.
#[derive(Debug)]
pub(crate) struct TurnFollower {
    session: String,
    chat: String,
    turn: String,
    /// Id of our message while it is in the queue.
    queued_message: Option<String>,
    client_id: String,
    /// Prompts for the user, if there is one.
    prompts: Option<PromptQueue>,
    /// Pending requests of sub-agents.
    sub_agents: SubAgentRequests,
    is_interrupted: bool,
    is_output_closed: bool,
}

impl TurnFollower {
    /// `prompts`: given if a user can be asked.
    pub(crate) fn new(session: &OpenedSession, turn: &str, client: &str, prompts: Option<PromptQueue>) -> Self {
        Self {
            session: session.uri.clone(),
            chat: session.chat.clone(),
            turn: turn.to_owned(),
            queued_message: session.has_running_turn.then(|| turn.to_owned()),
            client_id: client.to_owned(),
            prompts,
            sub_agents: SubAgentRequests::default(),
            is_interrupted: false,
            is_output_closed: false,
        }
    }

    /// Returns the turn that is followed: the requested one, or the one that continues it.
    pub(crate) fn turn(&self) -> &str {
        &self.turn
    }

    /// Returns whether our message is still in the queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued_message.is_some()
    }

    /// Returns the chat that an answer belongs to.
    pub(crate) fn chat_for_answer(&self, answer: &StateAction) -> &str {
        self.sub_agents.chat_for_answer(answer).unwrap_or(&self.chat)
    }

    /// Returns whether a line is awaited.
    pub(crate) fn is_awaiting_line(&self) -> bool {
        self.prompts.as_ref().is_some_and(PromptQueue::is_awaiting_line)
    }

    pub(crate) fn handle(&mut self, input: FollowerInput<'_>) -> FollowerStep {
        match input {
            FollowerInput::Envelope(envelope) => self.handle_envelope(envelope),
            FollowerInput::SessionRemoved => FollowerStep::End(TurnEnd::SessionRemoved),
            FollowerInput::Closed(reason) => FollowerStep::End(TurnEnd::ConnectionLost(reason)),
            FollowerInput::Line(line) => {
                to_follower_step(self.prompts.as_mut().map(|prompts| prompts.handle_line(line)))
            }
            FollowerInput::Edited(edited) => {
                to_follower_step(self.prompts.as_mut().map(|prompts| prompts.handle_edited(edited)))
            }
            FollowerInput::StdinClosed => {
                let unanswered = self.prompts.take().map(|mut prompts| prompts.take_unanswered()).unwrap_or_default();
                let denial = |prompt| match prompt {
                    UnansweredPrompt::Call(id) => self.denial(&id),
                    UnansweredPrompt::Form(id) => decline_input(&id),
                };
                FollowerStep::Answer(unanswered.into_iter().map(denial).collect())
            }
            // The first interrupt cancels the turn, the second one does not wait.
            FollowerInput::Interrupt if self.is_interrupted => FollowerStep::End(TurnEnd::Abandoned),
            FollowerInput::Interrupt => {
                let was_requested = std::mem::replace(&mut self.is_interrupted, true) || self.is_output_closed;
                if was_requested { FollowerStep::Wait } else { FollowerStep::Cancel }
            }
            FollowerInput::StdoutClosed => {
                let was_requested = std::mem::replace(&mut self.is_output_closed, true) || self.is_interrupted;
                if was_requested { FollowerStep::Wait } else { FollowerStep::Cancel }
            }
        }
    }

    fn handle_envelope(&mut self, envelope: &ActionEnvelope) -> FollowerStep {
        if let Some(reason) = &envelope.rejection_reason {
            return self.handle_rejection(envelope, reason);
        }
        if envelope.channel == self.session
            && !self.is_queued()
            && let StateAction::SessionCreationFailed(failed) = &envelope.action
        {
            return FollowerStep::End(self.final_outcome(TurnEnd::Failed(failed.error.clone())));
        }
        if envelope.channel == self.session
            && let Some(change) = self.sub_agents.handle_action(&self.chat, &envelope.action)
        {
            return self.handle_sub_agent(change);
        }
        if envelope.channel != self.chat {
            return FollowerStep::Wait;
        }
        if let Some(message) = &self.queued_message {
            return match &envelope.action {
                StateAction::ChatTurnStarted(action) if action.queued_message_id.as_ref() == Some(message) => {
                    self.queued_message = None;
                    self.continue_in_turn(&action.turn_id);
                    FollowerStep::Wait
                }
                StateAction::ChatPendingMessageRemoved(action) if action.id == *message => {
                    FollowerStep::End(self.final_outcome(TurnEnd::Cancelled))
                }
                _ => FollowerStep::Wait,
            };
        }
        match &envelope.action {
            StateAction::ChatTurnComplete(action) if action.turn_id == self.turn => {
                match continuation_turn(action) {
                    // A client steered the agent; the response continues in another turn.
                    Some(next) => {
                        self.continue_in_turn(next);
                        FollowerStep::Wait
                    }
                    None => FollowerStep::End(self.final_outcome(TurnEnd::Complete)),
                }
            }
            StateAction::ChatTurnCancelled(action) if action.turn_id == self.turn => {
                FollowerStep::End(self.final_outcome(TurnEnd::Cancelled))
            }
            StateAction::ChatError(action) if action.turn_id == self.turn => {
                FollowerStep::End(self.final_outcome(TurnEnd::Failed(action.part.error.clone())))
            }
            _ => self.handle_prompt(envelope),
        }
    }

    fn continue_in_turn(&mut self, turn: &str) {
        if let Some(prompts) = &mut self.prompts {
            prompts.set_turn(turn);
        }
        turn.clone_into(&mut self.turn);
    }

    /// Handles an envelope that may need the user.
    fn handle_prompt(&mut self, envelope: &ActionEnvelope) -> FollowerStep {
        let is_ours = self.is_ours(envelope);
        match self.prompts.as_mut().map_or(PromptStep::QueueFull, |prompts| prompts.handle_envelope(envelope, is_ours))
        {
            PromptStep::QueueFull => self.deny_unattended(&envelope.action),
            step => to_follower_step(Some(step)),
        }
    }

    /// Handles a sub-agent's request, or its end.
    fn handle_sub_agent(&mut self, change: SubAgentRequestChange) -> FollowerStep {
        match (change, self.prompts.as_mut()) {
            (SubAgentRequestChange::Resolved(call), prompts) => {
                to_follower_step(prompts.map(|prompts| prompts.resolve_call(&call)))
            }
            (SubAgentRequestChange::Requested(tool, call), prompts) => {
                match prompts.map_or(PromptStep::QueueFull, |prompts| prompts.add_sub_agent_call(&tool, &call)) {
                    PromptStep::QueueFull => FollowerStep::Answer(vec![self.denial(&call.tool_call_id)]),
                    step => to_follower_step(Some(step)),
                }
            }
        }
    }

    fn deny_unattended(&self, action: &StateAction) -> FollowerStep {
        match action {
            StateAction::ChatToolCallReady(action) if action.turn_id == self.turn && action.confirmed.is_none() => {
                FollowerStep::Answer(vec![self.denial(&action.tool_call_id)])
            }
            StateAction::ChatInputRequested(action) => FollowerStep::Answer(vec![decline_input(&action.request.id)]),
            _ => FollowerStep::Wait,
        }
    }

    fn is_ours(&self, envelope: &ActionEnvelope) -> bool {
        envelope.origin.as_ref().is_some_and(|origin| origin.client_id == self.client_id)
    }

    /// Denies a request because no person can be asked.
    fn denial(&self, call: &str) -> StateAction {
        StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
            turn_id: self.sub_agents.turn_of_call(call).unwrap_or(&self.turn).to_owned(),
            tool_call_id: call.to_owned(),
            meta: None,
            approved: false,
            confirmed: None,
            reason: Some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: Some(UNATTENDED_DENY_MESSAGE.to_owned().into()),
            selected_option_id: None,
        })
    }

    /// Only a rejected message ends the wait: a rejected cancel means that the turn is ending anyway.
    fn handle_rejection(&mut self, envelope: &ActionEnvelope, reason: &str) -> FollowerStep {
        let is_ours = self.is_ours(envelope);
        match &envelope.action {
            StateAction::ChatTurnStarted(action) if is_ours && action.turn_id == self.turn => {
                FollowerStep::End(TurnEnd::Rejected { code: None, reason: reason.to_owned() })
            }
            StateAction::ChatPendingMessageSet(action)
                if is_ours && self.queued_message.as_ref() == Some(&action.id) =>
            {
                FollowerStep::End(TurnEnd::Rejected { code: None, reason: reason.to_owned() })
            }
            _ if self.prompts.is_some() && envelope.channel == self.chat => self.handle_prompt(envelope),
            _ => FollowerStep::Wait,
        }
    }

    /// An interrupted turn counts as interrupted, however it ends.
    fn final_outcome(&self, end: TurnEnd) -> TurnEnd {
        if self.is_interrupted {
            TurnEnd::Interrupted
        } else if self.is_output_closed {
            TurnEnd::OutputClosed
        } else {
            end
        }
    }
}

/// Returns the turn that continues the response, if the host has split the turn.
fn continuation_turn(action: &ChatTurnCompleteAction) -> Option<&str> {
    action.meta.as_ref()?.get("hostler")?.get("continuedIn")?.as_str()
}

/// Converts the user's step.
fn to_follower_step(step: Option<PromptStep>) -> FollowerStep {
    match step {
        Some(PromptStep::Show(text)) => FollowerStep::Ask(text),
        Some(PromptStep::Answer(action)) => FollowerStep::Answer(vec![*action]),
        Some(PromptStep::Edit(text)) => FollowerStep::Edit(text),
        Some(PromptStep::Wait | PromptStep::QueueFull) | None => FollowerStep::Wait,
    }
}

fn decline_input(request: &str) -> StateAction {
    StateAction::ChatInputCompleted(ChatInputCompletedAction {
        request_id: request.to_owned(),
        response: ChatInputResponseKind::Decline,
        answers: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn follower() -> TurnFollower {
        TurnFollower::new(
            &OpenedSession { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), has_running_turn: false },
            "t1",
            "me",
            None,
        )
    }

    fn envelope(channel: &str, action: Value) -> ActionEnvelope {
        serde_json::from_value(json!({ "channel": channel, "serverSeq": 1, "action": action })).unwrap()
    }

    fn end_of(turn: &str, kind: &str) -> ActionEnvelope {
        let action = match kind {
            "error" => json!({ "type": "chat/error", "turnId": turn, "duration": 1,
                "part": { "kind": "error", "error": { "errorType": "auth", "message": "no" } } }),
            kind => json!({ "type": format!("chat/{kind}"), "turnId": turn, "duration": 1 }),
        };
        envelope("ahp-chat://c", action)
    }

    #[test]
    fn end_of_the_followed_turn_ends_following() {
        for (kind, end) in [("turnComplete", TurnEnd::Complete), ("turnCancelled", TurnEnd::Cancelled)] {
            assert_eq!(follower().handle(FollowerInput::Envelope(&end_of("t1", kind))), FollowerStep::End(end));
        }
        let FollowerStep::End(TurnEnd::Failed(error)) =
            follower().handle(FollowerInput::Envelope(&end_of("t1", "error")))
        else {
            panic!("not failed");
        };
        assert_eq!(error.error_type, "auth");
    }

    #[test]
    fn ends_of_other_turns_and_chats_are_ignored() {
        assert_eq!(follower().handle(FollowerInput::Envelope(&end_of("t2", "turnComplete"))), FollowerStep::Wait);
        let mut elsewhere = end_of("t1", "turnComplete");
        elsewhere.channel = "ahp-chat://other".into();
        assert_eq!(follower().handle(FollowerInput::Envelope(&elsewhere)), FollowerStep::Wait);
    }

    #[test]
    fn split_turn_is_followed_into_its_continuation() {
        let mut follower = follower();
        let split = json!({ "type": "chat/turnComplete", "turnId": "t1", "duration": 1,
            "_meta": { "hostler": { "continuedIn": "t2" } } });
        assert_eq!(follower.handle(FollowerInput::Envelope(&envelope("ahp-chat://c", split))), FollowerStep::Wait);
        assert_eq!(follower.turn(), "t2");
        assert_eq!(
            follower.handle(FollowerInput::Envelope(&end_of("t2", "turnComplete"))),
            FollowerStep::End(TurnEnd::Complete)
        );
    }

    #[test]
    fn queued_message_is_followed_until_started_or_removed() {
        let waiting = || {
            let session =
                OpenedSession { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), has_running_turn: true };
            TurnFollower::new(&session, "m1", "me", None)
        };
        let started = json!({ "type": "chat/turnStarted", "turnId": "t9", "startedAt": "2026-01-01T00:00:00.000Z",
            "message": { "text": "hi", "origin": { "kind": "user" } }, "queuedMessageId": "m1" });
        let mut follower = waiting();
        assert_eq!(follower.handle(FollowerInput::Envelope(&end_of("t1", "turnComplete"))), FollowerStep::Wait);
        assert_eq!(follower.handle(FollowerInput::Envelope(&envelope("ahp-chat://c", started))), FollowerStep::Wait);
        assert!(!follower.is_queued());
        assert_eq!(
            follower.handle(FollowerInput::Envelope(&end_of("t9", "turnComplete"))),
            FollowerStep::End(TurnEnd::Complete)
        );

        let removed = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "m1" });
        let mut follower = waiting();
        assert_eq!(follower.handle(FollowerInput::Interrupt), FollowerStep::Cancel);
        assert_eq!(
            follower.handle(FollowerInput::Envelope(&envelope("ahp-chat://c", removed))),
            FollowerStep::End(TurnEnd::Interrupted)
        );
    }

    #[test]
    fn first_interrupt_cancels_and_second_abandons() {
        let mut follower = follower();
        assert_eq!(follower.handle(FollowerInput::Interrupt), FollowerStep::Cancel);
        assert_eq!(follower.handle(FollowerInput::Interrupt), FollowerStep::End(TurnEnd::Abandoned));
    }

    #[test]
    fn interrupted_turn_reports_interrupted_for_every_end() {
        for kind in ["turnComplete", "turnCancelled", "error"] {
            let mut follower = follower();
            follower.handle(FollowerInput::Interrupt);
            assert_eq!(
                follower.handle(FollowerInput::Envelope(&end_of("t1", kind))),
                FollowerStep::End(TurnEnd::Interrupted)
            );
        }
    }

    #[test]
    fn closed_stdout_cancels_once_without_output() {
        let mut follower = follower();
        assert_eq!(follower.handle(FollowerInput::StdoutClosed), FollowerStep::Cancel);
        assert_eq!(follower.handle(FollowerInput::StdoutClosed), FollowerStep::Wait);
        assert_eq!(
            follower.handle(FollowerInput::Envelope(&end_of("t1", "turnCancelled"))),
            FollowerStep::End(TurnEnd::OutputClosed)
        );
    }

    #[test]
    fn rejected_message_ends_following_and_rejected_cancel_does_not() {
        let refused = |action: Value, client: &str| {
            let mut envelope = envelope("ahp-chat://c", action);
            envelope.rejection_reason = Some("busy".into());
            envelope.origin = Some(ahp_types::actions::ActionOrigin { client_id: client.into(), client_seq: 1 });
            envelope
        };
        let started = json!({ "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00.000Z",
            "message": { "text": "hi", "origin": { "kind": "user" } } });
        let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 1 });
        let busy = FollowerStep::End(TurnEnd::Rejected { code: None, reason: "busy".into() });
        assert_eq!(follower().handle(FollowerInput::Envelope(&refused(started.clone(), "me"))), busy);
        assert_eq!(follower().handle(FollowerInput::Envelope(&refused(started, "you"))), FollowerStep::Wait);
        assert_eq!(follower().handle(FollowerInput::Envelope(&refused(cancelled, "me"))), FollowerStep::Wait);
    }

    #[test]
    fn pending_requests_are_denied_without_a_user_and_others_are_not() {
        let ready = |confirmed: Value| {
            let mut action = json!({ "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": "c",
                "invocationMessage": "Running" });
            if !confirmed.is_null() {
                action["confirmed"] = confirmed;
            }
            follower().handle(FollowerInput::Envelope(&envelope("ahp-chat://c", action)))
        };
        let FollowerStep::Answer(answer) = ready(Value::Null) else { panic!("no answer") };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(action)] if !action.approved));
        assert_eq!(ready(json!("not-needed")), FollowerStep::Wait);
        let asked = json!({ "type": "chat/inputRequested", "request": { "id": "r" } });
        let FollowerStep::Answer(answer) = follower().handle(FollowerInput::Envelope(&envelope("ahp-chat://c", asked)))
        else {
            panic!("no answer")
        };
        let decline = ChatInputResponseKind::Decline;
        assert!(matches!(&*answer, [StateAction::ChatInputCompleted(action)] if action.response == decline));
    }

    #[test]
    fn sub_agent_request_is_answered_in_its_own_chat() {
        let needed = |chat: &str| {
            let call = json!({ "status": "pending-confirmation", "toolCallId": "c", "toolName": "Bash",
                "displayName": "Run command", "invocationMessage": "Running" });
            let request = json!({ "kind": "toolConfirmation", "id": "call:c", "chat": chat, "turnId": "w1",
                "toolCall": call });
            envelope("claude:/s", json!({ "type": "session/inputNeededSet", "request": request }))
        };
        assert_eq!(
            follower().handle(FollowerInput::Envelope(&needed("ahp-chat://c"))),
            FollowerStep::Wait,
            "our own chat has its own prompt"
        );
        assert_eq!(
            follower().handle(FollowerInput::Envelope(&needed("ahp-chat://w"))),
            FollowerStep::Wait,
            "the request belongs to another turn"
        );
        let added = json!({ "type": "session/chatAdded", "summary": { "resource": "ahp-chat://w", "title": "w",
            "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z" } });
        let added = envelope("claude:/s", added);
        let mut alone = follower();
        assert_eq!(alone.handle(FollowerInput::Envelope(&added)), FollowerStep::Wait);
        let FollowerStep::Answer(answer) = alone.handle(FollowerInput::Envelope(&needed("ahp-chat://w"))) else {
            panic!("no answer")
        };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(no)] if !no.approved && no.turn_id == "w1"));
        assert_eq!(alone.chat_for_answer(&answer[0]), "ahp-chat://w");

        let session = OpenedSession { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), has_running_turn: false };
        let mut follower = TurnFollower::new(&session, "t1", "me", Some(PromptQueue::new("t1", false)));
        follower.handle(FollowerInput::Envelope(&added));
        let FollowerStep::Ask(text) = follower.handle(FollowerInput::Envelope(&needed("ahp-chat://w"))) else {
            panic!("no prompt")
        };
        assert!(text.contains("Sub-agent: Run command"), "{text}");
        let FollowerStep::Answer(answer) = follower.handle(FollowerInput::Line("y")) else { panic!("no answer") };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(yes)] if yes.approved && yes.turn_id == "w1"));
        assert_eq!(follower.chat_for_answer(&answer[0]), "ahp-chat://w");
        let removed = json!({ "type": "session/inputNeededRemoved", "id": "call:c" });
        assert_eq!(follower.handle(FollowerInput::Envelope(&envelope("claude:/s", removed))), FollowerStep::Wait);
        assert!(!follower.is_awaiting_line());
    }

    #[test]
    fn failed_session_creation_ends_following() {
        let action =
            json!({ "type": "session/creationFailed", "error": { "errorType": "agentMissing", "message": "no" } });
        let step = follower().handle(FollowerInput::Envelope(&envelope("claude:/s", action)));
        assert!(matches!(step, FollowerStep::End(TurnEnd::Failed(error)) if error.error_type == "agentMissing"));
    }
}
