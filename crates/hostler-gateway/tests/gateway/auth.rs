use std::sync::Arc;

use hostler_gateway::{Gateway, GatewayConfig, ScriptedUpstream, Upstreams};
use secrecy::ExposeSecret;

use crate::support::{Fixture, TestUpstream, client, error, lease, request};

#[tokio::test]
async fn only_a_whole_bearer_of_ours_is_let_in() {
    let upstream = TestUpstream::start([]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    let (nonce, id) = fixture.bearer().split_once('.').unwrap();
    let wrong_nonce = "0".repeat(nonce.len());
    for path in ["/v1/messages", "/v1/messages?beta=true", "/no/such/route", "/v1"] {
        for (header, value) in [
            ("x-none", String::new()),
            ("authorization", format!("Bearer {wrong_nonce}.{id}")),
            ("authorization", format!("Bearer {nonce}")),
            ("authorization", format!("Bearer {nonce}.")),
            ("authorization", format!("Bearer {nonce}.unknown")),
            ("authorization", format!("Basic {nonce}.{id}")),
            ("x-api-key", fixture.bearer().to_owned()),
        ] {
            let sent = fixture.client.post(fixture.url(path)).header(header, &value).body(request("hi", true));
            let (status, kind, message) = error(sent.send().await.unwrap()).await;
            assert_eq!((status, kind.as_str()), (401, "authentication_error"), "{path} {header}: {value}");
            assert!(!message.contains(nonce));
        }
    }
    assert!(upstream.received().is_empty());
    assert!(fixture.log.requests().is_empty());
}

#[tokio::test]
async fn the_root_answers_without_a_bearer() {
    let fixture = Fixture::scripted().await;
    assert_eq!(fixture.client.get(fixture.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(fixture.client.head(fixture.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(fixture.client.post(fixture.url("/")).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_revoked_bearer_is_unknown() {
    let fixture = Fixture::scripted().await;
    let other = fixture.gateway.register(lease());
    let send = |bearer: String| {
        fixture.client.post(fixture.url("/v1/messages")).bearer_auth(bearer).body(request("hi", false)).send()
    };
    let bearer = other.bearer().expose_secret().to_owned();
    assert_eq!(send(bearer.clone()).await.unwrap().status(), 200);
    other.revoke();
    assert_eq!(send(bearer).await.unwrap().status(), 401);
    assert_eq!(fixture.whole("hi").await.status(), 200);
}

#[tokio::test]
async fn any_id_is_served_where_registration_is_not_required() {
    let config =
        GatewayConfig { accept_unregistered: true, ..GatewayConfig::new(Upstreams::only(Arc::new(ScriptedUpstream))) };
    let gateway = Gateway::start(config).await.unwrap();
    let registration = gateway.register(lease());
    let (nonce, _) = registration.bearer().expose_secret().split_once('.').unwrap();
    let send = |bearer: String| {
        client()
            .post(format!("{}/v1/messages", gateway.base_url()))
            .bearer_auth(bearer)
            .body(request("hi", false))
            .send()
    };
    assert_eq!(send(format!("{nonce}.anybody")).await.unwrap().status(), 200);
    assert_eq!(send(format!("{nonce}.")).await.unwrap().status(), 401);
    assert_eq!(send("x.anybody".to_owned()).await.unwrap().status(), 401);
    gateway.stop().await;
}

#[tokio::test]
async fn a_bearer_of_another_gateway_is_refused() {
    let (one, two) = (Fixture::scripted().await, Fixture::scripted().await);
    let sent = one.client.post(one.url("/v1/messages")).bearer_auth(two.bearer()).body(request("hi", false));
    assert_eq!(sent.send().await.unwrap().status(), 401);
}
