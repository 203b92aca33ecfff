//! A host with one of the real builds, a session in it, and what every test about tools does with them.

use std::os::unix::fs::PermissionsExt as _;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use hostler_testkit::peer::{Peer, SessionUris};
use serde_json::{Value, json};

use crate::common::upstream::ScriptedServer;
use crate::common::{Home, Host, PATIENCE, executable};

pub(crate) struct Bench {
    pub(crate) build: &'static str,
    pub(crate) home: Home,
    pub(crate) host: Host,
    pub(crate) upstream: ScriptedServer,
    pub(crate) peer: Peer,
    pub(crate) uris: SessionUris,
}

impl Bench {
    pub(crate) async fn start(build: &'static str) -> Self {
        Self::with_rules(build, "").await
    }

    /// A host that finds these rules.
    pub(crate) async fn with_rules(build: &'static str, rules: &str) -> Self {
        let home = Home::new();
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
    pub(crate) async fn with_servers(build: &'static str, servers: &Value) -> Self {
        let home = Home::new();
        let (config, agent) = (home.path("home").join("servers.json"), home.path("home").join("agent"));
        std::fs::write(&config, servers.to_string()).unwrap();
        let runs = if build == "js" { "node " } else { "" };
        let script = format!(
            "#!/bin/sh\nexec {runs}'{}' \"$@\" --mcp-config='{}'\n",
            executable(build).display(),
            config.display()
        );
        std::fs::write(&agent, script).unwrap();
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o700)).unwrap();
        let upstream = ScriptedServer::start().await;
        let host = serve(&home, &upstream, agent.to_str().unwrap()).await;
        let peer = host.peer().await;
        let uris = peer.create(&home.work()).await;
        Self { build, home, host, upstream, peer, uris }
    }

    /// Ends the host, starts another one and comes back to a new session.
    pub(crate) async fn restart(self) -> Self {
        let Self { build, home, host, upstream, peer, .. } = self;
        drop(peer);
        host.stop().await;
        let host = serve(&home, &upstream, build).await;
        let peer = host.peer().await;
        let uris = peer.create(&home.work()).await;
        Self { build, home, host, upstream, peer, uris }
    }

    pub(crate) async fn stop(self) {
        self.host.stop().await;
    }

    /// The model uses a tool and then says that it is done; answers the turn's id.
    pub(crate) async fn use_tool(&self, tool: &str, input: &Value) -> String {
        self.peer.say(&self.uris.chat, &format!("!tool {tool} {input}\n!say done")).await
    }

    /// Waits until a call waits for a person; answers it.
    pub(crate) async fn waiting(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatToolCallReady(ready) if ready.confirmed.is_none());
        let envelopes = self.peer.until(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()
    }

    /// Waits until questions are asked; answers them.
    pub(crate) async fn asked(&mut self) -> Value {
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatInputRequested(_));
        let envelopes = self.peer.until(&self.uris.chat, asks).await;
        serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone()
    }

    /// A word about a call that waits.
    pub(crate) async fn answer(&self, waiting: &Value, more: Value) {
        let mut action = json!({
            "type": "chat/toolCallConfirmed", "turnId": waiting["turnId"], "toolCallId": waiting["toolCallId"],
        });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.dispatch(action).await;
    }

    pub(crate) async fn dispatch(&self, action: Value) {
        let action: StateAction = serde_json::from_value(action).unwrap();
        assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
        self.peer.dispatch(&self.uris.chat, action).await;
    }

    /// Waits for the turn's end; answers whether it ended well, with anybody having been asked on the way.
    pub(crate) async fn end(&mut self) -> bool {
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
    pub(crate) async fn call(&self, tool: &str) -> Value {
        let chat = serde_json::to_value(self.peer.chat(&self.uris.chat).await).unwrap();
        let turn = chat["turns"].as_array().unwrap().last().unwrap();
        let mut parts = turn["responseParts"].as_array().unwrap().iter().map(|part| &part["toolCall"]);
        parts.find(|call| call["toolName"] == tool).unwrap_or_else(|| panic!("no {tool} in {turn:#}")).clone()
    }

    /// What the model was told about its last call.
    pub(crate) fn told(&self) -> String {
        let requests = self.upstream.requests();
        let results = requests.iter().rev().flat_map(|request| {
            let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
            messages.into_iter().rev().find(|message| message.to_string().contains("tool_result"))
        });
        results.map(|message| message.to_string()).next().unwrap_or_default()
    }

    /// Changes the session's permission mode and waits until it holds.
    pub(crate) async fn change_mode(&mut self, mode: &str) {
        let action = json!({ "type": "session/configChanged", "config": { "permissionMode": mode } });
        let action: StateAction = serde_json::from_value(action).unwrap();
        self.peer.dispatch(&self.uris.session, action).await;
        let session = self.uris.session.clone();
        let changed = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionConfigChanged(_));
        let envelopes = self.peer.until(&session, changed).await;
        assert_eq!(envelopes.last().unwrap().rejection_reason, None);
    }
}

/// Waits for a fact about processes, which nobody announces.
pub(crate) async fn eventually(what: &str, fact: impl Fn() -> bool) {
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
