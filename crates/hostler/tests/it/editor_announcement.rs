//! Editors on this machine find the running host by a file in their own directory.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::common::{HostProcess, TestHome, list_files};
use hostler_testkit::test_client::TestClient;
use serde_json::Value;

/// Returns the files in an editor's directory.
fn found(home: &TestHome, editor: &str) -> Vec<PathBuf> {
    list_files(&home.path("config").join(editor))
}

fn read(path: &PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

async fn serve(home: &TestHome, env: &[(&str, &str)]) -> HostProcess {
    home.serve_fake(env).await
}

#[tokio::test]
async fn installed_editor_finds_the_host_while_it_runs() {
    let home = TestHome::new();
    std::fs::create_dir_all(home.path("config").join("Code")).unwrap();
    let mut host = serve(&home, &[]).await;
    let [path] = &found(&home, "Code")[..] else { panic!("one file") };
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let entry = read(path);
    assert_eq!((&entry["pid"], &entry["type"]), (&host.pid.into(), &"standalone".into()), "{entry}");
    let (address, port) = (entry["endpoint"]["host"].as_str().unwrap(), &entry["endpoint"]["port"]);
    let url = format!("ws://{address}:{port}/?tkn={}", entry["connectionToken"].as_str().unwrap());
    TestClient::connect(&url).await.client.shutdown().await;
    assert!(!home.path("config").join("VSCodium").exists(), "no editor is made up");

    // A killed host cannot remove its file; the next one does.
    host.signal(nix::sys::signal::Signal::SIGKILL);
    host.wait_for_exit().await;
    assert_eq!(found(&home, "Code").len(), 1);
    let host = serve(&home, &[]).await;
    let [path] = &found(&home, "Code")[..] else { panic!("one file: {:?}", found(&home, "Code")) };
    assert_eq!(read(path)["pid"], host.pid);
    host.stop().await;
    assert!(found(&home, "Code").is_empty());
}

#[tokio::test]
async fn settings_choose_or_disable_editor_directories() {
    let home = TestHome::new();
    for editor in ["Code", "Mine"] {
        std::fs::create_dir_all(home.path("config").join(editor)).unwrap();
    }
    let host = serve(&home, &[("HOSTLER_NO_EDITOR_ANNOUNCEMENT", "true")]).await;
    assert!(found(&home, "Code").is_empty());
    host.stop().await;
    let mine = home.path("config").join("Mine");
    let host = serve(&home, &[("HOSTLER_EDITOR_DATA_DIRS", mine.to_str().unwrap())]).await;
    assert_eq!((found(&home, "Code").len(), found(&home, "Mine").len()), (0, 1));
    host.stop().await;
    assert!(found(&home, "Mine").is_empty());
}
