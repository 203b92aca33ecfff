//! Where sessions may work, on the real binary: `session-roots`, the host's own directories, and `files.grant =
//! never` as a boundary.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{TestHome, list_files};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

fn uri(path: impl AsRef<Path>) -> String {
    format!("file://{}", path.as_ref().display())
}

/// The message of a refused `createSession`.
#[derive(Debug)]
struct CreateSessionError(String);

impl std::ops::Deref for CreateSessionError {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Creates a session in these directories; returns its URI.
async fn create(raw: &mut RawClient, directories: &[String]) -> Result<String, CreateSessionError> {
    let session = format!("claude:/{}", Uuid::new_v4());
    let params = json!({"channel": session, "workingDirectories": directories});
    match raw.call("createSession", params).await {
        Ok(_) => Ok(session),
        Err(error) => {
            assert_eq!(error["code"], -32602, "{error}");
            Err(CreateSessionError(error["message"].as_str().unwrap().to_owned()))
        }
    }
}

fn code(answer: Result<Value, Value>) -> i64 {
    answer.unwrap_err()["code"].as_i64().unwrap()
}

#[tokio::test]
async fn sessions_outside_the_roots_are_rejected_with_the_setting_name() {
    let home = TestHome::new();
    let (work, elsewhere) = (home.work(), home.path("elsewhere"));
    std::fs::create_dir_all(work.join("deep")).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("file"), "secret").unwrap();
    symlink(&elsewhere, work.join("out")).unwrap();
    let toml = format!("session-roots = ['{}']\n[files]\ngrant = 'never'\n", work.display());
    home.write_config(&toml);
    let host = home.serve_fake(&[]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    for outside in [elsewhere.clone(), "/".into(), home.path("home"), work.join("out"), work.join("../elsewhere")] {
        let CreateSessionError(error) = create(&mut raw, &[uri(&outside)]).await.unwrap_err();
        assert!(error.contains("`session-roots`"), "{}: {error}", outside.display());
        let CreateSessionError(error) = create(&mut raw, &[uri(&work), uri(&outside)]).await.unwrap_err();
        assert!(error.contains("`session-roots`"), "as an additional directory: {error}");
    }
    create(&mut raw, &[uri(work.join("deep"))]).await.unwrap();
    let session = create(&mut raw, &[]).await.unwrap();
    let state = raw.call("subscribe", json!({"channel": session})).await.unwrap();
    assert_eq!(
        state["snapshot"]["state"]["workingDirectories"],
        json!([uri(&work)]),
        "the first root, as home is none"
    );

    // None can be added later either.
    let action = json!({"type": "session/workingDirectorySet", "directory": uri(&elsewhere)});
    let params = json!({"channel": session, "clientSeq": 1, "action": action});
    raw.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    let refused = loop {
        let message = raw.receive().await.unwrap();
        if message["params"]["action"]["type"] == "session/workingDirectorySet" {
            break message;
        }
    };
    assert!(refused["params"]["rejectionReason"].as_str().unwrap().contains("`session-roots`"), "{refused}");

    // With both settings nothing outside is reachable: this is a boundary.
    let outside = uri(elsewhere.join("file"));
    let through = uri(work.join("out/file"));
    for file in [&outside, &through] {
        assert_eq!(code(raw.call("resourceRead", json!({"uri": file})).await), -32009);
        let write = json!({"uri": file, "data": "x", "encoding": "utf-8"});
        assert_eq!(code(raw.call("resourceWrite", write).await), -32009);
    }
    for directory in [uri(&elsewhere), uri(home.root()), uri("/")] {
        assert_eq!(code(raw.call("resourceList", json!({"uri": directory})).await), -32009, "{directory}");
        let params = json!({"uri": directory, "read": true});
        assert_eq!(code(raw.call("resourceRequest", params).await), -32009);
    }
    assert_eq!(std::fs::read_to_string(elsewhere.join("file")).unwrap(), "secret");
    host.stop().await;
}

#[tokio::test]
async fn older_session_outside_the_roots_starts_no_agent_and_reads_no_files() {
    let home = TestHome::new();
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("file"), "contents").unwrap();
    let host = home.serve_fake(&[]).await;
    let mut peer = host.connect().await;
    let uris = peer.create_session(&elsewhere).await;
    peer.send_and_wait(&uris.chat, "hello").await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    assert_eq!(
        raw.call("resourceRead", json!({"uri": uri(elsewhere.join("file"))})).await.unwrap()["data"],
        "contents"
    );
    host.stop().await;

