//! The permission desk: what the agent waits for, and what a client's answer to it means. Pure.
//!
//! Every request is here from the moment it is shown until it is answered or withdrawn, and leaves exactly once. An
//! answer is about what was shown: one request, one call, one input.

mod folder_trust_form;
mod form;
mod tool_call_options;

use std::collections::BTreeMap;
use std::sync::Arc;

use ahp_types::actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction};
use ahp_types::state::{ConfirmationOption, ToolCallCancellationReason, ToolCallConfirmationReason};
use ahp_types::{StringOrMarkdown, state::ChatInputAnswer};
use hostler_driver::{AgentRequestId, Answer, PermissionRequest};
use hostler_rules::Rule;
use hostler_trust::TrustAssessment;
use serde_json::value::RawValue;

pub(crate) use self::form::{FormOutcome, InputForm};
pub(crate) use self::tool_call_options::{RuleLifetime, ToolCallOptions};

/// Why an answer is refused, for a person.
pub(crate) type InvalidAnswer = String;

/// More requests than any agent has open; the next ones are denied.
const MAX_PENDING_REQUESTS: usize = 256;

/// The longest input that a person can give to a call instead of the agent's.
const MAX_EDITED_INPUT_BYTES: usize = 4 * 1024 * 1024;

/// The longest word to the agent.
const MAX_DENIAL_BYTES: usize = 64 * 1024;

/// What the agent is told if a person says no and nothing else.
pub(crate) const DEFAULT_DENIAL: &str =
    "The user did not allow this. Do not try it again in another way; ask what to do instead, or go on without it.";

const NOT_PENDING_REASON: &str = "nobody waits for this answer any more";

/// A request that a person has to answer.
#[derive(Debug)]
pub(crate) enum WithdrawnRequest {
    /// Whether a call may run.
    Permission(PendingPermission),
    /// Questions, or a plan.
    Input,
}

/// A call that waits for a person's word.
#[derive(Debug)]
pub(crate) struct PendingPermission {
    pub(crate) request_id: AgentRequestId,
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) input: Arc<RawValue>,
    pub(crate) sub_agent: Option<String>,
    /// The sub-agent in whose chat it is asked.
    pub(crate) chat_sub_agent: Option<String>,
    options: ToolCallOptions,
}

/// Questions that wait for a person's answers.
#[derive(Debug)]
pub(crate) struct PendingInput {
    pub(crate) request_id: AgentRequestId,
    pub(crate) call_id: Option<String>,
    pub(crate) form: InputForm,
}

/// What is open, by the id of what clients see: a call, or a request for input.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    permissions: BTreeMap<String, PendingPermission>,
    inputs: BTreeMap<String, PendingInput>,
}

/// What a confirmation means.
#[derive(Debug)]
pub(crate) struct ToolCallAnswer {
    /// The action as it is accepted.
    pub(crate) action: ChatToolCallConfirmedAction,
    /// The input that a person gave instead of the agent's.
    pub(crate) edited_input: Option<Arc<RawValue>>,
    /// Rules that the person made of it.
    pub(crate) rules: Option<(RuleLifetime, Vec<Rule>)>,
    /// What the agent is told.
    pub(crate) agent_answer: Answer,
}

impl PendingRequests {
    /// Puts a call on the desk. `None` if it cannot be there: the desk is full, or the call is there already.
    pub(crate) fn add_permission(
        &mut self,
        request: PermissionRequest,
        worker: Option<String>,
        choices: ToolCallOptions,
    ) -> Option<Vec<ConfirmationOption>> {
        if !self.can_add(&request.request_id) || self.permissions.contains_key(&request.call_id) {
            return None;
        }
        let options = choices.to_confirmation_options();
        let PermissionRequest { request_id: request, call_id: call, tool, input, sub_agent, .. } = request;
        self.permissions.insert(
            call.clone(),
            PendingPermission {
                request_id: request,
                call_id: call,
                tool,
                input,
                sub_agent,
                chat_sub_agent: worker,
                options: choices,
            },
        );
        Some(options)
    }

