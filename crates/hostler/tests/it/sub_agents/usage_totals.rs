//! Usage of sub-agents is counted in the session's totals exactly once.

use super::*;

/// Returns the session's totals, once they include every request of the agent.
async fn totals(bench: &SessionFixture) -> Value {
    let requests = bench.upstream.requests().iter().filter(|request| !request.body["messages"].is_null()).count();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
        let usage = session["_meta"]["hostler"]["usage"].clone();
        if usage["requests"].as_u64() == u64::try_from(requests).ok() {
            return usage;
        }
        assert!(Instant::now() < deadline, "{}: {requests} requests, but {usage:#}", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_usage_is_in_the_session_totals_exactly_once() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let script = format!("{}\n{}\n!say done", helper(&makes("one"), false), helper(&makes("two"), false));
        bench.client.send_message(&bench.uris.chat, &script).await;
        bench.wait_for_turn_end().await;
        // Two requests of the agent itself, two of each sub-agent.
        assert_eq!(bench.upstream.requests().len(), 6, "{build}");
        let totals = totals(&bench).await;
        let main = bench.chat_state().await["turns"][0]["usage"].clone();
        // The agent sums up its cost by itself, with that of its sub-agents.
        let (ledger, own) =
            (totals["dollars"].as_f64().unwrap(), main["_meta"]["hostler"]["costUsd"].as_f64().unwrap());
        assert!((ledger - own).abs() < 1e-6, "{build}: {totals:#} {main:#}");
        let input = |usage: &Value| usage["inputTokens"].as_u64().unwrap();
        let chats = sub_agent_chats(&bench).await;
        let theirs: u64 = chats.iter().map(|chat| input(&chat["turns"][0]["usage"])).sum();
        assert!(theirs > 0, "{build}");
        let (all, reported) = (input(&totals), input(&main) + theirs);
        match build {
            "native" => assert_eq!(reported, all, "{totals:#} {main:#}"),
            // The older build reports only a sub-agent's last response.
            _ => assert!(input(&main) < reported && reported < all, "{totals:#} {main:#}"),
        }
        bench.stop().await;
    }
}
