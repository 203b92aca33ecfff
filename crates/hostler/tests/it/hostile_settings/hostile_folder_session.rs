//! Real host and real Claude Code in a hostile folder: before a person decides about it, restricted, trusted, and
//! after changes.

use std::path::Path;

use ahp_types::StateAction;
use ahp_types::state::SessionInputRequest;
use serde_json::{Value, json};

use crate::common::session_fixture::{SessionFixture, wait_until};
use crate::common::{BUILDS, TestHome};
use crate::hostile_folder::traps::{
    FolderTraps, PLANTED_COMMAND, PLANTED_INSTRUCTIONS, PLANTED_VARIABLE, write, write_json,
};
use crate::hostile_settings::environment;

/// Kinds of the traps, as displayed.
const CONFIGURATION_KINDS: &str = "Hook, MCP server, Environment variable, Helper program, Slash command, Skill, Agent, Plugin, \
                     Permission rule, Additional directory, Setting";

/// Session of the real host, and the traps outside of its folder.
struct HostileFolderSession {
    bench: SessionFixture,
    traps: FolderTraps,
}

impl HostileFolderSession {
    async fn new(build: &'static str, prepare: impl FnOnce(&FolderTraps, &Path)) -> Self {
        let home = TestHome::new();
        let traps = FolderTraps::new(home.path("traps"));
        prepare(&traps, &home.work());
        Self { bench: SessionFixture::in_home(build, home, "").await, traps }
    }

    /// Sends a message that waits for a decision about the folder; returns the request, which the session and the
    /// chat show.
    async fn wait_for_trust_request(&mut self, text: &str) -> Value {
        let SessionFixture { client: peer, uris, build, .. } = &mut self.bench;
        peer.send_message(&uris.chat, text).await;
        let envelopes = peer
            .wait_for(&uris.session, |envelope| {
                matches!(&envelope.action, StateAction::SessionInputNeededSet(needed)
                    if matches!(needed.request, SessionInputRequest::ChatInput(_)))
            })
            .await;
        let needed = serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone();
        assert_eq!(needed["chat"], uris.chat, "{build}");
        let chat = self.bench.chat_state().await;
        let parts = chat["activeTurn"]["responseParts"].as_array().unwrap();
        assert!(
            parts.iter().any(|part| part["kind"] == "inputRequest" && part["request"]["id"] == needed["request"]["id"]),
            "{}: {parts:#?}",
            self.bench.build
        );
        needed["request"].clone()
    }

    /// Answers the request and waits for the end of the turn.
    async fn decide(&mut self, request: &Value, option: &str) {
        let answers = json!({"folder": {"state": "submitted", "value": {"kind": "selected", "value": option}}});
        let id = &request["id"];
        let completed =
            json!({"type": "chat/inputCompleted", "requestId": id, "response": "accept", "answers": answers});
        self.bench.dispatch(completed).await;
        self.bench.wait_for_turn_end().await;
    }

    /// Runs a command without a permission request.
    async fn bash(&mut self, command: &str) {
        let build = self.bench.build;
        self.bench.prompt_tool_call("Bash", &json!({"command": command, "description": "x"})).await;
        assert!(!self.bench.wait_for_turn_end().await, "{build}: {command} is asked about");
        assert_eq!(self.bench.last_tool_call("Bash").await["status"], "completed", "{build}: {command}");
    }

    /// Calls the folder's slash command by its name in this build. Where the folder does not apply, the agent does
    /// not know it and may start a turn of its own; the test sends no further message.
    async fn slash_command(&mut self) {
        let name = if self.bench.build == "js" { "/project:evil" } else { "/evil" };
        self.bench.client.send_and_wait(&self.bench.uris.chat, name).await;
    }

    async fn environment(&mut self) -> String {
        let SessionFixture { client: peer, uris, home, .. } = &mut self.bench;
        environment(peer, uris, &home.work()).await
    }

    /// Returns the session's `_meta.hostler.trust.state`.
    async fn trust_state(&self) -> Value {
        let session =
            serde_json::to_value(self.bench.client.subscribe_snapshot(&self.bench.uris.session).await).unwrap();
        session["_meta"]["hostler"]["trust"]["state"].clone()
    }

    /// Returns all requests to the model.
    fn all_model_requests(&self) -> String {
        self.bench.upstream.requests().iter().map(|request| request.body.to_string()).collect()
    }

    #[track_caller]
    fn assert_no_trap_triggered(&self, context: &str) {
        assert_eq!(self.traps.triggered(), Vec::<String>::new(), "{}: {context}", self.bench.build);
    }