    /// Puts questions on the desk. `false` if they cannot be there.
    pub(crate) fn add_input(&mut self, id: String, request: PendingInput) -> bool {
        if !self.can_add(&request.request_id) || self.inputs.contains_key(&id) {
            return false;
        }
        self.inputs.insert(id, request);
        true
    }

    fn can_add(&self, request: &AgentRequestId) -> bool {
        let known = self.permissions.values().any(|open| open.request_id == *request)
            || self.inputs.values().any(|open| open.request_id == *request);
        !known && self.permissions.len() + self.inputs.len() < MAX_PENDING_REQUESTS
    }

    pub(crate) fn permission(&self, call: &str) -> Option<&PendingPermission> {
        self.permissions.get(call)
    }

    /// Whether nothing waits for a person.
    pub(crate) fn is_empty(&self) -> bool {
        self.permissions.is_empty() && self.inputs.is_empty()
    }

    /// The calls that wait.
    pub(crate) fn permissions(&self) -> impl Iterator<Item = &PendingPermission> {
        self.permissions.values()
    }

    pub(crate) fn input(&self, id: &str) -> Option<&PendingInput> {
        self.inputs.get(id)
    }

    /// The question about a folder, and the folder as it was when the question was made.
    pub(crate) fn folder_question(&self) -> Option<(&AgentRequestId, &TrustAssessment)> {
        self.inputs.values().find_map(|open| Some((&open.request_id, open.form.assessment()?)))
    }

    /// The call is answered: it leaves the desk, once.
    pub(crate) fn remove_permission(&mut self, call: &str) -> Option<PendingPermission> {
        self.permissions.remove(call)
    }

    /// The questions are answered: they leave the desk, once.
    pub(crate) fn remove_input(&mut self, id: &str) -> Option<PendingInput> {
        self.inputs.remove(id)
    }

    /// The agent takes a request back; says what it was, by the id that clients see.
    pub(crate) fn withdraw(&mut self, request: &AgentRequestId) -> Option<(String, WithdrawnRequest)> {
        let call = self.permissions.values().find(|open| open.request_id == *request).map(|open| open.call_id.clone());
        if let Some(call) = call {
            return self.permissions.remove(&call).map(|open| (call, WithdrawnRequest::Permission(open)));
        }
        let id = self.inputs.iter().find(|(_, open)| open.request_id == *request).map(|(id, _)| id.clone())?;
        self.inputs.remove(&id).map(|_| (id, WithdrawnRequest::Input))
    }

    /// Nothing is open any more, but for what some sub-agents ask; says which calls were.
    pub(crate) fn clear_turn(&mut self, stays: impl Fn(&str) -> bool) -> Vec<PendingPermission> {
        self.inputs.clear();
        self.remove_permissions_where(|open| !open.chat_sub_agent.as_deref().is_some_and(&stays))
    }

    /// Nothing that a sub-agent asked is open any more; says which calls were.
    pub(crate) fn clear_sub_agent(&mut self, agent: &str) -> Vec<PendingPermission> {
        self.remove_permissions_where(|open| open.chat_sub_agent.as_deref() == Some(agent))
    }

    fn remove_permissions_where(&mut self, is_over: impl Fn(&PendingPermission) -> bool) -> Vec<PendingPermission> {
        self.permissions.extract_if(.., |_, open| is_over(open)).map(|(_, open)| open).collect()
    }

