//! `trust` and `run --trust`: decisions about folders' own configuration, in the state directory.

use std::path::{Path, PathBuf};

use crate::support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete};
use crate::support::{CommandFixture, FOLDER_CONFIGURATION_FILE, entry_names};
use hostler_cli::Exit;
use serde_json::{Value, json};

/// Home directory that several commands share, with a project that has configuration.
struct TrustFixture {
    home: CommandFixture,
}

struct CliOutput {
    exit: Exit,
    out: String,
    err: String,
}

impl TrustFixture {
    fn new() -> Self {
        let fixture = Self { home: CommandFixture::new() };
        fixture.write_configuration("project", "SessionStart: ./evil.sh");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.scratch.path().canonicalize().unwrap().join(name)
    }

    fn write_configuration(&self, folder: &str, text: &str) {
        std::fs::create_dir_all(self.path(folder)).unwrap();
        std::fs::write(self.path(folder).join(FOLDER_CONFIGURATION_FILE), text).unwrap();
    }

    async fn run_with(&self, args: &[&str], launcher: &FakeHostLauncher, typed: Option<&str>) -> CliOutput {
        let mut stage = CommandFixture::new();
        let mut wiring = self.home.wiring(launcher);
        if let Some(typed) = typed {
            stage.stdin = typed.as_bytes().to_vec();
            wiring.environment.stdin_is_terminal = true;
            wiring.environment.stderr_is_terminal = true;
            wiring.environment.vars.insert("NO_COLOR".into(), "1".into());
        }
        let exit = stage.run_with_wiring(args, wiring).await;
        CliOutput { exit, out: stage.out.text(), err: stage.err.text() }
    }

    async fn run(&self, args: &[&str]) -> CliOutput {
        let launcher = FakeHostLauncher::new([]);
        let output = self.run_with(args, &launcher, None).await;
        assert!(launcher.recorded.options.lock().unwrap().is_empty(), "no host is started");
        output
    }

    async fn done(&self, args: &[&str]) -> CliOutput {
        let output = self.run(args).await;
        assert_eq!(output.exit, Exit::Done, "{args:?}: {}{}", output.out, output.err);
        output
    }

    async fn state(&self, folder: &str) -> String {
        let output = self.run(&["trust", "check", text(&self.path(folder)), "--json"]).await;
        let report: Value = serde_json::from_str(&output.out).unwrap();
        let passes = matches!(report["state"].as_str().unwrap(), "trusted" | "empty");
        assert_eq!(output.exit, if passes { Exit::Done } else { Exit::Failed });
        report["state"].as_str().unwrap().to_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn folder_is_trusted_by_add_and_untrusted_by_remove() {
    let fixture = TrustFixture::new();
    let project = fixture.path("project");
    let output = fixture.run(&["trust", "check"]).await;
    assert_eq!(output.exit, Exit::Failed);
    let expected = format!(
        "{} is not trusted: not decided yet.\n  Hook: SessionStart: ./evil.sh  [{FOLDER_CONFIGURATION_FILE}]\n",
        project.display()
    );
    assert_eq!(output.out, expected);
    assert!(!fixture.home.state_dir().exists(), "a check creates nothing");
    assert_eq!(fixture.done(&["trust", "list"]).await.out, "");

    let output = fixture.done(&["trust", "add", ".", "--yes"]).await;
    assert!(output.err.contains("It has 1 hook:\n  Hook: SessionStart: ./evil.sh"), "{}", output.err);
    assert!(output.err.ends_with(&format!("Trusted: {}.\n", project.display())), "{}", output.err);
    assert_eq!(fixture.state("project").await, "trusted");
    assert_eq!(fixture.done(&["trust", "list"]).await.out, format!("trusted      {}\n", project.display()));
    let output = fixture.done(&["trust", "list", "--json"]).await;
    let item = json!({ "kind": "hook", "name": "SessionStart: ./evil.sh", "source": FOLDER_CONFIGURATION_FILE, "hash": "SessionStart: ./evil.sh" });
    let expected =
        json!({ "items": [{ "path": project, "decision": "trust", "items": [item] }], "trustedFolders": [] });
    assert_eq!(serde_json::from_str::<Value>(&output.out).unwrap(), expected);
    assert_eq!(entry_names(&fixture.home.state_dir()), ["trust.toml"]);

    let output = fixture.done(&["trust", "remove", "../project"]).await;
    assert_eq!(output.err, format!("Removed: {}.\n", project.display()));
    assert_eq!(fixture.state("project").await, "undecided");
    let output = fixture.run(&["trust", "remove", ".", "--json"]).await;
    assert_eq!((output.exit, output.out.as_str()), (Exit::Failed, "{\n  \"removed\": false\n}\n"));
}

#[tokio::test]
async fn changed_configuration_is_shown_as_a_difference() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("project", "same=1\nedited=1\ngone=1");
    fixture.done(&["trust", "add", ".", "--yes"]).await;
    fixture.write_configuration("project", "same=1\nedited=2\nblocked hook=1");
    let output = fixture.run(&["trust", "check"]).await;
    assert_eq!(output.exit, Exit::Failed);
    let lines: Vec<&str> = output.out.lines().skip(1).collect();
    let expected = [
        "+ Hook: blocked hook  [brings.txt] (not applied: Not supported)",
        "~ Hook: edited  [brings.txt]",
        "- Hook: gone  [brings.txt]",
        "  Hook: same  [brings.txt]",
    ];
    assert_eq!(lines, expected);
    let output = fixture.run(&["trust", "check", "--json"]).await;
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&report["state"], &report["difference"]["changed"][0]["name"]), (&json!("changed"), &json!("edited")));
}

