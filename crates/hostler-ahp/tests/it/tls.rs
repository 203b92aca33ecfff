//! The listener with TLS: identity, long messages, and changed certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Rig, open_server_config, rig};
use futures::{SinkExt as _, StreamExt as _};
use hostler_ahp::{AccessPolicy, AhpConnectionLimits, Server, ServerConfig, SocketLimits, TlsIdentity};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::tungstenite::Message;

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.renew();
        files
    }

    fn cert(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// Installs a new certificate.
    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        replace(&self.cert(), &made.cert.pem());
        replace(&self.key(), &made.signing_key.serialize_pem());
    }

    fn open(&self) -> TlsIdentity {
        TlsIdentity::load(self.cert(), self.key()).map_err(|error| error.to_string()).unwrap()
    }
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

async fn serve(rig: &Rig, tls: TlsIdentity, socket: SocketLimits) -> Server {
    let config = ServerConfig {
        tls: Some(tls),
        access: AccessPolicy { token: Some("t0ken".into()), ..AccessPolicy::default() },
        limits: AhpConnectionLimits { socket, ..AhpConnectionLimits::default() },
        ..open_server_config()
    };
    Server::start(rig.engine.clone(), config).await.unwrap()
}

/// A connection that trusts only one certificate.
async fn connect(server: &Server, trusted: &Path) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = versions.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(server.public_addr()).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

async fn call(
    socket: &mut tokio_tungstenite::WebSocketStream<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    method: &str,
    params: Value,
) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    socket.send(Message::text(request.to_string())).await.unwrap();
    loop {
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
        let answer: Value = serde_json::from_str(&text).unwrap();
        if answer["id"] == 1 {
            return answer["result"].clone();
        }
    }
}

#[tokio::test]
async fn clients_use_tls_and_local_programs_connect_without() {
    let (rig, files) = (rig().await, Files::new());
    let server = serve(&rig, files.open(), SocketLimits::default()).await;
    let stream = connect(&server, &files.cert()).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async("wss://localhost/?tkn=t0ken", stream).await.unwrap();
    let hello = json!({"protocolVersions": ["1.0.0"], "clientId": "tls"});
    assert_eq!(call(&mut socket, "initialize", hello).await["serverInfo"]["name"], "hostler");
    assert_eq!(*server.watch_client_count().borrow(), 1);

    assert_ne!(server.local_addr(), server.public_addr());
    let local = format!("ws://{}/?tkn=t0ken", server.local_addr());
    let (mut plain, _) = tokio_tungstenite::connect_async(&local).await.unwrap();
    assert_eq!(call(&mut plain, "ping", json!({})).await, Value::Null);
    let no_token = format!("ws://{}/", server.local_addr());
    assert!(tokio_tungstenite::connect_async(&no_token).await.is_err(), "the token is required there, too");
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn long_answers_arrive_complete_over_tls() {
    let (rig, files) = (rig().await, Files::new());
    let path = rig.work().join("large.txt");
    let text = "0123456789abcdef".repeat(512 * 1024);
    std::fs::write(&path, &text).unwrap();
    let server = serve(&rig, files.open(), SocketLimits::default()).await;
    let stream = connect(&server, &files.cert()).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async("wss://localhost/?tkn=t0ken", stream).await.unwrap();
    call(&mut socket, "initialize", json!({"protocolVersions": ["1.0.0"], "clientId": "tls"})).await;
    let session = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
    call(&mut socket, "createSession", json!({"channel": session})).await;
    let uri = format!("file://{}", path.display());
    let read = call(&mut socket, "resourceRead", json!({"channel": "ahp-root://", "uri": uri})).await;
    assert!(read["data"].as_str().unwrap().len() >= text.len());
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_an_invalid_one_ignored() {
    let (rig, files) = (rig().await, Files::new());
    let server = serve(&rig, files.open(), SocketLimits::default()).await;
    let old = files.directory.path().join("old.pem");
    std::fs::copy(files.cert(), &old).unwrap();
    connect(&server, &old).await.unwrap();
    files.renew();
    assert!(connect(&server, &old).await.is_err());
    connect(&server, &files.cert()).await.unwrap();
    let good = files.directory.path().join("good.pem");
    std::fs::copy(files.cert(), &good).unwrap();
    replace(&files.cert(), "no certificate at all");
    connect(&server, &good).await.unwrap();
    std::fs::remove_file(files.key()).unwrap();
    connect(&server, &good).await.unwrap();
    server.stop().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn connections_without_tls_do_not_block_others() {
    let (rig, files) = (rig().await, Files::new());
    let limits = SocketLimits { request_head_timeout: Duration::from_secs(1), ..SocketLimits::default() };
    let server = serve(&rig, files.open(), limits).await;
    let mut silent = TcpStream::connect(server.public_addr()).await.unwrap();
    let mut plain = TcpStream::connect(server.public_addr()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "nothing is sent without TLS");
    connect(&server, &files.cert()).await.unwrap();
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap_or(0), 0, "the handshake has timed out");
    server.stop().await;
    rig.engine.shutdown().await;
}

#[test]
fn problems_with_certificate_files_are_reported() {
    let (files, other) = (Files::new(), Files::new());
    let missing = files.directory.path().join("missing.pem");
    for (cert, key, expected) in [
        (missing.clone(), files.key(), "missing.pem: No such file or directory"),
        (files.cert(), missing, "missing.pem: No such file or directory"),
        (files.key(), files.key(), "key.pem contains no PEM certificate"),
        (files.cert(), files.cert(), "cert.pem contains no PEM private key"),
        (files.cert(), other.key(), "does not match the first certificate"),
    ] {
        let error = TlsIdentity::load(cert, key).err().expect("an error").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
