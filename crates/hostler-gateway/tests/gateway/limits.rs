//! Limits and the ledger over HTTP, including restarts and `kill -9`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future;
use hostler_gateway::{
    Dollars, Gateway, GatewayConfig, GatewayError, GatewayLimits, Lease, LedgerError, LimitMetric, ModelPrice,
    OverLimitPolicy, PriceList, Registration, SessionLimits, SessionUsageStatus, Upstreams, UsageBudget, UsageTotals,
};
use hostler_gateway_scripted::ScriptedUpstream;
use secrecy::ExposeSecret;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Reply, TestUpstream, client, error, lease, request, short_message};

const SESSION: &str = "claude:/one";

fn config() -> GatewayConfig {
    GatewayConfig::new(Upstreams::single(Arc::new(ScriptedUpstream)))
}

fn stored_in(dir: &Path) -> GatewayConfig {
    GatewayConfig { state_dir: Some(dir.to_owned()), ..config() }
}

/// Limits that allow each session this many requests.
fn requests(count: u64) -> GatewayLimits {
    let total = UsageBudget { requests: Some(count), ..UsageBudget::default() };
    GatewayLimits { session: SessionLimits { total, ..SessionLimits::default() }, ..GatewayLimits::default() }
}

struct Caller {
    gateway: Gateway,
    registration: Registration,
    client: reqwest::Client,
}

impl Caller {
    async fn start(config: GatewayConfig) -> Self {
        let gateway = Gateway::start(config).await.unwrap();
        let registration = gateway.register(lease());
        Self { gateway, registration, client: client() }
    }

    async fn ask(&self, text: &str, stream: bool) -> reqwest::Response {
        self.ask_as(self.registration.bearer().expose_secret(), request(text, stream)).await
    }

    async fn ask_as(&self, bearer: &str, body: String) -> reqwest::Response {
        let url = format!("{}/v1/messages", self.gateway.base_url());
        self.client.post(url).bearer_auth(bearer).body(body).send().await.unwrap()
    }

    fn status(&self) -> SessionUsageStatus {
        *self.registration.status().borrow()
    }

    /// Returns once a request of the session is waiting.
    async fn held(&self) {
        self.registration.status().wait_for(|status| status.waiting.is_some()).await.unwrap();
    }
}

#[tokio::test]
async fn a_request_over_a_budget_is_rejected_at_once_without_a_retry() {
    let caller =
        Caller::start(GatewayConfig { limits: requests(2), over_limit_policy: OverLimitPolicy::Reject, ..config() })
            .await;
    for _ in 0..2 {
        assert_eq!(caller.ask("hi", true).await.status(), 200);
    }
    let refused = caller.ask("hi", true).await;
    assert_eq!(refused.headers()["x-should-retry"], "false");
    assert!(!refused.headers().contains_key("retry-after"));
    let (status, kind, message) = error(refused).await;
    assert_eq!((status, kind.as_str()), (429, "rate_limit_error"));
    assert_eq!(
        message,
        "Limit reached: the session's limit of 2 requests is reached: 2 used. Raise the session's limit to continue."
    );
    assert_eq!(caller.status().totals.requests, 2);
    // Another session has its own budget.
    let other = caller.gateway.register(Lease { session: "claude:/two".to_owned(), ..lease() });
    assert_eq!(caller.ask_as(other.bearer().expose_secret(), request("hi", false)).await.status(), 200);
}

#[tokio::test]
async fn a_request_over_a_temporary_limit_is_rejected_with_retry_after() {
    for limits in [
        GatewayLimits { concurrent: Some(1), ..GatewayLimits::default() },
        GatewayLimits { requests_per_minute: Some(1), ..GatewayLimits::default() },
    ] {
        let caller =
            Caller::start(GatewayConfig { limits, over_limit_policy: OverLimitPolicy::Reject, ..config() }).await;
        let _running = caller.ask("!say a\n!hang", true).await;
        let refused = caller.ask("hi", true).await;
        let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        assert!(!refused.headers().contains_key("x-should-retry"));
        assert_eq!(error(refused).await.0, 429);
    }
}

