//! Clients sign in for the host: to GitHub, so that Copilot answers.

use crate::common::github_mock::GitHubMock;
use crate::common::{BUILDS, HostProcess, TestHome, list_files, run_to_end, text};
use ahp::client::SubscriptionEvent;
use ahp_types::StateAction;
use ahp_types::notifications::AuthRequiredReason;
use ahp_types::state::{AgentInfo, SnapshotState};
use hostler_testkit::raw_client::RawClient;
use hostler_testkit::test_client::TestClient;
use serde_json::{Value, json};

const ROOT: &str = ahp_types::ROOT_RESOURCE_URI;
const FIRST: &str = "gho-planted-token-of-the-first-client";
const SECOND: &str = "gho-planted-token-of-the-second-client";
const WRONG: &str = "gho-planted-token-that-is-unknown";

async fn serve(home: &TestHome, github: &GitHubMock, build: &str, env: &[(&str, &str)]) -> HostProcess {
    home.write_config(&format!(
        "upstream = 'copilot'\n{}[agent.env]\nCLAUDE_CODE_MAX_RETRIES = \"1\"\n",
        github.upstream_config("copilot")
    ));
    let mut all = vec![("HOSTLER_LOG", "trace"), ("HOSTLER_CREDENTIAL_STORE", "file")];
    all.extend(env);
    home.serve_with(&["--claude", build], &all).await
}

async fn serve_fake(home: &TestHome, github: &GitHubMock, env: &[(&str, &str)]) -> HostProcess {
    let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
    serve(home, github, agent.to_str().unwrap(), env).await
}

/// Returns the resources that the host's state asks clients to sign in to.
async fn asked_for(peer: &TestClient) -> Vec<String> {
    let SnapshotState::Root(root) = peer.subscribe_snapshot(ROOT).await else { panic!("the root's state") };
    resources(&root.agents)
}

fn resources(agents: &[AgentInfo]) -> Vec<String> {
    let protected = agents.iter().flat_map(|agent| agent.protected_resources.iter().flatten());
    protected.map(|resource| resource.resource.clone()).collect()
}

/// Waits until the host asks for that many sign-ins.
async fn until_asked_for(peer: &mut TestClient, count: usize) {
    peer.wait_for(ROOT, |envelope| {
        matches!(&envelope.action, StateAction::RootAgentsChanged(changed) if resources(&changed.agents).len() == count)
    })
    .await;
}

/// Waits until a sign-in is reported as expired.
async fn until_over(peer: &mut TestClient, resource: &str) {
    loop {
        if let SubscriptionEvent::AuthRequired(required) = peer.next_event().await.event {
            assert_eq!((required.channel.as_str(), required.resource.resource.as_str()), (ROOT, resource));
            assert_eq!(required.reason, Some(AuthRequiredReason::Expired));
            return;
        }
    }
}

async fn sign_in(peer: &TestClient, resource: &str, token: &str, seconds: Option<i64>) -> Result<Value, i32> {
    let mut params = json!({"channel": ROOT, "resource": resource, "token": token});
    if let Some(seconds) = seconds {
        params["expiresIn"] = seconds.into();
    }
    let answer: Result<Value, ahp::ClientError> = peer.client.request("authenticate", params).await;
    answer.map_err(|error| match error {
        ahp::ClientError::Rpc(error) => error.code,
        other => panic!("{other:?}"),
    })
}

