//! One record of a transcript: its id, parent and kind.

use std::ops::Range;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::wire::WireText;

use super::message_tags::steering_text;

/// Names a record within its file. Builds use UUIDs; other ids are accepted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Uuid);

impl RecordId {
    pub(super) fn from_name(name: &str) -> Self {
        Self(Uuid::try_parse(name).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())))
    }

    /// The record's UUID, if its id is one.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// The id of the turn that starts with this record: stable over all reads of the file.
    pub fn turn_id(self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.as_bytes())
    }
}

/// The role of a record in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A user's prompt.
    Prompt,
    /// A command for the agent itself, typed or caused by a host: a model change is stored as one.
    Command,
    /// A user's message during a turn, which was folded in.
    QueuedPrompt,
    /// A user's message during a turn, which the model received in a hook's answer beside a call.
    Steer,
    /// A notification that background work ended.
    Notification,
    /// Tool results.
    ToolResults,
    /// A block of the model's answer.
    Answer,
    /// A turn was interrupted.
    Interruption,
    /// The output of a local command.
    CommandOutput,
    /// The conversation was compacted here.
    CompactBoundary,
    /// The summary of the conversation before a [`CompactBoundary`](Self::CompactBoundary).
    CompactSummary,
    /// A call of the model failed and was retried.
    ApiError,
    /// Links other records and is not displayed.
    Hidden,
}

impl RecordKind {
    /// Whether it is displayed as part of the conversation.
    pub(super) fn is_message(self) -> bool {
        !matches!(self, Self::Hidden | Self::ApiError | Self::CompactBoundary)
    }

    /// Whether it is activity within a turn that has started.
    pub(super) fn is_activity(self) -> bool {
        matches!(self, Self::ToolResults | Self::Answer | Self::Interruption | Self::CommandOutput)
    }

