//! Transport and framing: HTTP before the socket, frames on it, JSON-RPC in them.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::harness::*;

area! { HostFixture::with_fake_agent();
    token_in_the_query_is_accepted,
    bearer_token_in_the_header_is_accepted,
    missing_token_is_403,
    wrong_token_is_403,
    duplicate_token_is_403,
    foreign_origin_is_403,
    editor_origin_is_accepted,
    unknown_host_name_is_403,
    plain_http_request_gets_the_page_without_secrets,
    websocket_upgrade_works_on_every_path,
    responses_are_text_frames_of_one_json_object,
    binary_frame_is_read_like_text,
    fragmented_message_is_reassembled,
    websocket_ping_is_answered_with_its_bytes,
    close_is_answered_with_a_close,
    invalid_json_is_a_parse_error_without_an_id,
    batch_is_an_invalid_request,
    scalar_is_an_invalid_request,
    message_without_a_method_is_an_invalid_request,
    non_string_method_is_an_invalid_request,
    ids_are_echoed_unchanged,
    null_id_is_a_notification,
    null_result_is_serialized,
    absent_params_count_as_empty,
    non_object_params_are_invalid,
    thousand_requests_in_a_row_are_all_answered,
    slow_request_does_not_delay_a_quick_one,
    response_without_a_request_is_ignored,
    ping_needs_no_initialize,
}

/// Sends an HTTP upgrade request; returns its status line.
async fn upgrade(case: &ProtocolCase, path: &str, headers: &[(&str, &str)]) -> String {
    let port = case.fixture.host.port;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut head = format!("GET {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head.push_str(&format!("Host: 127.0.0.1:{port}\r\n"));
    }
    let socket = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")];
    let key = [("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")];
    for (name, value) in headers.iter().chain(&socket).chain(&key) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(2).any(|end| end == b"\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "an answer");
    }
    String::from_utf8_lossy(&answer).lines().next().unwrap().to_owned()
}

async fn status(case: &ProtocolCase, path: &str, headers: &[(&str, &str)]) -> u16 {
    let line = upgrade(case, path, headers).await;
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

fn with_token(case: &ProtocolCase) -> String {
    format!("/?tkn={}", case.fixture.host.token())
}

async fn token_in_the_query_is_accepted(case: ProtocolCase) {
    assert_eq!(status(&case, &with_token(&case), &[]).await, 101);
}

async fn bearer_token_in_the_header_is_accepted(case: ProtocolCase) {
    let bearer = format!("Bearer {}", case.fixture.host.token());
    assert_eq!(status(&case, "/", &[("Authorization", &bearer)]).await, 101);
    assert_eq!(status(&case, "/", &[("Authorization", "Bearer x")]).await, 403);
}

async fn missing_token_is_403(case: ProtocolCase) {
    assert_eq!(status(&case, "/", &[]).await, 403);
    assert_eq!(status(&case, "/?tkn=", &[]).await, 403);
}

async fn wrong_token_is_403(case: ProtocolCase) {
    assert_eq!(status(&case, "/?tkn=wrong", &[]).await, 403);
    assert_eq!(status(&case, &format!("{}x", with_token(&case)), &[]).await, 403);
}

async fn duplicate_token_is_403(case: ProtocolCase) {
    let twice = format!("{}&tkn={}", with_token(&case), case.fixture.host.token());
    assert_eq!(status(&case, &twice, &[]).await, 403);
}

async fn foreign_origin_is_403(case: ProtocolCase) {
    let path = with_token(&case);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(status(&case, &path, &[("Origin", origin)]).await, 403, "{origin}");
    }
}

async fn editor_origin_is_accepted(case: ProtocolCase) {
    let path = with_token(&case);
    for origin in ["vscode-file://vscode-app", "vscode-webview://abc"] {
        assert_eq!(status(&case, &path, &[("Origin", origin)]).await, 101, "{origin}");
        assert_eq!(status(&case, "/", &[("Origin", origin)]).await, 403, "{origin} needs the token as well");
    }
}

async fn unknown_host_name_is_403(case: ProtocolCase) {
    assert_eq!(status(&case, &with_token(&case), &[("Host", "evil.example")]).await, 403);
    assert_eq!(status(&case, &with_token(&case), &[("Host", "localhost:1")]).await, 101);
}

