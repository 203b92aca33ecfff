//! The tool calls of the running turn: from the first delta of their input to their results, in the order that AHP
//! requires.
//!
//! AHP completes a call only if it was running or waited for a confirmation, and cancels it only while it waits. Events
//! that arrive in another order are reordered; events that contradict this order produce no action.

use std::collections::HashMap;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallDeltaAction, ChatToolCallReadyAction,
    ChatToolCallStartAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{
    ConfirmationOption, FileEditCollection, FileEditDiffStats, FileEditSide, ToolCallCancellationReason,
    ToolCallConfirmationReason, ToolCallResult, ToolResultContent, ToolResultFileEditContent,
    ToolResultResourceContent, ToolResultTextContent,
};
use hostler_driver::{FileEdit, GateDecision, PermissionRequest, ToolDisplay, ToolKind, ToolOutcome};
use serde_json::json;
use url::Url;

use super::action_buffer::{ActionBuffer, MAX_INLINE_BYTES, truncate_at_char};
use super::sub_agent::SubAgentLink;

/// Size of the preview that accompanies the reference to a long output.
const OUTPUT_PREVIEW_BYTES: usize = 2 * 1024;

/// Larger file contents are not stored.
const MAX_EDIT_SIDE_BYTES: usize = 16 * 1024 * 1024;

/// The calls of one turn, by their ids.
#[derive(Debug)]
pub(super) struct ToolCalls {
    pub(super) turn: String,
    /// Whether the turn belongs to a sub-agent; then all its calls are the sub-agent's own.
    pub(super) is_sub_agent_turn: bool,
    calls: HashMap<String, ToolCallEntry>,
}

#[derive(Debug)]
pub(super) struct ToolCallEntry {
    pub(super) display: ToolDisplay,
    input: Option<String>,
    stage: ToolCallStage,
    /// How many bytes of its input were streamed.
    streamed_bytes: usize,
    /// A sub-agent's call that is displayed only because of its request; its result does not arrive here.
    is_sub_agent_call: bool,
    /// The sub-agent that it started.
    pub(super) sub_agent: Option<SubAgentLink>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolCallStage {
    /// Its input is incomplete, or there is no decision about it yet.
    Open,
    /// It waits for a person's confirmation.
    AwaitingConfirmation,
    Running,
    Finished,
}

impl ToolCalls {
    pub(super) fn new(turn: String) -> Self {
        Self { turn, is_sub_agent_turn: false, calls: HashMap::new() }
    }

    /// Whether a call of the agent itself has not ended.
    pub(super) fn has_open_calls(&self) -> bool {
        self.calls.values().any(|call| !call.is_sub_agent_call && call.stage != ToolCallStage::Finished)
    }

    /// Starts a call. A known id refers to the existing call and never starts another one.
    pub(super) fn start(&mut self, id: String, name: String, display: ToolDisplay, out: &mut ActionBuffer) {
        self.start_call(id, name, display, false, out);
    }

    fn start_call(
        &mut self,
        id: String,
        name: String,
        mut display: ToolDisplay,
        foreign: bool,
        out: &mut ActionBuffer,
    ) {
        if self.calls.contains_key(&id) {
            return;
        }
        if display.name.is_empty() {
            display = default_display(&name);
        }
        out.push(StateAction::ChatToolCallStart(ChatToolCallStartAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.clone(),
            meta: display_meta(&display, None),
            display_name: display.name.clone(),
            tool_name: name,
            intention: display.intention.clone(),
            contributor: None,
        }));
        self.calls.insert(
            id,
            ToolCallEntry {
                display,
                input: None,
                stage: ToolCallStage::Open,
                streamed_bytes: 0,
                is_sub_agent_call: foreign,
                sub_agent: None,
            },
        );
    }

    pub(super) fn append_input(&mut self, id: String, json: String, out: &mut ActionBuffer) {
        let Some(call) =
            self.calls.get_mut(&id).filter(|call| call.stage == ToolCallStage::Open && call.input.is_none())
        else {
            return;
        };
        // Only the beginning of a long input is streamed; the complete input is referred to by hash.
        call.streamed_bytes = call.streamed_bytes.saturating_add(json.len());
        if call.streamed_bytes <= MAX_INLINE_BYTES {
            out.push(delta_action(&self.turn, id, Some(json), None));
        }
    }

