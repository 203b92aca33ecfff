//! Root channel: its state, the session list, and notifications about sessions.

use std::time::Duration;

use super::harness::*;
use crate::common::TEST_TIMEOUT;

area! { HostFixture::with_fake_agent();
    root_offers_an_agent_with_models,
    provider_id_is_a_valid_uri_scheme,
    no_sign_in_is_requested,
    several_chats_are_not_advertised,
    session_is_listed_once_materialized,
    session_list_entry_is_complete,
    session_list_is_newest_first,
    new_session_is_announced_with_its_whole_summary,
    session_is_announced_once,
    summary_changes_contain_only_mutable_fields,
    title_change_reaches_the_session_list,
    flag_changes_reach_the_session_list,
    status_reaches_the_session_list_during_and_after_a_turn,
    disposed_session_is_removed_from_the_list,
    host_only_root_actions_are_rejected,
    root_configuration_is_published,
    root_config_value_reaches_all_clients,
    unknown_root_config_keys_are_stored,
    unchanged_root_value_is_echoed,
    root_config_with_replace_replaces_all_values,
    editor_burst_with_repeated_numbers_is_accepted,
    oversized_root_configuration_is_rejected,
    malformed_root_configuration_is_rejected,
}

async fn root(client: &mut RecordingClient) -> Value {
    client.subscribe(ROOT).await
}

async fn listed(client: &mut RecordingClient) -> Vec<Value> {
    client.call_ok("listSessions", json!({"channel": ROOT})).await["items"].as_array().unwrap().clone()
}

async fn line(client: &mut RecordingClient, session: &str) -> Option<Value> {
    listed(client).await.into_iter().find(|item| item["resource"] == session)
}

/// Waits until a list entry matches; it follows a moment later.
async fn wait_for_summary_change(client: &mut RecordingClient, session: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let about = |message: &Value| {
        message["method"] == "root/sessionSummaryChanged"
            && message["params"]["session"] == session
            && fits(&message["params"]["changes"])
    };
    client.wait_for(about).await["params"]["changes"].take()
}

async fn root_offers_an_agent_with_models(case: ProtocolCase) {
    let state = root(&mut case.connect_client().await).await;
    let agent = &state["agents"][0];
    assert_eq!(agent["provider"], "claude");
    for text in ["displayName", "description"] {
        assert!(!agent[text].as_str().unwrap().is_empty(), "{agent:#}");
    }
    let models = agent["models"].as_array().unwrap();
    assert!(!models.is_empty());
    for model in models {
        assert!(model["id"].is_string() && model["name"].is_string() && model["provider"] == "claude", "{model:#}");
    }
}

async fn provider_id_is_a_valid_uri_scheme(case: ProtocolCase) {
    let state = root(&mut case.connect_client().await).await;
    for agent in state["agents"].as_array().unwrap() {
        let provider = agent["provider"].as_str().unwrap();
        assert!(provider.starts_with(|c: char| c.is_ascii_lowercase()), "{provider}");
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
        assert!(provider.chars().all(legal), "{provider}");
    }
}

async fn no_sign_in_is_requested(case: ProtocolCase) {
    let state = root(&mut case.connect_client().await).await;
    assert!(state["agents"].as_array().unwrap().iter().all(|agent| agent.get("protectedResources").is_none()));
}

async fn several_chats_are_not_advertised(case: ProtocolCase) {
    let state = root(&mut case.connect_client().await).await;
    for agent in state["agents"].as_array().unwrap() {
        assert_eq!(agent["capabilities"].get("multipleChats"), None, "{agent:#}");
    }
}

async fn session_is_listed_once_materialized(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    assert_eq!(line(&mut client, &uris.session).await, None, "provisional");
    client.send_and_wait(&uris.chat, "hello").await;
    assert!(line(&mut client, &uris.session).await.is_some());
}

async fn session_list_entry_is_complete(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let line = line(&mut client, &uris.session).await.unwrap();
    assert_eq!((&line["provider"], &line["defaultChat"]), (&json!("claude"), &json!(uris.chat)));
    assert_eq!(line["title"], "hello");
    assert_eq!(line["workingDirectories"], json!([case.uri("").trim_end_matches('/')]));
    for time in ["createdAt", "modifiedAt"] {
        let text = line[time].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z') && text.contains('.'), "{time}: {text}");
    }
    assert!(line["status"].is_u64());
}

