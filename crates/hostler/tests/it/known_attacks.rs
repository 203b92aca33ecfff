//! Classes of attacks that worked on similar programs, tried on the real binary. Links that are swapped between
//! check and use (CVE-2026-25724, CVE-2026-39861) are in `crates/hostler-files/tests/races.rs`; the tidy test of
//! `xtask` restricts shared temporary directories to listed places (CVE-2026-46406).

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::common::{TestHome, list_files, run_to_end, text};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

const ROOT: &str = ahp_types::ROOT_RESOURCE_URI;

/// Sends `initialize` with additional fields.
async fn hello(url: &str, more: Value) -> (RawClient, Result<Value, Value>) {
    let mut raw = RawClient::connect(url).await;
    let mut params = json!({"protocolVersions": ["1.0.0"], "clientId": format!("raw-{}", Uuid::new_v4())});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = raw.call("initialize", params).await;
    (raw, answer)
}

/// Self-declared scopes: claims of a client in `initialize` give it no more rights than any other client.
#[tokio::test]
async fn client_cannot_declare_its_own_rights() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let plain = hello(&host.url(), json!({})).await.1.unwrap();
    let claims = json!({
        "scopes": ["operator.admin", "*"], "scope": "admin", "role": "operator", "admin": true, "roles": ["owner"],
        "permissions": {"allowBypass": true, "files": "always"}, "allowBypass": true, "token": host.token(),
        "capabilities": {"admin": true, "bypassPermissions": true, "files": {"grant": "always"}},
        "clientInfo": {"name": "hostler", "version": "1", "scopes": ["admin"]},
        "_meta": {"hostler": {"admin": true, "allowBypass": true}},
    });
    let (mut raw, answer) = hello(&host.url(), claims).await;
    let answer = answer.unwrap();
    assert_eq!(answer["capabilities"], plain["capabilities"]);
    let session = |config: Value| json!({"channel": format!("claude:/{}", Uuid::new_v4()), "config": config});
    let bypass = raw.call("createSession", session(json!({"permissionMode": "bypassPermissions"}))).await;
    assert_eq!(bypass.unwrap_err()["code"], -32602);
    let params = json!({"channel": ROOT, "uri": "file:///etc", "read": true, "write": true});
    assert_eq!(raw.call("resourceRequest", params).await.unwrap_err()["code"], -32009);
    assert_eq!(raw.call("resourceRead", json!({"uri": "file:///etc/passwd"})).await.unwrap_err()["code"], -32009);

    // A claim does not replace the token either.
    for claim in ["?scope=admin", "?role=operator&admin=true", "?tkn=", "?token=admin"] {
        let url = format!("ws://127.0.0.1:{}/{claim}", host.port);
        assert!(tokio_tungstenite::connect_async(&url).await.is_err(), "{claim}");
    }
    host.stop().await;
}

/// Rotated tokens that stay valid: the old token, its sockets and browser sessions created with it are rejected.
#[tokio::test]
async fn rotated_token_is_rejected_everywhere() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let old = host.token().to_owned();
    let mut open = hello(&host.url(), json!({})).await.0;
    let code = open.call("hostler/createSignInLink", json!({"channel": ROOT})).await.unwrap()["code"].clone();
    let base = format!("http://127.0.0.1:{}", host.port);
    let http = reqwest::Client::new();
    let signed_in =
        http.post(format!("{base}/sign-in")).header("origin", &base).header("content-type", "application/json");
    let signed_in = signed_in.body(json!({ "code": code }).to_string()).send().await.unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let key: Value = serde_json::from_str(&signed_in.text().await.unwrap()).unwrap();
    let key = key["key"].as_str().unwrap().to_owned();
    let state = async |port: u16| -> Value {
        let request = reqwest::Client::new().get(format!("http://127.0.0.1:{port}/sign-in"));
        let answer = request.header("cookie", &cookie).header("x-hostler-key", &key).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    assert_eq!(state(host.port).await["signedIn"], true);
    host.stop().await;
    assert!(open.receive().await.is_none(), "what it opened ends with the host");

    std::fs::remove_file(home.path("state").join("hostler").join("token")).unwrap();
    let host = home.serve_fake(&[]).await;
    assert_ne!(host.token(), old);
    let with_old = format!("ws://127.0.0.1:{}/?tkn={old}", host.port);
    assert!(tokio_tungstenite::connect_async(&with_old).await.is_err());
    assert_eq!(state(host.port).await["signedIn"], false);
    hello(&host.url(), json!({})).await.1.unwrap();
    host.stop().await;
}

