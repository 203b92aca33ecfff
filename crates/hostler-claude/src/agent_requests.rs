//! Requests from the agent over the control protocol: answered by the gate's decision, or pending until a person
//! answers.
//!
//! Every request gets an answer, because an unanswered one blocks the agent forever. Hooks do not wait for a person (a
//! delayed hook times out, and older builds then run the tool); a permission request may wait for one without limit.
//! Requests that cannot be parsed are denied.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use hostler_driver::{
    AgentRequestId, Answer, DriverEvent, GateDecision, GatedCall, PermissionGate, PermissionRequest, PlanRequest,
    QuestionRequest, ToolDisplay,
};
use serde_json::value::RawValue;

use crate::questions::{self, QuestionForm};
use crate::wire::{
    AgentControlRequest, ControlRequestBody, ControlResponseBody, HostControlResponse, HostMessage,
    ToolPermissionRequest,
};

/// More pending requests than any agent makes; further ones are denied.
const MAX_PENDING_REQUESTS: usize = 256;

const UNREADABLE_REQUEST_MESSAGE: &str = "The host could not parse this request and rejected it.";
const UNDECIDED_REQUEST_MESSAGE: &str = "The host did not decide on this request and rejected it.";
const TOO_MANY_REQUESTS_MESSAGE: &str = "Too many requests are pending.";
const SKIPPED_QUESTION_MESSAGE: &str = "The user does not want to answer.";

/// The requests that wait for a person's answer.
#[derive(Debug, Default)]
pub(crate) struct AgentRequests {
    pending: HashMap<String, PendingRequest>,
}

#[derive(Debug)]
struct PendingRequest {
    call: Option<String>,
    expected_answer: ExpectedAnswer,
}

#[derive(Debug)]
enum ExpectedAnswer {
    /// Whether a tool may run, or a plan may be carried out.
    Permission(Arc<RawValue>),
    /// Answers to a tool's questions.
    QuestionAnswers(Arc<RawValue>, QuestionForm),
    /// Answers to an MCP server's questions.
    Elicitation(QuestionForm),
}

/// The result of a request, or of an answer to one.
#[derive(Debug, Default)]
pub(crate) struct RequestResolution {
    /// A line for the agent.
    pub(crate) line: Option<Vec<u8>>,
    /// The call that this denies.
    pub(crate) denied_call: Option<String>,
    /// The event for the engine.
    pub(crate) event: Option<DriverEvent>,
    /// The gate's decision on a call, for display.
    pub(crate) gate_decision: Option<(String, GateDecision)>,
}

impl AgentRequests {
    /// Handles a request of the agent, with the gate's decision on its call. Without a decision, the call is denied. The
    /// answer to a hook carries steering text, if there is any, but only when the
    /// call is over or will not run: both builds forget text that comes with the start of a call if the call is
    /// interrupted or the agent dies during it.
    pub(crate) fn handle_request(
        &mut self,
        ask: &AgentControlRequest<'_>,
        decision: Option<GateDecision>,
        take_steering: &mut dyn FnMut() -> Option<String>,
    ) -> RequestResolution {
        let id = &*ask.request_id;
        let decision = decision.unwrap_or_else(|| GateDecision::Deny(UNDECIDED_REQUEST_MESSAGE.to_owned()));
        match &ask.body {
            ControlRequestBody::PreToolUse { request: ask, .. } => {
                handle_pre_tool_use(id, ask, decision, take_steering)
            }
            ControlRequestBody::PostToolUse { event, .. } => RequestResolution {
                line: success_line(id, ControlResponseBody::post_tool_use(event, take_steering().as_deref())),
                ..RequestResolution::default()
            },
            ControlRequestBody::CanUseTool(ask) => self.handle_permission(id, ask, decision),
            ControlRequestBody::UnreadableTool { tool_use_id, is_hook: hook } => {
                let verdict = if *hook {
                    ControlResponseBody::deny_in_hook(UNREADABLE_REQUEST_MESSAGE)
                } else {
                    ControlResponseBody::deny(UNREADABLE_REQUEST_MESSAGE)
                };
                denied_outcome(id, tool_use_id.as_deref(), verdict)
            }
            ControlRequestBody::Elicitation(elicitation) => match questions::from_elicitation(elicitation) {
                Some((title, form)) if self.can_accept(id) => {
                    let request = QuestionRequest {
                        request_id: AgentRequestId(id.to_owned()),
                        call_id: None,
                        sub_agent: None,
                        title: Some(title),
                        questions: form.questions(),
                    };
                    self.insert_pending(id, None, ExpectedAnswer::Elicitation(form));
                    RequestResolution {
                        event: Some(DriverEvent::QuestionsAsked(request)),
                        ..RequestResolution::default()
                    }
                }
                _ => RequestResolution {
                    line: success_line(id, ControlResponseBody::Elicitation { action: "cancel", content: None }),
                    ..RequestResolution::default()
                },
            },
            ControlRequestBody::Other { .. } => {
                let response = HostControlResponse::Error {
                    request_id: id,
                    error: "The host does not support this kind of request.",
                };
                RequestResolution { line: response_line(response), ..RequestResolution::default() }
            }
        }
    }

