//! Questions and plans.

use ahp_types::StateAction;
use ahp_types::actions::ChatInputAnswerChangedAction;
use ahp_types::state::ChatInputResponseKind::{Accept, Cancel, Decline};
use hostler_driver::{
    AgentRequestId, Answer, DriverEvent, GateDecision, PlanRequest, Question, QuestionAnswer, QuestionKind,
    QuestionOption, QuestionRequest,
};
use serde_json::{Value, json};

use crate::pending_requests::helpers::Bench;

fn question(id: &str, kind: QuestionKind, required: bool) -> Question {
    Question { id: id.into(), header: None, text: format!("About {id}?"), kind, required }
}

fn choice(multiple: bool, free_text: bool) -> QuestionKind {
    let option = |id: &str| QuestionOption { id: id.into(), label: id.to_uppercase(), description: None };
    QuestionKind::Choice {
        options: vec![option("red"), option("blue")],
        allows_multiple: multiple,
        allows_free_text: free_text,
    }
}

async fn ask(bench: &mut Bench, questions: Vec<Question>) {
    let request = QuestionRequest {
        request_id: AgentRequestId("q".into()),
        call_id: Some("c1".into()),
        sub_agent: None,
        title: Some("Some questions".into()),
        questions,
    };
    bench.call("c1", "AskUserQuestion", &json!({})).await;
    bench.agent.emit(DriverEvent::QuestionsAsked(request)).await;
    bench.listener.until("session/inputNeededSet").await;
}

fn submitted(kind: &str, value: Value) -> Value {
    json!({ "state": "submitted", "value": { "kind": kind, "value": value } })
}

fn all() -> Vec<Question> {
    vec![
        question("one", choice(false, true), true),
        question("many", choice(true, false), false),
        question("text", QuestionKind::Text, false),
        question("whole", QuestionKind::Number { is_integer: true }, false),
        question("yes", QuestionKind::Boolean, false),
    ]
}

