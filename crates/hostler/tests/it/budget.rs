//! Budget that is reached during a turn, with the real Claude Code through the real gateway: the session shows it,
//! a client raises the limit, the turn continues, and usage survives a restart.

use crate::common::{BUILDS, HostProcess, TestHome};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

/// Client and its received events.
struct BudgetClient {
    raw: RawClient,
    /// Last usage of the session.
    last_usage: Value,
    completed: usize,
}

impl BudgetClient {
    async fn connect(host: &HostProcess) -> Self {
        Self { raw: RawClient::connect_and_initialize(&host.url()).await, last_usage: Value::Null, completed: 0 }
    }

    /// Receives until the condition holds.
    async fn wait_until(&mut self, content: impl Fn(&Self) -> bool) {
        while !content(self) {
            let message = self.raw.receive().await.expect("the host hung up");
            let action = &message["params"]["action"];
            match action["type"].as_str() {
                Some("session/metaChanged") => self.last_usage = action["_meta"]["hostler"].clone(),
                Some("chat/turnComplete") => self.completed += 1,
                Some("chat/error") => panic!("the turn failed: {action:#}"),
                _ => {}
            }
        }
    }

    /// Subscribes to the session and its chat; returns the session's state and the chat.
    async fn subscribe(&mut self, session: &str) -> (Value, String) {
        let answer = self.raw.call("subscribe", json!({"channel": session})).await.unwrap();
        let state = answer["snapshot"]["state"].clone();
        let chat = state["defaultChat"].as_str().unwrap().to_owned();
        self.raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        (state, chat)
    }

    fn requests(&self) -> u64 {
        self.last_usage["usage"]["requests"].as_u64().unwrap_or(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_waits_for_its_budget_and_continues_when_a_client_raises_it() {
    for build in BUILDS {
        let home = TestHome::new();
        let host = home.serve(build).await;
        let mut client = BudgetClient::connect(&host).await;
        let session = format!("claude:/{}", Uuid::new_v4());
        let directory = format!("file://{}", home.work().display());
        let config = json!({"limitRequests": 0});
        let create = json!({"channel": session, "workingDirectories": [directory], "config": config});
        client.raw.call("createSession", create).await.unwrap();
        let (_, chat) = client.subscribe(&session).await;
        client.raw.send_message(&chat, "!say enough at last").await;

        client.wait_until(|client| client.last_usage["limitReached"].is_object()).await;
        let held = &client.last_usage["limitReached"];
        assert_eq!((&held["limit"], &held["used"], &held["allowed"]), (&json!("requests"), &json!(0), &json!(0)));

        let change = json!({"type": "session/configChanged", "config": {"limitRequests": 100}});
        let params = json!({"channel": session, "clientSeq": 1_000, "action": change});
        client.raw.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
        client
            .wait_until(|client| {
                client.completed == 1 && client.requests() > 0 && client.last_usage["limitReached"].is_null()
            })
            .await;
        client.wait_until(|client| client.last_usage["usage"]["outputTokens"] != 0).await;
        assert_eq!(client.last_usage["limits"], json!({"requests": 100}), "{build}");
        let used = client.requests();
        let transcript = client.raw.call("subscribe", json!({"channel": chat})).await.unwrap().to_string();
        assert!(transcript.contains("Budget reached: the session's limit of 0 requests"), "{build}: {transcript}");
        assert!(transcript.contains("enough at last"), "{build}: {transcript}");
        host.stop().await;

        let host = home.serve(build).await;
        let mut client = BudgetClient::connect(&host).await;
        let (state, chat) = client.subscribe(&session).await;
        assert_eq!(state["_meta"]["hostler"]["usage"]["requests"], used, "{build}: {state}");
        client.raw.send_message(&chat, "!say and more").await;
        client.wait_until(|client| client.completed == 1 && client.requests() > used).await;
        host.stop().await;
    }
}
