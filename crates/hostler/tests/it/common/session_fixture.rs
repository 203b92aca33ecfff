//! Host with one of the real builds, a session in it, and common steps of tests.

use std::os::unix::fs::PermissionsExt as _;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::SessionInputRequest;
use hostler_testkit::processes;
use hostler_testkit::test_client::{SessionUris, TestClient};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::blocking_command::BlockingCommand;
use super::scripted_upstream::ScriptedUpstreamServer;
use super::{HostProcess, TEST_TIMEOUT, TestHome, claude_executable};

/// Rules that allow every command.
pub const ALLOW_COMMANDS_RULES: &str =
    "[global]\nversion = 1\nrules = [{ effect = \"allow\", scope = \"global\", rule = \"Bash\" }]\n";

/// The reason of a rejected action.
#[derive(Debug)]
pub struct Rejection(pub String);

impl std::ops::Deref for Rejection {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Rejection {
    fn eq(&self, reason: &&str) -> bool {
        self.0 == *reason
    }
}

pub struct SessionFixture {
    pub build: &'static str,
    pub home: TestHome,
    pub host: HostProcess,
    pub upstream: ScriptedUpstreamServer,
    pub client: TestClient,
    pub uris: SessionUris,
}

impl SessionFixture {
    pub async fn start(build: &'static str) -> Self {
        Self::with_rules(build, "").await
    }

    /// Starts a host that allows all commands.
    pub async fn allowing_commands(build: &'static str) -> Self {
        Self::with_rules(build, ALLOW_COMMANDS_RULES).await
    }

    /// Starts a host with these rules.
    pub async fn with_rules(build: &'static str, rules: &str) -> Self {
        Self::in_home(build, TestHome::new(), rules).await
    }

    /// Starts a host in a prepared home, with these rules.
    pub async fn in_home(build: &'static str, home: TestHome, rules: &str) -> Self {
        let state = home.path("state").join("hostler");
        if !rules.is_empty() {
            std::fs::create_dir_all(&state).unwrap();
            std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
            std::fs::write(state.join("rules.toml"), rules).unwrap();
        }
        let upstream = ScriptedUpstreamServer::start().await;
        let host = serve(&home, &upstream, build).await;
        let peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        Self { build, home, host, upstream, client: peer, uris }
    }

    /// Starts an agent with MCP servers. The host passes none, so a wrapper script adds them.
    pub async fn with_mcp_servers(build: &'static str, servers: &Value) -> Self {
        let home = TestHome::new();
        let config = home.path("home").join("servers.json");
        std::fs::write(&config, servers.to_string()).unwrap();
        Self::with_agent_script(home, build, |agent| format!("exec {agent} \"$@\" --mcp-config='{}'", config.display()))
            .await
    }

    /// Starts an agent through a shell script that wraps the agent's command.
    pub(crate) async fn with_agent_script(
        home: TestHome,
        build: &'static str,
        script: impl FnOnce(&str) -> String,
    ) -> Self {
        let agent = home.path("home").join("agent");
        let runs = if build == "js" { "node " } else { "" };
        let script = script(&format!("{runs}'{}'", claude_executable(build).display()));
        std::fs::write(&agent, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o700)).unwrap();
        let upstream = ScriptedUpstreamServer::start().await;
        let host = serve(&home, &upstream, agent.to_str().unwrap()).await;
        let peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        Self { build, home, host, upstream, client: peer, uris }
    }

    /// Stops the host, starts another one and creates a new session.
    pub async fn restart(self) -> Self {
        let Self { build, home, host, upstream, client: peer, .. } = self;
        drop(peer);
        host.stop().await;
        let host = serve(&home, &upstream, build).await;
        let peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        Self { build, home, host, upstream, client: peer, uris }
    }

    /// Kills the host with all its processes, starts another one and reopens the session.
    pub async fn kill_host(self) -> Self {
        let Self { build, home, mut host, upstream, client: peer, uris } = self;
        drop(peer);
        let tree = host.process_tree();
        host.signal(Signal::SIGKILL);
        host.wait_for_exit().await;
        let left = processes::wait_for_exit(&tree).await;
        assert!(left.is_empty(), "{build}: remaining processes: {left:#?}");
        Self::reopen(build, home, upstream, uris).await
    }

