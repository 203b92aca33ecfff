//! Grants: requested, listed, stored and revoked.

use hostler_engine::GrantPolicy;
use serde_json::{Value, json};

use crate::common::{Raw, rig, rig_granting};
use crate::resources::{FileFixture, VERSIONS};

async fn grants(fixture: &mut FileFixture) -> Vec<Value> {
    let list = fixture.raw.call("hostler/listGrants", json!({})).await.unwrap();
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn requests_are_granted_for_session_files_and_for_others_only_if_configured() {
    let rig = rig().await;
    for version in VERSIONS {
        let mut fixture = FileFixture::new(&rig, version).await;
        for (name, more) in [
            ("work", json!({})),
            ("work/file", json!({"read": true, "write": true})),
            ("work/not/yet", json!({"write": true})),
        ] {
            assert_eq!(fixture.ask("resourceRequest", name, more).await, Ok(json!({})), "{name}");
        }
        let error = fixture.ask("resourceRequest", "beside", json!({"read": true})).await.unwrap_err();
        assert_eq!(error["code"], -32009);
        assert_eq!(error["data"]["request"]["uri"], fixture.uri("beside"));
        assert!(error["message"].as_str().unwrap().contains("[files]"), "{error}");
        assert!(grants(&mut fixture).await.is_empty());
        assert_eq!(fixture.raw.call("resourceRequest", json!({"uri": "ahp-content:/x"})).await, Ok(json!({})));
        assert_eq!(fixture.raw.code("resourceRequest", json!({"uri": "ahp-content:/x", "write": true})).await, -32602);
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn grants_are_listed_stored_and_revoked() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    assert_eq!(fixture.code("resourceRead", "beside/file", json!({})).await, -32009, "granted only if asked for");
    assert_eq!(fixture.code("resourceRequest", "missing", json!({})).await, -32008);
    fixture.ask("resourceRequest", "beside", json!({"read": true})).await.unwrap();
    fixture.ask("resourceRequest", "beside", json!({})).await.unwrap();
    fixture.ask("resourceRead", "beside/file", json!({})).await.unwrap();
    assert_eq!(fixture.put("beside/file", "x").await.unwrap_err()["code"], -32009, "reading is not writing");
    let list = grants(&mut fixture).await;
    assert_eq!(list.len(), 1, "asked for twice, granted once");
    assert_eq!(
        (&list[0]["client"], &list[0]["write"], &list[0]["waiting"]),
        (&json!("raw"), &json!(false), &json!(false))
    );
    fixture.ask("resourceRequest", "beside", json!({"write": true})).await.unwrap();
    fixture.put("beside/new", "x").await.unwrap();

    drop(fixture.raw);
    let rig = rig.restart().await;
    fixture.raw = Raw::initialized(&rig).await;
    assert_eq!(fixture.ask("resourceRead", "beside/new", json!({})).await.unwrap()["data"], "x");
    for grant in grants(&mut fixture).await {
        fixture.raw.call("hostler/revokeGrant", json!({"id": grant["id"]})).await.unwrap();
        assert_eq!(fixture.raw.code("hostler/revokeGrant", json!({"id": grant["id"]})).await, -32008);
    }
    assert_eq!(fixture.code("resourceRead", "beside/new", json!({})).await, -32009);
    drop(fixture.raw);
    let rig = rig.restart().await;
    fixture.raw = Raw::initialized(&rig).await;
    assert!(grants(&mut fixture).await.is_empty(), "what was taken back stays so");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn with_policy_ask_a_request_waits_for_a_persons_grant() {
    let rig = rig_granting(GrantPolicy::Ask).await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    for _ in 0..2 {
        let error = fixture.ask("resourceRequest", "beside/file", json!({"write": true})).await.unwrap_err();
        assert_eq!(error["code"], -32009);
        assert!(error["message"].as_str().unwrap().contains("is pending"), "{error}");
    }
    assert_eq!(fixture.code("resourceRead", "beside/file", json!({})).await, -32009);
    let list = grants(&mut fixture).await;
    assert_eq!((list.len(), &list[0]["waiting"]), (1, &json!(true)));
    fixture.raw.call("hostler/allowGrant", json!({"id": list[0]["id"]})).await.unwrap();
    assert_eq!(fixture.ask("resourceRequest", "beside/file", json!({"write": true})).await, Ok(json!({})));
    fixture.put("beside/file", "granted").await.unwrap();
    assert_eq!(fixture.text("beside/file"), "granted");
    assert_eq!(fixture.put("beside/other", "x").await.unwrap_err()["code"], -32009, "one file alone");
    assert_eq!(fixture.raw.code("hostler/allowGrant", json!({"id": "unknown"})).await, -32008);
    assert_eq!(fixture.raw.code("hostler/allowGrant", json!({})).await, -32602);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_grant_does_not_apply_to_a_replacement_of_the_file() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    std::fs::create_dir(fixture.path("other")).unwrap();
    std::fs::write(fixture.path("other/file"), "other").unwrap();
    fixture.ask("resourceRequest", "beside", json!({})).await.unwrap();
    std::fs::rename(fixture.path("beside"), fixture.path("away")).unwrap();
    std::os::unix::fs::symlink("other", fixture.path("beside")).unwrap();
    assert_eq!(fixture.code("resourceRead", "beside/file", json!({})).await, -32009);
    assert_eq!(fixture.code("resourceRead", "away/file", json!({})).await, -32009);
    std::fs::remove_file(fixture.path("beside")).unwrap();
    std::fs::rename(fixture.path("away"), fixture.path("beside")).unwrap();
    fixture.ask("resourceRead", "beside/file", json!({})).await.unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_unreadable_grants_file_grants_nothing() {
    let rig = rig_granting(GrantPolicy::Always).await;
    let mut fixture = FileFixture::new(&rig, "1.0.0").await;
    std::fs::write(rig.dir.path().join("grants.json"), "{oops").unwrap();
    drop(fixture.raw);
    let rig = rig.restart().await;
    fixture.raw = Raw::initialized(&rig).await;
    assert!(grants(&mut fixture).await.is_empty());
    fixture.ask("resourceRequest", "beside", json!({})).await.unwrap();
    assert_eq!(grants(&mut fixture).await.len(), 1);
    rig.engine.shutdown().await;
}
