//! The control protocol, the agent's side: what it asks, what is answered at once, and what waits for a person.
//!
//! Every request gets an answer: an open one holds the agent for ever. Hooks are answered at once (a hook that is held
//! times out, and older builds then let the tool run); a permission request may wait as long as a person takes.
//! Whatever cannot be read is refused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hostler_driver::{
    Answer, DriverEvent, Gate, GatedCall, Gatekeeper, PermissionRequest, PlanRequest, QuestionRequest, RequestId,
    ToolDisplay,
};
use serde_json::value::RawValue;

use crate::question::{self, Form};
use crate::wire::{ControlAsk, ControlBody, ControlReply, HostMessage, ToolAsk, Verdict};

/// More open requests than any agent makes; the next ones are refused.
const MAX_OPEN: usize = 256;

const UNREADABLE: &str = "The host could not read this request, so it is refused.";
const TOO_MANY: &str = "Too many requests are waiting for an answer.";
const SKIPPED: &str = "The user does not want to answer.";

/// The requests that wait for a person.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    open: HashMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    call: Option<String>,
    waits_for: WaitsFor,
}

#[derive(Debug)]
enum WaitsFor {
    /// Whether a tool may run, or a plan be carried out.
    Permission(Arc<RawValue>),
    /// Answers to a tool's questions.
    Answers(Arc<RawValue>, Form),
    /// Answers to an MCP server's questions.
    Elicitation(Form),
}

/// What follows from a request, or from an answer to one.
#[derive(Debug, Default)]
pub(crate) struct Consequence {
    /// A line for the agent.
    pub(crate) line: Option<Vec<u8>>,
    /// The call that is refused with it.
    pub(crate) denied: Option<String>,
    /// What the engine hears.
    pub(crate) event: Option<DriverEvent>,
    /// What the gate said about a call, for whoever shows it.
    pub(crate) gated: Option<(String, Gate)>,
}

impl Asks {
    /// The agent asks something. An answer to a hook carries words for the model, where there are any: they are taken
    /// only when the call is over or is not going to run. What the agent is told at a call's beginning it forgets on both
    /// builds when the call is interrupted, or when it dies in the middle of it.
    pub(crate) fn consider(
        &mut self,
        ask: &ControlAsk<'_>,
        gatekeeper: &dyn Gatekeeper,
        words: &mut dyn FnMut() -> Option<String>,
    ) -> Consequence {
        let id = &*ask.request_id;
        match &ask.body {
            ControlBody::PreToolUse { ask, .. } => in_hook(id, ask, gatekeeper, words),
            ControlBody::PostToolUse { event, .. } => {
                Consequence { line: success(id, Verdict::after(event, words().as_deref())), ..Consequence::default() }
            }
            ControlBody::CanUseTool(ask) => self.permission(id, ask, gatekeeper),
            ControlBody::UnreadableTool { tool_use_id, hook } => {
                let verdict = if *hook { Verdict::deny_in_hook(UNREADABLE) } else { Verdict::deny(UNREADABLE) };
                refused(id, tool_use_id.as_deref(), verdict)
            }
            ControlBody::Elicitation(elicitation) => match question::of_elicitation(elicitation) {
                Some((title, form)) if self.has_room(id) => {
                    let request = QuestionRequest {
                        request: RequestId(id.to_owned()),
                        call: None,
                        sub_agent: None,
                        title: Some(title),
                        questions: form.questions(),
                    };
                    self.keep(id, None, WaitsFor::Elicitation(form));
                    Consequence { event: Some(DriverEvent::QuestionsAsked(request)), ..Consequence::default() }
                }
                _ => Consequence {
                    line: success(id, Verdict::Elicited { action: "cancel", content: None }),
                    ..Consequence::default()
                },
            },
            ControlBody::Other { .. } => {
                let response =
                    ControlReply::Error { request_id: id, error: "The host does not serve this kind of request." };
                Consequence { line: line(response), ..Consequence::default() }
            }
        }
    }

    fn permission(&mut self, id: &str, ask: &ToolAsk<'_>, gatekeeper: &dyn Gatekeeper) -> Consequence {
        let input = || Arc::<RawValue>::from(ask.input.to_owned());
        let call = ask.tool_use_id.to_string();
        // The hook has decided already, but rules may have changed since, and the agent may ask without a hook.
        match decide(ask, gatekeeper) {
            Gate::Deny(reason) => return refused(id, Some(&call), Verdict::deny(&reason)),
            Gate::Allow => {
                return Consequence { line: success(id, Verdict::allow(ask.input)), ..Consequence::default() };
            }
            Gate::Ask => {}
        }
        if !self.has_room(id) {
            return refused(id, Some(&call), Verdict::deny(TOO_MANY));
        }
        let request = RequestId(id.to_owned());
        let (waits_for, event) = match &*ask.tool {
            "AskUserQuestion" => match question::of_tool(ask.input) {
                Some(form) => {
                    let event = DriverEvent::QuestionsAsked(QuestionRequest {
                        request,
                        call: Some(call.clone()),
                        sub_agent: ask.agent_id.as_deref().map(str::to_owned),
                        title: None,
                        questions: form.questions(),
                    });
                    (WaitsFor::Answers(input(), form), event)
                }
                None => return refused(id, Some(&call), Verdict::deny(UNREADABLE)),
            },
            "ExitPlanMode" => {
                let plan = question::plan(ask.input);
                let event = DriverEvent::PlanProposed(PlanRequest { request, call: call.clone(), plan });
                (WaitsFor::Permission(input()), event)
            }
            tool => {
                let event = DriverEvent::PermissionRequested(PermissionRequest {
                    request,
                    call: call.clone(),
                    tool: tool.to_owned(),
                    input: input(),
                    sub_agent: ask.agent_id.as_deref().map(str::to_owned),
                    reason: ask.reason.as_deref().map(str::to_owned),
                    display: ToolDisplay::default(),
                });
                (WaitsFor::Permission(input()), event)
            }
        };
        self.keep(id, Some(call), waits_for);
        Consequence { event: Some(event), ..Consequence::default() }
    }

