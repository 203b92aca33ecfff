//! Corrections to the protocol's reducers. The fixtures cover resulting states; these tests cover outcomes.

use ahp_types::StateAction;
use ahp_types::state::ChatState;
use serde_json::{Value, json};

use super::{ApplyError, ApplyOutcome, Reduce as _, complete_queue_order, is_valid_start_time};

fn chat(parts: &Value) -> ChatState {
    serde_json::from_value(json!({
        "resource": "ahp-chat:/c", "title": "", "status": 8, "modifiedAt": "2026-01-01T00:00:00Z", "turns": [],
        "activeTurn": {"id": "t", "startedAt": "2026-01-01T00:00:00Z", "responseParts": parts,
                       "message": {"text": "go", "origin": {"kind": "user"}}}
    }))
    .unwrap()
}

fn action(value: Value) -> StateAction {
    let action = serde_json::from_value(value).unwrap();
    assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
    action
}

fn call(status: &str) -> Value {
    json!([{"kind": "toolCall", "toolCall": {
        "status": status, "toolCallId": "c", "toolName": "Bash", "displayName": "Bash", "invocationMessage": "Runs",
        "confirmed": "not-needed", "success": true, "pastTenseMessage": "Ran", "reason": "denied",
        "contributor": {"kind": "mcp", "customizationId": "m"}}}])
}

/// A chat with a call in a state. The protocol's types cannot parse a call that requires a sign-in, so actions produce
/// it.
fn chat_with(status: &str) -> ChatState {
    if status != "auth-required" {
        return chat(&call(status));
    }
    let mut state = chat(&call("running"));
    let auth = json!({"reason": "required", "resource": {"resource": "https://example.org"}});
    let request = json!({"type": "chat/toolCallAuthRequired", "turnId": "t", "toolCallId": "c", "auth": auth});
    assert_eq!(state.reduce(&action(request.clone())), ApplyOutcome::Applied);
    assert_eq!(state.reduce(&action(request)), ApplyOutcome::NoOp);
    state
}

#[test]
fn tool_call_actions_apply_only_in_their_states() {
    let of = |kind: &str, more: Value| {
        let mut value = json!({"type": format!("chat/toolCall{kind}"), "turnId": "t", "toolCallId": "c"});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        action(value)
    };
    let cases = [
        (of("Delta", json!({"content": "x"})), &["streaming"][..]),
        (of("Ready", json!({"invocationMessage": "Runs it"})), &["streaming", "running", "pending-confirmation"]),
        (of("Confirmed", json!({"approved": true, "confirmed": "user-action"})), &["pending-confirmation"]),
        (of("ContentChanged", json!({"content": []})), &["running"]),
        (
            of("Complete", json!({"result": {"success": true, "pastTenseMessage": "Ran"}})),
            &["running", "pending-confirmation"],
        ),
        (
            of("Complete", json!({"result": {"success": false, "pastTenseMessage": "Ran"}})),
            &["running", "pending-confirmation", "auth-required"],
        ),
        (of("AuthResolved", json!({})), &["auth-required"]),
        (of("ResultConfirmed", json!({"approved": true})), &["pending-result-confirmation"]),
    ];
    let all = ["streaming", "pending-confirmation", "running", "auth-required", "pending-result-confirmation"];
    for (action, takes) in cases {
        for status in all.into_iter().chain(["completed", "cancelled"]) {
            let mut state = chat_with(status);
            let before = state.clone();
            let expected = if takes.contains(&status) { ApplyOutcome::Applied } else { ApplyOutcome::NoOp };
            assert_eq!(state.reduce(&action), expected, "{action:?} on {status}");
            assert_eq!(
                state.active_turn == before.active_turn,
                expected == ApplyOutcome::NoOp,
                "{action:?} on {status}"
            );
        }
        assert_eq!(chat(&json!([])).reduce(&action), ApplyOutcome::NoOp, "{action:?} on no call");
    }
}

#[test]
fn turn_start_is_refused_during_a_turn_and_with_an_invalid_time() {
    let start = |turn: &str, at: &str| {
        let message = json!({"text": "go", "origin": {"kind": "user"}});
        action(json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": at, "message": message}))
    };
    let mut state = chat(&json!([]));
    let running = ApplyOutcome::Refused(ApplyError::TurnAlreadyRunning("t".to_owned()));
    assert_eq!(state.reduce(&start("u", "2026-01-01T00:00:00Z")), running);
    assert_eq!(state.reduce(&start("t", "2026-01-01T00:00:00Z")), ApplyOutcome::NoOp);
    assert_eq!(state, chat(&json!([])));
    state.active_turn = None;
    for at in ["", "soon", "9999-12-30T00:00:00Z", "2026-01-01"] {
        let outcome = state.reduce(&start("u", at));
        assert_eq!(outcome, ApplyOutcome::Refused(ApplyError::InvalidStartTime(at.to_owned())));
        assert!(!is_valid_start_time(at) && state.active_turn.is_none());
    }
    assert_eq!(state.reduce(&start("u", "2026-01-01T00:00:00+02:00")), ApplyOutcome::Applied);
    let too_long = action(json!({"type": "chat/turnComplete", "turnId": "u", "duration": i64::MAX}));
    assert!(matches!(state.reduce(&too_long), ApplyOutcome::Refused(ApplyError::Reducer(_))));
    assert!(state.active_turn.is_some(), "a refused action changes nothing");
}

#[test]
fn queue_order_contains_every_message_once() {
    let mut state = chat(&json!([]));
    assert_eq!(complete_queue_order(&state, &["x".to_owned()]), Vec::<String>::new());
    let queued = ["z", "a", "m"].map(|id| json!({"id": id, "message": {"text": id, "origin": {"kind": "user"}}}));
    state.queued_messages = serde_json::from_value(json!(queued)).unwrap();
    let wanted = ["m", "x", "m"].map(str::to_owned);
    assert_eq!(complete_queue_order(&state, &wanted), ["m", "z", "a"]);
}

#[test]
fn action_of_another_channel_kind_is_out_of_scope() {
    let title = action(json!({"type": "terminal/titleChanged", "title": "x"}));
    assert_eq!(chat(&json!([])).reduce(&title), ApplyOutcome::OutOfScope);
}
