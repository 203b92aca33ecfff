//! When a turn is over, and what to do until then: a function over what happens.

use ahp_types::actions::{
    ActionEnvelope, ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatTurnCompleteAction, StateAction,
};
use ahp_types::state::{ChatInputResponseKind, ErrorInfo, ToolCallCancellationReason};

use super::Session;
use super::ask::{Asked, Asker, Unanswered};
use super::workers::{News, Workers};

/// What the agent is told when it asks for a permission.
const NOBODY_ASKED: &str = "Nobody can be asked here, so it is denied. Go on without it.";

/// Something that happens while a turn is followed.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    Envelope(&'a ActionEnvelope),
    /// Somebody disposed of the session.
    SessionRemoved,
    /// The connection is gone; the sentence says why.
    Closed(String),
    /// Somebody typed a line.
    Line(&'a str),
    /// The editor is closed: what has become of the text, or why nothing has.
    Edited(Result<String, String>),
    /// Nobody types any more.
    NobodyThere,
    /// Ctrl-C, or SIGTERM.
    Interrupt,
    /// Nobody reads our output any more.
    ReaderGone,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Wait,
    /// Ask the host to cancel the turn.
    Cancel,
    /// Ask our person.
    Ask(String),
    /// Open this in our person's editor.
    Edit(String),
    /// Answer requests that only a person can answer, in the name of ours or of nobody.
    Answer(Vec<StateAction>),
    End(TurnEnd),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnEnd {
    Complete,
    /// Cancelled because nobody read the answer.
    Unread,
    /// Interrupted by our user.
    Interrupted,
    /// Interrupted again by our user, who does not want to wait.
    Abandoned,
    /// Cancelled by another client, or by the host's end.
    Cancelled,
    Failed(ErrorInfo),
    /// The host did not take the message.
    Rejected(String),
    /// The connection or the session went away.
    Lost(String),
}

/// Follows one turn of one chat.
#[derive(Debug)]
pub(crate) struct Follower {
    session: String,
    chat: String,
    turn: String,
    /// Our message waits for its turn under this id.
    waiting: Option<String>,
    client: String,
    /// Asks our person, if there is one.
    asker: Option<Asker>,
    /// What sub-agents wait for.
    workers: Workers,
    interrupted: bool,
    unread: bool,
}

impl Follower {
    /// `asker`: somebody is there to be asked.
    pub(crate) fn new(session: &Session, turn: &str, client: &str, asker: Option<Asker>) -> Self {
        Self {
            session: session.uri.clone(),
            chat: session.chat.clone(),
            turn: turn.to_owned(),
            waiting: session.busy.then(|| turn.to_owned()),
            client: client.to_owned(),
            asker,
            workers: Workers::default(),
            interrupted: false,
            unread: false,
        }
    }

    /// The turn that is followed: the one that was asked for, or the one in which its answer goes on.
    pub(crate) fn turn(&self) -> &str {
        &self.turn
    }

    /// Whether our message still waits for its turn.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// The chat that an answer belongs into.
    pub(crate) fn chat_of(&self, answer: &StateAction) -> &str {
        self.workers.chat(answer).unwrap_or(&self.chat)
    }

    /// Whether a line is awaited.
    pub(crate) fn listens(&self) -> bool {
        self.asker.as_ref().is_some_and(Asker::listens)
    }

    pub(crate) fn on(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Envelope(envelope) => self.on_envelope(envelope),
            Input::SessionRemoved => Step::End(TurnEnd::Lost("The session was removed.".to_owned())),
            Input::Closed(reason) => Step::End(TurnEnd::Lost(reason)),
            Input::Line(line) => said(self.asker.as_mut().map(|asker| asker.hear(line))),
            Input::Edited(edited) => said(self.asker.as_mut().map(|asker| asker.edited(edited))),
            Input::NobodyThere => {
                let left = self.asker.take().map(|mut asker| asker.give_up()).unwrap_or_default();
                let refusal = |unanswered| match unanswered {
                    Unanswered::Call(id) => self.denial(&id),
                    Unanswered::Form(id) => declined(&id),
                };
                Step::Answer(left.into_iter().map(refusal).collect())
            }
            // The first one asks politely, the second one does not wait.
            Input::Interrupt if self.interrupted => Step::End(TurnEnd::Abandoned),
            Input::Interrupt => {
                let asked = std::mem::replace(&mut self.interrupted, true) || self.unread;
                if asked { Step::Wait } else { Step::Cancel }
            }
            Input::ReaderGone => {
                let asked = std::mem::replace(&mut self.unread, true) || self.interrupted;
                if asked { Step::Wait } else { Step::Cancel }
            }
        }
    }

    fn on_envelope(&mut self, envelope: &ActionEnvelope) -> Step {
        if let Some(reason) = &envelope.rejection_reason {
            return self.on_rejection(envelope, reason);
        }
        if envelope.channel == self.session
            && !self.waits()
            && let StateAction::SessionCreationFailed(failed) = &envelope.action
        {
            return Step::End(self.end(TurnEnd::Failed(failed.error.clone())));
        }
        if envelope.channel == self.session
            && let Some(news) = self.workers.see(&self.chat, &envelope.action)
        {
            return self.on_worker(news);
        }
        if envelope.channel != self.chat {
            return Step::Wait;
        }
        if let Some(message) = &self.waiting {
            return match &envelope.action {
                StateAction::ChatTurnStarted(action) if action.queued_message_id.as_ref() == Some(message) => {
                    self.waiting = None;
                    self.go_on_in(&action.turn_id);
                    Step::Wait
                }
                StateAction::ChatPendingMessageRemoved(action) if action.id == *message => {
                    Step::End(self.end(TurnEnd::Cancelled))
                }
                _ => Step::Wait,
            };
        }
        match &envelope.action {
            StateAction::ChatTurnComplete(action) if action.turn_id == self.turn => {
                match continued_in(action) {
                    // Somebody had a word with the agent; its answer goes on in another turn.
                    Some(next) => {
                        self.go_on_in(next);
                        Step::Wait
                    }
                    None => Step::End(self.end(TurnEnd::Complete)),
                }
            }
            StateAction::ChatTurnCancelled(action) if action.turn_id == self.turn => {
                Step::End(self.end(TurnEnd::Cancelled))
            }
            StateAction::ChatError(action) if action.turn_id == self.turn => {
                Step::End(self.end(TurnEnd::Failed(action.part.error.clone())))
            }
            _ => self.on_matter(envelope),
        }
    }

    fn go_on_in(&mut self, turn: &str) {
        if let Some(asker) = &mut self.asker {
            asker.turn_is_now(turn);
        }
        turn.clone_into(&mut self.turn);
    }

    /// What may concern a person.
    fn on_matter(&mut self, envelope: &ActionEnvelope) -> Step {
        let ours = self.is_ours(envelope);
        match self.asker.as_mut().map_or(Asked::TooMany, |asker| asker.see(envelope, ours)) {
            Asked::TooMany => self.answer_for_nobody(&envelope.action),
            asked => said(Some(asked)),
        }
    }

    /// A sub-agent asks, or waits no longer.
    fn on_worker(&mut self, news: News) -> Step {
        match (news, self.asker.as_mut()) {
            (News::Settled(call), asker) => said(asker.map(|asker| asker.settled(&call))),
            (News::Asked(tool, call), asker) => {
                match asker.map_or(Asked::TooMany, |asker| asker.see_worker(&tool, &call)) {
                    Asked::TooMany => Step::Answer(vec![self.denial(&call.tool_call_id)]),
                    asked => said(Some(asked)),
                }
            }
        }
    }

    fn answer_for_nobody(&self, action: &StateAction) -> Step {
        match action {
            StateAction::ChatToolCallReady(action) if action.turn_id == self.turn && action.confirmed.is_none() => {
                Step::Answer(vec![self.denial(&action.tool_call_id)])
            }
            StateAction::ChatInputRequested(action) => Step::Answer(vec![declined(&action.request.id)]),
            _ => Step::Wait,
        }
    }

    fn is_ours(&self, envelope: &ActionEnvelope) -> bool {
        envelope.origin.as_ref().is_some_and(|origin| origin.client_id == self.client)
    }

    /// Nobody is there to be asked: no, and why.
    fn denial(&self, call: &str) -> StateAction {
        StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
            turn_id: self.workers.turn(call).unwrap_or(&self.turn).to_owned(),
            tool_call_id: call.to_owned(),
            meta: None,
            approved: false,
            confirmed: None,
            reason: Some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: Some(NOBODY_ASKED.to_owned().into()),
            selected_option_id: None,
        })
    }

    /// Only a refused message ends the wait: a refused cancel means that the turn's end is on its way.
    fn on_rejection(&mut self, envelope: &ActionEnvelope, reason: &str) -> Step {
        let ours = self.is_ours(envelope);
        match &envelope.action {
            StateAction::ChatTurnStarted(action) if ours && action.turn_id == self.turn => {
                Step::End(TurnEnd::Rejected(reason.to_owned()))
            }
            StateAction::ChatPendingMessageSet(action) if ours && self.waiting.as_ref() == Some(&action.id) => {
                Step::End(TurnEnd::Rejected(reason.to_owned()))
            }
            _ if self.asker.is_some() && envelope.channel == self.chat => self.on_matter(envelope),
            _ => Step::Wait,
        }
    }

    /// Who asked for the end is told that it came, however it came.
    fn end(&self, end: TurnEnd) -> TurnEnd {
        if self.interrupted {
            TurnEnd::Interrupted
        } else if self.unread {
            TurnEnd::Unread
        } else {
            end
        }
    }
}

