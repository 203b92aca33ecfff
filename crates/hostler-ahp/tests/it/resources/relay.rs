//! Files on a client's machine, requested over another connection of the same client, or by another client.

use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hostler_ahp::{AhpConnectionLimits, Server, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::common::{Rig, open_server_config, rig};
use crate::resources::VERSIONS;

/// Maximum time that a test waits for a condition.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next: u64,
    /// The host's requests to this client.
    asked: Vec<Value>,
}

impl Client {
    async fn connect(address: SocketAddr, version: &str, id: &str) -> Self {
        let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await.unwrap();
        let mut client = Self { socket, next: 0, asked: Vec::new() };
        client.call("initialize", json!({"protocolVersions": [version], "clientId": id})).await.unwrap();
        // From here on the client is registered.
        client.call("ping", json!({})).await.unwrap();
        client
    }

    async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        loop {
            let next = tokio::time::timeout(ANSWER_TIMEOUT, self.socket.next()).await.expect("a message");
            if let Message::Text(text) = next.unwrap().unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message["method"].is_string() && message.get("id").is_some() {
                    self.asked.push(message.clone());
                }
                return message;
            }
        }
    }

    /// Sends a request to the host without waiting for the answer.
    async fn ask(&mut self, method: &str, params: Value) -> String {
        self.next += 1;
        let id = format!("q{}", self.next);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn answer_to(&mut self, id: &str) -> Result<Value, Value> {
        loop {
            let mut message = self.receive().await;
            if message["id"] == id {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params).await;
        self.answer_to(&id).await
    }

    /// The host's next request to this client: its id, method and parameters.
    async fn is_asked(&mut self) -> (Value, String, Value) {
        loop {
            let mut message = self.receive().await;
            if let Some(method) = message["method"].as_str().filter(|_| message["id"].is_number()) {
                let method = method.to_owned();
                return (message["id"].take(), method, message["params"].take());
            }
        }
    }

    async fn answer(&mut self, id: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }
}

/// A host, and two connections of one client; the second one is newer.
struct Pair {
    rig: Rig,
    server: Server,
    address: SocketAddr,
    older: Client,
    newer: Client,
}

impl Pair {
    async fn new(version: &str) -> Self {
        Self::with_timeout(version, AhpConnectionLimits::default().host_request_timeout).await
    }

    async fn with_timeout(version: &str, timeout: Duration) -> Self {
        let rig = rig().await;
        let limits = AhpConnectionLimits { host_request_timeout: timeout, ..AhpConnectionLimits::default() };
        let config = ServerConfig { limits, ..open_server_config() };
        let server = Server::start(rig.engine.clone(), config).await.unwrap();
        let address = server.local_addr();
        let older = Client::connect(address, version, "Laptop").await;
        let newer = Client::connect(address, version, "Laptop").await;
        Self { rig, server, address, older, newer }
    }

    /// The older connection sends a request, which the newer one answers with `answer`.
    async fn through(&mut self, method: &str, params: Value, answer: Value) -> Result<Value, Value> {
        let id = self.older.ask(method, params).await;
        let (asked, _, _) = self.newer.is_asked().await;
        self.newer.answer(&asked, answer).await;
        self.older.answer_to(&id).await
    }

    async fn end(self) {
        assert!(self.older.asked.is_empty(), "only the newest connection is asked: {:#?}", self.older.asked);
        self.server.stop().await;
        self.rig.engine.shutdown().await;
    }
}

/// URI of a client's file, as editors write it.
fn file(name: &str) -> String {
    format!("vscode-agent-client://laptop/file/-/home/me/{name}")
}

fn of(name: &str, more: Value) -> Value {
    let mut params = json!({"channel": "ahp-root://", "uri": file(name)});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

fn between(source: &str, destination: &str) -> Value {
    json!({"channel": "ahp-root://", "source": source, "destination": destination})
}

#[tokio::test]
async fn a_request_is_relayed_unchanged_and_answered() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        let resolved = json!({"uri": file("a"), "type": "file", "size": 3, "etag": "e"});
        let entries = json!({"entries": [{"name": "a", "type": "file"}, {"name": "b", "type": "directory"}]});
        let both = between(&file("a"), &file("b"));
        for (method, params, answer) in [
            ("resourceList", of("", json!({})), entries),
            ("resourceResolve", of("a", json!({"followSymlinks": false})), resolved),
            ("resourceWrite", of("a", json!({"data": "x", "encoding": "utf-8", "ifMatch": "e"})), json!({})),
            ("resourceCopy", both.clone(), json!({})),
            ("resourceMove", both, json!({})),
            ("resourceDelete", of("a", json!({"recursive": true})), json!({})),
            ("resourceMkdir", of("d", json!({})), json!({})),
            ("resourceRequest", of("a", json!({"write": true})), json!({})),
        ] {
            let id = pair.older.ask(method, params.clone()).await;
            let (asked, what, with) = pair.newer.is_asked().await;
            assert_eq!((what.as_str(), with), (method, params));
            pair.newer.answer(&asked, answer.clone()).await;
            assert_eq!(pair.older.answer_to(&id).await, Ok(answer), "{method}");
        }
        pair.end().await;
    }
}

