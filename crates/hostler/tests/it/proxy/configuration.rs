//! Several upstreams, and configuration changes of a running proxy and a running host.

use std::path::PathBuf;

use nix::sys::signal::Signal;

use super::ProxyProcess;
use crate::common::scripted_upstream::ScriptedUpstreamServer;
use crate::common::{BUILDS, TestHome};

const TOY_UPSTREAM_CONFIG: &str = "[upstreams.toy]\nkind = 'scripted'\n";

fn config(home: &TestHome) -> PathBuf {
    home.path("config").join("hostler").join("config.toml")
}

async fn start(home: &TestHome, toml: &str) -> ProxyProcess {
    home.write_config(toml);
    ProxyProcess::start(home.hostler_command(&["proxy", "--log-requests"])).await
}

#[tokio::test]
async fn model_is_requested_from_the_upstream_it_names() {
    let home = TestHome::new();
    let server = ScriptedUpstreamServer::start().await;
    let toml = format!(
        "upstream = 'toy'\n{TOY_UPSTREAM_CONFIG}[upstreams.work]\nkind = 'anthropic'\nurl = '{}'\n",
        server.url
    );
    let proxy = start(&home, &toml).await;
    proxy.answer_text("m", "hi").await;
    assert_eq!(server.requests().len(), 0);
    proxy.answer_text("@work:m", "hi").await;
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.requests()[0].header("x-api-key"), None, "a server of one's own may do without a key");
    let (status, body) = proxy.send_message("@unknown:m", "hi", false).await;
    assert_eq!(status, 404, "{body}");
    proxy.wait_for_log("status=404", 1).await;
    let log = proxy.stop().await;
    assert!(log.contains("Upstreams: toy, work."), "{log}");
    assert!(log.contains(" upstream=toy ") && log.contains(" upstream=work "), "{log}");
}

#[tokio::test]
async fn key_is_sent_as_configured() {
    let home = TestHome::new();
    let server = ScriptedUpstreamServer::start().await;
    std::fs::write(home.path("work.key"), "sk-of-work\n").unwrap();
    let file = home.path("work.key");
    let toml = format!(
        "upstream = 'work'\n[upstreams.work]\nkind = 'anthropic'\nurl = '{}'\nbearer = true\nkey-file = '{}'\n",
        server.url,
        file.display()
    );
    let proxy = start(&home, &toml).await;
    proxy.answer_text("m", "hi").await;
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-of-work"));
    assert_eq!(server.requests()[0].header("x-api-key"), None);
    proxy.stop().await;
}

#[tokio::test]
async fn rewritten_replaced_or_recreated_file_is_reloaded() {
    let home = TestHome::new();
    let proxy = start(&home, "upstream = 'scripted'\n").await;
    let path = config(&home);
    assert_eq!(proxy.send_message("@toy:m", "hi", false).await.0, 404);

    std::fs::write(&path, format!("upstream = 'scripted'\n{TOY_UPSTREAM_CONFIG}")).unwrap();
    proxy.wait_for_log("config.toml. Upstreams: scripted, toy.", 1).await;
    proxy.answer_text("@toy:m", "hi").await;

    let next = path.with_extension("new");
    std::fs::write(&next, "upstream = 'b'\n[upstreams.b]\nkind = 'scripted'\n").unwrap();
    std::fs::rename(&next, &path).unwrap();
    proxy.wait_for_log("config.toml. Upstreams: b.", 1).await;
    proxy.answer_text("@b:m", "hi").await;
    assert_eq!(proxy.send_message("@toy:m", "hi", false).await.0, 404);

    std::fs::remove_file(&path).unwrap();
    proxy.wait_for_log("The configuration is unchanged.", 1).await;
    proxy.answer_text("@b:m", "hi").await;
    std::fs::write(&path, "upstream = 'c'\n[upstreams.c]\nkind = 'scripted'\n").unwrap();
    proxy.wait_for_log("config.toml. Upstreams: c.", 1).await;
    proxy.answer_text("@c:m", "hi").await;
    proxy.stop().await;
}

#[tokio::test]
async fn invalid_file_changes_nothing_and_sighup_reloads_it() {
    let home = TestHome::new();
    let proxy = start(&home, &format!("upstream = 'scripted'\n{TOY_UPSTREAM_CONFIG}")).await;
    let path = config(&home);
    std::fs::write(&path, "upstream = 'scripted'\n[upstreams.toy]\nkind = 'abacus'\n").unwrap();
    proxy.wait_for_log("config.toml line 3: `upstreams.toy.kind` must be one of", 1).await;
    proxy.answer_text("@toy:m", "hi").await;

    proxy.signal(Signal::SIGHUP);
    proxy.wait_for_log("`upstreams.toy.kind` must be one of", 2).await;
    std::fs::write(&path, "upstream = 'scripted'\nproxy-listen = '127.0.0.1:1'\n").unwrap();
    proxy.wait_for_log("config.toml. Upstreams: scripted.", 1).await;
    proxy.wait_for_log("Restart to apply changes of: proxy-listen.", 1).await;
    proxy.answer_text("m", "hi").await;
    proxy.stop().await;
}

