//! File operations on the files of sessions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::common::{Raw, rig};
use crate::resources::{FileFixture, VERSIONS};

#[tokio::test]
async fn session_files_are_read_listed_and_resolved() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut fixture = FileFixture::new(&rig, version).await;
        let read = fixture.ask("resourceRead", "work/file", json!({})).await.unwrap();
        assert_eq!(read, json!({"data": "work/file", "encoding": "utf-8"}));
        let read = fixture.ask("resourceRead", "work/file", json!({"encoding": "base64"})).await.unwrap();
        assert_eq!(read, json!({"data": STANDARD.encode("work/file"), "encoding": "base64"}));
        std::fs::write(fixture.path("work/bytes"), [0xff, 0]).unwrap();
        let read = fixture.ask("resourceRead", "work/bytes", json!({"encoding": "utf-8"})).await.unwrap();
        assert_eq!(read["encoding"], "base64", "what is no text cannot be sent as text");

        std::os::unix::fs::symlink("sub", fixture.path("work/link")).unwrap();
        std::os::unix::fs::symlink("../beside", fixture.path("work/out")).unwrap();
        let list = fixture.ask("resourceList", "work", json!({})).await.unwrap();
        let entry = |name: &str, kind: &str| json!({"name": name, "type": kind});
        let expected = [
            entry("bytes", "file"),
            entry("file", "file"),
            entry("link", "directory"),
            entry("out", "file"),
            entry("sub", "directory"),
        ];
        assert_eq!(list, json!({ "entries": expected }));

        let facts = fixture.ask("resourceResolve", "work/link/file", json!({})).await.unwrap();
        assert_eq!((&facts["type"], &facts["size"]), (&json!("file"), &json!(13)));
        let real = std::fs::canonicalize(fixture.path("work/sub/file")).unwrap();
        assert_eq!(facts["uri"], url::Url::from_file_path(real).unwrap().as_str());
        assert!(facts["mtime"].as_str().unwrap().ends_with('Z') && !facts["etag"].as_str().unwrap().is_empty());
        let facts = fixture.ask("resourceResolve", "work/link", json!({"followSymlinks": false})).await.unwrap();
        assert_eq!((&facts["type"], &facts["uri"]), (&json!("symlink"), &json!(fixture.uri("work/link"))));
        let facts = fixture.ask("resourceResolve", "work", json!({})).await.unwrap();
        assert_eq!(facts["type"], "directory");
        assert!(facts.get("size").is_none());
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_files_are_changed() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut fixture = FileFixture::new(&rig, version).await;
        assert_eq!(fixture.put("work/new", "text").await, Ok(json!({})));
        let bytes = json!({"data": STANDARD.encode("XY"), "encoding": "base64", "mode": "append", "position": 1});
        fixture.ask("resourceWrite", "work/new", bytes).await.unwrap();
        assert_eq!(fixture.text("work/new"), "texXYt");
        let insert = json!({"data": "_", "encoding": "utf-8", "mode": "insert", "position": 1});
        fixture.ask("resourceWrite", "work/new", insert).await.unwrap();
        let truncate = json!({"data": "!", "encoding": "utf-8", "mode": "truncate", "position": 3});
        fixture.ask("resourceWrite", "work/new", truncate).await.unwrap();
        assert_eq!(fixture.text("work/new"), "t_e!");

        assert_eq!(fixture.ask("resourceMkdir", "work/a/b/c", json!({})).await, Ok(json!({})));
        assert_eq!(fixture.ask("resourceMkdir", "work/a/b/c", json!({})).await, Ok(json!({})));
        assert_eq!(fixture.between("resourceCopy", "work/sub", "work/a/b", false).await, Ok(json!({})));
        assert_eq!(fixture.text("work/a/b/file"), "work/sub/file", "replaced by default");
        assert_eq!(fixture.between("resourceMove", "work/a/b", "work/moved", true).await, Ok(json!({})));
        assert_eq!(fixture.text("work/moved/file"), "work/sub/file");
        assert_eq!(fixture.ask("resourceDelete", "work/new", json!({})).await, Ok(json!({})));
        assert_eq!(fixture.code("resourceDelete", "work/moved", json!({})).await, -32602);
        assert_eq!(fixture.ask("resourceDelete", "work/moved", json!({"recursive": true})).await, Ok(json!({})));
        assert!(!fixture.path("work/new").exists() && !fixture.path("work/moved").exists());
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn every_refusal_has_its_code() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut fixture = FileFixture::new(&rig, version).await;
        let data = json!({"data": "x", "encoding": "utf-8"});
        let with = |more: serde_json::Value| {
            let mut data = data.clone();
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            data
        };
        for (method, name, more, code) in [
            ("resourceRead", "work/missing", json!({}), -32008),
            ("resourceRead", "work/sub", json!({}), -32008),
            ("resourceList", "work/file", json!({}), -32008),
            ("resourceList", "work/missing", json!({}), -32008),
            ("resourceResolve", "work/missing", json!({}), -32008),
            ("resourceDelete", "work/missing", json!({}), -32008),
            ("resourceWrite", "work/missing/new", data.clone(), -32008),
            ("resourceRead", "beside/file", json!({}), -32009),
            ("resourceRead", "beside/missing", json!({}), -32009),
            ("resourceList", "beside", json!({}), -32009),
            ("resourceResolve", "beside", json!({}), -32009),
            ("resourceWrite", "beside/new", data.clone(), -32009),
            ("resourceMkdir", "beside/new", json!({}), -32009),
            ("resourceDelete", "beside/file", json!({}), -32009),
            ("resourceDelete", "work", json!({"recursive": true}), -32009),
            ("createResourceWatch", "beside", json!({}), -32009),
            ("createResourceWatch", "work/missing", json!({}), -32008),
            ("resourceMkdir", "work/file", json!({}), -32010),
            ("resourceWrite", "work/sub", data.clone(), -32010),
            ("resourceWrite", "work/file", with(json!({"createOnly": true})), -32010),
            ("resourceWrite", "work/file", with(json!({"ifMatch": "old"})), -32011),
            ("resourceWrite", "work/file", with(json!({"position": -1})), -32602),
            ("resourceWrite", "work/file", with(json!({"mode": "upside-down"})), -32602),
            ("resourceWrite", "work/file", json!({"data": "%", "encoding": "base64"}), -32602),
            ("resourceWrite", "work/file", json!({"data": "x"}), -32602),
            ("createResourceWatch", "work", json!({"includes": ["*"]}), -32602),
        ] {
            assert_eq!(fixture.code(method, name, more.clone()).await, code, "{method} {name} {more}");
        }
        for (from, to, code) in [
            ("work/missing", "work/new", -32008),
            ("beside/file", "work/new", -32009),
            ("work/file", "beside/new", -32009),
            ("work/file", "work/sub/file", -32010),
            ("work/sub", "work/sub/below", -32602),
        ] {
            for method in ["resourceCopy", "resourceMove"] {
                assert_eq!(fixture.between(method, from, to, true).await, Err(code), "{method} {from} {to}");
            }
        }
        for uri in ["file://elsewhere/x", "file:///x?y", "file:///x%2fy", "https://example.com/x", "x", ""] {
            for method in ["resourceRead", "resourceList", "resourceResolve", "resourceDelete", "resourceRequest"] {
                let error = fixture.ask_uri(method, uri, json!({})).await.unwrap_err();
                assert_eq!(error["code"], -32602, "{method} {uri}");
            }
        }
        assert_eq!(
            (fixture.text("work/file").as_str(), fixture.text("beside/file").as_str()),
            ("work/file", "beside/file")
        );
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_permission_error_names_the_access_to_request() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let uri = fixture.uri("beside/file");
    let error = fixture.ask("resourceRead", "beside/file", json!({})).await.unwrap_err();
    assert_eq!(error["data"]["request"], json!({"channel": "ahp-root://", "uri": uri, "read": true}));
    let error = fixture.put("beside/file", "x").await.unwrap_err();
    assert_eq!(error["data"]["request"], json!({"channel": "ahp-root://", "uri": uri, "write": true}));
    let sentence = error["message"].as_str().unwrap();
    assert!(sentence.contains(&uri) && sentence.contains("resourceRequest"), "{sentence}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_state_directory_is_never_reachable() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let state = url::Url::from_directory_path(rig.dir.path()).unwrap();
    let above = url::Url::from_directory_path(rig.dir.path().parent().unwrap()).unwrap();
    let here = |directory: &url::Url| json!({"channel": "claude:/here", "workingDirectories": [directory.as_str()]});
    assert_eq!(raw.code("createSession", here(&state)).await, -32602);
    raw.call("createSession", here(&above)).await.unwrap();
    for (method, uri) in [
        ("resourceRead", state.join("hostler.db").unwrap()),
        ("resourceList", state.clone()),
        ("resourceMkdir", state.join("new").unwrap()),
        ("createResourceWatch", state.clone()),
    ] {
        assert_eq!(raw.code(method, json!({"uri": uri.as_str()})).await, -32009, "{method}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_directories_are_reachable_while_the_session_has_them() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let (session, beside) = (fixture.session.clone(), fixture.uri("beside"));
    assert_eq!(fixture.code("resourceRead", "beside/file", json!({})).await, -32009);
    fixture.raw.call("subscribe", json!({"channel": session})).await.unwrap();
    fixture.raw.dispatch(&session, json!({"type": "session/workingDirectorySet", "directory": beside})).await;
    assert!(fixture.raw.envelope("session/workingDirectorySet").await.get("rejectionReason").is_none());
    fixture.ask("resourceRead", "beside/file", json!({})).await.unwrap();
    fixture.raw.dispatch(&session, json!({"type": "session/workingDirectoryRemoved", "directory": beside})).await;
    fixture.raw.envelope("session/workingDirectoryRemoved").await;
    assert_eq!(fixture.code("resourceRead", "beside/file", json!({})).await, -32009);
    fixture.ask("resourceRead", "work/file", json!({})).await.unwrap();
    fixture.raw.call("disposeSession", json!({"channel": session})).await.unwrap();
    assert_eq!(fixture.code("resourceRead", "work/file", json!({})).await, -32009);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn file_operations_do_not_delay_other_requests() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let file = fixture.uri("work/file");
    for id in 0..200 {
        let params = json!({"uri": file, "data": id.to_string(), "encoding": "utf-8"});
        let request = json!({"jsonrpc": "2.0", "id": format!("w{id}"), "method": "resourceWrite", "params": params});
        fixture.raw.send(&request.to_string()).await;
    }
    fixture.raw.call("ping", json!({})).await.unwrap();
    let mut answered: std::collections::HashSet<String> = std::collections::HashSet::new();
    let before: Vec<_> = fixture.raw.received.clone();
    for message in before {
        answered.extend(message["id"].as_str().map(str::to_owned));
    }
    assert!(answered.len() < 200, "the answer to the ping did not wait for all of them");
    while answered.len() < 200 {
        let message = fixture.raw.receive().await.unwrap();
        assert_eq!(message["result"], json!({}));
        answered.insert(message["id"].as_str().unwrap().to_owned());
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_default_directory_is_listed_and_its_files_are_not_readable() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let uri = |name: &str| url::Url::from_file_path(rig.work().join(name)).unwrap().to_string();
    std::fs::create_dir(rig.work().join("project")).unwrap();
    std::fs::write(rig.work().join("file"), "private").unwrap();
    let list = raw.call("resourceList", json!({"uri": uri("")})).await.unwrap();
    let expected = json!([{"name": "file", "type": "file"}, {"name": "project", "type": "directory"}]);
    assert_eq!(list["entries"], expected);
    assert_eq!(raw.call("resourceList", json!({"uri": uri("project")})).await, Ok(json!({"entries": []})));
    assert_eq!(raw.call("resourceResolve", json!({"uri": uri("file")})).await.unwrap()["size"], 7);
    assert_eq!(raw.code("resourceRead", json!({"uri": uri("file")})).await, -32009);
    assert_eq!(raw.code("resourceMkdir", json!({"uri": uri("new")})).await, -32009);
    assert_eq!(raw.code("createResourceWatch", json!({"uri": uri("")})).await, -32009);
    rig.engine.shutdown().await;
}
