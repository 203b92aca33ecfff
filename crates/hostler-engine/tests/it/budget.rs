//! Budgets of a session as clients see them: totals, limits, and a reached budget.

use crate::common::commands;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahp::reducers::{apply_action_to_chat, apply_action_to_session};
use ahp_types::StateAction;
use ahp_types::state::{ChatState, SessionState};
use futures::stream::{self, BoxStream, StreamExt as _};
use hostler_driver::{ApiErrorCategory, DriverEvent, GatewayEndpoint, TurnFailure, TurnOutcome};
use hostler_engine::{
    ChannelState, CreateSession, DEFAULT_CLIENT_ABSENCE_TIMEOUT, Delivery, Dispatch, Engine, EngineConfig, LimitKind,
    LimitReached, LimitWait, ModelGateway, ModelInfo, ModelLease, SessionBudget, SessionBudgetLimits, SessionUsage,
    StoreOptions, Subscriber, default_chat_uri,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStarts, FakeDriver};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

const SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

/// A gateway that the test controls, and that records its calls.
#[derive(Default)]
struct FakeGateway {
    budget: watch::Sender<SessionBudget>,
    limits: watch::Sender<Option<SessionBudgetLimits>>,
    forgotten: Mutex<Vec<String>>,
}

impl ModelGateway for FakeGateway {
    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo {
            id: "m".into(),
            name: "M".into(),
            context_window: None,
            max_output_tokens: None,
            supports_vision: None,
        }]
    }
    fn lease(&self, _session: &str, _chat: &str, model: &str) -> ModelLease {
        let endpoint = GatewayEndpoint { base_url: "http://127.0.0.1:1".into(), bearer: "nonce.id".into() };
        ModelLease::new(endpoint, model.to_owned(), false, ())
    }
    fn to_session_budget(&self, _session: &str) -> Option<SessionBudget> {
        Some(self.budget.borrow().clone())
    }
    fn budget_changes(&self, _session: &str) -> BoxStream<'static, ()> {
        let changes = self.budget.subscribe();
        stream::unfold(changes, |mut changes| async move { changes.changed().await.ok().map(|()| ((), changes)) })
            .boxed()
    }
    fn set_session_limits(&self, _session: &str, limits: SessionBudgetLimits) {
        self.limits.send_replace(Some(limits));
        self.budget.send_modify(|budget| budget.limits = limits);
    }
    fn forget_session(&self, session: &str) {
        self.forgotten.lock().unwrap().push(session.to_owned());
    }
}

fn reached(allowed: u64) -> LimitReached {
    LimitReached {
        kind: LimitKind::Requests,
        host_wide: false,
        used: allowed,
        allowed,
        description: format!("the session's limit of {allowed} requests is reached: {allowed} used"),
        advice: "Raise the session's limit to continue.".to_owned(),
    }
}

fn held(allowed: u64) -> Option<LimitWait> {
    Some(LimitWait { limit: reached(allowed), since: "2026-11-15T08:00:00Z".to_owned() })
}

/// A host, its only session, and a subscribed client.
struct Bed {
    engine: Engine,
    gateway: Arc<FakeGateway>,
    starts: FakeAgentStarts,
    client: Client,
    dir: TempDir,
}

/// A client's state, changed by the protocol's own reducers.
struct Client {
    subscriber: Subscriber,
    deliveries: hostler_engine::Deliveries,
    session: Option<SessionState>,
    chat: Option<ChatState>,
    rejected: Option<String>,
}

impl Client {
    async fn subscribe(engine: &Engine) -> Self {
        let (subscriber, deliveries) = Subscriber::new(10_000);
        let mut client = Self { subscriber, deliveries, session: None, chat: None, rejected: None };
        for channel in [SESSION.to_owned(), default_chat_uri(SESSION)] {
            engine.subscribe(&channel, &client.subscriber, 1).await.unwrap();
        }
        client.until(|client| client.session.is_some() && client.chat.is_some()).await;
        client
    }

