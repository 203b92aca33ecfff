//! Selection of upstreams, translation of model ids, and model lists.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use hostler_gateway::{
    AnthropicUpstream, BetaPolicy, Gateway, GatewayConfig, Lease, NamedUpstream, UnknownModelPolicy, Upstream,
    UpstreamCapabilities, UpstreamError, UpstreamModel, UpstreamRequest, UpstreamResponse, UpstreamResponseBody,
    Upstreams,
};
use hostler_gateway_scripted::ScriptedUpstream;
use http::HeaderMap;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::support::{Fixture, Reply, TestUpstream, client, error, event, events, short_message, string};

/// An upstream with a model list, which answers with its own ids and records requests.
struct ListingUpstream {
    models: Mutex<Result<Vec<&'static str>, ()>>,
    capabilities: UpstreamCapabilities,
    asked: Mutex<Vec<UpstreamRequest>>,
    lists: Mutex<usize>,
}

impl ListingUpstream {
    fn new(models: &[&'static str], unknown_models: UnknownModelPolicy) -> Arc<Self> {
        let capabilities = UpstreamCapabilities { betas: BetaPolicy::Allowed, unknown_models };
        Arc::new(Self {
            models: Mutex::new(Ok(models.to_vec())),
            capabilities,
            asked: Mutex::default(),
            lists: Mutex::default(),
        })
    }

    fn broken() -> Arc<Self> {
        let lister = Self::new(&[], UnknownModelPolicy::RejectIfListKnown);
        *lister.models.lock().unwrap() = Err(());
        lister
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|call| call.model.clone()).collect()
    }
}

impl Upstream for ListingUpstream {
    fn kind(&self) -> &'static str {
        "lister"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        self.capabilities
    }

    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(body["model"], *call.model, "the body names the same model as the call");
        let message = json!({"id": "m", "model": call.model, "content": [], "usage": {"input_tokens": 1}});
        let body = if call.stream {
            let start = event("message_start", json!({"message": message}));
            let chunks = vec![start, event("message_stop", json!({}))];
            UpstreamResponseBody::Events(stream::iter(chunks.into_iter().map(Ok)).boxed())
        } else {
            UpstreamResponseBody::Whole(message.to_string().into())
        };
        self.asked.lock().unwrap().push(call);
        std::future::ready(Ok(UpstreamResponse { headers: HeaderMap::new(), body })).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        *self.lists.lock().unwrap() += 1;
        let model = |id: &str| UpstreamModel {
            id: id.to_owned(),
            name: id.to_uppercase(),
            context_window: Some(1_000),
            max_output: None,
            vision: None,
        };
        let listed = match &*self.models.lock().unwrap() {
            Ok(ids) => Ok(ids.iter().map(|id| model(id)).collect()),
            Err(()) => Err(UpstreamError::TimedOut),
        };
        std::future::ready(listed).boxed()
    }
}

fn named(name: &str, upstream: Arc<dyn Upstream>) -> NamedUpstream {
    NamedUpstream { name: name.to_owned(), upstream }
}

fn request(model: &str, stream: bool) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}).to_string()
}

async fn get(fixture: &Fixture, path: &str) -> reqwest::Response {
    fixture.client.get(fixture.url(path)).bearer_auth(fixture.bearer()).send().await.unwrap()
}

async fn ids(fixture: &Fixture) -> Vec<String> {
    let page: Value = serde_json::from_slice(&get(fixture, "/v1/models").await.bytes().await.unwrap()).unwrap();
    page["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn model_ids_are_mapped_in_requests_and_in_both_forms_of_responses() {
    let upstream = ListingUpstream::new(&["claude-sonnet-4.5", "claude-opus-4.6"], UnknownModelPolicy::Reject);
    let fixture = Fixture::with(upstream.clone()).await;
    for asked in ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4.5"] {
        let whole = fixture.post(request(asked, false)).await;
        assert_eq!(whole.status(), 200);
        let whole: Value = serde_json::from_slice(&whole.bytes().await.unwrap()).unwrap();
        assert_eq!(whole["model"], "claude-sonnet-4-5");
        let streamed = events(fixture.post(request(asked, true)).await).await;
        assert_eq!(streamed[0].1["message"]["model"], "claude-sonnet-4-5");
        assert_eq!(streamed[1].0, "message_stop");
    }
    assert_eq!(upstream.asked(), ["claude-sonnet-4.5"; 6]);
    assert_eq!(*upstream.lists.lock().unwrap(), 1, "the list is asked for once");
}

