//! One record of a transcript, as far as its place in the conversation goes.

use std::ops::Range;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::wire::WireText;

use super::message_tags::steering_text;

/// Names a record within its file. Builds give records UUIDs; another name counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Uuid);

impl RecordId {
    pub(super) fn from_name(name: &str) -> Self {
        Self(Uuid::try_parse(name).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())))
    }

    /// The record's own UUID, if that is what it is called.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// The turn that begins with this record: the same one whenever the file is read.
    pub fn turn_id(self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.as_bytes())
    }
}

/// What a record is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Somebody said something.
    Prompt,
    /// Somebody gave the agent itself a command, or a host did by other means: a change of the model is written so.
    Command,
    /// Somebody said something while the agent was working, and it was folded in.
    QueuedPrompt,
    /// Somebody said something while the agent was working, and the model was told it beside a call.
    Steer,
    /// Something in the background was over, and the agent was told.
    Notification,
    /// What tools gave back.
    ToolResults,
    /// A block of the model's answer.
    Answer,
    /// A turn was interrupted.
    Interruption,
    /// What a command of the agent's own printed.
    CommandOutput,
    /// The conversation was shortened here.
    CompactBoundary,
    /// What stands for the conversation before a [`Boundary`](Self::Boundary).
    CompactSummary,
    /// A call of the model failed and was tried again.
    ApiError,
    /// Holds the chain together and is not shown.
    Hidden,
}

impl RecordKind {
    /// Whether a person sees it as part of the conversation.
    pub(super) fn is_message(self) -> bool {
        !matches!(self, Self::Hidden | Self::ApiError | Self::CompactBoundary)
    }

    /// Whether it is something that was said or done in a turn that has begun.
    pub(super) fn is_activity(self) -> bool {
        matches!(self, Self::ToolResults | Self::Answer | Self::Interruption | Self::CommandOutput)
    }

    /// Whether a turn begins with it.
    pub(super) fn starts_turn(self) -> bool {
        matches!(self, Self::Prompt | Self::Command | Self::QueuedPrompt | Self::Steer | Self::Notification)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedRecord {
    /// Its own name.
    pub id: RecordId,
    /// What it hangs from. Behind a boundary that is what stood before it.
    pub parent: Option<RecordId>,
    /// What it is.
    pub kind: RecordKind,
    /// The model's answer that it belongs to.
    pub answer_id: Option<RecordId>,
    /// Whether it belongs to another agent than the one that the person talks to.
    pub is_sidechain: bool,
    /// Whether a turn may end with it: the model has said all, or somebody or something stopped it.
    pub ends_turn: bool,
    /// Its line's number, from 1.
    pub line_number: u32,
    /// Where its line stands in the file, without the line break.
    pub byte_range: Range<u64>,
}

/// What a line tells about its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedRecord {
    pub(super) record: IndexedRecord,
    /// The message that was folded in, by the id that it was sent with.
    pub(super) queued_message: Option<RecordId>,
    /// The sub-agent that a call has made, or spoken to.
    pub(super) sub_agent: Option<RecordId>,
    /// What is strange about it, though it is a record.
    pub(super) anomaly: Option<&'static str>,
}

impl IndexedRecord {
    /// Whether it may be the last thing of a conversation.
    pub(super) fn can_end_conversation(&self) -> bool {
        !self.is_sidechain && self.kind.is_message()
    }

    /// Whether a record with the same name is the same record once more.
    pub(super) fn is_duplicate_of(&self, other: &Self) -> bool {
        (self.parent, self.kind, self.answer_id) == (other.parent, other.kind, other.answer_id)
    }