/// The turn in which the answer goes on, where the host has split it.
fn continued_in(action: &ChatTurnCompleteAction) -> Option<&str> {
    action.meta.as_ref()?.get("hostler")?.get("continuedIn")?.as_str()
}

/// What follows from our person's word.
fn said(asked: Option<Asked>) -> Step {
    match asked {
        Some(Asked::Show(text)) => Step::Ask(text),
        Some(Asked::Answer(action)) => Step::Answer(vec![*action]),
        Some(Asked::Edit(text)) => Step::Edit(text),
        Some(Asked::Nothing | Asked::TooMany) | None => Step::Wait,
    }
}

fn declined(request: &str) -> StateAction {
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

    fn follower() -> Follower {
        Follower::new(&Session { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), busy: false }, "t1", "me", None)
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
    fn the_ends_of_our_turn_end_it() {
        for (kind, end) in [("turnComplete", TurnEnd::Complete), ("turnCancelled", TurnEnd::Cancelled)] {
            assert_eq!(follower().on(Input::Envelope(&end_of("t1", kind))), Step::End(end));
        }
        let Step::End(TurnEnd::Failed(error)) = follower().on(Input::Envelope(&end_of("t1", "error"))) else {
            panic!("not failed");
        };
        assert_eq!(error.error_type, "auth");
    }

    #[test]
    fn the_ends_of_other_turns_and_chats_do_not() {
        assert_eq!(follower().on(Input::Envelope(&end_of("t2", "turnComplete"))), Step::Wait);
        let mut elsewhere = end_of("t1", "turnComplete");
        elsewhere.channel = "ahp-chat://other".into();
        assert_eq!(follower().on(Input::Envelope(&elsewhere)), Step::Wait);
    }

    #[test]
    fn an_answer_that_goes_on_in_another_turn_is_followed_there() {
        let mut follower = follower();
        let split = json!({ "type": "chat/turnComplete", "turnId": "t1", "duration": 1,
            "_meta": { "hostler": { "continuedIn": "t2" } } });
        assert_eq!(follower.on(Input::Envelope(&envelope("ahp-chat://c", split))), Step::Wait);
        assert_eq!(follower.turn(), "t2");
        assert_eq!(follower.on(Input::Envelope(&end_of("t2", "turnComplete"))), Step::End(TurnEnd::Complete));
    }

    #[test]
    fn a_message_that_waits_is_followed_into_its_turn_or_out_of_the_queue() {
        let waiting = || {
            let session = Session { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), busy: true };
            Follower::new(&session, "m1", "me", None)
        };
        let started = json!({ "type": "chat/turnStarted", "turnId": "t9", "startedAt": "2026-01-01T00:00:00.000Z",
            "message": { "text": "hi", "origin": { "kind": "user" } }, "queuedMessageId": "m1" });
        let mut follower = waiting();
        assert_eq!(follower.on(Input::Envelope(&end_of("t1", "turnComplete"))), Step::Wait);
        assert_eq!(follower.on(Input::Envelope(&envelope("ahp-chat://c", started))), Step::Wait);
        assert!(!follower.waits());
        assert_eq!(follower.on(Input::Envelope(&end_of("t9", "turnComplete"))), Step::End(TurnEnd::Complete));

        let removed = json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": "m1" });
        let mut follower = waiting();
        assert_eq!(follower.on(Input::Interrupt), Step::Cancel);
        assert_eq!(follower.on(Input::Envelope(&envelope("ahp-chat://c", removed))), Step::End(TurnEnd::Interrupted));
    }

    #[test]
    fn the_first_interrupt_cancels_and_the_second_does_not_wait() {
        let mut follower = follower();
        assert_eq!(follower.on(Input::Interrupt), Step::Cancel);
        assert_eq!(follower.on(Input::Interrupt), Step::End(TurnEnd::Abandoned));
    }

    #[test]
    fn an_interrupted_turn_is_interrupted_however_it_ends() {
        for kind in ["turnComplete", "turnCancelled", "error"] {
            let mut follower = follower();
            follower.on(Input::Interrupt);
            assert_eq!(follower.on(Input::Envelope(&end_of("t1", kind))), Step::End(TurnEnd::Interrupted));
        }
    }

    #[test]
    fn a_reader_that_went_away_cancels_once_and_quietly() {
        let mut follower = follower();
        assert_eq!(follower.on(Input::ReaderGone), Step::Cancel);
        assert_eq!(follower.on(Input::ReaderGone), Step::Wait);
        assert_eq!(follower.on(Input::Envelope(&end_of("t1", "turnCancelled"))), Step::End(TurnEnd::Unread));
    }

    #[test]
    fn a_refused_message_ends_it_and_a_refused_cancel_does_not() {
        let refused = |action: Value, client: &str| {
            let mut envelope = envelope("ahp-chat://c", action);
            envelope.rejection_reason = Some("busy".into());
            envelope.origin = Some(ahp_types::actions::ActionOrigin { client_id: client.into(), client_seq: 1 });
            envelope
        };
        let started = json!({ "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00.000Z",
            "message": { "text": "hi", "origin": { "kind": "user" } } });
        let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 1 });
        let busy = Step::End(TurnEnd::Rejected("busy".into()));
        assert_eq!(follower().on(Input::Envelope(&refused(started.clone(), "me"))), busy);
        assert_eq!(follower().on(Input::Envelope(&refused(started, "you"))), Step::Wait);
        assert_eq!(follower().on(Input::Envelope(&refused(cancelled, "me"))), Step::Wait);
    }

    #[test]
    fn what_only_a_person_can_answer_is_denied_and_what_needs_no_answer_is_not() {
        let ready = |confirmed: Value| {
            let mut action = json!({ "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": "c",
                "invocationMessage": "Running" });
            if !confirmed.is_null() {
                action["confirmed"] = confirmed;
            }
            follower().on(Input::Envelope(&envelope("ahp-chat://c", action)))
        };
        let Step::Answer(answer) = ready(Value::Null) else { panic!("no answer") };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(action)] if !action.approved));
        assert_eq!(ready(json!("not-needed")), Step::Wait);
        let asked = json!({ "type": "chat/inputRequested", "request": { "id": "r" } });
        let Step::Answer(answer) = follower().on(Input::Envelope(&envelope("ahp-chat://c", asked))) else {
            panic!("no answer")
        };
        let decline = ChatInputResponseKind::Decline;
        assert!(matches!(&*answer, [StateAction::ChatInputCompleted(action)] if action.response == decline));
    }

    #[test]
    fn what_a_sub_agent_asks_is_answered_in_its_own_chat() {
        let needed = |chat: &str| {
            let call = json!({ "status": "pending-confirmation", "toolCallId": "c", "toolName": "Bash",
                "displayName": "Run command", "invocationMessage": "Running" });
            let request = json!({ "kind": "toolConfirmation", "id": "call:c", "chat": chat, "turnId": "w1",
                "toolCall": call });
            envelope("claude:/s", json!({ "type": "session/inputNeededSet", "request": request }))
        };
        assert_eq!(follower().on(Input::Envelope(&needed("ahp-chat://c"))), Step::Wait, "our own chat says it itself");
        assert_eq!(follower().on(Input::Envelope(&needed("ahp-chat://w"))), Step::Wait, "that one is not our turn's");
        let begins = json!({ "type": "session/chatAdded", "summary": { "resource": "ahp-chat://w", "title": "w",
            "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z" } });
        let begins = envelope("claude:/s", begins);
        let mut alone = follower();
        assert_eq!(alone.on(Input::Envelope(&begins)), Step::Wait);
        let Step::Answer(answer) = alone.on(Input::Envelope(&needed("ahp-chat://w"))) else { panic!("no answer") };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(no)] if !no.approved && no.turn_id == "w1"));
        assert_eq!(alone.chat_of(&answer[0]), "ahp-chat://w");

        let session = Session { uri: "claude:/s".into(), chat: "ahp-chat://c".into(), busy: false };
        let mut follower = Follower::new(&session, "t1", "me", Some(Asker::new("t1", false)));
        follower.on(Input::Envelope(&begins));
        let Step::Ask(text) = follower.on(Input::Envelope(&needed("ahp-chat://w"))) else { panic!("nobody is asked") };
        assert!(text.contains("A sub-agent: Run command"), "{text}");
        let Step::Answer(answer) = follower.on(Input::Line("y")) else { panic!("no answer") };
        assert!(matches!(&*answer, [StateAction::ChatToolCallConfirmed(yes)] if yes.approved && yes.turn_id == "w1"));
        assert_eq!(follower.chat_of(&answer[0]), "ahp-chat://w");
        let removed = json!({ "type": "session/inputNeededRemoved", "id": "call:c" });
        assert_eq!(follower.on(Input::Envelope(&envelope("claude:/s", removed))), Step::Wait);
        assert!(!follower.listens());
    }

    #[test]
    fn a_session_that_cannot_be_created_ends_it() {
        let action =
            json!({ "type": "session/creationFailed", "error": { "errorType": "agentMissing", "message": "no" } });
        let step = follower().on(Input::Envelope(&envelope("claude:/s", action)));
        assert!(matches!(step, Step::End(TurnEnd::Failed(error)) if error.error_type == "agentMissing"));
    }
}