#[tokio::test]
async fn an_unregistered_caller_has_a_budget_by_its_id() {
    let config = GatewayConfig {
        accept_unregistered: true,
        limits: requests(1),
        over_limit_policy: OverLimitPolicy::Reject,
        ..config()
    };
    let caller = Caller::start(config).await;
    let nonce = caller.registration.bearer().expose_secret().split('.').next().unwrap().to_owned();
    for (id, status) in [("me", 200), ("me", 429), ("you", 200), ("me", 429)] {
        assert_eq!(caller.ask_as(&format!("{nonce}.{id}"), request("hi", false)).await.status(), status, "{id}");
    }
    assert_eq!(caller.gateway.usage_today().requests, 2);
}

#[tokio::test]
async fn counting_tokens_is_limited_like_a_message() {
    let pace = GatewayLimits { requests_per_minute: Some(2), ..GatewayLimits::default() };
    let concurrent = GatewayLimits { concurrent: Some(0), ..GatewayLimits::default() };
    for (limits, allowed) in [(requests(2), 2), (pace, 2), (concurrent, 0)] {
        let caller =
            Caller::start(GatewayConfig { limits, over_limit_policy: OverLimitPolicy::Reject, ..config() }).await;
        let count = || {
            let url = format!("{}/v1/messages/count_tokens", caller.gateway.base_url());
            let bearer = caller.registration.bearer().expose_secret();
            caller.client.post(url).bearer_auth(bearer).body(request("hi", false)).send()
        };
        for _ in 0..allowed {
            assert_eq!(count().await.unwrap().status(), 200);
        }
        let (status, kind, _) = error(count().await.unwrap()).await;
        assert_eq!((status, kind.as_str()), (429, "rate_limit_error"));
        assert_eq!(caller.ask("hi", false).await.status(), 429, "they share their limits");
        assert_eq!(caller.status().totals.requests, allowed);
        assert_eq!(caller.registration.usage().requests, allowed);
    }
}

#[tokio::test]
async fn a_waiting_request_continues_when_the_limit_is_raised() {
    let caller = Caller::start(GatewayConfig { limits: requests(1), ..config() }).await;
    assert_eq!(caller.ask("hi", true).await.status(), 200);
    let (answer, ()) = tokio::join!(caller.ask("hi", true), async {
        caller.held().await;
        let held = caller.status().waiting.unwrap();
        assert_eq!((held.limit.metric, held.limit.used, held.limit.allowed), (LimitMetric::Requests, 1, 1));
        let total = UsageBudget { requests: Some(2), ..UsageBudget::default() };
        caller.gateway.set_session_limits(SESSION, SessionLimits { total, ..SessionLimits::default() });
    });
    assert_eq!(answer.status(), 200);
    assert_eq!((caller.status().totals.requests, caller.status().waiting), (2, None));
}

#[tokio::test]
async fn a_waiting_request_is_rejected_after_the_maximum_wait() {
    let over_limit = OverLimitPolicy::Wait { max_wait: Duration::from_millis(1) };
    let caller = Caller::start(GatewayConfig { limits: requests(0), over_limit_policy: over_limit, ..config() }).await;
    let refused = caller.ask("hi", true).await;
    assert_eq!(refused.headers()["x-should-retry"], "false");
    let (status, kind, message) = error(refused).await;
    assert_eq!((status, kind.as_str()), (429, "rate_limit_error"));
    assert!(message.contains("limit of 0 requests"), "{message}");
}

#[tokio::test]
async fn a_client_that_disconnects_while_waiting_frees_its_slot() {
    let caller = Caller::start(GatewayConfig { limits: requests(0), ..config() }).await;
    {
        let waiting = std::pin::pin!(caller.ask("hi", true));
        future::select(waiting, std::pin::pin!(caller.held())).await;
    }
    let mut status = caller.registration.status();
    // The client's pool retains the connection of a dropped request, so the whole client is dropped.
    drop(caller.client);
    status.wait_for(|status| status.waiting.is_none()).await.unwrap();
    caller.gateway.wait_until_idle().await;
    assert_eq!(status.borrow().totals.requests, 0);
}

