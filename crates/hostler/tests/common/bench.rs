//! A host with one of the real builds, a session in it, and what tests of the session's runtime do with them.

use std::os::unix::fs::PermissionsExt as _;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use ahp_types::state::SessionInputRequest;
use hostler_testkit::peer::{Peer, SessionUris};
use hostler_testkit::processes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::gate::Gate;
use super::upstream::ScriptedServer;
use super::{Home, Host, PATIENCE, executable};

/// Every command may run.
pub const COMMANDS_RUN: &str =
    "[global]\nversion = 1\nrules = [{ effect = \"allow\", scope = \"global\", rule = \"Bash\" }]\n";

pub struct Bench {
    pub build: &'static str,
    pub home: Home,
    pub host: Host,
    pub upstream: ScriptedServer,
    pub peer: Peer,
    pub uris: SessionUris,
}

impl Bench {
    pub async fn start(build: &'static str) -> Self {
        Self::with_rules(build, "").await
    }

    /// A host where no command is asked about.
    pub async fn at_ease(build: &'static str) -> Self {
        Self::with_rules(build, COMMANDS_RUN).await
    }

    /// A host that finds these rules.
    pub async fn with_rules(build: &'static str, rules: &str) -> Self {
        Self::at(build, Home::new(), rules).await
    }

    /// A host in a home that was prepared, with these rules.
    pub async fn at(build: &'static str, home: Home, rules: &str) -> Self {
        let state = home.path("state").join("hostler");
        if !rules.is_empty() {
            std::fs::create_dir_all(&state).unwrap();
            std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
            std::fs::write(state.join("rules.toml"), rules).unwrap();
        }
        let upstream = ScriptedServer::start().await;
        let host = serve(&home, &upstream, build).await;
        let peer = host.peer().await;
        let uris = peer.create(&home.work()).await;
        Self { build, home, host, upstream, peer, uris }
    }

    /// An agent that is told of MCP servers. The host tells it of none, so a script does that in passing.
    pub async fn with_servers(build: &'static str, servers: &Value) -> Self {
        let home = Home::new();
        let config = home.path("home").join("servers.json");
        std::fs::write(&config, servers.to_string()).unwrap();
        Self::through(home, build, |agent| format!("exec {agent} \"$@\" --mcp-config='{}'", config.display())).await
    }

