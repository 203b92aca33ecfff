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
            { "id": "deny-with-feedback", "label": "Deny, and describe what to do instead", "kind": "deny" }] }))
}

fn confirmed(id: &str) -> ActionEnvelope {
    envelope(json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": id, "approved": true }))
}

fn questions(questions: Value) -> ActionEnvelope {
    envelope(json!({ "type": "chat/inputRequested",
        "request": { "id": "q", "message": "About colors", "questions": questions } }))
}

/// Returns a queue that shows the envelope's prompt.
fn queue_with(envelope: &ActionEnvelope) -> PromptQueue {
    let mut queue = PromptQueue::new("t", false);
    assert!(matches!(queue.handle_envelope(envelope, false), PromptStep::Show(_)));
    assert!(queue.is_awaiting_line());
    queue
}

fn answered(step: PromptStep) -> Value {
    match step {
        PromptStep::Answer(action) => serde_json::to_value(action).unwrap(),
        other => panic!("no answer: {other:?}"),
    }
}

fn shown(step: PromptStep) -> String {
    match step {
        PromptStep::Show(text) => text,
        other => panic!("nothing is shown: {other:?}"),
    }
}

#[test]
fn tool_approval_shows_tool_input_and_host_options() {
    let mut queue = PromptQueue::new("t", false);
    let start = json!({ "type": "chat/toolCallStart", "turnId": "t", "toolCallId": "a", "toolName": "Bash",
        "displayName": "Run command" });
    assert_eq!(queue.handle_envelope(&envelope(start), false), PromptStep::Wait);
    assert!(!queue.is_awaiting_line());
    let text = shown(queue.handle_envelope(&ready("a"), false));
    let expected = "\n? Run command: Run `touch⟨U+001B⟩[2J made`\n  {\"command\":\"touch made\"}\n  1  Allow once\n  2  Allow in \
                    this session\n  3  Deny\n  4  Deny, and describe what to do instead\n\
                    Enter a number, or a message that denies the call: ";
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
                    1  Always allow rm⟨U+FEFF⟩\nEnter a number, or a message that denies the call: ";
    assert_eq!(text, expected);

    let options = json!([{ "id": "r", "label": "Re\u{ad}d", "description": "wa\u{2069}rm" }]);
    let mut form = serde_json::to_value(
        questions(json!([{ "kind": "single-select", "id": "one", "message": "Wh\u{202d}ich?", "options": options }]))
            .action,
    )
    .unwrap();
    form["request"]["message"] = "About\u{1b}[2K\u{61c}\ncolors".into();
    let text = shown(PromptQueue::new("t", false).handle_envelope(&envelope(form), false));
    let expected = "\nAbout⟨U+001B⟩[2K⟨U+061C⟩\ncolors\n? Wh⟨U+202D⟩ich?\n  1  Re⟨U+00AD⟩d: wa⟨U+2069⟩rm\n\
                    Enter a number, or an empty line to skip: ";
    assert_eq!(text, expected);
}

#[test]
fn number_selects_an_option_and_text_denies() {
    for (line, approved, option, message) in [
        ("1", true, json!("allow-once"), Value::Null),
        (" 2 ", true, json!("allow-session"), Value::Null),
        ("y", true, json!("allow-once"), Value::Null),
        ("3", false, json!("deny"), Value::Null),
        ("No", false, json!("deny"), Value::Null),
        ("use make", false, json!("deny-with-feedback"), json!("use make")),
    ] {
        let action = answered(queue_with(&ready("a")).handle_line(line));
        assert_eq!(action["type"], "chat/toolCallConfirmed");
        let answer = (&action["approved"], &action["selectedOptionId"], &action["reasonMessage"]);
        assert_eq!(answer, (&json!(approved), &option, &message), "{line}");
    }
    let mut queue = queue_with(&ready("a"));
    assert_eq!(shown(queue.handle_line("4")), "What should the agent do instead? ");
    let action = answered(queue.handle_line("1 is enough"));
    assert_eq!((&action["approved"], &action["reasonMessage"]), (&json!(false), &json!("1 is enough")));
}

#[test]
fn invalid_answer_is_prompted_again() {
    let mut queue = queue_with(&ready("a"));
    for line in ["", "0", "5", "-1"] {
        assert_eq!(shown(queue.handle_line(line)), "Enter a number from 1 to 4, or a message: ", "{line}");
    }
    answered(queue.handle_line("1"));
    assert!(!queue.is_awaiting_line(), "the answer is on its way");
    let mut refusal = confirmed("a");
    refusal.rejection_reason = Some("no such option".to_owned());
    assert_eq!(queue.handle_envelope(&refusal, false), PromptStep::Wait, "the rejection of another client");
    assert!(
        shown(queue.handle_envelope(&refusal, true)).starts_with("The host rejected the answer: no such option\n\n? ")
    );
    answered(queue.handle_line("3"));
}

#[test]
fn prompts_are_shown_one_at_a_time() {
    let mut queue = queue_with(&ready("a"));
    assert_eq!(queue.handle_envelope(&ready("b"), false), PromptStep::Wait);
    assert_eq!(answered(queue.handle_line("1"))["toolCallId"], "a");
    assert!(shown(queue.handle_envelope(&confirmed("a"), true)).contains("Allow once"));
    assert_eq!(answered(queue.handle_line("3"))["toolCallId"], "b");
    assert_eq!(queue.handle_envelope(&confirmed("b"), true), PromptStep::Wait);
    assert!(!queue.is_awaiting_line());
}

#[test]
fn prompt_answered_elsewhere_is_withdrawn_and_typed_line_does_not_answer_the_next() {
    let mut queue = queue_with(&ready("a"));
    assert_eq!(queue.handle_envelope(&ready("b"), false), PromptStep::Wait);
    assert_eq!(
        shown(queue.handle_envelope(&confirmed("a"), false)),
        format!("{ANSWERED_ELSEWHERE_TEXT}{NEXT_QUESTION_TEXT}")
    );
    // The line was typed for the first prompt.
    assert!(shown(queue.handle_line("1")).contains("Allow once"));
    assert_eq!(answered(queue.handle_line("3"))["toolCallId"], "b");

    let mut queue = queue_with(&ready("a"));
    assert_eq!(shown(queue.handle_envelope(&confirmed("a"), false)), ANSWERED_ELSEWHERE_TEXT);
    assert!(!queue.is_awaiting_line());
    assert_eq!(shown(queue.handle_envelope(&ready("b"), false)), NEXT_QUESTION_TEXT, "the line may already be typed");
    assert_eq!(queue.handle_envelope(&confirmed("b"), false), PromptStep::Wait);
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
    let mut queue = PromptQueue::new("t", false);
    let text = shown(queue.handle_envelope(&form, false));
    let expected = "\nAbout colors\n? Which?\n  1  Red: warm\n  2  Blue\nEnter a number or your own text, or an empty line to skip: ";
    assert_eq!(text, expected);
    assert_eq!(shown(queue.handle_line("3")), "Enter a number or your own text: ");
    assert!(shown(queue.handle_line("green")).starts_with("\n? Which ones?\n"));
    assert_eq!(shown(queue.handle_line("all")), "Enter numbers separated by commas: ");
    assert!(shown(queue.handle_line("2, 1,2")).starts_with("\n? Why?\n"));
    assert!(shown(queue.handle_line("")).starts_with("\n? Sure?\n"));
    assert_eq!(shown(queue.handle_line("maybe")), "Enter y or n: ");
    assert!(shown(queue.handle_line("yes")).starts_with("\n? How many?\n"));
    assert_eq!(shown(queue.handle_line("1.5")), "Enter a whole number: ");
    let action = answered(queue.handle_line("3"));
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
    let mut queue = queue_with(&questions(optional));
    assert!(shown(queue.handle_line("")).contains("B?"));
    assert_eq!(answered(queue.handle_line(""))["response"], "cancel");
    let required = json!([{ "kind": "text", "id": "a", "message": "A?", "required": true },
        { "kind": "text", "id": "b", "message": "B?" }]);
    assert_eq!(answered(queue_with(&questions(required)).handle_line(""))["response"], "cancel");
    for (line, response) in [("y", "accept"), ("n", "decline"), ("", "cancel")] {
        assert_eq!(answered(queue_with(&questions(json!([]))).handle_line(line))["response"], response, "{line}");
    }
}

#[test]
fn full_prompt_queue_rejects_further_prompts() {
    let mut queue = queue_with(&ready("first"));
    for at in 1..MAX_PENDING_PROMPTS {
        assert_eq!(queue.handle_envelope(&ready(&at.to_string()), false), PromptStep::Wait);
    }
    assert_eq!(queue.handle_envelope(&ready("last"), false), PromptStep::QueueFull);
    assert_eq!(queue.take_unanswered().len(), MAX_PENDING_PROMPTS);
    assert!(!queue.is_awaiting_line());
}

/// Returns a call whose input the host allows to change.
fn editable() -> ActionEnvelope {
    let mut action = serde_json::to_value(ready("a").action).unwrap();
    action["editable"] = true.into();
    envelope(action)
}

#[test]
fn edited_input_is_shown_and_allowed_once() {
    let mut queue = PromptQueue::new("t", true);
    assert!(
        shown(queue.handle_envelope(&editable(), false))
            .ends_with("Enter a number, e to edit the input, or a message that denies the call: ")
    );
    let PromptStep::Edit(text) = queue.handle_line("e") else { panic!("no editor") };
    assert_eq!(text, "{\n  \"command\": \"touch made\"\n}\n");
    let text = shown(queue.handle_edited(Ok("{ \"command\": \"touch other\" }".to_owned())));
    assert!(
        text.contains(
            "Changed to:\n  {\n    \"command\": \"touch other\"\n  }\n  1  Allow with the changed input\n  2  Deny\n"
        ),
        "{text}"
    );
    assert!(
        !text.contains("session") && !text.contains("touch made\""),
        "rules are about the agent's own input: {text}"
    );
    let answer = answered(queue.handle_line("1"));
    assert_eq!(
        (&answer["approved"], &answer["editedToolInput"]),
        (&json!(true), &json!("{\"command\":\"touch other\"}"))
    );
    assert_eq!(answer.get("selectedOptionId"), None);
}

#[test]
fn denying_an_edited_call_denies_it() {
    let mut queue = PromptQueue::new("t", true);
    queue.handle_envelope(&editable(), false);
    queue.handle_line("edit");
    queue.handle_edited(Ok("{}".to_owned()));
    let answer = answered(queue.handle_line("2"));
    assert_eq!((&answer["approved"], &answer["selectedOptionId"]), (&json!(false), &json!("deny")));
    assert_eq!(answer.get("editedToolInput"), None);
}

#[test]
fn invalid_edited_input_is_reported_and_can_be_edited_again() {
    let mut queue = PromptQueue::new("t", true);
    queue.handle_envelope(&editable(), false);
    for (wrong, why) in [
        ("{", "The input is not valid JSON: "),
        ("[1]", "must be a JSON object"),
        ("", "The input is not valid JSON: "),
    ] {
        queue.handle_line("e");
        let text = shown(queue.handle_edited(Ok(wrong.to_owned())));
        assert!(text.contains(why) && text.contains("1  Allow once"), "{text}");
        assert_eq!(queue.handle_line("E"), PromptStep::Edit(wrong.to_owned()), "the attempt is not lost");
    }
    let failed = EditorError::Failed { command: "vi".to_owned(), status: "exit status: 1".to_owned() };
    let text = shown(queue.handle_edited(Err(failed)));
    assert!(text.starts_with("\nThe editor `vi` failed (exit status: 1). The input is unchanged.\n\n? Tool"), "{text}");
    queue.handle_line("e");
    let same = shown(queue.handle_edited(Ok("{\"command\":   \"touch made\"}".to_owned())));
    assert!(same.contains("2  Allow in this session"), "nothing has changed: {same}");
    assert_eq!(answered(queue.handle_line("1")).get("editedToolInput"), None);
}

#[test]
fn input_is_typed_without_an_editor() {
    let mut queue = queue_with(&editable());
    let text = shown(queue.handle_line("e"));
    assert!(text.starts_with("{\n  \"command\": \"touch made\"\n}\nEnter the complete input"), "{text}");
    assert_eq!(shown(queue.handle_line("  { \"command\":")), "");
    assert_eq!(shown(queue.handle_line("\"touch y\" }")), "");
    assert!(shown(queue.handle_line(".")).contains("Changed to:"));
    assert_eq!(answered(queue.handle_line("y"))["editedToolInput"], "{\"command\":\"touch y\"}");

    let mut queue = queue_with(&editable());
    queue.handle_line("e");
    assert!(
        shown(queue.handle_line("")).contains("2  Allow in this session"),
        "nothing was typed, and nothing changed"
    );
    assert_eq!(answered(queue.handle_line("1"))["selectedOptionId"], "allow-once");
}

#[test]
fn edit_option_is_absent_if_the_host_forbids_editing() {
    let mut queue = queue_with(&ready("a"));
    let answer = answered(queue.handle_line("e"));
    assert_eq!(
        (&answer["approved"], &answer["reasonMessage"]),
        (&json!(false), &json!("e")),
        "it is text like any other"
    );
}
