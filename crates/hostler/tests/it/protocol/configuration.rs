//! Session configuration: schema, values and completions.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    config_schema_is_an_object_with_defaults,
    resolving_config_has_no_side_effects,
    chosen_value_is_in_the_resolved_values,
    invalid_choice_is_rejected,
    config_of_an_unknown_provider_is_rejected,
    config_resolves_without_values,
    config_values_are_completed_by_prefix_and_substring,
    unknown_config_property_has_no_completions,
    branches_are_completed_from_git,
    session_state_has_config_schema_and_values,
    config_change_is_merged,
    config_change_with_replace_replaces_all_values,
    null_clears_a_config_value,
    config_value_outside_the_schema_is_rejected,
    unknown_config_key_is_rejected_or_ignored,
    immutable_config_key_is_rejected,
    editor_modes_and_permission_mode_stay_in_sync,
    rejected_config_change_changes_nothing,
    config_change_reaches_all_clients,
    config_change_applies_during_a_turn,
}

async fn resolved(client: &mut RecordingClient, params: Value) -> Value {
    client.call_ok("resolveSessionConfig", params).await
}

async fn values(client: &mut RecordingClient, session: &str) -> Value {
    client.subscribe(session).await["config"]["values"].take()
}

fn change(config: Value) -> Value {
    json!({"type": "session/configChanged", "config": config})
}

async fn config_schema_is_an_object_with_defaults(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let answer = resolved(&mut client, json!({"provider": "claude", "workingDirectory": case.uri("")})).await;
    assert_eq!(answer["schema"]["type"], "object");
    let properties = answer["schema"]["properties"].as_object().unwrap();
    for (name, property) in properties {
        assert!(property["type"].is_string() && property["title"].is_string(), "{name}: {property:#}");
        if let Some(default) = property.get("default") {
            assert_eq!(&answer["values"][name], default, "{name}");
        }
    }
    assert_eq!(properties["permissionMode"]["sessionMutable"], true);
    assert_eq!(answer["values"]["permissionMode"], "default");
}

async fn resolving_config_has_no_side_effects(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let before = client.subscribe(ROOT).await;
    for _ in 0..5 {
        resolved(&mut client, json!({"config": {"permissionMode": "plan"}})).await;
    }
    assert_eq!(client.subscribe(ROOT).await["config"], before["config"]);
    assert_eq!(resolved(&mut client, json!({})).await["values"]["permissionMode"], "default");
}

async fn chosen_value_is_in_the_resolved_values(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let answer = resolved(&mut client, json!({"config": {"permissionMode": "acceptEdits"}})).await;
    assert_eq!(answer["values"]["permissionMode"], "acceptEdits");
}

async fn invalid_choice_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for config in [json!({"permissionMode": "x"}), json!({"permissionMode": []}), json!({"isolation": "worktree"})] {
        assert_eq!(client.call_error_code("resolveSessionConfig", json!({"config": config})).await, -32602, "{config}");
    }
    assert_eq!(client.call_error_code("resolveSessionConfig", json!({"config": 7})).await, -32602);
}

async fn config_of_an_unknown_provider_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(client.call_error_code("resolveSessionConfig", json!({"provider": "codex"})).await, -32002);
    let params = json!({"provider": "codex", "property": "model"});
    assert_eq!(client.call_error_code("sessionConfigCompletions", params).await, -32002);
}

async fn config_resolves_without_values(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let nowhere = json!({"workingDirectory": "file:///does/not/exist"});
    for params in [json!({}), json!({"channel": ROOT}), json!({"config": {}}), nowhere] {
        assert!(resolved(&mut client, params).await["values"].is_object());
    }
}

