//! The life of a session: provisional, begun, announced, disposed.

use super::kit::*;

area! { Stage::fake();
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

async fn creating_answers_null(case: Case) {
    let mut client = case.client().await;
    let params = json!({"channel": Uris::fresh().session, "workingDirectories": [case.uri("")]});
    assert_eq!(client.ok("createSession", params).await, Value::Null);
}

async fn a_provisional_session_is_nobody_s_news(case: Case) {
    let mut other = case.client().await;
    let (mut client, uris) = case.session().await;
    client.accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": message("soon")})).await;
    let list = other.ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != uris.session));
    assert!(!other.heard.iter().any(|message| message["params"]["summary"]["resource"] == uris.session));
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "creating");
}

async fn the_first_message_makes_it_ready_and_announces_it(case: Case) {
    let mut other = case.client().await;
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, "hello").await;
    client.envelope(&uris.session, "session/ready").await;
    other.notice("root/sessionAdded", &uris.session).await;
    client.end(&uris.chat, &turn).await;
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "ready");
    client.agrees(&uris.session).await;
}

async fn a_message_may_come_while_it_is_still_creating(case: Case) {
    let (mut client, uris) = case.session().await;
    let wish = turn("hello");
    client.accepted(&uris.chat, wish.clone()).await;
    assert_eq!(client.end(&uris.chat, wish["turnId"].as_str().unwrap()).await["type"], "chat/turnComplete");
}

async fn everything_but_a_turn_works_before_the_first_message(case: Case) {
    let (mut client, uris) = case.session().await;
    for action in [
        json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}}),
        json!({"type": "session/activeClientSet", "activeClient": {"clientId": client.id, "tools": []}}),
        json!({"type": "session/titleChanged", "title": "Before"}),
        json!({"type": "session/isReadChanged", "isRead": true}),
    ] {
        client.accepted(&uris.session, action).await;
    }
    client.accepted(&uris.chat, json!({"type": "chat/draftChanged", "draft": message("soon")})).await;
    client.ask(&uris.chat, "hello").await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!((&state["title"], &state["config"]["values"]["permissionMode"]), (&json!("Before"), &json!("plan")));
    for channel in [&uris.session, &uris.chat] {
        client.agrees(channel).await;
    }
}

async fn the_title_comes_from_the_first_message(case: Case) {
    let (mut client, uris) = case.session().await;
    client.ask(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
    client.ask(&uris.chat, "feed the horses").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "mend the fence");
}

async fn a_title_that_was_chosen_stays(case: Case) {
    let (mut client, uris) = case.session().await;
    client.accepted(&uris.session, json!({"type": "session/titleChanged", "title": "Chosen"})).await;
    client.ask(&uris.chat, "mend the fence").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "Chosen");
}

async fn a_long_first_message_makes_a_short_title(case: Case) {
    let (mut client, uris) = case.session().await;
    client.ask(&uris.chat, &format!("{}\nsecond line", "ü".repeat(5_000))).await;
    let title = client.subscribe(&uris.session).await["title"].as_str().unwrap().to_owned();
    assert!(!title.is_empty() && title.chars().count() < 300 && !title.contains('\n'), "{title}");
}

async fn the_same_uri_twice_is_32003(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut other = case.client().await;
    for client in [&mut client, &mut other] {
        assert_eq!(client.code("createSession", json!({"channel": uris.session})).await, -32003);
    }
    client.ask(&uris.chat, "hello").await;
    assert_eq!(client.code("createSession", json!({"channel": uris.session})).await, -32003);
}

async fn an_unknown_provider_is_32002(case: Case) {
    let mut client = case.client().await;
    let params = json!({"channel": Uris::fresh().session, "provider": "codex"});
    assert_eq!(client.code("createSession", params).await, -32002);
}

async fn the_provider_may_be_left_out(case: Case) {
    let mut client = case.client().await;
    let uris = Uris::fresh();
    client.ok("createSession", json!({"channel": uris.session})).await;
    assert_eq!(client.subscribe(&uris.session).await["provider"], "claude");
}

async fn a_scheme_of_another_provider_is_32002(case: Case) {
    let mut client = case.client().await;
    let params = json!({"channel": format!("codex:/{}", Uuid::new_v4())});
    assert_eq!(client.code("createSession", params).await, -32002);
}

