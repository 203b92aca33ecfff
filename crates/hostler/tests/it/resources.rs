//! File operations of clients, over the real socket of the real binary: in both versions, beside the real agent,
//! and across a crash of the host.

use crate::common::{BUILDS, HostProcess, TestHome};
use hostler_testkit::raw_client::RawClient;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

async fn connect_with_version(host: &HostProcess, version: &str) -> RawClient {
    let mut raw = RawClient::connect(&host.url()).await;
    let params = json!({"protocolVersions": [version], "clientId": format!("raw-{}", Uuid::new_v4())});
    assert_eq!(raw.call("initialize", params).await.unwrap()["protocolVersion"], version);
    raw
}

fn uri(home: &TestHome, name: &str) -> String {
    format!("file://{}", home.path(name).display())
}

fn code(answer: Result<Value, Value>) -> i64 {
    answer.unwrap_err()["code"].as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_read_and_watched_in_both_versions() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let work = home.work();
    for version in ["1.0.0", "0.9.0"] {
        // A raw client drops messages that arrive while it waits for an answer: one client writes, the other
        // receives.
        let (mut raw, mut listener) =
            (connect_with_version(&host, version).await, connect_with_version(&host, version).await);
        raw.create_session(&work).await;
        let file = format!("file://{}/made-{version}", work.display());
        let directory = format!("file://{}", work.display());
        let watch = listener.call("createResourceWatch", json!({"uri": directory})).await.unwrap();
        listener.call("subscribe", json!({"channel": watch["channel"]})).await.unwrap();
        let write = json!({"uri": file, "data": "contents", "encoding": "utf-8", "createOnly": true});
        assert_eq!(raw.call("resourceWrite", write.clone()).await, Ok(json!({})));
        let (_, action) = listener.wait_for_action("resourceWatch/changed").await;
        assert_eq!(action["changes"]["items"], json!([{"uri": file, "type": "added"}]), "{action}");
        assert_eq!(code(raw.call("resourceWrite", write).await), -32010);
        let facts = raw.call("resourceResolve", json!({"uri": file})).await.unwrap();
        assert_eq!((&facts["size"], &facts["type"]), (&json!(8), &json!("file")));
        let read = raw.call("resourceRead", json!({"uri": file})).await.unwrap();
        assert_eq!(read, json!({"data": "contents", "encoding": "utf-8"}));
        let state = uri(&home, "state");
        assert_eq!(code(raw.call("resourceList", json!({"uri": state})).await), -32009, "the host's own files");
        assert_eq!(code(raw.call("resourceRead", json!({"uri": "file:///etc/passwd"})).await), -32009);
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_survive_a_crash_of_the_host() {
    let home = TestHome::new();
    home.write_config("[files]\ngrant = 'ask'\n");
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    std::fs::write(home.path("elsewhere/file"), "contents").unwrap();
    let params = json!({"uri": uri(&home, "elsewhere"), "read": true});
    let file = json!({"uri": uri(&home, "elsewhere/file")});

    let mut host = home.serve_fake(&[]).await;
    let mut raw = connect_with_version(&host, "1.0.0").await;
    assert_eq!(code(raw.call("resourceRequest", params.clone()).await), -32009);
    let waiting = raw.call("hostler/listGrants", json!({})).await.unwrap();
    raw.call("hostler/allowGrant", json!({"id": waiting["items"][0]["id"]})).await.unwrap();
    assert_eq!(raw.call("resourceRead", file.clone()).await.unwrap()["data"], "contents");
    host.signal(Signal::SIGKILL);
    host.wait_for_exit().await;

    let host = home.serve_fake(&[]).await;
    let mut raw = connect_with_version(&host, "0.9.0").await;
    assert_eq!(raw.call("resourceRequest", params).await, Ok(json!({})));
    assert_eq!(raw.call("resourceRead", file).await.unwrap()["data"], "contents");
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_is_notified_of_a_file_that_the_agent_writes_and_reads_it() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut raw = connect_with_version(&host, "1.0.0").await;
        let session = format!("claude:/{}", Uuid::new_v4());
        let directory = format!("file://{}", home.work().display());
        let config = json!({"permissionMode": "acceptEdits"});
        let params = json!({"channel": session, "workingDirectories": [directory], "config": config});
        raw.call("createSession", params).await.unwrap();
        let state = raw.call("subscribe", json!({"channel": session})).await.unwrap();
        let chat = state["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
        raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        let includes = json!({"items": ["*.txt"]});
        let watch = json!({"uri": directory, "recursive": true, "includes": includes});
        let watch = raw.call("createResourceWatch", watch).await.unwrap();
        raw.call("subscribe", json!({"channel": watch["channel"]})).await.unwrap();
        let path = home.work().join("poem.txt");
        let input = json!({"file_path": path, "content": "roses"});
        raw.send_message(&chat, &format!("!tool Write {input}\n!say done")).await;
        let file = format!("{directory}/poem.txt");
        let (mut changed, mut complete) = (Value::Null, false);
        while changed.is_null() || !complete {
            let mut action = raw.receive().await.expect("an envelope")["params"]["action"].take();
            complete |= action["type"] == "chat/turnComplete";
            assert!(action["type"] != "chat/error", "{build}: {action:#}");
            if action["type"] == "resourceWatch/changed" {
                changed = action["changes"]["items"][0]["uri"].take();
            }
        }
        assert_eq!(changed, file, "{build}");
        let read = raw.call("resourceRead", json!({"uri": file})).await.unwrap();
        assert_eq!(read["data"], "roses", "{build}");
        host.stop().await;
    }
}
