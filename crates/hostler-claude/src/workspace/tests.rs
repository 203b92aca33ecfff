//! Unit tests of reading and staging a folder's configuration.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::os::unix::fs::symlink;

use hostler_process::ConversationLock;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A folder with files.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self) -> ConfigurationSnapshot {
        self.read_in("")
    }

    fn read_in(&self, below: &str) -> ConfigurationSnapshot {
        ConfigurationSnapshot::read(&self.path().join(below), None)
    }
}

fn shown(snapshot: &ConfigurationSnapshot) -> Vec<String> {
    let items = snapshot.configuration.items.iter();
    let blocked = |item: &ConfigurationItem| if item.blocked.is_some() { " (blocked)" } else { "" };
    items.map(|item| format!("{} | {} | {}{}", item.kind.label(), item.name, item.source, blocked(item))).collect()
}

const SETTINGS: &str = r#"{
    "$schema": "x",
    "env": {"NODE_ENV": "test", "LD_PRELOAD": "./evil.so", "MY_TOKEN": "planted", "N": 1, "L": []},
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}], "Stop": 1},
    "permissions": {"allow": ["Bash(npm test:*)"], "deny": ["Read(secret)"], "additionalDirectories": ["../lib"],
        "defaultMode": "bypassPermissions"},
    "apiKeyHelper": "./key.sh", "statusLine": {"type": "command", "command": "x"},
    "enabledPlugins": {"p@m": true}, "extraKnownMarketplaces": {"m": {}}, "enableAllProjectMcpServers": true,
    "outputStyle": "terse", "cleanupPeriodDays": 0, "somethingNew": "./run-me"
}"#;

