//! Rejected actions: host-only, unsupported, malformed, or on the wrong channel. Each comes back with a reason, and
//! the state is unchanged.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    host_only_session_actions,
    host_only_chat_actions,
    unsupported_session_actions,
    unsupported_chat_actions,
    session_actions_without_their_payload,
    chat_actions_without_their_payload,
    session_actions_on_chats,
    chat_actions_on_sessions,
    chat_and_session_actions_on_the_root,
    root_actions_on_other_channels,
    unknown_action_types,
    actions_of_unsupported_channels,
    payloads_of_the_wrong_type,
    dispatch_without_a_type_is_dropped,
    dispatch_without_a_number_is_dropped,
    dispatch_without_a_channel_is_dropped,
    fractional_client_number_is_accepted,
    rejection_contains_the_rejected_action,
    rejection_changes_no_clients_state,
    many_rejections_in_a_row_are_all_answered,
    oversized_action_is_rejected,
}

/// Asserts that rejected actions change nothing of a session.
async fn untouched(case: &ProtocolCase, actions: impl Fn(&CaseUris) -> Vec<(String, Value)>) {
    let (mut client, uris) = case.connect_with_started_session().await;
    // The session list is updated a moment later.
    let mut before = Vec::new();
    for channel in [&uris.session, &uris.chat] {
        before.push(client.subscribe(channel).await);
    }
    for (channel, action) in actions(&uris) {
        client.dispatch_rejected(&channel, action).await;
    }
    for (channel, before) in [&uris.session, &uris.chat].into_iter().zip(before) {
        assert_eq!(client.subscribe(channel).await, before);
        client.assert_state_matches_host(channel).await;
    }
}

fn on(channel: &str, types: &[&str]) -> Vec<(String, Value)> {
    types.iter().map(|name| (channel.to_owned(), json!({"type": name}))).collect()
}

async fn host_only_session_actions(case: ProtocolCase) {
    untouched(&case, |uris| {
        let mut actions = on(
            &uris.session,
            &[
                "session/ready",
                "session/creationFailed",
                "session/chatAdded",
                "session/chatRemoved",
                "session/chatUpdated",
                "session/chatsReordered",
                "session/defaultChatChanged",
                "session/serverToolsChanged",
                "session/inputNeededSet",
                "session/inputNeededRemoved",
                "session/customizationsChanged",
                "session/customizationUpdated",
                "session/customizationRemoved",
                "session/mcpServerStateChanged",
                "session/activityChanged",
                "session/changesetsChanged",
                "session/metaChanged",
            ],
        );
        let error = json!({"errorType": "x", "message": "forged"});
        actions.push((uris.session.clone(), json!({"type": "session/creationFailed", "error": error})));
        actions.push((uris.session.clone(), json!({"type": "session/metaChanged", "_meta": {"hostler": {}}})));
        actions.push((uris.session.clone(), json!({"type": "session/chatRemoved", "chat": uris.chat})));
        actions
    })
    .await;
}

async fn host_only_chat_actions(case: ProtocolCase) {
    untouched(&case, |uris| {
        let mut actions = on(
            &uris.chat,
            &[
                "chat/responsePart",
                "chat/delta",
                "chat/reasoning",
                "chat/usage",
                "chat/turnComplete",
                "chat/error",
                "chat/toolCallStart",
                "chat/toolCallDelta",
                "chat/toolCallReady",
                "chat/toolCallAuthRequired",
                "chat/toolCallAuthResolved",
                "chat/inputRequested",
                "chat/turnsLoaded",
                "chat/activityChanged",
                "chat/movableChanged",
                "chat/changesetsChanged",
                "chat/backgroundWorkSet",
                "chat/backgroundWorkRemoved",
                "chat/canvasesChanged",
            ],
        );
        actions.push((uris.chat.clone(), json!({"type": "chat/turnsLoaded", "turns": []})));
        actions.push((uris.chat.clone(), json!({"type": "chat/turnComplete", "turnId": "t", "duration": 1})));
        actions
    })
    .await;
}

async fn unsupported_session_actions(case: ProtocolCase) {
    untouched(&case, |uris| {
        let directory = "file:///tmp";
        let actions = [
            json!({"type": "session/customizationToggled", "id": "x", "enablement": []}),
            json!({"type": "session/mcpServerStartRequested", "id": "x"}),
            json!({"type": "session/mcpServerStopRequested", "id": "x"}),
            json!({"type": "session/mcpServerBackgroundRequested", "id": "x"}),
            json!({"type": "session/workingDirectoryReplaced", "directory": directory, "replacement": directory}),
        ];
        actions.map(|action| (uris.session.clone(), action)).to_vec()
    })
    .await;
}

