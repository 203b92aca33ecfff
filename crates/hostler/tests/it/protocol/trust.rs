//! Workspace trust: a folder's configuration is listed, decided about by its fingerprint, and asked about in the
//! turn.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    trust_list_is_empty_at_first,
    folder_without_configuration_has_no_items,
    trust_accepts_a_path_or_a_uri,
    trust_of_a_missing_folder_is_32008,
    trust_of_a_relative_folder_is_32602,
    trust_of_an_unknown_provider_is_32002,
    trust_without_a_directory_is_32602,
    unknown_trust_decision_is_32602,
    trust_without_a_fingerprint_is_32602,
    outdated_fingerprint_is_32011,
    removing_without_a_decision_removes_nothing,
    folder_configuration_is_listed,
    trust_decision_is_listed_and_removed,
    home_cannot_be_trusted_by_a_client,
    turn_waits_for_the_trust_decision_and_continues,
    trust_decision_of_another_client_answers_the_request,
}

impl ProtocolCase {
    fn directory(&self) -> String {
        std::fs::canonicalize(&self.dir).unwrap().to_str().unwrap().to_owned()
    }

    /// Gives the folder its own configuration.
    fn configure(&self) {
        std::fs::create_dir_all(self.dir.join(".claude")).unwrap();
        self.write_file(
            ".claude/settings.json",
            r#"{"env": {"STAGE": "test"}, "permissions": {"allow": ["Bash(make all)"]}}"#,
        );
    }

    fn about(&self) -> Value {
        json!({"channel": ROOT, "directory": self.directory()})
    }

    fn decide(&self, decision: &str, fingerprint: &Value) -> Value {
        json!({"channel": ROOT, "directory": self.directory(), "decision": decision, "fingerprint": fingerprint})
    }
}

async fn trust_list_is_empty_at_first(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let list = client.call_ok("hostler/listTrust", json!({"channel": ROOT})).await;
    assert_eq!(list["trustedFolders"], json!([]));
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["path"] != case.directory()), "{list}");
}

async fn folder_without_configuration_has_no_items(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let report = client.call_ok("hostler/checkTrust", case.about()).await;
    let expected =
        json!({"directory": case.directory(), "state": "empty", "configuration": {"fingerprint": "", "items": []}});
    assert_eq!(report, expected);
}

async fn trust_accepts_a_path_or_a_uri(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let by_path = client.call_ok("hostler/checkTrust", case.about()).await;
    let by_uri = client.call_ok("hostler/checkTrust", json!({"channel": ROOT, "directory": file_uri(&case.dir)})).await;
    assert_eq!(by_path, by_uri);
}

async fn trust_of_a_missing_folder_is_32008(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let missing = case.dir.join("missing").to_str().unwrap().to_owned();
    assert_eq!(
        client.call_error_code("hostler/checkTrust", json!({"channel": ROOT, "directory": missing})).await,
        -32008
    );
}

async fn trust_of_a_relative_folder_is_32602(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for method in ["hostler/checkTrust", "hostler/removeTrust"] {
        assert_eq!(
            client.call_error_code(method, json!({"channel": ROOT, "directory": "."})).await,
            -32602,
            "{method}"
        );
    }
}

async fn trust_of_an_unknown_provider_is_32002(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let mut about = case.about();
    about["provider"] = json!("unknown");
    assert_eq!(client.call_error_code("hostler/checkTrust", about).await, -32002);
}

async fn trust_without_a_directory_is_32602(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for method in ["hostler/checkTrust", "hostler/setTrust", "hostler/removeTrust"] {
        assert_eq!(client.call_error_code(method, json!({"channel": ROOT})).await, -32602, "{method}");
    }
}

async fn unknown_trust_decision_is_32602(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(client.call_error_code("hostler/setTrust", case.decide("yes", &json!(""))).await, -32602);
}

async fn trust_without_a_fingerprint_is_32602(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(client.call_error_code("hostler/setTrust", case.decide("trust", &Value::Null)).await, -32602);
}

async fn outdated_fingerprint_is_32011(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let error = client.call("hostler/setTrust", case.decide("trust", &json!("stale"))).await.unwrap_err();
    assert_eq!(error["code"], -32011);
    assert!(error["message"].as_str().unwrap().contains("has changed; review it again"), "{error}");
}

async fn removing_without_a_decision_removes_nothing(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(client.call_ok("hostler/removeTrust", case.about()).await, json!({"removed": false}));
}