#[tokio::test]
async fn stopping_answers_waiting_requests() {
    let caller = Caller::start(GatewayConfig { limits: requests(0), ..config() }).await;
    let (refused, ()) = tokio::join!(caller.ask("hi", true), async {
        caller.held().await;
        caller.gateway.stop().await;
    });
    assert_eq!(error(refused).await.0, 503);
    assert_eq!(caller.status().waiting, None);
}

#[tokio::test]
async fn revoking_a_lease_answers_its_waiting_requests() {
    let caller = Caller::start(GatewayConfig { limits: requests(0), ..config() }).await;
    let other = caller.gateway.register(lease());
    let bearer = other.bearer().expose_secret().to_owned();
    let (refused, ()) = tokio::join!(caller.ask_as(&bearer, request("hi", true)), async {
        caller.held().await;
        other.revoke();
    });
    assert_eq!(error(refused).await.0, 503);
    assert_eq!(caller.status().waiting, None);
}

#[tokio::test]
async fn a_stream_holds_its_slot_until_it_ends() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply, Reply::events(short_message())]).await;
    let anthropic = Arc::new(hostler_gateway::AnthropicUpstream::new(upstream.config()));
    let limits = GatewayLimits { concurrent: Some(1), ..GatewayLimits::default() };
    let config = GatewayConfig { limits, ..GatewayConfig::new(Upstreams::single(anthropic)) };
    let caller = Caller::start(config).await;
    chunks.send(Ok(short_message().swap_remove(0))).await.unwrap();
    let first = caller.ask("hi", true).await;
    let (second, ()) = tokio::join!(caller.ask("hi", true), async {
        caller.held().await;
        assert_eq!(upstream.received().len(), 1);
        drop(first);
    });
    assert_eq!(second.status(), 200);
}

#[tokio::test]
async fn dollars_follow_the_prices_and_tokens_of_unknown_models_are_unpriced() {
    let body = |model: &str| {
        let message = json!({"role": "user", "content": "hi"});
        json!({"model": model, "max_tokens": 100, "messages": [message]}).to_string()
    };
    let caller = Caller::start(GatewayConfig { over_limit_policy: OverLimitPolicy::Reject, ..config() }).await;
    let bearer = caller.registration.bearer().expose_secret();
    assert_eq!(caller.ask_as(bearer, body("a-model-of-mine")).await.status(), 200);
    let unpriced = caller.status().totals;
    assert_eq!(unpriced.dollars, Dollars::ZERO);
    assert!(unpriced.tokens() > 0);
    assert_eq!(unpriced.unpriced_tokens, unpriced.tokens());

    let dollar = Dollars::from_cents(100);
    let price = ModelPrice { cache_read: dollar, cache_write: dollar, ..ModelPrice::new(dollar, dollar) };
    caller.gateway.set_prices(PriceList::bundled().with_price("a-model*", price).unwrap());
    assert_eq!(caller.ask_as(bearer, body("a-model-of-mine")).await.status(), 200);
    let totals = caller.status().totals;
    assert_eq!(totals.unpriced_tokens, unpriced.tokens());
    assert_eq!(totals.dollars.nanos(), (totals.tokens() - unpriced.tokens()) * 1_000);

    let total = UsageBudget { dollars: Some(totals.dollars), ..UsageBudget::default() };
    caller.gateway.set_session_limits(SESSION, SessionLimits { total, ..SessionLimits::default() });
    let (status, _, message) = error(caller.ask_as(bearer, body("a-model-of-mine")).await).await;
    assert_eq!(status, 429);
    assert!(message.contains(&format!("limit of {}", totals.dollars)), "{message}");
}

#[tokio::test]
async fn the_leases_of_a_session_share_its_totals() {
    let caller = Caller::start(config()).await;
    let other = caller.gateway.register(lease());
    caller.ask("hi", false).await;
    caller.ask_as(other.bearer().expose_secret(), request("hi", false)).await;
    assert_eq!(other.usage().requests, 1);
    assert_eq!(other.status().borrow().totals.requests, 2);
    assert_eq!(caller.gateway.session_status(SESSION).borrow().totals, caller.gateway.usage_today());
}

