//! Several upstreams behind one host: clients see the models of all of them, and the chosen model selects the
//! upstream.

use crate::common::TestHome;
use ahp_types::StateAction;
use ahp_types::actions::ChatTurnStartedAction;
use ahp_types::state::{Message, MessageKind, MessageOrigin, ModelSelection};
use hostler_testkit::test_client::collect_text;

const ONE_UPSTREAM_CONFIG: &str = "upstream = \"scripted\"\n";
const TWO_UPSTREAMS_CONFIG: &str =
    "upstream = \"scripted\"\n[upstreams.scripted]\n[upstreams.toy]\nkind = \"scripted\"\n";

#[tokio::test]
async fn new_upstream_is_published_and_its_models_can_be_chosen() {
    let home = TestHome::new();
    home.write_config(ONE_UPSTREAM_CONFIG);
    let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
    let host = home.serve_with(&["--claude", agent.to_str().unwrap()], &[]).await;
    let mut peer = host.connect().await;

    home.write_config(TWO_UPSTREAMS_CONFIG);
    let received = peer
        .wait_for(ahp_types::ROOT_RESOURCE_URI, |envelope| {
            let StateAction::RootAgentsChanged(changed) = &envelope.action else { return false };
            changed.agents[0].models.iter().any(|model| model.id == "@toy:claude-sonnet-4-5")
        })
        .await;
    let Some(StateAction::RootAgentsChanged(changed)) = received.last().map(|envelope| &envelope.action) else {
        panic!()
    };
    assert_eq!(changed.agents[0].models[0].id, "claude-sonnet-4-5", "the default upstream's come first");

    let uris = peer.create_session(&home.work()).await;
    let message = Message {
        text: "hi".to_owned(),
        origin: MessageOrigin { kind: MessageKind::User },
        attachments: None,
        model: Some(ModelSelection { id: "@toy:claude-haiku-4-5".to_owned(), config: None }),
        agent: None,
        meta: None,
    };
    let start = ChatTurnStartedAction {
        turn_id: "t1".to_owned(),
        started_at: "2026-11-15T08:00:00.000Z".to_owned(),
        message,
        queued_message_id: None,
        meta: None,
    };
    peer.dispatch(&uris.chat, StateAction::ChatTurnStarted(start)).await;
    let received_envelopes = peer.wait_for_turn_end(&uris.chat).await;
    assert!(!collect_text(&received_envelopes).is_empty(), "{received_envelopes:#?}");
    let command = host.only_agent().command;
    assert!(command.contains("--model=claude-haiku-4-5") && !command.contains("@toy"), "{command}");
    assert!(command.contains("--disallowedTools=WebSearch"), "the scripted model cannot search the web: {command}");
    host.stop().await;
}