#[tokio::test]
async fn renaming_the_first_event_leaves_the_rest_of_its_chunk_unchanged() {
    let start = event("message_start", json!({"message": {"id": "m", "model": "claude-sonnet-4.5"}}));
    let mut chunk = b": a comment\n\n".to_vec();
    chunk.extend_from_slice(&start);
    short_message()[1..].iter().for_each(|event| chunk.extend_from_slice(event));
    let upstream = TestUpstream::start([Reply::events(vec![Bytes::from(chunk.clone())])]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let got = fixture.stream("hi").await.text().await.unwrap();
    let sent = String::from_utf8(chunk).unwrap();
    assert_eq!(got, sent.replace("claude-sonnet-4.5", "claude-sonnet-4-5"));
}

#[tokio::test]
async fn an_unlisted_model_is_not_found_without_a_call() {
    for unknown in [UnknownModelPolicy::Reject, UnknownModelPolicy::RejectIfListKnown] {
        let upstream = ListingUpstream::new(&["claude-sonnet-4.5"], unknown);
        let fixture = Fixture::with(upstream.clone()).await;
        fixture.gateway.refresh_models().await;
        let (status, kind, message) = error(fixture.post(request("claude-haiku-4-5", true)).await).await;
        assert_eq!((status, kind.as_str()), (404, "not_found_error"));
        assert!(message.contains("claude-haiku-4-5") && message.contains("lister"), "{message}");
        assert!(upstream.asked().is_empty());
        assert_eq!(fixture.registration.usage().requests, 0);
    }
}

#[tokio::test]
async fn without_a_list_a_model_is_forwarded_or_rejected_by_policy() {
    let lenient = ListingUpstream::broken();
    let fixture = Fixture::with(lenient.clone()).await;
    assert_eq!(fixture.post(request("anything-goes", false)).await.status(), 200);
    assert_eq!(lenient.asked(), ["anything-goes"]);
    assert_eq!(*lenient.lists.lock().unwrap(), 0, "no message waits for a list that was not requested");

    let strict = ListingUpstream::new(&[], UnknownModelPolicy::Reject);
    *strict.models.lock().unwrap() = Err(());
    let fixture = Fixture::with(strict.clone()).await;
    assert_eq!(error(fixture.post(request("claude-sonnet-4-5", false)).await).await.0, 504);
    assert!(strict.asked().is_empty());
    // The next request fetches the list again.
    *strict.models.lock().unwrap() = Ok(vec!["claude-sonnet-4.5"]);
    assert_eq!(fixture.post(request("claude-sonnet-4-5", false)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_fetched_again_when_it_is_old_or_lacks_a_model() {
    let upstream = ListingUpstream::new(&["claude-sonnet-4.5"], UnknownModelPolicy::Reject);
    let gateway = Gateway::start(GatewayConfig::new(Upstreams::single(upstream.clone()))).await.unwrap();
    let count = || *upstream.lists.lock().unwrap();
    let minutes = |minutes: u64| tokio::time::advance(std::time::Duration::from_secs(60 * minutes));
    gateway.refresh_models().await;
    minutes(20).await;
    gateway.refresh_models().await;
    assert_eq!(count(), 1);
    minutes(11).await;
    *upstream.models.lock().unwrap() = Ok(vec!["claude-sonnet-4.5", "claude-opus-5"]);
    assert_eq!(gateway.refresh_models().await.len(), 2);
    assert_eq!(count(), 2);
    // A list that cannot be fetched again is still used.
    minutes(60).await;
    *upstream.models.lock().unwrap() = Err(());
    assert_eq!(gateway.refresh_models().await.len(), 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_bearer_reaches_the_upstream_of_its_lease_and_no_other() {
    let (first, second) = (
        ListingUpstream::new(&["claude-sonnet-4.5"], UnknownModelPolicy::Reject),
        ListingUpstream::new(&["gpt-5"], UnknownModelPolicy::Reject),
    );
    let upstreams = Upstreams::new(vec![named("first", first.clone()), named("second", second.clone())]).unwrap();
    let config = GatewayConfig { accept_unregistered: true, ..GatewayConfig::new(upstreams) };
    let gateway = Gateway::start(config).await.unwrap();
    let lease = |upstream: Option<&str>| {
        let upstream = upstream.map(str::to_owned);
        gateway.register(Lease { session: "s".to_owned(), chat: "c".to_owned(), upstream })
    };
    let (plain, bound, lost) = (lease(None), lease(Some("second")), lease(Some("gone")));
    let bearer = |registration: &hostler_gateway::Registration| registration.bearer().expose_secret().to_owned();
    let (plain, bound, lost) = (bearer(&plain), bearer(&bound), bearer(&lost));
    let unregistered = format!("{}.unregistered", gateway.nonce().expose_secret());
    for (bearer, model, status) in [
        (&plain, "claude-sonnet-4-5", 200),
        (&plain, "@first:claude-sonnet-4-5", 200),
        (&plain, "@second:gpt-5", 403),
        (&plain, "gpt-5", 404),
        (&plain, "@unknown:gpt-5", 403),
        (&bound, "gpt-5", 200),
        (&bound, "@second:gpt-5", 200),
        (&bound, "@first:claude-sonnet-4-5", 403),
        (&lost, "gpt-5", 404),
        (&lost, "@first:claude-sonnet-4-5", 404),
        (&unregistered, "claude-sonnet-4-5", 200),
        (&unregistered, "@second:gpt-5", 200),
        (&unregistered, "@unknown:gpt-5", 404),
    ] {
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let url = format!("{}{path}", gateway.base_url());
            let sent = client().post(url).bearer_auth(bearer).body(request(model, false)).send().await.unwrap();
            let status = if path.ends_with("count_tokens") && status == 200 { 501 } else { status };
            assert_eq!(sent.status().as_u16(), status, "{model} {path}");
        }
    }
    assert_eq!(first.asked(), ["claude-sonnet-4.5"; 3]);
    assert_eq!(second.asked(), ["gpt-5"; 3]);

    let listed = async |bearer: &str| {
        let url = format!("{}/v1/models", gateway.base_url());
        let page = client().get(url).bearer_auth(bearer).send().await.unwrap().bytes().await.unwrap();
        let page: Value = serde_json::from_slice(&page).unwrap();
        page["data"].as_array().unwrap().iter().map(|model| string(&model["id"])).collect::<Vec<_>>()
    };
    assert_eq!(listed(&plain).await, ["claude-sonnet-4-5"]);
    assert_eq!(listed(&bound).await, ["gpt-5"]);
    assert_eq!(listed(&unregistered).await, ["claude-sonnet-4-5", "@second:gpt-5"]);
    gateway.stop().await;
}

#[tokio::test]
async fn model_lists_are_merged_and_a_failing_upstream_hides_only_itself() {
    let upstreams = vec![
        named("main", ListingUpstream::new(&["claude-sonnet-4.5", "gpt-5"], UnknownModelPolicy::Reject)),
        named("broken", ListingUpstream::broken()),
        named("other", ListingUpstream::new(&["claude-opus-4.6"], UnknownModelPolicy::Reject)),
    ];
    let fixture = Fixture::unregistered(Upstreams::new(upstreams).unwrap()).await;
    assert_eq!(ids(&fixture).await, ["claude-sonnet-4-5", "gpt-5", "@other:claude-opus-4-6"]);
    let page: Value = serde_json::from_slice(&get(&fixture, "/v1/models").await.bytes().await.unwrap()).unwrap();
    assert_eq!((&page["has_more"], &page["first_id"]), (&json!(false), &json!("claude-sonnet-4-5")));
    assert_eq!(page["last_id"], "@other:claude-opus-4-6");
    assert_eq!(page["data"][0]["type"], "model");
    assert_eq!(page["data"][0]["display_name"], "CLAUDE-SONNET-4.5");

    for (asked, found) in [
        ("claude-sonnet-4-5", Some("claude-sonnet-4-5")),
        ("claude-sonnet-4.5", Some("claude-sonnet-4-5")),
        ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
        ("%40other%3Aclaude-opus-4-6", Some("@other:claude-opus-4-6")),
        ("claude-opus-4-6", None),
        ("nonsense", None),
        ("%FF", None),
    ] {
        let response = get(&fixture, &format!("/v1/models/{asked}")).await;
        match found {
            Some(id) => {
                let model: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
                assert_eq!(model["id"], id, "{asked}");
            }
            None => assert_eq!(error(response).await.0, 404, "{asked}"),
        }
    }
}

#[tokio::test]
async fn an_upstream_without_a_list_offers_the_bundled_models() {
    let fixture = Fixture::with(ListingUpstream::broken()).await;
    assert_eq!(ids(&fixture).await[0], "claude-sonnet-4-5");
}

#[tokio::test]
async fn betas_are_filtered_for_upstreams_with_an_allow_list() {
    let upstream = ListingUpstream::new(&["m"], UnknownModelPolicy::Forward);
    let fixture = Fixture::with(upstream.clone()).await;
    let sent = fixture
        .client
        .post(fixture.url("/v1/messages"))
        .bearer_auth(fixture.bearer())
        .header("anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14")
        .body(request("m", false));
    assert_eq!(sent.send().await.unwrap().status(), 200);
    assert_eq!(upstream.asked.lock().unwrap()[0].betas, ["interleaved-thinking-2025-05-14"]);
}

#[tokio::test]
async fn tokens_are_counted_by_upstreams_that_support_it() {
    let upstream = TestUpstream::start([Reply::Whole(200, &[], r#"{"input_tokens":42}"#.to_owned())]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let count = |fixture: &Fixture| {
        let url = fixture.url("/v1/messages/count_tokens?beta=true");
        fixture.client.post(url).bearer_auth(fixture.bearer()).body(request("m", false)).send()
    };
    let counted: Value = serde_json::from_slice(&count(&fixture).await.unwrap().bytes().await.unwrap()).unwrap();
    assert_eq!(counted, json!({"input_tokens": 42}));
    assert_eq!(upstream.received()[0].path, "/base/v1/messages/count_tokens?beta=true");

    let scripted = Fixture::scripted().await;
    assert_eq!(count(&scripted).await.unwrap().status(), 200);
    let unable = Fixture::with(ListingUpstream::new(&["m"], UnknownModelPolicy::Forward)).await;
    let (status, kind, _) = error(count(&unable).await.unwrap()).await;
    assert_eq!((status, kind.as_str()), (501, "api_error"));
}

#[tokio::test]
async fn all_pages_of_a_model_list_are_fetched() {
    let page = |ids: [&str; 2], more: bool| {
        let data = ids.map(|id| json!({"type": "model", "id": id, "display_name": id, "max_input_tokens": 200_000}));
        Reply::Whole(200, &[], json!({"data": data, "has_more": more, "last_id": ids[1]}).to_string())
    };
    let upstream = TestUpstream::start([page(["a", "b"], true), page(["c", "d"], false)]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let models = fixture.gateway.refresh_models().await;
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!(models[0].context_window, Some(200_000));
    let paths: Vec<String> = upstream.received().into_iter().map(|received| received.path).collect();
    assert_eq!(paths, ["/base/v1/models?limit=1000", "/base/v1/models?limit=1000&after_id=b"]);
}

#[tokio::test]
async fn replacing_upstreams_does_not_affect_running_streams() {
    let (chunks, reply) = Reply::stream();
    let old = TestUpstream::start([reply]).await;
    let old_upstream: Arc<dyn Upstream> = Arc::new(AnthropicUpstream::new(old.config()));
    let fixture = Fixture::with(old_upstream).await;
    let mut message = short_message().into_iter();
    chunks.send(Ok(message.next().unwrap())).await.unwrap();
    let running = fixture.stream("hi").await;

    fixture.gateway.set_upstreams(Upstreams::single(Arc::new(ScriptedUpstream)));
    assert_eq!(fixture.whole("hello").await.status(), 200, "new requests go to the new upstream");
    for event in message {
        chunks.send(Ok(event)).await.unwrap();
    }
    drop(chunks);
    assert_eq!(events(running).await.last().unwrap().0, "message_stop");
    assert_eq!(old.received().len(), 1);
}

#[tokio::test]
async fn model_lists_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = async |upstream: Arc<ListingUpstream>| {
        let upstreams = Upstreams::single(upstream);
        let config = GatewayConfig { state_dir: Some(dir.path().to_owned()), ..GatewayConfig::new(upstreams) };
        Gateway::start(config).await.unwrap()
    };
    let gateway = start(ListingUpstream::new(&["claude-opus-4.6"], UnknownModelPolicy::RejectIfListKnown)).await;
    gateway.refresh_models().await;
    gateway.stop().await;

    let offline = ListingUpstream::broken();
    let gateway = start(offline.clone()).await;
    assert_eq!(gateway.models()[0].id, "claude-opus-4-6");
    assert_eq!(*offline.lists.lock().unwrap(), 0);
    gateway.stop().await;

    std::fs::write(dir.path().join("models.json"), "nonsense").unwrap();
    let gateway = start(ListingUpstream::broken()).await;
    assert_eq!(gateway.models()[0].id, "claude-sonnet-4-5", "the bundled list");
    gateway.stop().await;
}

#[tokio::test]
async fn select_model_returns_the_upstream_and_its_capabilities() {
    let test = TestUpstream::start([]).await;
    let upstreams = vec![
        named("main", Arc::new(AnthropicUpstream::new(test.config()))),
        named("local", Arc::new(ScriptedUpstream)),
    ];
    let fixture = Fixture::of(Upstreams::new(upstreams).unwrap()).await;
    let choice = fixture.gateway.select_model("claude-sonnet-4-5");
    assert_eq!((choice.upstream, choice.model.as_str(), choice.supports_web_search), (None, "claude-sonnet-4-5", true));
    let choice = fixture.gateway.select_model("@local:m");
    assert_eq!(
        (choice.upstream.as_deref(), choice.model.as_str(), choice.supports_web_search),
        (Some("local"), "m", false)
    );
    assert!(!fixture.gateway.select_model("@gone:m").supports_web_search);
}
