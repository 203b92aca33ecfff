//! Reports about finished requests: to observers and in the metrics.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use hostler_gateway::{
    FinishedRequest, Gateway, GatewayConfig, ObservedRequest, RequestObserver, RequestOutcome, Upstreams,
};
use hostler_gateway_scripted::ScriptedUpstream;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use crate::support::{client, error, lease, request};

#[derive(Default)]
struct FinishedRequestLog {
    finished: Mutex<Vec<FinishedRequest>>,
    count: watch::Sender<usize>,
}

impl FinishedRequestLog {
    async fn after(&self, count: usize) -> FinishedRequest {
        self.count.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
        self.finished.lock().unwrap()[count - 1].clone()
    }
}

impl RequestObserver for FinishedRequestLog {
    fn observe(&self, _: ObservedRequest) {}

    fn observe_finished(&self, request: &FinishedRequest) {
        self.finished.lock().unwrap().push(request.clone());
        self.count.send_modify(|count| *count += 1);
    }
}

async fn start(diagnostics: bool) -> (Gateway, Arc<FinishedRequestLog>) {
    let ledger = Arc::new(FinishedRequestLog::default());
    let config = GatewayConfig {
        observer: Some(ledger.clone()),
        diagnostics_endpoints: diagnostics,
        ..GatewayConfig::new(Upstreams::single(Arc::new(ScriptedUpstream)))
    };
    (Gateway::start(config).await.unwrap(), ledger)
}

#[tokio::test]
async fn every_outcome_is_reported_once() {
    let (gateway, ledger) = start(false).await;
    let registration = gateway.register(lease());
    let post = |text: &str, stream: bool| {
        let url = format!("{}/v1/messages?beta=true", gateway.base_url());
        client().post(url).bearer_auth(registration.bearer().expose_secret()).body(request(text, stream)).send()
    };

    post("hi", false).await.unwrap().bytes().await.unwrap();
    let whole = ledger.after(1).await;
    assert_eq!((whole.status, whole.outcome, whole.time_to_first_event), (Some(200), RequestOutcome::Completed, None));
    assert_eq!((whole.method.as_str(), whole.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!((whole.lease.as_deref(), whole.upstream.as_deref()), (Some(registration.id()), Some("scripted")));
    assert_eq!(whole.model.as_deref(), Some("claude-sonnet-4-5"));
    assert!(whole.tokens.input > 0 && whole.tokens.output > 0);

    post("hi", true).await.unwrap().bytes().await.unwrap();
    let streamed = ledger.after(2).await;
    assert_eq!((streamed.status, streamed.outcome), (Some(200), RequestOutcome::Completed));
    assert!(streamed.time_to_first_event.unwrap() <= streamed.duration);
    assert_eq!(streamed.tokens.output, whole.tokens.output);

    error(post("!error 529", true).await.unwrap()).await;
    let refused = ledger.after(3).await;
    assert_eq!((refused.status, refused.outcome), (Some(529), RequestOutcome::Failed));

    post("!deltas 3\n!cut", true).await.unwrap().bytes().await.unwrap();
    assert_eq!(ledger.after(4).await.outcome, RequestOutcome::StreamInterrupted);

    let mut left = post("!deltas 3\n!hang", true).await.unwrap().bytes_stream();
    left.next().await.unwrap().unwrap();
    drop(left);
    let left = ledger.after(5).await;
    assert_eq!((left.status, left.outcome), (Some(200), RequestOutcome::ClientDisconnected));

    let rejected = client().get(format!("{}/v1/models", gateway.base_url())).send().await.unwrap();
    assert_eq!(rejected.status(), 401);
    let observed = ledger.after(6).await;
    assert_eq!((observed.lease, observed.status, observed.outcome), (None, Some(401), RequestOutcome::Failed));
    gateway.stop().await;
    assert_eq!(gateway.requests_in_flight(), 0);
    assert_eq!(ledger.finished.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn metrics_and_health_are_served_only_if_enabled() {
    let (gateway, ledger) = start(true).await;
    let registration = gateway.register(lease());
    let get = async |path: &str| {
        let response = client().get(format!("{}{path}", gateway.base_url())).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(get("/healthz").await, (200, "ok\n".to_owned()));
    let url = format!("{}/v1/messages", gateway.base_url());
    let sent = client().post(url).bearer_auth(registration.bearer().expose_secret()).body(request("hi", true));
    sent.send().await.unwrap().bytes().await.unwrap();
    ledger.after(1).await;
    let (_, text) = get("/metrics").await;
    for line in [
        "# TYPE hostler_gateway_requests_total counter",
        r#"hostler_gateway_requests_total{upstream="scripted",status="200",ending="answered"} 1"#,
        "hostler_gateway_requests_in_flight 0",
        "hostler_gateway_first_event_seconds_count 1",
        r#"hostler_gateway_request_seconds_bucket{le="+Inf"} 1"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    assert!(text.contains(r#"hostler_gateway_tokens_total{upstream="scripted",kind="output"} "#), "{text}");
    gateway.stop().await;

    let (quiet, _) = start(false).await;
    for path in ["/metrics", "/healthz"] {
        assert_eq!(client().get(format!("{}{path}", quiet.base_url())).send().await.unwrap().status(), 401);
    }
    quiet.stop().await;
}