    /// Stops the host, starts another one and reopens the session.
    pub async fn restart_host(self) -> Self {
        let Self { build, home, host, upstream, client: peer, uris } = self;
        drop(peer);
        host.stop().await;
        Self::reopen(build, home, upstream, uris).await
    }

    async fn reopen(build: &'static str, home: TestHome, upstream: ScriptedUpstreamServer, uris: SessionUris) -> Self {
        let host = serve(&home, &upstream, build).await;
        let peer = host.connect().await;
        peer.subscribe_snapshot(&uris.session).await;
        peer.chat_state(&uris.chat).await;
        Self { build, home, host, upstream, client: peer, uris }
    }

    /// Kills the agent with its whole process tree.
    pub async fn kill_agent(&self) {
        let tree = self.host.process_tree();
        kill(Pid::from_raw(i32::try_from(self.host.only_agent().pid).unwrap()), Signal::SIGKILL).unwrap();
        let left = processes::wait_for_exit(&tree).await;
        assert!(left.is_empty(), "{}: remaining processes: {left:#?}", self.build);
    }

    pub async fn stop(self) {
        self.host.stop().await;
    }

    /// Sends a prompt that makes the model call a tool and then answer; returns the turn's id.
    pub async fn prompt_tool_call(&self, tool: &str, input: &Value) -> String {
        self.client.send_message(&self.uris.chat, &format!("!tool {tool} {input}\n!say done")).await
    }

    /// Waits until a call is pending; returns it.
    pub async fn wait_for_approval_request(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatToolCallReady(ready) if ready.confirmed.is_none());
        let envelopes = self.client.wait_for(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()
    }

    /// Waits for a pending request of the session, in any chat; returns it.
    pub async fn wait_for_session_request(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| {
            matches!(&envelope.action, StateAction::SessionInputNeededSet(needed)
                if matches!(needed.request, SessionInputRequest::ToolConfirmation(_)))
        };
        let envelopes = self.client.wait_for(&self.uris.session, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone()
    }

    /// Answers a pending call of the session, in that call's own chat.
    pub async fn answer_session_request(&self, needed: &Value, more: Value) {
        let mut action = json!({ "type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
            "toolCallId": needed["toolCall"]["toolCallId"] });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let action: StateAction = serde_json::from_value(action).unwrap();
        self.client.dispatch(needed["chat"].as_str().unwrap(), action).await;
    }

    /// Waits for questions; returns them.
    pub async fn wait_for_questions(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatInputRequested(_));
        let envelopes = self.client.wait_for(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone()
    }

    /// Answers a pending call.
    pub async fn answer_approval(&self, waiting: &Value, more: Value) {
        let mut action = json!({
            "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"], "toolCallId": waiting["toolCallId"],
        });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.dispatch(action).await;
    }

    pub async fn dispatch(&self, action: Value) {
        let action: StateAction = serde_json::from_value(action).unwrap();
        assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
        self.client.dispatch(&self.uris.chat, action).await;
    }

    /// Waits for the turn's end; asserts that it succeeded and returns whether a person was asked.
    pub async fn wait_for_turn_end(&mut self) -> bool {
        let envelopes = self.client.wait_for_turn_end(&self.uris.chat).await;
        let last = &envelopes.last().unwrap().action;
        assert!(matches!(last, StateAction::ChatTurnComplete(_)), "{}: {last:?}", self.build);
        // A call that is denied without a question is also shown as pending, but without options.
        envelopes.iter().any(|envelope| {
            matches!(&envelope.action, StateAction::ChatToolCallReady(ready)
                if ready.confirmed.is_none() && ready.options.is_some())
        })
    }

    /// Returns the last turn's call of a tool from the chat's state.
    pub async fn last_tool_call(&self, tool: &str) -> Value {
        let chat = serde_json::to_value(self.client.chat_state(&self.uris.chat).await).unwrap();
        let turn = chat["turns"].as_array().unwrap().last().unwrap();
        let mut parts = turn["responseParts"].as_array().unwrap().iter().map(|part| &part["toolCall"]);
        parts.find(|call| call["toolName"] == tool).unwrap_or_else(|| panic!("no {tool} in {turn:#}")).clone()
    }