#[tokio::test]
async fn add_asks_on_a_terminal_and_accepts_only_yes() {
    let fixture = TrustFixture::new();
    let launcher = FakeHostLauncher::new([]);
    for typed in ["n\n", "\n", "", "sure\n"] {
        let output = fixture.run_with(&["trust", "add", "."], &launcher, Some(typed)).await;
        assert_eq!(
            (output.exit, output.err.ends_with("Canceled. Nothing was changed.\n")),
            (Exit::Failed, true),
            "{}",
            output.err
        );
    }
    assert_eq!(fixture.state("project").await, "undecided");
    let output = fixture.run_with(&["trust", "add", "."], &launcher, Some("y\n")).await;
    assert_eq!(output.exit, Exit::Done);
    assert!(output.err.contains("./evil.sh") && output.err.contains("Trust this folder? [y/N]"), "{}", output.err);
    assert_eq!(fixture.state("project").await, "trusted");
    let output = fixture.run(&["trust", "add", "."]).await;
    assert_eq!(
        (output.exit, output.err.contains("Pass --yes to trust the folder.")),
        (Exit::Usage, true),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn subfolders_are_trusted_only_with_the_flag() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("project/sub", "hook");
    fixture.done(&["trust", "add", ".", "--yes"]).await;
    assert_eq!(fixture.state("project/sub").await, "undecided");
    fixture.done(&["trust", "add", ".", "--subfolders", "--yes"]).await;
    assert_eq!(fixture.state("project/sub").await, "trusted");
    let output = fixture.done(&["trust", "check", "sub"]).await;
    assert!(
        output.out.contains(&format!("is trusted through {}.", fixture.path("project").display())),
        "{}",
        output.out
    );
}

#[tokio::test]
async fn home_and_root_need_their_full_path_and_never_include_subfolders() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("", "hook");
    for written in ["..", "../project/..", "./.."] {
        let output = fixture.run(&["trust", "add", written, "--yes"]).await;
        assert_eq!((output.exit, output.err.contains("full path")), (Exit::Usage, true), "{written}: {}", output.err);
    }
    let (home, link) = (fixture.path(""), fixture.path("project/link"));
    std::os::unix::fs::symlink(&home, &link).unwrap();
    assert_eq!(fixture.run(&["trust", "add", text(&link), "--yes"]).await.exit, Exit::Usage, "a link is another name");
    assert_eq!(fixture.run(&["trust", "add", text(&home), "--subfolders", "--yes"]).await.exit, Exit::Usage);
    assert_eq!(fixture.run(&["trust", "add", "/", "--subfolders", "--yes"]).await.exit, Exit::Usage);
    assert_eq!(fixture.state("").await, "refused");
    fixture.done(&["trust", "add", text(&home), "--yes"]).await;
    assert_eq!(fixture.state("").await, "trusted");
    assert_eq!(fixture.state("project").await, "undecided");
}