    /// A request's id that is open already would answer another request than the one that was shown.
    fn has_room(&self, id: &str) -> bool {
        self.open.len() < MAX_OPEN && !self.open.contains_key(id)
    }

    fn keep(&mut self, id: &str, call: Option<String>, waits_for: WaitsFor) {
        self.open.insert(id.to_owned(), Open { call, waits_for });
    }

    /// A person has answered; nothing if no such request is open.
    pub(crate) fn answer(&mut self, id: &str, answer: &Answer) -> Option<Consequence> {
        let Open { call, waits_for } = self.open.remove(id)?;
        let denied = |message: &str| refused(id, call.as_deref(), Verdict::deny(message));
        let granted = |verdict: Verdict<'_>| Consequence { line: success(id, verdict), ..Consequence::default() };
        let elicited = |action, content| granted(Verdict::Elicited { action, content });
        Some(match (waits_for, answer) {
            (WaitsFor::Permission(asked), Answer::Allow { input }) => {
                granted(Verdict::allow(input.as_deref().unwrap_or(&asked)))
            }
            (WaitsFor::Permission(asked), Answer::Proceed { mode }) => granted(Verdict::allow_into(&asked, mode)),
            (WaitsFor::Answers(asked, form), Answer::Answers(answers)) => match form.answered(&asked, answers) {
                Some(input) => granted(Verdict::allow(&input)),
                None => denied(UNREADABLE),
            },
            (WaitsFor::Elicitation(form), Answer::Answers(answers)) => elicited("accept", Some(form.content(answers))),
            (WaitsFor::Elicitation(_), Answer::Deny { .. }) => elicited("decline", None),
            (WaitsFor::Elicitation(_), _) => elicited("cancel", None),
            (_, Answer::Deny { message }) => denied(message),
            // A skipped question, or an answer that does not fit what was asked: not a yes.
            (WaitsFor::Permission(_) | WaitsFor::Answers(..), _) => denied(SKIPPED),
        })
    }

    /// The agent takes a request back; whether it was open.
    pub(crate) fn withdraw(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }
}

/// Questions and plans are for people, whatever the rules say about tools.
fn decide(ask: &ToolAsk<'_>, gatekeeper: &dyn Gatekeeper) -> Gate {
    let call = GatedCall {
        id: &ask.tool_use_id,
        tool: &ask.tool,
        input: ask.input,
        sub_agent: ask.agent_id.as_deref(),
        cwd: ask.cwd.as_deref().map(Path::new).filter(|directory| directory.is_absolute()),
    };
    match gatekeeper.decide(&call) {
        Gate::Allow if matches!(&*ask.tool, "AskUserQuestion" | "ExitPlanMode") => Gate::Ask,
        gate => gate,
    }
}

fn in_hook(
    id: &str,
    ask: &ToolAsk<'_>,
    gatekeeper: &dyn Gatekeeper,
    words: &mut dyn FnMut() -> Option<String>,
) -> Consequence {
    let gate = decide(ask, gatekeeper);
    let answer = |verdict: Verdict<'_>| Consequence { line: success(id, verdict), ..Consequence::default() };
    let mut consequence = match &gate {
        Gate::Allow => answer(Verdict::allow_in_hook()),
        Gate::Ask => answer(Verdict::ask_in_hook()),
        Gate::Deny(reason) => {
            let words = words();
            refused(id, Some(&ask.tool_use_id), Verdict::deny_in_hook(reason).telling(words.as_deref()))
        }
    };
    consequence.gated = Some((ask.tool_use_id.to_string(), gate));
    consequence
}

fn refused(id: &str, call: Option<&str>, verdict: Verdict<'_>) -> Consequence {
    Consequence { line: success(id, verdict), denied: call.map(str::to_owned), ..Consequence::default() }
}

fn success(request_id: &str, response: Verdict<'_>) -> Option<Vec<u8>> {
    line(ControlReply::Success { request_id, response })
}

/// Serializing fails for none of our messages; were it to, the agent would wait for ever, so it is ended instead.
fn line(response: ControlReply<'_>) -> Option<Vec<u8>> {
    HostMessage::ControlResponse { response }.to_line().ok()
}

#[cfg(test)]
mod tests;