async fn creation(case: &Case, more: Value) -> i64 {
    let mut client = case.client().await;
    let mut params = json!({"channel": Uris::fresh().session});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let code = client.code("createSession", params.clone()).await;
    assert_eq!(client.code("subscribe", json!({"channel": params["channel"]})).await, -32001, "nothing is left");
    code
}

async fn a_directory_that_is_not_there_is_invalid(case: Case) {
    assert_eq!(creation(&case, json!({"workingDirectories": [case.uri("missing")]})).await, -32602);
}

async fn a_directory_that_is_a_file_is_invalid(case: Case) {
    let file = case.write("file", "x");
    assert_eq!(creation(&case, json!({"workingDirectories": [file]})).await, -32602);
}

async fn a_directory_that_is_no_file_uri_is_invalid(case: Case) {
    for directory in ["/tmp", "https://example.com/", "file://elsewhere/tmp", "", "untitled:x"] {
        assert_eq!(creation(&case, json!({"workingDirectories": [directory]})).await, -32602, "{directory}");
    }
    assert_eq!(creation(&case, json!({"workingDirectories": case.uri("")})).await, -32602);
}

async fn several_directories_are_taken_in_their_order(case: Case) {
    let mut client = case.client().await;
    let uris = Uris::fresh();
    for name in ["b", "a"] {
        std::fs::create_dir(case.dir.join(name)).unwrap();
    }
    let directories = json!([case.uri("b"), case.uri("a")]);
    client.ok("createSession", json!({"channel": uris.session, "workingDirectories": directories})).await;
    assert_eq!(client.subscribe(&uris.session).await["workingDirectories"], directories);
}

async fn a_fork_on_creation_is_refused(case: Case) {
    let (_, uris) = case.begun().await;
    let fork = json!({"session": uris.session, "turnId": "t"});
    assert_eq!(creation(&case, json!({"fork": fork})).await, -32602);
}

async fn a_config_that_cannot_be_is_invalid(case: Case) {
    for config in [json!({"permissionMode": "nonsense"}), json!({"permissionMode": 7}), json!({"effort": "none"})] {
        assert_eq!(creation(&case, json!({"config": config})).await, -32602, "{config}");
    }
    assert_eq!(creation(&case, json!({"config": 7})).await, -32602);
}

async fn a_config_that_can_be_is_in_the_state(case: Case) {
    let mut client = case.client().await;
    let uris = Uris::fresh();
    let params =
        json!({"channel": uris.session, "workingDirectories": [case.uri("")], "config": {"permissionMode": "plan"}});
    client.ok("createSession", params).await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!(state["config"]["values"]["permissionMode"], "plan");
    assert_eq!(state["config"]["schema"]["type"], "object");
}

async fn another_s_active_client_is_invalid(case: Case) {
    let active = json!({"clientId": "somebody", "tools": []});
    assert_eq!(creation(&case, json!({"activeClient": active})).await, -32602);
}

async fn an_own_active_client_is_in_the_state(case: Case) {
    let mut client = case.client().await;
    let uris = Uris::fresh();
    let active = json!({"clientId": client.id, "displayName": "Suite", "tools": []});
    client.ok("createSession", json!({"channel": uris.session, "activeClient": active})).await;
    assert_eq!(client.subscribe(&uris.session).await["activeClients"], json!([active]));
}

async fn unknown_fields_of_a_creation_are_passed_over(case: Case) {
    let mut client = case.client().await;
    let params = json!({"channel": Uris::fresh().session, "progressToken": "p", "_meta": {"x": 1}, "future": [1]});
    client.ok("createSession", params).await;
}

async fn a_session_is_created_under_the_very_uri(case: Case) {
    let mut client = case.client().await;
    for name in ["plain", "With%20Escapes", "ünï", "a/b", "x?y=1"] {
        let session = format!("claude:/{name}-{}", case.version);
        match client.call("createSession", json!({"channel": session, "workingDirectories": [case.uri("")]})).await {
            Ok(_) => {
                let uris = Uris::of(&session);
                assert_eq!(client.subscribe(&session).await["defaultChat"], uris.chat, "{session}");
            }
            Err(error) => assert_eq!(error["code"], -32602, "{session}: {error}"),
        }
    }
}

