//! Browser sessions: sign-in by a link that works once, with credentials that can be revoked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Rig, open_server_config, rig};
use crate::raw_websocket::{Wire, client_frame, upgrade};
use hostler_ahp::{AccessPolicy, BrowserSessions, HttpHandler, Server, ServerConfig};
use http::Response;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::Bytes;

struct Nothing;

impl HttpHandler for Nothing {
    fn respond(&self, _: &Parts) -> Response<Bytes> {
        Response::new(Bytes::from_static(b"page"))
    }
}

struct Host {
    rig: Rig,
    server: Server,
    address: SocketAddr,
}

/// An HTTP answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Credentials of a browser session.
#[derive(Clone)]
struct BrowserCredentials {
    cookie: String,
    key: String,
}

impl BrowserCredentials {
    /// Header lines of an HTTP request.
    fn lines(&self) -> String {
        let Self { cookie, key } = self;
        format!("Cookie: {cookie}\r\nX-Hostler-Key: {key}\r\n")
    }

    /// Header lines of an upgrade.
    fn socket_lines(&self) -> String {
        let Self { cookie, key } = self;
        format!("Cookie: {cookie}\r\nSec-WebSocket-Protocol: hostler.ahp, hostler.key.{key}\r\n")
    }
}

impl Answer {
    fn credentials(&self) -> BrowserCredentials {
        let key = serde_json::from_str::<Value>(&self.body).unwrap()["key"].as_str().expect("a key").to_owned();
        assert!(key.len() >= 43, "256 bits");
        BrowserCredentials { cookie: self.cookie(), key }
    }

    fn cookie(&self) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        line.split(';').next().unwrap().to_owned()
    }
}

impl Host {
    async fn start(token: Option<&str>, file: Option<&Path>) -> Self {
        Self::on(rig().await, token, file).await
    }

    async fn on(rig: Rig, token: Option<&str>, file: Option<&Path>) -> Self {
        let config = ServerConfig {
            access: AccessPolicy {
                token: token.map(Into::into),
                allowed_hosts: vec!["box.example".into()],
                ..AccessPolicy::default()
            },
            browser_sessions: file.map_or_else(BrowserSessions::default, |file| {
                BrowserSessions::open(file.to_owned(), token.map(Into::into).as_ref()).unwrap()
            }),
            http_handler: Some(Arc::new(Nothing)),
            ..open_server_config()
        };
        let server = Server::start(rig.engine.clone(), config).await.unwrap();
        let address = server.local_addr();
        Self { rig, server, address }
    }

    async fn end(self) -> Rig {
        self.server.stop().await;
        self.rig
    }

    fn origin(&self) -> String {
        format!("Origin: http://{}\r\n", self.address)
    }

