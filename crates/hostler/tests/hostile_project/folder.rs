//! The real host and the real Claude Code in a hostile folder: before a person decides about it, restricted, trusted, and
//! changed since.

use std::path::Path;

use ahp_types::StateAction;
use ahp_types::state::SessionInputRequest;
use serde_json::{Value, json};

use crate::common::bench::{Bench, eventually};
use crate::common::{BUILDS, Home};
use crate::environment;
use crate::traps::{COMMAND, INSTRUCTIONS, Traps, VARIABLE, write, write_json};

/// What the traps bring, as people read it.
const KINDS: &str = "Hook, MCP server, Environment variable, Helper program, Slash command, Skill, Agent, Plugin, \
                     Permission rule, Additional directory, Setting";

/// A session of the real host, and the traps that are outside of its folder.
struct Scene {
    bench: Bench,
    traps: Traps,
}

impl Scene {
    async fn new(build: &'static str, prepare: impl FnOnce(&Traps, &Path)) -> Self {
        let home = Home::new();
        let traps = Traps::new(home.path("traps"));
        prepare(&traps, &home.work());
        Self { bench: Bench::at(build, home, "").await, traps }
    }

    /// Sends a message that waits for a decision about the folder; returns the request, which the session and the chat show.
    async fn asked(&mut self, text: &str) -> Value {
        let Bench { peer, uris, build, .. } = &mut self.bench;
        peer.say(&uris.chat, text).await;
        let envelopes = peer
            .until(&uris.session, |envelope| {
                matches!(&envelope.action, StateAction::SessionInputNeededSet(needed)
                    if matches!(needed.request, SessionInputRequest::ChatInput(_)))
            })
            .await;
        let needed = serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone();
        assert_eq!(needed["chat"], uris.chat, "{build}");
        let chat = self.bench.chat().await;
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
        self.bench.end().await;
    }

    /// Runs a command that no person is asked about.
    async fn bash(&mut self, command: &str) {
        let build = self.bench.build;
        self.bench.use_tool("Bash", &json!({"command": command, "description": "x"})).await;
        assert!(!self.bench.end().await, "{build}: {command} is asked about");
        assert_eq!(self.bench.call("Bash").await["status"], "completed", "{build}: {command}");
    }

    /// Calls the folder's slash command by its name in this build. Where it does not apply, it is unknown to the agent, which
    /// may begin a turn of its own then: nothing is asked of the session afterwards.
    async fn slash_command(&mut self) {
        let name = if self.bench.build == "js" { "/project:evil" } else { "/evil" };
        self.bench.peer.ask(&self.bench.uris.chat, name).await;
    }

    async fn environment(&mut self) -> String {
        let Bench { peer, uris, home, .. } = &mut self.bench;
        environment(peer, uris, &home.work()).await
    }

    /// The session's `_meta.hostler.trust.state`.
    async fn trust_state(&self) -> Value {
        let session = serde_json::to_value(self.bench.peer.snapshot(&self.bench.uris.session).await).unwrap();
        session["_meta"]["hostler"]["trust"]["state"].clone()
    }

    /// Everything that the model was sent.
    fn sent(&self) -> String {
        self.bench.upstream.requests().iter().map(|request| request.body.to_string()).collect()
    }

    #[track_caller]
    fn nothing_sprung(&self, context: &str) {
        assert_eq!(self.traps.sprung(), Vec::<String>::new(), "{}: {context}", self.bench.build);
    }

