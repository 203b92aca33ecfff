//! Life cycle of a session: provisional, materialized, announced, disposed.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    creating_answers_null,
    a_provisional_session_is_nobody_s_news,
    the_first_message_makes_it_ready_and_announces_it,
    a_message_may_come_while_it_is_still_creating,
    everything_but_a_turn_works_before_the_first_message,
    the_title_comes_from_the_first_message,
    a_title_that_was_chosen_stays,
    a_long_first_message_makes_a_short_title,
    the_same_uri_twice_is_32003,
    an_unknown_provider_is_32002,
    the_provider_may_be_left_out,
    a_scheme_of_another_provider_is_32002,
    a_directory_that_is_not_there_is_invalid,
    a_directory_that_is_a_file_is_invalid,
    a_directory_that_is_no_file_uri_is_invalid,
    several_directories_are_taken_in_their_order,
    a_fork_on_creation_is_refused,
    a_config_that_cannot_be_is_invalid,
    a_config_that_can_be_is_in_the_state,
    another_s_active_client_is_invalid,
    an_own_active_client_is_in_the_state,
    unknown_fields_of_a_creation_are_passed_over,
    a_session_is_created_under_the_very_uri,
    an_unused_session_is_disposed_without_a_word,
    disposing_ends_a_running_turn_and_its_agent,
    disposing_twice_is_32001,
    a_disposed_uri_can_be_used_again,
    all_clients_lose_a_disposed_session,
    the_editor_creates_two_and_disposes_the_first,
    a_failed_start_is_a_failed_turn_and_the_next_one_tries_again,
    the_default_chat_may_be_created_without_effect,
    directories_are_added_and_removed,
}

async fn creating_answers_null(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "workingDirectories": [case.uri("")]});
    assert_eq!(client.call_ok("createSession", params).await, Value::Null);
}

async fn a_provisional_session_is_nobody_s_news(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": user_message("soon")})).await;
    let list = other.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != uris.session));
    assert!(!other.received.iter().any(|message| message["params"]["summary"]["resource"] == uris.session));
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "creating");
}

async fn the_first_message_makes_it_ready_and_announces_it(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hello").await;
    client.wait_for_envelope(&uris.session, "session/ready").await;
    other.wait_for_notification("root/sessionAdded", &uris.session).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "ready");
    client.assert_state_matches_host(&uris.session).await;
}

async fn a_message_may_come_while_it_is_still_creating(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let wish = turn_started_action("hello");
    client.dispatch_accepted(&uris.chat, wish.clone()).await;
    assert_eq!(
        client.wait_for_turn_end(&uris.chat, wish["turnId"].as_str().unwrap()).await["type"],
        "chat/turnComplete"
    );
}

async fn everything_but_a_turn_works_before_the_first_message(case: ProtocolCase) {
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

async fn the_title_comes_from_the_first_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
    client.send_and_wait(&uris.chat, "feed the horses").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
}

async fn a_title_that_was_chosen_stays(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Chosen"})).await;
    client.send_and_wait(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Chosen");
}

async fn a_long_first_message_makes_a_short_title(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, &format!("{}\nsecond line", "ü".repeat(5_000))).await;
    let title = client.subscribe(&uris.session).await["title"].as_str().unwrap().to_owned();
    assert!(!title.is_empty() && title.chars().count() < 300 && !title.contains('\n'), "{title}");
}

async fn the_same_uri_twice_is_32003(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_client().await;
    for client in [&mut client, &mut other] {
        assert_eq!(client.call_error_code("createSession", json!({"channel": uris.session})).await, -32003);
    }
    client.send_and_wait(&uris.chat, "hello").await;
    assert_eq!(client.call_error_code("createSession", json!({"channel": uris.session})).await, -32003);
}

async fn an_unknown_provider_is_32002(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "provider": "codex"});
    assert_eq!(client.call_error_code("createSession", params).await, -32002);
}

async fn the_provider_may_be_left_out(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    client.call_ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&uris.session).await["provider"], "claude");
}