async fn plain_http_request_gets_the_page_without_secrets(case: ProtocolCase) {
    let port = case.fixture.host.port;
    let answer = reqwest::get(format!("http://127.0.0.1:{port}{}", with_token(&case))).await.unwrap();
    // A binary that was built without the page answers 503.
    assert!([200, 503].contains(&answer.status().as_u16()), "{}", answer.status());
    let body = answer.text().await.unwrap();
    assert!(!body.trim().is_empty() && !body.contains(case.fixture.host.token()));
}

async fn websocket_upgrade_works_on_every_path(case: ProtocolCase) {
    for path in ["/", "/anything", "/a/b/c.html"] {
        let path = format!("{path}?x=1&tkn={}", case.fixture.host.token());
        assert_eq!(status(&case, &path, &[]).await, 101, "{path}");
    }
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<TcpStream>>;

async fn socket(case: &ProtocolCase) -> Socket {
    tokio_tungstenite::connect_async(case.url()).await.unwrap().0
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn responses_are_text_frames_of_one_json_object(case: ProtocolCase) {
    let mut socket = socket(&case).await;
    let hello = case.connect_uninitialized().await.initialize_params(&[ROOT]);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    for text in [PING.to_owned(), "{".to_owned(), hello.to_string()] {
        socket.send(Message::Text(text.into())).await.unwrap();
        let frame = socket.next().await.unwrap().unwrap();
        let Message::Text(text) = frame else { panic!("a text frame, not {frame:?}") };
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    }
}

async fn binary_frame_is_read_like_text(case: ProtocolCase) {
    let mut socket = socket(&case).await;
    socket.send(Message::Binary(PING.as_bytes().to_vec().into())).await.unwrap();
    let frame = socket.next().await.unwrap().unwrap();
    assert!(matches!(&frame, Message::Text(text) if text.contains("\"id\":1")), "{frame:?}");
    socket.send(Message::Binary(vec![0xff, 0xfe, 0x00].into())).await.unwrap();
    let frame = socket.next().await.unwrap().unwrap();
    assert!(matches!(&frame, Message::Text(text) if text.contains("-32700")), "{frame:?}");
}

async fn fragmented_message_is_reassembled(case: ProtocolCase) {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let mut socket = socket(&case).await;
    let (one, two) = PING.split_at(17);
    let piece =
        |text: &str, code, last| Message::Frame(Frame::message(text.to_owned().into_bytes(), OpCode::Data(code), last));
    socket.send(piece(one, Data::Text, false)).await.unwrap();
    socket.send(piece("", Data::Continue, false)).await.unwrap();
    socket.send(piece(two, Data::Continue, true)).await.unwrap();
    let frame = socket.next().await.unwrap().unwrap();
    assert!(matches!(&frame, Message::Text(text) if text.contains("\"id\":1")), "{frame:?}");
}

async fn websocket_ping_is_answered_with_its_bytes(case: ProtocolCase) {
    let mut socket = socket(&case).await;
    socket.send(Message::Ping(b"are you there".to_vec().into())).await.unwrap();
    let frame = socket.next().await.unwrap().unwrap();
    assert_eq!(frame, Message::Pong(b"are you there".to_vec().into()));
}

async fn close_is_answered_with_a_close(case: ProtocolCase) {
    let mut socket = socket(&case).await;
    socket.close(None).await.unwrap();
    loop {
        match socket.next().await {
            None => break,
            Some(Ok(Message::Close(_))) => {}
            Some(other) => panic!("{other:?}"),
        }
    }
}

/// Returns the error that a text is answered with, and its id.
async fn error(client: &mut RecordingClient, text: &str) -> (i64, Value) {
    client.send_text(text).await;
    let message = client.wait_for(|message| message.get("error").is_some()).await;
    assert_readable_sentence(&message["error"]["message"]);
    (message["error"]["code"].as_i64().unwrap(), message["id"].clone())
}

async fn invalid_json_is_a_parse_error_without_an_id(case: ProtocolCase) {
    for mut client in [case.connect_uninitialized().await, case.connect_client().await] {
        for text in ["{", "hello", "", "{\"id\":1,\"method\":\"ping\"} trailing", "\u{feff}{}"] {
            assert_eq!(error(&mut client, text).await, (-32700, Value::Null), "{text:?}");
        }
        client.call_ok("ping", json!({})).await;
    }
}

async fn batch_is_an_invalid_request(case: ProtocolCase) {
    for mut client in [case.connect_uninitialized().await, case.connect_client().await] {
        assert_eq!(error(&mut client, &format!("[{PING}]")).await, (-32600, Value::Null));
        assert_eq!(error(&mut client, "[]").await, (-32600, Value::Null));
    }
}

async fn scalar_is_an_invalid_request(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for text in ["7", "\"ping\"", "null", "true"] {
        assert_eq!(error(&mut client, text).await, (-32600, Value::Null), "{text}");
    }
}

async fn message_without_a_method_is_an_invalid_request(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    assert_eq!(error(&mut client, r#"{"jsonrpc":"2.0","id":77}"#).await, (-32600, json!(77)));
    assert_eq!(error(&mut client, "{}").await, (-32600, Value::Null));
}

async fn non_string_method_is_an_invalid_request(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for method in ["7", "null", "{}", "[\"ping\"]"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":78,"method":{method}}}"#);
        assert_eq!(error(&mut client, &text).await, (-32600, json!(78)), "{method}");
    }
}

async fn ids_are_echoed_unchanged(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for id in [json!(0), json!(9_007_199_254_740_993_u64), json!(-1), json!("seven"), json!(""), json!("ü\n\"")] {
        client.send_text(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()).await;
        let answer = client.wait_for(|message| message["id"] == id).await;
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": null}));
    }
}

async fn null_id_is_a_notification(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.send_text(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#).await;
    client.call_ok("ping", json!({})).await;
    let answers = client.received.iter().filter(|message| message.get("method").is_none()).count();
    assert_eq!(answers, 2, "those to initialize and to the second ping: {:#?}", client.received);
}

async fn null_result_is_serialized(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let id = client.request("ping", json!({"channel": ROOT})).await;
    let answer = client.wait_for(|message| message["id"] == id).await;
    assert_eq!(answer.get("result"), Some(&Value::Null));
    assert_eq!(answer.get("error"), None);
}

async fn absent_params_count_as_empty(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.send_text(r#"{"jsonrpc":"2.0","id":900,"method":"listSessions"}"#).await;
    assert!(client.wait_for_response(900).await.unwrap()["items"].is_array());
}

async fn non_object_params_are_invalid(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for params in [json!(7), json!([1, 2]), json!("x"), json!(true)] {
        assert_eq!(client.call_error_code("listSessions", params.clone()).await, -32602, "{params}");
        assert_eq!(client.call_error_code("subscribe", params.clone()).await, -32602, "{params}");
    }
}

async fn thousand_requests_in_a_row_are_all_answered(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    let mut ids = Vec::new();
    for number in 0..1000 {
        let method = if number % 2 == 0 { "ping" } else { "no/such/method" };
        ids.push(client.request(method, json!({})).await);
    }
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(client.wait_for_response(id).await.is_ok(), number % 2 == 0);
    }
}

async fn slow_request_does_not_delay_a_quick_one(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    // A sub-agent's chat may be created at any time, so this request waits for some seconds.
    let soon = uris.chat.replace("//default/", "//subagent/") + "/call";
    let slow = client.request("subscribe", json!({"channel": soon})).await;
    client.call_ok("ping", json!({})).await;
    assert!(!client.received.iter().any(|message| message["id"] == slow), "{:#?}", client.received);
    assert_eq!(client.wait_for_response(slow).await.unwrap_err()["code"], -32001);
}

async fn response_without_a_request_is_ignored(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    client.send_text(r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#).await;
    client.send_text(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#).await;
    client.send_text(r#"{"jsonrpc":"2.0","id":null,"error":7}"#).await;
    client.call_ok("ping", json!({})).await;
}

async fn ping_needs_no_initialize(case: ProtocolCase) {
    let mut client = case.connect_uninitialized().await;
    assert_eq!(client.call_ok("ping", json!({})).await, Value::Null);
    assert_eq!(client.call_ok("ping", json!({"channel": ROOT})).await, Value::Null);
}
