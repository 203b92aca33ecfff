//! Diff previews of edits that wait for approval.

use serde_json::{Value, json};

use crate::pending_requests::helpers::{Bench, yes};

impl Bench {
    /// The contents of one side of the only edit of a pending call.
    async fn side(&self, call: &str, side: &str) -> Option<String> {
        let edits = self.shown(call)["edits"]["items"].clone();
        assert_eq!(edits.as_array().map(Vec::len), Some(1), "{edits:#}");
        let uri = edits[0][side]["content"]["uri"].as_str()?.to_owned();
        let file = edits[0][side]["uri"].as_str()?.rsplit('/').next();
        assert_eq!(uri.rsplit('/').next(), file, "editors show the name, and take the language from it");
        Some(String::from_utf8(self.rig.engine.content(&uri).await.unwrap().body).unwrap())
    }
}

#[tokio::test]
async fn pending_edit_has_a_diff_preview() {
    let mut bench = Bench::start().await;
    let file = bench.rig.work.join("a.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    bench.wait_for("c1", "Edit", &json!({ "file_path": file, "old_string": "two", "new_string": "2" })).await;
    assert_eq!(bench.side("c1", "before").await.as_deref(), Some("one\ntwo\n"));
    assert_eq!(bench.side("c1", "after").await.as_deref(), Some("one\n2\n"));
    let edit = &bench.shown("c1")["edits"]["items"][0];
    assert_eq!(edit["diff"], json!({ "added": 1, "removed": 1 }));
    assert_eq!(edit["after"]["uri"], format!("file://{}", file.display()));
    let needed = &bench.session()["inputNeeded"][0]["toolCall"];
    assert_eq!(needed["edits"], bench.shown("c1")["edits"], "also for clients that subscribe to the session only");
    // A relative path is resolved in the working directory.
    bench.wait_for("c2", "Write", &json!({ "file_path": "new.txt", "content": "new" })).await;
    assert_eq!((bench.side("c2", "before").await, bench.side("c2", "after").await), (None, Some("new".to_owned())));
    bench.confirm("me", yes("c1")).await;
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.shown("c1")["status"], "running");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n", "only the agent edits the file");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn diff_preview_requires_read_access_of_the_agent() {
    let mut bench = Bench::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret.txt");
    std::fs::write(&secret, "hush").unwrap();
    std::fs::write(bench.rig.work.join("denied.txt"), "hush").unwrap();
    std::os::unix::fs::symlink(&secret, bench.rig.work.join("link.txt")).unwrap();
    let rules =
        "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Read(denied.txt)\" }]\n";
    std::fs::write(bench.rig.state.join("rules.toml"), rules).unwrap();
    let edit = |file: Value| json!({ "file_path": file, "old_string": "hush", "new_string": "loud" });
    for (id, file) in [("c1", json!(secret)), ("c2", json!("denied.txt")), ("c3", json!("link.txt"))] {
        bench.wait_for(id, "Edit", &edit(file)).await;
        let call = bench.shown(id);
        assert_eq!((&call["status"], &call["edits"]), (&json!("pending-confirmation"), &Value::Null), "{call:#}");
    }
    bench.wait_for("c4", "Edit", &json!({ "file_path": "denied.txt", "old_string": "zzz", "new_string": "" })).await;
    assert!(bench.shown("c4")["edits"].is_null(), "nor is whether a text is in it");
    bench.rig.engine.shutdown().await;
}