    /// An agent that a shell script starts, which is made of the agent's command.
    pub(crate) async fn through(home: Home, build: &'static str, script: impl FnOnce(&str) -> String) -> Self {
        let agent = home.path("home").join("agent");
        let runs = if build == "js" { "node " } else { "" };
        let script = script(&format!("{runs}'{}'", executable(build).display()));
        std::fs::write(&agent, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o700)).unwrap();
        let upstream = ScriptedServer::start().await;
        let host = serve(&home, &upstream, agent.to_str().unwrap()).await;
        let peer = host.peer().await;
        let uris = peer.create(&home.work()).await;
        Self { build, home, host, upstream, peer, uris }
    }

    /// Ends the host, starts another one and comes back to a new session.
    pub async fn restart(self) -> Self {
        let Self { build, home, host, upstream, peer, .. } = self;
        drop(peer);
        host.stop().await;
        let host = serve(&home, &upstream, build).await;
        let peer = host.peer().await;
        let uris = peer.create(&home.work()).await;
        Self { build, home, host, upstream, peer, uris }
    }

    /// The host is killed, everything that it started goes with it, and another one takes up the session.
    pub async fn kill_host(self) -> Self {
        let Self { build, home, mut host, upstream, peer, uris } = self;
        drop(peer);
        let tree = host.tree();
        host.signal(Signal::SIGKILL);
        host.ended().await;
        let left = processes::survivors(&tree).await;
        assert!(left.is_empty(), "{build}: left behind: {left:#?}");
        Self::again(build, home, upstream, uris).await
    }

    /// The host ends politely, and another one takes up the session.
    pub async fn restart_host(self) -> Self {
        let Self { build, home, host, upstream, peer, uris } = self;
        drop(peer);
        host.stop().await;
        Self::again(build, home, upstream, uris).await
    }

    async fn again(build: &'static str, home: Home, upstream: ScriptedServer, uris: SessionUris) -> Self {
        let host = serve(&home, &upstream, build).await;
        let peer = host.peer().await;
        peer.snapshot(&uris.session).await;
        peer.chat(&uris.chat).await;
        Self { build, home, host, upstream, peer, uris }
    }

    /// The agent dies, and everything that it started goes with it.
    pub async fn kill_agent(&self) {
        let tree = self.host.tree();
        kill(Pid::from_raw(i32::try_from(self.host.agent().pid).unwrap()), Signal::SIGKILL).unwrap();
        let left = processes::survivors(&tree).await;
        assert!(left.is_empty(), "{}: left behind: {left:#?}", self.build);
    }

    pub async fn stop(self) {
        self.host.stop().await;
    }

    /// The model uses a tool and then says that it is done; answers the turn's id.
    pub async fn use_tool(&self, tool: &str, input: &Value) -> String {
        self.peer.say(&self.uris.chat, &format!("!tool {tool} {input}\n!say done")).await
    }

    /// Waits until a call waits for a person; answers it.
    pub async fn waiting(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatToolCallReady(ready) if ready.confirmed.is_none());
        let envelopes = self.peer.until(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()
    }

    /// Waits until the session needs a person for a call, in whatever chat; answers the request.
    pub async fn needed(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| {
            matches!(&envelope.action, StateAction::SessionInputNeededSet(needed)
                if matches!(needed.request, SessionInputRequest::ToolConfirmation(_)))
        };
        let envelopes = self.peer.until(&self.uris.session, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone()
    }

    /// A word about a call that the session needs a person for, in that call's own chat.
    pub async fn answer_needed(&self, needed: &Value, more: Value) {
        let mut action = json!({ "type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
            "toolCallId": needed["toolCall"]["toolCallId"] });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let action: StateAction = serde_json::from_value(action).unwrap();
        self.peer.dispatch(needed["chat"].as_str().unwrap(), action).await;
    }

    /// Waits until questions are asked; answers them.
    pub async fn asked(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatInputRequested(_));
        let envelopes = self.peer.until(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone()
    }

    /// A word about a call that waits.
    pub async fn answer(&self, waiting: &Value, more: Value) {
        let mut action = json!({
            "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"], "toolCallId": waiting["toolCallId"],
        });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.dispatch(action).await;
    }

    pub async fn dispatch(&self, action: Value) {
        let action: StateAction = serde_json::from_value(action).unwrap();
        assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
        self.peer.dispatch(&self.uris.chat, action).await;
    }

    /// Waits for the turn's end; answers whether it ended well, with anybody having been asked on the way.
    pub async fn end(&mut self) -> bool {
        let envelopes = self.peer.until_end(&self.uris.chat).await;
        let last = &envelopes.last().unwrap().action;
        assert!(matches!(last, StateAction::ChatTurnComplete(_)), "{}: {last:?}", self.build);
        // A call that is denied without a question is shown as one that waits, too, but there is nothing to choose.
        envelopes.iter().any(|envelope| {
            matches!(&envelope.action, StateAction::ChatToolCallReady(ready)
                if ready.confirmed.is_none() && ready.options.is_some())
        })
    }

    /// The last turn's call of a tool, as everybody sees it.
    pub async fn call(&self, tool: &str) -> Value {
        let chat = serde_json::to_value(self.peer.chat(&self.uris.chat).await).unwrap();
        let turn = chat["turns"].as_array().unwrap().last().unwrap();
        let mut parts = turn["responseParts"].as_array().unwrap().iter().map(|part| &part["toolCall"]);
        parts.find(|call| call["toolName"] == tool).unwrap_or_else(|| panic!("no {tool} in {turn:#}")).clone()
    }

    /// The chat, as everybody sees it.
    pub async fn chat(&self) -> Value {
        serde_json::to_value(self.peer.chat(&self.uris.chat).await).unwrap()
    }

    /// A command that runs until the test lets it end.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::new(&self.home.work(), name)
    }

    /// A message for the queue, or for the running turn.
    pub async fn pend(&self, kind: &str, id: &str, text: &str) {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        self.dispatch(json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message })).await;
    }

    pub async fn unpend(&self, kind: &str, id: &str) {
        self.dispatch(json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": id })).await;
    }

    pub async fn resume(&self, turn: &str) {
        self.dispatch(json!({ "type": "chat/turnResume", "turnId": turn })).await;
    }

    /// Waits for an action of this type; answers it, or why it was refused.
    pub async fn until(&mut self, kind: &str) -> Result<Value, String> {
        let chat = self.uris.chat.clone();
        let fits = |envelope: &ActionEnvelope| serde_json::to_value(&envelope.action).unwrap()["type"] == kind;
        let last = self.peer.until(&chat, fits).await.pop().unwrap();
        match last.rejection_reason {
            Some(reason) => Err(reason),
            None => Ok(serde_json::to_value(&last.action).unwrap()),
        }
    }

    /// Waits for a turn that fails; answers its error.
    pub async fn fails(&mut self) -> Value {
        let envelopes = self.peer.until_end(&self.uris.chat).await;
        let last = serde_json::to_value(&envelopes.last().unwrap().action).unwrap();
        assert_eq!(last["type"], "chat/error", "{}: {last:#}", self.build);
        let sentence = last["part"]["error"]["message"].as_str().unwrap();
        assert!(sentence.contains(' ') && sentence.ends_with('.'), "{}: no sentence: {sentence}", self.build);
        assert_eq!(last["part"]["resumable"], true, "{}", self.build);
        last["part"]["error"].clone()
    }

    /// How often the model has read these words, in all that it was ever sent, request by request.
    pub fn heard(&self, words: &str) -> Vec<usize> {
        let requests = self.upstream.requests();
        requests.iter().map(|request| request.body["messages"].to_string().matches(words).count()).collect()
    }

    /// What the model was told about its last call.
    pub fn told(&self) -> String {
        let requests = self.upstream.requests();
        let results = requests.iter().rev().flat_map(|request| {
            let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
            messages.into_iter().rev().find(|message| message.to_string().contains("tool_result"))
        });
        results.map(|message| message.to_string()).next().unwrap_or_default()
    }

    /// Changes the session's permission mode and waits until it holds.
    pub async fn change_mode(&mut self, mode: &str) {
        self.configure(json!({ "permissionMode": mode })).await;
    }

    /// Changes the session's configuration and waits until it holds.
    pub async fn configure(&mut self, config: Value) {
        let action = json!({ "type": "session/configChanged", "config": config });
        let action: StateAction = serde_json::from_value(action).unwrap();
        self.peer.dispatch(&self.uris.session, action).await;
        let session = self.uris.session.clone();
        let changed = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionConfigChanged(_));
        let envelopes = self.peer.until(&session, changed).await;
        assert_eq!(envelopes.last().unwrap().rejection_reason, None);
    }
}

/// Waits for a fact about processes, which nobody announces.
pub async fn eventually(what: &str, fact: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !fact() {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn serve(home: &Home, upstream: &ScriptedServer, build: &str) -> Host {
    let env = [
        ("HOSTLER_UPSTREAM", "anthropic"),
        ("HOSTLER_UPSTREAM_URL", upstream.url.as_str()),
        ("HOSTLER_UPSTREAM_KEY", "sk-of-the-test"),
        ("HOSTLER_CLAUDE", build),
    ];
    home.serve_with(&[], &env).await
}
