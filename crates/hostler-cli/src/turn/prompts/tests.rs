//! Tests of the prompt queue.

use serde_json::{Value, json};

use super::*;

fn envelope(action: Value) -> ActionEnvelope {
    serde_json::from_value(json!({ "channel": "ahp-chat://c", "serverSeq": 1, "action": action })).unwrap()
}

fn ready(id: &str) -> ActionEnvelope {
    envelope(json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": id,
        "invocationMessage": "Run `touch\u{1b}[2J made`", "toolInput": "{\"command\":\"touch made\"}", "options": [
            { "id": "allow-once", "label": "Allow once", "kind": "approve" },
            { "id": "allow-session", "label": "Allow in this session", "kind": "approve" },
            { "id": "deny", "label": "Deny", "kind": "deny" },
            { "id": "deny-tell", "label": "Deny, and describe what to do instead", "kind": "deny" }] }))
}

fn confirmed(id: &str) -> ActionEnvelope {
    envelope(json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": id, "approved": true }))
}

fn questions(questions: Value) -> ActionEnvelope {
    envelope(json!({ "type": "chat/inputRequested",
        "request": { "id": "q", "message": "About colours", "questions": questions } }))
}

/// Returns a queue that shows the envelope's prompt.
fn asking(envelope: &ActionEnvelope) -> PromptQueue {
    let mut asker = PromptQueue::new("t", false);
    assert!(matches!(asker.handle_envelope(envelope, false), PromptStep::Show(_)));
    assert!(asker.is_awaiting_line());
    asker
}

fn answered(asked: PromptStep) -> Value {
    match asked {
        PromptStep::Answer(action) => serde_json::to_value(action).unwrap(),
        other => panic!("no answer: {other:?}"),
    }
}

fn shown(asked: PromptStep) -> String {
    match asked {
        PromptStep::Show(text) => text,
        other => panic!("nothing is shown: {other:?}"),
    }
}

#[test]
fn tool_approval_shows_tool_input_and_host_options() {
    let mut asker = PromptQueue::new("t", false);
    let start = json!({ "type": "chat/toolCallStart", "turnId": "t", "toolCallId": "a", "toolName": "Bash",
        "displayName": "Run command" });
    assert_eq!(asker.handle_envelope(&envelope(start), false), PromptStep::Wait);
    assert!(!asker.is_awaiting_line());
    let text = shown(asker.handle_envelope(&ready("a"), false));
    let expected = "\n? Run command: Run `touch⟨U+001B⟩[2J made`\n  {\"command\":\"touch made\"}\n  1  Allow once\n  2  Allow in \
                    this session\n  3  Deny\n  4  Deny, and describe what to do instead\n\
                    A number, or a word to the agent that denies it: ";
    assert_eq!(text, expected);
}

#[test]
fn invisible_and_bidirectional_characters_are_escaped_in_prompts() {
    let call = json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "a",
        "invocationMessage": "Run `open photo\u{202e}gpj.sh`",
        "toolInput": format!("{{\"command\":\"ls\u{2066}{}; rm x\u{200b}\"}}", " ".repeat(300)),
        "options": [{ "id": "allow-rule", "label": "Always allow rm\u{feff}", "kind": "approve" }] });
    let text = shown(PromptQueue::new("t", false).handle_envelope(&envelope(call), false));
    let expected = "\n? Tool: Run `open photo⟨U+202E⟩gpj.sh`\n  {\"command\":\"ls⟨U+2066⟩ ⟨300 blanks⟩ ; rm x⟨U+200B⟩\"}\n  \
                    1  Always allow rm⟨U+FEFF⟩\nA number, or a word to the agent that denies it: ";
    assert_eq!(text, expected);

    let options = json!([{ "id": "r", "label": "Re\u{ad}d", "description": "wa\u{2069}rm" }]);
    let mut form = serde_json::to_value(
        questions(json!([{ "kind": "single-select", "id": "one", "message": "Wh\u{202d}ich?", "options": options }]))
            .action,
    )
    .unwrap();
    form["request"]["message"] = "About\u{1b}[2K\u{61c}\ncolours".into();
    let text = shown(PromptQueue::new("t", false).handle_envelope(&envelope(form), false));
    let expected = "\nAbout⟨U+001B⟩[2K⟨U+061C⟩\ncolours\n? Wh⟨U+202D⟩ich?\n  1  Re⟨U+00AD⟩d: wa⟨U+2069⟩rm\n\
                    A number, an empty line skips it: ";
    assert_eq!(text, expected);
}

