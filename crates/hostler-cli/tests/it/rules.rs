//! `hostler rules`: rules in the state directory, without a host.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::host::FakeHostLauncher;
use crate::support::{CommandFixture, entry_names};
use hostler_cli::Exit;
use serde_json::{Value, json};

/// Home directory that several commands share.
struct RulesFixture {
    home: CommandFixture,
}

struct CliOutput {
    exit: Exit,
    out: String,
    err: String,
}

impl RulesFixture {
    fn new() -> Self {
        Self { home: CommandFixture::new() }
    }

    async fn run(&self, args: &[&str]) -> CliOutput {
        let launcher = FakeHostLauncher::new([]);
        let wiring = self.home.wiring(&launcher);
        let mut stage = CommandFixture::new();
        let exit = stage.run_with_wiring(args, wiring).await;
        assert!(launcher.recorded.options.lock().unwrap().is_empty(), "no host is started");
        CliOutput { exit, out: stage.out.text(), err: stage.err.text() }
    }

    async fn done(&self, args: &[&str]) -> CliOutput {
        let output = self.run(args).await;
        assert_eq!(output.exit, Exit::Done, "{args:?}: {}{}", output.out, output.err);
        output
    }

    fn file(&self) -> std::path::PathBuf {
        self.home.state_dir().join("rules.toml")
    }