async fn unsupported_chat_actions(case: ProtocolCase) {
    untouched(&case, |uris| {
        let actions = [
            json!({"type": "chat/truncated"}),
            json!({"type": "chat/truncated", "turnId": "t"}),
            json!({"type": "chat/workingDirectorySet", "directory": "file:///tmp"}),
            json!({"type": "chat/workingDirectoryRemoved", "directory": "file:///tmp"}),
            json!({"type": "chat/toolCallResultConfirmed", "turnId": "t", "toolCallId": "c", "approved": true}),
            json!({"type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": "c", "content": []}),
        ];
        actions.map(|action| (uris.chat.clone(), action)).to_vec()
    })
    .await;
}

async fn session_actions_without_their_payload(case: ProtocolCase) {
    untouched(&case, |uris| {
        on(
            &uris.session,
            &[
                "session/titleChanged",
                "session/activeClientSet",
                "session/activeClientRemoved",
                "session/workingDirectorySet",
                "session/workingDirectoryRemoved",
                "session/isReadChanged",
                "session/isArchivedChanged",
                "session/configChanged",
            ],
        )
    })
    .await;
}

async fn chat_actions_without_their_payload(case: ProtocolCase) {
    untouched(&case, |uris| {
        on(
            &uris.chat,
            &[
                "chat/turnStarted",
                "chat/turnCancelled",
                "chat/turnResume",
                "chat/toolCallConfirmed",
                "chat/inputAnswerChanged",
                "chat/inputCompleted",
                "chat/pendingMessageSet",
                "chat/pendingMessageRemoved",
                "chat/queuedMessagesReordered",
                "chat/isReadChanged",
                "chat/isArchivedChanged",
            ],
        )
    })
    .await;
}

async fn session_actions_on_chats(case: ProtocolCase) {
    untouched(&case, |uris| {
        let actions = [
            json!({"type": "session/isReadChanged", "isRead": true}),
            json!({"type": "session/isArchivedChanged", "isArchived": true}),
            json!({"type": "session/configChanged", "config": {"permissionMode": "plan"}}),
            json!({"type": "session/activeClientRemoved", "clientId": "x"}),
        ];
        actions.map(|action| (uris.chat.clone(), action)).to_vec()
    })
    .await;
}

async fn chat_actions_on_sessions(case: ProtocolCase) {
    untouched(&case, |uris| {
        let actions = [
            turn_started_action("hello"),
            turn_cancelled_action("t"),
            pending_message_action("queued", "q", "x"),
            json!({"type": "chat/draftChanged", "draft": user_message("x")}),
            json!({"type": "chat/isReadChanged", "isRead": true}),
        ];
        actions.map(|action| (uris.session.clone(), action)).to_vec()
    })
    .await;
}

async fn chat_and_session_actions_on_the_root(case: ProtocolCase) {
    untouched(&case, |_| {
        let actions = [
            turn_started_action("hello"),
            json!({"type": "session/titleChanged", "title": "x"}),
            json!({"type": "session/ready"}),
        ];
        actions.map(|action| (ROOT.to_owned(), action)).to_vec()
    })
    .await;
}

async fn root_actions_on_other_channels(case: ProtocolCase) {
    untouched(&case, |uris| {
        let action = json!({"type": "root/configChanged", "config": {"x": 1}});
        vec![(uris.session.clone(), action.clone()), (uris.chat.clone(), action)]
    })
    .await;
}

async fn unknown_action_types(case: ProtocolCase) {
    untouched(&case, |uris| {
        let names = ["session/fromTheFuture", "chat/fromTheFuture", "nonsense", "", "chat/", "Chat/TurnStarted", "🐎"];
        [on(&uris.session, &names), on(&uris.chat, &names)].concat()
    })
    .await;
}

async fn actions_of_unsupported_channels(case: ProtocolCase) {
    untouched(&case, |uris| {
        on(
            &uris.session,
            &[
                "changeset/filesReviewChanged",
                "canvas/stateChanged",
                "automation/createRequested",
                "automationRun/cancelRequested",
                "terminal/input",
                "resourceWatch/changed",
            ],
        )
    })
    .await;
}