    /// What a client's word about a call means. Changes nothing.
    ///
    /// # Errors
    /// A sentence, if the call does not wait or the word makes no sense.
    pub(crate) fn evaluate_confirmation(
        &self,
        said: &ChatToolCallConfirmedAction,
    ) -> Result<ToolCallAnswer, InvalidAnswer> {
        let open = self.permissions.get(&said.tool_call_id).ok_or(NOT_PENDING_REASON)?;
        let choice = said.selected_option_id.as_deref().map(|id| open.options.find(id)).transpose()?;
        if choice.is_some_and(|choice| choice.is_approval() != said.approved) {
            return Err("the chosen option and the answer contradict each other".to_owned());
        }
        let mut action = said.clone();
        if !said.approved {
            let message = denial_message(said)?;
            action.confirmed = None;
            action.edited_tool_input = None;
            action.reason = Some(match said.reason {
                Some(ToolCallCancellationReason::Skipped) => ToolCallCancellationReason::Skipped,
                _ => ToolCallCancellationReason::Denied,
            });
            return Ok(ToolCallAnswer {
                action,
                edited_input: None,
                rules: None,
                agent_answer: Answer::Deny { message },
            });
        }
        let edited = said.edited_tool_input.as_deref().map(parse_edited_input).transpose()?;
        // Only a person's word comes over this way, whatever the client calls it.
        action.confirmed = Some(ToolCallConfirmationReason::UserAction);
        action.reason = None;
        let rules = choice.and_then(|choice| choice.rules());
        if edited.is_some() && rules.is_some() {
            return Err("a changed input can be allowed once; rules are about the agent's own".to_owned());
        }
        Ok(ToolCallAnswer {
            action,
            rules,
            agent_answer: Answer::Allow { input: edited.clone() },
            edited_input: edited,
        })
    }

    /// What a client's answers mean. Changes nothing.
    ///
    /// # Errors
    /// A sentence, if nobody waits for them or they do not fit.
    pub(crate) fn evaluate_completion(
        &self,
        said: &ChatInputCompletedAction,
        drafts: impl Fn(&str) -> Option<ChatInputAnswer>,
    ) -> Result<FormOutcome, InvalidAnswer> {
        let open = self.inputs.get(&said.request_id).ok_or(NOT_PENDING_REASON)?;
        let answer = |question: &str| {
            let said = said.answers.as_ref().and_then(|answers| answers.get(question)).cloned();
            said.or_else(|| drafts(question))
        };
        if let Some(unknown) = said.answers.iter().flatten().find(|(id, _)| !open.form.has_question(id)) {
            return Err(format!("there is no question {:?}", unknown.0));
        }
        open.form.evaluate(said.response, answer)
    }

    /// Whether a draft can stand.
    ///
    /// # Errors
    /// A sentence, if nobody waits for it or it does not fit.
    pub(crate) fn check_draft(
        &self,
        id: &str,
        question: &str,
        answer: Option<&ChatInputAnswer>,
    ) -> Result<(), InvalidAnswer> {
        let open = self.inputs.get(id).ok_or(NOT_PENDING_REASON)?;
        open.form.check_draft(question, answer)
    }
}

/// The words that the agent is told with a no.
fn denial_message(said: &ChatToolCallConfirmedAction) -> Result<String, InvalidAnswer> {
    let reason = said.reason_message.as_ref().map(|message| match message {
        StringOrMarkdown::Plain(text) => text.as_str(),
        StringOrMarkdown::Markdown { markdown } => markdown.as_str(),
    });
    let suggestion = said.user_suggestion.as_ref().map(|message| message.text.as_str());
    let words: Vec<_> = [reason, suggestion].into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
    let words = words.join("\n");
    match words.len() {
        0 => Ok(DEFAULT_DENIAL.to_owned()),
        1..=MAX_DENIAL_BYTES => Ok(words),
        _ => Err(format!("a word to the agent has at most {MAX_DENIAL_BYTES} bytes")),
    }
}

/// The input of a call is one JSON object.
fn parse_edited_input(text: &str) -> Result<Arc<RawValue>, InvalidAnswer> {
    if text.len() > MAX_EDITED_INPUT_BYTES {
        return Err(format!("the changed input has more than {MAX_EDITED_INPUT_BYTES} bytes"));
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(_)) => {}
        Ok(_) => return Err("the changed input is not a JSON object".to_owned()),
        Err(error) => return Err(format!("the changed input is not JSON: {error}")),
    }
    let raw = RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())?;
    Ok(raw.into())
}

#[cfg(test)]
mod tests;
