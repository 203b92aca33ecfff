//! Terminals on the wire.

use super::harness::*;

area! { HostFixture::with_fake_agent_in(TestHome::new(), &[("HOSTLER_TERMINAL_SHELL", "/bin/sh")]);
    create_terminal_returns_null,
    terminal_state_is_complete,
    duplicate_terminal_uri_is_rejected,
    unknown_terminal_cannot_be_subscribed,
    typed_command_produces_output,
    typed_input_is_not_published,
    all_subscribers_receive_terminal_output,
    exited_terminal_stays_with_its_exit_code,
    disposed_terminal_is_removed,
    root_state_lists_terminals,
    any_client_can_resize_a_terminal,
    clearing_changes_neither_size_nor_claim,
    terminal_title_is_changed,
    only_the_claim_holder_passes_it_on,
    clients_cannot_dispatch_terminal_output,
    terminal_directory_out_of_reach_is_rejected,
    malformed_terminals_are_invalid,
    malformed_terminal_actions_are_rejected,
    terminal_survives_its_creators_disconnect,
}

fn fresh() -> String {
    format!("ahp-terminal:/{}", Uuid::new_v4())
}

fn claim(client: &RecordingClient) -> Value {
    json!({"kind": "client", "clientId": client.id})
}

/// Returns a terminal in the case's directory, and a client that is subscribed to it.
async fn opened(case: &ProtocolCase) -> (RecordingClient, String) {
    let (mut client, _) = case.connect_with_session().await;
    let terminal = fresh();
    let params = json!({"channel": terminal, "claim": claim(&client), "cwd": case.uri("").trim_end_matches('/')});
    assert_eq!(client.call_ok("createTerminal", params).await, Value::Null);
    state(&mut client, &terminal).await;
    (client, terminal)
}

async fn state(client: &mut RecordingClient, terminal: &str) -> Value {
    let mut snapshot = client.call_ok("subscribe", json!({"channel": terminal})).await["snapshot"].take();
    assert_eq!(snapshot["resource"], terminal);
    snapshot["state"].take()
}

fn typed(data: &str) -> Value {
    json!({"type": "terminal/input", "data": data})
}

/// Receives until the shell has printed this.
async fn shows(client: &mut RecordingClient, terminal: &str, text: &str) {
    loop {
        let envelopes = client.received_envelopes(terminal);
        let output: String = envelopes
            .iter()
            .filter(|envelope| envelope["action"]["type"] == "terminal/data")
            .filter_map(|envelope| envelope["action"]["data"].as_str())
            .collect();
        if output.contains(text) {
            return;
        }
        assert!(client.receive().await, "the host hung up");
    }
}

async fn create_terminal_returns_null(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    assert_eq!(client.call_ok("disposeTerminal", json!({"channel": terminal})).await, Value::Null);
}

async fn terminal_state_is_complete(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let now = state(&mut client, &terminal).await;
    assert_eq!((&now["lifecycle"]["status"], &now["claim"]), (&json!("running"), &claim(&client)), "{now:#}");
    assert_eq!((&now["cols"], &now["rows"]), (&json!(80), &json!(24)));
    assert_eq!(now["cwd"], case.uri("").trim_end_matches('/'));
    let typed: ahp_types::state::SnapshotState = serde_json::from_value(now.clone()).unwrap();
    assert!(matches!(typed, ahp_types::state::SnapshotState::Terminal(_)), "{typed:?}");
}

async fn duplicate_terminal_uri_is_rejected(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let params = json!({"channel": terminal, "claim": claim(&client)});
    assert_eq!(client.call_error_code("createTerminal", params).await, -32010);
}

async fn unknown_terminal_cannot_be_subscribed(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let code = client.call_error_code("subscribe", json!({"channel": fresh()})).await;
    assert!([-32001, -32008].contains(&code), "{code}");
    assert_eq!(client.call_error_code("disposeTerminal", json!({"channel": fresh()})).await, -32008);
}

async fn typed_command_produces_output(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    client.dispatch_accepted(&terminal, typed("echo $((6*7)); pwd\n")).await;
    shows(&mut client, &terminal, &format!("42\r\n{}\r\n", case.dir.display())).await;
}

async fn typed_input_is_not_published(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let mut other = case.connect_client().await;
    state(&mut other, &terminal).await;
    // For example a password: the shell does not echo it either. The typed command is echoed, and must differ from
    // the output.
    client.dispatch_accepted(&terminal, typed("stty -echo; echo rea''dy\n")).await;
    shows(&mut client, &terminal, "ready\r\n").await;
    client.dispatch_accepted(&terminal, typed("true horse-battery\n")).await;
    client.dispatch_accepted(&terminal, typed("echo over\n")).await;
    shows(&mut other, &terminal, "over\r\n").await;
    for received in [&client.received, &other.received] {
        assert!(!received.iter().any(|message| message.to_string().contains("horse-battery")));
    }
}

async fn all_subscribers_receive_terminal_output(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let mut other = case.connect_client().await;
    state(&mut other, &terminal).await;
    other.dispatch_accepted(&terminal, typed("echo from-$((1+1))\n")).await;
    shows(&mut client, &terminal, "from-2").await;
    shows(&mut other, &terminal, "from-2").await;
}

async fn exited_terminal_stays_with_its_exit_code(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    client.dispatch_accepted(&terminal, typed("exit 3\n")).await;
    client.wait_for_action(&terminal, "terminal/exited").await;
    let now = state(&mut case.connect_client().await, &terminal).await;
    assert_eq!(now["lifecycle"], json!({"status": "exited", "exitCode": 3}));
    client.dispatch_rejected(&terminal, typed("x")).await;
}