async fn an_unused_session_is_disposed_without_a_word(case: Case) {
    let mut other = case.client().await;
    let (mut client, uris) = case.session().await;
    assert_eq!(client.ok("disposeSession", json!({"channel": uris.session})).await, Value::Null);
    let (mut last, begun) = case.begun().await;
    last.ok("ping", json!({})).await;
    other.notice("root/sessionAdded", &begun.session).await;
    assert!(!other.heard.iter().any(|message| message["params"]["session"] == uris.session), "nobody had heard of it");
}

async fn disposing_ends_a_running_turn_and_its_agent(case: Case) {
    let (mut client, uris) = case.session().await;
    let running = |case: &Case| {
        let agents = case.stage.host.agents();
        agents.iter().filter(|agent| agent.command.contains(uris.session.trim_start_matches("claude:/"))).count()
    };
    client.say(&uris.chat, "hang").await;
    client.action(&uris.chat, "chat/delta").await;
    assert_eq!(running(&case), 1);
    assert_eq!(client.ok("disposeSession", json!({"channel": uris.session})).await, Value::Null);
    crate::common::bench::eventually("its agent is gone", || running(&case) == 0).await;
}

async fn disposing_twice_is_32001(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.code("disposeSession", json!({"channel": uris.session})).await, -32001);
    assert_eq!(client.code("disposeSession", json!({"channel": Uris::fresh().session})).await, -32001);
}

async fn a_disposed_uri_can_be_used_again(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.ok("disposeSession", json!({"channel": uris.session})).await;
    let params = json!({"channel": uris.session, "workingDirectories": [case.uri("")]});
    client.ok("createSession", params).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"], json!([]), "nothing of the other one is in it");
    assert_eq!(words(&client.ask(&uris.chat, "new").await), "echo: new");
}

async fn all_clients_lose_a_disposed_session(case: Case) {
    let (mut client, uris) = case.begun().await;
    let mut other = case.beside(&uris).await;
    client.ok("disposeSession", json!({"channel": uris.session})).await;
    other.notice("root/sessionRemoved", &uris.session).await;
    other.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "x"})).await;
    other.ok("ping", json!({})).await;
    assert_eq!(other.code("subscribe", json!({"channel": uris.session})).await, -32001);
}

async fn the_editor_creates_two_and_disposes_the_first(case: Case) {
    let (mut client, first) = case.session().await;
    let second = client.create(&case.dir).await;
    client.ok("disposeSession", json!({"channel": first.session})).await;
    assert_eq!(words(&client.ask(&second.chat, "hi").await), "echo: hi");
    let list = client.ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != first.session));
}

async fn a_failed_start_is_a_failed_turn_and_the_next_one_tries_again(case: Case) {
    let (mut client, uris) = case.session().await;
    std::fs::remove_dir(&case.dir).unwrap();
    let turn = client.say(&uris.chat, "hello").await;
    let error = client.end(&uris.chat, &turn).await;
    assert_eq!(error["type"], "chat/error");
    assert_eq!(error["part"]["error"]["errorType"], "workingDirectoryMissing");
    sentence(&error["part"]["error"]["message"]);
    let list = client.ok("listSessions", json!({})).await;
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["resource"] != uris.session), "not listed");
    std::fs::create_dir(&case.dir).unwrap();
    assert_eq!(words(&client.ask(&uris.chat, "again").await), "echo: again");
    client.agrees(&uris.chat).await;
}

async fn the_default_chat_may_be_created_without_effect(case: Case) {
    let (mut client, uris) = case.session().await;
    for _ in 0..2 {
        assert_eq!(client.ok("createChat", json!({"channel": uris.session, "chat": uris.chat})).await, Value::Null);
    }
    assert_eq!(client.subscribe(&uris.session).await["chats"].as_array().unwrap().len(), 1);
}

async fn directories_are_added_and_removed(case: Case) {
    let (mut client, uris) = case.session().await;
    std::fs::create_dir(case.dir.join("more")).unwrap();
    let (first, more) = (case.uri("").trim_end_matches('/').to_owned(), case.uri("more"));
    client.accepted(&uris.session, json!({"type": "session/workingDirectorySet", "directory": more})).await;
    assert_eq!(client.subscribe(&uris.session).await["workingDirectories"], json!([first, more]));
    client.refused(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": first})).await;
    client.refused(&uris.session, json!({"type": "session/workingDirectorySet", "directory": case.uri("gone")})).await;
    client.accepted(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": more})).await;
    client.refused(&uris.session, json!({"type": "session/workingDirectoryRemoved", "directory": more})).await;
    client.agrees(&uris.session).await;
}
