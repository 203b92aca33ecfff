//! `trust` and `run --trust`: decisions about folders' own configuration, in the state directory.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod support;

use std::path::{Path, PathBuf};

use hostler_cli::Exit;
use serde_json::{Value, json};
use support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete};
use support::{CommandFixture, FOLDER_CONFIGURATION_FILE, entry_names};

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
        let machine = Self { home: CommandFixture::new() };
        machine.write_configuration("project", "SessionStart: ./evil.sh");
        machine
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
        let said = self.run_with(args, &launcher, None).await;
        assert!(launcher.recorded.options.lock().unwrap().is_empty(), "no host is started");
        said
    }

    async fn done(&self, args: &[&str]) -> CliOutput {
        let said = self.run(args).await;
        assert_eq!(said.exit, Exit::Done, "{args:?}: {}{}", said.out, said.err);
        said
    }

    async fn state(&self, folder: &str) -> String {
        let said = self.run(&["trust", "check", text(&self.path(folder)), "--json"]).await;
        let report: Value = serde_json::from_str(&said.out).unwrap();
        let passes = matches!(report["state"].as_str().unwrap(), "trusted" | "empty");
        assert_eq!(said.exit, if passes { Exit::Done } else { Exit::Failed });
        report["state"].as_str().unwrap().to_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn folder_is_trusted_by_add_and_untrusted_by_remove() {
    let machine = TrustFixture::new();
    let project = machine.path("project");
    let said = machine.run(&["trust", "check"]).await;
    assert_eq!(said.exit, Exit::Failed);
    let expected = format!(
        "{} is not trusted: no one has decided yet.\n  Hook: SessionStart: ./evil.sh  [{FOLDER_CONFIGURATION_FILE}]\n",
        project.display()
    );
    assert_eq!(said.out, expected);
    assert!(!machine.home.state_dir().exists(), "a look makes nothing");
    assert_eq!(machine.done(&["trust", "list"]).await.out, "");

    let said = machine.done(&["trust", "add", ".", "--yes"]).await;
    assert!(said.err.contains("It brings 1 hook:\n  Hook: SessionStart: ./evil.sh"), "{}", said.err);
    assert!(said.err.ends_with(&format!("Trusted: {}.\n", project.display())), "{}", said.err);
    assert_eq!(machine.state("project").await, "trusted");
    assert_eq!(machine.done(&["trust", "list"]).await.out, format!("trusted      {}\n", project.display()));
    let said = machine.done(&["trust", "list", "--json"]).await;
    let item = json!({ "kind": "hook", "name": "SessionStart: ./evil.sh", "source": FOLDER_CONFIGURATION_FILE, "hash": "SessionStart: ./evil.sh" });
    let expected =
        json!({ "items": [{ "path": project, "decision": "trust", "items": [item] }], "trustedFolders": [] });
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap(), expected);
    assert_eq!(entry_names(&machine.home.state_dir()), ["trust.toml"]);

    let said = machine.done(&["trust", "remove", "../project"]).await;
    assert_eq!(said.err, format!("Removed: {}.\n", project.display()));
    assert_eq!(machine.state("project").await, "undecided");
    let said = machine.run(&["trust", "remove", ".", "--json"]).await;
    assert_eq!((said.exit, said.out.as_str()), (Exit::Failed, "{\n  \"removed\": false\n}\n"));
}

#[tokio::test]
async fn changed_configuration_is_shown_as_a_difference() {
    let machine = TrustFixture::new();
    machine.write_configuration("project", "kept=1\nedited=1\ngone=1");
    machine.done(&["trust", "add", ".", "--yes"]).await;
    machine.write_configuration("project", "kept=1\nedited=2\nblocked hook=1");
    let said = machine.run(&["trust", "check"]).await;
    assert_eq!(said.exit, Exit::Failed);
    let lines: Vec<&str> = said.out.lines().skip(1).collect();
    let expected = [
        "+ Hook: blocked hook  [brings.txt] (not applied: Not supported)",
        "~ Hook: edited  [brings.txt]",
        "- Hook: gone  [brings.txt]",
        "  Hook: kept  [brings.txt]",
    ];
    assert_eq!(lines, expected);
    let said = machine.run(&["trust", "check", "--json"]).await;
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&report["state"], &report["difference"]["changed"][0]["name"]), (&json!("changed"), &json!("edited")));
}