async fn session_list_is_newest_first(case: ProtocolCase) {
    let (mut client, one) = case.connect_with_started_session().await;
    let two = client.create_session(&case.dir).await;
    let later = |seconds: i64| {
        let mut turn = turn_started_action("hello");
        turn["startedAt"] = json!(format!("2031-01-01T00:00:{seconds:02}.000Z"));
        turn
    };
    for (uris, seconds) in [(&one, 10), (&two, 20), (&one, 30)] {
        let turn = later(seconds);
        let id = turn["turnId"].as_str().unwrap().to_owned();
        client.dispatch_accepted(&uris.chat, turn).await;
        client.wait_for_turn_end(&uris.chat, &id).await;
        let items = listed(&mut client).await;
        let place = |uris: &CaseUris| items.iter().position(|item| item["resource"] == uris.session).unwrap();
        let (this, that) = if uris.session == one.session { (&one, &two) } else { (&two, &one) };
        if items.iter().any(|item| item["resource"] == that.session) {
            assert!(place(this) < place(that), "{items:#?}");
        }
    }
}

async fn new_session_is_announced_with_its_whole_summary(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_message(&uris.chat, "hello").await;
    let added = client.wait_for_notification("root/sessionAdded", &uris.session).await;
    assert_eq!(added["channel"], ROOT);
    let summary = &added["summary"];
    assert_eq!((&summary["provider"], &summary["defaultChat"]), (&json!("claude"), &json!(uris.chat)));
    assert!(summary["createdAt"].is_string() && summary["status"].is_u64() && summary["title"].is_string());
}

async fn session_is_announced_once(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.send_and_wait(&uris.chat, "again").await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    client.wait_for_notification("root/sessionRemoved", &uris.session).await;
    let added = |message: &&Value| {
        message["method"] == "root/sessionAdded" && message["params"]["summary"]["resource"] == uris.session
    };
    assert_eq!(client.received.iter().filter(added).count(), 1);
}

async fn summary_changes_contain_only_mutable_fields(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Changed"})).await;
    wait_for_summary_change(&mut client, &uris.session, |changes| changes["title"] == "Changed").await;
    for message in client.received.iter().filter(|message| message["method"] == "root/sessionSummaryChanged") {
        let changes = message["params"]["changes"].as_object().unwrap();
        assert!(!changes.is_empty(), "{message}");
        for fixed in ["resource", "provider", "createdAt"] {
            assert!(!changes.contains_key(fixed), "{message}");
        }
    }
}

async fn title_change_reaches_the_session_list(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Ünïcode 🐎"})).await;
    wait_for_summary_change(&mut client, &uris.session, |changes| changes["title"] == "Ünïcode 🐎").await;
    assert_eq!(line(&mut client, &uris.session).await.unwrap()["title"], "Ünïcode 🐎");
}

async fn flag_changes_reach_the_session_list(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for (action, key, bit) in [("session/isReadChanged", "isRead", 32), ("session/isArchivedChanged", "isArchived", 64)]
    {
        for set in [true, false] {
            client.dispatch_accepted(&uris.session, json!({"type": action, key: set})).await;
            // The list follows the session; it may lag a moment.
            let follows = async {
                while (line(&mut client, &uris.session).await.unwrap()["status"].as_u64().unwrap() & bit != 0) != set {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(TEST_TIMEOUT, follows).await.expect("the list follows");
        }
    }
}

async fn status_reaches_the_session_list_during_and_after_a_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    wait_for_summary_change(&mut client, &uris.session, |changes| {
        changes["status"].as_u64().is_some_and(|s| s & 31 == 8)
    })
    .await;
    assert_eq!(line(&mut client, &uris.session).await.unwrap()["status"].as_u64().unwrap() & 31, 8);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    wait_for_summary_change(&mut client, &uris.session, |changes| {
        changes["status"].as_u64().is_some_and(|s| s & 31 == 1)
    })
    .await;
}

async fn disposed_session_is_removed_from_the_list(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut other = case.connect_client().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    let removed = other.wait_for_notification("root/sessionRemoved", &uris.session).await;
    assert_eq!(removed, json!({"channel": ROOT, "session": uris.session}));
    assert_eq!(line(&mut other, &uris.session).await, None);
}

async fn host_only_root_actions_are_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let before = root(&mut client).await["agents"].clone();
    for action in [
        json!({"type": "root/agentsChanged", "agents": []}),
        json!({"type": "root/activeSessionsChanged", "activeSessions": 7}),
        json!({"type": "root/terminalsChanged", "terminals": []}),
    ] {
        client.dispatch_rejected(ROOT, action).await;
    }
    assert_eq!(root(&mut client).await["agents"], before);
}