#[tokio::test]
async fn folders_trusted_by_settings_stay_trusted_after_remove() {
    let fixture = TrustFixture::new();
    let project = fixture.path("project");
    fixture.home.write_config(&format!("trusted-folders = [{project:?}]\n"));
    assert_eq!(fixture.state("project").await, "trusted");
    assert!(fixture.done(&["trust", "list"]).await.out.contains("(setting trusted-folders)"));
    fixture.done(&["trust", "add", ".", "--yes"]).await;
    let output = fixture.done(&["trust", "remove", "."]).await;
    assert!(output.err.contains("The folder is still trusted through the setting `trusted-folders`"), "{}", output.err);
    fixture.home.write_config("trusted-folders = [\"work\"]\n");
    let output = fixture.run(&["trust", "list"]).await;
    assert_eq!((output.exit, output.err.contains("a list of absolute paths")), (Exit::Usage, true), "{}", output.err);
}

#[tokio::test]
async fn removing_an_inheriting_subfolder_untrusts_it() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("project/sub", "Stop: ./x.sh");
    let (project, sub) = (fixture.path("project"), fixture.path("project/sub"));
    fixture.done(&["trust", "add", text(&sub), "--yes"]).await;
    fixture.done(&["trust", "add", text(&project), "--subfolders", "--yes"]).await;
    let output = fixture.done(&["trust", "remove", text(&sub)]).await;
    assert!(output.err.contains("The folder is not trusted."), "{}", output.err);
    assert_eq!(fixture.state("project/sub").await, "restricted");
    let output = fixture.run(&["trust", "remove", text(&sub)]).await;
    assert_eq!((output.exit, output.err.contains(text(&project))), (Exit::Failed, true), "{}", output.err);
}

#[tokio::test]
async fn suggested_command_is_quoted_for_the_shell() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("it's $(me)", "make");
    let folder = fixture.path("it's $(me)");
    let output = fixture.run(&["trust", "check", folder.to_str().unwrap()]).await;
    assert!(output.err.contains(r"it'\''s $(me)'`."), "{}", output.err);
}

#[tokio::test]
async fn unreadable_and_missing_folders_have_their_own_errors() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("project", "problem: settings.json is not JSON");
    let output = fixture.run(&["trust", "check"]).await;
    assert_eq!(
        (output.exit, output.out.contains("cannot be trusted: settings.json is not JSON.")),
        (Exit::Failed, true)
    );
    let output = fixture.run(&["trust", "add", ".", "--yes"]).await;
    assert_eq!((output.exit, output.err.contains("settings.json is not JSON")), (Exit::Failed, true), "{}", output.err);
    let output = fixture.run(&["trust", "check", "/no/such/folder"]).await;
    assert_eq!((output.exit, output.err.contains("is not a readable folder")), (Exit::Usage, true), "{}", output.err);
}

#[tokio::test]
async fn invisible_and_bidirectional_characters_are_escaped_in_lists() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("project", "photo\u{202e}gpj.sh\u{1b}[2K\u{200b}");
    for args in [&["trust", "check"][..], &["trust", "add", ".", "--yes"]] {
        let output = fixture.run(args).await;
        let shown = format!("{}{}", output.out, output.err);
        assert!(shown.contains("photo⟨U+202E⟩gpj.sh⟨U+001B⟩[2K⟨U+200B⟩"), "{shown}");
    }
}