#[tokio::test]
async fn add_asks_on_a_terminal_and_accepts_only_yes() {
    let machine = TrustFixture::new();
    let launcher = FakeHostLauncher::new([]);
    for typed in ["n\n", "\n", "", "sure\n"] {
        let said = machine.run_with(&["trust", "add", "."], &launcher, Some(typed)).await;
        assert_eq!((said.exit, said.err.ends_with("Nothing was changed.\n")), (Exit::Failed, true), "{}", said.err);
    }
    assert_eq!(machine.state("project").await, "undecided");
    let said = machine.run_with(&["trust", "add", "."], &launcher, Some("y\n")).await;
    assert_eq!(said.exit, Exit::Done);
    assert!(said.err.contains("./evil.sh") && said.err.contains("Trust it? [y/N]"), "{}", said.err);
    assert_eq!(machine.state("project").await, "trusted");
    let said = machine.run(&["trust", "add", "."]).await;
    assert_eq!((said.exit, said.err.contains("Pass --yes.")), (Exit::Usage, true), "{}", said.err);
}

#[tokio::test]
async fn subfolders_are_trusted_only_with_the_flag() {
    let machine = TrustFixture::new();
    machine.write_configuration("project/sub", "hook");
    machine.done(&["trust", "add", ".", "--yes"]).await;
    assert_eq!(machine.state("project/sub").await, "undecided");
    machine.done(&["trust", "add", ".", "--subfolders", "--yes"]).await;
    assert_eq!(machine.state("project/sub").await, "trusted");
    let said = machine.done(&["trust", "check", "sub"]).await;
    assert!(said.out.contains(&format!("is trusted through {}.", machine.path("project").display())), "{}", said.out);
}

#[tokio::test]
async fn home_and_root_need_their_full_path_and_never_include_subfolders() {
    let machine = TrustFixture::new();
    machine.write_configuration("", "hook");
    for written in ["..", "../project/..", "./.."] {
        let said = machine.run(&["trust", "add", written, "--yes"]).await;
        assert_eq!((said.exit, said.err.contains("full path")), (Exit::Usage, true), "{written}: {}", said.err);
    }
    let (home, link) = (machine.path(""), machine.path("project/link"));
    std::os::unix::fs::symlink(&home, &link).unwrap();
    assert_eq!(machine.run(&["trust", "add", text(&link), "--yes"]).await.exit, Exit::Usage, "a link is another name");
    assert_eq!(machine.run(&["trust", "add", text(&home), "--subfolders", "--yes"]).await.exit, Exit::Usage);
    assert_eq!(machine.run(&["trust", "add", "/", "--subfolders", "--yes"]).await.exit, Exit::Usage);
    assert_eq!(machine.state("").await, "refused");
    machine.done(&["trust", "add", text(&home), "--yes"]).await;
    assert_eq!(machine.state("").await, "trusted");
    assert_eq!(machine.state("project").await, "undecided");
}

#[tokio::test]
async fn folders_trusted_by_settings_stay_trusted_after_remove() {
    let machine = TrustFixture::new();
    let project = machine.path("project");
    machine.home.write_config(&format!("trusted-folders = [{project:?}]\n"));
    assert_eq!(machine.state("project").await, "trusted");
    assert!(machine.done(&["trust", "list"]).await.out.contains("(trusted-folders in the settings)"));
    machine.done(&["trust", "add", ".", "--yes"]).await;
    let said = machine.done(&["trust", "remove", "."]).await;
    assert!(said.err.contains("It is still trusted through `trusted-folders`"), "{}", said.err);
    machine.home.write_config("trusted-folders = [\"work\"]\n");
    let said = machine.run(&["trust", "list"]).await;
    assert_eq!((said.exit, said.err.contains("a list of absolute paths")), (Exit::Usage, true), "{}", said.err);
}

#[tokio::test]
async fn removing_an_inheriting_subfolder_untrusts_it() {
    let machine = TrustFixture::new();
    machine.write_configuration("project/sub", "Stop: ./x.sh");
    let (project, sub) = (machine.path("project"), machine.path("project/sub"));
    machine.done(&["trust", "add", text(&sub), "--yes"]).await;
    machine.done(&["trust", "add", text(&project), "--subfolders", "--yes"]).await;
    let said = machine.done(&["trust", "remove", text(&sub)]).await;
    assert!(said.err.contains("It is not trusted."), "{}", said.err);
    assert_eq!(machine.state("project/sub").await, "restricted");
    let said = machine.run(&["trust", "remove", text(&sub)]).await;
    assert_eq!((said.exit, said.err.contains(text(&project))), (Exit::Failed, true), "{}", said.err);
}

