//! The host's own turns beside the other build of the agent.

use super::kit::*;

area! { Stage::real("js", &[("HOSTLER_NO_COMMANDS", "false")]);
    a_command_runs_beside_the_js_build,
    a_rename_beside_the_js_build_keeps_the_conversation,
}

async fn a_command_runs_beside_the_js_build(case: Case) {
    let (mut client, uris) = case.session().await;
    let local = client.ask(&uris.chat, "!pwd; exit 4").await;
    let call = &local["responseParts"][0]["toolCall"];
    assert_eq!(call["content"][0]["text"].as_str().unwrap().trim(), case.dir.to_str().unwrap());
    assert_eq!(call["structuredContent"]["exitCode"], 4);
    assert_eq!(words(&client.ask(&uris.chat, "!say from the model").await), "from the model");
    client.ask(&uris.chat, "!echo between").await;
    assert_eq!(words(&client.ask(&uris.chat, "!say and again").await), "and again");
    client.agrees(&uris.chat).await;
    client.agrees(&uris.session).await;
}

async fn a_rename_beside_the_js_build_keeps_the_conversation(case: Case) {
    let (mut client, uris) = case.session().await;
    client.ask(&uris.chat, "!say one").await;
    client.ask(&uris.chat, "/rename With the js build").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "With the js build");
    assert_eq!(words(&client.ask(&uris.chat, "!say two").await), "two");
    client.agrees(&uris.chat).await;
}