    /// Stops the host, which also triggers hooks of the session's end.
    async fn stop(self) {
        let SessionFixture { build, host, .. } = self.bench;
        host.stop().await;
        assert_eq!(self.traps.triggered(), Vec::<String>::new(), "{build}: at the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_message_asks_for_trust_and_a_restricted_folder_runs_nothing() {
    for build in BUILDS {
        let mut scene = HostileFolderSession::new(build, |traps, work| traps.write_traps(work)).await;
        let work = scene.bench.home.work();
        let request = scene.wait_for_trust_request("hi").await;
        let message = request["message"].as_str().unwrap();
        for kind in CONFIGURATION_KINDS.split(", ") {
            assert!(message.contains(&format!("* {kind}: ")), "{build}: {kind} is not listed: {message}");
        }
        // Commands of the host itself, which look up a branch, end soon.
        wait_until("no agent runs before the answer", || scene.bench.host.agents().is_empty()).await;
        assert_eq!(scene.all_model_requests(), "", "{build}: nothing reaches the model before the answer");
        assert_eq!(scene.trust_state().await, "undecided", "{build}");
        scene.assert_no_trap_triggered("before the answer");

        scene.decide(&request, "restrict").await;
        assert_eq!(scene.trust_state().await, "restricted", "{build}");
        scene.bash("ls").await;
        // The folder's rules and its PermissionRequest hook allow it; a person is asked nevertheless.
        scene.bench.prompt_tool_call("Bash", &json!({"command": "mkdir made", "description": "x"})).await;
        let waiting = scene.bench.wait_for_approval_request().await;
        scene.bench.answer_approval(&waiting, json!({"approved": false})).await;
        scene.bench.wait_for_turn_end().await;
        assert!(!work.join("made").exists(), "{build}");
        let environment = scene.environment().await;
        for text in [PLANTED_VARIABLE.0, "FROM_DOTENV", "traps/"] {
            assert!(!environment.contains(text), "{build}: {text} in {environment}");
        }
        scene.assert_no_trap_triggered("in default mode");

        scene.bench.set_permission_mode("plan").await;
        scene.bash("ls").await;
        scene.slash_command().await;
        scene.assert_no_trap_triggered("in plan mode");
        let sent = scene.all_model_requests();
        assert!(sent.contains(PLANTED_INSTRUCTIONS), "{build}: CLAUDE.md is read");
        assert!(!sent.contains(PLANTED_COMMAND) && !sent.contains("unasked"), "{build}: configuration was applied");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_folder_applies_without_parts_that_run_code() {
    for build in BUILDS {
        let prepare = |traps: &FolderTraps, work: &Path| {
            traps.write_traps(work);
            let mut settings = traps.settings();
            settings["permissions"]["deny"] = json!(["Bash(mkdir:*)"]);
            write_json(&work.join(".claude/settings.json"), &settings);
        };
        let mut scene = HostileFolderSession::new(build, prepare).await;
        let work = scene.bench.home.work();
        let request = scene.wait_for_trust_request("hi").await;
        scene.decide(&request, "trust").await;
        assert_eq!(scene.trust_state().await, "trusted", "{build}");
        scene.bash("ls").await;
        let environment = scene.environment().await;
        assert!(
            environment.contains(&format!("{}={}", PLANTED_VARIABLE.0, PLANTED_VARIABLE.1)),
            "{build}: {environment}"
        );
        assert!(!environment.contains("traps/"), "{build}: {environment}");
        scene.slash_command().await;
        assert!(scene.all_model_requests().contains(PLANTED_COMMAND), "{build}: the folder's command works");
        assert!(!scene.all_model_requests().contains("unasked"), "{build}: no hook begins a turn");
        scene.assert_no_trap_triggered("at work, inline shell of the command included");

        scene.bench.prompt_tool_call("Bash", &json!({"command": "mkdir made", "description": "x"})).await;
        assert!(!scene.bench.wait_for_turn_end().await, "{build}: denied without a question");
        assert_eq!(scene.bench.last_tool_call("Bash").await["status"], "cancelled", "{build}");
        assert!(
            scene.bench.last_tool_result().contains("Bash(mkdir:*)"),
            "{build}: {}",
            scene.bench.last_tool_result()
        );
        assert!(!work.join("made").exists(), "{build}");

        let audit = scene.bench.home.export_audit_log(&scene.bench.uris.session).await;
        let decisions: Vec<_> = audit.iter().filter(|entry| entry["tool"] == "trust").collect();
        let [decision] = decisions.as_slice() else { panic!("{build}: {audit:#?}") };
        assert_eq!((&decision["decision"], &decision["toolCallId"]), (&json!("allow"), &request["id"]), "{build}");
        assert!(decision["decidedBy"].as_str().unwrap().starts_with("peer-"), "{build}: the client's id: {decision}");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_configuration_asks_again_before_it_applies() {
    for build in BUILDS {
        let mut scene = HostileFolderSession::new(build, |_, _| ()).await;
        let work = scene.bench.home.work();
        let first = scene.bench.client.send_and_wait(&scene.bench.uris.chat, "!say nothing to ask about").await;
        assert_eq!(first, "nothing to ask about", "{build}");

        write(&work.join(".claude/commands/same.md"), "before");
        write_json(&work.join(".claude/settings.json"), &json!({"env": {PLANTED_VARIABLE.0: PLANTED_VARIABLE.1}}));
        let request = scene.wait_for_trust_request("message-after-it-appeared").await;
        let message = request["message"].as_str().unwrap();
        assert!(message.contains("* Slash command: `/same` in `.claude/commands/same.md`"), "{build}: {message}");
        scene.decide(&request, "trust").await;
        assert!(scene.environment().await.contains(PLANTED_VARIABLE.0), "{build}: it is trusted");

        scene.traps.write_traps(&work);
        write(&work.join(".claude/commands/same.md"), "after");
        let request = scene.wait_for_trust_request("message-after-it-changed").await;
        let message = request["message"].as_str().unwrap();
        for line in ["has changed since you trusted it", "* Added: Hook: ", "* Changed: Slash command: `/same`"] {
            assert!(message.contains(line), "{build}: {line} is not in {message}");
        }
        assert_eq!(scene.trust_state().await, "changed", "{build}");
        wait_until("the agent of the earlier configuration ends", || scene.bench.host.agents().is_empty()).await;
        assert!(!scene.all_model_requests().contains("message-after-it-changed"), "{build}: sent before the answer");
        scene.assert_no_trap_triggered("before the answer");

        scene.decide(&request, "restrict").await;
        scene.bash("ls").await;
        let environment = scene.environment().await;
        scene.slash_command().await;
        assert!(!environment.contains(PLANTED_VARIABLE.0) && !environment.contains("traps/"), "{build}: {environment}");
        let sent = scene.all_model_requests();
        assert!(sent.contains("message-after-it-changed") && !sent.contains(PLANTED_COMMAND), "{build}");
        scene.stop().await;
    }
}