async fn a_scheme_of_another_provider_is_32002(case: ProtocolCase) {
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

async fn a_directory_that_is_not_there_is_invalid(case: ProtocolCase) {
    assert_eq!(creation(&case, json!({"workingDirectories": [case.uri("missing")]})).await, -32602);
}

async fn a_directory_that_is_a_file_is_invalid(case: ProtocolCase) {
    let file = case.write_file("file", "x");
    assert_eq!(creation(&case, json!({"workingDirectories": [file]})).await, -32602);
}

async fn a_directory_that_is_no_file_uri_is_invalid(case: ProtocolCase) {
    for directory in ["/tmp", "https://example.com/", "file://elsewhere/tmp", "", "untitled:x"] {
        assert_eq!(creation(&case, json!({"workingDirectories": [directory]})).await, -32602, "{directory}");
    }
    assert_eq!(creation(&case, json!({"workingDirectories": case.uri("")})).await, -32602);
}

async fn several_directories_are_taken_in_their_order(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    for name in ["b", "a"] {
        std::fs::create_dir(case.dir.join(name)).unwrap();
    }
    let directories = json!([case.uri("b"), case.uri("a")]);
    client.call_ok("createSession", json!({"channel": uris.session, "workingDirectories": directories})).await;
    assert_eq!(client.subscribe(&uris.session).await["workingDirectories"], directories);
}

async fn a_fork_on_creation_is_refused(case: ProtocolCase) {
    let (_, uris) = case.connect_with_started_session().await;
    let fork = json!({"session": uris.session, "turnId": "t"});
    assert_eq!(creation(&case, json!({"fork": fork})).await, -32602);
}

async fn a_config_that_cannot_be_is_invalid(case: ProtocolCase) {
    for config in [json!({"permissionMode": "nonsense"}), json!({"permissionMode": 7}), json!({"effort": "none"})] {
        assert_eq!(creation(&case, json!({"config": config})).await, -32602, "{config}");
    }
    assert_eq!(creation(&case, json!({"config": 7})).await, -32602);
}

async fn a_config_that_can_be_is_in_the_state(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    let params =
        json!({"channel": uris.session, "workingDirectories": [case.uri("")], "config": {"permissionMode": "plan"}});
    client.call_ok("createSession", params).await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["config"]["values"]["permissionMode"], "plan");
    assert_eq!(state["config"]["schema"]["type"], "object");
}

async fn another_s_active_client_is_invalid(case: ProtocolCase) {
    let active = json!({"clientId": "somebody", "tools": []});
    assert_eq!(creation(&case, json!({"activeClient": active})).await, -32602);
}

async fn an_own_active_client_is_in_the_state(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let uris = CaseUris::random();
    let active = json!({"clientId": client.id, "displayName": "Suite", "tools": []});
    client.call_ok("createSession", json!({"channel": uris.session, "activeClient": active})).await;
    assert_eq!(client.subscribe(&uris.session).await["activeClients"], json!([active]));
}

async fn unknown_fields_of_a_creation_are_passed_over(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let params = json!({"channel": CaseUris::random().session, "progressToken": "p", "_meta": {"x": 1}, "future": [1]});
    client.call_ok("createSession", params).await;
}

async fn a_session_is_created_under_the_very_uri(case: ProtocolCase) {
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

async fn an_unused_session_is_disposed_without_a_word(case: ProtocolCase) {
    let mut other = case.connect_client().await;
    let (mut client, uris) = case.connect_with_session().await;
    assert_eq!(client.call_ok("disposeSession", json!({"channel": uris.session})).await, Value::Null);
    let (mut last, begun) = case.connect_with_started_session().await;
    last.call_ok("ping", json!({})).await;
    other.wait_for_notification("root/sessionAdded", &begun.session).await;
    assert!(
        !other.received.iter().any(|message| message["params"]["session"] == uris.session),
        "nobody had heard of it"
    );
}

async fn disposing_ends_a_running_turn_and_its_agent(case: ProtocolCase) {
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

async fn disposing_twice_is_32001(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.call_error_code("disposeSession", json!({"channel": uris.session})).await, -32001);
    assert_eq!(client.call_error_code("disposeSession", json!({"channel": CaseUris::random().session})).await, -32001);
}

async fn a_disposed_uri_can_be_used_again(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    let params = json!({"channel": uris.session, "workingDirectories": [case.uri("")]});
    client.call_ok("createSession", params).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]), "nothing of the other one is in it");
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "new").await), "echo: new");
}

async fn all_clients_lose_a_disposed_session(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    other.wait_for_notification("root/sessionRemoved", &uris.session).await;
    other.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    other.call_ok("ping", json!({})).await;
    assert_eq!(other.call_error_code("subscribe", json!({"channel": uris.session})).await, -32001);
}

async fn the_editor_creates_two_and_disposes_the_first(case: ProtocolCase) {
    let (mut client, first) = case.connect_with_session().await;
    let second = client.create_session(&case.dir).await;
    client.call_ok("disposeSession", json!({"channel": first.session})).await;
    assert_eq!(markdown_text(&client.send_and_wait(&second.chat, "hi").await), "echo: hi");
    let list = client.call_ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != first.session));
}

async fn a_failed_start_is_a_failed_turn_and_the_next_one_tries_again(case: ProtocolCase) {
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

async fn the_default_chat_may_be_created_without_effect(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for _ in 0..2 {
        assert_eq!(
            client.call_ok("createChat", json!({"channel": uris.session, "chat": uris.chat})).await,
            Value::Null
        );
    }
    assert_eq!(client.subscribe(&uris.session).await["chats"].as_array().unwrap().len(), 1);
}

async fn directories_are_added_and_removed(case: ProtocolCase) {
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
