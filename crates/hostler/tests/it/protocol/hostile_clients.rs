//! Hostile and broken clients: they are answered or disconnected, and other clients are not affected.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::harness::*;

area! { HostFixture::with_fake_agent();
    deeply_nested_json_is_an_error,
    megabyte_of_brackets_is_an_error,
    huge_method_name_is_unknown,
    huge_id_is_echoed_or_rejected,
    out_of_range_numbers_are_tolerated,
    duplicate_keys_are_tolerated,
    lone_surrogates_are_tolerated,
    nul_and_control_characters_are_tolerated,
    every_method_answers_every_wrong_type,
    every_method_answers_huge_strings,
    unmasked_frame_closes_only_its_own_connection,
    unknown_opcode_closes_only_its_own_connection,
    oversized_frame_closes_only_its_own_connection,
    invalid_utf_8_does_not_affect_others,
    half_a_frame_and_a_disconnect_do_not_affect_others,
    half_an_http_head_does_not_affect_others,
    garbage_instead_of_http_does_not_affect_others,
    endless_http_head_is_rejected,
    hundred_silent_connections_do_not_affect_others,
    connections_cut_in_every_phase_leak_nothing,
    burst_of_dispatches_is_answered_in_order,
    hundred_concurrent_sessions_are_created_and_disposed,
    path_like_names_are_not_used_as_paths,
    scripts_in_titles_are_plain_text,
}

/// Session of another client, which must not be affected.
struct OtherSession {
    client: RecordingClient,
    uris: CaseUris,
}

impl OtherSession {
    async fn new(case: &ProtocolCase) -> Self {
        let (client, uris) = case.connect_with_session().await;
        Self { client, uris }
    }

    async fn assert_still_works(mut self) {
        let turn = self.client.send_and_wait(&self.uris.chat, "all is well").await;
        assert_eq!(markdown_text(&turn), "echo: all is well");
        self.client.assert_state_matches_host(&self.uris.chat).await;
    }
}

/// Sends texts and checks that the connection stays open.
async fn survived(case: &ProtocolCase, texts: Vec<String>) {
    let bystander = OtherSession::new(case).await;
    let mut client = case.connect_client().await;
    for text in texts {
        client.send_text(text).await;
    }
    client.call_ok("ping", json!({})).await;
    bystander.assert_still_works().await;
}

async fn deeply_nested_json_is_an_error(case: ProtocolCase) {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let method = |params: String| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"ping","params":{params}}}"#);
    survived(&case, vec![deep(200), method(deep(200)), method(deep(100_000)), deep(100_000)]).await;
}

async fn megabyte_of_brackets_is_an_error(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.send_text("[".repeat(1_000_000)).await;
    let answer = client.wait_for(|message| message.get("error").is_some()).await;
    assert_eq!(answer["error"]["code"], -32700);
}

async fn huge_method_name_is_unknown(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let error = client.call(&"x".repeat(1_000_000), json!({})).await.unwrap_err();
    assert_eq!(error["code"], -32601);
}

async fn huge_id_is_echoed_or_rejected(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let id = "i".repeat(100_000);
    client.send_text(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()).await;
    client.wait_for(|message| message["id"] == id || message.get("error").is_some()).await;
    for id in [json!({"x": 1}), json!([1]), json!(true), json!(1.5)] {
        client.send_text(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()).await;
        client.wait_for(|message| message["id"] == id || message.get("error").is_some()).await;
    }
}