    /// Reads a line. `None` for a record that hangs from nothing and has no name: the agent's own bookkeeping.
    pub(super) fn parse(
        line: &[u8],
        number: u64,
        place: Range<u64>,
    ) -> Result<Option<ParsedRecord>, serde_json::Error> {
        let record: RawRecord<'_> = serde_json::from_slice(line)?;
        let Some(uuid) = &record.uuid else { return Ok(None) };
        let (kind, strange) = record.kind();
        let parent = match (&record.parent, kind) {
            (None, RecordKind::CompactBoundary) => record.logical_parent.as_ref(),
            (parent, _) => parent.as_ref(),
        };
        let answer =
            record.message.as_ref().and_then(|message| message.id.as_ref()).filter(|_| kind == RecordKind::Answer);
        let folded = record.attachment.as_ref().filter(|_| kind == RecordKind::QueuedPrompt);
        let link = Self {
            id: RecordId::from_name(uuid),
            parent: parent.map(|parent| RecordId::from_name(parent)),
            kind,
            answer_id: answer.map(|id| RecordId::from_name(id)),
            is_sidechain: record.sidechain.unwrap_or(false) || record.team.is_some(),
            ends_turn: record.is_over(kind),
            line_number: u32::try_from(number).unwrap_or(u32::MAX),
            byte_range: place,
        };
        let message = folded.and_then(|folded| folded.source.as_ref()).map(|source| RecordId::from_name(source));
        let returned = record.returned.filter(|_| kind == RecordKind::ToolResults);
        Ok(Some(ParsedRecord {
            record: link,
            queued_message: message,
            sub_agent: returned.and_then(parse_sub_agent),
            anomaly: strange,
        }))
    }
}

/// The sub-agent that a result names.
fn parse_sub_agent(returned: &RawValue) -> Option<RecordId> {
    #[derive(Deserialize)]
    struct Returned<'a> {
        #[serde(rename = "agentId", borrow)]
        id: WireText<'a>,
    }
    // Few do, and some results are long.
    memmem::find(returned.get().as_bytes(), b"\"agentId\"")?;
    serde_json::from_str::<Returned<'_>>(returned.get()).ok().map(|returned| RecordId::from_name(&returned.id))
}

/// A line, as far as it matters here; the rest is skipped without being looked at.
#[derive(Deserialize)]
struct RawRecord<'a> {
    #[serde(rename = "type", borrow)]
    label: WireText<'a>,
    #[serde(borrow, default)]
    subtype: Option<WireText<'a>>,
    #[serde(borrow, default)]
    uuid: Option<WireText<'a>>,
    #[serde(rename = "parentUuid", borrow, default)]
    parent: Option<WireText<'a>>,
    #[serde(rename = "logicalParentUuid", borrow, default)]
    logical_parent: Option<WireText<'a>>,
    #[serde(rename = "isSidechain", default)]
    sidechain: Option<bool>,
    #[serde(rename = "teamName", default)]
    team: Option<IgnoredAny>,
    #[serde(rename = "isMeta", default)]
    meta: Option<bool>,
    #[serde(rename = "isCompactSummary", default)]
    summary: Option<bool>,
    #[serde(rename = "isApiErrorMessage", default)]
    failed: Option<bool>,
    #[serde(rename = "toolUseResult", borrow, default)]
    returned: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attachment: Option<Attachment<'a>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(rename = "type", borrow, default)]
    label: Option<WireText<'a>>,
    #[serde(rename = "commandMode", borrow, default)]
    mode: Option<WireText<'a>>,
    #[serde(rename = "source_uuid", borrow, default)]
    source: Option<WireText<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<WireText<'a>>,
    #[serde(rename = "stop_reason", borrow, default)]
    stop: Option<WireText<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl RawRecord<'_> {
    /// What it is, and what is strange about it.
    fn kind(&self) -> (RecordKind, Option<&'static str>) {
        let content = self.message.as_ref().and_then(|message| message.content);
        let plain = |kind| (kind, None);
        match (&*self.label, self.subtype.as_deref()) {
            ("assistant", _) if content.is_some() => plain(RecordKind::Answer),
            ("assistant", _) => (RecordKind::Hidden, Some("is an answer without contents")),
            ("user", _) if self.summary == Some(true) => plain(RecordKind::CompactSummary),
            ("user", _) if self.meta == Some(true) => plain(RecordKind::Hidden),
            ("user", _) => match content.map(|content| user_record_kind(content.get())) {
                Some(Some(kind)) => plain(kind),
                Some(None) => (RecordKind::Hidden, Some("is a message in a form that is not known")),
                None => (RecordKind::Hidden, Some("is a message without contents")),
            },
            ("attachment", _) if self.attachment.as_ref().is_some_and(Attachment::is_queued_prompt) => {
                plain(RecordKind::QueuedPrompt)
            }
            ("attachment", _) if self.attachment.as_ref().is_some_and(Attachment::is_steer) => plain(RecordKind::Steer),
            ("system", Some("compact_boundary")) => plain(RecordKind::CompactBoundary),
            ("system", Some("api_error")) => plain(RecordKind::ApiError),
            ("system", Some("local_command")) => plain(RecordKind::CommandOutput),
            _ => plain(RecordKind::Hidden),
        }
    }

    fn is_over(&self, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Interruption | RecordKind::CommandOutput => true,
            RecordKind::Answer if self.failed == Some(true) => true,
            RecordKind::Answer => self.message.as_ref().is_some_and(Message::is_final),
            _ => false,
        }
    }
}