    fn project(&self) -> std::path::PathBuf {
        self.home.scratch.path().join("project")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn rules_are_added_listed_and_removed() {
    let fixture = RulesFixture::new();
    let project = fixture.project();
    let output = fixture.done(&["rules", "add", "deny", "Read(~/secrets/**)"]).await;
    assert_eq!(output.err, "Added: deny Read(~/secrets/**), for all sessions.\n");
    // A directory is stored in the form that sessions use, however it was typed.
    let output = fixture.done(&["rules", "add", "allow", "Bash(git status)", "--workspace", "../project/."]).await;
    assert_eq!(output.err, format!("Added: allow Bash(git status), for sessions in {}.\n", project.display()));
    let output = fixture.done(&["rules", "add", "deny", "Read(~/secrets/**)"]).await;
    assert_eq!(output.err, "Already exists: deny Read(~/secrets/**), for all sessions.\n");

    let output = fixture.done(&["rules", "list"]).await;
    let rows: Vec<Vec<&str>> = output.out.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let cells = |row: &Vec<&str>| row.iter().filter(|cell| !cell.is_empty()).map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    assert_eq!(
        rows,
        [
            vec!["EFFECT", "SCOPE", "RULE", "DIRECTORY"],
            vec!["deny", "global", "Read(~/secrets/**)"],
            vec!["allow", "workspace", "Bash(git status)", text(&project)],
        ]
    );
    let output = fixture.done(&["rules", "list", "--json"]).await;
    assert_eq!(
        serde_json::from_str::<Value>(&output.out).unwrap(),
        json!([
            { "effect": "deny", "scope": "global", "rule": "Read(~/secrets/**)" },
            { "effect": "allow", "scope": "workspace", "rule": "Bash(git status)", "directory": project },
        ])
    );
    assert_eq!(std::fs::metadata(fixture.file()).unwrap().permissions().mode() & 0o777, 0o600);

    let output = fixture.run(&["rules", "remove", "allow", "Bash(git status)"]).await;
    assert_eq!(output.exit, Exit::Failed, "that rule is for a directory");
    assert!(output.err.starts_with("Rule not found: allow Bash(git status), for all sessions. "), "{}", output.err);
    fixture.done(&["rules", "remove", "allow", "Bash(git status)", "--workspace", text(&project)]).await;
    let output = fixture.done(&["rules", "remove", "deny", "Read(~/secrets/**)"]).await;
    assert_eq!(output.err, "Removed: deny Read(~/secrets/**), for all sessions.\n");
    assert_eq!(fixture.done(&["rules", "list", "--json"]).await.out, "[]\n");
    assert_eq!(entry_names(&fixture.home.state_dir()), ["rules.toml"]);
}

#[tokio::test]
async fn rules_test_names_the_deciding_rule_and_the_matched_part() {
    let fixture = RulesFixture::new();
    fixture.done(&["rules", "add", "allow", "Bash(git:*)", "--workspace", "."]).await;
    fixture.done(&["rules", "add", "deny", "Bash(rm:*)"]).await;
    fixture.done(&["rules", "add", "deny", "Read(~/secrets/**)"]).await;
    let elsewhere = fixture.home.scratch.path().join("tmp");
    for (args, expected) in [
        (&["Bash(rm -rf x)"][..], "Denied: the global rule `Bash(rm:*)` denies `rm -rf x`.\n"),
        (&["Bash(git push && rm x)"], "Denied: the global rule `Bash(rm:*)` denies `rm x`.\n"),
        (&["Bash(git push)"], "Allowed: the workspace rule `Bash(git:*)` allows `git push`.\n"),
        (
            &["Bash(git push)", "--cwd", text(&elsewhere)],
            "Requires approval: no rule matches `git push`.\n  \
             It has an argument that is not known to be read-only (default mode).\n",
        ),
        (
            &["Read(src/main.rs)"],
            "Allowed: it only reads in the working directory or has no side effects (default mode).\n",
        ),
        (&["Read(~/secrets/key)"], "Denied: the global rule `Read(~/secrets/**)` denies `~/secrets/key`.\n"),
        (&["Write(a)", "--mode", "plan"], "Denied: it writes a file (plan mode).\n"),
        (&["Write(a)", "--mode", "acceptEdits"], "Allowed: it edits a file in the workspace (acceptEdits mode).\n"),
        (
            &["Bash(touch a)", "--mode", "dontAsk"],
            "Denied: no rule matches `touch a`.\n  The program is not known to be read-only (dontAsk mode).\n  \
             Calls that require approval are denied (dontAsk mode).\n",
        ),
    ] {
        let output = fixture.done(&[&["rules", "test"], args].concat()).await;
        assert_eq!(output.out, expected, "{args:?}");
        assert_eq!(output.err, "");
    }
}

#[tokio::test]
async fn rules_test_prints_each_decision_as_json() {
    let fixture = RulesFixture::new();
    fixture.done(&["rules", "add", "allow", "Bash(git push)"]).await;
    fixture.done(&["rules", "add", "deny", "Bash(rm:*)"]).await;
    for (call, decision, rule) in [
        ("Bash(git push)", "allow", json!("Bash(git push)")),
        ("Bash(touch a)", "ask", Value::Null),
        ("Bash(rm a)", "deny", json!("Bash(rm:*)")),
    ] {
        let output = fixture.done(&["rules", "test", "--json", call]).await;
        let printed: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!((&printed["decision"], &printed["rule"]), (&json!(decision), &rule), "{call}: {printed}");
        assert!(printed["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{printed}");
    }
}

#[tokio::test]
async fn invalid_rule_is_a_usage_error_with_its_position() {
    let fixture = RulesFixture::new();
    for (args, part) in [
        (
            &["add", "allow", "Bash(git status"][..],
            "Invalid rule `Bash(git status`: the closing parenthesis is missing (at character",
        ),
        (
            &["remove", "deny", "Ba sh"],
            "Invalid rule `Ba sh`: a tool name can contain only letters, digits, `_` and `-` (at character 3)",
        ),
        (&["add", "allow", "Bash(ls)", "--workspace", "nowhere"], "/project/nowhere is not a directory."),
        (&["add", "permit", "Bash(ls)"], "[possible values: allow, ask, deny]"),
        (&["test", "rm -rf x"], "expected a tool call such as"),
        (
            &["test", "Read(a)", "--mode", "yolo"],
            "[possible values: default, acceptEdits, plan, dontAsk, bypassPermissions]",
        ),
    ] {
        let output = fixture.run(&[&["rules"], args].concat()).await;
        assert_eq!(output.exit, Exit::Usage, "{args:?}: {}", output.err);
        assert!(output.err.contains(part), "{args:?}: {}", output.err);
    }
    assert!(!fixture.home.state_dir().exists(), "nothing was created");
}

#[tokio::test]
async fn reading_rules_creates_no_files() {
    let fixture = RulesFixture::new();
    let output = fixture.done(&["rules", "list"]).await;
    assert_eq!((output.out.as_str(), output.err.starts_with("No rules.")), ("", true));
    fixture.done(&["rules", "test", "Bash(ls)"]).await;
    assert_eq!(fixture.run(&["rules", "remove", "deny", "Bash(ls)"]).await.exit, Exit::Failed);
    assert!(!fixture.home.state_dir().exists());
}

#[tokio::test]
async fn invalid_rules_file_is_left_unchanged() {
    let fixture = RulesFixture::new();
    fixture.done(&["rules", "add", "deny", "Bash(rm:*)"]).await;
    std::fs::write(fixture.file(), "nonsense = [").unwrap();
    for args in [&["list"][..], &["test", "Bash(ls)"], &["add", "deny", "Read"], &["remove", "deny", "Bash(rm:*)"]] {
        let output = fixture.run(&[&["rules"], args].concat()).await;
        assert_eq!(output.exit, Exit::Failed, "{args:?}");
        assert!(output.err.contains("failed to read") && output.err.contains("rules.toml"), "{}", output.err);
    }
    assert_eq!(std::fs::read_to_string(fixture.file()).unwrap(), "nonsense = [");
}

#[tokio::test]
async fn permission_mode_setting_applies_and_must_be_valid() {
    let fixture = RulesFixture::new();
    fixture.home.write_config("permission-mode = \"plan\"\n");
    let output = fixture.done(&["rules", "test", "Write(a)"]).await;
    assert_eq!(output.out, "Denied: it writes a file (plan mode).\n");
    fixture.home.write_config("permission-mode = \"yolo\"\n");
    let output = fixture.run(&["rules", "test", "Write(a)"]).await;
    assert_eq!(output.exit, Exit::Usage);
    assert!(output.err.starts_with("Unknown permission mode: yolo. Choose one of: default, "), "{}", output.err);
}

#[tokio::test]
async fn plan_mode_allows_writing_plans_unless_a_rule_denies() {
    let fixture = RulesFixture::new();
    let plan = format!("Write({})", text(&fixture.home.scratch.path().join("plans/mine.md")));
    let test = ["rules", "test", &plan, "--mode", "plan"];
    let output = fixture.done(&test).await;
    assert_eq!(output.out, "Allowed: it is the agent's plan file (plan mode).\n");
    assert_eq!(fixture.done(&["rules", "test", "Write(~/plans/mine.md)", "--mode", "plan"]).await.out, output.out);
    assert!(fixture.done(&["rules", "test", &plan]).await.out.starts_with("Requires approval"));
    assert!(fixture.done(&["rules", "test", "Write(plans/mine.md)", "--mode", "plan"]).await.out.starts_with("Denied"));
    fixture.done(&["rules", "add", "deny", "Edit(~/plans/**)"]).await;
    assert!(fixture.done(&test).await.out.starts_with("Denied: the global rule"));
}