    home.write_config(&format!("session-roots = ['{}']\n", home.work().display()));
    let host = home.serve_fake(&[]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    assert_eq!(code(raw.call("resourceRead", json!({"uri": uri(elsewhere.join("file"))})).await), -32009);
    raw.call("subscribe", json!({"channel": uris.chat})).await.unwrap();
    raw.send_message(&uris.chat, "are you there").await;
    let error = loop {
        let message = raw.receive().await.unwrap();
        if message["params"]["action"]["type"] == "chat/error" {
            break message;
        }
    };
    assert!(error.to_string().contains("`session-roots`"), "{error}");
    assert!(host.agents().is_empty());
    host.stop().await;
}

#[tokio::test]
async fn host_directories_are_unreachable_from_every_session() {
    let home = TestHome::new();
    home.write_config("# nothing yet\n");
    let host = home.serve_fake(&[("XDG_CACHE_HOME", home.path("cache").to_str().unwrap())]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    let own = ["state/hostler", "config/hostler", "cache/hostler"].map(|name| home.path(name));
    for directory in &own {
        std::fs::create_dir_all(directory.join("below")).unwrap();
        for named in [directory.clone(), directory.join("below")] {
            let CreateSessionError(error) = create(&mut raw, &[uri(&named)]).await.unwrap_err();
            assert!(error.contains("belongs to the host itself"), "{error}");
        }
        let link = home.work().join(format!("link-{}", directory.parent().unwrap().file_name().unwrap().display()));
        symlink(directory, &link).unwrap();
        assert!(create(&mut raw, &[uri(&link)]).await.unwrap_err().contains("belongs to the host itself"));
    }

    // A session at `/` reaches the parents of these directories, and nothing in them.
    create(&mut raw, &[uri("/")]).await.unwrap();
    std::fs::write(home.path("cache/hostler/file"), "own").unwrap();
    let listed = raw.call("resourceList", json!({"uri": uri(home.root())})).await.unwrap();
    assert!(listed["entries"].as_array().unwrap().len() > 3, "{listed}");
    let private: Vec<_> = own.iter().flat_map(|directory| list_files(directory)).collect();
    assert!(
        private.iter().any(|path| path.ends_with("token")) && private.iter().any(|path| path.ends_with("config.toml"))
    );
    let hard = home.work().join("hard");
    for path in &private {
        assert_eq!(code(raw.call("resourceRead", json!({"uri": uri(path)})).await), -32009, "{}", path.display());
        std::fs::hard_link(path, &hard).unwrap();
        assert_eq!(code(raw.call("resourceRead", json!({"uri": uri(&hard)})).await), -32009, "{}", path.display());
        std::fs::remove_file(&hard).unwrap();
    }
    for directory in &own {
        assert_eq!(code(raw.call("resourceList", json!({"uri": uri(directory)})).await), -32009);
        let write = json!({"uri": uri(directory.join("config.toml")), "data": "claude = '/evil'", "encoding": "utf-8"});
        assert_eq!(code(raw.call("resourceWrite", write).await), -32009);
        let (from, to) = (uri(directory.parent().unwrap()), uri(home.work().join("taken")));
        for method in ["resourceMove", "resourceCopy"] {
            let params = json!({"source": from, "destination": to});
            assert_eq!(code(raw.call(method, params).await), -32009, "{method}");
        }
    }
    assert_eq!(
        raw.call("resourceWrite", json!({"uri": uri(home.work().join("new")), "data": "x", "encoding": "utf-8"})).await,
        Ok(json!({}))
    );
    host.stop().await;
}

/// A client cannot create a missing configuration file either: the next start would use it.
#[tokio::test]
async fn client_cannot_create_the_hosts_configuration() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    create(&mut raw, &[uri("/")]).await.unwrap();
    let file = home.path("config/hostler/config.toml");
    assert!(!file.parent().unwrap().exists());
    let params = json!({"uri": uri(file.parent().unwrap())});
    assert_eq!(code(raw.call("resourceMkdir", params).await), -32009);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let write = json!({"uri": uri(&file), "data": "claude = '/evil'", "encoding": "utf-8"});
    assert_eq!(code(raw.call("resourceWrite", write).await), -32009);
    assert!(!file.exists());
    host.stop().await;
}