    /// Sends a request unchanged and reads the answer.
    async fn send(&self, request: &str) -> Answer {
        let mut wire = Wire::request(self.address, request).await;
        let head = wire.read_head().await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        if !request.starts_with("HEAD") {
            wire.stream.read_exact(&mut body).await.unwrap();
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// A request as the host's own page sends it.
    async fn post(&self, path: &str, lines: &str, body: &str) -> Answer {
        let (address, origin, length) = (self.address, self.origin(), body.len());
        let json = "Content-Type: application/json\r\n";
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{origin}{json}Content-Length: {length}\r\n{lines}");
        self.send(&format!("{head}\r\n{body}")).await
    }

    async fn state(&self, lines: &str) -> Answer {
        let address = self.address;
        self.send(&format!("GET /sign-in HTTP/1.1\r\nHost: {address}\r\n{lines}\r\n")).await
    }

    async fn is_signed_in(&self, credentials: &BrowserCredentials) -> bool {
        let answer = self.state(&credentials.lines()).await;
        serde_json::from_str::<Value>(&answer.body).unwrap()["signedIn"] == json!(true)
    }

    async fn sign_in(&self, code: &str) -> Answer {
        self.post("/sign-in", "User-Agent: Firefox/1 (Linux)\r\n", &json!({ "code": code }).to_string()).await
    }

    /// A client with the token.
    async fn owner(&self) -> Client {
        let request = upgrade(self.address).replace("GET / ", "GET /?tkn=t0ken ");
        Client::initialize(Wire::request(self.address, &format!("{request}\r\n")).await).await
    }

    /// A page with a browser session.
    async fn page(&self, credentials: &BrowserCredentials) -> Client {
        Client::initialize(self.request_upgrade(&format!("{}{}", self.origin(), credentials.socket_lines())).await)
            .await
    }

    async fn request_upgrade(&self, lines: &str) -> Wire {
        Wire::request(self.address, &format!("{}{lines}\r\n", upgrade(self.address))).await
    }

    async fn refuses(&self, lines: &str) -> bool {
        self.request_upgrade(lines).await.read_head().await.starts_with("HTTP/1.1 403")
    }
}

/// A connected client.
struct Client {
    wire: Wire,
    next: i64,
}

impl Client {
    async fn initialize(mut wire: Wire) -> Self {
        let head = wire.read_head().await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let mut client = Self { wire, next: 0 };
        let hello = json!({"protocolVersions": ["1.0.0"], "clientId": format!("client {:p}", &raw const client)});
        client.call("initialize", hello).await.unwrap();
        client
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.wire.send(&client_frame(0x81, request.to_string().as_bytes())).await;
        loop {
            let (answer, _) = self.wire.message().await;
            if answer["id"] == self.next {
                return if answer["error"].is_null() {
                    Ok(answer["result"].clone())
                } else {
                    Err(answer["error"].clone())
                };
            }
        }
    }

    async fn link(&mut self) -> String {
        let link = self.call("hostler/createSignInLink", json!({"channel": "ahp-root://"})).await.unwrap();
        let code = link["code"].as_str().unwrap().to_owned();
        assert_eq!(link["path"], format!("/#link={code}"));
        assert!(code.len() >= 22, "128 bits: {code}");
        code
    }

    async fn sign_ins(&mut self) -> Vec<Value> {
        let list = self.call("hostler/listBrowserSessions", json!({"channel": "ahp-root://"})).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The code of the host's close frame.
    async fn close_code(&mut self) -> u16 {
        loop {
            let (first, payload) = self.wire.receive().await.expect("a close_code");
            if first == 0x88 {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }
}

#[tokio::test]
async fn a_link_yields_a_cookie_that_authenticates_the_page() {
    let host = Host::start(Some("t0ken"), None).await;
    let answer = host.state("").await;
    assert_eq!(answer.status, 200);
    let state: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&state["signedIn"], &state["required"]), (&json!(false), &json!(true)));
    assert_eq!(state["host"]["version"], env!("CARGO_PKG_VERSION"));

    let mut owner = host.owner().await;
    let signed_in = host.sign_in(&owner.link().await).await;
    assert_eq!(signed_in.status, 200);
    let credentials = signed_in.credentials();
    let line = signed_in.head.lines().find(|line| line.starts_with("set-cookie")).unwrap();
    assert!(line.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=7776000"), "{line}");
    assert!(signed_in.head.contains("cache-control: no-store"), "{}", signed_in.head);
    assert!(host.is_signed_in(&credentials).await);

    let mut page = host.page(&credentials).await;
    let seen = page.sign_ins().await;
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["label"], &seen[0]["current"]), (&json!("Firefox on Linux"), &json!(true)));
    assert!(seen[0]["createdAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(owner.sign_ins().await[0]["current"], false, "the owner is authenticated by the token");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn a_code_works_once_and_a_wrong_one_never() {
    let host = Host::start(Some("t0ken"), None).await;
    let code = host.owner().await.link().await;
    assert_eq!(host.sign_in("wrong").await.status, 403);
    assert_eq!(host.sign_in(&code).await.status, 200);
    let again = host.sign_in(&code).await;
    assert_eq!(again.status, 403);
    assert!(again.body.contains("hostler link") && !again.head.contains("set-cookie"), "{}", again.body);
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn a_browser_session_that_cannot_be_stored_is_not_issued() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state/sign-ins.json");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let host = Host::start(Some("t0ken"), Some(&file)).await;
    let mut owner = host.owner().await;
    let (early, late) = (owner.link().await, owner.link().await);
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let refused = host.sign_in(&early).await;
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(!refused.head.contains("set-cookie"), "{}", refused.head);
    assert_eq!(owner.sign_ins().await, Vec::<Value>::new(), "no browser received the credentials");

    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let signed_in = host.sign_in(&late).await;
    assert_eq!(signed_in.status, 200, "{}", signed_in.body);
    assert!(host.is_signed_in(&signed_in.credentials()).await);
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn foreign_and_malformed_sign_in_requests_change_nothing() {
    let host = Host::start(Some("t0ken"), None).await;
    let code = host.owner().await.link().await;
    let (address, own) = (host.address, host.origin());
    let body = json!({ "code": code }).to_string();
    let json = "Content-Type: application/json\r\n";
    let post = |lines: &str, body: &str| {
        let length = body.len();
        format!("POST /sign-in HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n{lines}\r\n{body}")
    };
    for (request, status) in [
        (post(json, &body), 403),
        (post(&format!("{json}Origin: https://evil.example\r\n"), &body), 403),
        (post(&format!("{json}Origin: null\r\n"), &body), 403),
        (post(&format!("{json}{own}{own}"), &body), 403),
        (post(&format!("{json}Origin: http://localhost:{}\r\n", address.port()), &body), 403),
        (post(&own, &body), 415),
        (post(&format!("{own}Content-Type: text/plain\r\n"), &body), 415),
        (post(&format!("{own}Content-Type: application/x-www-form-urlencoded\r\n"), &format!("code={code}")), 415),
        (post(&format!("{own}{json}"), &format!("{body}{}", " ".repeat(2000))), 413),
        (post(&format!("{own}{json}"), "{"), 400),
        (post(&format!("{own}{json}"), "{\"code\": 7}"), 400),
        (post(&format!("{own}{json}"), "\u{7f}\u{0}"), 400),
        (post(&format!("{own}{json}"), &body).replace(&format!("Host: {address}"), "Host: evil.example"), 403),
        (post(&format!("{own}{json}"), &body).replace("POST", "PUT"), 405),
        (post(&format!("{own}{json}"), &body).replace("POST", "DELETE"), 405),
        (format!("GET /sign-out HTTP/1.1\r\nHost: {address}\r\n\r\n"), 405),
    ] {
        let answer = host.send(&request).await;
        assert_eq!(answer.status, status, "{request}");
        assert!(!answer.head.contains("set-cookie"), "{request}");
    }
    assert_eq!(host.sign_in(&code).await.status, 200, "and the code is still valid");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn an_endless_body_is_not_read_to_its_end() {
    let host = Host::start(Some("t0ken"), None).await;
    let (address, own) = (host.address, host.origin());
    let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let mut wire =
        Wire::request(address, &format!("POST /sign-in HTTP/1.1\r\nHost: {address}\r\n{own}{head}\r\n")).await;
    let chunk = format!("400\r\n{}\r\n", " ".repeat(0x400));
    wire.send(chunk.repeat(2).as_bytes()).await;
    assert!(wire.read_head().await.starts_with("HTTP/1.1 413"));
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn wrong_codes_are_rate_limited_and_right_ones_still_work() {
    let host = Host::start(Some("t0ken"), None).await;
    let code = host.owner().await.link().await;
    for guess in 0..10 {
        assert_eq!(host.sign_in(&format!("guess {guess}")).await.status, 403);
    }
    let answer = host.sign_in("one more").await;
    assert_eq!(answer.status, 429);
    assert!(answer.head.contains("retry-after: 60"), "{}", answer.head);
    assert_eq!(host.sign_in(&code).await.status, 200);
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn a_browser_session_requires_the_hosts_origin_and_host_id() {
    let host = Host::start(Some("t0ken"), None).await;
    let given = host.sign_in(&host.owner().await.link().await).await.credentials();
    let (cookie, key) = (&given.cookie, format!("Sec-WebSocket-Protocol: hostler.ahp, hostler.key.{}\r\n", given.key));
    let (name, credentials) = cookie.split_once('=').unwrap();
    let own = format!("{}{key}", host.origin());
    assert!(host.refuses(&format!("{key}Cookie: {cookie}\r\n")).await, "no origin");
    assert!(host.refuses(&format!("{key}Cookie: {cookie}\r\nOrigin: https://evil.example\r\n")).await);
    assert!(host.refuses(&format!("{key}Cookie: {cookie}\r\nOrigin: vscode-file://vscode-app\r\n")).await);
    assert!(host.refuses(&format!("{own}Cookie: hostler-0badc0de={credentials}\r\n")).await, "another host's");
    assert!(host.refuses(&format!("{own}Cookie: {name}=\r\n")).await);
    assert!(host.refuses(&format!("{own}Cookie: {name}=wrong; {name}=wronger\r\n")).await);
    assert!(host.refuses(&own).await);
    for cookies in [
        cookie.clone(),
        format!("other=1; {cookie}; theme=dark"),
        format!("{name}=stale; {cookie}"),
        format!("hostler-0badc0de=x\r\nCookie: {cookie}"),
    ] {
        host.page(&BrowserCredentials { cookie: cookies, ..given.clone() }).await;
    }
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn signing_out_closes_connections_and_voids_the_cookie() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let first = host.sign_in(&owner.link().await).await.credentials();
    let second = host.sign_in(&owner.link().await).await.credentials();
    let (mut one, mut two, mut other) = (host.page(&first).await, host.page(&first).await, host.page(&second).await);

    let answer = host.post("/sign-out", &first.lines(), "").await;
    assert_eq!(answer.status, 204);
    assert!(answer.head.contains("Max-Age=0"), "{}", answer.head);
    assert_eq!((one.close_code().await, two.close_code().await), (4001, 4001));
    assert!(
        host.refuses(&format!("{}{}", host.origin(), first.socket_lines())).await,
        "a stolen cookie is refused, too"
    );
    assert!(!host.is_signed_in(&first).await && host.is_signed_in(&second).await);
    assert_eq!(other.sign_ins().await.len(), 1, "the other browser stays connected");

    let unknown = owner.call("hostler/signOut", json!({"channel": "ahp-root://", "id": "unknown"})).await;
    assert_eq!(unknown.unwrap_err()["code"], -32008);
    let all = owner.call("hostler/signOut", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(all["signedOut"], 1);
    assert_eq!(other.close_code().await, 4001);
    assert!(owner.sign_ins().await.is_empty(), "clients with the token stay connected");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn only_a_signed_in_browser_signs_out_all() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let first = host.sign_in(&owner.link().await).await.credentials();
    let second = host.sign_in(&owner.link().await).await.credentials();
    assert_eq!(host.post("/sign-out?everywhere", "", "").await.status, 403);
    assert_eq!(host.post("/sign-out", "Cookie: hostler-memory=wrong\r\n", "").await.status, 204);
    let waiting = owner.link().await;
    assert!(host.is_signed_in(&first).await && host.is_signed_in(&second).await);
    assert_eq!(host.post("/sign-out?everywhere", &first.lines(), "").await.status, 204);
    assert!(!host.is_signed_in(&first).await && !host.is_signed_in(&second).await);
    assert_eq!(host.sign_in(&waiting).await.status, 403, "an unused link cannot sign in again");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn browser_sessions_survive_a_restart_and_only_hashes_are_stored() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("sign-ins.json");
    let host = Host::start(Some("t0ken"), Some(&file)).await;
    let mut owner = host.owner().await;
    let code = owner.link().await;
    let (remaining, revoked) =
        (host.sign_in(&code).await.credentials(), host.sign_in(&owner.link().await).await.credentials());
    let unused = owner.link().await;
    assert_eq!(host.post("/sign-out", &revoked.lines(), "").await.status, 204);
    let text = std::fs::read_to_string(&file).unwrap();
    let cookies = [&remaining, &revoked].map(|credentials| credentials.cookie.split_once('=').unwrap().1);
    for secret in [&code, &unused, cookies[0], cookies[1], &remaining.key, &revoked.key] {
        assert!(!text.contains(secret), "{text}");
    }
    let rig = host.end().await.restart().await;

    let host = Host::on(rig, Some("t0ken"), Some(&file)).await;
    let mut page = host.page(&remaining).await;
    assert_eq!(page.sign_ins().await.len(), 1);
    assert!(!host.is_signed_in(&revoked).await);
    assert_eq!(host.sign_in(&unused).await.status, 403, "links end with the host");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn a_signed_in_browser_that_opens_a_link_keeps_its_session() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let credentials = host.sign_in(&owner.link().await).await.credentials();
    let mut page = host.page(&credentials).await;
    let code = owner.link().await;
    let again = host.post("/sign-in", &credentials.lines(), &json!({ "code": code }).to_string()).await;
    assert_eq!((again.status, again.cookie(), again.body.as_str()), (204, credentials.cookie.clone(), ""));
    assert_eq!(page.sign_ins().await.len(), 1);
    assert_eq!(host.sign_in(&code).await.status, 403, "the code is used anyway");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn behind_a_tls_proxy_the_cookie_is_secure() {
    let host = Host::start(Some("t0ken"), None).await;
    let body = json!({ "code": host.owner().await.link().await }).to_string();
    let lines = "Origin: https://box.example\r\nX-Forwarded-Proto: https\r\nContent-Type: application/json\r\n";
    let length = body.len();
    let request =
        format!("POST /sign-in HTTP/1.1\r\nHost: box.example\r\n{lines}Content-Length: {length}\r\n\r\n{body}");
    let answer = host.send(&request).await;
    assert_eq!(answer.status, 200);
    let BrowserCredentials { cookie, key } = answer.credentials();
    assert!(cookie.starts_with("__Host-hostler-") && answer.head.contains("; Secure"), "{}", answer.head);
    let upgrade_request = upgrade(host.address).replace(&host.address.to_string(), "box.example");
    let lines = format!("Origin: https://box.example\r\nX-Forwarded-Proto: https\r\nCookie: {cookie}\r\n");
    let lines = format!("{lines}Sec-WebSocket-Protocol: hostler.ahp, hostler.key.{key}\r\n");
    Client::initialize(Wire::request(host.address, &format!("{upgrade_request}{lines}\r\n")).await).await;
    let plain = lines.replace("https://", "http://");
    let mut wire = Wire::request(host.address, &format!("{upgrade_request}{plain}\r\n")).await;
    assert!(wire.read_head().await.starts_with("HTTP/1.1 403"), "a page without TLS is foreign");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn without_a_token_no_sign_in_is_required() {
    let host = Host::start(None, None).await;
    let state: Value = serde_json::from_str(&host.state("").await.body).unwrap();
    assert_eq!((&state["signedIn"], &state["required"]), (&json!(false), &json!(false)));
    Client::initialize(host.request_upgrade(&host.origin()).await).await;
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn link_lifetime_and_label_are_limited() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    for params in [
        json!({"minutes": 0}),
        json!({"minutes": 1441}),
        json!({"minutes": -1}),
        json!({"label": ""}),
        json!({"label": "two\nlines"}),
        json!({"label": "x".repeat(101)}),
    ] {
        let error = owner.call("hostler/createSignInLink", params.clone()).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{params}");
    }
    let link = owner.call("hostler/createSignInLink", json!({"minutes": 1440, "label": "Anna's phone"})).await.unwrap();
    assert_eq!(host.sign_in(link["code"].as_str().unwrap()).await.status, 200);
    assert_eq!(owner.sign_ins().await[0]["label"], "Anna's phone");
    host.end().await.engine.shutdown().await;
}

/// A local server on another port receives the cookie and can send any header of a browser, but does not have the page
/// key.
#[tokio::test]
async fn a_cookie_without_its_page_key_is_not_signed_in() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let credentials = host.sign_in(&owner.link().await).await.credentials();
    let other = host.sign_in(&owner.link().await).await.credentials();
    let stolen = format!("Cookie: {}\r\n", credentials.cookie);
    for key in
        [String::new(), "hostler.ahp, hostler.key.".to_owned(), format!("hostler.ahp, hostler.key.{}", other.key)]
    {
        let line = if key.is_empty() { key } else { format!("Sec-WebSocket-Protocol: {key}\r\n") };
        assert!(host.refuses(&format!("{}{stolen}{line}", host.origin())).await, "{line}");
    }
    let secret = credentials.cookie.split_once('=').unwrap().1;
    assert!(host.refuses(&format!("{}{stolen}X-Hostler-Key: {secret}\r\n", host.origin())).await, "the cookie twice");
    let state = host.state(&stolen).await;
    assert!(state.body.contains("\"signedIn\":false") && !state.head.contains("set-cookie"), "{}", state.head);
    assert_eq!(host.post("/sign-out?everywhere", &stolen, "").await.status, 403);
    assert_eq!(host.post("/sign-out", &stolen, "").await.status, 204);
    assert!(
        host.is_signed_in(&credentials).await && host.is_signed_in(&other).await,
        "and no browser is signed out by it"
    );

    // A key without the cookie is refused too.
    assert!(
        host.refuses(&format!("{}Sec-WebSocket-Protocol: hostler.key.{}\r\n", host.origin(), credentials.key)).await
    );
    // The key is not in the answer.
    let mut wire = host.request_upgrade(&format!("{}{}", host.origin(), credentials.socket_lines())).await;
    let head = wire.read_head().await;
    assert!(head.contains("sec-websocket-protocol: hostler.ahp\r\n") && !head.contains(&credentials.key), "{head}");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn a_browser_that_lost_its_key_gets_a_new_session_in_place_of_the_old() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let first = host.sign_in(&owner.link().await).await.credentials();
    let mut page = host.page(&first).await;
    let code = json!({ "code": owner.link().await }).to_string();
    let second = host.post("/sign-in", &format!("Cookie: {}\r\n", first.cookie), &code).await.credentials();
    assert_ne!((&first.cookie, &first.key), (&second.cookie, &second.key));
    assert_eq!(page.close_code().await, 4001, "the session with the lost key is signed out");
    assert!(!host.is_signed_in(&first).await && host.is_signed_in(&second).await);
    assert_eq!(owner.sign_ins().await.len(), 1, "the browser has one session");
    host.end().await.engine.shutdown().await;
}

#[tokio::test]
async fn signing_out_a_browser_voids_its_unused_links() {
    let host = Host::start(Some("t0ken"), None).await;
    let mut owner = host.owner().await;
    let credentials = host.sign_in(&owner.link().await).await.credentials();
    let mut page = host.page(&credentials).await;
    let (own, used, owners) = (page.link().await, page.link().await, owner.link().await);
    let second = host.sign_in(&used).await.credentials();
    let id = page.sign_ins().await.iter().find(|one| one["current"] == true).unwrap()["id"].clone();
    owner.call("hostler/signOut", json!({"channel": "ahp-root://", "id": id})).await.unwrap();
    assert_eq!(host.sign_in(&own).await.status, 403, "a link of the browser that is signed out");
    assert_eq!(host.sign_in(&owners).await.status, 200, "a link of the command line");
    assert!(host.is_signed_in(&second).await, "a browser that had signed in with the link before");
    host.end().await.engine.shutdown().await;
}

/// A thief with the token could have signed in a browser; changing the token revokes that browser session too.
#[tokio::test]
async fn browser_sessions_of_another_token_are_not_accepted() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("sign-ins.json");
    let host = Host::start(Some("t0ken"), Some(&file)).await;
    let credentials = host.sign_in(&host.owner().await.link().await).await.credentials();
    let host = Host::on(host.end().await.restart().await, Some("another"), Some(&file)).await;
    assert!(!host.is_signed_in(&credentials).await);
    assert!(host.refuses(&format!("{}{}", host.origin(), credentials.socket_lines())).await);
    // With the previous token it is accepted again.
    let host = Host::on(host.end().await.restart().await, Some("t0ken"), Some(&file)).await;
    assert!(host.is_signed_in(&credentials).await);
    host.end().await.engine.shutdown().await;
}

/// A file of a version without page keys.
#[tokio::test]
async fn browsers_without_a_page_key_sign_in_again_once() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("sign-ins.json");
    let host = Host::start(Some("t0ken"), Some(&file)).await;
    let credentials = host.sign_in(&host.owner().await.link().await).await.credentials();
    let rig = host.end().await.restart().await;
    let mut stored: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(stored["signIns"][0].as_object_mut().unwrap().remove("keySha256").is_some());
    std::fs::write(&file, stored.to_string()).unwrap();

    let host = Host::on(rig, Some("t0ken"), Some(&file)).await;
    assert!(!host.is_signed_in(&credentials).await);
    assert!(host.refuses(&format!("{}{}", host.origin(), credentials.socket_lines())).await);
    let code = json!({ "code": host.owner().await.link().await }).to_string();
    let again = host.post("/sign-in", &format!("Cookie: {}\r\n", credentials.cookie), &code).await.credentials();
    assert!(host.is_signed_in(&again).await);
    host.page(&again).await;
    host.end().await.engine.shutdown().await;
}