async fn offered(client: &mut RecordingClient, property: &str, query: &str, directory: &str) -> Vec<String> {
    let params = json!({"provider": "claude", "workingDirectory": directory, "property": property, "query": query});
    let answer = client.call_ok("sessionConfigCompletions", params).await;
    let items = answer["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["label"].is_string()), "{answer:#}");
    items.iter().map(|item| item["value"].as_str().unwrap().to_owned()).collect()
}

async fn config_values_are_completed_by_prefix_and_substring(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(offered(&mut client, "permissionMode", "edits", "").await, ["acceptEdits"]);
    assert_eq!(offered(&mut client, "permissionMode", "EDITS", "").await, ["acceptEdits"]);
    assert!(offered(&mut client, "model", "", "").await.len() > 1);
    assert_eq!(offered(&mut client, "permissionMode", "zzz", "").await, [""; 0]);
}

async fn unknown_config_property_has_no_completions(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(offered(&mut client, "nonsense", "", "").await, [""; 0]);
    assert_eq!(client.call_error_code("sessionConfigCompletions", json!({"provider": "claude"})).await, -32602);
}

fn git(case: &ProtocolCase, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    let mut command = std::process::Command::new("git");
    let output = command.current_dir(&case.dir).args(identity).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn branches_are_completed_from_git(case: ProtocolCase) {
    git(&case, &["init", "--quiet", "--initial-branch=main"]);
    git(&case, &["commit", "--quiet", "--allow-empty", "--message=first"]);
    git(&case, &["branch", "feature/login"]);
    let mut client = case.connect_client().await;
    assert_eq!(offered(&mut client, "branch", "", &case.uri("")).await, ["main", "feature/login"]);
    assert_eq!(offered(&mut client, "branch", "LOG", &case.uri("")).await, ["feature/login"]);
    let answer = resolved(&mut client, json!({"workingDirectory": case.uri("")})).await;
    assert_eq!((&answer["values"]["branch"], &answer["values"]["isolation"]), (&json!("main"), &json!("folder")));
}

async fn session_state_has_config_schema_and_values(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["config"]["schema"]["type"], "object");
    assert_eq!(state["config"]["values"]["permissionMode"], "default");
}

async fn config_change_is_merged(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, change(json!({"effort": "low"}))).await;
    client.dispatch_accepted(&uris.session, change(json!({"permissionMode": "plan"}))).await;
    let values = values(&mut client, &uris.session).await;
    assert_eq!((&values["effort"], &values["permissionMode"]), (&json!("low"), &json!("plan")));
    client.assert_state_matches_host(&uris.session).await;
}

async fn config_change_with_replace_replaces_all_values(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, change(json!({"effort": "low", "permissionMode": "plan"}))).await;
    let replace =
        json!({"type": "session/configChanged", "config": {"permissionMode": "acceptEdits"}, "replace": true});
    client.dispatch_accepted(&uris.session, replace).await;
    let values = values(&mut client, &uris.session).await;
    assert_eq!(values["permissionMode"], "acceptEdits");
    assert_ne!(values["effort"], "low", "{values:#}");
    assert_eq!(values["isolation"], "folder", "what cannot be changed stays");
    client.assert_state_matches_host(&uris.session).await;
}

async fn null_clears_a_config_value(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, change(json!({"effort": "low"}))).await;
    client.dispatch_accepted(&uris.session, change(json!({"effort": null}))).await;
    assert_ne!(values(&mut client, &uris.session).await["effort"], "low");
}

async fn unchanged(case: &ProtocolCase, bad: &[Value]) {
    let (mut client, uris) = case.connect_with_session().await;
    let before = client.subscribe(&uris.session).await;
    for config in bad {
        client.dispatch_rejected(&uris.session, change(config.clone())).await;
    }
    assert_eq!(client.subscribe(&uris.session).await, before);
}

async fn config_value_outside_the_schema_is_rejected(case: ProtocolCase) {
    let bad = [
        json!({"permissionMode": "nonsense"}),
        json!({"permissionMode": 7}),
        json!({"effort": ["low"]}),
        json!({"model": "unknown"}),
        json!({"thinkingBudget": "much"}),
        json!({"permissionMode": "bypassPermissions"}),
    ];
    unchanged(&case, &bad).await;
}

async fn unknown_config_key_is_rejected_or_ignored(case: ProtocolCase) {
    unchanged(&case, &[json!({"unknownSetting": true}), json!({"": 1})]).await;
}

async fn immutable_config_key_is_rejected(case: ProtocolCase) {
    unchanged(&case, &[json!({"isolation": "worktree"}), json!({"isolation": null, "branch": "x"})]).await;
}

async fn editor_modes_and_permission_mode_stay_in_sync(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for (config, expected) in [
        (json!({"autoApprove": "assisted"}), ["acceptEdits", "interactive", "assisted"]),
        (json!({"mode": "plan"}), ["plan", "plan", "assisted"]),
        (json!({"mode": "interactive"}), ["acceptEdits", "interactive", "assisted"]),
        (json!({"permissionMode": "default"}), ["default", "interactive", "default"]),
    ] {
        client.dispatch_accepted(&uris.session, change(config.clone())).await;
        let values = values(&mut client, &uris.session).await;
        let now = ["permissionMode", "mode", "autoApprove"].map(|key| values[key].as_str().unwrap().to_owned());
        assert_eq!(now, expected, "{config}");
    }
    client.assert_state_matches_host(&uris.session).await;
}

async fn rejected_config_change_changes_nothing(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_rejected(&uris.session, change(json!({"effort": "low", "permissionMode": "nonsense"}))).await;
    assert_ne!(values(&mut client, &uris.session).await["effort"], "low", "all or nothing");
}

async fn config_change_reaches_all_clients(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.dispatch_accepted(&uris.session, change(json!({"permissionMode": "plan"}))).await;
    other.wait_for_envelope(&uris.session, "session/configChanged").await;
    other.assert_state_matches_host(&uris.session).await;
}

async fn config_change_applies_during_a_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_accepted(&uris.session, change(json!({"permissionMode": "plan"}))).await;
    assert_eq!(values(&mut client, &uris.session).await["permissionMode"], "plan");
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}
