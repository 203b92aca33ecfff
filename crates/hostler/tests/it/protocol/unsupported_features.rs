//! Unsupported features: neither advertised nor carried out, and the rejection states it.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    second_chat_is_rejected,
    chat_fork_is_rejected,
    side_chat_is_rejected,
    default_chat_accepts_no_initial_message,
    chat_of_an_unknown_session_is_32001,
    disposing_a_chat_is_rejected,
    moving_a_chat_is_rejected,
    changeset_operations_are_unknown,
    automations_are_unknown,
    private_editor_methods_are_unknown,
    future_methods_are_unknown,
    invalid_method_names_are_unknown,
    mcp_channels_are_not_served,
    truncation_is_rejected_and_nothing_is_lost,
    client_tools_are_not_run,
    state_advertises_no_unsupported_feature,
}

async fn second_chat_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let peer = uris.chat.replace("//default/", "//peer/");
    assert_eq!(client.call_error_code("createChat", json!({"channel": uris.session, "chat": peer})).await, -32602);
    assert_eq!(client.subscribe(&uris.session).await["chats"].as_array().unwrap().len(), 1);
}

async fn sourced(case: &ProtocolCase, kind: &str) -> i64 {
    let (mut client, uris) = case.connect_with_started_session().await;
    let turn = client.subscribe(&uris.chat).await["turns"][0]["id"].take();
    let peer = uris.chat.replace("//default/", "//peer/");
    let source = json!({"kind": kind, "chat": uris.chat, "turnId": turn});
    let code =
        client.call_error_code("createChat", json!({"channel": uris.session, "chat": peer, "source": source})).await;
    let same = json!({"channel": uris.session, "chat": uris.chat, "source": source});
    assert_eq!(client.call_error_code("createChat", same).await, -32602);
    code
}

async fn chat_fork_is_rejected(case: ProtocolCase) {
    assert_eq!(sourced(&case, "fork").await, -32602);
}

async fn side_chat_is_rejected(case: ProtocolCase) {
    assert_eq!(sourced(&case, "sideChat").await, -32602);
}

async fn default_chat_accepts_no_initial_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let params = json!({"channel": uris.session, "chat": uris.chat, "initialMessage": user_message("hello")});
    assert_eq!(client.call_error_code("createChat", params).await, -32602);
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]));
}

async fn chat_of_an_unknown_session_is_32001(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    assert_eq!(client.call_error_code("createChat", json!({"channel": uris.session, "chat": uris.chat})).await, -32001);
    assert_eq!(client.call_error_code("createChat", json!({"channel": uris.session})).await, -32602);
}

async fn disposing_a_chat_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    assert_eq!(client.call_error_code("disposeChat", json!({"channel": uris.chat})).await, -32602);
    client.send_and_wait(&uris.chat, "still here").await;
}

async fn moving_a_chat_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let params = json!({"channel": uris.chat, "destination": {"kind": "newSession"}});
    assert_eq!(client.call_error_code("moveChat", params).await, -32602);
}

async fn unknown(case: &ProtocolCase, methods: &[&str]) {
    let (mut client, uris) = case.connect_with_session().await;
    for method in methods {
        for params in [json!({"channel": uris.session}), json!({}), json!(null), json!(7)] {
            assert_eq!(client.call_error_code(method, params).await, -32601, "{method}");
        }
    }
    client.call_ok("ping", json!({})).await;
}

async fn changeset_operations_are_unknown(case: ProtocolCase) {
    unknown(&case, &["invokeChangesetOperation"]).await;
}

async fn automations_are_unknown(case: ProtocolCase) {
    unknown(&case, &["listAutomationTriggerDefinitions", "runAutomation", "fetchAutomationRuns"]).await;
}

async fn private_editor_methods_are_unknown(case: ProtocolCase) {
    let methods = [
        "shutdown",
        "getNetworkDiagnosticsInfo",
        "getManagedSettingsDiagnostics",
        "diagnosticsFetch",
        "_vscodeUpgrade",
    ];
    unknown(&case, &methods).await;
}

async fn future_methods_are_unknown(case: ProtocolCase) {
    unknown(&case, &["channel/credit", "forwardTcp", "hostler/fromTheFuture", "session/ready"]).await;
}

async fn invalid_method_names_are_unknown(case: ProtocolCase) {
    unknown(&case, &["", " ", "PING", "ping ", "ピング", "dispatchAction", "unsubscribe", "action"]).await;
}

async fn mcp_channels_are_not_served(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let code = client.call_error_code("tools/list", json!({"channel": "mcp://server"})).await;
    assert_eq!(code, -32601);
}

async fn truncation_is_rejected_and_nothing_is_lost(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.send_and_wait(&uris.chat, "two").await;
    let before = client.subscribe(&uris.chat).await;
    for turn in [json!(null), before["turns"][0]["id"].clone(), json!("unknown")] {
        let mut action = json!({"type": "chat/truncated"});
        if !turn.is_null() {
            action["turnId"] = turn;
        }
        client.dispatch_rejected(&uris.chat, action).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["turns"], before["turns"]);
}

async fn client_tools_are_not_run(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let result = json!({"success": true, "pastTenseMessage": "done"});
    let action = json!({"type": "chat/toolCallComplete", "turnId": "t", "toolCallId": "c", "result": result});
    assert!(client.dispatch_rejected(&uris.chat, action).await.contains("does not offer"));
}

async fn state_advertises_no_unsupported_feature(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let root = client.subscribe(ROOT).await;
    for agent in root["agents"].as_array().unwrap() {
        for capability in ["fork", "sideChat"] {
            assert!(!agent["capabilities"].to_string().contains(capability), "{agent:#}");
        }
        assert_eq!(agent.get("customizations"), None);
    }
    let session = client.subscribe(&uris.session).await;
    for key in ["changesets", "customizations", "serverTools"] {
        assert_eq!(session.get(key), None, "{key}");
    }
    let chat = client.subscribe(&uris.chat).await;
    for key in ["canvases", "changesets"] {
        assert_eq!(chat.get(key), None, "{key}");
    }
}
