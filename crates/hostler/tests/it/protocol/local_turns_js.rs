//! Local turns beside the JavaScript build of the agent.

use super::harness::*;

area! { HostFixture::with_claude("js", &[("HOSTLER_NO_SHELL_COMMANDS", "false")]);
    command_runs_beside_the_js_build,
    conversation_continues_after_a_rename_beside_the_js_build,
}

async fn command_runs_beside_the_js_build(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let local = client.send_and_wait(&uris.chat, "!pwd; exit 4").await;
    let call = &local["responseParts"][0]["toolCall"];
    assert_eq!(call["content"][0]["text"].as_str().unwrap().trim(), case.dir.to_str().unwrap());
    assert_eq!(call["structuredContent"]["exitCode"], 4);
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "!say from the model").await), "from the model");
    client.send_and_wait(&uris.chat, "!echo between").await;
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "!say and again").await), "and again");
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

async fn conversation_continues_after_a_rename_beside_the_js_build(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "!say one").await;
    client.send_and_wait(&uris.chat, "/rename With the js build").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "With the js build");
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "!say two").await), "two");
    client.assert_state_matches_host(&uris.chat).await;
}