impl Attachment<'_> {
    /// Whether it is what a person said while the agent was working.
    fn is_queued_prompt(&self) -> bool {
        self.label.as_deref() == Some("queued_command") && self.mode.as_deref().is_none_or(|mode| mode == "prompt")
    }

    /// Whether it is what a hook of ours told the model of a person's words.
    fn is_steer(&self) -> bool {
        self.label.as_deref() == Some("hook_additional_context") && self.content.and_then(steering_text).is_some()
    }
}

impl Message<'_> {
    /// Whether the model said all that it had to say. A block is written before it is known why the answer stopped, and
    /// after one that was too long the agent lets the model go on.
    fn is_final(&self) -> bool {
        match self.stop.as_deref() {
            None | Some("tool_use" | "pause_turn" | "max_tokens") => false,
            Some(_) => !self.content.is_some_and(|content| is_only_thinking(content.get())),
        }
    }
}

/// Whether contents are reasoning alone. What it led to stands in the next record, though this one has the reason why the
/// whole answer stopped.
fn is_only_thinking(content: &str) -> bool {
    content.contains(r#"thinking""#) && !content.contains(r#""text""#)
}

/// What the contents of a user's record are; `None` if nobody knows.
fn user_record_kind(content: &str) -> Option<RecordKind> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        label: WireText<'a>,
        #[serde(borrow, default)]
        text: Option<WireText<'a>>,
    }
    if let Ok(WireText(text)) = serde_json::from_str(content) {
        return Some(text_record_kind(&text));
    }
    let blocks = serde_json::from_str::<Vec<Block<'_>>>(content).ok()?;
    if blocks.iter().any(|block| &*block.label == "tool_result") {
        return Some(RecordKind::ToolResults);
    }
    let text = blocks.iter().find_map(|block| block.text.as_ref());
    Some(
        text.map_or(if blocks.is_empty() { RecordKind::Hidden } else { RecordKind::Prompt }, |text| {
            text_record_kind(text)
        }),
    )
}

