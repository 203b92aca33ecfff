//! `docs/ahp.md` agrees with the protocol table and with the behavior of the host.

use std::path::Path;

use crate::common::{Raw, rig};
use hostler_engine::{default_chat_uri, sub_agent_chat_uri};
use serde_json::{Value, json};

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

/// With `UPDATE` set, the test rewrites the page: `UPDATE=1 cargo test -p hostler-ahp --test it protocol_reference`.
#[test]
fn the_reference_page_is_generated_from_the_table() {
    let page = hostler_ahp::protocol_reference();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ahp.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap();
    assert!(
        found == page,
        "docs/ahp.md differs from the table; UPDATE=1 cargo test -p hostler-ahp --test it protocol_reference"
    );
}

/// The rows of a section of the page, cell by cell.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = hostler_ahp::protocol_reference();
    let part = page.split("\n## ").find(|part| part.starts_with(heading)).unwrap();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    part.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

#[tokio::test]
async fn every_command_is_carried_out_or_refused_as_documented() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let (mut offered, mut refused) = (0, 0);
    for row in rows("Commands") {
        let [name, .., errors, here] = &row[..] else { panic!("{row:?}") };
        let name = name.trim_matches('`');
        let answer = raw.call(name, json!({"channel": "claude:/unknown"})).await;
        match here.strip_prefix("not offered: ") {
            Some(what) => {
                let error = answer.unwrap_err();
                assert_eq!(error["message"], format!("this host does not offer {what}"), "{name}");
                assert_eq!(error["code"].to_string(), *errors, "{name}");
                refused += 1;
            }
            None if ["initialize", "reconnect"].contains(&name) => {
                assert!(answer.unwrap_err()["message"].as_str().unwrap().contains("initialized already"));
            }
            None => {
                assert_ne!(answer.err().map(|error| error["code"].clone()), Some(json!(-32601)), "{name}");
                offered += 1;
            }
        }
    }
    assert!(offered > 8 && refused > 0, "{offered} {refused}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn every_deprecated_method_name_still_works() {
    let mut rig = rig().await;
    let (mut raw, chat, _agent) = Raw::begun(&mut rig, SESSION).await;
    let methods: Vec<_> = rows("Deprecated names").into_iter().filter(|row| row.len() == 2).collect();
    assert_eq!(methods.len(), 6);
    for row in methods {
        let [former, current] = [0, 1].map(|cell: usize| row[cell].trim_matches('`'));
        let params = match former {
            "hostler/audit" => json!({"channel": SESSION}),
            "hostler/backgroundOutput" => json!({"channel": chat, "id": "none"}),
            "hostler/dropImages" => json!({"channel": chat, "images": "all"}),
            "hostler/createLink" | "hostler/listSignIns" | "hostler/sessionsDoctor" => json!({}),
            other => panic!("no test of {other}"),
        };
        let [before, now] = [raw.call(former, params.clone()).await, raw.call(current, params).await];
        if former == "hostler/createLink" {
            let [before, now] = [before.unwrap(), now.unwrap()];
            assert_ne!(before["code"], now["code"], "each call creates a link");
            assert!(before["path"].as_str().unwrap().starts_with("/#link="), "{before}");
            continue;
        }
        assert_eq!(before, now, "{former}");
        assert_ne!(before.err().map(|error| error["code"].clone()), Some(json!(-32601)), "{former}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn every_deprecated_parameter_still_works() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let params: Vec<_> = rows("Deprecated names").into_iter().filter(|row| row.len() == 3).collect();
    assert_eq!(params.len(), 4);
    for row in params {
        let [former, method, current] = [0, 1, 2].map(|cell: usize| row[cell].trim_matches('`'));
        // A value of the wrong type shows that the parameter is read under both names.
        let with = |name: &str| json!({"channel": "ahp-chat:/none", "query": "x", name: 7});
        let error = raw.call(method, with(former)).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{former}: {error}");
        assert_eq!(raw.call(method, with(current)).await, Err(error), "{former}");
    }
    let images = |name: &str| json!({"channel": "ahp-chat:/none", name: "last"});
    assert_eq!(raw.code("hostler/dropImages", images("which")).await, -32001, "accepted, but there is no such chat");
    let search = json!({"query": "x", "flat": true, "wait": true, "all": true});
    let answer = raw.call("hostler/search", search).await.unwrap();
    assert_eq!((&answer["items"], &answer["pendingSessions"]), (&json!([]), &json!(0)), "{answer}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn every_action_that_is_not_offered_is_rejected() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let chat = default_chat_uri(SESSION);
    raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    raw.call("subscribe", json!({"channel": chat})).await.unwrap();
    for row in rows("Actions") {
        let [name, who, _, here] = &row[..] else { panic!("{row:?}") };
        let name = name.trim_matches('`');
        let channel = match name.split('/').next().unwrap() {
            "session" => SESSION,
            "chat" => &chat,
            _ => continue,
        };
        let reason = match here.strip_prefix("not offered: ") {
            _ if who == "host" => "only hosts send it",
            _ if who.starts_with("host") => "this host does not offer tools that clients run",
            Some(what) => what,
            None => continue,
        };
        raw.dispatch(channel, json!({"type": name, "x": 1})).await;
        let envelope = raw.envelope(name).await;
        assert!(envelope["rejectionReason"].as_str().unwrap().contains(reason), "{envelope:#}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn clients_can_create_only_the_default_chat_which_exists() {
    let rig = rig().await;
    let mut raw = Raw::initialized(&rig).await;
    let chat = default_chat_uri(SESSION);
    let create = |chat: &str| json!({"channel": SESSION, "chat": chat});
    assert_eq!(raw.code("createChat", create(&chat)).await, -32001, "no session yet");
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    assert_eq!(raw.call("createChat", create(&chat)).await, Ok(Value::Null));
    assert_eq!(raw.call("createChat", create(&chat)).await, Ok(Value::Null));
    let mut busy = create(&chat);
    busy["initialMessage"] = json!({"text": "hi", "origin": {"kind": "user"}});
    for params in [create("ahp-chat://other/x"), create(&sub_agent_chat_uri(SESSION, "c")), busy, json!({})] {
        let error = raw.call("createChat", params).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    for method in ["disposeChat", "moveChat"] {
        let error = raw.call(method, json!({"channel": chat})).await.unwrap_err();
        assert_eq!(error["code"], -32602);
        assert_eq!(error["message"], "this host does not offer several chats in a session");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn features_that_are_not_offered_are_not_advertised() {
    let rig = rig().await;
    let mut raw = Raw::connect(&rig);
    let params = json!({"protocolVersions": ["1.0.0"], "clientId": "c", "initialSubscriptions": ["ahp-root://"]});
    let hello = raw.call("initialize", params).await.unwrap();
    for key in ["automations", "telemetry"] {
        assert_eq!(hello.get(key), None, "{key}");
    }
    assert_eq!(hello["completionTriggerCharacters"], json!(["@", "#", "/"]));
    assert_eq!(hello["terminalCommandPrefix"], "!");
    let agent = &hello["snapshots"][0]["state"]["agents"][0];
    let directories = json!({"multipleWorkingDirectories": {"immutablePrimary": true}});
    assert_eq!(agent["capabilities"], directories, "no other chats, forks or side chats");
    assert_eq!(agent.get("customizations"), None);
    raw.call("createSession", json!({"channel": SESSION})).await.unwrap();
    let session = raw.call("subscribe", json!({"channel": SESSION})).await.unwrap();
    for key in ["annotations", "changesets", "customizations", "serverTools"] {
        assert_eq!(session["snapshot"]["state"].get(key), None, "{key}");
    }
    rig.engine.shutdown().await;
}
