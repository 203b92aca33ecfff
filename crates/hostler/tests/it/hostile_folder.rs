//! Folder with hostile configuration and the real Claude Code, both builds: before it is trusted, after that, and
//! after changes.

mod plain_start;
pub(crate) mod traps;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::scripted_upstream::ScriptedUpstreamServer;
use crate::common::{BUILDS, TEST_TIMEOUT, TestHome, claude_executable, supervisor_command};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_claude::{ClaudeConfig, ClaudeDriver, Executable};
use hostler_driver::{
    Answer, CloseMode, ConversationStart, Driver as _, DriverEvent, FolderConfiguration, GateDecision, GatedCall,
    GatewayEndpoint, OpenSpec, OpenedConnection, PermissionGate, Prompt, ResumeToken, TurnCause,
};
use plain_start::READERS_OF_VARIABLES;
use serde_json::{Value, json};
use traps::{
    FolderTraps, PLANTED_COMMAND, PLANTED_INSTRUCTIONS, PLANTED_OUTPUT_STYLE, PLANTED_VARIABLE, write, write_json,
};
use uuid::Uuid;

/// Allows everything except one tool, for which it asks.
struct AskingGatekeeper(&'static str);

impl PermissionGate for AskingGatekeeper {
    fn decide(self: Arc<Self>, call: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(if call.input.get().contains(self.0) { GateDecision::Ask } else { GateDecision::Allow }).boxed()
    }
}

/// Hostile folder, and a driver of one build.
struct HostileFolderFixture {
    build: &'static str,
    executable: PathBuf,
    home: TestHome,
    model: ScriptedUpstreamServer,
    traps: FolderTraps,
    permission_mode: &'static str,
}

impl HostileFolderFixture {
    async fn new(build: &'static str) -> Self {
        let home = TestHome::new();
        let traps = FolderTraps::new(home.path("traps"));
        let (executable, model) = (claude_executable(build), ScriptedUpstreamServer::start().await);
        Self { build, executable, home, model, traps, permission_mode: "default" }
    }

    fn driver(&self) -> ClaudeDriver {
        let executable = Executable::from_path(&self.executable);
        let mut config = ClaudeConfig::new(executable, supervisor_command(), self.home.path("run"));
        config.host_environment = std::env::vars_os().collect();
        config.agent_env = vec![
            ("CLAUDE_CONFIG_DIR".into(), self.home.path("claude").into()),
            ("HOME".into(), self.home.path("home").into()),
            ("TMPDIR".into(), self.home.path("home").into()),
            ("IS_SANDBOX".into(), "1".into()),
        ];
        ClaudeDriver::new(config)
    }

    fn trusted(&self, folder: &Path) -> FolderConfiguration {
        let configuration = self.driver().workspace_configuration(folder);
        assert_eq!(configuration.problem, None, "{}", self.build);
        FolderConfiguration::Applied { fingerprint: configuration.fingerprint }
    }

    async fn open(&self, folder: &Path, configuration: FolderConfiguration) -> FolderAgent<'_> {
        self.open_as(ConversationStart::New(Uuid::new_v4()), folder, configuration).await
    }

    async fn open_as(
        &self,
        conversation: ConversationStart,
        folder: &Path,
        configuration: FolderConfiguration,
    ) -> FolderAgent<'_> {
        let id = conversation.id();
        let spec = OpenSpec {
            conversation,
            working_directory: folder.to_owned(),
            model: "claude-sonnet-4-5".to_owned(),
            web_search: false,
            permission_mode: self.permission_mode.to_owned(),
            effort: None,
            thinking_budget: None,
            additional_directories: Vec::new(),
            folder_configuration: configuration,
            endpoint: GatewayEndpoint { base_url: self.model.url.clone(), bearer: "nonce.id".to_owned().into() },
            permission_gate: Arc::new(AskingGatekeeper("ask-about-this")),
        };
        let opened = self.driver().open(spec).await.unwrap();
        FolderAgent { scene: self, folder: folder.to_owned(), id, opened, token: None }
    }

    /// Returns the existing staging directories of agents.
    fn staging_directories(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home.path("run")).unwrap().flatten().map(|entry| entry.path());
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("workspace-")).collect()
    }

    #[track_caller]
    fn assert_no_trap_triggered(&self, context: &str) {
        assert_eq!(self.traps.triggered(), Vec::<String>::new(), "{}: {context}", self.build);
    }

    /// Filter programs of the repository run when Git does, where the command is allowed; the folder's variables and
    /// `core.fsmonitor` have no effect.
    #[track_caller]
    fn assert_only_filters_triggered(&self) {
        let mut triggered = self.traps.triggered();
        triggered.retain(|name| name != "filter");
        assert_eq!(triggered, Vec::<String>::new(), "{}: commands that read variables", self.build);
    }

    /// Returns all requests to the model.
    fn all_model_requests(&self) -> String {
        self.model.requests().iter().map(|request| request.body.to_string()).collect()
    }
}

