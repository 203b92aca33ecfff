//! Pending requests of a chat: what the agent waits for, and what a client's answer means. Pure.
//!
//! A request is stored here from its publication until it is answered or withdrawn, and is removed exactly once. Before
//! that it may be in preparation: something that is displayed with it is still read. An answer applies to what was
//! displayed: one request, one call, one input.

mod error;
mod folder_trust_form;
mod form;
mod tool_call_options;

use std::collections::BTreeMap;
use std::sync::Arc;

use ahp_types::actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction};
use ahp_types::state::{ConfirmationOption, ToolCallCancellationReason, ToolCallConfirmationReason};
use ahp_types::{ActionOrigin, StringOrMarkdown, state::ChatInputAnswer};
use hostler_driver::{AgentRequestId, Answer, PermissionRequest};
use hostler_rules::Rule;
use hostler_trust::TrustAssessment;
use serde_json::value::RawValue;

pub use self::error::AnswerError;
pub(crate) use self::form::{FormOutcome, InputForm};
pub(crate) use self::tool_call_options::{RuleLifetime, ToolCallOptions};

/// Maximum number of pending requests; further ones are denied. No agent is known to have that many.
const MAX_PENDING_REQUESTS: usize = 256;

/// Maximum size of an input that a person provides instead of the agent's.
const MAX_EDITED_INPUT_BYTES: usize = 4 * 1024 * 1024;

/// Maximum length of a person's feedback to the agent.
const MAX_DENIAL_BYTES: usize = 64 * 1024;

/// What the agent receives if a person denies a call without feedback.
const DEFAULT_DENIAL: &str =
    "The user did not allow this. Do not try it again in another way; ask what to do instead, or continue without it.";

/// A request that the agent withdrew.
#[derive(Debug)]
pub(crate) enum WithdrawnRequest {
    /// A tool call.
    Permission(PendingPermission),
    /// Questions, or a plan.
    Input,
}

/// What follows if no person answers a request.
#[derive(Debug)]
pub(crate) enum UnattendedOutcome {
    /// The call is decided by the policy.
    Call(String),
    /// The form's own outcome, if it has one.
    Input(Option<FormOutcome>),
}

/// A tool call that waits for approval.
#[derive(Debug)]
pub(crate) struct PendingPermission {
    pub(crate) request_id: AgentRequestId,
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) input: Arc<RawValue>,
    pub(crate) sub_agent: Option<String>,
    /// The sub-agent whose chat displays the request.
    pub(crate) chat_sub_agent: Option<String>,
    options: ToolCallOptions,
}

/// Questions that wait for answers.
#[derive(Debug)]
pub(crate) struct PendingInput {
    pub(crate) request_id: AgentRequestId,
    pub(crate) call_id: Option<String>,
    pub(crate) form: InputForm,
}

/// A request that is not displayed yet.
#[derive(Debug)]
struct PreparingRequest {
    call_id: String,
    /// The sub-agent whose chat will display it.
    chat_sub_agent: Option<String>,
}

/// All pending requests, by the id that clients use: of a tool call, or of an input request.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    permissions: BTreeMap<String, PendingPermission>,
    inputs: BTreeMap<String, PendingInput>,
    preparing: BTreeMap<AgentRequestId, PreparingRequest>,
    /// Requests whose answer is being stored, with the dispatch that answers.
    answering: BTreeMap<AgentRequestId, Option<ActionOrigin>>,
}

/// A client's answer to a tool call, after validation.
#[derive(Debug)]
pub(crate) struct ToolCallAnswer {
    /// The action as it is published.
    pub(crate) action: ChatToolCallConfirmedAction,
    /// The input that a person provided instead of the agent's.
    pub(crate) edited_input: Option<Arc<RawValue>>,
    /// Rules that the person created with the answer.
    pub(crate) rules: Option<(RuleLifetime, Vec<Rule>)>,
    /// What the agent receives.
    pub(crate) agent_answer: Answer,
}

impl PendingRequests {
    /// Adds a call. `None` if there are too many pending requests or the call is already pending.
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

    /// Adds questions. `false` if there are too many pending requests or the id is already pending.
    pub(crate) fn add_input(&mut self, id: String, request: PendingInput) -> bool {
        if !self.can_add(&request.request_id) || self.inputs.contains_key(&id) {
            return false;
        }
        self.inputs.insert(id, request);
        true
    }

    fn can_add(&self, request: &AgentRequestId) -> bool {
        let known = self.permissions.values().any(|open| open.request_id == *request)
            || self.inputs.values().any(|open| open.request_id == *request)
            || self.preparing.contains_key(request);
        !known && self.permissions.len() + self.inputs.len() + self.preparing.len() < MAX_PENDING_REQUESTS
    }

    /// Starts the preparation of a request. `false` if there are too many requests or this one is known already.
    pub(crate) fn start_preparing(
        &mut self,
        request: AgentRequestId,
        call_id: String,
        chat_sub_agent: Option<String>,
    ) -> bool {
        let is_new = self.can_add(&request);
        if is_new {
            self.preparing.insert(request, PreparingRequest { call_id, chat_sub_agent });
        }
        is_new
    }