/// Returns the error of the turn that a message starts.
async fn failure(peer: &mut TestClient, chat: &str, message: &str) -> (String, String) {
    peer.send_message(chat, message).await;
    let envelopes = peer.wait_for_turn_end(chat).await;
    match &envelopes.last().unwrap().action {
        StateAction::ChatError(failed) => (failed.part.error.error_type.clone(), failed.part.error.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_works_with_both_builds_until_the_token_expires_and_after_renewal() {
    for build in BUILDS {
        let home = TestHome::new();
        let github = GitHubMock::start(&[FIRST, SECOND]).await;
        let resource = github.resource();
        let host = serve(&home, &github, build, &[]).await;
        let mut peer = host.connect().await;
        assert_eq!(asked_for(&peer).await, [resource.as_str()], "{build}");
        assert_eq!(sign_in(&peer, &resource, FIRST, None).await, Ok(json!({})));
        until_asked_for(&mut peer, 0).await;
        let uris = peer.create_session(&home.work()).await;
        let answer = peer.send_and_wait(&uris.chat, "hello over there").await;
        assert!(answer.contains("hello over there"), "{build}: {answer}");
        assert!(github.model_request_tokens().iter().all(|token| token == FIRST), "{build}");
        let agent = host.only_agent().pid;

        // GitHub revokes the token during the session: the turn's error explains what to do.
        github.revoke(FIRST);
        let (kind, message) = failure(&mut peer, &uris.chat, "are you there").await;
        assert_eq!(kind, "auth", "{build}: {message}");
        assert!(message.contains("GitHub Copilot") && message.contains("Sign in"), "{build}: {message}");
        assert_eq!(asked_for(&peer).await, [resource.as_str()], "{build}");
        let over = |event: &ahp::client::ClientEvent| matches!(event.event, SubscriptionEvent::AuthRequired(_));
        if !peer.received.iter().any(over) {
            until_over(&mut peer, &resource).await;
        }

        assert_eq!(sign_in(&peer, &resource, SECOND, None).await, Ok(json!({})));
        let answer = peer.send_and_wait(&uris.chat, "and now").await;
        assert!(answer.contains("and now"), "{build}: {answer}");
        assert_eq!(github.model_request_tokens().last().map(String::as_str), Some(SECOND), "{build}");
        assert_eq!(host.only_agent().pid, agent, "{build}: the agent is still the same one");

        let seen = format!("{:?}", peer.received);
        let log = host.stop().await;
        assert!(log.contains("TRACE") || log.contains("DEBUG"), "{build}: this is the log");
        for secret in [FIRST, SECOND, "tid=issued-"] {
            assert!(!seen.contains(secret), "{build}: clients see {secret}");
            assert!(!log.contains(secret), "{build}: {secret} is in the log");
            for path in list_files(home.root()) {
                let bytes = std::fs::read(&path).unwrap_or_default();
                assert!(
                    !String::from_utf8_lossy(&bytes).contains(secret),
                    "{build}: {secret} is in {}",
                    path.display()
                );
            }
        }
    }
}

#[tokio::test]
async fn session_creation_without_a_sign_in_fails_and_names_the_resource() {
    let home = TestHome::new();
    let github = GitHubMock::start(&[FIRST]).await;
    let host = serve_fake(&home, &github, &[]).await;
    let mut raw = RawClient::connect(&host.url()).await;
    let hello = json!({"protocolVersions": ["0.9.0"], "clientId": "early", "initialSubscriptions": [ROOT]});
    let hello = raw.call("initialize", hello).await.unwrap();
    let protected = hello["snapshots"][0]["state"]["agents"][0]["protectedResources"].clone();
    let expected = json!([{"resource": github.resource(), "resource_name": "GitHub Copilot",
        "authorization_servers": [format!("{}/login/oauth", github.url)],
        "scopes_supported": ["read:user", "user:email"], "required": true}]);
    assert_eq!(protected, expected);

    let session = json!({"channel": "claude:/5b7c1d9e-7a0f-4a53-9d35-2f6d5c1f7e11", "provider": "claude"});
    let error = raw.call("createSession", session.clone()).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["resources"]), (&json!(-32007), &expected), "{error}");
    assert!(error["message"].as_str().unwrap().contains("hostler agents login"), "{error}");

    for (params, code) in [
        (json!({"resource": "https://elsewhere.example.com", "token": FIRST}), -32602),
        (json!({"resource": "", "token": ""}), -32602),
        (json!({"resource": github.resource()}), -32602),
        (json!({"resource": github.resource(), "token": 5}), -32602),
        (json!({"resource": github.resource(), "token": FIRST, "expiresIn": 0}), -32602),
        (json!({"resource": github.resource(), "token": FIRST, "expiresIn": -7}), -32602),
        (json!({"resource": github.resource(), "token": "e"}), -32602),
        (json!({"resource": github.resource(), "token": WRONG}), -32007),
        (json!({"resource": github.resource(), "token": "two\nlines"}), -32007),
    ] {
        let error = raw.call("authenticate", params.clone()).await.unwrap_err();
        assert_eq!(error["code"], code, "{params}: {error}");
        assert!(!error.to_string().contains("gho-planted"), "{error}");
        assert_eq!(error["data"]["resources"].is_array(), code == -32007, "{error}");
    }
    let params = json!({"resource": github.resource(), "token": FIRST, "scopes": ["read:user"], "expiresIn": 3599.5});
    assert_eq!(raw.call("authenticate", params).await, Ok(json!({})));
    assert_eq!(raw.call("createSession", session).await, Ok(Value::Null));

    // The command line needs a sign-in like every client, and reports it.
    let signed_out = json!({"resource": github.resource(), "token": "", "expiresIn": 0});
    raw.call("authenticate", signed_out).await.unwrap();
    let output = run_to_end(home.hostler_command(&["run", "hi"])).await;
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("hostler agents login"), "{stderr}");
    let log = host.stop().await;
    assert!(!log.contains("gho-planted"), "{log}");
}