    /// Completes the input. Whether the call may run is not decided yet.
    pub(super) fn complete_input(&mut self, id: String, input: &str, display: ToolDisplay, out: &mut ActionBuffer) {
        let Some(call) =
            self.calls.get_mut(&id).filter(|call| call.stage == ToolCallStage::Open && call.input.is_none())
        else {
            return;
        };
        call.input = Some(input.to_owned());
        if !display.name.is_empty() {
            call.display = display;
        }
        out.push(delta_action(&self.turn, id, None, Some(call.display.running_text.clone())));
    }

    pub(super) fn apply_gate(&mut self, id: &str, gate: &GateDecision, out: &mut ActionBuffer) {
        if *gate == GateDecision::Allow {
            self.run(id, out);
        }
    }

    /// The call runs without a confirmation.
    pub(super) fn run(&mut self, id: &str, out: &mut ActionBuffer) {
        if self.calls.get(id).is_some_and(|call| call.stage == ToolCallStage::Open) {
            self.push_ready(
                id,
                ReadyDetails { confirmed: Some(ToolCallConfirmationReason::NotNeeded), ..ReadyDetails::default() },
                out,
            );
            self.set_stage(id, ToolCallStage::Running);
        }
    }

    /// Requests a confirmation. `false` if the call has ended or waits already.
    pub(super) fn request_confirmation(
        &mut self,
        request: &PermissionRequest,
        options: Vec<ConfirmationOption>,
        edit: Option<FileEdit>,
        out: &mut ActionBuffer,
    ) -> bool {
        let foreign = request.sub_agent.is_some() && !self.is_sub_agent_turn;
        self.start_call(request.call_id.clone(), request.tool.clone(), request.display.clone(), foreign, out);
        let Some(call) = self.calls.get_mut(&request.call_id) else { return false };
        if matches!(call.stage, ToolCallStage::AwaitingConfirmation | ToolCallStage::Finished) {
            return false;
        }
        // The answer refers to the input that is displayed.
        call.input = Some(request.input.get().to_owned());
        let name = &call.display.name;
        let title = match &request.sub_agent {
            Some(_) => format!("A sub-agent wants to use {name}"),
            None => format!("Allow {name}?"),
        };
        let edits = edit.and_then(|edit| file_edit_sides(edit, out)).map(|(before, after, diff)| FileEditCollection {
            items: vec![ahp_types::state::FileEdit { before, after, diff: Some(diff) }],
        });
        let ready = ReadyDetails { title: Some(title), options: Some(options), edits, confirmed: None };
        self.push_ready(&request.call_id, ready, out);
        self.set_stage(&request.call_id, ToolCallStage::AwaitingConfirmation);
        true
    }

    /// Replaces the input with the one that a person entered, and updates the description. If the input is too long for
    /// the protocol's own action, the action is added here.
    pub(super) fn replace_input(
        &mut self,
        id: &str,
        input: &str,
        display: ToolDisplay,
        out: &mut ActionBuffer,
    ) -> bool {
        let Some(call) = self.calls.get_mut(id) else { return false };
        let is_named = |input: &str| input.len() > MAX_INLINE_BYTES;
        let said = is_named(input) || call.input.as_deref().is_some_and(is_named);
        call.input = Some(input.to_owned());
        if !display.name.is_empty() {
            call.display = display;
        }
        if said {
            self.push_ready(id, ReadyDetails::default(), out);
        }
        said
    }

    /// Updates the display of a running call whose input was replaced.
    pub(super) fn show_edited_call(&mut self, id: &str, out: &mut ActionBuffer) {
        if self.running_call(id).is_some() {
            let confirmed = Some(ToolCallConfirmationReason::UserAction);
            self.push_ready(id, ReadyDetails { confirmed, ..ReadyDetails::default() }, out);
        }
    }

    /// The call's input, if it is complete.
    pub(super) fn input(&self, id: &str) -> Option<&str> {
        self.calls.get(id)?.input.as_deref()
    }