/// Agent in a hostile folder.
struct FolderAgent<'a> {
    scene: &'a HostileFolderFixture,
    folder: PathBuf,
    id: Uuid,
    opened: OpenedConnection,
    token: Option<ResumeToken>,
}

impl FolderAgent<'_> {
    /// Runs one turn and denies requests; returns whether there was one. Agent-initiated turns, such as after a
    /// background sub-agent, are ignored.
    async fn run_turn(&mut self, prompt: &str) -> bool {
        self.opened.connection.send(Prompt::new(prompt)).await.unwrap();
        let (mut asked, mut is_ours) = (false, true);
        loop {
            let next = tokio::time::timeout(TEST_TIMEOUT, self.opened.events.recv()).await;
            match next {
                Ok(Some(DriverEvent::TurnStarted(cause))) => is_ours = cause == TurnCause::Prompt,
                Ok(Some(DriverEvent::TurnEnded(_))) if is_ours => return asked,
                Ok(Some(DriverEvent::TurnEnded(_))) => is_ours = true,
                Ok(Some(DriverEvent::ResumeToken(token))) => self.token = Some(token),
                Ok(Some(DriverEvent::PermissionRequested(request))) => {
                    asked = true;
                    let no = Answer::Deny { message: "no".to_owned() };
                    // If a trap has already answered, this has no effect; the tests see what has run.
                    let _ = self.opened.connection.answer(&request.request_id, no).await;
                }
                Ok(Some(event)) if !matches!(event, DriverEvent::ProcessExited { .. }) => {}
                other => panic!("{}: {prompt}: {other:?}", self.scene.build),
            }
        }
    }

    async fn bash(&mut self, command: &str) {
        self.run_turn(&format!("!tool Bash {}\n!say done", json!({"command": command, "description": "x"}))).await;
    }

    /// Returns the environment of a command that the agent runs.
    async fn environment(&mut self) -> String {
        self.bash("env > environment.txt").await;
        std::fs::read_to_string(self.folder.join("environment.txt")).unwrap()
    }

    /// Tries everything that could trigger a trap, with the tool names of both builds.
    async fn try_all_traps(&mut self) {
        self.run_turn("hi").await;
        self.bash("ls; sh -c true; git --version").await;
        self.run_turn("/evil").await;
        self.run_turn("/project:evil").await;
        for skill in ["evilskill", "project:evilskill"] {
            self.run_turn(&format!("!tool Skill {}\n!say done", json!({ "skill": skill }))).await;
        }
        for agent in ["evilagent", "project:evilagent"] {
            let call = json!({"subagent_type": agent, "description": "x",
                "prompt": "!tool Bash {\"command\":\"ls\",\"description\":\"x\"}\n!say done"});
            self.run_turn(&format!("!tool Agent {call}\n!say done")).await;
        }
    }

    async fn close(self) {
        self.opened.connection.close(CloseMode::Graceful).await;
    }
}

