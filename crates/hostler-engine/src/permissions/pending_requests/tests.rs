//! No call runs without an approval of exactly that call, in any order of client and agent events, and each request is
//! answered once.

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::ActionOrigin;
use ahp_types::actions::ChatToolCallConfirmedAction;
use hostler_driver::{AgentRequestId, Answer, PermissionRequest, ToolDisplay, WorkspaceConfiguration};
use hostler_trust::{TrustAssessment, TrustState};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{AnswerError, FormOutcome, InputForm, PendingInput, PendingRequests, ToolCallOptions, UnattendedOutcome};

/// One event.
#[derive(Debug, Clone)]
enum Step {
    Ask { request: u8, call: u8, input: u8 },
    Say { call: u8, approved: bool, option: u8, edited: u8 },
    Withdraw { request: u8 },
    TurnEnds,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, 0..3u8, any::<u8>()).prop_map(|(request, call, input)| Step::Ask { request, call, input }),
        5 => (0..4u8, any::<bool>(), 0..6u8, 0..5u8)
            .prop_map(|(call, approved, option, edited)| Step::Say { call, approved, option, edited }),
        1 => (0..4u8).prop_map(|request| Step::Withdraw { request }),
        1 => Just(Step::TurnEnds),
    ]
}

fn raw(text: &str) -> std::sync::Arc<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap().into()
}

fn permission_request(n: usize, input: &str) -> PermissionRequest {
    PermissionRequest {
        request_id: AgentRequestId(format!("r{n}")),
        call_id: format!("c{n}"),
        tool: "Bash".into(),
        input: raw(input),
        sub_agent: None,
        reason: None,
        display: ToolDisplay::default(),
    }
}