async fn out_of_range_numbers_are_tolerated(case: ProtocolCase) {
    let (_, uris) = case.connect_with_session().await;
    let numbers = ["1e400", "-1e400", "99999999999999999999999999", "-0", "1e-400", "0.1e1"];
    let mut texts = Vec::new();
    for number in numbers {
        texts.push(format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#));
        texts.push(format!(r#"{{"jsonrpc":"2.0","id":8,"method":"listSessions","params":{{"limit":{number}}}}}"#));
        texts.push(format!(
            r#"{{"jsonrpc":"2.0","method":"dispatchAction","params":{{"channel":"{}","clientSeq":{number},"action":{{"type":"chat/turnCancelled","turnId":"t","duration":{number}}}}}}}"#,
            uris.chat
        ));
    }
    survived(&case, texts).await;
}

async fn duplicate_keys_are_tolerated(case: ProtocolCase) {
    let texts = [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"channel":"a","channel":"ahp-root://"}}"#,
    ];
    survived(&case, texts.map(str::to_owned).to_vec()).await;
}

async fn lone_surrogates_are_tolerated(case: ProtocolCase) {
    let (_, uris) = case.connect_with_session().await;
    let title = r#"{"type":"session/titleChanged","title":"\ud800 alone"}"#;
    let texts = vec![
        r#"{"jsonrpc":"2.0","id":"\udc00","method":"ping"}"#.to_owned(),
        format!(
            r#"{{"jsonrpc":"2.0","method":"dispatchAction","params":{{"channel":"{}","clientSeq":1,"action":{title}}}}}"#,
            uris.session
        ),
    ];
    survived(&case, texts).await;
}

async fn nul_and_control_characters_are_tolerated(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let seq =
        client.dispatch(&uris.session, json!({"type": "session/titleChanged", "title": "a\u{0}\u{1}\u{7f}b"})).await;
    client.wait_for_echo(seq).await;
    for channel in ["\u{0}", "claude:/\u{0}", "claude:/a\nb", "file:///\u{0}"] {
        assert!(client.call("subscribe", json!({"channel": channel})).await.is_err());
        assert!(client.call("resourceRead", json!({"uri": channel})).await.is_err());
    }
    survived(&case, vec!["\u{0}".to_owned(), "{\"id\":\u{1}}".to_owned()]).await;
}

const METHODS: &[&str] = &[
    "subscribe",
    "listSessions",
    "createSession",
    "disposeSession",
    "createChat",
    "disposeChat",
    "moveChat",
    "completions",
    "resolveSessionConfig",
    "sessionConfigCompletions",
    "resourceRead",
    "resourceWrite",
    "resourceList",
    "resourceCopy",
    "resourceDelete",
    "resourceMove",
    "resourceResolve",
    "resourceMkdir",
    "resourceRequest",
    "createResourceWatch",
    "hostler/listGrants",
    "hostler/allowGrant",
    "hostler/revokeGrant",
    "hostler/listAudit",
    "hostler/readBackgroundOutput",
    "hostler/removeImages",
    "hostler/planAttachments",
    "hostler/stopBackgroundWork",
    "initialize",
    "reconnect",
];

async fn every_method_answers_every_wrong_type(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    let mut client = case.connect_client().await;
    let keys = ["channel", "uri", "source", "destination", "data", "id", "config", "kind", "text", "offset", "limit"];
    for method in METHODS {
        for bad in [json!(7), json!([[]]), json!({"x": {}}), json!(null), json!(true), json!("")] {
            let params: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), bad.clone())).collect();
            if let Err(error) = client.call(method, Value::Object(params)).await {
                assert_readable_sentence(&error["message"]);
                assert_ne!(error["code"], -32603, "{method} {bad}: {error}");
            }
        }
    }
    bystander.assert_still_works().await;
}

async fn every_method_answers_huge_strings(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    let mut client = case.connect_client().await;
    let long = "x/".repeat(50_000);
    for method in METHODS {
        let params = json!({"channel": long, "uri": format!("file:///{long}"), "id": long, "text": long, "offset": 0,
            "source": format!("file:///{long}"), "destination": format!("file:///{long}"), "kind": "userMessage",
            "property": long, "query": long, "cursor": long, "images": "all", "attachments": []});
        if let Err(error) = client.call(method, params).await {
            let message = assert_readable_sentence(&error["message"]);
            assert!(message.len() < 250_000, "{method}: {} bytes", message.len());
        }
    }
    bystander.assert_still_works().await;
}

/// Returns a socket after its handshake.
async fn upgraded(case: &ProtocolCase) -> TcpStream {
    let (port, token) = (case.fixture.host.port, case.fixture.host.token());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "GET /?tkn={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream
}

/// Sends bytes that are not a frame, and waits until the host closes the connection.
async fn ended_by(case: &ProtocolCase, bytes: &[u8]) {
    let bystander = OtherSession::new(case).await;
    let mut stream = upgraded(case).await;
    stream.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    // A close or a reset: both end the connection.
    let over = tokio::time::timeout(crate::common::TEST_TIMEOUT, stream.read_to_end(&mut rest)).await;
    assert!(over.is_ok(), "the host hangs up");
    bystander.assert_still_works().await;
}

async fn unmasked_frame_closes_only_its_own_connection(case: ProtocolCase) {
    ended_by(&case, b"\x81\x02{}").await;
}

async fn unknown_opcode_closes_only_its_own_connection(case: ProtocolCase) {
    ended_by(&case, b"\x83\x80\0\0\0\0").await;
}

async fn oversized_frame_closes_only_its_own_connection(case: ProtocolCase) {
    let mut frame = vec![0x81, 0xff];
    frame.extend((1_u64 << 40).to_be_bytes());
    frame.extend([0; 4]);
    ended_by(&case, &frame).await;
}