#[test]
fn all_configuration_items_are_listed() {
    let folder = Folder::new(&[
        (".claude/settings.json", SETTINGS),
        (".claude/settings.local.json", r#"{"env": {"NODE_ENV": "local"}}"#),
        (
            ".mcp.json",
            r#"{"mcpServers": {"db": {"command": "npx", "args": ["-y", "db"]}, "web": {"url": "https://x"}}}"#,
        ),
        (".claude/commands/a/deploy.md", "run !`make`"),
        (".claude/skills/pdf/SKILL.md", "---\nname: pdf\nallowed-tools: Bash\n---\n"),
        (".claude/skills/pdf/scripts/x.py", "print()"),
        (".claude/agents/reviewer.md", "---\nname: reviewer\nmcpServers:\n  - x\nhooks: {}\n---\nReview."),
        (".claude/output-styles/terse.md", "Be terse."),
        (".claude/worktrees/w/.claude/settings.json", "not read"),
        ("CLAUDE.md", "text"),
        (".claude/CLAUDE.md", "text"),
    ]);
    insta::assert_debug_snapshot!(shown(&folder.read()));
}

#[test]
fn applied_files_are_reduced() {
    let folder = Folder::new(&[
        (".claude/settings.json", SETTINGS),
        (".claude/settings.local.json", r#"{"env": {"NODE_ENV": "local"}, "language": "German"}"#),
        (".claude/agents/reviewer.md", "---\nname: reviewer\nmcpServers:\n  - x\n---\nReview."),
        (".claude/agents/open.md", "---\nname: open\nmcpServers: x\n"),
        (".claude/agents/notes.txt", "no agent"),
    ]);
    let snapshot = folder.read();
    let environment: Vec<_> = snapshot.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(environment, ["MY_TOKEN=planted", "N=1", "NODE_ENV=local"]);
    assert_eq!(Value::from(snapshot.settings.clone()), json!({"outputStyle": "terse", "language": "German"}));
    assert_eq!(snapshot.directories, [folder.path().join("../lib")]);
    let rules: Vec<_> =
        snapshot.configuration.rules.iter().map(|rule| format!("{} {}", rule.effect, rule.pattern)).collect();
    assert_eq!(rules, ["allow Bash(npm test:*)", "deny Read(secret)"]);
    let files: Vec<_> = snapshot.files.iter().map(|(name, file)| (name.as_str(), file.bytes.as_slice())).collect();
    assert_eq!(files, [("agents/reviewer.md", b"---\nname: reviewer\n---\nReview.".as_slice())]);
    assert!(!format!("{:?}", snapshot.configuration).contains("planted"), "no secret is shown");
}

#[test]
fn folder_without_configuration_is_empty() {
    let files =
        [("CLAUDE.md", "text"), (".claude/rules/a.md", "text"), (".claude/settings.json", "{}"), (".mcp.json", "")];
    for snapshot in [
        Folder::new(&[]).read(),
        Folder::new(&files).read(),
        ConfigurationSnapshot::read("/no/such/folder".as_ref(), None),
    ] {
        assert_eq!(snapshot.configuration, WorkspaceConfiguration::default());
    }
}

#[test]
fn unreadable_configuration_is_a_problem() {
    let deep = format!("{{\"a\":{}", "[".repeat(1000));
    for text in ["{", "[]", "\u{0}", deep.as_str()] {
        for file in [".claude/settings.json", ".claude/settings.local.json", ".mcp.json"] {
            let problem = Folder::new(&[(file, text)]).read().configuration.problem;
            assert_eq!(problem, Some(format!("{file} is not a JSON object.")));
        }
    }
}

#[test]
fn too_large_configuration_is_a_problem() {
    let long = "x".repeat(70_000);
    let many = |make: fn(usize) -> Value| (0..2_001).map(make).collect::<Vec<_>>();
    for (settings, expected) in [
        (json!({"env": {"A": long}}), Some("64 KiB")),
        (json!({"language": long}), Some("64 KiB")),
        (json!({"permissions": {"additionalDirectories": [long]}}), Some("64 KiB")),
        (json!({"env": {"A": "x".repeat(40_000), "B": "x".repeat(40_000)}}), Some("64 KiB")),
        (json!({"permissions": {"allow": many(|n| format!("Read({n})").into())}}), Some("2,000")),
        (
            json!({"permissions": {"additionalDirectories": many(|_| "a-directory-of-a-name".into())[..1_900]}}),
            Some("64 KiB"),
        ),
        (json!({"env": {"A": "x".repeat(60_000)}}), None),
        (json!({"env": {"LD_PRELOAD": long}}), None),
    ] {
        let problem = Folder::new(&[(".claude/settings.json", &settings.to_string())]).read().configuration.problem;
        match (expected, problem) {
            (Some(expected), Some(problem)) => assert!(problem.contains(expected), "{problem}"),
            (expected, problem) => assert_eq!(problem.as_deref(), expected),
        }
    }
}

#[test]
fn files_in_place_of_directories_do_not_fail_a_start() {
    let runtime = tempfile::tempdir().unwrap();
    for files in [
        [("sub/.claude/skills", "a file"), (".claude/skills/s/SKILL.md", "of the root")],
        [("sub/.claude/commands", "a file"), (".claude/commands/a.md", "of the root")],
        [("sub/.claude/commands/a.md", "a file"), (".claude/commands/a.md/b.md", "of the root")],
        [("sub/.claude/commands/a.md/b.md", "a file"), (".claude/commands/a.md", "of the root")],
        [("sub/.claude/skills/s", "a file"), (".claude/skills/s/SKILL.md", "of the root")],
    ] {
        let folder = Folder::new(&[(".git/HEAD", ""), files[0], files[1]]);
        for recipe in [ConfigIsolation::ConfigRoot, ConfigIsolation::UserOnly] {
            let snapshot = folder.read_in("sub");
            assert_eq!(snapshot.configuration.problem, None);
            let prepared = StagedConfiguration::prepare(
                runtime.path(),
                "c",
                recipe,
                &folder.path().join("sub"),
                None,
                Some(snapshot),
            );
            assert!(prepared.is_ok(), "{files:?}: {prepared:?}");
        }
    }
}

#[test]
fn skill_with_refused_shell_commands_has_a_note() {
    for file in ["SKILL.md", "skill.md", "SKILL.MD"] {
        let folder = Folder::new(&[(&format!(".claude/skills/s/{file}"), "run !`make`")]);
        assert_eq!(shown(&folder.read()), ["Skill | s (its shell commands are blocked) | .claude/skills/s"]);
    }
}

#[test]
fn fingerprint_changes_with_every_byte() {
    let folder = Folder::new(&[(".claude/settings.json", SETTINGS)]);
    let mut seen = vec![folder.read().configuration.fingerprint];
    for (path, text) in [
        (".claude/settings.json", r#"{"env": {"A": "1"}}"#),
        (".claude/settings.json", r#"{"env": {"A": "1" }}"#),
        (".claude/settings.local.json", "{}"),
        (".claude/commands/a.md", "1"),
        (".claude/commands/a.md", "2"),
        (".claude/commands/b.md", ""),
        (".claude/skills/s/deep/in/it", "1"),
        (".mcp.json", "{}"),
    ] {
        folder.write(path, text);
        let now = folder.read().configuration.fingerprint;
        assert!(!seen.contains(&now), "{path}: {text}");
        seen.push(now);
    }
    symlink("x", folder.path().join(".claude/agents")).unwrap();
    let linked = folder.read().configuration.fingerprint;
    assert!(!seen.contains(&linked));
    std::fs::remove_file(folder.path().join(".claude/agents")).unwrap();
    assert_eq!(folder.read().configuration.fingerprint, *seen.last().unwrap());
    folder.write("src/main.rs", "");
    folder.write("CLAUDE.md", "");
    assert_eq!(
        folder.read().configuration.fingerprint,
        *seen.last().unwrap(),
        "what is no configuration does not count"
    );
}

#[test]
fn links_are_listed_and_not_applied() {
    let outside = Folder::new(&[("settings.json", SETTINGS), ("commands/evil.md", "evil"), ("evil.md", "evil")]);
    for (link, target) in [
        (".claude", ""),
        (".claude/settings.json", "settings.json"),
        (".claude/commands", "commands"),
        (".claude/commands/evil.md", "evil.md"),
        (".claude/skills/evil", "commands"),
        (".mcp.json", "settings.json"),
    ] {
        let folder = Folder::new(&[]);
        let path = folder.path().join(link);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(outside.path().join(target), path).unwrap();
        let snapshot = folder.read();
        let items = &snapshot.configuration.items;
        assert!(items.len() == 1 && items[0].blocked.as_deref() == Some(LINK_BLOCKED_REASON), "{link}: {items:?}");
        assert!(snapshot.files.is_empty() && snapshot.environment.is_empty(), "{link}");
    }
}

#[test]
fn subfolder_uses_its_repository_and_git_files_are_not_followed() {
    let trusted = Folder::new(&[(".git/HEAD", ""), (".claude/commands/trusted.md", "")]);
    let folder = Folder::new(&[
        (".claude/commands/outer.md", "1"),
        ("repo/.git", &format!("gitdir: {}/.git/worktrees/w", trusted.path().display())),
        ("repo/.claude/settings.json", r#"{"env": {"A": "1"}}"#),
        ("repo/.claude/commands/root.md", "1"),
        ("repo/.claude/skills/s/SKILL.md", "of the root"),
        ("repo/.claude/skills/s/more.md", "of the root"),
        ("repo/sub/.claude/skills/s/SKILL.md", "of the subfolder"),
    ]);
    let snapshot = folder.read_in("repo/sub");
    assert_eq!(
        shown(&snapshot),
        ["Slash command | /root | ../.claude/commands/root.md", "Skill | s | .claude/skills/s",]
    );
    let files: Vec<_> = snapshot.files.iter().map(|(name, file)| (name.as_str(), file.bytes.as_slice())).collect();
    assert_eq!(files, [("commands/root.md", b"1".as_slice()), ("skills/s/SKILL.md", b"of the subfolder")]);
}

#[test]
fn user_configuration_is_not_part_of_the_folder() {
    let home =
        Folder::new(&[(".git/HEAD", ""), (".claude/settings.json", SETTINGS), ("work/.claude/commands/a.md", "")]);
    let own = home.path().join(".claude");
    assert_eq!(ConfigurationSnapshot::read(&home.path(), Some(&own)).configuration, WorkspaceConfiguration::default());
    assert_eq!(ConfigurationSnapshot::read(&home.path().join("work"), Some(&own)).configuration.items.len(), 1);
}

#[test]
fn stage_is_private_unguessable_and_removed_on_drop() {
    use std::os::unix::fs::PermissionsExt as _;
    let runtime = tempfile::tempdir().unwrap();
    let folder = Folder::new(&[(".claude/skills/s/run.sh", "x"), (".claude/commands/a.md", "a")]);
    for recipe in [ConfigIsolation::ConfigRoot, ConfigIsolation::UserOnly] {
        let prepare = || {
            StagedConfiguration::prepare(runtime.path(), "c", recipe, &folder.path(), None, Some(folder.read()))
                .unwrap()
        };
        let names = || stages(runtime.path());
        let stage = prepare();
        let [first] = names().try_into().unwrap();
        let mode = std::fs::metadata(runtime.path().join(&first)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(first.len() > "workspace-c.".len() + 20, "{first}");
        std::mem::forget(stage);
        // The next start of the same conversation removes the stage of a killed host.
        let stage = prepare();
        let [second] = names().try_into().unwrap();
        assert_ne!(first, second);
        drop(stage);
        assert!(names().is_empty());
    }
}

#[test]
fn fingerprinted_bytes_are_applied() {
    let runtime = tempfile::tempdir().unwrap();
    for (recipe, file) in
        [(ConfigIsolation::ConfigRoot, ".claude/commands/a.md"), (ConfigIsolation::UserOnly, "project/commands/a.md")]
    {
        let folder =
            Folder::new(&[(".claude/commands/a.md", "trusted"), (".claude/settings.json", r#"{"env": {"A": "1"}}"#)]);
        let snapshot = folder.read();
        // Swapped between the check and the use.
        folder.write(".claude/commands/a.md", "swapped");
        folder.write(".claude/commands/b.md", "added");
        folder.write(".claude/settings.json", r#"{"env": {"A": "2"}}"#);
        let stage =
            StagedConfiguration::prepare(runtime.path(), "c", recipe, &folder.path(), None, Some(snapshot)).unwrap();
        let [name] = stages(runtime.path()).try_into().unwrap();
        let file = runtime.path().join(name).join(file);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "trusted");
        assert!(!file.with_file_name("b.md").exists());
        assert!(stage.environment.contains(&("A".into(), "1".into())), "{:?}", stage.environment);
    }
}

#[test]
fn stale_stages_are_removed_unless_their_agent_runs() {
    let runtime = tempfile::tempdir().unwrap();
    for conversation in ["left", "runs"] {
        let stage = StagedConfiguration::prepare(
            runtime.path(),
            conversation,
            ConfigIsolation::ConfigRoot,
            runtime.path(),
            None,
            None,
        )
        .unwrap();
        std::mem::forget(stage);
    }
    let lock = ConversationLock::acquire(runtime.path(), "runs", "a host").unwrap();
    remove_stale_stages(runtime.path(), "another");
    let [left] = stages(runtime.path()).try_into().unwrap();
    assert!(left.starts_with("workspace-runs."), "{left}");
    drop(lock);
    remove_stale_stages(runtime.path(), "another");
    assert!(std::fs::read_dir(runtime.path()).unwrap().next().is_none());
}

fn stages(runtime: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runtime).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.starts_with("workspace-")).collect()
}