async fn disposed_terminal_is_removed(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    client.call_ok("disposeTerminal", json!({"channel": terminal})).await;
    let code = client.call_error_code("subscribe", json!({"channel": terminal})).await;
    assert!([-32001, -32008].contains(&code), "{code}");
    let params = json!({"channel": terminal, "claim": claim(&client)});
    client.call_ok("createTerminal", params).await;
}

async fn root_state_lists_terminals(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, terminal) = opened(&case).await;
    let lists = |list: &Value| list.as_array().is_some_and(|all| all.iter().any(|one| one["resource"] == *terminal));
    let changed = |message: &Value| {
        message["params"]["action"]["type"] == "root/terminalsChanged"
            && lists(&message["params"]["action"]["terminals"])
    };
    other.wait_for(changed).await;
    assert!(lists(&other.subscribe(ROOT).await["terminals"]));
    client.call_ok("disposeTerminal", json!({"channel": terminal})).await;
    while lists(&other.subscribe(ROOT).await["terminals"]) {
        other.wait_for_envelope(ROOT, "root/terminalsChanged").await;
    }
    other.assert_state_matches_host(ROOT).await;
}

async fn any_client_can_resize_a_terminal(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let mut other = case.connect_client().await;
    state(&mut other, &terminal).await;
    other.dispatch_accepted(&terminal, json!({"type": "terminal/resized", "cols": 101, "rows": 33})).await;
    client.wait_for_action(&terminal, "terminal/resized").await;
    client.dispatch_accepted(&terminal, typed("stty size\n")).await;
    shows(&mut client, &terminal, "33 101").await;
}

async fn clearing_changes_neither_size_nor_claim(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    client.dispatch_accepted(&terminal, typed("echo some-$((1+1))\n")).await;
    shows(&mut client, &terminal, "some-2").await;
    client.dispatch_accepted(&terminal, json!({"type": "terminal/cleared"})).await;
    let now = state(&mut client, &terminal).await;
    assert!(!now["content"].to_string().contains("some-2"), "{now:#}");
    assert_eq!((&now["cols"], &now["claim"]), (&json!(80), &claim(&client)));
}

async fn terminal_title_is_changed(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    client.dispatch_accepted(&terminal, json!({"type": "terminal/titleChanged", "title": "Mine"})).await;
    assert_eq!(state(&mut client, &terminal).await["title"], "Mine");
}

async fn only_the_claim_holder_passes_it_on(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    let mut other = case.connect_client().await;
    state(&mut other, &terminal).await;
    let claimed = |claim: Value| json!({"type": "terminal/claimed", "claim": claim});
    let (mine, theirs) = (claim(&client), claim(&other));
    other.dispatch_rejected(&terminal, claimed(theirs.clone())).await;
    client.dispatch_accepted(&terminal, claimed(theirs.clone())).await;
    client.dispatch_rejected(&terminal, claimed(mine)).await;
    assert_eq!(state(&mut client, &terminal).await["claim"], theirs);
}

async fn clients_cannot_dispatch_terminal_output(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    for action in [
        json!({"type": "terminal/data", "data": "forged"}),
        json!({"type": "terminal/cwdChanged", "cwd": "file:///"}),
        json!({"type": "terminal/exited", "exitCode": 0}),
        json!({"type": "terminal/commandDetectionAvailable"}),
        json!({"type": "terminal/commandExecuted"}),
        json!({"type": "terminal/commandFinished"}),
    ] {
        client.dispatch_rejected(&terminal, action).await;
    }
    let now = state(&mut client, &terminal).await;
    assert!(now["lifecycle"]["status"] == "running" && !now["content"].to_string().contains("forged"), "{now:#}");
}

async fn terminal_directory_out_of_reach_is_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = |cwd: String| json!({"channel": fresh(), "claim": claim(&client), "cwd": cwd});
    let (outside, nonsense) = (params(file_uri(&case.fixture.home.path("claude"))), params("nonsense".into()));
    assert_eq!(client.call_error_code("createTerminal", outside).await, -32009);
    assert_eq!(client.call_error_code("createTerminal", nonsense).await, -32602);
}

async fn malformed_terminals_are_invalid(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let own = claim(&client);
    for params in [
        json!({"channel": fresh()}),
        json!({"channel": "claude:/x", "claim": own}),
        json!({"channel": fresh(), "claim": {"kind": "client", "clientId": "another"}}),
        json!({"channel": fresh(), "claim": {"kind": "unknown"}}),
        json!({"channel": fresh(), "claim": own, "cols": 0}),
        json!({"channel": fresh(), "claim": own, "rows": 1_000_000}),
        json!({"channel": fresh(), "claim": own, "name": 7}),
    ] {
        assert_eq!(client.call_error_code("createTerminal", params.clone()).await, -32602, "{params}");
    }
}

async fn malformed_terminal_actions_are_rejected(case: ProtocolCase) {
    let (mut client, terminal) = opened(&case).await;
    for action in [
        json!({"type": "terminal/input"}),
        json!({"type": "terminal/input", "data": 7}),
        json!({"type": "terminal/resized", "cols": 0, "rows": 0}),
        json!({"type": "terminal/resized", "cols": "wide"}),
        json!({"type": "terminal/titleChanged", "title": ""}),
        json!({"type": "terminal/fromTheFuture"}),
        json!({"type": "session/titleChanged", "title": "x"}),
        turn_started_action("hello"),
    ] {
        client.dispatch_rejected(&terminal, action).await;
    }
}

async fn terminal_survives_its_creators_disconnect(case: ProtocolCase) {
    let (client, terminal) = opened(&case).await;
    drop(client);
    let mut other = case.connect_client().await;
    state(&mut other, &terminal).await;
    other.dispatch_accepted(&terminal, typed("echo still-$((1+1))\n")).await;
    shows(&mut other, &terminal, "still-2").await;
}
