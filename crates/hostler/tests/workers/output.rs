//! What a command in the background of the real agent has written so far.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn it_is_shown_while_the_command_runs() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        let gate = bench.gate("job");
        let mut call = gate.job();
        call["command"] = format!("echo so far; {}", call["command"].as_str().unwrap()).into();
        bench.use_tool("Bash", &call).await;
        let set = bench.until("chat/backgroundWorkSet").await.unwrap();
        bench.end().await;
        gate.reached().await;
        let params = json!({ "channel": bench.uris.chat, "id": set["work"]["id"] });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown: Value = bench.peer.client.request("hostler/backgroundOutput", params.clone()).await.unwrap();
            if shown == json!({ "output": "so far\n", "truncated": false }) {
                break;
            }
            assert!(Instant::now() < deadline, "{build}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.stop().await;
    }
}
