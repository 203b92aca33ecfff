//! The running turn's tool calls: from the model's first word about them to their results, in the order that AHP wants.
//!
//! AHP ends a call only if it was running or waited for a confirmation, and cancels it only while it waits. What arrives
//! in another order is brought into this one; what would contradict it is not said at all.

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
use hostler_driver::{FileEdit, Gate, PermissionRequest, ToolDisplay, ToolKind, ToolOutcome};
use serde_json::json;
use url::Url;

use super::output::{INLINE, Output, beginning};
use super::worker::WorkerLink;

/// How much of a long output is shown beside the name of all of it.
const PREVIEW: usize = 2 * 1024;

/// A file's contents that are larger are not kept.
const MAX_SIDE: usize = 16 * 1024 * 1024;

/// The calls of one turn, by their ids.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) turn: String,
    /// Whether the turn is a sub-agent's: then its calls are nobody else's.
    pub(super) of_worker: bool,
    calls: HashMap<String, Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) display: ToolDisplay,
    input: Option<String>,
    stage: Stage,
    /// How much of its input was streamed.
    streamed: usize,
    /// A sub-agent's: shown only for the sake of the question, its result is not heard of.
    foreign: bool,
    /// The sub-agent that it made.
    pub(super) worker: Option<WorkerLink>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its input is being written, or nobody has decided about it.
    Open,
    /// A person is asked.
    Asked,
    Running,
    Over,
}

impl Tools {
    pub(super) fn new(turn: String) -> Self {
        Self { turn, of_worker: false, calls: HashMap::new() }
    }

    /// Whether a call of the agent itself is not over.
    pub(super) fn any_open(&self) -> bool {
        self.calls.values().any(|call| !call.foreign && call.stage != Stage::Over)
    }

    /// A call begins. An id that was there before means that call, never another one.
    pub(super) fn started(&mut self, id: String, name: String, display: ToolDisplay, out: &mut Output) {
        self.start(id, name, display, false, out);
    }