#[tokio::test]
async fn clients_share_a_sign_in_and_either_may_renew_or_revoke_it() {
    let home = TestHome::new();
    let github = GitHubMock::start(&[FIRST, SECOND]).await;
    let resource = github.resource();
    let host = serve_fake(&home, &github, &[]).await;
    let (mut one, mut two) = (host.connect().await, host.connect().await);
    // It expires by itself: both clients are notified, whichever one signed in.
    assert_eq!(sign_in(&one, &resource, FIRST, Some(1)).await, Ok(json!({})));
    for peer in [&mut one, &mut two] {
        until_asked_for(peer, 0).await;
        until_asked_for(peer, 1).await;
        until_over(peer, &resource).await;
    }
    // The other client renews it, and an invalid token of the first one does not revoke that.
    assert_eq!(sign_in(&two, &resource, SECOND, None).await, Ok(json!({})));
    assert_eq!(sign_in(&one, &resource, WRONG, None).await, Err(-32007));
    assert_eq!(asked_for(&one).await, Vec::<String>::new());
    let uris = one.create_session(&home.work()).await;
    // The client that signed in may disconnect: the sign-in belongs to the host.
    two.client.shutdown().await;
    assert_eq!(asked_for(&one).await, Vec::<String>::new());

    assert_eq!(sign_in(&one, &resource, "", None).await, Ok(json!({})));
    assert_eq!(sign_in(&one, &resource, "", None).await, Ok(json!({})), "twice is once");
    assert_eq!(asked_for(&one).await, [resource.as_str()]);
    // An existing session reports the missing sign-in at the next message, and no agent was started for it.
    let (kind, message) = failure(&mut one, &uris.chat, "hi").await;
    assert!(kind == "auth" && message.contains("Sign in"), "{kind} {message}");
    assert!(host.agents().is_empty());
    assert_eq!(sign_in(&one, &resource, FIRST, None).await, Ok(json!({})));
    assert!(!one.send_and_wait(&uris.chat, "hi").await.is_empty());
    host.stop().await;
}

#[tokio::test]
async fn host_with_its_own_token_requests_no_sign_in_until_rejected() {
    let home = TestHome::new();
    let github = GitHubMock::start(&[FIRST, SECOND]).await;
    let resource = github.resource();
    let host = serve_fake(&home, &github, &[("HOSTLER_UPSTREAM_KEY", FIRST)]).await;
    let peer = host.connect().await;
    assert_eq!(asked_for(&peer).await, Vec::<String>::new());
    peer.create_session(&home.work()).await;
    host.stop().await;

    // The host lists models when the first client connects, and finds that its token is invalid.
    let host = serve_fake(&home, &github, &[("HOSTLER_UPSTREAM_KEY", WRONG)]).await;
    let mut peer = host.connect().await;
    if asked_for(&peer).await.is_empty() {
        until_asked_for(&mut peer, 1).await;
    }
    assert_eq!(sign_in(&peer, &resource, SECOND, None).await, Ok(json!({})));
    assert_eq!(asked_for(&peer).await, Vec::<String>::new());
    let uris = peer.create_session(&home.work()).await;
    assert!(!peer.send_and_wait(&uris.chat, "hi").await.is_empty());
    host.stop().await;
}

#[tokio::test]
async fn sign_in_is_optional_with_another_upstream() {
    let home = TestHome::new();
    let github = GitHubMock::start(&[FIRST]).await;
    let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
    home.write_config(&format!("upstream = 'scripted'\n[upstreams.scripted]\n{}", github.upstream_config("copilot")));
    let host = home.serve_with(&["--claude", agent.to_str().unwrap()], &[]).await;
    let mut peer = host.connect().await;
    assert_eq!(asked_for(&peer).await, [github.resource()]);
    let uris = peer.create_session(&home.work()).await;
    assert!(!peer.send_and_wait(&uris.chat, "hi").await.is_empty());
    // The models of the other upstream appear after a sign-in to it.
    assert_eq!(sign_in(&peer, &github.resource(), FIRST, None).await, Ok(json!({})));
    peer.wait_for(ROOT, |envelope| {
        let StateAction::RootAgentsChanged(changed) = &envelope.action else { return false };
        changed.agents[0].models.iter().any(|model| model.id == "@copilot:claude-sonnet-4-5")
    })
    .await;
    host.stop().await;
}

#[tokio::test]
async fn running_host_notices_login_and_logout() {
    let home = TestHome::new();
    let github = GitHubMock::start(&[FIRST]).await;
    let host = serve_fake(&home, &github, &[]).await;
    let mut peer = host.connect().await;
    assert_eq!(asked_for(&peer).await, [github.resource()]);
    // File that a login writes.
    let credential_file = home.path("state").join("hostler").join("credentials").join("copilot");
    std::fs::create_dir_all(credential_file.parent().unwrap()).unwrap();
    std::fs::write(&credential_file, FIRST).unwrap();
    until_asked_for(&mut peer, 0).await;
    let mut logout = home.hostler_command(&["agents", "logout", "copilot"]);
    logout.env("HOSTLER_CREDENTIAL_STORE", "file");
    let output = run_to_end(logout).await;
    assert!(output.status.success() && !credential_file.exists(), "{}", text(&output.stderr));
    until_asked_for(&mut peer, 1).await;
    host.stop().await;
}
