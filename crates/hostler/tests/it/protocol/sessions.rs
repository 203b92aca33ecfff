//! Life cycle of a session: provisional, materialized, announced, disposed.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    create_session_returns_null,
    provisional_session_is_not_announced,
    first_message_makes_the_session_ready_and_announces_it,
    message_may_arrive_while_the_session_is_being_created,
    provisional_session_accepts_changes_before_the_first_message,
    title_comes_from_the_first_message,
    chosen_title_is_not_replaced,
    long_first_message_gives_a_short_title,
    duplicate_session_uri_is_32003,
    unknown_provider_is_32002,
    provider_may_be_omitted,
    uri_scheme_of_another_provider_is_32002,
    missing_session_directory_is_invalid,
    session_directory_that_is_a_file_is_invalid,
    session_directory_that_is_no_file_uri_is_invalid,
    several_directories_stay_in_their_order,
    fork_on_creation_is_rejected,
    invalid_initial_config_is_rejected,
    initial_config_is_in_the_state,
    active_client_of_another_client_is_invalid,
    own_active_client_is_in_the_state,
    unknown_create_session_fields_are_ignored,
    session_is_created_with_the_exact_uri,
    unused_session_is_disposed_without_notification,
    dispose_ends_a_running_turn_and_its_agent,
    second_dispose_is_32001,
    disposed_uri_can_be_reused,
    disposed_session_is_removed_for_all_clients,
    creating_two_sessions_and_disposing_the_first_works,
    failed_start_is_a_failed_turn_and_the_next_turn_retries,
    creating_the_default_chat_has_no_effect,
    working_directories_are_added_and_removed,
}

async fn create_session_returns_null(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "workingDirectories": [case.uri("")]});
    assert_eq!(client.call_ok("createSession", params).await, Value::Null);
}

async fn provisional_session_is_not_announced(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("soon")})).await;
    let list = other.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != uris.session));
    assert!(!other.received.iter().any(|message| message["params"]["summary"]["resource"] == uris.session));
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "creating");
}

async fn first_message_makes_the_session_ready_and_announces_it(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hello").await;
    client.wait_for_envelope(&uris.session, "session/ready").await;
    other.wait_for_notification("root/sessionAdded", &uris.session).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "ready");
    client.assert_state_matches_host(&uris.session).await;
}

async fn message_may_arrive_while_the_session_is_being_created(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let action = turn_started_action("hello");
    client.dispatch_accepted(&uris.chat, action.clone()).await;
    assert_eq!(
        client.wait_for_turn_end(&uris.chat, action["turnId"].as_str().unwrap()).await["type"],
        "chat/turnComplete"
    );
}

async fn provisional_session_accepts_changes_before_the_first_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for action in [
        json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}}),
        json!({"type": "session/activeClientSet", "activeClient": {"clientId": client.id, "tools": []}}),
        json!({"type": "session/titleChanged", "title": "Before"}),
        json!({"type": "session/isReadChanged", "isRead": true}),
    ] {
        client.dispatch_accepted(&uris.session, action).await;
    }
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("soon")})).await;
    client.send_and_wait(&uris.chat, "hello").await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!((&state["title"], &state["config"]["values"]["permissionMode"]), (&json!("Before"), &json!("plan")));
    for channel in [&uris.session, &uris.chat] {
        client.assert_state_matches_host(channel).await;
    }
}

async fn title_comes_from_the_first_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
    client.send_and_wait(&uris.chat, "feed the horses").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
}

async fn chosen_title_is_not_replaced(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Chosen"})).await;
    client.send_and_wait(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Chosen");
}

async fn long_first_message_gives_a_short_title(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, &format!("{}\nsecond line", "ü".repeat(5_000))).await;
    let title = client.subscribe(&uris.session).await["title"].as_str().unwrap().to_owned();
    assert!(!title.is_empty() && title.chars().count() < 300 && !title.contains('\n'), "{title}");
}

async fn duplicate_session_uri_is_32003(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_client().await;
    for client in [&mut client, &mut other] {
        assert_eq!(client.call_error_code("createSession", json!({"channel": uris.session})).await, -32003);
    }
    client.send_and_wait(&uris.chat, "hello").await;
    assert_eq!(client.call_error_code("createSession", json!({"channel": uris.session})).await, -32003);
}