    /// Ends the preparation of a request. `false` if the request was withdrawn meanwhile.
    pub(crate) fn finish_preparing(&mut self, request: &AgentRequestId) -> bool {
        self.preparing.remove(request).is_some()
    }

    /// Whether a request about this call is in preparation.
    pub(crate) fn is_preparing(&self, call: &str) -> bool {
        self.preparing.values().any(|open| open.call_id == call)
    }

    /// Drops the requests in preparation about a call, and returns their ids.
    pub(crate) fn stop_preparing_call(&mut self, call: &str) -> Vec<AgentRequestId> {
        self.preparing.extract_if(.., |_, open| open.call_id == call).map(|(id, _)| id).collect()
    }

    /// Drops the requests in preparation of a sub-agent, and returns their ids.
    pub(crate) fn stop_preparing_sub_agent(&mut self, agent: &str) -> Vec<AgentRequestId> {
        let is_over = |open: &PreparingRequest| open.chat_sub_agent.as_deref() == Some(agent);
        self.preparing.extract_if(.., |_, open| is_over(open)).map(|(id, _)| id).collect()
    }

    /// Marks that a client's answer is being stored. Until it is applied, no other answer is accepted.
    pub(crate) fn begin_answer(&mut self, request: AgentRequestId, origin: Option<ActionOrigin>) {
        self.answering.insert(request, origin);
    }

    /// Ends the mark: the answer is about to be applied, or storing it failed.
    pub(crate) fn finish_answer(&mut self, request: &AgentRequestId) {
        self.answering.remove(request);
    }

    /// Whether this dispatch's answer to a call or an input request is being stored: a reconnected client repeats it.
    pub(crate) fn is_repeated_answer(&self, id: &str, origin: &ActionOrigin) -> bool {
        let request = self.permissions.get(id).map(|open| &open.request_id);
        let request = request.or_else(|| self.inputs.get(id).map(|open| &open.request_id));
        request.and_then(|request| self.answering.get(request)?.as_ref()) == Some(origin)
    }

    fn can_answer(&self, request: &AgentRequestId) -> bool {
        !self.answering.contains_key(request)
    }

    pub(crate) fn permission(&self, call: &str) -> Option<&PendingPermission> {
        self.permissions.get(call)
    }

