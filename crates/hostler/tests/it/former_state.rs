//! A state directory that the version before the renames wrote (schema 8) opens, continues and searches as before.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use crate::common::{TestHome, list_files, run_to_end, text};
use serde_json::Value;

/// Two turns with a tool call and an image, a sub-agent and a shell command; renamed and tagged.
const OWN_SESSION: &str = "claude:/4a3fc3a5-6d21-4f94-bb17-4d236b9e7a19";

/// Three turns of another host, which were imported, and one turn after that.
const IMPORTED_SESSION: &str = "claude:/db40af71-1a74-4cf6-9201-b0f4aee701f2";

/// Puts the stored directory in place: paths in it are placeholders.
fn restore_former_state(home: &TestHome) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/state-v8");
    let root = home.root().canonicalize().unwrap();
    let slug = |path: &Path| -> String {
        path.to_str().unwrap().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    };
    let fill = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap();
        text.replace("@ROOT@", root.to_str().unwrap()).replace("@SLUG@", &slug(&root))
    };
    let state = home.path("state").join("hostler");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&state).unwrap();
    std::fs::create_dir_all(root.join("work2")).unwrap();
    for name in ["rules.toml", "trust.toml", "ledger.jsonl"] {
        std::fs::write(state.join(name), fill(&data.join(name))).unwrap();
    }
    std::fs::copy(data.join("prompt.key"), state.join("prompt.key")).unwrap();
    let database = rusqlite::Connection::open(state.join("hostler.db")).unwrap();
    database.execute_batch(&fill(&data.join("hostler.sql"))).unwrap();
    for file in list_files(&state) {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    for name in ["work", "work2"] {
        let transcripts = data.join("transcripts").join(name);
        let target = home.path("claude").join("projects").join(slug(&root.join(name)));
        for file in list_files(&transcripts) {
            let to = target.join(file.strip_prefix(&transcripts).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, fill(&file)).unwrap();
        }
    }
}

async fn run(home: &TestHome, args: &[&str]) -> String {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", "native");
    let output = run_to_end(command).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {out}{err}");
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_of_schema_8_opens_continues_and_searches() {
    let home = TestHome::new();
    restore_former_state(&home);

    let sessions: Vec<Value> = serde_json::from_str(&run(&home, &["sessions", "list", "--json"]).await).unwrap();
    let find = |uri: &str| sessions.iter().find(|session| session["resource"] == uri).cloned().unwrap();
    assert_eq!(sessions.len(), 2, "{sessions:#?}");
    let own = find(OWN_SESSION);
    assert_eq!(own["title"], "The stable");
    assert_eq!(own["_meta"]["hostler"]["tag"], "kept", "{own:#}");
    assert_eq!(own["_meta"]["hostler"]["usage"]["requests"], 6, "{own:#}");
    assert_eq!(find(IMPORTED_SESSION)["_meta"]["hostler"]["external"], true);

    let shown = run(&home, &["sessions", "show", OWN_SESSION]).await;
    for part in ["It says horses.", "A picture of a horse.", "Four horses.", "from a person"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let shown = run(&home, &["sessions", "show", IMPORTED_SESSION]).await;
    for part in ["one mare", "two mares", "three mares", "four mares"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }

    // The agent continues both conversations.
    assert_eq!(run(&home, &["run", "--session", OWN_SESSION, "!say and a foal"]).await.trim(), "and a foal");
    assert_eq!(run(&home, &["run", "--session", IMPORTED_SESSION, "!say five mares"]).await.trim(), "five mares");
    let shown = run(&home, &["sessions", "show", IMPORTED_SESSION]).await;
    assert_eq!(shown.matches("\nTurn ").count() + usize::from(shown.starts_with("Turn ")), 5, "{shown}");

    let found = run(&home, &["sessions", "search", "horses"]).await;
    assert!(found.contains("The stable"), "{found}");
    let rules = run(&home, &["rules", "list"]).await;
    assert!(rules.contains("Bash(make:*)") && rules.contains("Read(./secret.txt)"), "{rules}");
    let audit = home.export_audit_log(OWN_SESSION).await;
    assert!(audit.iter().any(|entry| entry["tool"] == "Bash"), "{audit:#?}");
}
