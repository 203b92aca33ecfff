//! Tests of the running sub-agents: parents, background and the end of a turn.

use ahp_types::state::{SessionChatInputRequest, SessionInputRequest};

use super::*;
use crate::permissions::pending_requests::InputForm;
use crate::sessions::session::Session;

fn session() -> Session {
    let now = "2026-01-01T00:00:00Z".to_owned();
    Session::provisional("ahp-session:/test/1".into(), "test".to_owned(), Vec::new(), None, now)
}

/// Running sub-agents and their parents.
fn sub_agents(all: &[(&str, Option<&str>)]) -> SubAgents {
    let mut sub_agents = SubAgents::default();
    for (id, parent) in all {
        let worker = ActiveSubAgent {
            chat_uri: format!("ahp-chat:/{id}").into(),
            parent: parent.map(str::to_owned),
            action_mapper: ActionMapper::for_sub_agent(format!("turn of {id}")),
            started_at: Instant::now(),
            is_background: false,
        };
        sub_agents.active.insert((*id).to_owned(), worker);
    }
    sub_agents
}

/// The session asks in these chats.
fn ask_in(session: &mut Session, chats: &[&str]) {
    let requests = chats.iter().map(|chat| {
        SessionInputRequest::ChatInput(SessionChatInputRequest {
            id: format!("input:{chat}"),
            chat: (*chat).to_owned(),
            request: InputForm::new(None, Vec::new()).to_request((*chat).to_owned()),
        })
    });
    Arc::make_mut(&mut session.session).input_needed = Some(requests.collect());
}

#[test]
fn children_come_before_their_parents() {
    let sub_agents = sub_agents(&[("a", None), ("b", Some("a")), ("c", Some("b")), ("other", None)]);
    assert_eq!(sub_agents.with_descendants("a"), ["c", "b", "a"]);
    assert_eq!(sub_agents.with_descendants("c"), ["c"]);
}

#[test]
fn descendants_move_to_the_background_with_their_parent() {
    let mut sub_agents = sub_agents(&[("a", None), ("b", Some("a")), ("other", None)]);
    sub_agents.move_to_background("a");
    assert!(sub_agents.is_background("a") && sub_agents.is_background("b") && !sub_agents.is_background("other"));
}

#[test]
fn a_sub_agent_without_a_chat_asks_in_its_parents_chat() {
    let sub_agents = sub_agents(&[("a", None)]);
    assert_eq!(sub_agents.with_chat(Some("a")).as_deref(), Some("a"));
    assert_eq!(sub_agents.with_chat(Some("unknown")), None);
    assert_eq!(sub_agents.target_of(Some("a")), ActionTarget::SubAgentChat("ahp-chat:/a".into()));
    assert_eq!(sub_agents.target_of(None), ActionTarget::Chat);
    assert_eq!(sub_agents.agent_in_chat("ahp-chat:/a"), Some("a"));
}

#[test]
fn the_turns_end_ends_foreground_sub_agents_and_requests_but_not_background_ones() {
    let (mut sub_agents, mut session) = (sub_agents(&[("back", None), ("front", None)]), session());
    sub_agents.move_to_background("back");
    let chat = session.chat_uri.to_string();
    ask_in(&mut session, &[&chat, "ahp-chat:/front", "ahp-chat:/back"]);
    let change = sub_agents.add_turn_end(&session, SessionChange::default());
    let removed: Vec<_> = change
        .actions()
        .filter_map(|action| match action {
            StateAction::SessionInputNeededRemoved(removed) => Some(removed.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(removed, [format!("input:{chat}").as_str(), "input:ahp-chat:/front"]);
    let ended = |action: &&StateAction| matches!(action, StateAction::ChatTurnCancelled(_));
    assert_eq!(change.actions().filter(ended).count(), 1);
    sub_agents.forget_foreground();
    assert_eq!(sub_agents.active.keys().collect::<Vec<_>>(), ["back"]);
}