    /// Ends the host, and with it hooks of the session's end.
    async fn stop(self) {
        let Bench { build, host, .. } = self.bench;
        host.stop().await;
        assert_eq!(self.traps.sprung(), Vec::<String>::new(), "{build}: at the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_asks_and_a_restricted_folder_runs_nothing() {
    for build in BUILDS {
        let mut scene = Scene::new(build, |traps, work| traps.lay(work)).await;
        let work = scene.bench.home.work();
        let request = scene.asked("hi").await;
        let message = request["message"].as_str().unwrap();
        for kind in KINDS.split(", ") {
            assert!(message.contains(&format!("* {kind}: ")), "{build}: {kind} is not listed: {message}");
        }
        // Commands of the host itself, which look for a branch, are over soon.
        eventually("no agent runs before the answer", || scene.bench.host.agents().is_empty()).await;
        assert_eq!(scene.sent(), "", "{build}: nothing reaches the model before the answer");
        assert_eq!(scene.trust_state().await, "undecided", "{build}");
        scene.nothing_sprung("before the answer");

        scene.decide(&request, "restrict").await;
        assert_eq!(scene.trust_state().await, "restricted", "{build}");
        scene.bash("ls").await;
        // The folder's rules and its PermissionRequest hook allow it; a person is asked nevertheless.
        scene.bench.use_tool("Bash", &json!({"command": "mkdir made", "description": "x"})).await;
        let waiting = scene.bench.waiting().await;
        scene.bench.answer(&waiting, json!({"approved": false})).await;
        scene.bench.end().await;
        assert!(!work.join("made").exists(), "{build}");
        let environment = scene.environment().await;
        for text in [VARIABLE.0, "FROM_DOTENV", "traps/"] {
            assert!(!environment.contains(text), "{build}: {text} in {environment}");
        }
        scene.nothing_sprung("in default mode");

        scene.bench.change_mode("plan").await;
        scene.bash("ls").await;
        scene.slash_command().await;
        scene.nothing_sprung("in plan mode");
        let sent = scene.sent();
        assert!(sent.contains(INSTRUCTIONS), "{build}: CLAUDE.md is read");
        assert!(!sent.contains(COMMAND) && !sent.contains("unasked"), "{build}: configuration was applied");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_folder_applies_without_what_runs_code() {
    for build in BUILDS {
        let prepare = |traps: &Traps, work: &Path| {
            traps.lay(work);
            let mut settings = traps.settings();
            settings["permissions"]["deny"] = json!(["Bash(mkdir:*)"]);
            write_json(&work.join(".claude/settings.json"), &settings);
        };
        let mut scene = Scene::new(build, prepare).await;
        let work = scene.bench.home.work();
        let request = scene.asked("hi").await;
        scene.decide(&request, "trust").await;
        assert_eq!(scene.trust_state().await, "trusted", "{build}");
        scene.bash("ls").await;
        let environment = scene.environment().await;
        assert!(environment.contains(&format!("{}={}", VARIABLE.0, VARIABLE.1)), "{build}: {environment}");
        assert!(!environment.contains("traps/"), "{build}: {environment}");
        scene.slash_command().await;
        assert!(scene.sent().contains(COMMAND), "{build}: the folder's command works");
        assert!(!scene.sent().contains("unasked"), "{build}: no hook begins a turn");
        scene.nothing_sprung("at work, inline shell of the command included");

        scene.bench.use_tool("Bash", &json!({"command": "mkdir made", "description": "x"})).await;
        assert!(!scene.bench.end().await, "{build}: denied without a question");
        assert_eq!(scene.bench.call("Bash").await["status"], "cancelled", "{build}");
        assert!(scene.bench.told().contains("Bash(mkdir:*)"), "{build}: {}", scene.bench.told());
        assert!(!work.join("made").exists(), "{build}");

        let audit = scene.bench.home.audit(&scene.bench.uris.session).await;
        let decisions: Vec<_> = audit.iter().filter(|entry| entry["tool"] == "trust").collect();
        let [decision] = decisions.as_slice() else { panic!("{build}: {audit:#?}") };
        assert_eq!((&decision["decision"], &decision["call"]), (&json!("allow"), &request["id"]), "{build}");
        assert!(decision["who"].as_str().unwrap().starts_with("peer-"), "{build}: the client's id: {decision}");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_appears_or_changes_between_turns_is_asked_about_before_it_applies() {
    for build in BUILDS {
        let mut scene = Scene::new(build, |_, _| ()).await;
        let work = scene.bench.home.work();
        let first = scene.bench.peer.ask(&scene.bench.uris.chat, "!say nothing to ask about").await;
        assert_eq!(first, "nothing to ask about", "{build}");

        write(&work.join(".claude/commands/same.md"), "before");
        write_json(&work.join(".claude/settings.json"), &json!({"env": {VARIABLE.0: VARIABLE.1}}));
        let request = scene.asked("message-after-it-appeared").await;
        let message = request["message"].as_str().unwrap();
        assert!(message.contains("* Slash command: `/same` in `.claude/commands/same.md`"), "{build}: {message}");
        scene.decide(&request, "trust").await;
        assert!(scene.environment().await.contains(VARIABLE.0), "{build}: it is trusted");

        scene.traps.lay(&work);
        write(&work.join(".claude/commands/same.md"), "after");
        let request = scene.asked("message-after-it-changed").await;
        let message = request["message"].as_str().unwrap();
        for line in ["has changed since you trusted it", "* Added: Hook: ", "* Changed: Slash command: `/same`"] {
            assert!(message.contains(line), "{build}: {line} is not in {message}");
        }
        assert_eq!(scene.trust_state().await, "changed", "{build}");
        eventually("the agent of the earlier configuration ends", || scene.bench.host.agents().is_empty()).await;
        assert!(!scene.sent().contains("message-after-it-changed"), "{build}: sent before the answer");
        scene.nothing_sprung("before the answer");

        scene.decide(&request, "restrict").await;
        scene.bash("ls").await;
        let environment = scene.environment().await;
        scene.slash_command().await;
        assert!(!environment.contains(VARIABLE.0) && !environment.contains("traps/"), "{build}: {environment}");
        let sent = scene.sent();
        assert!(sent.contains("message-after-it-changed") && !sent.contains(COMMAND), "{build}");
        scene.stop().await;
    }
}
