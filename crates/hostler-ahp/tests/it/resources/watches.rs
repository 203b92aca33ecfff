//! Watches of directories and files.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::common::{Raw, rig, rig_granting};
use crate::resources::{FileFixture, VERSIONS};

async fn watch(fixture: &mut FileFixture, name: &str, more: Value) -> String {
    let result = fixture.ask("createResourceWatch", name, more).await.unwrap();
    let channel = result["channel"].as_str().unwrap().to_owned();
    assert!(channel.starts_with("ahp-resource-watch:/"), "{channel}");
    channel
}

/// Creates a watch and subscribes to it.
async fn subscribed(fixture: &mut FileFixture, name: &str, more: Value) -> String {
    let channel = watch(fixture, name, more).await;
    fixture.raw.call("subscribe", json!({"channel": channel})).await.unwrap();
    channel
}

/// Receives changes until one names a path; returns the changes by path.
async fn until(fixture: &mut FileFixture, name: &str) -> HashMap<String, String> {
    let last = fixture.uri(name);
    let mut changes = HashMap::new();
    while !changes.contains_key(&last) {
        let envelope = fixture.raw.envelope("resourceWatch/changed").await;
        let items = envelope["action"]["changes"]["items"].as_array().unwrap();
        assert!(!items.is_empty(), "never empty");
        for item in items {
            let text = |key: &str| item[key].as_str().unwrap().to_owned();
            changes.insert(text("uri"), text("type"));
        }
    }
    changes
}

/// Another client writes, because notifications that arrive while a client waits for an answer are skipped.
async fn put(writer: &mut Raw, uri: &str, text: &str) {
    writer.call("resourceWrite", json!({"uri": uri, "data": text, "encoding": "utf-8"})).await.unwrap();
}

async fn unsubscribe(raw: &mut Raw, channel: &str) {
    let params = json!({"channel": channel});
    raw.send(&json!({"jsonrpc": "2.0", "method": "unsubscribe", "params": params}).to_string()).await;
    // Later requests are handled after it.
    raw.call("ping", json!({})).await.unwrap();
}

