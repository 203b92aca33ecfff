//! Version negotiation, and errors for clients without a common version.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    only_offered_version_is_accepted,
    highest_offered_version_is_accepted_in_any_position,
    patch_of_a_known_version_is_accepted_as_offered,
    newer_minor_of_one_is_accepted_as_offered,
    other_minor_below_one_is_rejected,
    other_major_is_rejected,
    older_versions_are_rejected_with_the_supported_ones,
    version_rejection_names_the_release_to_update_to,
    rejected_client_is_disconnected,
    editor_version_list_negotiates_the_common_version,
    invalid_versions_among_the_offers_are_ignored,
    only_invalid_versions_are_rejected,
    missing_versions_are_rejected,
    non_list_versions_are_invalid_and_may_be_corrected,
    clients_of_two_versions_share_a_session,
}

async fn offer(case: &ProtocolCase, offers: Value) -> Result<Value, Value> {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"channel": ROOT, "protocolVersions": offers, "clientId": client.id});
    client.call("initialize", params).await
}

async fn accepted_version(case: &ProtocolCase, offers: Value) -> String {
    offer(case, offers).await.unwrap()["protocolVersion"].as_str().unwrap().to_owned()
}

async fn refusal(case: &ProtocolCase, offers: Value) -> i64 {
    let error = offer(case, offers).await.unwrap_err();
    assert_readable_sentence(&error["message"]);
    error["code"].as_i64().unwrap()
}

async fn only_offered_version_is_accepted(case: ProtocolCase) {
    assert_eq!(accepted_version(&case, json!([case.version])).await, case.version);
}

async fn highest_offered_version_is_accepted_in_any_position(case: ProtocolCase) {
    assert_eq!(accepted_version(&case, json!(["0.9.0", "1.0.0"])).await, "1.0.0");
    assert_eq!(accepted_version(&case, json!(["1.0.0", "0.9.0"])).await, "1.0.0");
    assert_eq!(accepted_version(&case, json!(["0.5.1", case.version, "0.6.0"])).await, case.version);
}

async fn patch_of_a_known_version_is_accepted_as_offered(case: ProtocolCase) {
    let patch = case.version.replace(".0", ".7").replace("1.7.7", "1.0.7");
    assert_eq!(accepted_version(&case, json!([patch])).await, patch);
    assert_eq!(accepted_version(&case, json!([case.version, patch])).await, patch);
}

async fn newer_minor_of_one_is_accepted_as_offered(case: ProtocolCase) {
    assert_eq!(accepted_version(&case, json!([case.version, "1.4.2"])).await, "1.4.2");
}

async fn other_minor_below_one_is_rejected(case: ProtocolCase) {
    for version in ["0.10.0", "0.8.0", "0.1.0", "0.0.9"] {
        assert_eq!(refusal(&case, json!([version])).await, -32005, "{version}");
    }
    assert_eq!(accepted_version(&case, json!(["0.10.0", case.version])).await, case.version);
}

async fn other_major_is_rejected(case: ProtocolCase) {
    assert_eq!(refusal(&case, json!(["2.0.0"])).await, -32005);
    assert_eq!(accepted_version(&case, json!(["2.0.0", case.version])).await, case.version);
}

async fn older_versions_are_rejected_with_the_supported_ones(case: ProtocolCase) {
    let error = offer(&case, json!(["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await.unwrap_err();
    assert_eq!(error["code"], -32005);
    assert_eq!(error["data"], json!({"code": "unsupportedProtocolVersion", "supportedVersions": ["^1.0.0", "^0.9.0"]}));
}

async fn version_rejection_names_the_release_to_update_to(case: ProtocolCase) {
    let error = offer(&case, json!(["0.8.0"])).await.unwrap_err();
    let message = assert_readable_sentence(&error["message"]);
    assert!(message.contains("0.8.0") && message.contains("VS Code") && message.contains("1.136"), "{message}");
}

async fn rejected_client_is_disconnected(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": ["0.6.0"], "clientId": client.id});
    assert_eq!(client.call_error_code("initialize", params).await, -32005);
    client.wait_for_close().await;
}

async fn editor_version_list_negotiates_the_common_version(case: ProtocolCase) {
    assert_eq!(accepted_version(&case, json!(["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await, "0.9.0");
    assert_eq!(accepted_version(&case, json!(["0.9.0", "0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await, "0.9.0");
}

async fn invalid_versions_among_the_offers_are_ignored(case: ProtocolCase) {
    for nonsense in ["", "one", "1", "1.0", "v1.0.0", "1.0.0.0", "999999999999999999999.0.0", "-1.0.0"] {
        assert_eq!(accepted_version(&case, json!([nonsense, case.version])).await, case.version, "{nonsense:?}");
    }
}

async fn only_invalid_versions_are_rejected(case: ProtocolCase) {
    for nonsense in ["", "one", "1", "latest"] {
        let code = refusal(&case, json!([nonsense])).await;
        assert!([-32005, -32602].contains(&code), "{nonsense:?}: {code}");
    }
}

async fn missing_versions_are_rejected(case: ProtocolCase) {
    let code = refusal(&case, json!([])).await;
    assert!([-32005, -32602].contains(&code), "{code}");
}

async fn non_list_versions_are_invalid_and_may_be_corrected(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for offers in [json!("1.0.0"), json!(null), json!({"0": "1.0.0"}), json!([1])] {
        let params = json!({"protocolVersions": offers, "clientId": client.id});
        assert_eq!(client.call_error_code("initialize", params).await, -32602, "{offers}");
    }
    client.initialize(&[]).await;
}

async fn clients_of_two_versions_share_a_session(case: ProtocolCase) {
    let (mut mine, uris) = case.connect_with_session().await;
    let other = if case.version == "1.0.0" { "0.9.0" } else { "1.0.0" };
    let mut theirs = RecordingClient::connect(&case.url(), other).await;
    theirs.initialize(&[&uris.session, &uris.chat]).await;
    let turn = mine.send_message(&uris.chat, "deltas 5").await;
    mine.wait_for_turn_end(&uris.chat, &turn).await;
    theirs.wait_for_turn_end(&uris.chat, &turn).await;
    let all = |client: &RecordingClient| client.received_envelopes(&uris.chat);
    assert_eq!(all(&mine), all(&theirs), "there is nothing in it that only one of the versions knows");
    assert_eq!(mine.subscribe(&uris.chat).await, theirs.subscribe(&uris.chat).await);
    assert_eq!(mine.subscribe(&uris.session).await, theirs.subscribe(&uris.session).await);
}