    /// Applies deliveries until the condition holds.
    async fn until(&mut self, content: impl Fn(&Self) -> bool) {
        while !content(self) {
            let wait = tokio::time::timeout(Duration::from_secs(60), self.deliveries.recv()).await;
            let delivery = wait.unwrap_or_else(|_| panic!("nothing more came: {:#?}\n{:#?}", self.session, self.chat));
            match delivery.expect("the broadcaster is alive") {
                Delivery::Snapshot { snapshot, .. } => match snapshot.state {
                    ChannelState::Chat(chat) => self.chat = Some((*chat).clone()),
                    ChannelState::Session(session) => self.session = Some((*session).clone()),
                    _ => {}
                },
                Delivery::Envelope(item) if item.rejection.is_some() => {
                    self.rejected = item.rejection.as_ref().map(|rejection| rejection.message.clone())
                }
                Delivery::Envelope(item) if *item.channel == *SESSION => {
                    apply_action_to_session(self.session.as_mut().unwrap(), &item.action);
                }
                Delivery::Envelope(item) => {
                    apply_action_to_chat(self.chat.as_mut().unwrap(), &item.action);
                }
                Delivery::Notification(_) | Delivery::Replay { .. } | Delivery::TurnsLoaded { .. } => {}
            }
        }
    }

    /// The value of `hostler` in the session's `_meta`.
    fn meta(&self) -> Value {
        let meta = self.session.as_ref().unwrap().meta.as_ref();
        meta.and_then(|meta| meta.get("hostler")).cloned().unwrap_or_default()
    }

    fn activity(&self) -> Option<&str> {
        self.chat.as_ref().unwrap().activity.as_deref()
    }

    /// The turns, completed and running, as JSON.
    fn turns(&self) -> Value {
        let chat = self.chat.as_ref().unwrap();
        json!({"ended": chat.turns, "running": chat.active_turn})
    }
}

async fn host(dir: &Path, gateway: &Arc<FakeGateway>) -> (Engine, FakeAgentStarts) {
    let (driver, starts) = FakeDriver::new();
    let config = EngineConfig {
        store: StoreOptions::new(dir),
        drivers: vec![driver],
        gateway: Arc::<FakeGateway>::clone(gateway),
        // No session may work in the state directory.
        default_directory: dir.parent().unwrap().to_owned(),
        grant_policy: hostler_engine::GrantPolicy::default(),
        session_roots: hostler_engine::SessionRoots::default(),
        interrupt_grace: Duration::from_millis(50),
        background_on_stop: hostler_engine::BackgroundOnStop::default(),
        max_queued_messages: hostler_engine::DEFAULT_MAX_QUEUED_MESSAGES,
        turns_in_memory: hostler_engine::DEFAULT_TURNS_IN_MEMORY,
        permissions: hostler_engine::PermissionConfig::default(),
        client_absence_timeout: DEFAULT_CLIENT_ABSENCE_TIMEOUT,
        clock: Arc::new(hostler_engine::SystemClock::default()),
        agent_pool: hostler_engine::AgentPoolConfig::default(),
        attachment_limits: hostler_engine::AttachmentLimits::default(),
        command_runner: Arc::new(commands::PlainCommands),
        allow_shell_commands: true,
        terminals: None,
        session_defaults: Default::default(),
        external_session_filter: None,
        enable_search: false,
        trust: hostler_engine::TrustOptions::default(),
    };
    (Engine::start(config).await.unwrap(), starts)
}

impl Bed {
    async fn start(config: Value) -> Self {
        let dir = TempDir::new().unwrap();
        let gateway = Arc::new(FakeGateway::default());
        let (engine, starts) = host(dir.path(), &gateway).await;
        let config = config.as_object().cloned();
        let request = CreateSession { uri: SESSION.into(), config, ..CreateSession::default() };
        engine.create_session(request).unwrap();
        let client = Client::subscribe(&engine).await;
        Self { engine, gateway, starts, client, dir }
    }

    /// Starts the session's first turn.
    async fn ask(&mut self) -> FakeAgent {
        self.dispatch(
            &default_chat_uri(SESSION),
            json!({
                "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-11-15T08:00:00.000Z",
                "message": {"text": "hi", "origin": {"kind": "user"}},
            }),
        )
        .await;
        let mut agent = self.starts.next_start().await.succeed();
        assert_eq!(agent.next_prompt().await, "hi");
        agent
    }