async fn payloads_of_the_wrong_type(case: ProtocolCase) {
    untouched(&case, |uris| {
        let mut actions = Vec::new();
        for bad in [json!(7), json!([]), json!({}), json!(null)] {
            actions.push((uris.session.clone(), json!({"type": "session/titleChanged", "title": bad})));
            actions.push((uris.chat.clone(), json!({"type": "chat/turnCancelled", "turnId": bad, "duration": 1})));
            let mut action = turn_started_action("x");
            action["turnId"] = bad.clone();
            actions.push((uris.chat.clone(), action));
            let mut action = turn_started_action("x");
            action["message"] = bad.clone();
            actions.push((uris.chat.clone(), action));
            let mut action = turn_started_action("x");
            action["message"]["text"] = bad;
            actions.push((uris.chat.clone(), action));
        }
        actions.push((uris.chat.clone(), json!({"type": "chat/queuedMessagesReordered", "order": "q"})));
        actions
    })
    .await;
}

/// Asserts that dispatches without an answer have no effect.
async fn dropped(case: &ProtocolCase, broken: impl Fn(&CaseUris) -> Vec<Value>) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let before = client.subscribe(&uris.session).await;
    for params in broken(&uris) {
        client.notify("dispatchAction", params).await;
    }
    client.dispatch_rejected(&uris.session, json!({"type": "session/titleChanged", "title": ""})).await;
    assert_eq!(client.subscribe(&uris.session).await, before);
}

async fn dispatch_without_a_type_is_dropped(case: ProtocolCase) {
    dropped(&case, |uris| {
        let with = |action: Value| json!({"channel": uris.session, "clientSeq": 90, "action": action});
        vec![with(json!({})), with(json!({"type": 7})), with(json!(null)), with(json!("x")), with(json!([]))]
    })
    .await;
}

async fn dispatch_without_a_number_is_dropped(case: ProtocolCase) {
    dropped(&case, |uris| {
        let action = json!({"type": "session/titleChanged", "title": "unnumbered"});
        let with = |seq: Value| json!({"channel": uris.session, "clientSeq": seq, "action": action});
        vec![with(json!("x")), with(json!(null)), json!({"channel": uris.session, "action": action})]
    })
    .await;
}

async fn dispatch_without_a_channel_is_dropped(case: ProtocolCase) {
    dropped(&case, |_| {
        let action = json!({"type": "session/titleChanged", "title": "lost"});
        vec![
            json!({"clientSeq": 90, "action": action}),
            json!({"channel": 7, "clientSeq": 90, "action": action}),
            json!(null),
            json!([1, 2]),
            json!("x"),
        ]
    })
    .await;
}

async fn fractional_client_number_is_accepted(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let action = json!({"type": "session/titleChanged", "title": "Whole"});
    client.notify("dispatchAction", json!({"channel": uris.session, "clientSeq": 500.0, "action": action})).await;
    assert_eq!(client.wait_for_echo(500).await["action"]["title"], "Whole");
}

async fn rejection_contains_the_rejected_action(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let action = json!({"type": "chat/turnCancelled", "turnId": "t-42", "duration": 5});
    let seq = client.dispatch(&uris.chat, action.clone()).await;
    let envelope = client.wait_for_echo(seq).await;
    assert_eq!(envelope["action"], action, "so that its author can revert it");
    assert_eq!(envelope["origin"], json!({"clientId": client.id, "clientSeq": seq}));
    let unknown = json!({"type": "chat/fromTheFuture", "deep": {"er": [1]}});
    let seq = client.dispatch(&uris.chat, unknown.clone()).await;
    assert_eq!(client.wait_for_echo(seq).await["action"], unknown);
}

async fn rejection_changes_no_clients_state(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.dispatch_rejected(&uris.chat, turn_cancelled_action("t")).await;
    client.dispatch_rejected(&uris.session, json!({"type": "session/titleChanged", "title": ""})).await;
    for channel in [&uris.session, &uris.chat] {
        other.assert_state_matches_host(channel).await;
    }
}

async fn many_rejections_in_a_row_are_all_answered(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut seqs = Vec::new();
    for number in 0..300 {
        seqs.push(client.dispatch(&uris.chat, turn_cancelled_action(&number.to_string())).await);
    }
    for seq in seqs {
        assert_readable_sentence(&client.wait_for_echo(seq).await["rejectionReason"]);
    }
}

async fn oversized_action_is_rejected(case: ProtocolCase) {
    untouched(&case, |uris| {
        let long = "x".repeat(1_100_000);
        let mut meta = turn_started_action("x");
        meta["message"]["_meta"] = json!({"x": "y".repeat(70_000)});
        let ids: Vec<_> = (0..1001).map(|number| number.to_string()).collect();
        vec![
            (uris.chat.clone(), turn_started_action(&long)),
            (uris.chat.clone(), pending_message_action("queued", "q", &long)),
            (uris.chat.clone(), meta),
            (uris.chat.clone(), json!({"type": "chat/queuedMessagesReordered", "order": ids})),
        ]
    })
    .await;
}