fn confirmation_action(call: u8, approved: bool, option: u8, edited: u8) -> ChatToolCallConfirmedAction {
    let option = ["", "allow-once", "deny", "deny-with-feedback", "allow-session", "nonsense"].get(usize::from(option));
    let edited = [None, None, Some(r#"{"edited":1}"#), Some("[]"), Some("{")].get(usize::from(edited)).copied();
    ChatToolCallConfirmedAction {
        turn_id: "t".into(),
        tool_call_id: format!("c{call}"),
        meta: None,
        approved,
        confirmed: None,
        reason: None,
        edited_tool_input: edited.flatten().map(str::to_owned),
        user_suggestion: None,
        reason_message: None,
        selected_option_id: option.filter(|id| !id.is_empty()).map(|id| (*id).to_owned()),
    }
}

proptest! {
    #[test]
    fn call_runs_once_per_request_with_the_displayed_or_edited_input(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut requests = PendingRequests::default();
        // What is displayed: request and input of each pending call.
        let mut seen: BTreeMap<String, (String, String)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Ask { request, call, input } => {
                    let (request, call) = (format!("r{request}"), format!("c{call}"));
                    let input = format!(r#"{{"n":{input}}}"#);
                    let asked = PermissionRequest {
                        request_id: AgentRequestId(request.clone()),
                        call_id: call.clone(),
                        ..permission_request(0, &input)
                    };
                    let taken = requests.add_permission(asked, None, ToolCallOptions::new(&[])).is_some();
                    let open = seen.values().any(|(known, _)| *known == request) || seen.contains_key(&call);
                    prop_assert_eq!(taken, !open, "what is open is not asked again");
                    if taken {
                        seen.insert(call, (request, input));
                    }
                }
                Step::Say { call, approved, option, edited } => {
                    let said = confirmation_action(call, approved, option, edited);
                    let id = said.tool_call_id.clone();
                    let Ok(confirmation) = requests.evaluate_confirmation(&said) else { continue };
                    let (request, input) = seen.remove(&id).expect("only what waits is answered");
                    let open = requests.remove_permission(&id).expect("it was open");
                    prop_assert_eq!(&open.request_id.0, &request);
                    prop_assert_eq!(open.input.get(), input.as_str());
                    prop_assert_eq!(confirmation.action.approved, approved);
                    match confirmation.agent_answer {
                        Answer::Allow { input: None } => prop_assert!(approved && said.edited_tool_input.is_none()),
                        Answer::Allow { input: Some(edited) } => {
                            prop_assert!(approved);
                            prop_assert_eq!(Some(edited.get()), said.edited_tool_input.as_deref());
                        }
                        Answer::Deny { .. } => prop_assert!(!approved),
                        other => prop_assert!(false, "{other:?}"),
                    }
                    prop_assert!(confirmation.rules.is_none(), "no rule was offered");
                    prop_assert!(requests.evaluate_confirmation(&said).is_err(), "it is answered once");
                }
                Step::Withdraw { request } => {
                    let request = format!("r{request}");
                    let known = seen.iter().find(|(_, (open, _))| *open == request).map(|(call, _)| call.clone());
                    let gone = requests.withdraw(&AgentRequestId(request)).map(|(id, _)| id);
                    prop_assert_eq!(&gone, &known);
                    known.map(|call| seen.remove(&call));
                }
                Step::TurnEnds => {
                    let gone: BTreeSet<_> = requests.clear_turn(|_| false).into_iter().map(|open| open.call_id).collect();
                    prop_assert_eq!(gone, std::mem::take(&mut seen).into_keys().collect());
                }
            }
        }
    }
}

#[test]
fn pending_requests_are_bounded() {
    let mut requests = PendingRequests::default();
    for n in 0..super::MAX_PENDING_REQUESTS + 1 {
        let asked = permission_request(n, "{}");
        assert_eq!(
            requests.add_permission(asked, None, ToolCallOptions::default()).is_some(),
            n < super::MAX_PENDING_REQUESTS
        );
    }
}

#[test]
fn no_other_answer_is_accepted_while_an_answer_is_stored() {
    let mut requests = PendingRequests::default();
    requests.add_permission(permission_request(0, "{}"), None, ToolCallOptions::new(&[]));
    let (request, said) = (AgentRequestId("r0".to_owned()), confirmation_action(0, true, 1, 0));
    let origin = ActionOrigin { client_id: "client".to_owned(), client_seq: 7 };
    assert!(requests.evaluate_confirmation(&said).is_ok());
    requests.begin_answer(request.clone(), Some(origin.clone()));
    assert!(!requests.is_empty(), "the agent still waits");
    assert!(matches!(requests.evaluate_confirmation(&said), Err(AnswerError::NotPending)));
    assert_eq!(requests.unanswered_permissions().count(), 0, "rules do not decide it meanwhile");
    assert!(requests.unattended_outcome(&request, true).is_none(), "neither does the unattended policy");
    assert!(requests.is_repeated_answer("c0", &origin), "a repetition of the same dispatch is recognized");
    let other = ActionOrigin { client_seq: 8, ..origin };
    assert!(!requests.is_repeated_answer("c0", &other), "another answer is no repetition");
    requests.finish_answer(&request);
    assert!(requests.evaluate_confirmation(&said).is_ok(), "the rules could not be stored");
    assert!(matches!(requests.unattended_outcome(&request, true), Some(UnattendedOutcome::Call(call)) if call == "c0"));
}

#[test]
fn request_that_is_withdrawn_while_its_answer_is_stored_is_gone() {
    let mut requests = PendingRequests::default();
    requests.add_permission(permission_request(0, "{}"), None, ToolCallOptions::new(&[]));
    let request = AgentRequestId("r0".to_owned());
    requests.begin_answer(request.clone(), None);
    assert!(requests.withdraw(&request).is_some());
    requests.finish_answer(&request);
    assert!(requests.is_empty() && requests.permission("c0").is_none());
}

#[test]
fn folder_question_without_a_person_is_skipped_and_a_plan_follows_the_policy() {
    let mut requests = PendingRequests::default();
    let request = |id: &str| AgentRequestId(id.to_owned());
    let assessment = TrustAssessment {
        directory: "/work".into(),
        configuration: WorkspaceConfiguration::default(),
        state: TrustState::Undecided,
    };
    for (id, form) in [("folder", InputForm::for_folder(assessment)), ("plan", InputForm::for_plan(None))] {
        requests.add_input(id.to_owned(), PendingInput { request_id: request(id), call_id: None, form });
    }
    let outcome = |id: &str, allowed| requests.unattended_outcome(&request(id), allowed);
    for allowed in [true, false] {
        let skipped = outcome("folder", allowed);
        assert!(matches!(skipped, Some(UnattendedOutcome::Input(Some(FormOutcome::DecideFolder(None))))));
    }
    assert!(matches!(outcome("plan", true), Some(UnattendedOutcome::Input(Some(FormOutcome::AcceptPlan("default"))))));
    assert!(matches!(outcome("plan", false), Some(UnattendedOutcome::Input(None))));
    requests.begin_answer(request("folder"), None);
    assert!(requests.folder_question().is_none(), "the question is not withdrawn while its answer is stored");
}