    fn handle_permission(
        &mut self,
        id: &str,
        ask: &ToolPermissionRequest<'_>,
        decision: GateDecision,
    ) -> RequestResolution {
        let input = || Arc::<RawValue>::from(ask.input.to_owned());
        let call = ask.tool_use_id.to_string();
        match decision {
            GateDecision::Deny(reason) => return denied_outcome(id, Some(&call), ControlResponseBody::deny(&reason)),
            GateDecision::Allow => {
                return RequestResolution {
                    line: success_line(id, ControlResponseBody::allow(ask.input)),
                    ..RequestResolution::default()
                };
            }
            GateDecision::Ask => {}
        }
        if !self.can_accept(id) {
            return denied_outcome(id, Some(&call), ControlResponseBody::deny(TOO_MANY_REQUESTS_MESSAGE));
        }
        let request = AgentRequestId(id.to_owned());
        let (waits_for, event) = match &*ask.tool {
            "AskUserQuestion" => match questions::from_tool_input(ask.input) {
                Some(form) => {
                    let event = DriverEvent::QuestionsAsked(QuestionRequest {
                        request_id: request,
                        call_id: Some(call.clone()),
                        sub_agent: ask.agent_id.as_deref().map(str::to_owned),
                        title: None,
                        questions: form.questions(),
                    });
                    (ExpectedAnswer::QuestionAnswers(input(), form), event)
                }
                None => return denied_outcome(id, Some(&call), ControlResponseBody::deny(UNREADABLE_REQUEST_MESSAGE)),
            },
            "ExitPlanMode" => {
                let plan = questions::plan_text(ask.input);
                let event = DriverEvent::PlanProposed(PlanRequest { request_id: request, call_id: call.clone(), plan });
                (ExpectedAnswer::Permission(input()), event)
            }
            tool => {
                let event = DriverEvent::PermissionRequested(PermissionRequest {
                    request_id: request,
                    call_id: call.clone(),
                    tool: tool.to_owned(),
                    input: input(),
                    sub_agent: ask.agent_id.as_deref().map(str::to_owned),
                    reason: ask.reason.as_deref().map(str::to_owned),
                    display: ToolDisplay::default(),
                });
                (ExpectedAnswer::Permission(input()), event)
            }
        };
        self.insert_pending(id, Some(call), waits_for);
        RequestResolution { event: Some(event), ..RequestResolution::default() }
    }

    /// Whether a request may become pending. A reused id would answer a request other than the displayed one.
    fn can_accept(&self, id: &str) -> bool {
        self.pending.len() < MAX_PENDING_REQUESTS && !self.pending.contains_key(id)
    }

    fn insert_pending(&mut self, id: &str, call: Option<String>, waits_for: ExpectedAnswer) {
        self.pending.insert(id.to_owned(), PendingRequest { call, expected_answer: waits_for });
    }

