//! Grants: requested, listed, stored and revoked.

use hostler_engine::GrantPolicy;
use serde_json::{Value, json};

use crate::common::{Raw, rig, rig_granting};
use crate::{Desk, VERSIONS};

async fn grants(desk: &mut Desk) -> Vec<Value> {
    let list = desk.raw.call("hostler/listGrants", json!({})).await.unwrap();
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn requests_are_granted_for_session_files_and_for_others_only_if_configured() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut desk = Desk::new(&rig, version).await;
        for (name, more) in [
            ("work", json!({})),
            ("work/file", json!({"read": true, "write": true})),
            ("work/not/yet", json!({"write": true})),
        ] {
            assert_eq!(desk.ask("resourceRequest", name, more).await, Ok(json!({})), "{name}");
        }
        let error = desk.ask("resourceRequest", "beside", json!({"read": true})).await.unwrap_err();
        assert_eq!(error["code"], -32009);
        assert_eq!(error["data"]["request"]["uri"], desk.uri("beside"));
        assert!(error["message"].as_str().unwrap().contains("[files]"), "{error}");
        assert!(grants(&mut desk).await.is_empty());
        assert_eq!(desk.raw.call("resourceRequest", json!({"uri": "ahp-content:/x"})).await, Ok(json!({})));
        assert_eq!(desk.raw.code("resourceRequest", json!({"uri": "ahp-content:/x", "write": true})).await, -32602);
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn grants_are_listed_stored_and_revoked() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut desk = Desk::new(&rig, "1.0.0").await;
    assert_eq!(desk.code("resourceRead", "beside/file", json!({})).await, -32009, "granted only if asked for");
    assert_eq!(desk.code("resourceRequest", "missing", json!({})).await, -32008);
    desk.ask("resourceRequest", "beside", json!({"read": true})).await.unwrap();
    desk.ask("resourceRequest", "beside", json!({})).await.unwrap();
    desk.ask("resourceRead", "beside/file", json!({})).await.unwrap();
    assert_eq!(desk.put("beside/file", "x").await.unwrap_err()["code"], -32009, "reading is not writing");
    let list = grants(&mut desk).await;
    assert_eq!(list.len(), 1, "asked for twice, granted once");
    assert_eq!(
        (&list[0]["client"], &list[0]["write"], &list[0]["waiting"]),
        (&json!("raw"), &json!(false), &json!(false))
    );
    desk.ask("resourceRequest", "beside", json!({"write": true})).await.unwrap();
    desk.put("beside/new", "x").await.unwrap();

    drop(desk.raw);
    let rig = rig.restart().await;
    desk.raw = Raw::initialized(&rig).await;
    assert_eq!(desk.ask("resourceRead", "beside/new", json!({})).await.unwrap()["data"], "x");
    for grant in grants(&mut desk).await {
        desk.raw.call("hostler/revokeGrant", json!({"id": grant["id"]})).await.unwrap();
        assert_eq!(desk.raw.code("hostler/revokeGrant", json!({"id": grant["id"]})).await, -32008);
    }
    assert_eq!(desk.code("resourceRead", "beside/new", json!({})).await, -32009);
    drop(desk.raw);
    let rig = rig.restart().await;
    desk.raw = Raw::initialized(&rig).await;
    assert!(grants(&mut desk).await.is_empty(), "what was taken back stays so");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn with_policy_ask_a_request_waits_for_a_persons_grant() {
    let rig = rig_granting(GrantPolicy::Ask).await;
    let mut desk = Desk::new(&rig, "1.0.0").await;
    for _ in 0..2 {
        let error = desk.ask("resourceRequest", "beside/file", json!({"write": true})).await.unwrap_err();
        assert_eq!(error["code"], -32009);
        assert!(error["message"].as_str().unwrap().contains("waits"), "{error}");
    }
    assert_eq!(desk.code("resourceRead", "beside/file", json!({})).await, -32009);
    let list = grants(&mut desk).await;
    assert_eq!((list.len(), &list[0]["waiting"]), (1, &json!(true)));
    desk.raw.call("hostler/allowGrant", json!({"id": list[0]["id"]})).await.unwrap();
    assert_eq!(desk.ask("resourceRequest", "beside/file", json!({"write": true})).await, Ok(json!({})));
    desk.put("beside/file", "granted").await.unwrap();
    assert_eq!(desk.text("beside/file"), "granted");
    assert_eq!(desk.put("beside/other", "x").await.unwrap_err()["code"], -32009, "one file alone");
    assert_eq!(desk.raw.code("hostler/allowGrant", json!({"id": "unknown"})).await, -32008);
    assert_eq!(desk.raw.code("hostler/allowGrant", json!({})).await, -32602);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_grant_does_not_apply_to_a_replacement_of_the_file() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut desk = Desk::new(&rig, "1.0.0").await;
    std::fs::create_dir(desk.path("other")).unwrap();
    std::fs::write(desk.path("other/file"), "other").unwrap();
    desk.ask("resourceRequest", "beside", json!({})).await.unwrap();
    std::fs::rename(desk.path("beside"), desk.path("away")).unwrap();
    std::os::unix::fs::symlink("other", desk.path("beside")).unwrap();
    assert_eq!(desk.code("resourceRead", "beside/file", json!({})).await, -32009);
    assert_eq!(desk.code("resourceRead", "away/file", json!({})).await, -32009);
    std::fs::remove_file(desk.path("beside")).unwrap();
    std::fs::rename(desk.path("away"), desk.path("beside")).unwrap();
    desk.ask("resourceRead", "beside/file", json!({})).await.unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_grants_file_grants_nothing() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut desk = Desk::new(&rig, "1.0.0").await;
    std::fs::write(rig.dir.path().join("grants.json"), "{oops").unwrap();
    drop(desk.raw);
    let rig = rig.restart().await;
    desk.raw = Raw::initialized(&rig).await;
    assert!(grants(&mut desk).await.is_empty());
    desk.ask("resourceRequest", "beside", json!({})).await.unwrap();
    assert_eq!(grants(&mut desk).await.len(), 1);
    rig.engine.shutdown().await;
}
