//! Version negotiation, and errors for clients without a common version.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    the_only_offer_is_taken,
    the_highest_offer_is_taken_wherever_it_stands,
    a_patch_of_a_known_version_is_taken_as_it_is_named,
    a_newer_minor_of_one_is_taken_as_it_is_named,
    another_minor_below_one_is_refused,
    another_major_is_refused,
    older_offers_are_refused_with_what_there_is,
    the_refusal_names_the_release_to_update_to,
    a_refused_client_is_hung_up_on,
    the_editor_s_list_gets_the_version_that_both_know,
    nonsense_among_the_offers_is_passed_over,
    nothing_but_nonsense_is_refused,
    no_offer_at_all_is_refused,
    offers_that_are_no_list_are_invalid_and_may_be_mended,
    two_versions_hear_the_same_session,
}

async fn offer(case: &ProtocolCase, offers: Value) -> Result<Value, Value> {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"channel": ROOT, "protocolVersions": offers, "clientId": client.id});
    client.call("initialize", params).await
}

async fn taken(case: &ProtocolCase, offers: Value) -> String {
    offer(case, offers).await.unwrap()["protocolVersion"].as_str().unwrap().to_owned()
}

async fn refusal(case: &ProtocolCase, offers: Value) -> i64 {
    let error = offer(case, offers).await.unwrap_err();
    assert_readable_sentence(&error["message"]);
    error["code"].as_i64().unwrap()
}

async fn the_only_offer_is_taken(case: ProtocolCase) {
    assert_eq!(taken(&case, json!([case.version])).await, case.version);
}

async fn the_highest_offer_is_taken_wherever_it_stands(case: ProtocolCase) {
    assert_eq!(taken(&case, json!(["0.9.0", "1.0.0"])).await, "1.0.0");
    assert_eq!(taken(&case, json!(["1.0.0", "0.9.0"])).await, "1.0.0");
    assert_eq!(taken(&case, json!(["0.5.1", case.version, "0.6.0"])).await, case.version);
}

async fn a_patch_of_a_known_version_is_taken_as_it_is_named(case: ProtocolCase) {
    let patch = case.version.replace(".0", ".7").replace("1.7.7", "1.0.7");
    assert_eq!(taken(&case, json!([patch])).await, patch);
    assert_eq!(taken(&case, json!([case.version, patch])).await, patch);
}

async fn a_newer_minor_of_one_is_taken_as_it_is_named(case: ProtocolCase) {
    assert_eq!(taken(&case, json!([case.version, "1.4.2"])).await, "1.4.2");
}

async fn another_minor_below_one_is_refused(case: ProtocolCase) {
    for version in ["0.10.0", "0.8.0", "0.1.0", "0.0.9"] {
        assert_eq!(refusal(&case, json!([version])).await, -32005, "{version}");
    }
    assert_eq!(taken(&case, json!(["0.10.0", case.version])).await, case.version);
}

async fn another_major_is_refused(case: ProtocolCase) {
    assert_eq!(refusal(&case, json!(["2.0.0"])).await, -32005);
    assert_eq!(taken(&case, json!(["2.0.0", case.version])).await, case.version);
}

async fn older_offers_are_refused_with_what_there_is(case: ProtocolCase) {
    let error = offer(&case, json!(["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await.unwrap_err();
    assert_eq!(error["code"], -32005);
    assert_eq!(error["data"], json!({"supportedVersions": ["^1.0.0", "^0.9.0"]}));
}

async fn the_refusal_names_the_release_to_update_to(case: ProtocolCase) {
    let error = offer(&case, json!(["0.8.0"])).await.unwrap_err();
    let told = assert_readable_sentence(&error["message"]);
    assert!(told.contains("0.8.0") && told.contains("VS Code") && told.contains("1.136"), "{told}");
}

async fn a_refused_client_is_hung_up_on(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    let params = json!({"protocolVersions": ["0.6.0"], "clientId": client.id});
    assert_eq!(client.call_error_code("initialize", params).await, -32005);
    client.wait_for_close().await;
}

async fn the_editor_s_list_gets_the_version_that_both_know(case: ProtocolCase) {
    assert_eq!(taken(&case, json!(["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await, "0.9.0");
    assert_eq!(taken(&case, json!(["0.9.0", "0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"])).await, "0.9.0");
}

async fn nonsense_among_the_offers_is_passed_over(case: ProtocolCase) {
    for nonsense in ["", "one", "1", "1.0", "v1.0.0", "1.0.0.0", "999999999999999999999.0.0", "-1.0.0"] {
        assert_eq!(taken(&case, json!([nonsense, case.version])).await, case.version, "{nonsense:?}");
    }
}

async fn nothing_but_nonsense_is_refused(case: ProtocolCase) {
    for nonsense in ["", "one", "1", "latest"] {
        let code = refusal(&case, json!([nonsense])).await;
        assert!([-32005, -32602].contains(&code), "{nonsense:?}: {code}");
    }
}

async fn no_offer_at_all_is_refused(case: ProtocolCase) {
    let code = refusal(&case, json!([])).await;
    assert!([-32005, -32602].contains(&code), "{code}");
}

async fn offers_that_are_no_list_are_invalid_and_may_be_mended(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    for offers in [json!("1.0.0"), json!(null), json!({"0": "1.0.0"}), json!([1])] {
        let params = json!({"protocolVersions": offers, "clientId": client.id});
        assert_eq!(client.call_error_code("initialize", params).await, -32602, "{offers}");
    }
    client.initialize(&[]).await;
}

async fn two_versions_hear_the_same_session(case: ProtocolCase) {
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