async fn invalid_utf_8_does_not_affect_others(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    let mut stream = upgraded(&case).await;
    stream.write_all(b"\x81\x82\0\0\0\0\xff\xfe").await.unwrap();
    let mut answer = vec![0; 2];
    // An error or a close frame.
    tokio::time::timeout(crate::common::TEST_TIMEOUT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    bystander.assert_still_works().await;
}

async fn half_a_frame_and_a_disconnect_do_not_affect_others(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    for _ in 0..20 {
        let mut stream = upgraded(&case).await;
        stream.write_all(b"\x81\xfe\x10\x00\0\0\0\0{\"half").await.unwrap();
        drop(stream);
    }
    bystander.assert_still_works().await;
}

async fn raw_bytes(case: &ProtocolCase, bytes: &[u8]) -> Vec<u8> {
    let bystander = OtherSession::new(case).await;
    let mut stream = TcpStream::connect(("127.0.0.1", case.fixture.host.port)).await.unwrap();
    // The host may close the connection before the end of the bytes.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let over = tokio::time::timeout(crate::common::TEST_TIMEOUT, stream.read_to_end(&mut answer)).await;
    assert!(over.is_ok(), "the host hangs up");
    bystander.assert_still_works().await;
    answer
}

async fn half_an_http_head_does_not_affect_others(case: ProtocolCase) {
    raw_bytes(&case, b"GET /?tkn=").await;
}

async fn garbage_instead_of_http_does_not_affect_others(case: ProtocolCase) {
    raw_bytes(&case, &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0xff, 0x0d, 0x0a, 0x0d, 0x0a]).await;
}

async fn endless_http_head_is_rejected(case: ProtocolCase) {
    let head = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(1_000_000));
    let answer = raw_bytes(&case, head.as_bytes()).await;
    assert!(!String::from_utf8_lossy(&answer).contains(" 101 "));
}

async fn hundred_silent_connections_do_not_affect_others(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(upgraded(&case).await);
    }
    bystander.assert_still_works().await;
    drop(idle);
}

async fn connections_cut_in_every_phase_leak_nothing(case: ProtocolCase) {
    let bystander = OtherSession::new(&case).await;
    for phase in 0..5 {
        let mut client = case.connect_uninitialized().await;
        let hello = client.initialize_params(&[ROOT]);
        if phase > 0 {
            client.request("initialize", hello).await;
        }
        if phase > 1 {
            client.request("createSession", json!({"channel": CaseUris::random().session})).await;
        }
        if phase > 2 {
            client.request("listSessions", json!({})).await;
        }
        if phase > 3 {
            client.dispatch(ROOT, json!({"type": "root/configChanged", "config": {"cut": phase}})).await;
        }
        drop(client);
    }
    bystander.assert_still_works().await;
}

async fn burst_of_dispatches_is_answered_in_order(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut last = 0;
    for number in 0..2000 {
        last = client
            .dispatch(&uris.session, json!({"type": "session/titleChanged", "title": format!("t{number}")}))
            .await;
    }
    assert_eq!(client.wait_for_echo(last).await["action"]["title"], "t1999");
    client.assert_state_matches_host(&uris.session).await;
}

async fn hundred_concurrent_sessions_are_created_and_disposed(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let all: Vec<_> = (0..100).map(|_| CaseUris::random()).collect();
    let mut answers = Vec::new();
    for uris in &all {
        answers.push(client.request("createSession", json!({"channel": uris.session})).await);
        answers.push(client.request("disposeSession", json!({"channel": uris.session})).await);
    }
    for id in answers {
        assert_eq!(client.wait_for_response(id).await, Ok(Value::Null));
    }
}

async fn path_like_names_are_not_used_as_paths(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for name in ["../../etc/passwd", "..", "a/../../b", "%2e%2e/x", "$(touch owned)", "-rf", "'; rm -rf /"] {
        let session = format!("claude:/{name}");
        let params = json!({"channel": session, "workingDirectories": [case.uri("")]});
        if client.call("createSession", params).await.is_ok() {
            let uris = CaseUris::from_session(&session);
            client.subscribe(&uris.chat).await;
            let turn = client.send_and_wait(&uris.chat, "hello").await;
            assert_eq!(turn["state"], "complete", "{name}");
            client.call_ok("disposeSession", json!({"channel": session})).await;
        }
    }
    assert_eq!(std::fs::read_dir(&case.dir).unwrap().count(), 0, "nothing was made by it");
}

async fn scripts_in_titles_are_plain_text(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let title = "<script>alert(1)</script> \u{1b}[31m `id` $(id)";
    client.dispatch_accepted(&uris.session, json!({"type": "session/titleChanged", "title": title})).await;
    assert_eq!(client.subscribe(&uris.session).await["title"], title);
    let mut socket = tokio_tungstenite::connect_async(case.url()).await.unwrap().0;
    socket.send(Message::Text(r#"{"id":1,"method":"ping"}"#.into())).await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
}