async fn root_configuration_is_published(case: ProtocolCase) {
    let state = root(&mut case.connect_client().await).await;
    assert_eq!(state["config"]["schema"]["type"], "object");
    assert!(state["config"]["values"].is_object());
    let properties = state["config"]["schema"]["properties"].as_object().unwrap();
    for name in ["permissionMode", "model", "effort"] {
        assert!(properties.contains_key(name), "{name} in {properties:#?}");
    }
}

fn configure(values: &Value) -> Value {
    json!({"type": "root/configChanged", "config": values})
}

async fn root_config_value_reaches_all_clients(case: ProtocolCase) {
    let (mut one, mut two) = (case.connect_client().await, case.connect_client().await);
    let key = format!("shared-{}", case.version);
    one.dispatch_accepted(ROOT, configure(&json!({&key: [1, "two"]}))).await;
    let is_change = |message: &Value| message["params"]["action"]["config"].get(&key).is_some();
    two.wait_for(is_change).await;
    two.assert_state_matches_host(ROOT).await;
    assert_eq!(root(&mut two).await["config"]["values"][&key], json!([1, "two"]));
}

async fn unknown_root_config_keys_are_stored(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let key = format!("own-{}", case.version);
    client.dispatch_accepted(ROOT, configure(&json!({&key: {"telemetryLevel": "off"}}))).await;
    client.dispatch_accepted(ROOT, configure(&json!({"another": true}))).await;
    assert_eq!(
        root(&mut case.connect_client().await).await["config"]["values"][&key],
        json!({"telemetryLevel": "off"})
    );
}

async fn unchanged_root_value_is_echoed(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let key = format!("same-{}", case.version);
    for _ in 0..3 {
        client.dispatch_accepted(ROOT, configure(&json!({&key: 1}))).await;
    }
}

async fn root_config_with_replace_replaces_all_values(case: ProtocolCase) {
    // The root is shared by all clients: this case uses its own host.
    let stage = std::sync::Arc::new(HostFixture::with_fake_agent().await);
    let own = ProtocolCase::new(&stage, "replaced", case.version);
    let mut client = own.connect_client().await;
    client.dispatch_accepted(ROOT, configure(&json!({"a": 1, "b": 2}))).await;
    client.dispatch_accepted(ROOT, json!({"type": "root/configChanged", "config": {"b": 3}, "replace": true})).await;
    let values = root(&mut client).await["config"]["values"].clone();
    assert_eq!((values.get("a"), &values["b"]), (None, &json!(3)), "{values:#}");
    client.assert_state_matches_host(ROOT).await;
    drop((client, own));
    std::sync::Arc::into_inner(stage).unwrap().host.stop().await;
}

async fn editor_burst_with_repeated_numbers_is_accepted(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let key = |number: i32| format!("burst-{number}-{}", case.version);
    for number in 0..34 {
        client.dispatch_with_seq(0, ROOT, configure(&json!({key(number): number}))).await;
    }
    client.dispatch_accepted(ROOT, configure(&json!({"burst": "over"}))).await;
    let values = root(&mut client).await["config"]["values"].clone();
    for number in 0..34 {
        assert_eq!(values[key(number)], number, "each of them counts");
    }
}

async fn oversized_root_configuration_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.dispatch_rejected(ROOT, configure(&json!({"huge": "x".repeat(1_100_000)}))).await;
    assert_eq!(root(&mut client).await["config"]["values"].get("huge"), None);
}

async fn malformed_root_configuration_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for action in [
        json!({"type": "root/configChanged"}),
        json!({"type": "root/configChanged", "config": 7}),
        json!({"type": "root/configChanged", "config": ["x"]}),
        configure(&json!({"permissionMode": "no such mode"})),
        configure(&json!({"model": 7})),
    ] {
        client.dispatch_rejected(ROOT, action).await;
    }
}