    /// Applies a person's answer; `None` if no such request is pending.
    pub(crate) fn answer(&mut self, id: &str, answer: &Answer) -> Option<RequestResolution> {
        let PendingRequest { call, expected_answer: waits_for } = self.pending.remove(id)?;
        let denied = |message: &str| denied_outcome(id, call.as_deref(), ControlResponseBody::deny(message));
        let granted = |verdict: ControlResponseBody<'_>| RequestResolution {
            line: success_line(id, verdict),
            ..RequestResolution::default()
        };
        let elicited = |action, content| granted(ControlResponseBody::Elicitation { action, content });
        Some(match (waits_for, answer) {
            (ExpectedAnswer::Permission(asked), Answer::Allow { input }) => {
                granted(ControlResponseBody::allow(input.as_deref().unwrap_or(&asked)))
            }
            (ExpectedAnswer::Permission(asked), Answer::AcceptPlan { mode }) => {
                granted(ControlResponseBody::allow_with_mode(&asked, mode))
            }
            (ExpectedAnswer::QuestionAnswers(asked, form), Answer::Answers(answers)) => {
                match form.input_with_answers(&asked, answers) {
                    Some(input) => granted(ControlResponseBody::allow(&input)),
                    None => denied(UNREADABLE_REQUEST_MESSAGE),
                }
            }
            (ExpectedAnswer::Elicitation(form), Answer::Answers(answers)) => {
                elicited("accept", Some(form.elicitation_content(answers)))
            }
            (ExpectedAnswer::Elicitation(_), Answer::Deny { .. }) => elicited("decline", None),
            (ExpectedAnswer::Elicitation(_), _) => elicited("cancel", None),
            (_, Answer::Deny { message }) => denied(message),
            // A skipped question, or an answer that does not fit the request, is not an approval.
            (ExpectedAnswer::Permission(_) | ExpectedAnswer::QuestionAnswers(..), _) => {
                denied(SKIPPED_QUESTION_MESSAGE)
            }
        })
    }

    /// The agent withdraws a request; returns whether it was pending.
    pub(crate) fn withdraw(&mut self, id: &str) -> bool {
        self.pending.remove(id).is_some()
    }
}

/// The gate's decision on the call of a request; `None` if the request is about no call. A permission request is decided
/// on although its hook was: rules may have changed since, and the agent may ask without a hook. Questions and plans
/// always go to a person, whatever the rules allow.
pub(crate) async fn decide_on_call(
    ask: &AgentControlRequest<'_>,
    gate: &Arc<dyn PermissionGate>,
) -> Option<GateDecision> {
    let (ControlRequestBody::PreToolUse { request: ask, .. } | ControlRequestBody::CanUseTool(ask)) = &ask.body else {
        return None;
    };
    let call = GatedCall {
        call_id: ask.tool_use_id.to_string(),
        tool: ask.tool.to_string(),
        input: ask.input.to_owned().into(),
        sub_agent: ask.agent_id.as_deref().map(str::to_owned),
        cwd: ask.cwd.as_deref().map(PathBuf::from).filter(|directory| directory.is_absolute()),
    };
    Some(match Arc::clone(gate).decide(call).await {
        GateDecision::Allow if matches!(&*ask.tool, "AskUserQuestion" | "ExitPlanMode") => GateDecision::Ask,
        decision => decision,
    })
}

fn handle_pre_tool_use(
    id: &str,
    ask: &ToolPermissionRequest<'_>,
    gate: GateDecision,
    take_steering: &mut dyn FnMut() -> Option<String>,
) -> RequestResolution {
    let answer = |verdict: ControlResponseBody<'_>| RequestResolution {
        line: success_line(id, verdict),
        ..RequestResolution::default()
    };
    let mut consequence = match &gate {
        GateDecision::Allow => answer(ControlResponseBody::allow_in_hook()),
        GateDecision::Ask => answer(ControlResponseBody::ask_in_hook()),
        GateDecision::Deny(reason) => {
            let steering = take_steering();
            denied_outcome(
                id,
                Some(&ask.tool_use_id),
                ControlResponseBody::deny_in_hook(reason).with_context(steering.as_deref()),
            )
        }
    };
    consequence.gate_decision = Some((ask.tool_use_id.to_string(), gate));
    consequence
}

fn denied_outcome(id: &str, call: Option<&str>, verdict: ControlResponseBody<'_>) -> RequestResolution {
    RequestResolution {
        line: success_line(id, verdict),
        denied_call: call.map(str::to_owned),
        ..RequestResolution::default()
    }
}

fn success_line(request_id: &str, response: ControlResponseBody<'_>) -> Option<Vec<u8>> {
    response_line(HostControlResponse::Success { request_id, response })
}

/// Serializing does not fail for any of our messages; if it did, the agent would wait forever, so it is ended
/// instead.
fn response_line(response: HostControlResponse<'_>) -> Option<Vec<u8>> {
    HostMessage::ControlResponse { response }.to_line().ok()
}

#[cfg(test)]
mod tests;