    /// Records a person's answer.
    pub(super) fn record_answer(&mut self, id: &str, approved: bool, out: &mut ActionBuffer) {
        self.set_stage(id, if approved { ToolCallStage::Running } else { ToolCallStage::Finished });
        let Some(call) = self.calls.get(id).filter(|call| approved && call.is_sub_agent_call) else { return };
        let past = format!("Allowed for a sub-agent: {}", call.display.running_text);
        self.set_stage(id, ToolCallStage::Finished);
        out.push(self.complete_action(
            id,
            ToolCallResult {
                success: true,
                past_tense_message: markdown(past),
                content: None,
                structured_content: None,
                error: None,
            },
        ));
    }

    /// Withdraws the request for a confirmation.
    pub(super) fn withdraw_request(&mut self, id: &str, out: &mut ActionBuffer) {
        if self.calls.get(id).is_some_and(|call| call.stage == ToolCallStage::AwaitingConfirmation) {
            let why = "The agent did not wait for the answer.".to_owned();
            out.push(self.cancel_action(id, ToolCallCancellationReason::Skipped, why));
            self.set_stage(id, ToolCallStage::Finished);
        }
    }

    pub(super) fn finish(
        &mut self,
        id: &str,
        outcome: ToolOutcome,
        output: String,
        edit: Option<FileEdit>,
        out: &mut ActionBuffer,
    ) {
        let Some(call) = self.calls.get(id).filter(|call| call.stage != ToolCallStage::Finished) else { return };
        if outcome == ToolOutcome::Denied {
            // AHP cancels a call only while it waits for a confirmation: request and cancel it at once.
            if call.stage != ToolCallStage::AwaitingConfirmation {
                self.push_ready(id, ReadyDetails::default(), out);
            }
            out.push(self.cancel_action(id, ToolCallCancellationReason::Denied, output));
            self.set_stage(id, ToolCallStage::Finished);
            return;
        }
        let success = outcome == ToolOutcome::Succeeded;
        let (present, past) = (call.display.running_text.clone(), call.display.finished_text.clone());
        let past = if success { past } else { format!("{present} failed") };
        let worker = call.sub_agent.as_ref().map(SubAgentLink::content);
        let error = (!success).then(|| json!({ "message": truncate_at_char(&output, OUTPUT_PREVIEW_BYTES) }));
        self.run(id, out);
        let mut content: Vec<_> = worker.into_iter().collect();
        content.extend(edit.and_then(|edit| file_edit_content(edit, out)));
        content.extend(output_content(output, out));
        self.set_stage(id, ToolCallStage::Finished);
        let content = (!content.is_empty()).then_some(content);
        let result =
            ToolCallResult { success, past_tense_message: markdown(past), content, structured_content: None, error };
        out.push(self.complete_action(id, result));
    }

    /// A call, if it is running.
    pub(super) fn running_call(&mut self, id: &str) -> Option<&mut ToolCallEntry> {
        self.calls.get_mut(id).filter(|call| call.stage == ToolCallStage::Running)
    }

    fn set_stage(&mut self, id: &str, stage: ToolCallStage) {
        if let Some(call) = self.calls.get_mut(id) {
            call.stage = stage;
        }
    }

    fn push_ready(&self, id: &str, ready: ReadyDetails, out: &mut ActionBuffer) {
        let Some(call) = self.calls.get(id) else { return };
        let asks = ready.confirmed.is_none() && ready.options.is_some();
        let tool_input = call.input.as_deref().map(|input| out.tool_input(input));
        out.push(StateAction::ChatToolCallReady(ChatToolCallReadyAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: display_meta(&call.display, call.sub_agent.as_ref()),
            contributor: None,
            intention: call.display.intention.clone(),
            invocation_message: markdown(call.display.running_text.clone()),
            tool_input,
            confirmation_title: ready.title.map(Into::into),
            risk_assessment: None,
            edits: ready.edits,
            editable: asks.then_some(true),
            confirmed: ready.confirmed,
            options: ready.options,
        }));
    }

    fn complete_action(&self, id: &str, result: ToolCallResult) -> StateAction {
        StateAction::ChatToolCallComplete(ChatToolCallCompleteAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: None,
            result,
            requires_result_confirmation: None,
        })
    }

    fn cancel_action(&self, id: &str, reason: ToolCallCancellationReason, why: String) -> StateAction {
        StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: None,
            approved: false,
            confirmed: None,
            reason: Some(reason),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: Some(why.into()),
            selected_option_id: None,
        })
    }
}