/// CVE-2026-25593: no setting of a client names a program that is run.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_setting_names_a_program() {
    let home = TestHome::new();
    let (marker, script) = (home.path("marker"), home.path("evil"));
    std::fs::write(&script, format!("#!/bin/sh\necho ran >> {}\nexec cat\n", marker.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    let host = home.serve_fake(&[("HOSTLER_NO_SHELL_COMMANDS", "false")]).await;
    let (mut raw, answer) = hello(&host.url(), json!({"initialSubscriptions": [ROOT], "clientId": "me"})).await;

    // None of the offered settings is about programs.
    let root = &answer.unwrap()["snapshots"][0]["state"];
    let offered =
        |schema: &Value| -> Vec<String> { schema["properties"].as_object().unwrap().keys().cloned().collect() };
    let resolved = raw.call("resolveSessionConfig", json!({"channel": ROOT, "provider": "claude"})).await.unwrap();
    let known = [offered(&root["config"]["schema"]), offered(&resolved["schema"])].concat();
    assert!(known.iter().any(|name| name == "permissionMode"), "{known:?}");
    for name in &known {
        let name = name.to_lowercase();
        let program_terms =
            ["path", "command", "executable", "binary", "shell", "hook", "env", "helper", "cli", "server", "program"];
        assert!(!program_terms.iter().any(|term| name.contains(term)), "{name} seems to name a program");
    }

    let env = json!({"PATH": home.root(), "SHELL": evil, "BASH_ENV": evil, "LD_PRELOAD": evil, "ENV": evil});
    let hook = json!({"SessionStart": [{"hooks": [{"type": "command", "command": evil}]}]});
    let names: BTreeMap<&str, Value> = [
        "claude",
        "cliPath",
        "claudePath",
        "executable",
        "pathToClaudeCodeExecutable",
        "terminal-shell",
        "terminalShell",
        "shell",
        "apiKeyHelper",
        "awsAuthRefresh",
        "statusLine",
        "node",
        "command",
        "args",
        "executableArgs",
        "settings",
        "editor",
    ]
    .into_iter()
    .map(|name| (name, json!(evil)))
    .chain([("hooks", hook), ("env", env.clone()), ("agent.env", env), ("mcpServers", json!({"x": {"command": evil}}))])
    .collect();
    let dispatch = |seq: i64, channel: &str, action: Value| {
        json!({"jsonrpc": "2.0", "method": "dispatchAction",
               "params": {"channel": channel, "clientSeq": seq, "action": action}})
        .to_string()
    };
    raw.send(dispatch(1, ROOT, json!({"type": "root/configChanged", "config": names}))).await;
    let mut seq = 1;
    let mut made = 0;
    for (name, value) in names.iter().map(|(name, value)| (*name, value)) {
        let session = format!("claude:/{}", Uuid::new_v4());
        let client = json!({"clientId": "me", "tools": [], "customizations": [{"uri": format!("file://{evil}")}],
                            "mcpServers": {"x": {"command": evil}}});
        let mut params = json!({"channel": session, "config": {name: value}, "cwd": home.root(), "env": {"PATH": home.root()},
                                "executable": evil, "workingDirectories": [format!("file://{}", home.work().display())]});
        // Rejected, or without an effect.
        if raw.call("createSession", params.clone()).await.is_err() {
            params["config"] = json!({});
            raw.call("createSession", params).await.unwrap();
        }
        let snapshot = raw.call("subscribe", json!({"channel": session})).await.unwrap();
        let chat = snapshot["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
        raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        let message = json!({"text": "hello", "origin": {"kind": "user"}});
        let turn = json!({"type": "chat/turnStarted", "turnId": Uuid::new_v4(), "startedAt": "2026-11-15T08:00:00.000Z",
                          "message": message});
        for (channel, action) in [
            (&session, json!({"type": "session/configChanged", "config": {name: value}})),
            (&session, json!({"type": "session/activeClientSet", "activeClient": client})),
            (&chat, turn),
        ] {
            seq += 1;
            raw.send(dispatch(seq, channel, action)).await;
        }
        until_over(&mut raw).await;
        for agent in host.agents() {
            let of = |part: &str| text(&std::fs::read(format!("/proc/{}/{part}", agent.pid)).unwrap_or_default());
            for part in ["cmdline", "environ"] {
                assert!(!of(part).contains(evil), "{name}: the agent's {part}");
            }
        }
        raw.call("disposeSession", json!({"channel": session})).await.unwrap();
        made += 1;
    }
    assert!(made > 20);

    let terminal = json!({"channel": "ahp-terminal:/1", "claim": {"kind": "client", "clientId": "me"}, "shell": evil,
                          "shellPath": evil, "command": evil, "executable": evil, "env": {"ENV": evil, "BASH_ENV": evil}});
    raw.call("createTerminal", terminal).await.unwrap();
    raw.call("disposeTerminal", json!({"channel": "ahp-terminal:/1"})).await.unwrap();
    assert!(!marker.exists(), "{}", std::fs::read_to_string(&marker).unwrap_or_default());
    host.stop().await;
    assert!(!marker.exists());
}

/// Waits until a turn is over, in any way.
async fn until_over(raw: &mut RawClient) {
    loop {
        let message = raw.receive().await.expect("the connection is open");
        let kind = message["params"]["action"]["type"].as_str().unwrap_or_default();
        if ["chat/turnComplete", "chat/error", "chat/turnCancelled"].contains(&kind) {
            return;
        }
    }
}

/// Returns the paths below a directory, without parts that change with each start.
fn names(directory: &Path) -> Vec<PathBuf> {
    list_files(directory).into_iter().map(|path| path.strip_prefix(directory).unwrap().to_owned()).collect()
}

/// CVE-2026-46406: links at guessable names in the shared directory, created before the host starts, have no
/// effect.
#[tokio::test(flavor = "multi_thread")]
async fn links_at_guessable_names_are_not_followed() {
    // Files that the host creates in the temporary and runtime directories while it works.
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut raw = hello(&host.url(), json!({})).await.0;
    let (_, chat) = raw.create_session(&home.work()).await;
    raw.send_message(&chat, "hello").await;
    until_over(&mut raw).await;
    let run = home.path("run");
    let used = names(&run);
    for path in used.iter().map(|name| run.join(name)) {
        for directory in path.ancestors().skip(1).take_while(|directory| **directory != *run) {
            assert_eq!(std::fs::metadata(directory).unwrap().mode() & 0o077, 0, "{}", directory.display());
        }
    }
    host.stop().await;

    // The same names and other likely ones, as links to a file that must not be overwritten.
    let victim = home.path("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("file"), "untouched").unwrap();
    let plant = |name: &Path| {
        let place = run.join(name);
        let _ = std::fs::remove_file(&place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let _ = symlink(victim.join("file"), place);
    };
    used.iter().for_each(|name| plant(name));
    for name in
        ["hostler.lock", "hostler.log", "hostler.sock", "hostler-demo-", "hostler-edit-", ".hostler-new-1-0", "claude"]
    {
        plant(Path::new(name));
    }
    let host = home.serve_fake(&[]).await;
    let mut raw = hello(&host.url(), json!({})).await.0;
    let (_, chat) = raw.create_session(&home.work()).await;
    raw.send_message(&chat, "hello").await;
    until_over(&mut raw).await;
    host.stop().await;
    assert_eq!(std::fs::read_to_string(victim.join("file")).unwrap(), "untouched");
    assert_eq!(names(&victim), [PathBuf::from("file")]);

    // The directory itself as a link is rejected, with a reason.
    std::fs::remove_dir_all(run.join("hostler")).unwrap();
    symlink(&victim, run.join("hostler")).unwrap();
    let output = run_to_end(home.serve_command(&["--claude", "native", "--upstream", "scripted"], &[])).await;
    assert!(!output.status.success() && text(&output.stderr).contains("XDG_RUNTIME_DIR"), "{}", text(&output.stderr));
    assert_eq!(names(&victim), [PathBuf::from("file")]);
}