    /// Whether no request is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.permissions.is_empty() && self.inputs.is_empty()
    }

    /// The calls that wait for an answer.
    pub(crate) fn unanswered_permissions(&self) -> impl Iterator<Item = &PendingPermission> {
        self.permissions.values().filter(|open| self.can_answer(&open.request_id))
    }

    /// The outcome of a request that no person answers; `None` if it is not pending.
    pub(crate) fn unattended_outcome(&self, request: &AgentRequestId, allowed: bool) -> Option<UnattendedOutcome> {
        if let Some(open) = self.unanswered_permissions().find(|open| open.request_id == *request) {
            return Some(UnattendedOutcome::Call(open.call_id.clone()));
        }
        let mut inputs = self.inputs.values().filter(|open| self.can_answer(&open.request_id));
        let open = inputs.find(|open| open.request_id == *request)?;
        Some(UnattendedOutcome::Input(open.form.unattended_outcome(allowed)))
    }

    pub(crate) fn input(&self, id: &str) -> Option<&PendingInput> {
        self.inputs.get(id)
    }

    /// The question about a folder that waits for an answer, and the folder as it was when the question was created.
    pub(crate) fn folder_question(&self) -> Option<(&AgentRequestId, &TrustAssessment)> {
        let mut inputs = self.inputs.values().filter(|open| self.can_answer(&open.request_id));
        inputs.find_map(|open| Some((&open.request_id, open.form.assessment()?)))
    }

    /// Removes a call when it is answered.
    pub(crate) fn remove_permission(&mut self, call: &str) -> Option<PendingPermission> {
        self.permissions.remove(call)
    }

    /// Removes questions when they are answered.
    pub(crate) fn remove_input(&mut self, id: &str) -> Option<PendingInput> {
        self.inputs.remove(id)
    }

    /// Removes a request that the agent withdraws, and returns it with the id that clients use; `None` if it is not
    /// displayed.
    pub(crate) fn withdraw(&mut self, request: &AgentRequestId) -> Option<(String, WithdrawnRequest)> {
        self.preparing.remove(request);
        let call = self.permissions.values().find(|open| open.request_id == *request).map(|open| open.call_id.clone());
        if let Some(call) = call {
            return self.permissions.remove(&call).map(|open| (call, WithdrawnRequest::Permission(open)));
        }
        let id = self.inputs.iter().find(|(_, open)| open.request_id == *request).map(|(id, _)| id.clone())?;
        self.inputs.remove(&id).map(|_| (id, WithdrawnRequest::Input))
    }

    /// Removes all requests except those of sub-agents that `stays` selects, and returns the removed calls.
    pub(crate) fn clear_turn(&mut self, stays: impl Fn(&str) -> bool) -> Vec<PendingPermission> {
        self.inputs.clear();
        self.preparing.retain(|_, open| open.chat_sub_agent.as_deref().is_some_and(&stays));
        self.remove_permissions_where(|open| !open.chat_sub_agent.as_deref().is_some_and(&stays))
    }

    /// Removes all requests of a sub-agent, and returns the removed calls.
    pub(crate) fn clear_sub_agent(&mut self, agent: &str) -> Vec<PendingPermission> {
        self.remove_permissions_where(|open| open.chat_sub_agent.as_deref() == Some(agent))
    }

    fn remove_permissions_where(&mut self, is_over: impl Fn(&PendingPermission) -> bool) -> Vec<PendingPermission> {
        self.permissions.extract_if(.., |_, open| is_over(open)).map(|(_, open)| open).collect()
    }

    /// Validates a client's answer to a call. Changes nothing.
    ///
    /// # Errors
    /// If the call is not pending or the answer is invalid.
    pub(crate) fn evaluate_confirmation(
        &self,
        said: &ChatToolCallConfirmedAction,
    ) -> Result<ToolCallAnswer, AnswerError> {
        let open = self.permissions.get(&said.tool_call_id).filter(|open| self.can_answer(&open.request_id));
        let open = open.ok_or(AnswerError::NotPending)?;
        let choice = said.selected_option_id.as_deref().map(|id| open.options.find(id)).transpose()?;
        if choice.is_some_and(|choice| choice.is_approval() != said.approved) {
            return Err(AnswerError::Contradiction);
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
        // Clients send only answers of people, whatever reason the action states.
        action.confirmed = Some(ToolCallConfirmationReason::UserAction);
        action.reason = None;
        let rules = choice.and_then(|choice| choice.rules());
        if edited.is_some() && rules.is_some() {
            return Err(AnswerError::RuleForEditedInput);
        }
        Ok(ToolCallAnswer {
            action,
            rules,
            agent_answer: Answer::Allow { input: edited.clone() },
            edited_input: edited,
        })
    }

    /// Validates a client's answers. Changes nothing.
    ///
    /// # Errors
    /// If the questions are not pending or the answers do not fit.
    pub(crate) fn evaluate_completion(
        &self,
        said: &ChatInputCompletedAction,
        drafts: impl Fn(&str) -> Option<ChatInputAnswer>,
    ) -> Result<FormOutcome, AnswerError> {
        let open = self.unanswered_input(&said.request_id)?;
        let answer = |question: &str| {
            let said = said.answers.as_ref().and_then(|answers| answers.get(question)).cloned();
            said.or_else(|| drafts(question))
        };
        if let Some(unknown) = said.answers.iter().flatten().find(|(id, _)| !open.form.has_question(id)) {
            return Err(AnswerError::UnknownQuestion { question: unknown.0.clone() });
        }
        open.form.evaluate(said.response, answer)
    }

    fn unanswered_input(&self, id: &str) -> Result<&PendingInput, AnswerError> {
        self.inputs.get(id).filter(|open| self.can_answer(&open.request_id)).ok_or(AnswerError::NotPending)
    }

    /// Validates a draft of answers. Changes nothing.
    ///
    /// # Errors
    /// If the questions are not pending or the draft does not fit.
    pub(crate) fn check_draft(
        &self,
        id: &str,
        question: &str,
        answer: Option<&ChatInputAnswer>,
    ) -> Result<(), AnswerError> {
        let open = self.unanswered_input(id)?;
        open.form.check_draft(question, answer)
    }
}

/// The feedback that the agent receives with a denial.
fn denial_message(said: &ChatToolCallConfirmedAction) -> Result<String, AnswerError> {
    let reason = said.reason_message.as_ref().map(|message| match message {
        StringOrMarkdown::Plain(text) => text.as_str(),
        StringOrMarkdown::Markdown { markdown } => markdown.as_str(),
    });
    let suggestion = said.user_suggestion.as_ref().map(|message| message.text.as_str());
    let texts: Vec<_> = [reason, suggestion].into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
    let feedback = texts.join("\n");
    match feedback.len() {
        0 => Ok(DEFAULT_DENIAL.to_owned()),
        1..=MAX_DENIAL_BYTES => Ok(feedback),
        _ => Err(AnswerError::TooLong { max_bytes: MAX_DENIAL_BYTES }),
    }
}

/// Parses an edited input, which must be one JSON object.
fn parse_edited_input(text: &str) -> Result<Arc<RawValue>, AnswerError> {
    if text.len() > MAX_EDITED_INPUT_BYTES {
        return Err(AnswerError::EditedInputTooLarge { max_bytes: MAX_EDITED_INPUT_BYTES });
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(_)) => {}
        Ok(_) => return Err(AnswerError::InvalidEditedInput { problem: None }),
        Err(error) => return Err(AnswerError::InvalidEditedInput { problem: Some(error.to_string()) }),
    }
    let raw = RawValue::from_string(text.to_owned());
    raw.map(Into::into).map_err(|error| AnswerError::InvalidEditedInput { problem: Some(error.to_string()) })
}

#[cfg(test)]
mod tests;