/// The fields in which the ready actions of calls differ.
#[derive(Default)]
struct ReadyDetails {
    confirmed: Option<ToolCallConfirmationReason>,
    title: Option<String>,
    options: Option<Vec<ConfirmationOption>>,
    edits: Option<FileEditCollection>,
}

fn delta_action(turn: &str, id: String, content: Option<String>, present: Option<String>) -> StateAction {
    StateAction::ChatToolCallDelta(ChatToolCallDeltaAction {
        turn_id: turn.to_owned(),
        tool_call_id: id,
        meta: None,
        content,
        invocation_message: present.map(markdown),
    })
}

/// Descriptions of calls quote commands and paths in Markdown.
fn markdown(sentence: String) -> ahp_types::StringOrMarkdown {
    ahp_types::StringOrMarkdown::Markdown { markdown: sentence }
}

/// The display of a call without a description.
fn default_display(tool: &str) -> ToolDisplay {
    ToolDisplay {
        name: tool.to_owned(),
        running_text: format!("Using {tool}"),
        finished_text: format!("Used {tool}"),
        ..ToolDisplay::default()
    }
}

/// The hints by which VS Code renders calls.
pub(super) fn display_meta(display: &ToolDisplay, worker: Option<&SubAgentLink>) -> Option<JsonObject> {
    let mut meta = JsonObject::new();
    let kind = match display.kind {
        ToolKind::Terminal => Some("terminal"),
        ToolKind::Read => Some("read"),
        ToolKind::Search => Some("search"),
        ToolKind::SubAgent => Some("subagent"),
        ToolKind::Edit | ToolKind::Web | ToolKind::Other => None,
    };
    let mcp = display.mcp.as_ref();
    let hints = [
        ("toolKind", kind),
        ("language", display.language),
        ("mcpServerName", mcp.map(|(server, _)| server.as_str())),
        ("mcpToolName", mcp.map(|(_, tool)| tool.as_str())),
    ];
    for (key, value) in hints {
        if let Some(value) = value {
            meta.insert(key.to_owned(), value.into());
        }
    }
    if let Some(worker) = worker {
        worker.add_hints(&mut meta);
    }
    (!meta.is_empty()).then_some(meta)
}

/// A call's output: complete, or its beginning and a reference to all of it.
fn output_content(output: String, out: &mut ActionBuffer) -> Vec<ToolResultContent> {
    if output.is_empty() {
        return Vec::new();
    }
    if output.len() <= MAX_INLINE_BYTES {
        return vec![ToolResultContent::Text(ToolResultTextContent { text: output })];
    }
    let text = format!("{}…", truncate_at_char(&output, OUTPUT_PREVIEW_BYTES));
    let all = out.add_blob("text/plain", output);
    vec![
        ToolResultContent::Text(ToolResultTextContent { text }),
        ToolResultContent::Resource(ToolResultResourceContent {
            uri: all.uri,
            size_hint: all.size_hint,
            content_type: all.content_type,
            nonce: None,
        }),
    ]
}

fn file_edit_content(edit: FileEdit, out: &mut ActionBuffer) -> Option<ToolResultContent> {
    let (before, after, diff) = file_edit_sides(edit, out)?;
    Some(ToolResultContent::FileEdit(ToolResultFileEditContent { before, after, diff: Some(diff) }))
}

type FileEditSides = (Option<FileEditSide>, Option<FileEditSide>, FileEditDiffStats);

/// A file before and after an edit, by references to its contents.
fn file_edit_sides(edit: FileEdit, out: &mut ActionBuffer) -> Option<FileEditSides> {
    let uri = String::from(Url::from_file_path(&edit.path).ok()?);
    let mut side = |text: Option<String>| {
        let text = text.filter(|text| text.len() <= MAX_EDIT_SIDE_BYTES)?;
        Some(FileEditSide { uri: uri.clone(), content: out.add_file_blob(&uri, text) })
    };
    let (before, after) = (side(edit.before), side(edit.after));
    let lines = |count: u64| i64::try_from(count).ok();
    let diff = FileEditDiffStats { added: lines(edit.added_lines), removed: lines(edit.removed_lines) };
    Some((before, after, diff))
}