fn text_record_kind(text: &str) -> RecordKind {
    let text = text.trim_start();
    let begins = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if begins(&["[Request interrupted by user"]) {
        RecordKind::Interruption
    } else if begins(&["<task-notification>"]) {
        RecordKind::Notification
    } else if begins(&["<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>"]) {
        RecordKind::CommandOutput
    } else if begins(&["<local-command-caveat>"]) {
        RecordKind::Hidden
    } else if begins(&["<command-name>", "<command-message>"]) {
        RecordKind::Command
    } else {
        RecordKind::Prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<IndexedRecord> {
        reading(line).map(|reading| reading.record)
    }

    fn reading(line: &str) -> Option<ParsedRecord> {
        IndexedRecord::parse(line.as_bytes(), 1, 0..u64::try_from(line.len()).unwrap()).unwrap()
    }

    fn user(content: &str) -> RecordKind {
        read(&format!(r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":{content}}}}}"#)).unwrap().kind
    }

    #[test]
    fn what_a_user_record_is() {
        for (content, kind) in [
            (r#""hello""#, RecordKind::Prompt),
            (r#"[{"type":"text","text":"hello"}]"#, RecordKind::Prompt),
            (r#"[{"type":"image","source":{}}]"#, RecordKind::Prompt),
            (r#"[{"type":"image","source":{}},{"type":"text","text":"<b>"}]"#, RecordKind::Prompt),
            (
                r#"[{"tool_use_id":"t","type":"tool_result","content":"[Request interrupted by user]"}]"#,
                RecordKind::ToolResults,
            ),
            (r#"[{"type":"text","text":"[Request interrupted by user for tool use]"}]"#, RecordKind::Interruption),
            (r#""<task-notification>\n<task-id>a""#, RecordKind::Notification),
            (r#""<local-command-stdout>Compacted </local-command-stdout>""#, RecordKind::CommandOutput),
            (r#""<command-name>/compact</command-name>""#, RecordKind::Command),
            ("[]", RecordKind::Hidden),
            ("7", RecordKind::Hidden),
            (r#"{"type":"text"}"#, RecordKind::Hidden),
        ] {
            assert_eq!(user(content), kind, "{content}");
        }
    }

    #[test]
    fn a_boundary_hangs_from_what_stood_before_it() {
        let line =
            r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        let link = read(line).unwrap();
        assert_eq!((link.kind, link.parent), (RecordKind::CompactBoundary, Some(RecordId::from_name("a"))));
        // Elsewhere it means nothing.
        let line = r#"{"type":"user","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        assert_eq!(read(line).unwrap().parent, None);
    }

    #[test]
    fn bookkeeping_has_no_link_and_nonsense_is_an_error() {
        assert_eq!(read(r#"{"type":"queue-operation","operation":"enqueue"}"#), None);
        assert_eq!(read(r#"{"type":"user","uuid":null}"#), None);
        for line in ["", "{}", "[]", "nonsense", r#"{"type":"user","uuid":7}"#, r#"{"type":"user","uuid":"x""#] {
            assert!(IndexedRecord::parse(line.as_bytes(), 1, 0..0).is_err(), "{line}");
        }
    }

    #[test]
    fn the_turn_of_a_record_is_always_the_same() {
        let id = RecordId::from_name("5411c267-6714-419b-bc64-f9e428e89a9f");
        assert_eq!(
            id.turn_id().to_string(),
            RecordId::from_name("5411C267-6714-419B-BC64-F9E428E89A9F").turn_id().to_string()
        );
        assert_eq!(id.turn_id().get_version_num(), 5);
        assert_ne!(id.turn_id(), RecordId::from_name("x").turn_id());
    }

    #[test]
    fn a_turn_may_end_where_the_model_has_said_all_or_something_stopped_it() {
        let answer = |rest: &str, content: &str| {
            let line =
                format!(r#"{{"type":"assistant","uuid":"u","message":{{"id":"m","content":[{content}]{rest}}}}}"#);
            read(&line).unwrap().ends_turn
        };
        let (text, call) = (r#"{"type":"text","text":"\"tool_use\""}"#, r#"{"type":"tool_use","id":"t"}"#);
        for (stop, over) in [
            ("end_turn", true),
            ("stop_sequence", true),
            ("refusal", true),
            ("model_context_window_exceeded", true),
            ("tool_use", false),
            ("pause_turn", false),
            ("max_tokens", false),
        ] {
            assert_eq!(answer(&format!(r#","stop_reason":"{stop}""#), text), over, "{stop}");
        }
        // It is not known yet.
        for content in [text, call, &format!("{text},{call}")] {
            assert!(!answer("", content) && !answer(r#","stop_reason":null"#, content), "{content}");
        }
        // The answer's next block follows.
        let thought = r#"{"type":"thinking","thinking":"so","signature":"s"}"#;
        assert!(!answer(r#","stop_reason":"end_turn""#, thought));
        assert!(answer(r#","stop_reason":"end_turn""#, &format!("{thought},{text}")));
        let failed = r#"{"type":"assistant","uuid":"u","isApiErrorMessage":true,"message":{"id":"m","content":[],"stop_reason":"tool_use"}}"#;
        assert!(read(failed).unwrap().ends_turn);
        let over = |content: &str| {
            read(&format!(r#"{{"type":"user","uuid":"u","message":{{"content":{content}}}}}"#)).unwrap().ends_turn
        };
        assert!(over(r#""[Request interrupted by user]""#) && over(r#""<bash-stdout>x</bash-stdout>""#));
        assert!(!over(r#""hello""#) && !over(r#"[{"type":"tool_result","tool_use_id":"t"}]"#));
    }

    #[test]
    fn what_was_folded_in_names_the_message() {
        let id = "5411c267-6714-419b-bc64-f9e428e89a9f";
        let line = |mode: &str| {
            format!(
                r#"{{"type":"attachment","uuid":"u","attachment":{{"type":"queued_command","prompt":"x","source_uuid":"{id}","commandMode":"{mode}"}}}}"#
            )
        };
        let said = reading(&line("prompt")).unwrap();
        assert_eq!((said.record.kind, said.queued_message), (RecordKind::QueuedPrompt, Some(RecordId::from_name(id))));
        let told = reading(&line("task-notification")).unwrap();
        assert_eq!((told.record.kind, told.queued_message), (RecordKind::Hidden, None));
    }

    #[test]
    fn a_result_names_the_agent_that_was_made() {
        let line = |returned: &str| {
            let line = format!(
                r#"{{"type":"user","uuid":"u","message":{{"content":[{{"type":"tool_result"}}]}},"toolUseResult":{returned}}}"#
            );
            reading(&line).unwrap().sub_agent
        };
        assert_eq!(line(r#"{"status":"completed","agentId":"a1"}"#), Some(RecordId::from_name("a1")));
        for other in [r#""an \"agentId\" in words""#, r#"{"agentId":7}"#, "null", "[1]", r#"{"stdout":"x"}"#] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn a_record_without_contents_is_strange() {
        for line in [
            r#"{"type":"user","uuid":"u"}"#,
            r#"{"type":"user","uuid":"u","message":{"content":7}}"#,
            r#"{"type":"assistant","uuid":"u"}"#,
        ] {
            let reading = reading(line).unwrap();
            assert!(reading.anomaly.is_some() && reading.record.kind == RecordKind::Hidden, "{line}");
        }
        assert_eq!(reading(r#"{"type":"something-new","uuid":"u"}"#).unwrap().anomaly, None);
    }
}
