//! Web page of the real binary: sign-in links, browser sessions, and TLS.

use crate::common;
use crate::common::{HostProcess, TestHome, run_to_end, text};
use futures::StreamExt as _;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

/// Browser, with everything that a host can observe.
struct TestBrowser {
    base: String,
    http: Client,
    cookie: String,
    key: String,
}

impl TestBrowser {
    fn new(base: &str) -> Self {
        Self { base: base.to_owned(), http: Client::new(), cookie: String::new(), key: String::new() }
    }

    async fn get(&self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.base));
        request.header("cookie", &self.cookie).header("x-hostler-key", &self.key).send().await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) -> Response {
        let request = self.http.post(format!("{}{path}", self.base)).header("origin", &self.base);
        let request = request.header("content-type", "application/json").header("cookie", &self.cookie);
        request.header("user-agent", "Firefox/140.0 (Android)").body(body.to_string()).send().await.unwrap()
    }

    /// Opens a link; returns the status and stores the received session.
    async fn open(&mut self, code: &str) -> (u16, String) {
        let answer = self.post("/sign-in", &json!({ "code": code })).await;
        let cookie = answer.headers().get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
        let cookie = cookie.unwrap_or_default();
        if let Some(pair) = cookie.split(';').next().filter(|pair| !pair.is_empty()) {
            self.cookie = pair.to_owned();
        }
        let status = answer.status().as_u16();
        if let Ok(body) = serde_json::from_str::<Value>(&answer.text().await.unwrap()) {
            self.key = body["key"].as_str().unwrap().to_owned();
        }
        (status, cookie)
    }

    async fn is_signed_in(&self) -> bool {
        let state: Value = serde_json::from_str(&self.get("/sign-in").await.text().await.unwrap()).unwrap();
        assert_eq!(state["required"], true);
        state["signedIn"] == true
    }

    async fn connect(&self) -> Result<Socket, Error> {
        let mut request = self.base.replace("http", "ws").into_client_request().unwrap();
        request.headers_mut().insert("origin", self.base.parse().unwrap());
        request.headers_mut().insert("cookie", self.cookie.parse().unwrap());
        let offered = format!("hostler.ahp, hostler.key.{}", self.key);
        request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| socket)
    }

    /// Returns the browser's secrets.
    fn secrets(&self) -> [&str; 2] {
        [self.cookie.split_once('=').unwrap().1, &self.key]
    }
}

async fn hostler(home: &TestHome, args: &[&str]) -> (i32, String, String) {
    let output = run_to_end(home.hostler_command(args)).await;
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Returns the base URL and the code of a new link.
async fn link(home: &TestHome) -> (String, String) {
    let (status, out, err) = hostler(home, &["link", "--json"]).await;
    assert_eq!(status, 0, "{err}");
    let link: Value = serde_json::from_str(&out).unwrap();
    let (base, code) = link["url"].as_str().unwrap().split_once("/#link=").unwrap();
    (base.to_owned(), code.to_owned())
}

async fn serve(home: &TestHome) -> HostProcess {
    home.serve_fake(&[("HOSTLER_LOG", "trace")]).await
}

#[tokio::test]
async fn browser_signs_in_by_link_and_is_rejected_after_sign_out() {
    let home = TestHome::new();
    let host = serve(&home).await;
    let (base, code) = link(&home).await;
    assert_eq!(base, format!("http://127.0.0.1:{}", host.port));
    let mut browser = TestBrowser::new(&base);
    let page = browser.get("/").await;
    assert!([200, 503].contains(&page.status().as_u16()), "the page, or how to build it");
    assert!(page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(matches!(browser.connect().await, Err(Error::Http(answer)) if answer.status() == 403));
    assert!(!browser.is_signed_in().await);

    let (status, cookie) = browser.open(&code).await;
    assert_eq!(status, 200);
    assert!(cookie.contains("HttpOnly; SameSite=Strict; Path=/") && !cookie.contains("Secure"), "{cookie}");
    assert_eq!(TestBrowser::new(&base).open(&code).await.0, 403, "once");
    let mut socket = browser.connect().await.unwrap();

    let (_, out, _) = hostler(&home, &["link", "--list", "--json"]).await;
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list[0]["label"], "Firefox on Android", "{out}");
    let id = list[0]["id"].as_str().unwrap();
    let (status, _, err) = hostler(&home, &["link", "--revoke", id.get(..4).unwrap()]).await;
    assert_eq!((status, err.as_str()), (0, "Signed out: Firefox on Android.\n"));
    let close_frame = loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            _ => continue,
        }
    };
    assert_eq!(u16::from(close_frame.code), 4001, "{close_frame:?}");
    assert!(browser.connect().await.is_err() && !browser.is_signed_in().await);

    let log = host.stop().await;
    assert!(log.contains("signed out"), "the log reports the sign-out");
    for secret in [&code, browser.secrets()[0], browser.secrets()[1]] {
        assert!(!log.contains(secret), "the log contains no credential");
    }
}