    /// Returns the chat's state.
    pub async fn chat_state(&self) -> Value {
        serde_json::to_value(self.client.chat_state(&self.uris.chat).await).unwrap()
    }

    /// Returns a command that runs until the test releases it.
    pub fn blocking_command(&self, name: &str) -> BlockingCommand {
        BlockingCommand::new(&self.home.work(), name)
    }

    /// Adds a message to the queue, or steers the running turn.
    pub async fn set_pending_message(&self, kind: &str, id: &str, text: &str) {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        self.dispatch(json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message })).await;
    }

    pub async fn remove_pending_message(&self, kind: &str, id: &str) {
        self.dispatch(json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": id })).await;
    }

    pub async fn resume_turn(&self, turn: &str) {
        self.dispatch(json!({ "type": "chat/turnResume", "turnId": turn })).await;
    }

    /// Waits for an action of this type; returns it, or why it was rejected.
    pub async fn wait_for_action(&mut self, kind: &str) -> Result<Value, Rejection> {
        let chat = self.uris.chat.clone();
        let fits = |envelope: &ActionEnvelope| serde_json::to_value(&envelope.action).unwrap()["type"] == kind;
        let last = self.client.wait_for(&chat, fits).await.pop().unwrap();
        match last.rejection_reason {
            Some(reason) => Err(Rejection(reason)),
            None => Ok(serde_json::to_value(&last.action).unwrap()),
        }
    }

    /// Waits for a failed turn; returns its error.
    pub async fn wait_for_turn_error(&mut self) -> Value {
        let envelopes = self.client.wait_for_turn_end(&self.uris.chat).await;
        let last = serde_json::to_value(&envelopes.last().unwrap().action).unwrap();
        assert_eq!(last["type"], "chat/error", "{}: {last:#}", self.build);
        let sentence = last["part"]["error"]["message"].as_str().unwrap();
        assert!(sentence.contains(' ') && sentence.ends_with('.'), "{}: no sentence: {sentence}", self.build);
        assert_eq!(last["part"]["resumable"], true, "{}", self.build);
        last["part"]["error"].clone()
    }

    /// Counts how often each request to the model contains a text.
    pub fn count_in_model_requests(&self, text: &str) -> Vec<usize> {
        let requests = self.upstream.requests();
        requests.iter().map(|request| request.body["messages"].to_string().matches(text).count()).collect()
    }

    /// Returns the result of the model's last call.
    pub fn last_tool_result(&self) -> String {
        let requests = self.upstream.requests();
        let results = requests.iter().rev().flat_map(|request| {
            let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
            messages.into_iter().rev().find(|message| message.to_string().contains("tool_result"))
        });
        results.map(|message| message.to_string()).next().unwrap_or_default()
    }

    /// Changes the session's permission mode and waits until it applies.
    pub async fn set_permission_mode(&mut self, mode: &str) {
        self.configure(json!({ "permissionMode": mode })).await;
    }

    /// Changes the session's configuration and waits until it applies.
    pub async fn configure(&mut self, config: Value) {
        let action = json!({ "type": "session/configChanged", "config": config });
        let action: StateAction = serde_json::from_value(action).unwrap();
        self.client.dispatch(&self.uris.session, action).await;
        let session = self.uris.session.clone();
        let changed = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionConfigChanged(_));
        let envelopes = self.client.wait_for(&session, changed).await;
        assert_eq!(envelopes.last().unwrap().rejection_reason, None);
    }
}

/// Polls a condition on processes, which is not announced by an event.
pub async fn wait_until(what: &str, fact: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + TEST_TIMEOUT;
    while !fact() {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn serve(home: &TestHome, upstream: &ScriptedUpstreamServer, build: &str) -> HostProcess {
    let env = [
        ("HOSTLER_UPSTREAM", "anthropic"),
        ("HOSTLER_UPSTREAM_URL", upstream.url.as_str()),
        ("HOSTLER_UPSTREAM_KEY", "sk-of-the-test"),
        ("HOSTLER_CLAUDE", build),
    ];
    home.serve_with(&[], &env).await
}