/// Returns a program that starts the build without the host's protections: the whole folder applies.
fn unprotected_launcher(scene: &HostileFolderFixture) -> PathBuf {
    let path = scene.home.path("careless");
    let program = match scene.build {
        "js" => format!("node '{}'", scene.executable.display()),
        _ => format!("'{}'", scene.executable.display()),
    };
    let script = format!(
        "#!/bin/bash\nall=()\nfor one; do case $one in --project-config-root=*|--settings=*|--strict-mcp-config) ;; \
         *) all+=(\"$one\") ;; esac; done\nunset GIT_CONFIG_COUNT\nexec {program} \"${{all[@]}}\"\n"
    );
    write(&path, &script);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Writes settings without these variables and hooks, which redirect traffic or hide other traps.
fn settings_without(scene: &HostileFolderFixture, variables: &[&str], hooks: &[&str]) {
    let mut settings = scene.traps.settings();
    let redirecting = ["ANTHROPIC_BASE_URL", "https_proxy", "GIT_CONFIG_COUNT", "CLAUDE_CODE_USE_BEDROCK"];
    for name in redirecting.iter().chain(variables) {
        settings["env"].as_object_mut().unwrap().remove(*name);
    }
    for name in hooks {
        settings["hooks"].as_object_mut().unwrap().remove(*name);
    }
    for name in ["settings.json", "settings.local.json"] {
        write_json(&scene.home.work().join(".claude").join(name), &settings);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traps_fire_without_protection() {
    for build in BUILDS {
        let mut scene = HostileFolderFixture::new(build).await;
        scene.executable = unprotected_launcher(&scene);
        let work = scene.home.work();
        scene.traps.write_traps(&work);
        settings_without(&scene, &["CLAUDE_CODE_SHELL_PREFIX"], &["SessionStart"]);
        let mut agent = scene.open(&work, FolderConfiguration::Ignored).await;
        agent.try_all_traps().await;
        agent.close().await;
        // The older build does not complete the handshake when a hook starts a turn.
        settings_without(&scene, &["CLAUDE_CODE_SHELL"], if build == "js" { &["SessionStart"] } else { &[] });
        let mut agent = scene.open(&work, FolderConfiguration::Ignored).await;
        // The first turn is not the requested one.
        agent.run_turn("hi").await;
        agent.run_turn("hi").await;
        agent.bash("ls").await;
        agent.bash("touch ask-about-this").await;
        agent.run_turn("bye").await;
        agent.close().await;
        let mut expected = vec![
            "BASH_ENV",
            "CLAUDE_CODE_SHELL",
            "CLAUDE_CODE_SHELL_PREFIX",
            "CLAUDE_ENV_FILE",
            "LD_PRELOAD",
            "PATH",
            "PermissionRequest",
            "PreToolUse",
            "SHELL",
            "SessionEnd",
            "Stop",
            "UserPromptSubmit",
            "command",
            "mcp.json",
            "skill",
        ];
        expected.extend(match build {
            "js" => ["NODE_OPTIONS", "agent-hook", "agent-server", "filter", "fsmonitor", "plugin-server"].as_slice(),
            _ => &["SessionStart"],
        });
        let sprung = scene.traps.triggered();
        expected.retain(|name| !sprung.iter().any(|sprung| sprung == name));
        assert!(expected.is_empty(), "{build}: these are no traps: {expected:?}, but {sprung:?}");
        assert!(build == "js" || scene.all_model_requests().contains("unasked"), "{build}: a hook begins a turn");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_folder_runs_nothing_and_its_instructions_are_read() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        scene.traps.write_traps(&work);
        // Parents of the agent's staging directory are not its configuration.
        write(&scene.home.path(".claude/commands/above.md"), "above");
        write(&scene.home.path("run/.claude/commands/above2.md"), "above");
        let mut agent = scene.open(&work, FolderConfiguration::Ignored).await;
        assert!(!agent.opened.info.applied_configuration, "{build}");
        scene.assert_no_trap_triggered("at the start");
        let commands: Vec<_> = agent.opened.info.commands.iter().map(|command| command.name.clone()).collect();
        for name in ["evil", "project:evil", "evilskill", "above", "above2"] {
            assert!(!commands.contains(&name.to_owned()), "{build}: {commands:?}");
        }
        agent.run_turn("hi").await;
        let first = scene.model.requests().first().unwrap().body.to_string();
        assert!(first.contains("hi") && !first.contains("unasked"), "{build}: no agent-initiated turn starts");
        for text in [PLANTED_INSTRUCTIONS, "planted-import"] {
            assert!(first.contains(text), "{build}: {text} is not read");
        }
        agent.try_all_traps().await;
        scene.assert_no_trap_triggered("at work");
        let asked =
            agent.run_turn("!tool Bash {\"command\":\"touch ask-about-this\",\"description\":\"x\"}\n!say done").await;
        assert!(asked && !work.join("ask-about-this").exists(), "{build}: a person is asked");
        let environment = agent.environment().await;
        for text in [PLANTED_VARIABLE.0, "FROM_DOTENV", "traps/"] {
            assert!(!environment.contains(text), "{build}: {text} in {environment}");
        }
        for text in [PLANTED_COMMAND, PLANTED_OUTPUT_STYLE, "planted-agent"] {
            assert!(!scene.all_model_requests().contains(text), "{build}: {text} was applied");
        }
        agent.bash(READERS_OF_VARIABLES).await;
        scene.assert_only_filters_triggered();
        agent.close().await;
        assert_eq!(scene.staging_directories(), Vec::<PathBuf>::new(), "{build}: nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_runs_nothing_in_plan_mode() {
    for build in BUILDS {
        let mut scene = HostileFolderFixture::new(build).await;
        scene.permission_mode = "plan";
        let work = scene.home.work();
        scene.traps.write_traps(&work);
        for configuration in [FolderConfiguration::Ignored, scene.trusted(&work)] {
            let context = format!("{configuration:?} in plan mode");
            let mut agent = scene.open(&work, configuration).await;
            agent.try_all_traps().await;
            scene.assert_no_trap_triggered(&context);
            agent.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_added_later_has_no_effect() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        write(&work.join(".claude/commands/harmless.md"), "harmless");
        write_json(&work.join(".claude/settings.json"), &json!({"env": {PLANTED_VARIABLE.0: PLANTED_VARIABLE.1}}));
        for configuration in [FolderConfiguration::Ignored, scene.trusted(&work)] {
            let context = format!("{configuration:?}");
            let mut agent = scene.open(&work, configuration).await;
            agent.run_turn("hi").await;
            scene.traps.write_traps(&work);
            // The user's own settings are read live: they show when the agent has read its files again.
            write_json(&scene.home.path("claude/settings.json"), &json!({"env": {"SEEN": context}}));
            let mut tries = 0;
            while !agent.environment().await.contains("SEEN=") {
                tries += 1;
                assert!(tries < 200, "{build}: {context}: the user's settings are not read");
            }
            agent.try_all_traps().await;
            let environment = agent.environment().await;
            assert!(!environment.contains("traps/"), "{build}: {context}: {environment}");
            scene.assert_no_trap_triggered(&context);
            agent.close().await;
            std::fs::remove_dir_all(&work).unwrap();
            std::fs::remove_file(scene.home.path("claude/settings.json")).unwrap();
            write(&work.join(".claude/commands/harmless.md"), "harmless");
            write_json(&work.join(".claude/settings.json"), &json!({"env": {PLANTED_VARIABLE.0: PLANTED_VARIABLE.1}}));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_folder_applies_without_denied_parts() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        scene.traps.write_traps(&work);
        let mut agent = scene.open(&work, scene.trusted(&work)).await;
        assert!(agent.opened.info.applied_configuration, "{build}");
        let commands: Vec<_> = agent.opened.info.commands.iter().map(|command| command.name.clone()).collect();
        let command = if build == "js" { "project:evil" } else { "evil" };
        assert!(commands.contains(&command.to_owned()), "{build}: {commands:?}");
        agent.try_all_traps().await;
        let asked =
            agent.run_turn("!tool Bash {\"command\":\"touch ask-about-this\",\"description\":\"x\"}\n!say done").await;
        assert!(asked && !work.join("ask-about-this").exists(), "{build}: a person is asked");
        scene.assert_no_trap_triggered("at work");
        let environment = agent.environment().await;
        assert!(
            environment.contains(&format!("{}={}", PLANTED_VARIABLE.0, PLANTED_VARIABLE.1)),
            "{build}: {environment}"
        );
        assert!(!environment.contains("traps/"), "{build}: {environment}");
        let sent = scene.all_model_requests();
        for text in [PLANTED_INSTRUCTIONS, "planted-import", PLANTED_COMMAND, PLANTED_OUTPUT_STYLE, "planted-agent"] {
            assert!(sent.contains(text), "{build}: {text} does not apply");
        }
        assert!(!sent.contains("unasked"), "{build}");
        agent.bash(READERS_OF_VARIABLES).await;
        scene.assert_only_filters_triggered();
        agent.close().await;
        assert_eq!(scene.staging_directories(), Vec::<PathBuf>::new(), "{build}: nothing is left");
    }
}

/// Change, and how it is made.
type FolderChange = (&'static str, fn(&Path, &Path));

const FOLDER_CHANGES: [FolderChange; 4] = [
    ("a setting", |work, _| {
        write_json(&work.join(".claude/settings.json"), &json!({"env": {PLANTED_VARIABLE.0: "changed"}}))
    }),
    ("a new command", |work, _| write(&work.join(".claude/commands/new.md"), PLANTED_COMMAND)),
    ("a link instead of a file", |work, outside| {
        let settings = work.join(".claude/settings.json");
        std::fs::rename(&settings, outside.join("settings.json")).unwrap();
        std::os::unix::fs::symlink(outside.join("settings.json"), settings).unwrap();
    }),
    ("a link instead of the directory", |work, outside| {
        std::fs::rename(work.join(".claude"), outside.join("claude")).unwrap();
        std::os::unix::fs::symlink(outside.join("claude"), work.join(".claude")).unwrap();
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn changed_folder_is_untrusted_again() {
    for build in BUILDS {
        for (name, change) in FOLDER_CHANGES {
            let scene = HostileFolderFixture::new(build).await;
            let work = scene.home.work();
            scene.traps.write_traps(&work);
            let trusted = scene.trusted(&work);
            change(&work, &scene.home.path("traps"));
            let mut agent = scene.open(&work, trusted).await;
            assert!(!agent.opened.info.applied_configuration, "{build}: {name}");
            agent.run_turn("/evil").await;
            agent.run_turn("/project:evil").await;
            let environment = agent.environment().await;
            assert!(!environment.contains(PLANTED_VARIABLE.0), "{build}: {name}: {environment}");
            assert!(!scene.all_model_requests().contains(PLANTED_COMMAND), "{build}: {name}");
            assert!(scene.all_model_requests().contains(PLANTED_INSTRUCTIONS), "{build}: {name}");
            scene.assert_no_trap_triggered(name);
            agent.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_files_do_not_redirect_folder_trust() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let (work, trusted) = (scene.home.work(), scene.home.path("trusted"));
        scene.traps.write_traps(&trusted);
        // The agent's own notes mark the other folder as trusted.
        let notes = json!({"projects": {trusted.to_str().unwrap(): {"hasTrustDialogAccepted": true}}});
        write_json(&scene.home.path("claude/.claude.json"), &notes);
        let git = trusted.join(".git");
        for kind in ["worktree", "commondir", "gitdir"] {
            let _ = std::fs::remove_dir_all(&work);
            let sub = work.join("sub");
            std::fs::create_dir_all(&sub).unwrap();
            match kind {
                "worktree" => {
                    let entry = git.join("worktrees/w");
                    write(&entry.join("commondir"), "../..\n");
                    write(&entry.join("gitdir"), &format!("{}\n", work.join(".git").display()));
                    write(&entry.join("HEAD"), "ref: refs/heads/master\n");
                    write(&work.join(".git"), &format!("gitdir: {}\n", entry.display()));
                }
                "commondir" => {
                    write(&work.join(".git/commondir"), &format!("{}\n", git.display()));
                    write(&work.join(".git/HEAD"), "ref: refs/heads/master\n");
                }
                _ => write(&work.join(".git"), &format!("gitdir: {}\n", git.display())),
            }
            let configuration = scene.driver().workspace_configuration(&sub);
            assert!(configuration.is_empty(), "{build}: {kind}: {configuration:?}");
            let mut agent = scene.open(&sub, FolderConfiguration::Ignored).await;
            agent.run_turn("/evil").await;
            agent.bash("ls").await;
            assert!(!agent.environment().await.contains("traps/"), "{build}: {kind}");
            assert!(!scene.all_model_requests().contains(PLANTED_COMMAND), "{build}: {kind}");
            agent.close().await;
            let mut sprung = scene.traps.triggered();
            // The build may read the repository itself; its configuration is not the folder's.
            sprung.retain(|name| name != "filter");
            assert_eq!(sprung, Vec::<String>::new(), "{build}: {kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subfolder_ignores_configuration_of_its_untrusted_repository() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        scene.traps.write_traps(&work);
        let sub = work.join("sub");
        std::fs::create_dir(&sub).unwrap();
        write(&sub.join("CLAUDE.md"), "planted-below");
        let mut agent = scene.open(&sub, FolderConfiguration::Ignored).await;
        agent.try_all_traps().await;
        scene.assert_no_trap_triggered("in a subfolder");
        let sent = scene.all_model_requests();
        assert!(
            sent.contains(PLANTED_INSTRUCTIONS) && sent.contains("planted-below"),
            "{build}: the instructions of both are read"
        );
        assert!(!sent.contains(PLANTED_COMMAND), "{build}");
        agent.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_continues_across_trust_changes() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        write_json(&work.join(".claude/settings.json"), &json!({"env": {PLANTED_VARIABLE.0: PLANTED_VARIABLE.1}}));
        let mut agent = scene.open(&work, FolderConfiguration::Ignored).await;
        agent.run_turn("planted-first").await;
        for configuration in [scene.trusted(&work), FolderConfiguration::Ignored] {
            let (id, token) = (agent.id, agent.token.clone().unwrap());
            agent.close().await;
            let before = scene.model.requests().len();
            agent = scene.open_as(ConversationStart::Resume { id, token }, &work, configuration).await;
            agent.run_turn("next").await;
            let body: Value = scene.model.requests()[before].body.clone();
            assert!(body["messages"].to_string().contains("planted-first"), "{build}");
        }
        agent.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn older_build_is_started_with_options_it_supports() {
    let mut scene = HostileFolderFixture::new("js").await;
    let path = scene.home.path("claude-of-the-user");
    write(&path, &format!("#!/bin/sh\nexec node '{}' \"$@\"\n", scene.executable.display()));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    scene.executable = path;
    let work = scene.home.work();
    scene.traps.write_traps(&work);
    let mut agent = scene.open(&work, FolderConfiguration::Ignored).await;
    agent.run_turn("hi").await;
    assert!(scene.all_model_requests().contains(PLANTED_INSTRUCTIONS));
    scene.assert_no_trap_triggered("in an older build");
    agent.close().await;
}