#[tokio::test]
async fn only_loopback_and_allowed_hosts_are_accepted() {
    let home = TestHome::new();
    let proxy = start(&home, "upstream = 'scripted'\nallowed-hosts = ['box.example']\n").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (host, status) in [(None, 200), (Some("box.example:80"), 200), (Some("evil.example"), 403)] {
        let request = client.get(proxy.base_url() + "/v1/models").bearer_auth(proxy.bearer());
        let request = host.into_iter().fold(request, |request, host| request.header("host", host));
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{host:?}");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn running_stream_stays_on_its_upstream() {
    let home = TestHome::new();
    let proxy = start(&home, &format!("upstream = 'toy'\n{TOY_UPSTREAM_CONFIG}")).await;
    let (response, _) = proxy.start_stream("m", "!say begun\n!wait 2000\n!say ended", "begun").await;
    std::fs::write(config(&home), "upstream = 'b'\n[upstreams.b]\nkind = 'scripted'\n").unwrap();
    proxy.wait_for_log("config.toml. Upstreams: b.", 1).await;
    let rest = response.text().await.unwrap();
    assert!(rest.contains("message_stop"), "{rest}");
    proxy.wait_for_log("POST", 1).await;
    let log = proxy.stop().await;
    assert!(log.contains(" upstream=toy status=200"), "{log}");
}

#[tokio::test]
async fn limits_apply_at_once_follow_the_file_and_survive_restarts() {
    let home = TestHome::new();
    let limited = |count: u32| format!("upstream = 'scripted'\n[limits]\nday-requests = {count}\n");
    let proxy = start(&home, &limited(2)).await;
    proxy.answer_text("m", "one").await;
    proxy.answer_text("m", "two").await;
    let (status, body) = proxy.send_message("m", "three", false).await;
    assert!(status == 429 && body.contains("rate_limit_error"), "{status} {body}");
    std::fs::write(config(&home), limited(3)).unwrap();
    proxy.wait_for_log("Reloaded ", 1).await;
    proxy.answer_text("m", "three").await;
    assert_eq!(proxy.send_message("m", "four", false).await.0, 429);
    proxy.stop().await;

    let proxy = start(&home, &limited(3)).await;
    assert_eq!(proxy.send_message("m", "four", false).await.0, 429, "usage before the restart counts");
    std::fs::write(config(&home), "upstream = 'scripted'\n").unwrap();
    proxy.wait_for_log("Reloaded ", 1).await;
    proxy.answer_text("m", "four").await;
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_agents_follow_the_file_and_do_not_see_keys() {
    for build in BUILDS {
        let home = TestHome::new();
        let server = ScriptedUpstreamServer::start().await;
        let tables = format!(
            "{TOY_UPSTREAM_CONFIG}[upstreams.work]\nkind = 'anthropic'\nurl = '{}'\nkey-env = 'WORK_KEY'\n",
            server.url
        );
        home.write_config(&format!("upstream = 'toy'\n{tables}"));
        let key = "sk-in-a-variable-of-its-own";
        let host = home.serve_with(&["--claude", build], &[("WORK_KEY", key)]).await;
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        assert!(peer.send_and_wait(&uris.chat, "one").await.contains("one"), "{build}");
        assert!(server.requests().is_empty(), "{build}");
        let agent = host.only_agent();
        let environment = hostler_testkit::processes::read_environment(agent.pid).join("\n");
        assert!(!environment.contains("WORK_KEY") && !environment.contains(key), "{build}: {environment}");

        home.write_config(&format!("upstream = 'work'\n{tables}"));
        host.wait_for_log("config.toml. Upstreams: work, toy.").await;
        assert!(peer.send_and_wait(&uris.chat, "two").await.contains("two"), "{build}");
        assert_eq!(host.only_agent().pid, agent.pid, "{build}: the same process");
        assert!(server.requests().iter().all(|request| request.header("x-api-key") == Some(key)), "{build}");
        assert!(!server.requests().is_empty(), "{build}");
        let log = host.stop().await;
        assert!(!log.contains(key), "{build}: {log}");
    }
}
