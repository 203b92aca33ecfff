//! Output so far of a background command of the real agent.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn background_output_is_shown_while_the_command_runs() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        let gate = bench.blocking_command("job");
        let mut call = gate.background_bash_input();
        call["command"] = format!("echo so far; {}", call["command"].as_str().unwrap()).into();
        bench.prompt_tool_call("Bash", &call).await;
        let set = bench.wait_for_action("chat/backgroundWorkSet").await.unwrap();
        bench.wait_for_turn_end().await;
        gate.wait_until_running().await;
        let params = json!({ "channel": bench.uris.chat, "id": set["work"]["id"] });
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let shown: Value =
                bench.client.client.request("hostler/readBackgroundOutput", params.clone()).await.unwrap();
            if shown == json!({ "output": "so far\n", "truncated": false }) {
                break;
            }
            assert!(Instant::now() < deadline, "{build}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.stop().await;
    }
}