async fn folder_configuration_is_listed(case: ProtocolCase) {
    case.configure();
    let mut client = case.connect_client().await;
    let report = client.call_ok("hostler/checkTrust", case.about()).await;
    assert_eq!(report["state"], "undecided");
    let kinds: Vec<_> = report["configuration"]["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
    assert!(kinds.contains(&&json!("environment")) && kinds.contains(&&json!("permissionRule")), "{report}");
}

async fn trust_decision_is_listed_and_removed(case: ProtocolCase) {
    case.configure();
    let mut client = case.connect_client().await;
    let seen = client.call_ok("hostler/checkTrust", case.about()).await;
    let decide = case.decide("trust", &seen["configuration"]["fingerprint"]);
    let report = client.call_ok("hostler/setTrust", decide.clone()).await;
    assert_eq!((&report["state"], &report["trustedBy"]), (&json!("trusted"), &json!("person")));
    let list = client.call_ok("hostler/listTrust", json!({"channel": ROOT})).await;
    let listed =
        list["items"].as_array().unwrap().iter().find(|item| item["path"] == case.directory()).unwrap().clone();
    assert_eq!((&listed["decision"], &listed["items"]), (&json!("trust"), &seen["configuration"]["items"]));
    // Trust covers the listed contents: a changed file is another configuration.
    case.write_file(".claude/settings.json", r#"{"env": {"STAGE": "other"}}"#);
    let changed = client.call_ok("hostler/checkTrust", case.about()).await;
    assert_eq!(changed["state"], "changed");
    assert!(
        !changed["difference"]["changed"].as_array().unwrap().is_empty()
            || !changed["difference"]["added"].as_array().unwrap().is_empty(),
        "{changed}"
    );
    assert_eq!(client.call_error_code("hostler/setTrust", decide).await, -32011);
    assert_eq!(client.call_ok("hostler/removeTrust", case.about()).await, json!({"removed": true}));
    assert_eq!(client.call_ok("hostler/checkTrust", case.about()).await["state"], "undecided");
}

async fn home_cannot_be_trusted_by_a_client(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let home = case.fixture.home.path("home").to_str().unwrap().to_owned();
    let seen = client.call_ok("hostler/checkTrust", json!({"channel": ROOT, "directory": home})).await;
    let fingerprint = &seen["configuration"]["fingerprint"];
    for decision in ["trust", "trustSubfolders"] {
        let params = json!({"channel": ROOT, "directory": home, "decision": decision, "fingerprint": fingerprint});
        assert_eq!(client.call_error_code("hostler/setTrust", params).await, -32602, "{decision}");
    }
}

/// Sends a message in an undecided folder; returns the request.
async fn asked(client: &mut RecordingClient, uris: &CaseUris) -> Value {
    client.send_message(&uris.chat, "hello").await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await;
    needed["request"]["request"].clone()
}

async fn turn_waits_for_the_trust_decision_and_continues(case: ProtocolCase) {
    case.configure();
    let (mut client, uris) = case.connect_with_session().await;
    let request = asked(&mut client, &uris).await;
    let options: Vec<_> =
        request["questions"][0]["options"].as_array().unwrap().iter().map(|option| &option["id"]).collect();
    assert_eq!(options, ["trust", "trust-subfolders", "restrict"]);
    let answers = json!({"folder": {"state": "submitted", "value": {"kind": "selected", "value": "restrict"}}});
    let completed =
        json!({"type": "chat/inputCompleted", "requestId": request["id"], "response": "accept", "answers": answers});
    client.dispatch_accepted(&uris.chat, completed).await;
    client.wait_for_action(&uris.chat, "chat/turnComplete").await;
    let session = client.subscribe(&uris.session).await;
    assert_eq!(session["_meta"]["hostler"]["trust"]["state"], "restricted");
    assert_eq!(client.call_ok("hostler/checkTrust", case.about()).await["state"], "restricted");
}

async fn trust_decision_of_another_client_answers_the_request(case: ProtocolCase) {
    case.configure();
    let (mut client, uris) = case.connect_with_session().await;
    asked(&mut client, &uris).await;
    let mut other = case.connect_client().await;
    let seen = other.call_ok("hostler/checkTrust", case.about()).await;
    let decide = case.decide("restrict", &seen["configuration"]["fingerprint"]);
    assert_eq!(other.call_ok("hostler/setTrust", decide).await["state"], "restricted");
    client.wait_for_action(&uris.session, "session/inputNeededRemoved").await;
    client.wait_for_action(&uris.chat, "chat/turnComplete").await;
}