#[tokio::test]
async fn usage_survives_a_restart_and_a_deleted_session_starts_at_zero() {
    let dir = TempDir::new().unwrap();
    let mut used = UsageTotals::default();
    for life in 1..=3 {
        let caller = Caller::start(stored_in(dir.path())).await;
        assert_eq!(caller.status().totals, used);
        caller.ask("planted-prompt", true).await.bytes().await.unwrap();
        used = caller.status().totals;
        assert_eq!(used.requests, life);
        // Every other gateway is dropped without being stopped.
        if life % 2 == 0 {
            caller.gateway.stop().await;
        }
    }
    let ledger = std::fs::read_to_string(dir.path().join("ledger.jsonl")).unwrap();
    assert!(ledger.contains(SESSION) && !ledger.contains("planted-prompt"), "{ledger}");

    let caller = Caller::start(stored_in(dir.path())).await;
    caller.gateway.delete_session_usage(SESSION);
    drop(caller);
    let caller = Caller::start(stored_in(dir.path())).await;
    assert_eq!(caller.status().totals, UsageTotals::default());
    assert_eq!(caller.gateway.usage_today(), used);
}

#[tokio::test]
async fn a_used_up_budget_stays_used_up_after_a_restart() {
    let dir = TempDir::new().unwrap();
    for status in [200, 429] {
        let config =
            GatewayConfig { limits: requests(1), over_limit_policy: OverLimitPolicy::Reject, ..stored_in(dir.path()) };
        assert_eq!(Caller::start(config).await.ask("hi", false).await.status(), status);
    }
}

#[tokio::test]
async fn two_gateways_do_not_share_a_directory() {
    let dir = TempDir::new().unwrap();
    let first = Gateway::start(stored_in(dir.path())).await.unwrap();
    let refused = Gateway::start(stored_in(dir.path())).await.unwrap_err();
    assert!(matches!(refused, GatewayError::Ledger(LedgerError::Locked(_))), "{refused}");
    first.stop().await;
    Gateway::start(stored_in(dir.path())).await.unwrap();
}

/// Environment variable with the child's ledger directory.
const DIR: &str = "HOSTLER_TEST_LEDGER_DIR";

#[tokio::test]
async fn a_killed_gateway_loses_nothing_that_was_written() {
    if let Ok(dir) = std::env::var(DIR) {
        return live_until_killed(Path::new(&dir)).await;
    }
    let dir = TempDir::new().unwrap();
    let (mut previous, mut each) = (0, None);
    for lines in [1, 7, 30] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "limits::a_killed_gateway_loses_nothing_that_was_written", "--nocapture"])
            .env(DIR, dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let counts = output.lines().map_while(Result::ok).filter_map(|line| {
            let (requests, tokens) = line.strip_prefix("used ")?.split_once(' ')?;
            Some((requests.parse().ok()?, tokens.parse().ok()?))
        });
        let (last, tokens): (u64, u64) = counts.take(lines).last().expect("the child printed nothing");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(last > previous, "the usage of earlier processes is lost: {last} after {previous}");

        let gateway = Gateway::start(stored_in(dir.path())).await.unwrap();
        let stored = gateway.session_status(SESSION).borrow().totals;
        assert!(stored.requests >= last, "{} of {last} are stored", stored.requests);
        assert_eq!(stored, gateway.usage_today());
        // It may have counted more between its last output and its end, but nothing twice. A request that the kill
        // interrupted has no tokens, so only the first output of all determines the tokens per request.
        let each = *each.get_or_insert(tokens / last);
        assert_eq!(stored.tokens() % each, 0, "{stored:?}");
        assert!((tokens..=stored.requests * each).contains(&stored.tokens()), "{stored:?}");
        previous = stored.requests;
        gateway.stop().await;
    }
}

/// Sends requests without end, and prints their number once it is written.
#[expect(clippy::print_stdout, reason = "the parent process reads the output")]
async fn live_until_killed(dir: &Path) {
    let caller = Caller::start(stored_in(dir)).await;
    loop {
        caller.ask("hi", false).await.bytes().await.unwrap();
        caller.gateway.wait_until_ledger_written().await;
        let totals = caller.status().totals;
        println!("used {} {}", totals.requests, totals.tokens());
    }
}