/// Returns a host that asks about the folder, and then answers.
fn asking() -> FakeHostLauncher {
    let options =
        json!([{ "id": "trust", "label": "Trust this folder" }, { "id": "restrict", "label": "Do not trust" }]);
    let question = json!({ "kind": "single-select", "id": "trust", "message": "Trust this folder?", "options": options,
        "required": true });
    let request = json!({ "id": "q", "message": "This folder brings a hook.", "questions": [question] });
    let asked = [
        HostScriptStep::Chat(json!({ "type": "chat/inputRequested", "request": request })),
        HostScriptStep::EchoNextAction,
    ];
    FakeHostLauncher::new(asked.into_iter().chain(answer_steps(&["done"])).chain([turn_complete()]))
}

#[tokio::test]
async fn run_without_a_terminal_declines_and_reports_ignored_configuration() {
    let fixture = TrustFixture::new();
    let launcher = asking();
    let output = fixture.run_with(&["run", "hi"], &launcher, None).await;
    assert_eq!((output.exit, output.out.as_str()), (Exit::Done, "done"), "{}", output.err);
    let expected = format!(
        "Ignored the configuration of {} (1 hook): it is not trusted. Review it with `hostler trust check`, then trust it \
         with `hostler trust add` or --trust.\n",
        fixture.path("project").display()
    );
    assert_eq!(output.err, expected);
    let declined = &launcher.recorded.params("dispatchAction")[1]["action"];
    assert_eq!((&declined["type"], &declined["response"]), (&json!("chat/inputCompleted"), &json!("decline")));
    assert_eq!(fixture.state("project").await, "undecided", "nothing is remembered");
}

#[tokio::test]
async fn run_on_a_terminal_asks_about_trust() {
    let fixture = TrustFixture::new();
    let launcher = asking();
    let output = fixture.run_with(&["run", "hi"], &launcher, Some("1\n")).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
    assert!(
        output.err.contains("This folder brings a hook.\n? Trust this folder?\n  1  Trust this folder\n"),
        "{}",
        output.err
    );
    assert!(!output.err.contains("Ignored"), "{}", output.err);
    let accepted = &launcher.recorded.params("dispatchAction")[1]["action"];
    assert_eq!(
        (&accepted["response"], &accepted["answers"]["trust"]["value"]["value"]),
        (&json!("accept"), &json!("trust"))
    );
}

#[tokio::test]
async fn run_with_trust_stores_the_current_fingerprint() {
    let fixture = TrustFixture::new();
    let launcher = FakeHostLauncher::new(answer_steps(&["done"]).into_iter().chain([turn_complete()]));
    let output = fixture.run_with(&["run", "--trust", "hi"], &launcher, None).await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""));
    assert_eq!(fixture.state("project").await, "trusted");
    fixture.write_configuration("project", "other hook");
    assert_eq!(fixture.state("project").await, "changed");
}

#[tokio::test]
async fn run_with_trust_refuses_home_unless_given_by_full_path() {
    let fixture = TrustFixture::new();
    fixture.write_configuration("", "hook");
    let launcher = FakeHostLauncher::new(answer_steps(&["done"]).into_iter().chain([turn_complete()]));
    let output = fixture.run_with(&["run", "--trust", "--cwd", "..", "hi"], &launcher, None).await;
    assert_eq!((output.exit, output.err.contains("full path")), (Exit::Usage, true), "{}", output.err);
    assert!(launcher.recorded.options.lock().unwrap().is_empty(), "nothing was started");
    let home = fixture.path("");
    let output = fixture.run_with(&["run", "--trust", "--cwd", text(&home), "hi"], &launcher, None).await;
    assert_eq!(output.exit, Exit::Done, "{}", output.err);
    assert_eq!(fixture.state("").await, "trusted");
}