#[tokio::test]
async fn browser_sessions_survive_a_host_restart() {
    let home = TestHome::new();
    let host = serve(&home).await;
    let (base, code) = link(&home).await;
    let mut browser = TestBrowser::new(&base);
    assert_eq!(browser.open(&code).await.0, 200);
    let unused = link(&home).await.1;
    host.stop().await;

    let host = serve(&home).await;
    browser.base = format!("http://127.0.0.1:{}", host.port);
    assert!(browser.is_signed_in().await);
    browser.connect().await.unwrap();
    assert_eq!(TestBrowser::new(&browser.base).open(&unused).await.0, 403, "links do not outlive the host");
    let (status, _, err) = hostler(&home, &["link", "--revoke-all"]).await;
    assert_eq!((status, err.as_str()), (0, "Signed out: 1 browser.\n"));
    assert!(!browser.is_signed_in().await);
    host.stop().await;
    for file in common::list_files(home.root()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let contents = String::from_utf8_lossy(&bytes);
        for secret in [&code, &unused, browser.secrets()[0], browser.secrets()[1]] {
            assert!(!contents.contains(secret), "{}", file.display());
        }
    }
}

#[tokio::test]
async fn link_requires_a_running_host() {
    let home = TestHome::new();
    let (status, out, err) = hostler(&home, &["link"]).await;
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("hostler serve"), "{err}");
    assert!(common::list_files(&home.path("state")).is_empty(), "looking leaves nothing behind");
}

#[tokio::test]
async fn link_uses_the_public_url() {
    let home = TestHome::new();
    home.write_config("public-url = \"https://box.example/\"\n");
    let host = serve(&home).await;
    assert_eq!(link(&home).await.0, "https://box.example");
    let (_, out, err) = hostler(&home, &["link", "--url", "http://10.0.0.5:80", "--qr"]).await;
    assert!(out.starts_with("http://10.0.0.5/#link=") && out.contains('▀'), "{out}");
    assert!(err.contains("for 10 minutes"), "{err}");
    let (status, _, err) = hostler(&home, &["link", "--url", "https://box.example/sub"]).await;
    assert!(status == 2 && err.contains("--url must be"), "{err}");
    // The host accepts the host name of the public URL.
    let here = TestBrowser::new(&format!("http://127.0.0.1:{}", host.port));
    let ask = |name: &'static str| here.http.get(format!("{}/sign-in", here.base)).header("host", name).send();
    assert_eq!(ask("box.example").await.unwrap().status(), 200);
    assert_eq!(ask("evil.example").await.unwrap().status(), 403);
    host.stop().await;
}

#[tokio::test]
async fn tls_applies_to_browsers_and_commands_still_find_the_host() {
    let home = TestHome::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (home.work().join("cert.pem"), home.work().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let host = home.serve_fake(&[("HOSTLER_TLS_CERT", "cert.pem"), ("HOSTLER_TLS_KEY", "key.pem")]).await;
    let (base, code) = link(&home).await;
    assert_eq!(base, format!("https://127.0.0.1:{}", host.port));
    let (status, _, err) = hostler(&home, &["sessions", "list"]).await;
    assert_eq!(status, 0, "{err}");

    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let mut browser = TestBrowser::new(&format!("https://localhost:{}", host.port));
    browser.http = Client::builder().tls_certs_only([trusted]).build().unwrap();
    let (status, cookie) = browser.open(&code).await;
    assert_eq!(status, 200);
    assert!(cookie.starts_with("__Host-hostler-") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(browser.is_signed_in().await);
    host.stop().await;

    std::fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let (status, _, err) = hostler(&home, &args).await;
    assert!(status == 1 && err.contains("does not match the first certificate"), "{err}");
    let (status, _, err) = hostler(&home, &args[..5]).await;
    assert!(status == 2 && err.contains("given together with tls-key"), "{err}");
}
