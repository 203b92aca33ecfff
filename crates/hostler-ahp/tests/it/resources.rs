//! Files of the host for clients: operations, notifications and refusals.

mod files;
mod grants;
mod relay;
mod watches;

use std::path::PathBuf;

use crate::common::{Raw, Rig};
use serde_json::{Value, json};

/// Both supported versions.
const VERSIONS: [&str; 2] = ["1.0.0", "0.9.0"];

/// A session's directory `work` and its siblings, outside of the host's own directory.
struct FileFixture {
    dir: tempfile::TempDir,
    session: String,
    raw: Raw,
}

impl FileFixture {
    async fn new(rig: &Rig, version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for directory in ["work/sub", "beside"] {
            std::fs::create_dir_all(dir.path().join(directory)).unwrap();
        }
        for file in ["work/file", "work/sub/file", "beside/file"] {
            std::fs::write(dir.path().join(file), file).unwrap();
        }
        let mut fixture = Self { dir, session: format!("claude:/{version}"), raw: Raw::speaking(rig, version).await };
        let session = json!({"channel": fixture.session, "workingDirectories": [fixture.uri("work")]});
        fixture.raw.call("createSession", session).await.unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn uri(&self, name: &str) -> String {
        url::Url::from_file_path(self.path(name)).unwrap().into()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    async fn ask(&mut self, method: &str, name: &str, more: Value) -> Result<Value, Value> {
        let uri = self.uri(name);
        self.ask_uri(method, &uri, more).await
    }

    async fn ask_uri(&mut self, method: &str, uri: &str, more: Value) -> Result<Value, Value> {
        let mut params = json!({"channel": "ahp-root://", "uri": uri});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.raw.call(method, params).await
    }

    async fn code(&mut self, method: &str, name: &str, more: Value) -> i64 {
        let error = self.ask(method, name, more).await.expect_err("an error");
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_i64().unwrap()
    }

    async fn put(&mut self, name: &str, text: &str) -> Result<Value, Value> {
        self.ask("resourceWrite", name, json!({"data": text, "encoding": "utf-8"})).await
    }

    async fn between(&mut self, method: &str, from: &str, to: &str, fail_if_exists: bool) -> Result<Value, i64> {
        let params = json!({"source": self.uri(from), "destination": self.uri(to), "failIfExists": fail_if_exists});
        self.raw.call(method, params).await.map_err(|error| error["code"].as_i64().unwrap())
    }
}