async fn unknown_provider_is_32002(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "provider": "codex"});
    assert_eq!(client.call_error_code("createSession", params).await, -32002);
}

async fn provider_may_be_omitted(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    client.call_ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&uris.session).await["provider"], "claude");
}

async fn uri_scheme_of_another_provider_is_32002(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": format!("codex:/{}", Uuid::new_v4())});
    assert_eq!(client.call_error_code("createSession", params).await, -32002);
}

async fn creation(case: &ProtocolCase, more: Value) -> i64 {
    let mut client = case.connect_client().await;
    let mut params = json!({"channel": CaseUris::random().session});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let code = client.call_error_code("createSession", params.clone()).await;
    assert_eq!(
        client.call_error_code("subscribe", json!({"channel": params["channel"]})).await,
        -32001,
        "nothing is left"
    );
    code
}

async fn missing_session_directory_is_invalid(case: ProtocolCase) {
    assert_eq!(creation(&case, json!({"workingDirectories": [case.uri("missing")]})).await, -32602);
}

async fn session_directory_that_is_a_file_is_invalid(case: ProtocolCase) {
    let file = case.write_file("file", "x");
    assert_eq!(creation(&case, json!({"workingDirectories": [file]})).await, -32602);
}

async fn session_directory_that_is_no_file_uri_is_invalid(case: ProtocolCase) {
    for directory in ["/tmp", "https://example.com/", "file://elsewhere/tmp", "", "untitled:x"] {
        assert_eq!(creation(&case, json!({"workingDirectories": [directory]})).await, -32602, "{directory}");
    }
    assert_eq!(creation(&case, json!({"workingDirectories": case.uri("")})).await, -32602);
}

async fn several_directories_stay_in_their_order(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    for name in ["b", "a"] {
        std::fs::create_dir(case.dir.join(name)).unwrap();
    }
    let directories = json!([case.uri("b"), case.uri("a")]);
    client.call_ok("createSession", json!({"channel": uris.session, "workingDirectories": directories})).await;
    assert_eq!(client.subscribe(&uris.session).await["workingDirectories"], directories);
}

async fn fork_on_creation_is_rejected(case: ProtocolCase) {
    let (_, uris) = case.connect_with_started_session().await;
    let fork = json!({"session": uris.session, "turnId": "t"});
    assert_eq!(creation(&case, json!({"fork": fork})).await, -32602);
}

async fn invalid_initial_config_is_rejected(case: ProtocolCase) {
    for config in [json!({"permissionMode": "nonsense"}), json!({"permissionMode": 7}), json!({"effort": "none"})] {
        assert_eq!(creation(&case, json!({"config": config})).await, -32602, "{config}");
    }
    assert_eq!(creation(&case, json!({"config": 7})).await, -32602);
}

async fn initial_config_is_in_the_state(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    let params =
        json!({"channel": uris.session, "workingDirectories": [case.uri("")], "config": {"permissionMode": "plan"}});
    client.call_ok("createSession", params).await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["config"]["values"]["permissionMode"], "plan");
    assert_eq!(state["config"]["schema"]["type"], "object");
}

async fn active_client_of_another_client_is_invalid(case: ProtocolCase) {
    let active = json!({"clientId": "another", "tools": []});
    assert_eq!(creation(&case, json!({"activeClient": active})).await, -32602);
}

async fn own_active_client_is_in_the_state(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    let active = json!({"clientId": client.id, "displayName": "Suite", "tools": []});
    client.call_ok("createSession", json!({"channel": uris.session, "activeClient": active})).await;
    assert_eq!(client.subscribe(&uris.session).await["activeClients"], json!([active]));
}

async fn unknown_create_session_fields_are_ignored(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "progressToken": "p", "_meta": {"x": 1}, "future": [1]});
    client.call_ok("createSession", params).await;
}

async fn session_is_created_with_the_exact_uri(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for name in ["plain", "With%20Escapes", "ünï", "a/b", "x?y=1"] {
        let session = format!("claude:/{name}-{}", case.version);
        match client.call("createSession", json!({"channel": session, "workingDirectories": [case.uri("")]})).await {
            Ok(_) => {
                let uris = CaseUris::from_session(&session);
                assert_eq!(client.subscribe(&session).await["defaultChat"], uris.chat, "{session}");
            }
            Err(error) => assert_eq!(error["code"], -32602, "{session}: {error}"),
        }
    }
}

