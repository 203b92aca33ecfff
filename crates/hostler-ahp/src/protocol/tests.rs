//! Compares the table with the protocol's types, and tests the checks that use it.

use std::collections::BTreeSet;

use ahp_types::{ActionType, StateAction};
use hostler_engine::Dispatch;
use serde_json::{Value, json};

use super::dispatch_check::DispatchError;
use super::{AllowedSender, ChannelKind, HostSupport, action_limits, actions, check_dispatch, commands, notifications};

fn checked(kind: ChannelKind, action: Value) -> Result<(), DispatchError> {
    let name = action["type"].as_str().unwrap().to_owned();
    let action: StateAction = serde_json::from_value(action).unwrap();
    let (client_id, channel) = ("me".to_owned(), "x:/y".to_owned());
    check_dispatch(
        kind,
        &name,
        &Dispatch {
            client_id,
            client_seq: 1,
            channel,
            action,
            subscriber: None,
            attachment_contents: Default::default(),
            facts: Default::default(),
        },
    )
}

fn message(text: &str) -> Value {
    json!({"text": text, "origin": {"kind": "user"}})
}

fn start(turn: &str, message: &Value) -> Value {
    json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00Z", "message": message})
}

#[test]
fn the_table_has_the_actions_of_the_protocols_types() {
    let names: BTreeSet<&str> = actions::ALL.iter().map(|action| action.name).collect();
    assert_eq!((actions::ALL.len(), names.len()), (106, 106));
    for (action, kind) in actions::ALL.iter().zip(actions::in_the_types()) {
        assert_eq!(serde_json::to_value(&kind).unwrap(), action.name);
        assert_eq!(serde_json::from_value::<ActionType>(action.name.into()).unwrap(), kind);
    }
    let clients = actions::ALL.iter().filter(|action| action.allowed_sender != AllowedSender::Host).count();
    assert_eq!(clients, 47, "the protocol lets clients dispatch 47 of them");
}

#[test]
fn names_are_unique() {
    let commands: BTreeSet<&str> = commands::ALL.iter().map(|command| command.name).collect();
    assert_eq!(commands.len(), commands::ALL.len());
    let ours = commands.iter().filter(|name| name.starts_with("hostler/")).count();
    assert_eq!(commands.len() - ours, 31, "the protocol's own");
    let notifications: BTreeSet<&str> = notifications::ALL.iter().map(|row| row.name).collect();
    assert_eq!((notifications.len(), notifications::ALL.len()), (11, 11));
}

#[test]
fn every_forbidden_action_is_rejected_with_a_reason() {
    for action in actions::ALL {
        // Support is checked before form, so the action may be malformed.
        let home = action.channels[0];
        let reason = checked(home, json!({"type": action.name, "client": "unknown"}));
        match (action.allowed_sender, action.support) {
            (AllowedSender::Host, _) => {
                assert!(reason.unwrap_err().to_string().contains("only hosts send it"), "{}", action.name)
            }
            (AllowedSender::ToolOwner, _) => {
                assert!(reason.unwrap_err().to_string().contains("tools that clients run"), "{}", action.name)
            }
            (_, HostSupport::NotOffered(what)) => {
                assert_eq!(reason.unwrap_err().to_string(), format!("this host does not offer {what}"))
            }
            (AllowedSender::Client | AllowedSender::OwnClient, HostSupport::Offered) => {
                let elsewhere = checked(ChannelKind::Canvas, json!({"type": action.name}));
                assert!(
                    elsewhere.unwrap_err().to_string().contains("does not belong on this channel"),
                    "{}",
                    action.name
                );
            }
        }
    }
}