#[test]
fn number_selects_an_option_and_text_denies() {
    for (line, approved, option, words) in [
        ("1", true, json!("allow-once"), Value::Null),
        (" 2 ", true, json!("allow-session"), Value::Null),
        ("y", true, json!("allow-once"), Value::Null),
        ("3", false, json!("deny"), Value::Null),
        ("No", false, json!("deny"), Value::Null),
        ("use make", false, json!("deny-tell"), json!("use make")),
    ] {
        let action = answered(asking(&ready("a")).handle_line(line));
        assert_eq!(action["type"], "chat/toolCallConfirmed");
        let said = (&action["approved"], &action["selectedOptionId"], &action["reasonMessage"]);
        assert_eq!(said, (&json!(approved), &option, &words), "{line}");
    }
    let mut asker = asking(&ready("a"));
    assert_eq!(shown(asker.handle_line("4")), "What to do instead: ");
    let action = answered(asker.handle_line("1 is enough"));
    assert_eq!((&action["approved"], &action["reasonMessage"]), (&json!(false), &json!("1 is enough")));
}

#[test]
fn invalid_answer_is_prompted_again() {
    let mut asker = asking(&ready("a"));
    for line in ["", "0", "5", "-1"] {
        assert_eq!(shown(asker.handle_line(line)), "A number from 1 to 4, or a word: ", "{line}");
    }
    answered(asker.handle_line("1"));
    assert!(!asker.is_awaiting_line(), "the answer is on its way");
    let mut refusal = confirmed("a");
    refusal.rejection_reason = Some("no such option".to_owned());
    assert_eq!(asker.handle_envelope(&refusal, false), PromptStep::Wait, "somebody else's");
    assert!(shown(asker.handle_envelope(&refusal, true)).starts_with("The host did not take it: no such option\n\n? "));
    answered(asker.handle_line("3"));
}

#[test]
fn prompts_are_shown_one_at_a_time() {
    let mut asker = asking(&ready("a"));
    assert_eq!(asker.handle_envelope(&ready("b"), false), PromptStep::Wait);
    assert_eq!(answered(asker.handle_line("1"))["toolCallId"], "a");
    assert!(shown(asker.handle_envelope(&confirmed("a"), true)).contains("Allow once"));
    assert_eq!(answered(asker.handle_line("3"))["toolCallId"], "b");
    assert_eq!(asker.handle_envelope(&confirmed("b"), true), PromptStep::Wait);
    assert!(!asker.is_awaiting_line());
}

#[test]
fn prompt_answered_elsewhere_is_withdrawn_and_typed_line_does_not_answer_the_next() {
    let mut asker = asking(&ready("a"));
    assert_eq!(asker.handle_envelope(&ready("b"), false), PromptStep::Wait);
    assert_eq!(
        shown(asker.handle_envelope(&confirmed("a"), false)),
        format!("{ANSWERED_ELSEWHERE_TEXT}{NEXT_QUESTION_TEXT}")
    );
    // The line was typed for the first prompt.
    assert!(shown(asker.handle_line("1")).contains("Allow once"));
    assert_eq!(answered(asker.handle_line("3"))["toolCallId"], "b");

    let mut asker = asking(&ready("a"));
    assert_eq!(shown(asker.handle_envelope(&confirmed("a"), false)), ANSWERED_ELSEWHERE_TEXT);
    assert!(!asker.is_awaiting_line());
    assert_eq!(shown(asker.handle_envelope(&ready("b"), false)), NEXT_QUESTION_TEXT, "it may still be in the fingers");
    assert_eq!(asker.handle_envelope(&confirmed("b"), false), PromptStep::Wait);
}