#[tokio::test]
async fn files_are_fetched_as_bytes_and_returned_in_the_requested_encoding() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        let bytes = json!({"data": "cmVtZW1iZXI=", "encoding": "base64", "contentType": "text/plain"});
        // The owning client does not receive the requester's channel.
        let mut plain = of("a", json!({}));
        plain["channel"] = json!("ahp-session:/x");
        let id = pair.older.ask("resourceRead", plain).await;
        let (asked, what, with) = pair.newer.is_asked().await;
        assert_eq!((what.as_str(), with), ("resourceRead", of("a", json!({"encoding": "base64"}))));
        pair.newer.answer(&asked, bytes.clone()).await;
        let text = json!({"data": "remember", "encoding": "utf-8", "contentType": "text/plain"});
        assert_eq!(pair.older.answer_to(&id).await, Ok(text.clone()));
        // Clients may answer with text although bytes were requested.
        let wanted = of("a", json!({"encoding": "base64"}));
        assert_eq!(pair.through("resourceRead", wanted, text).await, Ok(bytes));
        pair.end().await;
    }
}

#[tokio::test]
async fn a_clients_error_is_relayed_with_its_code_and_message() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        let denied = json!({"code": -32009, "message": "the person said no", "data": {"request": of("a", json!({"write": true}))}});
        let coded = |mut error: Value, code: &str| {
            error["data"]["code"] = json!(code);
            error
        };
        let nothing = json!({"code": -32008, "message": "x".repeat(5000), "data": {"anything": "else"}});
        let cut = json!({"code": -32008, "message": "x".repeat(1000)});
        let mute = json!({"code": -32603, "message": "the client refused"});
        for (error, expected) in [
            (denied.clone(), coded(denied, "permissionDenied")),
            (nothing, coded(cut, "notFound")),
            (json!("nonsense"), coded(mute, "internalError")),
        ] {
            let id = pair.older.ask("resourceMkdir", of("a", json!({}))).await;
            let (asked, _, _) = pair.newer.is_asked().await;
            pair.newer.send(json!({"jsonrpc": "2.0", "id": asked, "error": error})).await;
            assert_eq!(pair.older.answer_to(&id).await, Err(expected));
        }
        pair.end().await;
    }
}

#[tokio::test]
async fn invalid_and_oversized_answers_are_not_relayed() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        for (method, more, answer) in [
            ("resourceRead", json!({}), json!({"data": "no base64!", "encoding": "base64"})),
            ("resourceRead", json!({}), json!(null)),
            ("resourceList", json!({}), json!({"entries": 7})),
            ("resourceResolve", json!({}), json!({"type": "moon"})),
            ("resourceWrite", json!({"data": "x", "encoding": "utf-8"}), json!("yes")),
        ] {
            let error = pair.through(method, of("a", more), answer).await.unwrap_err();
            assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("client_answer_malformed")));
        }
        let entries = vec![json!({"name": "a", "type": "file"}); 50_001];
        let error = pair.through("resourceList", of("", json!({})), json!({"entries": entries})).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        pair.end().await;
    }
}

#[tokio::test]
async fn an_oversized_file_is_not_relayed() {
    let mut pair = Pair::new("1.0.0").await;
    let large = json!({"data": "x".repeat((32 << 20) + 1), "encoding": "utf-8"});
    let error = pair.through("resourceRead", of("a", json!({})), large).await.unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    pair.end().await;
}

