//! Client with its own copy of terminals, with the protocol's reducers.
#![allow(dead_code, unreachable_pub, reason = "shared by the tests beside it")]

use std::collections::BTreeMap;
use std::path::Path;

use ahp::reducers::{apply_action_to_root, apply_action_to_terminal};
use ahp_types::StateAction;
use ahp_types::state::{RootState, TerminalContentPart, TerminalLifecycleState, TerminalState};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};

use crate::common::HostProcess;

pub struct TerminalClient {
    raw: RawClient,
    pub id: String,
    requests: u64,
    seq: i64,
    /// All envelopes, in order.
    pub received: Vec<Value>,
    pub terminals: BTreeMap<String, TerminalState>,
    pub root: RootState,
}

impl TerminalClient {
    pub async fn new(host: &HostProcess, id: &str) -> Self {
        Self::with_version(host, id, "1.0.0").await
    }

    pub async fn with_version(host: &HostProcess, id: &str, version: &str) -> Self {
        let raw = RawClient::connect(&host.url()).await;
        let root: RootState = serde_json::from_value(json!({"agents": []})).unwrap();
        let (received, terminals) = (Vec::new(), BTreeMap::new());
        let mut client = Self { raw, id: id.into(), requests: 0, seq: 0, received, terminals, root };
        let hello = json!({"protocolVersions": [version], "clientId": id, "initialSubscriptions": ["ahp-root://"]});
        let hello = client.call("initialize", hello).await.unwrap();
        assert_eq!(hello["protocolVersion"], version);
        client.root = serde_json::from_value(hello["snapshots"][0]["state"].clone()).unwrap();
        client
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.requests += 1;
        let id = self.requests;
        self.raw.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        loop {
            let mut message = self.raw.receive().await.expect("an answer");
            if message["id"] == id {
                return match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                };
            }
            self.handle_message(message);
        }
    }

    pub async fn code(&mut self, method: &str, params: Value) -> i64 {
        self.call(method, params).await.unwrap_err()["code"].as_i64().unwrap()
    }

    /// Returns a claim for this client.
    pub fn claim(&self) -> Value {
        json!({"kind": "client", "clientId": self.id})
    }

    /// Creates a terminal in a session's directory and subscribes to it.
    pub async fn open(&mut self, terminal: &str, directory: &Path) {
        let session = format!("claude:/{}", uuid::Uuid::new_v4());
        let directory = format!("file://{}", directory.display());
        self.call("createSession", json!({"channel": session, "workingDirectories": [directory]})).await.unwrap();
        let params = json!({"channel": terminal, "claim": self.claim(), "cwd": directory});
        self.call("createTerminal", params).await.unwrap();
        self.subscribe(terminal).await;
    }

    pub async fn subscribe(&mut self, terminal: &str) {
        let answer = self.call("subscribe", json!({"channel": terminal})).await.unwrap();
        assert_eq!(answer["snapshot"]["resource"], terminal);
        let state = serde_json::from_value(answer["snapshot"]["state"].clone()).unwrap();
        self.terminals.insert(terminal.into(), state);
    }

    pub async fn dispatch(&mut self, channel: &str, action: Value) -> i64 {
        self.seq += 1;
        let params = json!({"channel": channel, "clientSeq": self.seq, "action": action});
        self.raw.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
        self.seq
    }

    /// Types a text without waiting.
    pub async fn type_in(&mut self, terminal: &str, text: &str) -> i64 {
        self.dispatch(terminal, json!({"type": "terminal/input", "data": text})).await
    }

    /// Dispatches, and waits for the echo or the rejection; returns the reason of the latter.
    pub async fn dispatch_and_confirm(&mut self, channel: &str, action: Value) -> Option<String> {
        let seq = self.dispatch(channel, action).await;
        let own = json!({"clientId": self.id, "clientSeq": seq});
        self.wait_until(|client| client.received.iter().any(|envelope| envelope["origin"] == own)).await;
        let echo = self.received.iter().find(|envelope| envelope["origin"] == own).unwrap();
        echo["rejectionReason"].as_str().map(str::to_owned)
    }

    /// Receives the next message; `false` when the host has closed the connection.
    pub async fn receive(&mut self) -> bool {
        match self.raw.receive().await {
            Some(message) => {
                self.handle_message(message);
                true
            }
            None => false,
        }
    }

    pub async fn wait_until(&mut self, fact: impl Fn(&Self) -> bool) {
        while !fact(self) {
            assert!(self.receive().await, "the host has hung up");
        }
    }

    /// Waits until a terminal shows this text.
    pub async fn wait_for_text(&mut self, terminal: &str, text: &str) {
        self.wait_until(|client| client.screen(terminal).contains(text)).await;
    }

    fn handle_message(&mut self, mut message: Value) {
        let envelope = message["params"].take();
        if let Ok(action) = serde_json::from_value::<StateAction>(envelope["action"].clone())
            && envelope.get("rejectionReason").is_none()
        {
            let channel = envelope["channel"].as_str().unwrap_or_default();
            if channel == "ahp-root://" {
                apply_action_to_root(&mut self.root, &action);
            } else if let Some(state) = self.terminals.get_mut(channel) {
                apply_action_to_terminal(state, &action);
            }
        }
        self.received.push(envelope);
    }

    pub fn state(&self, terminal: &str) -> &TerminalState {
        &self.terminals[terminal]
    }

    /// Returns the whole contents of a terminal.
    pub fn screen(&self, terminal: &str) -> String {
        let part = |part: &TerminalContentPart| match part {
            TerminalContentPart::Unclassified(part) => part.value.clone(),
            TerminalContentPart::Command(part) => part.output.clone(),
            TerminalContentPart::Unknown(value) => panic!("{value}"),
        };
        self.state(terminal).content.iter().map(part).collect()
    }

    /// Returns line, output and exit code of completed commands.
    pub fn commands(&self, terminal: &str) -> Vec<(String, String, Option<i64>)> {
        let command = |part: &TerminalContentPart| match part {
            TerminalContentPart::Command(part) if part.is_complete => {
                Some((part.command_line.clone(), part.output.clone(), part.exit_code))
            }
            _ => None,
        };
        self.state(terminal).content.iter().filter_map(command).collect()
    }

    /// Returns the exit code of the shell, if it has ended.
    pub fn exit_code(&self, terminal: &str) -> Option<Option<i64>> {
        match &self.state(terminal).lifecycle {
            TerminalLifecycleState::Exited(exited) => Some(exited.exit_code),
            TerminalLifecycleState::Running(_) => None,
        }
    }

    pub fn listed_terminals(&self) -> Vec<String> {
        self.root.terminals.iter().flatten().map(|info| info.resource.clone()).collect()
    }
}