async fn unused_session_is_disposed_without_notification(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    assert_eq!(client.call_ok("disposeSession", json!({"channel": uris.session})).await, Value::Null);
    let (mut last, begun) = case.connect_with_started_session().await;
    last.call_ok("ping", json!({})).await;
    other.wait_for_notification("root/sessionAdded", &begun.session).await;
    assert!(
        !other.received.iter().any(|message| message["params"]["session"] == uris.session),
        "a provisional session is not announced"
    );
}

async fn dispose_ends_a_running_turn_and_its_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let running = |case: &ProtocolCase| {
        let agents = case.fixture.host.agents();
        agents.iter().filter(|agent| agent.command.contains(uris.session.trim_start_matches("claude:/"))).count()
    };
    client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    assert_eq!(running(&case), 1);
    assert_eq!(client.call_ok("disposeSession", json!({"channel": uris.session})).await, Value::Null);
    crate::common::session_fixture::wait_until("its agent is gone", || running(&case) == 0).await;
}

async fn second_dispose_is_32001(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.call_error_code("disposeSession", json!({"channel": uris.session})).await, -32001);
    assert_eq!(client.call_error_code("disposeSession", json!({"channel": CaseUris::random().session})).await, -32001);
}

async fn disposed_uri_can_be_reused(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    let params = json!({"channel": uris.session, "workingDirectories": [case.uri("")]});
    client.call_ok("createSession", params).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]), "it contains no data of the other session");
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "new").await), "echo: new");
}

async fn disposed_session_is_removed_for_all_clients(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    other.wait_for_notification("root/sessionRemoved", &uris.session).await;
    other.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    other.call_ok("ping", json!({})).await;
    assert_eq!(other.call_error_code("subscribe", json!({"channel": uris.session})).await, -32001);
}

async fn creating_two_sessions_and_disposing_the_first_works(case: ProtocolCase) {
    let (mut client, first) = case.connect_with_session().await;
    let second = client.create_session(&case.dir).await;
    client.call_ok("disposeSession", json!({"channel": first.session})).await;
    assert_eq!(markdown_text(&client.send_and_wait(&second.chat, "hi").await), "echo: hi");
    let list = client.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != first.session));
}

async fn failed_start_is_a_failed_turn_and_the_next_turn_retries(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    std::fs::remove_dir(&case.dir).unwrap();
    let turn = client.send_message(&uris.chat, "hello").await;
    let error = client.wait_for_turn_end(&uris.chat, &turn).await;
    assert_eq!(error["type"], "chat/error");
    assert_eq!(error["part"]["error"]["errorType"], "workingDirectoryMissing");
    assert_readable_sentence(&error["part"]["error"]["message"]);
    let list = client.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != uris.session), "not listed");
    std::fs::create_dir(&case.dir).unwrap();
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "again").await), "echo: again");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn creating_the_default_chat_has_no_effect(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for _ in 0..2 {
        assert_eq!(
            client.call_ok("createChat", json!({"channel": uris.session, "chat": uris.chat})).await,
            Value::Null
        );
    }
    assert_eq!(client.subscribe(&uris.session).await["chats"].as_array().unwrap().len(), 1);
}

async fn working_directories_are_added_and_removed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    std::fs::create_dir(case.dir.join("more")).unwrap();
    let (first, more) = (case.uri("").trim_end_matches('/').to_owned(), case.uri("more"));
    client.dispatch_accepted(&uris.session, json!({"type": "session/workingDirectorySet", "directory": more})).await;
    assert_eq!(client.subscribe(&uris.session).await["workingDirectories"], json!([first, more]));
    client
        .dispatch_rejected(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": first}))
        .await;
    client
        .dispatch_rejected(&uris.session, json!({"type": "session/workingDirectorySet", "directory": case.uri("gone")}))
        .await;
    client
        .dispatch_accepted(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": more}))
        .await;
    client
        .dispatch_rejected(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": more}))
        .await;
    client.assert_state_matches_host(&uris.session).await;
}
