//! Opens and continues a session of another host.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use serde_json::{Value, json};

use super::second_host::{SecondHost, continue_in_terminal};
use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

fn message_answer_pairs(chat: &Value) -> Vec<(String, String)> {
    let turn = |turn: &Value| {
        let parts = turn["responseParts"].as_array().unwrap();
        let answers: Vec<_> = parts.iter().filter_map(|part| part["content"].as_str()).collect();
        (turn["message"]["text"].as_str().unwrap().to_owned(), answers.join("|"))
    };
    chat["turns"].as_array().unwrap().iter().map(turn).collect()
}

fn pair(message: &str, answer: &str) -> (String, String) {
    (message.to_owned(), answer.to_owned())
}

/// Returns the last request to the model, without cache marks and reminders of the agent.
pub(crate) fn last_model_request(bench: &SessionFixture) -> Vec<(String, Vec<Value>)> {
    let requests = bench.upstream.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().cloned().unwrap();
    let mut asked: Vec<(String, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap().to_owned();
        let mut blocks = match &message["content"] {
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            content => content.as_array().cloned().unwrap(),
        };
        blocks.retain(|block| !block["text"].as_str().is_some_and(|text| text.contains("<system-reminder>")));
        // The scripted model derives its ids from the whole request, including its directory.
        for block in &mut blocks {
            for key in ["cache_control", "id", "tool_use_id", "signature"] {
                block.as_object_mut().unwrap().remove(key);
            }
        }
        match asked.last_mut().filter(|(last, _)| *last == role) {
            Some((_, last)) => last.extend(blocks),
            None if blocks.is_empty() => {}
            None => asked.push((role, blocks)),
        }
    }
    asked
}

const FIRST_PROMPT: &str = "!think Let me see.\n!say I look.\n!tool Bash {\"command\":\"echo horses\",\"description\":\"says\"}\n!say It says horses.";

#[tokio::test(flavor = "multi_thread")]
async fn session_of_another_host_is_imported_and_continues() {
    for build in BUILDS {
        // Control: without an import in between.
        let mut whole = SessionFixture::allowing_commands(build).await;
        for prompt in [FIRST_PROMPT, "!say second", "!say third"] {
            whole.client.send_and_wait(&whole.uris.chat, prompt).await;
        }
        let expected = last_model_request(&whole);
        whole.stop().await;

        let mut bench = SessionFixture::allowing_commands(build).await;
        for prompt in [FIRST_PROMPT, "!say second"] {
            bench.client.send_and_wait(&bench.uris.chat, prompt).await;
        }
        // The restart ends the agent, which then has written everything.
        bench = bench.restart_host().await;
        let mut second = SecondHost::start(&bench).await;
        let chat = second.chat(&bench).await;
        assert_eq!(
            message_answer_pairs(&chat),
            [pair(FIRST_PROMPT, "Let me see.|I look.|It says horses."), pair("!say second", "second")],
            "{build}"
        );
        assert!(second.host.agents().is_empty(), "{build}: looking at it starts nothing");
        let text = second.peer.send_and_wait(&bench.uris.chat, "!say third").await;
        assert_eq!(text, "third", "{build}");
        assert_eq!(last_model_request(&bench), expected, "{build}: the model receives the whole conversation");
        second.host.stop().await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_from_a_terminal_and_another_host_are_synced_on_reopen() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        bench = bench.restart_host().await;
        let mut expected = vec![pair("!say one", "one")];
        assert_eq!(
            message_answer_pairs(&bench.chat_state().await),
            expected,
            "{build}: own turns are not imported again"
        );
        continue_in_terminal(&bench, "!say two").await;
        expected.push(pair("!say two", "two"));
        let mut second = SecondHost::start(&bench).await;
        assert_eq!(message_answer_pairs(&second.chat(&bench).await), expected, "{build}");
        second.peer.send_and_wait(&bench.uris.chat, "!say three").await;
        second.host.stop().await;
        expected.push(pair("!say three", "three"));
        // The first host still has the session open, and syncs before its next message.
        let turn = bench.client.send_message(&bench.uris.chat, "!say four").await;
        let is_over = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatTurnComplete(over) if over.turn_id == turn);
        bench.client.wait_for(&bench.uris.chat, is_over).await;
        expected.push(pair("!say four", "four"));
        bench = bench.restart_host().await;
        assert_eq!(message_answer_pairs(&bench.chat_state().await), expected, "{build}");
        assert_eq!(*bench.count_in_model_requests("!say two").last().unwrap(), 1, "{build}: the model has received it");
        bench.stop().await;
    }
}