#[test]
fn questions_accept_numbers_text_and_empty_lines() {
    let options = json!([{ "id": "r", "label": "Red", "description": "warm" }, { "id": "b", "label": "Blue" }]);
    let form = questions(json!([
        { "kind": "single-select", "id": "one", "message": "Which?", "options": options, "allowFreeformInput": true },
        { "kind": "multi-select", "id": "many", "message": "Which ones?", "options": options },
        { "kind": "text", "id": "text", "message": "Why?" },
        { "kind": "boolean", "id": "sure", "message": "Sure?" },
        { "kind": "integer", "id": "count", "message": "How many?" },
    ]));
    let mut asker = PromptQueue::new("t", false);
    let text = shown(asker.handle_envelope(&form, false));
    let expected =
        "\nAbout colours\n? Which?\n  1  Red: warm\n  2  Blue\nA number, or own words, an empty line skips it: ";
    assert_eq!(text, expected);
    assert_eq!(shown(asker.handle_line("3")), "A number, or own words: ");
    assert!(shown(asker.handle_line("green")).starts_with("\n? Which ones?\n"));
    assert_eq!(shown(asker.handle_line("all")), "Numbers with commas between: ");
    assert!(shown(asker.handle_line("2, 1,2")).starts_with("\n? Why?\n"));
    assert!(shown(asker.handle_line("")).starts_with("\n? Sure?\n"));
    assert_eq!(shown(asker.handle_line("maybe")), "y or n: ");
    assert!(shown(asker.handle_line("yes")).starts_with("\n? How many?\n"));
    assert_eq!(shown(asker.handle_line("1.5")), "A whole number: ");
    let action = answered(asker.handle_line("3"));
    let submitted = |value: Value| json!({ "state": "submitted", "value": value });
    assert_eq!(
        action,
        json!({ "type": "chat/inputCompleted", "requestId": "q", "response": "accept", "answers": {
            "one": submitted(json!({ "kind": "selected", "value": "", "freeformValues": ["green"] })),
            "many": submitted(json!({ "kind": "selected-many", "value": ["b", "r"] })),
            "sure": submitted(json!({ "kind": "boolean", "value": true })),
            "count": submitted(json!({ "kind": "number", "value": 3.0 })),
        } })
    );
}

#[test]
fn input_request_without_answers_is_skipped() {
    let optional =
        json!([{ "kind": "text", "id": "a", "message": "A?" }, { "kind": "text", "id": "b", "message": "B?" }]);
    let mut asker = asking(&questions(optional));
    assert!(shown(asker.handle_line("")).contains("B?"));
    assert_eq!(answered(asker.handle_line(""))["response"], "cancel");
    let required = json!([{ "kind": "text", "id": "a", "message": "A?", "required": true },
        { "kind": "text", "id": "b", "message": "B?" }]);
    assert_eq!(answered(asking(&questions(required)).handle_line(""))["response"], "cancel");
    for (line, response) in [("y", "accept"), ("n", "decline"), ("", "cancel")] {
        assert_eq!(answered(asking(&questions(json!([]))).handle_line(line))["response"], response, "{line}");
    }
}

#[test]
fn full_prompt_queue_rejects_further_prompts() {
    let mut asker = asking(&ready("first"));
    for at in 1..MAX_PENDING_PROMPTS {
        assert_eq!(asker.handle_envelope(&ready(&at.to_string()), false), PromptStep::Wait);
    }
    assert_eq!(asker.handle_envelope(&ready("last"), false), PromptStep::QueueFull);
    assert_eq!(asker.take_unanswered().len(), MAX_PENDING_PROMPTS);
    assert!(!asker.is_awaiting_line());
}

/// Returns a call whose input the host allows to change.
fn editable() -> ActionEnvelope {
    let mut action = serde_json::to_value(ready("a").action).unwrap();
    action["editable"] = true.into();
    envelope(action)
}