#[tokio::test]
async fn suggested_command_is_quoted_for_the_shell() {
    let machine = TrustFixture::new();
    machine.write_configuration("it's $(me)", "make");
    let folder = machine.path("it's $(me)");
    let said = machine.run(&["trust", "check", folder.to_str().unwrap()]).await;
    assert!(said.err.contains(r"it'\''s $(me)'`."), "{}", said.err);
}

#[tokio::test]
async fn unreadable_and_missing_folders_have_their_own_errors() {
    let machine = TrustFixture::new();
    machine.write_configuration("project", "problem: settings.json is not JSON");
    let said = machine.run(&["trust", "check"]).await;
    assert_eq!((said.exit, said.out.contains("cannot be trusted: settings.json is not JSON.")), (Exit::Failed, true));
    let said = machine.run(&["trust", "add", ".", "--yes"]).await;
    assert_eq!((said.exit, said.err.contains("settings.json is not JSON")), (Exit::Failed, true), "{}", said.err);
    let said = machine.run(&["trust", "check", "/no/such/folder"]).await;
    assert_eq!((said.exit, said.err.contains("is not a folder")), (Exit::Usage, true), "{}", said.err);
}

#[tokio::test]
async fn invisible_and_bidirectional_characters_are_escaped_in_lists() {
    let machine = TrustFixture::new();
    machine.write_configuration("project", "photo\u{202e}gpj.sh\u{1b}[2K\u{200b}");
    for args in [&["trust", "check"][..], &["trust", "add", ".", "--yes"]] {
        let said = machine.run(args).await;
        let shown = format!("{}{}", said.out, said.err);
        assert!(shown.contains("photo⟨U+202E⟩gpj.sh⟨U+001B⟩[2K⟨U+200B⟩"), "{shown}");
    }
}

/// Returns a host that asks about the folder, and then answers one word.
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
    let machine = TrustFixture::new();
    let launcher = asking();
    let said = machine.run_with(&["run", "hi"], &launcher, None).await;
    assert_eq!((said.exit, said.out.as_str()), (Exit::Done, "done"), "{}", said.err);
    let expected = format!(
        "Ignored the configuration of {} (1 hook): it is not trusted. Review it with `hostler trust check`, then trust it \
         with `hostler trust add` or --trust.\n",
        machine.path("project").display()
    );
    assert_eq!(said.err, expected);
    let declined = &launcher.recorded.params("dispatchAction")[1]["action"];
    assert_eq!((&declined["type"], &declined["response"]), (&json!("chat/inputCompleted"), &json!("decline")));
    assert_eq!(machine.state("project").await, "undecided", "nothing is remembered");
}

#[tokio::test]
async fn run_on_a_terminal_asks_about_trust() {
    let machine = TrustFixture::new();
    let launcher = asking();
    let said = machine.run_with(&["run", "hi"], &launcher, Some("1\n")).await;
    assert_eq!(said.exit, Exit::Done, "{}", said.err);
    assert!(
        said.err.contains("This folder brings a hook.\n? Trust this folder?\n  1  Trust this folder\n"),
        "{}",
        said.err
    );
    assert!(!said.err.contains("Ignored"), "{}", said.err);
    let accepted = &launcher.recorded.params("dispatchAction")[1]["action"];
    assert_eq!(
        (&accepted["response"], &accepted["answers"]["trust"]["value"]["value"]),
        (&json!("accept"), &json!("trust"))
    );
}

#[tokio::test]
async fn run_with_trust_stores_the_current_fingerprint() {
    let machine = TrustFixture::new();
    let launcher = FakeHostLauncher::new(answer_steps(&["done"]).into_iter().chain([turn_complete()]));
    let said = machine.run_with(&["run", "--trust", "hi"], &launcher, None).await;
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    assert_eq!(machine.state("project").await, "trusted");
    machine.write_configuration("project", "other hook");
    assert_eq!(machine.state("project").await, "changed");
}

#[tokio::test]
async fn run_with_trust_refuses_home_unless_given_by_full_path() {
    let machine = TrustFixture::new();
    machine.write_configuration("", "hook");
    let launcher = FakeHostLauncher::new(answer_steps(&["done"]).into_iter().chain([turn_complete()]));
    let said = machine.run_with(&["run", "--trust", "--cwd", "..", "hi"], &launcher, None).await;
    assert_eq!((said.exit, said.err.contains("full path")), (Exit::Usage, true), "{}", said.err);
    assert!(launcher.recorded.options.lock().unwrap().is_empty(), "nothing was started");
    let home = machine.path("");
    let said = machine.run_with(&["run", "--trust", "--cwd", text(&home), "hi"], &launcher, None).await;
    assert_eq!(said.exit, Exit::Done, "{}", said.err);
    assert_eq!(machine.state("").await, "trusted");
}