#[tokio::test]
async fn a_relayed_request_times_out_and_a_late_answer_is_ignored() {
    for version in VERSIONS {
        let mut pair = Pair::with_timeout(version, Duration::from_millis(50)).await;
        let error = pair.older.call("resourceMkdir", of("a", json!({}))).await.unwrap_err();
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("client_timed_out")));
        let (late, _, _) = pair.newer.is_asked().await;
        pair.newer.answer(&late, json!({})).await;
        assert_eq!(pair.newer.call("ping", json!({})).await, Ok(Value::Null));
        pair.end().await;
    }
}

#[tokio::test]
async fn a_disconnect_fails_relayed_requests_and_the_previous_connection_is_newest() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        let id = pair.older.ask("resourceMkdir", of("a", json!({}))).await;
        pair.newer.is_asked().await;
        drop(pair.newer);
        assert_eq!(pair.older.answer_to(&id).await.unwrap_err()["code"], -32008);
        // It can be asked for its own files.
        let id = pair.older.ask("resourceMkdir", of("a", json!({}))).await;
        let (asked, _, _) = pair.older.is_asked().await;
        pair.older.answer(&asked, json!({})).await;
        assert_eq!(pair.older.answer_to(&id).await, Ok(json!({})));
        // The requesting client may disconnect, too.
        pair.older.ask("resourceMkdir", of("a", json!({}))).await;
        pair.older.is_asked().await;
        drop(pair.older);
        let mut other = Client::connect(pair.address, version, "other").await;
        let mut clients = pair.server.watch_client_count();
        tokio::time::timeout(ANSWER_TIMEOUT, clients.wait_for(|count| *count == 1)).await.unwrap().unwrap();
        let error = other.call("resourceMkdir", of("a", json!({}))).await.unwrap_err();
        assert_eq!(error["code"], -32008, "{error}");
        pair.server.stop().await;
        pair.rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn files_of_other_clients_and_copies_between_machines_are_refused() {
    for version in VERSIONS {
        let mut pair = Pair::new(version).await;
        let mut other = Client::connect(pair.address, version, "other").await;
        let write = of("a", json!({"data": "x", "encoding": "utf-8"}));
        for (method, params) in [
            ("resourceRead", of("a", json!({}))),
            ("resourceWrite", write),
            ("resourceRequest", of("a", json!({"read": true}))),
            ("resourceMove", between(&file("a"), &file("b"))),
            ("createResourceWatch", of("a", json!({}))),
        ] {
            let error = other.call(method, params).await.unwrap_err();
            let expected = json!({"code": "permissionDenied"});
            assert_eq!((&error["code"], &error["data"]), (&json!(-32009), &expected), "{method}: {error}");
        }
        for unknown in ["vscode-agent-client://unknown/x", "vscode-agent-client:///x"] {
            let error = other.call("resourceRead", json!({"uri": unknown})).await.unwrap_err();
            assert_eq!(error["code"], -32008, "{error}");
        }
        let (here, theirs) = ("file:///tmp/x", "vscode-agent-client://other/x");
        for (source, destination) in [(here, &*file("a")), (&*file("a"), here), (&*file("a"), theirs)] {
            for method in ["resourceCopy", "resourceMove"] {
                let error = pair.older.call(method, between(source, destination)).await.unwrap_err();
                assert_eq!(error["code"], -32602, "{error}");
                assert!(error["message"].as_str().unwrap().contains("different machines"), "{error}");
            }
        }
        let error = pair.older.call("createResourceWatch", of("a", json!({}))).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        for client in [&mut pair.newer, &mut other] {
            client.call("ping", json!({})).await.unwrap();
            assert!(client.asked.is_empty(), "{:#?}", client.asked);
        }
        pair.end().await;
    }
}

#[tokio::test]
async fn relayed_requests_are_limited_and_do_not_delay_host_files() {
    let mut pair = Pair::new("1.0.0").await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(pair.older.ask("resourceMkdir", of(name, json!({}))).await);
    }
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(pair.newer.is_asked().await.0);
    }
    assert_eq!(pair.older.call("hostler/listGrants", json!({})).await, Ok(json!({"items": []})));
    pair.newer.call("ping", json!({})).await.unwrap();
    assert_eq!(pair.newer.asked.len(), 4);
    pair.newer.answer(&asked[0], json!({})).await;
    asked.push(pair.newer.is_asked().await.0);
    for id in &asked[1..] {
        pair.newer.answer(id, json!({})).await;
    }
    let mut left = ids;
    while !left.is_empty() {
        let answer = pair.older.receive().await;
        left.retain(|id| answer["id"] != **id);
    }
    pair.end().await;
}