#[test]
fn edited_input_is_shown_and_allowed_once() {
    let mut asker = PromptQueue::new("t", true);
    assert!(
        shown(asker.handle_envelope(&editable(), false))
            .ends_with("A number, e to change the input, or a word to the agent that denies it: ")
    );
    let PromptStep::Edit(text) = asker.handle_line("e") else { panic!("no editor") };
    assert_eq!(text, "{\n  \"command\": \"touch made\"\n}\n");
    let text = shown(asker.handle_edited(Ok("{ \"command\": \"touch other\" }".to_owned())));
    assert!(
        text.contains(
            "Changed to:\n  {\n    \"command\": \"touch other\"\n  }\n  1  Allow it with the changed input\n  2  Deny\n"
        ),
        "{text}"
    );
    assert!(
        !text.contains("session") && !text.contains("touch made\""),
        "rules are about the agent's own input: {text}"
    );
    let answer = answered(asker.handle_line("1"));
    assert_eq!(
        (&answer["approved"], &answer["editedToolInput"]),
        (&json!(true), &json!("{\"command\":\"touch other\"}"))
    );
    assert_eq!(answer.get("selectedOptionId"), None);
}

#[test]
fn denying_an_edited_call_denies_it() {
    let mut asker = PromptQueue::new("t", true);
    asker.handle_envelope(&editable(), false);
    asker.handle_line("edit");
    asker.handle_edited(Ok("{}".to_owned()));
    let answer = answered(asker.handle_line("2"));
    assert_eq!((&answer["approved"], &answer["selectedOptionId"]), (&json!(false), &json!("deny")));
    assert_eq!(answer.get("editedToolInput"), None);
}

#[test]
fn invalid_edited_input_is_reported_and_can_be_edited_again() {
    let mut asker = PromptQueue::new("t", true);
    asker.handle_envelope(&editable(), false);
    for (wrong, why) in [("{", "That is not JSON: "), ("[1]", "must be a JSON object"), ("", "That is not JSON: ")] {
        asker.handle_line("e");
        let text = shown(asker.handle_edited(Ok(wrong.to_owned())));
        assert!(text.contains(why) && text.contains("1  Allow once"), "{text}");
        assert_eq!(asker.handle_line("E"), PromptStep::Edit(wrong.to_owned()), "the attempt is not lost");
    }
    let text = shown(asker.handle_edited(Err("The editor vi failed.".to_owned())));
    assert!(text.starts_with("\nThe editor vi failed.\n\n? Tool"), "{text}");
    asker.handle_line("e");
    let same = shown(asker.handle_edited(Ok("{\"command\":   \"touch made\"}".to_owned())));
    assert!(same.contains("2  Allow in this session"), "nothing has changed: {same}");
    assert_eq!(answered(asker.handle_line("1")).get("editedToolInput"), None);
}

#[test]
fn input_is_typed_without_an_editor() {
    let mut asker = asking(&editable());
    let text = shown(asker.handle_line("e"));
    assert!(text.starts_with("{\n  \"command\": \"touch made\"\n}\nType the whole input"), "{text}");
    assert_eq!(shown(asker.handle_line("  { \"command\":")), "");
    assert_eq!(shown(asker.handle_line("\"touch y\" }")), "");
    assert!(shown(asker.handle_line(".")).contains("Changed to:"));
    assert_eq!(answered(asker.handle_line("y"))["editedToolInput"], "{\"command\":\"touch y\"}");

    let mut asker = asking(&editable());
    asker.handle_line("e");
    assert!(
        shown(asker.handle_line("")).contains("2  Allow in this session"),
        "nothing was typed, and nothing changed"
    );
    assert_eq!(answered(asker.handle_line("1"))["selectedOptionId"], "allow-once");
}

#[test]
fn edit_option_is_absent_if_the_host_forbids_editing() {
    let mut asker = asking(&ready("a"));
    let answer = answered(asker.handle_line("e"));
    assert_eq!(
        (&answer["approved"], &answer["reasonMessage"]),
        (&json!(false), &json!("e")),
        "it is a word like any other"
    );
}
