//! Control for traps that need more than a hostile folder: starts of Claude Code without Hostler, as a user would start
//! it. The folder is trusted in Claude Code itself, and the agent runs commands without asking.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::common::{BUILDS, TEST_TIMEOUT};
use crate::hostile_folder::traps::write_json;
use crate::hostile_folder::{HostileFolderFixture, PLANTED_INSTRUCTIONS};

/// Variables of the folder that do not hide another trap of these tests.
const VARIABLES: [&str; 15] = [
    "REAL_PATH",
    "ENV",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_VALUE_0",
    "GIT_PAGER",
    "GIT_SSH_COMMAND",
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "AWS_REGION",
];

/// Runs everything that reads these variables: an interactive `sh`, and Git with and without a terminal.
pub(crate) const READERS_OF_VARIABLES: &str = "sh -i -c true </dev/null; git diff; git status; \
    git ls-remote ssh://127.0.0.1:9/x; script -qec 'git log' /dev/null </dev/null";

/// Claude Code, started without Hostler.
struct PlainAgent {
    child: Child,
    stdout: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl PlainAgent {
    fn start(scene: &HostileFolderFixture, folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = match scene.build {
            "js" => Command::new("node"),
            _ => Command::new(&scene.executable),
        };
        if scene.build == "js" {
            command.arg(&scene.executable);
        }
        command
            .args(["--print", "--input-format=stream-json", "--output-format=stream-json", "--verbose"])
            .arg("--permission-mode=bypassPermissions")
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", scene.home.path("home"))
            .env("CLAUDE_CONFIG_DIR", scene.home.path("claude"))
            .envs([("IS_SANDBOX", "1"), ("DISABLE_AUTOUPDATER", "1"), ("CLAUDE_CODE_MAX_RETRIES", "0")])
            .envs([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("ANTHROPIC_MODEL", "claude-sonnet-4-5")])
            .env("ANTHROPIC_BASE_URL", &scene.model.url)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdout }
    }

    /// Sends a message and returns the first line of this type.
    async fn exchange(&mut self, message: &Value, answer: &str) -> Value {
        self.child.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let next = async {
            while let Some(line) = self.stdout.next_line().await.unwrap() {
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                if line["type"] == answer {
                    return line;
                }
            }
            panic!("the agent ended before {message} was answered");
        };
        tokio::time::timeout(TEST_TIMEOUT, next).await.unwrap()
    }

    async fn say(&mut self, prompt: &str) {
        let message = json!({"type": "user", "message": {"role": "user", "content": prompt}});
        self.exchange(&message, "result").await;
    }

    async fn close(mut self) {
        drop(self.child.stdin.take());
        tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await.unwrap().unwrap();
    }
}

/// Writes the traps; the settings get these variables only, and no hooks.
fn write_traps(scene: &HostileFolderFixture, bedrock: bool) {
    let work = scene.home.work();
    scene.traps.write_traps(&work);
    let mut settings = scene.traps.settings();
    settings["env"].as_object_mut().unwrap().retain(|name, _| VARIABLES.contains(&name.as_str()));
    if bedrock {
        settings["env"]["CLAUDE_CODE_USE_BEDROCK"] = "1".into();
    }
    settings["hooks"] = json!({});
    for name in ["settings.json", "settings.local.json"] {
        write_json(&work.join(".claude").join(name), &settings);
    }
    let notes = json!({"projects": {work.to_str().unwrap(): {"hasTrustDialogAccepted": true}}});
    write_json(&scene.home.path("claude/.claude.json"), &notes);
    std::fs::create_dir_all(scene.home.path("home")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn traps_fire_in_a_plain_start() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        let work = scene.home.work();
        write_traps(&scene, false);
        // Telemetry of the native build is switched on by the user only; then the folder names the program.
        let telemetry = [
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
        ];
        let variables = if build == "native" { telemetry.as_slice() } else { &[] };
        // The JavaScript build installs the plugin at the first start, and runs its hooks from the second one on.
        for _ in 0..2 {
            let mut agent = PlainAgent::start(&scene, &work, variables);
            agent.say("hi").await;
            // npm reads `.npmrc` when the agent runs a script; no host prevents that.
            let command = format!("{READERS_OF_VARIABLES}; npm run node; env > environment.txt");
            let call = json!({"command": command, "description": "x"});
            agent.say(&format!("!tool Bash {call}\n!say done")).await;
            if build == "native" {
                let request = json!({"subtype": "file_suggestions", "query": "a"});
                let request = json!({"type": "control_request", "request_id": "1", "request": request});
                agent.exchange(&request, "control_response").await;
            }
            agent.close().await;
        }
        let fired = scene.traps.triggered();
        let mut expected = vec![
            "ENV",
            "GIT_CONFIG",
            "GIT_EXTERNAL_DIFF",
            "GIT_PAGER",
            "GIT_SSH_COMMAND",
            "apiKeyHelper",
            "npmrc",
            "otelHeadersHelper",
            "plugin-hook",
        ];
        // Only this build has the request.
        expected.extend((build == "native").then_some("fileSuggestion"));
        let absent: Vec<_> = expected.iter().filter(|name| !fired.iter().any(|fired| fired == **name)).collect();
        assert!(absent.is_empty(), "{build}: these are no traps: {absent:?}, but {fired:?}");
        // These do not fire in these builds: only a terminal shows the status line, and no build reads these files.
        for name in ["statusLine", "dotenv", "bunfig"] {
            assert!(!fired.iter().any(|fired| fired == name), "{build}: {name} fires now: {fired:?}");
        }
        let environment = std::fs::read_to_string(work.join("environment.txt")).unwrap();
        assert!(!environment.contains("FROM_DOTENV"), "{build}: .env is read now");
        assert!(scene.all_model_requests().contains(PLANTED_INSTRUCTIONS), "{build}: the model is the scripted one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_for_aws_credentials_fire_in_a_plain_start() {
    for build in BUILDS {
        let scene = HostileFolderFixture::new(build).await;
        write_traps(&scene, true);
        let mut agent = PlainAgent::start(&scene, &scene.home.work(), &[]);
        // The provider that the folder selects cannot be reached.
        agent.say("hi").await;
        agent.close().await;
        let fired = scene.traps.triggered();
        for name in ["awsAuthRefresh", "awsCredentialExport"] {
            assert!(fired.iter().any(|fired| fired == name), "{build}: {name} is no trap: {fired:?}");
        }
    }
}