    async fn dispatch(&self, channel: &str, action: Value) {
        let action: StateAction = serde_json::from_value(action).unwrap();
        let (client_id, client_seq) = ("me".to_owned(), 0);
        self.engine
            .dispatch(Dispatch {
                client_id,
                client_seq,
                channel: channel.into(),
                action,
                subscriber: None,
                attachment_contents: Default::default(),
                facts: Default::default(),
            })
            .await;
    }

    async fn configure(&self, config: Value) {
        self.dispatch(SESSION, json!({"type": "session/configChanged", "config": config})).await;
    }
}

#[tokio::test]
async fn totals_are_published_during_and_at_the_end_of_a_turn() {
    let mut bed = Bed::start(json!({})).await;
    let agent = bed.ask().await;
    assert_eq!(bed.client.meta(), Value::Null, "nothing is used yet");
    for requests in 1..=20 {
        bed.gateway.budget.send_modify(|budget| {
            budget.usage = SessionUsage {
                requests,
                output_tokens: 100 * requests,
                nanodollars: 500_000_000,
                ..SessionUsage::default()
            };
        });
    }
    bed.client.until(|client| client.meta()["usage"]["requests"] == 20).await;
    bed.gateway.budget.send_modify(|budget| budget.usage.requests = 21);
    agent.emit_answer(1, "hel", "lo").await;
    // Published before any event after the turn's end, however recent the previous publication is.
    bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
    bed.client.until(|client| client.meta()["usage"]["requests"] == 21).await;
    let meta = bed.client.meta();
    assert_eq!((&meta["usage"]["outputTokens"], &meta["usage"]["dollars"]), (&json!(2_000), &json!(0.5)));
    assert_eq!((&meta["limits"], &meta["limitReached"]), (&json!({}), &Value::Null));
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn reached_budget_is_displayed_and_raising_the_limit_continues_the_turn() {
    let mut bed = Bed::start(json!({"limitRequests": 2})).await;
    assert_eq!(bed.gateway.limits.borrow().unwrap().requests, Some(2));
    let agent = bed.ask().await;
    bed.gateway.budget.send_modify(|budget| (budget.usage.requests, budget.waiting_for) = (2, held(2)));
    bed.client.until(|client| client.activity().is_some_and(|text| text.starts_with("Budget reached"))).await;
    bed.client.until(|client| client.meta()["limitReached"]["limit"] == "requests").await;
    let meta = bed.client.meta();
    assert_eq!((&meta["limitReached"]["used"], &meta["limitReached"]["allowed"]), (&json!(2), &json!(2)));
    assert_eq!(meta["limits"], json!({"requests": 2}));
    let running = bed.client.turns()["running"].to_string();
    assert_eq!(running.matches("Budget reached: the session's limit of 2 requests").count(), 1, "{running}");

    // A second request of the same turn waits for the same limit: no second note.
    bed.gateway.budget.send_modify(|budget| budget.waiting_for.as_mut().unwrap().since.push_str(" later"));
    bed.client.until(|client| client.meta()["limitReached"]["since"].as_str().unwrap().ends_with("later")).await;
    assert_eq!(bed.client.turns()["running"].to_string().matches("Budget reached").count(), 1);

    bed.configure(json!({"limitRequests": 5})).await;
    bed.gateway.limits.subscribe().wait_for(|limits| limits.unwrap().requests == Some(5)).await.unwrap();
    bed.gateway.budget.send_modify(|budget| (budget.usage.requests, budget.waiting_for) = (3, None));
    bed.client.until(|client| client.activity().is_none() && client.meta()["limitReached"].is_null()).await;
    assert_eq!(bed.client.meta()["limits"], json!({"requests": 5}));
    agent.emit_answer(1, "hel", "lo").await;
    bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
    assert_eq!(bed.client.turns()["ended"][0]["state"], "complete");
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn temporary_wait_is_an_activity_without_a_note() {
    let mut bed = Bed::start(json!({})).await;
    let agent = bed.ask().await;
    let busy = LimitReached { kind: LimitKind::Concurrent, description: "too busy".to_owned(), ..reached(1) };
    let since = "2026-11-15T08:00:00Z".to_owned();
    bed.gateway.budget.send_modify(|budget| budget.waiting_for = Some(LimitWait { limit: busy, since }));
    bed.client.until(|client| client.activity() == Some("Waiting: too busy")).await;
    bed.gateway.budget.send_modify(|budget| budget.waiting_for = None);
    bed.client.until(|client| client.activity().is_none()).await;
    agent.emit_answer(1, "hel", "lo").await;
    bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
    assert!(!bed.client.turns().to_string().contains("too busy"));
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn cancelled_waiting_turn_clears_its_activity() {
    let mut bed = Bed::start(json!({})).await;
    let _agent = bed.ask().await;
    bed.gateway.budget.send_modify(|budget| budget.waiting_for = held(0));
    bed.client.until(|client| client.activity().is_some_and(|text| text.starts_with("Budget reached"))).await;
    let cancel = json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 5});
    bed.dispatch(&default_chat_uri(SESSION), cancel).await;
    bed.client.until(|client| client.activity().is_none()).await;
    bed.gateway.budget.send_modify(|budget| budget.waiting_for = None);
    bed.client.until(|client| client.meta()["limitReached"].is_null()).await;
    assert_eq!(bed.client.turns()["ended"][0]["state"], "cancelled");
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn unraised_budget_fails_the_turn_with_instructions() {
    let failed = TurnFailure { category: ApiErrorCategory::RateLimit, message: "API Error".into(), status: Some(429) };
    let retrying = DriverEvent::Retrying {
        attempt: 1,
        max_attempts: 10,
        delay: Duration::from_secs(1),
        status: Some(429),
        category: ApiErrorCategory::RateLimit,
    };
    for event in [DriverEvent::TurnEnded(TurnOutcome::Failed(failed.clone())), retrying] {
        let mut bed = Bed::start(json!({})).await;
        let agent = bed.ask().await;
        bed.gateway.budget.send_modify(|budget| budget.refused_by = Some(reached(2)));
        agent.emit(event).await;
        bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
        let turn = bed.client.turns()["ended"][0].to_string();
        assert!(turn.contains("\"limit\"") && turn.contains("limit of 2 requests is reached"), "{turn}");
        assert!(turn.contains("Raise the session's limit to continue. Then send a message"), "{turn}");
        bed.engine.shutdown().await;
    }
    // A provider's own rejection is unchanged.
    let mut bed = Bed::start(json!({})).await;
    let agent = bed.ask().await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Failed(failed))).await;
    bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
    assert!(bed.client.turns()["ended"][0].to_string().contains("\"rateLimit\""));
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_limits_are_rejected_with_a_reason() {
    let mut bed = Bed::start(json!({})).await;
    for (config, reason) in [
        (json!({"limitTokens": -5}), "limitTokens cannot be -5; use a whole number"),
        (json!({"limitDollars": "two"}), "limitDollars cannot be \"two\"; use an amount of dollars"),
    ] {
        bed.configure(config).await;
        bed.client.until(|client| client.rejected.as_ref().is_some_and(|why| why.starts_with(reason))).await;
    }
    assert_eq!(*bed.gateway.limits.borrow(), None);
    bed.engine.shutdown().await;
}

#[tokio::test]
async fn limits_and_totals_survive_a_restart_and_end_with_the_session() {
    let mut bed = Bed::start(json!({"limitTokens": 500, "limitDollars": 1.5})).await;
    let agent = bed.ask().await;
    bed.gateway.budget.send_modify(|budget| (budget.usage.requests, budget.waiting_for) = (4, held(4)));
    bed.client.until(|client| !client.meta()["limitReached"].is_null()).await;
    agent.emit_answer(1, "hel", "lo").await;
    bed.client.until(|client| client.chat.as_ref().unwrap().turns.len() == 1).await;
    bed.engine.shutdown().await;

    // A new gateway that has the totals; nothing waits there.
    let gateway = Arc::new(FakeGateway::default());
    gateway.budget.send_modify(|budget| budget.usage.requests = 4);
    let (engine, _starts) = host(bed.dir.path(), &gateway).await;
    let mut client = Client::subscribe(&engine).await;
    client.until(|client| client.meta()["limitReached"].is_null()).await;
    assert_eq!(client.meta()["usage"]["requests"], 4);
    let limits = SessionBudgetLimits { tokens: Some(500), nanodollars: Some(1_500_000_000), requests: None };
    assert_eq!(*gateway.limits.borrow(), Some(limits));
    engine.dispose_session(SESSION).await.unwrap();
    assert_eq!(*gateway.forgotten.lock().unwrap(), [SESSION]);
    engine.shutdown().await;
}