    fn start(&mut self, id: String, name: String, mut display: ToolDisplay, foreign: bool, out: &mut Output) {
        if self.calls.contains_key(&id) {
            return;
        }
        if display.name.is_empty() {
            display = plain(&name);
        }
        out.push(StateAction::ChatToolCallStart(ChatToolCallStartAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.clone(),
            meta: meta(&display, None),
            display_name: display.name.clone(),
            tool_name: name,
            intention: display.intention.clone(),
            contributor: None,
        }));
        self.calls.insert(id, Call { display, input: None, stage: Stage::Open, streamed: 0, foreign, worker: None });
    }

    pub(super) fn input_delta(&mut self, id: String, json: String, out: &mut Output) {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.stage == Stage::Open && call.input.is_none())
        else {
            return;
        };
        // A long input is named when it is complete; until then its beginning is enough.
        call.streamed = call.streamed.saturating_add(json.len());
        if call.streamed <= INLINE {
            out.push(delta(&self.turn, id, Some(json), None));
        }
    }

    /// The input is complete; who may run it is not decided yet.
    pub(super) fn ready(&mut self, id: String, input: &str, display: ToolDisplay, out: &mut Output) {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.stage == Stage::Open && call.input.is_none())
        else {
            return;
        };
        call.input = Some(input.to_owned());
        if !display.name.is_empty() {
            call.display = display;
        }
        out.push(delta(&self.turn, id, None, Some(call.display.present.clone())));
    }

    pub(super) fn gated(&mut self, id: &str, gate: &Gate, out: &mut Output) {
        if *gate == Gate::Allow {
            self.run(id, out);
        }
    }

    /// The call runs, nobody had to be asked.
    pub(super) fn run(&mut self, id: &str, out: &mut Output) {
        if self.calls.get(id).is_some_and(|call| call.stage == Stage::Open) {
            self.say_ready(
                id,
                Ready { confirmed: Some(ToolCallConfirmationReason::NotNeeded), ..Ready::default() },
                out,
            );
            self.move_to(id, Stage::Running);
        }
    }

    /// A person is asked. `false` if that cannot be: the call is over, or somebody is asked already.
    pub(super) fn ask(
        &mut self,
        request: &PermissionRequest,
        options: Vec<ConfirmationOption>,
        edit: Option<FileEdit>,
        out: &mut Output,
    ) -> bool {
        let foreign = request.sub_agent.is_some() && !self.of_worker;
        self.start(request.call.clone(), request.tool.clone(), request.display.clone(), foreign, out);
        let Some(call) = self.calls.get_mut(&request.call) else { return false };
        if matches!(call.stage, Stage::Asked | Stage::Over) {
            return false;
        }
        // What is shown is what the answer is about.
        call.input = Some(request.input.get().to_owned());
        let name = &call.display.name;
        let title = match &request.sub_agent {
            Some(_) => format!("A sub-agent wants to use {name}"),
            None => format!("Allow {name}?"),
        };
        let edits = edit.and_then(|edit| sides(edit, out)).map(|(before, after, diff)| FileEditCollection {
            items: vec![ahp_types::state::FileEdit { before, after, diff: Some(diff) }],
        });
        let ready = Ready { title: Some(title), options: Some(options), edits, confirmed: None };
        self.say_ready(&request.call, ready, out);
        self.move_to(&request.call, Stage::Asked);
        true
    }

    /// The input that a person wants instead: it is another sentence that is true of it. Where the protocol's own way of
    /// saying it would carry too much, it is said here.
    pub(super) fn replace_input(&mut self, id: &str, input: &str, display: ToolDisplay, out: &mut Output) -> bool {
        let Some(call) = self.calls.get_mut(id) else { return false };
        let is_named = |input: &str| input.len() > INLINE;
        let said = is_named(input) || call.input.as_deref().is_some_and(is_named);
        call.input = Some(input.to_owned());
        if !display.name.is_empty() {
            call.display = display;
        }
        if said {
            self.say_ready(id, Ready::default(), out);
        }
        said
    }

    /// A call that runs is shown with what was put in place of its input.
    pub(super) fn show_again(&mut self, id: &str, out: &mut Output) {
        if self.running(id).is_some() {
            let confirmed = Some(ToolCallConfirmationReason::UserAction);
            self.say_ready(id, Ready { confirmed, ..Ready::default() }, out);
        }
    }

    /// The call's input, if it is complete.
    pub(super) fn input(&self, id: &str) -> Option<&str> {
        self.calls.get(id)?.input.as_deref()
    }

    /// A person has answered.
    pub(super) fn answered(&mut self, id: &str, approved: bool, out: &mut Output) {
        self.move_to(id, if approved { Stage::Running } else { Stage::Over });
        let Some(call) = self.calls.get(id).filter(|call| approved && call.foreign) else { return };
        let past = format!("Allowed for a sub-agent: {}", call.display.present);
        self.move_to(id, Stage::Over);
        out.push(self.completed(
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

    /// Nobody is asked any more.
    pub(super) fn withdrawn(&mut self, id: &str, out: &mut Output) {
        if self.calls.get(id).is_some_and(|call| call.stage == Stage::Asked) {
            let why = "The agent did not wait for the answer.".to_owned();
            out.push(self.cancelled(id, ToolCallCancellationReason::Skipped, why));
            self.move_to(id, Stage::Over);
        }
    }

    pub(super) fn finished(
        &mut self,
        id: &str,
        outcome: ToolOutcome,
        output: String,
        edit: Option<FileEdit>,
        out: &mut Output,
    ) {
        let Some(call) = self.calls.get(id).filter(|call| call.stage != Stage::Over) else { return };
        if outcome == ToolOutcome::Denied {
            // AHP cancels a call only while it waits for a confirmation: ask and answer in one breath.
            if call.stage != Stage::Asked {
                self.say_ready(id, Ready::default(), out);
            }
            out.push(self.cancelled(id, ToolCallCancellationReason::Denied, output));
            self.move_to(id, Stage::Over);
            return;
        }
        let success = outcome == ToolOutcome::Succeeded;
        let (present, past) = (call.display.present.clone(), call.display.past.clone());
        let past = if success { past } else { format!("{present} failed") };
        let worker = call.worker.as_ref().map(WorkerLink::content);
        let error = (!success).then(|| json!({ "message": beginning(&output, PREVIEW) }));
        self.run(id, out);
        let mut content: Vec<_> = worker.into_iter().collect();
        content.extend(edit.and_then(|edit| file_edit(edit, out)));
        content.extend(shown(output, out));
        self.move_to(id, Stage::Over);
        let content = (!content.is_empty()).then_some(content);
        let result =
            ToolCallResult { success, past_tense_message: markdown(past), content, structured_content: None, error };
        out.push(self.completed(id, result));
    }

    /// A call that runs.
    pub(super) fn running(&mut self, id: &str) -> Option<&mut Call> {
        self.calls.get_mut(id).filter(|call| call.stage == Stage::Running)
    }

    fn move_to(&mut self, id: &str, stage: Stage) {
        if let Some(call) = self.calls.get_mut(id) {
            call.stage = stage;
        }
    }

    fn say_ready(&self, id: &str, ready: Ready, out: &mut Output) {
        let Some(call) = self.calls.get(id) else { return };
        let asks = ready.confirmed.is_none() && ready.options.is_some();
        let tool_input = call.input.as_deref().map(|input| out.tool_input(input));
        out.push(StateAction::ChatToolCallReady(ChatToolCallReadyAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: meta(&call.display, call.worker.as_ref()),
            contributor: None,
            intention: call.display.intention.clone(),
            invocation_message: markdown(call.display.present.clone()),
            tool_input,
            confirmation_title: ready.title.map(Into::into),
            risk_assessment: None,
            edits: ready.edits,
            editable: asks.then_some(true),
            confirmed: ready.confirmed,
            options: ready.options,
        }));
    }

    fn completed(&self, id: &str, result: ToolCallResult) -> StateAction {
        StateAction::ChatToolCallComplete(ChatToolCallCompleteAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: None,
            result,
            requires_result_confirmation: None,
        })
    }

    fn cancelled(&self, id: &str, reason: ToolCallCancellationReason, why: String) -> StateAction {
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

/// What differs between the ways in which a call is ready.
#[derive(Default)]
struct Ready {
    confirmed: Option<ToolCallConfirmationReason>,
    title: Option<String>,
    options: Option<Vec<ConfirmationOption>>,
    edits: Option<FileEditCollection>,
}

fn delta(turn: &str, id: String, content: Option<String>, present: Option<String>) -> StateAction {
    StateAction::ChatToolCallDelta(ChatToolCallDeltaAction {
        turn_id: turn.to_owned(),
        tool_call_id: id,
        meta: None,
        content,
        invocation_message: present.map(markdown),
    })
}

/// Sentences about calls quote commands and paths in Markdown.
fn markdown(sentence: String) -> ahp_types::StringOrMarkdown {
    ahp_types::StringOrMarkdown::Markdown { markdown: sentence }
}

/// For a call that nobody has described.
fn plain(tool: &str) -> ToolDisplay {
    ToolDisplay {
        name: tool.to_owned(),
        present: format!("Using {tool}"),
        past: format!("Used {tool}"),
        ..ToolDisplay::default()
    }
}

/// The hints that VS Code renders calls by.
pub(super) fn meta(display: &ToolDisplay, worker: Option<&WorkerLink>) -> Option<JsonObject> {
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
        worker.hints(&mut meta);
    }
    (!meta.is_empty()).then_some(meta)
}

/// What a call printed: all of it, or its beginning and the name of all of it.
fn shown(output: String, out: &mut Output) -> Vec<ToolResultContent> {
    if output.is_empty() {
        return Vec::new();
    }
    if output.len() <= INLINE {
        return vec![ToolResultContent::Text(ToolResultTextContent { text: output })];
    }
    let text = format!("{}…", beginning(&output, PREVIEW));
    let all = out.refer("text/plain", output);
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

fn file_edit(edit: FileEdit, out: &mut Output) -> Option<ToolResultContent> {
    let (before, after, diff) = sides(edit, out)?;
    Some(ToolResultContent::FileEdit(ToolResultFileEditContent { before, after, diff: Some(diff) }))
}

type Sides = (Option<FileEditSide>, Option<FileEditSide>, FileEditDiffStats);

/// A file before and after, by the names of its contents.
fn sides(edit: FileEdit, out: &mut Output) -> Option<Sides> {
    let uri = String::from(Url::from_file_path(&edit.path).ok()?);
    let mut side = |text: Option<String>| {
        let text = text.filter(|text| text.len() <= MAX_SIDE)?;
        Some(FileEditSide { uri: uri.clone(), content: out.refer_file(&uri, text) })
    };
    let (before, after) = (side(edit.before), side(edit.after));
    let lines = |count: u64| i64::try_from(count).ok();
    let diff = FileEditDiffStats { added: lines(edit.added), removed: lines(edit.removed) };
    Some((before, after, diff))
}