#[tokio::test]
async fn questions_of_every_kind_are_published_and_answered() {
    let mut bench = Bench::start().await;
    ask(&mut bench, all()).await;
    let part = &bench.chat()["activeTurn"]["responseParts"][1];
    let kinds: Vec<_> = part["request"]["questions"].as_array().unwrap().iter().map(|q| q["kind"].clone()).collect();
    assert_eq!(kinds, ["single-select", "multi-select", "text", "integer", "boolean"]);
    assert_eq!(bench.session()["inputNeeded"][0]["kind"], "chatInput");
    assert_eq!(bench.shown("c1")["status"], "running", "asking needs no permission");
    let answers = [
        ("one", submitted("selected", json!("red"))),
        ("many", submitted("selected-many", json!(["red", "blue"]))),
        ("text", submitted("text", json!("some text"))),
        ("whole", submitted("number", json!(7))),
        ("yes", submitted("boolean", json!(true))),
    ];
    bench.complete("q", Accept, &answers).await;
    let (request, answer) = bench.agent.next_answer().await;
    assert_eq!(request, AgentRequestId("q".into()));
    let Answer::Answers(answers) = answer else { panic!("{answer:?}") };
    let chosen = |ids: &[&str]| QuestionAnswer::Selected {
        options: ids.iter().map(|id| (*id).to_owned()).collect(),
        free_text: Vec::new(),
    };
    let expected = [
        ("one".to_owned(), chosen(&["red"])),
        ("many".to_owned(), chosen(&["red", "blue"])),
        ("text".to_owned(), QuestionAnswer::Text("some text".into())),
        ("whole".to_owned(), QuestionAnswer::Number(7.0)),
        ("yes".to_owned(), QuestionAnswer::Boolean(true)),
    ];
    assert_eq!(answers, expected);
    bench.listener.until("session/inputNeededRemoved").await;
    assert_eq!(bench.chat()["activeTurn"]["responseParts"][1]["response"], "accept");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn free_text_drafts_and_skipped_questions_are_accepted() {
    let mut bench = Bench::start().await;
    ask(&mut bench, all()).await;
    let draft = |question: &str, answer: Value| {
        StateAction::ChatInputAnswerChanged(ChatInputAnswerChangedAction {
            request_id: "q".into(),
            question_id: question.into(),
            answer: Some(serde_json::from_value(answer).unwrap()),
        })
    };
    bench.dispatch("one", draft("text", json!({"state": "draft", "value": {"kind": "text", "value": "half"}}))).await;
    bench.listener.until("session/inputNeededSet").await;
    let shared = &bench.session()["inputNeeded"][0]["request"]["answers"]["text"]["value"]["value"];
    assert_eq!(shared, "half", "a client that subscribes to the session only sees the draft");
    bench.dispatch("one", draft("nope", json!({"state": "skipped"}))).await;
    bench.listener.until("chat/inputAnswerChanged rejected: the request has no question").await;
    bench.dispatch("one", draft("yes", json!({"state": "draft", "value": {"kind": "text", "value": "x"}}))).await;
    bench.listener.until("chat/inputAnswerChanged rejected: the answer to").await;
    let own =
        json!({ "state": "submitted", "value": { "kind": "selected", "value": "", "freeformValues": ["green"] } });
    bench.complete("q", Accept, &[("one", own), ("many", json!({ "state": "skipped" }))]).await;
    let (_, answer) = bench.agent.next_answer().await;
    let Answer::Answers(answers) = answer else { panic!("{answer:?}") };
    let green = QuestionAnswer::Selected { options: Vec::new(), free_text: vec!["green".into()] };
    assert_eq!(answers, [("one".to_owned(), green), ("text".to_owned(), QuestionAnswer::Text("half".into()))]);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_answers_are_rejected_with_a_reason() {
    let mut bench = Bench::start().await;
    bench.complete("q", Accept, &[]).await;
    bench.listener.until("chat/inputCompleted rejected: the request is no longer pending").await;
    ask(&mut bench, all()).await;
    let red = || ("one", submitted("selected", json!("red")));
    for (answers, reason) in [
        (vec![], "the question \"About one?\" needs an answer"),
        (vec![("one", submitted("selected", json!("green")))], "the question \"About one?\" has no option"),
        (
            vec![red(), ("many", submitted("selected", json!("red")))],
            "the answer to \"About many?\" has the wrong type",
        ),
        (
            vec![red(), ("many", submitted("selected-many", json!(["red", "red"])))],
            "the option \"red\" is selected twice",
        ),
        (vec![red(), ("whole", submitted("number", json!(1.5)))], "the answer to \"About whole?\" has the wrong type"),
        (vec![red(), ("other", submitted("text", json!("x")))], "the request has no question"),
    ] {
        bench.complete("q", Accept, &answers).await;
        bench.listener.until(&format!("chat/inputCompleted rejected: {reason}")).await;
    }
    assert!(bench.agent.answers.try_recv().is_err());
    bench.complete("q", Cancel, &[]).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Skip));
    bench.complete("q", Accept, &[red()]).await;
    bench.listener.until("chat/inputCompleted rejected: the request is no longer pending").await;
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn declined_withdrawn_and_cancelled_questions_are_closed_for_all_clients() {
    let mut bench = Bench::start().await;
    ask(&mut bench, all()).await;
    bench.complete("q", Decline, &[]).await;
    assert!(matches!(bench.agent.next_answer().await.1, Answer::Deny { .. }));
    bench.listener.until("session/inputNeededRemoved").await;

    let elicited = |id: &str| {
        DriverEvent::QuestionsAsked(QuestionRequest {
            request_id: AgentRequestId(id.into()),
            call_id: None,
            sub_agent: None,
            title: Some("A server asks".into()),
            questions: Vec::new(),
        })
    };
    bench.agent.emit(elicited("e1")).await;
    bench.listener.until("session/inputNeededSet").await;
    bench.agent.emit(DriverEvent::RequestWithdrawn(AgentRequestId("e1".into()))).await;
    bench.listener.until("session/inputNeededRemoved").await;
    bench.agent.emit(elicited("e2")).await;
    bench.listener.until("session/inputNeededSet").await;
    bench.end().await;
    bench.listener.until("session/inputNeededRemoved").await;
    bench.complete("e2", Accept, &[]).await;
    bench.listener.until("chat/inputCompleted rejected").await;
    assert!(bench.session()["inputNeeded"].is_null());
    bench.rig.engine.shutdown().await;
}

async fn propose(bench: &mut Bench, id: &str, plan: Option<&str>) {
    bench.call("p1", "ExitPlanMode", &json!({ "plan": "1. Write it" })).await;
    let request =
        PlanRequest { request_id: AgentRequestId(id.into()), call_id: "p1".into(), plan: plan.map(str::to_owned) };
    bench.agent.emit(DriverEvent::PlanProposed(request)).await;
    bench.listener.until("session/inputNeededSet").await;
}

#[tokio::test]
async fn approved_plan_changes_the_mode_of_session_gate_and_agent() {
    let mut bench = Bench::start().await;
    bench.change_mode("plan").await;
    bench.listener.until("session/configChanged").await;
    bench.settled().await;
    let write = json!({ "file_path": "a.txt", "content": "x" });
    assert!(matches!(bench.gated("w0", "Write", &write).await, GateDecision::Deny(_)), "a plan writes nothing");
    propose(&mut bench, "p", None).await;
    let request = &bench.session()["inputNeeded"][0]["request"];
    assert_eq!(request["message"], "1. Write it", "the plan is shown even if the request does not carry it");
    let both =
        json!({ "state": "submitted", "value": { "kind": "selected", "value": "default", "freeformValues": ["x"] } });
    bench.complete("p", Accept, &[("plan", both)]).await;
    bench.listener.until("chat/inputCompleted rejected: a plan is carried out unchanged").await;
    bench.complete("p", Accept, &[("plan", submitted("selected", json!("accept-edits")))]).await;
    let (_, answer) = bench.agent.next_answer().await;
    assert!(matches!(&answer, Answer::AcceptPlan { mode } if mode == "acceptEdits"), "{answer:?}");
    assert_eq!(bench.gated("w1", "Write", &write).await, GateDecision::Allow);
    bench.listener.until("session/configChanged").await;
    assert_eq!(bench.session()["config"]["values"]["permissionMode"], "acceptEdits");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn rejected_plan_returns_the_feedback_to_the_agent() {
    let mut bench = Bench::start().await;
    for (id, response, answers, expected) in [
        ("p1", Accept, vec![("plan", submitted("text", json!("shorter, please")))], "shorter, please"),
        ("p2", Accept, vec![("plan", submitted("selected", json!("revise")))], "The user did not accept this plan"),
        ("p3", Decline, vec![], "The user did not accept this plan"),
        ("p4", Cancel, vec![], "The user did not accept this plan"),
    ] {
        propose(&mut bench, id, Some("# Plan")).await;
        bench.complete(id, response, &answers).await;
        let (_, answer) = bench.agent.next_answer().await;
        let Answer::Deny { message } = answer else { panic!("{id}: {answer:?}") };
        assert!(message.starts_with(expected), "{id}: {message}");
    }
    assert_eq!(bench.session()["config"]["values"]["permissionMode"], "default");
    bench.rig.engine.shutdown().await;
}