#[test]
fn malformed_and_unknown_actions_are_distinguished() {
    let reason = |action| checked(ChannelKind::Chat, action).unwrap_err().to_string();
    let half = json!({"type": "chat/turnStarted", "turnId": "t", "message": message("x")});
    assert_eq!(reason(half), r#"the action "chat/turnStarted" is malformed: missing field `startedAt`"#);
    let wrong = json!({"type": "chat/turnCancelled", "turnId": 7, "duration": 1});
    assert!(reason(wrong).contains("invalid type: integer, expected a string"));
    assert!(reason(json!({"type": "chat/fromTheFuture"})).contains("does not know"));
    let long = reason(json!({"type": "ü".repeat(10_000)}));
    assert!(long.len() < 500, "what a client says is not repeated at length");
    let long = reason(json!({"type": "chat/turnCancelled", "turnId": "t", "duration": "ü".repeat(10_000)}));
    assert!(long.contains("malformed") && long.len() < 500);
    let quoting = reason(json!({"type": "chat/turnCancelled", "turnId": "t", "duration": "planted"}));
    assert!(quoting.contains("invalid type: string, expected i64") && !quoting.contains("planted"), "{quoting}");
}

#[test]
fn a_client_dispatches_only_for_itself_and_its_user() {
    let set =
        |client: &str| json!({"type": "session/activeClientSet", "activeClient": {"clientId": client, "tools": []}});
    assert_eq!(checked(ChannelKind::Session, set("me")), Ok(()));
    assert_eq!(checked(ChannelKind::Session, set("you")).unwrap_err().to_string(), "a client can only act for itself");
    let removed = json!({"type": "session/activeClientRemoved", "clientId": "you"});
    assert!(checked(ChannelKind::Session, removed).is_err());
    for kind in ["agent", "tool", "automation", "systemNotification"] {
        let forged = json!({"text": "x", "origin": {"kind": kind}});
        let draft = json!({"type": "chat/draftChanged", "draft": forged});
        let queued = json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": forged});
        for action in [start("t", &forged), draft, queued] {
            assert!(
                checked(ChannelKind::Chat, action).unwrap_err().to_string().contains("messages of its user"),
                "{kind}"
            );
        }
    }
    assert_eq!(checked(ChannelKind::Chat, start("t", &message("x"))), Ok(()));
}

#[test]
fn oversized_values_and_empty_ids_are_rejected() {
    let long = "x".repeat(action_limits::MAX_ID_BYTES + 1);
    let fits = "x".repeat(action_limits::MAX_ID_BYTES);
    let chat = |action| checked(ChannelKind::Chat, action);
    assert_eq!(chat(start(&fits, &message("x"))), Ok(()));
    for id in ["", &*long] {
        let confirmed = |turn: &str, call: &str| json!({"type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": true});
        let cases = [
            start(id, &message("x")),
            json!({"type": "chat/turnCancelled", "turnId": id, "duration": 1}),
            json!({"type": "chat/turnResume", "turnId": id}),
            json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message("x")}),
            json!({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": id}),
            json!({"type": "chat/queuedMessagesReordered", "order": ["a", id]}),
            json!({"type": "chat/inputAnswerChanged", "requestId": id, "questionId": "q"}),
            json!({"type": "chat/inputAnswerChanged", "requestId": "r", "questionId": id}),
            json!({"type": "chat/inputCompleted", "requestId": id, "response": "cancel"}),
            confirmed(id, "c"),
            confirmed("t", id),
        ];
        for action in cases {
            assert!(chat(action.clone()).unwrap_err().to_string().contains("must have 1 to 256 bytes"), "{action}");
        }
    }
    let text = "x".repeat(action_limits::MAX_MESSAGE_TEXT_BYTES + 1);
    assert!(chat(start("t", &message(&text))).unwrap_err().to_string().contains("attach longer text"));
    assert!(chat(json!({"type": "chat/draftChanged", "draft": message(&text)})).is_err());
    let mut noted = message("x");
    noted["_meta"] = json!({"k": "x".repeat(action_limits::MAX_META_BYTES)});
    assert!(chat(start("t", &noted)).unwrap_err().to_string().contains("_meta"));
    let order = vec!["a"; action_limits::MAX_REORDERED_MESSAGES + 1];
    assert!(chat(json!({"type": "chat/queuedMessagesReordered", "order": order})).is_err());
    let huge = json!({"type": "session/configChanged", "config": {"k": "x".repeat(action_limits::MAX_ACTION_BYTES)}});
    assert!(checked(ChannelKind::Session, huge).unwrap_err().to_string().contains("at most"));
}

#[test]
fn channel_kinds_are_derived_from_their_uris() {
    let cases = [
        ("ahp-root://", Some(ChannelKind::Root)),
        ("claude:/1", Some(ChannelKind::Session)),
        ("claude:/1/annotations", Some(ChannelKind::Annotations)),
        ("claude:/1/changeset/turn/t", Some(ChannelKind::Changeset)),
        ("ahp-chat://default/x", Some(ChannelKind::Chat)),
        ("ahp-terminal:/1", Some(ChannelKind::Terminal)),
        ("agenthost-terminal:/1", Some(ChannelKind::Terminal)),
        ("ahp-resource-watch:/1", Some(ChannelKind::ResourceWatch)),
        ("ahp-automations://", Some(ChannelKind::Automations)),
        ("ahp-automation-run:/1", Some(ChannelKind::AutomationRun)),
        ("ahp-otlp://logs", None),
        ("", None),
        ("nonsense", None),
    ];
    for (channel, kind) in cases {
        assert_eq!(ChannelKind::of(channel), kind, "{channel}");
    }
}