#[tokio::test]
async fn changes_in_a_directory_are_reported_and_deeper_ones_are_not() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut fixture = FileFixture::new(&rig, version).await;
        let channel = watch(&mut fixture, "work", json!({})).await;
        let answer = fixture.raw.call("subscribe", json!({"channel": channel})).await.unwrap();
        let state = json!({"root": fixture.uri("work"), "recursive": false});
        assert_eq!((&answer["snapshot"]["resource"], &answer["snapshot"]["state"]), (&json!(channel), &state));
        std::fs::write(fixture.path("work/sub/deep"), "x").unwrap();
        std::fs::write(fixture.path("work/new"), "x").unwrap();
        std::fs::write(fixture.path("work/file"), "y").unwrap();
        std::fs::remove_dir_all(fixture.path("work/sub")).unwrap();
        std::fs::write(fixture.path("work/last"), "x").unwrap();
        let changes = until(&mut fixture, "work/last").await;
        let expected =
            [("work/new", "added"), ("work/file", "updated"), ("work/sub", "deleted"), ("work/last", "added")];
        for (name, kind) in expected {
            assert_eq!(changes.get(&fixture.uri(name)).map(String::as_str), Some(kind), "{name}");
        }
        assert!(!changes.contains_key(&fixture.uri("work/sub/deep")));
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_recursive_watch_follows_its_patterns() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let more = json!({"recursive": true, "excludes": {"items": ["**/out", "*.tmp"]}, "includes": {"items": ["**/*.rs", "*.tmp", "last"]}});
    subscribed(&mut fixture, "work", more).await;
    std::fs::create_dir_all(fixture.path("work/sub/out")).unwrap();
    for name in ["work/a.tmp", "work/sub/out/x.rs", "work/sub/other.md", "work/sub/x.rs", "work/last"] {
        std::fs::write(fixture.path(name), "x").unwrap();
    }
    let changes = until(&mut fixture, "work/last").await;
    let mut names: Vec<_> = changes.keys().cloned().collect();
    names.sort_unstable();
    assert_eq!(names, [fixture.uri("work/last"), fixture.uri("work/sub/x.rs")]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_watched_file_is_followed_when_it_is_replaced() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    subscribed(&mut fixture, "work/file", json!({})).await;
    std::fs::write(fixture.path("work/other"), "x").unwrap();
    std::fs::write(fixture.path("work/file"), "x").unwrap();
    let changes = until(&mut fixture, "work/file").await;
    assert_eq!(changes.into_iter().collect::<Vec<_>>(), [(fixture.uri("work/file"), "updated".to_owned())]);
    let mut writer = Raw::initialized(&rig).await;
    for round in 0..2 {
        put(&mut writer, &fixture.uri("work/file"), &round.to_string()).await;
        assert_eq!(until(&mut fixture, "work/file").await.len(), 1);
    }
    writer.call("resourceDelete", json!({"uri": fixture.uri("work/file")})).await.unwrap();
    while until(&mut fixture, "work/file").await[&fixture.uri("work/file")] != "deleted" {}
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn writes_of_the_host_are_reported_once_by_their_final_name() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    subscribed(&mut fixture, "work", json!({"recursive": true})).await;
    put(&mut Raw::initialized(&rig).await, &fixture.uri("work/new"), "x").await;
    let changes = until(&mut fixture, "work/new").await;
    assert_eq!(changes.into_iter().collect::<Vec<_>>(), [(fixture.uri("work/new"), "added".to_owned())]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn equal_watches_share_a_channel_and_different_ones_do_not() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let first = watch(&mut fixture, "work", json!({})).await;
    assert_eq!(watch(&mut fixture, "work", json!({"recursive": false})).await, first);
    assert_ne!(watch(&mut fixture, "work", json!({"recursive": true})).await, first);
    assert_ne!(watch(&mut fixture, "work/sub", json!({})).await, first);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_watch_ends_with_its_last_subscriber() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let channel = subscribed(&mut fixture, "work", json!({})).await;
    let mut other = Raw::initialized(&rig).await;
    other.call("subscribe", json!({"channel": channel})).await.unwrap();
    unsubscribe(&mut fixture.raw, &channel).await;
    std::fs::write(fixture.path("work/new"), "x").unwrap();
    other.envelope("resourceWatch/changed").await;
    assert_eq!(subscribed(&mut fixture, "work", json!({})).await, channel, "it is still there");
    unsubscribe(&mut fixture.raw, &channel).await;
    unsubscribe(&mut other, &channel).await;
    assert_eq!(other.code("subscribe", json!({"channel": channel})).await, -32001);
    let again = subscribed(&mut fixture, "work", json!({})).await;
    assert_ne!(again, channel);
    // The end of a connection unsubscribes it too.
    let dir = fixture.dir;
    drop(fixture.raw);
    let mut last = Raw::initialized(&rig).await;
    while last.call("subscribe", json!({"channel": again})).await.is_ok() {
        unsubscribe(&mut last, &again).await;
    }
    drop(dir);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn the_number_of_watches_is_limited() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let mut made = 0;
    let error = loop {
        let excludes = json!({"excludes": {"items": [format!("x{made}")]}});
        match fixture.ask("createResourceWatch", "work", excludes).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!((1..=64).contains(&made), "{made}");
    assert!(error["message"].as_str().unwrap().contains("watch"), "{error}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_changes_is_reported_as_one_change() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    subscribed(&mut fixture, "work", json!({})).await;
    let work = fixture.path("work");
    tokio::task::spawn_blocking(move || {
        for number in 0..20_000 {
            std::fs::File::create(work.join(number.to_string())).unwrap();
        }
    })
    .await
    .unwrap();
    let changes = until(&mut fixture, "work").await;
    assert_eq!(changes[&fixture.uri("work")], "updated");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn revoking_a_grant_ends_its_watches() {
    let rig = rig_granting(hostler_engine::GrantPolicy::Always).await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    fixture.ask("resourceRequest", "beside", json!({})).await.unwrap();
    let channel = subscribed(&mut fixture, "beside", json!({})).await;
    let list = fixture.raw.call("hostler/listGrants", json!({})).await.unwrap();
    fixture.raw.call("hostler/revokeGrant", json!({"id": list["items"][0]["id"]})).await.unwrap();
    assert_eq!(fixture.raw.code("subscribe", json!({"channel": channel})).await, -32001);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_session_ends_the_watches_of_its_directory() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let channel = subscribed(&mut fixture, "work", json!({})).await;
    fixture.raw.call("disposeSession", json!({"channel": fixture.session})).await.unwrap();
    std::fs::write(fixture.path("work/new"), "x").unwrap();
    // The change ends the watch, and later subscriptions fail.
    while fixture.raw.call("subscribe", json!({"channel": channel})).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let was_reported =
        fixture.raw.received.iter().any(|message| message["params"]["action"]["type"] == "resourceWatch/changed");
    assert!(!was_reported);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn dispatches_on_a_watch_are_rejected() {
    let rig = rig().await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    let channel = subscribed(&mut fixture, "work", json!({})).await;
    let changes = json!({"items": [{"uri": "file:///x", "type": "added"}]});
    fixture.raw.dispatch(&channel, json!({"type": "resourceWatch/changed", "changes": changes})).await;
    let envelope = fixture.raw.envelope("resourceWatch/changed").await;
    assert!(!envelope["rejectionReason"].as_str().unwrap().is_empty());
    rig.engine.shutdown().await;
}
