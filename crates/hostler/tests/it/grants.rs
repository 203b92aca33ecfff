//! `hostler grants`: pending and active grants, listed and changed from the command line.

use crate::common::{TestHome, run_to_end, text};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};

async fn grants(home: &TestHome, args: &[&str]) -> (i32, String, String) {
    let output = run_to_end(home.hostler_command(&[&["grants"], args].concat())).await;
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn pending_grants_are_listed_allowed_and_revoked_with_immediate_effect() {
    let home = TestHome::new();
    home.write_config("[files]\ngrant = 'ask'\n");
    let notes = home.path("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("list"), "milk").unwrap();
    let host = home.serve_fake(&[]).await;
    assert_eq!(grants(&home, &["list", "--json"]).await.1, "[]\n");
    let (code, _, stderr) = grants(&home, &["list"]).await;
    assert!(code == 0 && stderr.contains("No grants."), "{stderr}");

    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    let uri = format!("file://{}", notes.canonicalize().unwrap().display());
    let file = json!({"channel": "ahp-root://", "uri": format!("{uri}/list")});
    let params = json!({"channel": "ahp-root://", "uri": uri, "read": true});
    assert_eq!(raw.call("resourceRequest", params).await.unwrap_err()["code"], -32009, "it waits");
    let (_, listed, _) = grants(&home, &["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let grant = &listed[0];
    assert_eq!((&grant["uri"], &grant["waiting"], &grant["write"]), (&json!(uri), &json!(true), &json!(false)));
    let id: String = grant["id"].as_str().unwrap().chars().take(8).collect();
    let (_, table, _) = grants(&home, &["list"]).await;
    assert!(table.starts_with(&id) && table.contains(", pending"), "{table}");

    let (code, _, stderr) = grants(&home, &["allow", &id]).await;
    assert!(code == 0 && stderr.starts_with("Allowed: read "), "{stderr}");
    assert_eq!(raw.call("resourceRead", file.clone()).await.unwrap()["data"], "milk");
    let (code, _, stderr) = grants(&home, &["revoke", notes.canonicalize().unwrap().to_str().unwrap()]).await;
    assert!(code == 0 && stderr.starts_with("Revoked: read "), "{stderr}");
    assert_eq!(raw.call("resourceRead", file).await.unwrap_err()["code"], -32009);
    let (code, _, stderr) = grants(&home, &["revoke", &id]).await;
    assert!(code == 1 && stderr.contains("hostler grants list"), "{stderr}");
    host.stop().await;
}