    /// Whether a turn starts with it.
    pub(super) fn starts_turn(self) -> bool {
        matches!(self, Self::Prompt | Self::Command | Self::QueuedPrompt | Self::Steer | Self::Notification)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedRecord {
    /// Its own id.
    pub id: RecordId,
    /// Its parent. After a boundary: the record before the boundary.
    pub parent: Option<RecordId>,
    /// Its kind.
    pub kind: RecordKind,
    /// The model's answer that it belongs to.
    pub answer_id: Option<RecordId>,
    /// Whether it belongs to a sub-agent.
    pub is_sidechain: bool,
    /// Whether a turn may end with it: the model has finished, or the turn was stopped.
    pub ends_turn: bool,
    /// Its line's number, from 1.
    pub line_number: u32,
    /// The byte range of its line, without the line break.
    pub byte_range: Range<u64>,
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedRecord {
    pub(super) record: IndexedRecord,
    /// The message that was folded in, by the id that it was sent with.
    pub(super) queued_message: Option<RecordId>,
    /// The sub-agent that a call has started or addressed.
    pub(super) sub_agent: Option<RecordId>,
    /// What is unusual about it, although it is a record.
    pub(super) anomaly: Option<&'static str>,
}

impl IndexedRecord {
    /// Whether it may be the last message of a conversation.
    pub(super) fn can_end_conversation(&self) -> bool {
        !self.is_sidechain && self.kind.is_message()
    }

    /// Whether a record with the same id is a copy of this one.
    pub(super) fn is_duplicate_of(&self, other: &Self) -> bool {
        (self.parent, self.kind, self.answer_id) == (other.parent, other.kind, other.answer_id)
    }

    /// Parses a line. `None` for a record without id and parent: the agent's bookkeeping.
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
    // Few results do, and some are long.
    memmem::find(returned.get().as_bytes(), b"\"agentId\"")?;
    serde_json::from_str::<Returned<'_>>(returned.get()).ok().map(|returned| RecordId::from_name(&returned.id))
}

/// The relevant fields of a line; the others are skipped without parsing.
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
    /// Its kind, and what is unusual about it.
    fn kind(&self) -> (RecordKind, Option<&'static str>) {
        let content = self.message.as_ref().and_then(|message| message.content);
        let plain = |kind| (kind, None);
        match (&*self.label, self.subtype.as_deref()) {
            ("assistant", _) if content.is_some() => plain(RecordKind::Answer),
            ("assistant", _) => (RecordKind::Hidden, Some("is an answer without content")),
            ("user", _) if self.summary == Some(true) => plain(RecordKind::CompactSummary),
            ("user", _) if self.meta == Some(true) => plain(RecordKind::Hidden),
            ("user", _) => match content.map(|content| user_record_kind(content.get())) {
                Some(Some(kind)) => plain(kind),
                Some(None) => (RecordKind::Hidden, Some("is a message in an unknown format")),
                None => (RecordKind::Hidden, Some("is a message without content")),
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
    /// Whether it is a user's message during a turn.
    fn is_queued_prompt(&self) -> bool {
        self.label.as_deref() == Some("queued_command") && self.mode.as_deref().is_none_or(|mode| mode == "prompt")
    }

    /// Whether it is steering text that our hook gave to the model.
    fn is_steer(&self) -> bool {
        self.label.as_deref() == Some("hook_additional_context") && self.content.and_then(steering_text).is_some()
    }
}

impl Message<'_> {
    /// Whether the model has finished its answer. A block is written before the stop reason is known, and after an
    /// answer that was too long the agent lets the model continue.
    fn is_final(&self) -> bool {
        match self.stop.as_deref() {
            None | Some("tool_use" | "pause_turn" | "max_tokens") => false,
            Some(_) => !self.content.is_some_and(|content| is_only_thinking(content.get())),
        }
    }
}

/// Whether the contents are only reasoning. The rest of the answer is in the next record, although this one has the
/// stop reason of the whole answer.
fn is_only_thinking(content: &str) -> bool {
    content.contains(r#"thinking""#) && !content.contains(r#""text""#)
}

/// The kind of a user record; `None` if its contents are unknown.
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
    fn user_records_are_classified() {
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
    fn boundary_uses_its_logical_parent() {
        let line =
            r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        let link = read(line).unwrap();
        assert_eq!((link.kind, link.parent), (RecordKind::CompactBoundary, Some(RecordId::from_name("a"))));
        // On other records the field has no meaning.
        let line = r#"{"type":"user","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        assert_eq!(read(line).unwrap().parent, None);
    }

    #[test]
    fn bookkeeping_is_skipped_and_invalid_lines_are_errors() {
        assert_eq!(read(r#"{"type":"queue-operation","operation":"enqueue"}"#), None);
        assert_eq!(read(r#"{"type":"user","uuid":null}"#), None);
        for line in ["", "{}", "[]", "nonsense", r#"{"type":"user","uuid":7}"#, r#"{"type":"user","uuid":"x""#] {
            assert!(IndexedRecord::parse(line.as_bytes(), 1, 0..0).is_err(), "{line}");
        }
    }

    #[test]
    fn turn_id_is_stable() {
        let id = RecordId::from_name("5411c267-6714-419b-bc64-f9e428e89a9f");
        assert_eq!(
            id.turn_id().to_string(),
            RecordId::from_name("5411C267-6714-419B-BC64-F9E428E89A9F").turn_id().to_string()
        );
        assert_eq!(id.turn_id().get_version_num(), 5);
        assert_ne!(id.turn_id(), RecordId::from_name("x").turn_id());
    }

    #[test]
    fn turn_may_end_with_a_final_answer_or_an_interruption() {
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
        // The stop reason is not known yet.
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
    fn queued_prompt_names_its_message() {
        let id = "5411c267-6714-419b-bc64-f9e428e89a9f";
        let line = |mode: &str| {
            format!(
                r#"{{"type":"attachment","uuid":"u","attachment":{{"type":"queued_command","prompt":"x","source_uuid":"{id}","commandMode":"{mode}"}}}}"#
            )
        };
        let said = reading(&line("prompt")).unwrap();
        assert_eq!((said.record.kind, said.queued_message), (RecordKind::QueuedPrompt, Some(RecordId::from_name(id))));
        let parsed = reading(&line("task-notification")).unwrap();
        assert_eq!((parsed.record.kind, parsed.queued_message), (RecordKind::Hidden, None));
    }

    #[test]
    fn result_names_its_sub_agent() {
        let line = |returned: &str| {
            let line = format!(
                r#"{{"type":"user","uuid":"u","message":{{"content":[{{"type":"tool_result"}}]}},"toolUseResult":{returned}}}"#
            );
            reading(&line).unwrap().sub_agent
        };
        assert_eq!(line(r#"{"status":"completed","agentId":"a1"}"#), Some(RecordId::from_name("a1")));
        for other in [r#""an \"agentId\" in text""#, r#"{"agentId":7}"#, "null", "[1]", r#"{"stdout":"x"}"#] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn record_without_contents_is_anomalous() {
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
