//! One record of a transcript, as far as its place in the conversation goes.

use std::ops::Range;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::wire::Text;

use super::words::meanwhile;

/// Names a record within its file. Builds give records UUIDs; another name counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Uuid);

impl RecordId {
    pub(super) fn of(name: &str) -> Self {
        Self(Uuid::try_parse(name).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())))
    }

    /// The record's own UUID, if that is what it is called.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// The turn that begins with this record: the same one whenever the file is read.
    pub fn turn(self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, self.0.as_bytes())
    }
}

/// What a record is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody said something.
    Prompt,
    /// Somebody gave the agent itself a command, or a host did by other means: a change of the model is written so.
    Command,
    /// Somebody said something while the agent was working, and it was folded in.
    Folded,
    /// Somebody said something while the agent was working, and the model was told it beside a call.
    Steer,
    /// Something in the background was over, and the agent was told.
    Notification,
    /// What tools gave back.
    Results,
    /// A block of the model's answer.
    Answer,
    /// A turn was interrupted.
    Interruption,
    /// What a command of the agent's own printed.
    CommandOutput,
    /// The conversation was shortened here.
    Boundary,
    /// What stands for the conversation before a [`Boundary`](Self::Boundary).
    Summary,
    /// A call of the model failed and was tried again.
    ApiError,
    /// Holds the chain together and is not shown.
    Hidden,
}

impl Kind {
    /// Whether a person sees it as part of the conversation.
    pub(super) fn is_message(self) -> bool {
        !matches!(self, Self::Hidden | Self::ApiError | Self::Boundary)
    }

    /// Whether it is something that was said or done in a turn that has begun.
    pub(super) fn is_done(self) -> bool {
        matches!(self, Self::Results | Self::Answer | Self::Interruption | Self::CommandOutput)
    }

    /// Whether a turn begins with it.
    pub(super) fn begins_a_turn(self) -> bool {
        matches!(self, Self::Prompt | Self::Command | Self::Folded | Self::Steer | Self::Notification)
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its own name.
    pub id: RecordId,
    /// What it hangs from. Behind a boundary that is what stood before it.
    pub parent: Option<RecordId>,
    /// What it is.
    pub kind: Kind,
    /// The model's answer that it belongs to.
    pub answer: Option<RecordId>,
    /// Whether it belongs to another agent than the one that the person talks to.
    pub aside: bool,
    /// Whether a turn may end with it: the model has said all, or somebody or something stopped it.
    pub over: bool,
    /// Its line's number, from 1.
    pub line: u32,
    /// Where its line stands in the file, without the line break.
    pub place: Range<u64>,
}

/// What a line tells about its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) link: Link,
    /// The message that was folded in, by the id that it was sent with.
    pub(super) message: Option<RecordId>,
    /// The sub-agent that a call has made, or spoken to.
    pub(super) agent: Option<RecordId>,
    /// What is strange about it, though it is a record.
    pub(super) strange: Option<&'static str>,
}

impl Link {
    /// Whether it may be the last thing of a conversation.
    pub(super) fn may_end(&self) -> bool {
        !self.aside && self.kind.is_message()
    }

    /// Whether a record with the same name is the same record once more.
    pub(super) fn is_copied_by(&self, other: &Self) -> bool {
        (self.parent, self.kind, self.answer) == (other.parent, other.kind, other.answer)
    }

    /// Reads a line. `None` for a record that hangs from nothing and has no name: the agent's own bookkeeping.
    pub(super) fn read(line: &[u8], number: u64, place: Range<u64>) -> Result<Option<Reading>, serde_json::Error> {
        let record: Record<'_> = serde_json::from_slice(line)?;
        let Some(uuid) = &record.uuid else { return Ok(None) };
        let (kind, strange) = record.kind();
        let parent = match (&record.parent, kind) {
            (None, Kind::Boundary) => record.logical_parent.as_ref(),
            (parent, _) => parent.as_ref(),
        };
        let answer = record.message.as_ref().and_then(|message| message.id.as_ref()).filter(|_| kind == Kind::Answer);
        let folded = record.attachment.as_ref().filter(|_| kind == Kind::Folded);
        let link = Self {
            id: RecordId::of(uuid),
            parent: parent.map(|parent| RecordId::of(parent)),
            kind,
            answer: answer.map(|id| RecordId::of(id)),
            aside: record.sidechain.unwrap_or(false) || record.team.is_some(),
            over: record.is_over(kind),
            line: u32::try_from(number).unwrap_or(u32::MAX),
            place,
        };
        let message = folded.and_then(|folded| folded.source.as_ref()).map(|source| RecordId::of(source));
        let returned = record.returned.filter(|_| kind == Kind::Results);
        Ok(Some(Reading { link, message, agent: returned.and_then(sub_agent), strange }))
    }
}

/// The sub-agent that a result names.
fn sub_agent(returned: &RawValue) -> Option<RecordId> {
    #[derive(Deserialize)]
    struct Returned<'a> {
        #[serde(rename = "agentId", borrow)]
        id: Text<'a>,
    }
    // Few do, and some results are long.
    memmem::find(returned.get().as_bytes(), b"\"agentId\"")?;
    serde_json::from_str::<Returned<'_>>(returned.get()).ok().map(|returned| RecordId::of(&returned.id))
}

/// A line, as far as it matters here; the rest is skipped without being looked at.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    label: Text<'a>,
    #[serde(borrow, default)]
    subtype: Option<Text<'a>>,
    #[serde(borrow, default)]
    uuid: Option<Text<'a>>,
    #[serde(rename = "parentUuid", borrow, default)]
    parent: Option<Text<'a>>,
    #[serde(rename = "logicalParentUuid", borrow, default)]
    logical_parent: Option<Text<'a>>,
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
    label: Option<Text<'a>>,
    #[serde(rename = "commandMode", borrow, default)]
    mode: Option<Text<'a>>,
    #[serde(rename = "source_uuid", borrow, default)]
    source: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(rename = "stop_reason", borrow, default)]
    stop: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Record<'_> {
    /// What it is, and what is strange about it.
    fn kind(&self) -> (Kind, Option<&'static str>) {
        let content = self.message.as_ref().and_then(|message| message.content);
        let plain = |kind| (kind, None);
        match (&*self.label, self.subtype.as_deref()) {
            ("assistant", _) if content.is_some() => plain(Kind::Answer),
            ("assistant", _) => (Kind::Hidden, Some("is an answer without contents")),
            ("user", _) if self.summary == Some(true) => plain(Kind::Summary),
            ("user", _) if self.meta == Some(true) => plain(Kind::Hidden),
            ("user", _) => match content.map(|content| said(content.get())) {
                Some(Some(kind)) => plain(kind),
                Some(None) => (Kind::Hidden, Some("is a message in a form that is not known")),
                None => (Kind::Hidden, Some("is a message without contents")),
            },
            ("attachment", _) if self.attachment.as_ref().is_some_and(Attachment::is_said) => plain(Kind::Folded),
            ("attachment", _) if self.attachment.as_ref().is_some_and(Attachment::is_steer) => plain(Kind::Steer),
            ("system", Some("compact_boundary")) => plain(Kind::Boundary),
            ("system", Some("api_error")) => plain(Kind::ApiError),
            ("system", Some("local_command")) => plain(Kind::CommandOutput),
            _ => plain(Kind::Hidden),
        }
    }

    fn is_over(&self, kind: Kind) -> bool {
        match kind {
            Kind::Interruption | Kind::CommandOutput => true,
            Kind::Answer if self.failed == Some(true) => true,
            Kind::Answer => self.message.as_ref().is_some_and(Message::is_over),
            _ => false,
        }
    }
}

impl Attachment<'_> {
    /// Whether it is what a person said while the agent was working.
    fn is_said(&self) -> bool {
        self.label.as_deref() == Some("queued_command") && self.mode.as_deref().is_none_or(|mode| mode == "prompt")
    }

    /// Whether it is what a hook of ours told the model of a person's words.
    fn is_steer(&self) -> bool {
        self.label.as_deref() == Some("hook_additional_context") && self.content.and_then(meanwhile).is_some()
    }
}

impl Message<'_> {
    /// Whether the model said all that it had to say. A block is written before it is known why the answer stopped, and
    /// after one that was too long the agent lets the model go on.
    fn is_over(&self) -> bool {
        match self.stop.as_deref() {
            None | Some("tool_use" | "pause_turn" | "max_tokens") => false,
            Some(_) => !self.content.is_some_and(|content| is_thought(content.get())),
        }
    }
}

/// Whether contents are reasoning alone. What it led to stands in the next record, though this one has the reason why the
/// whole answer stopped.
fn is_thought(content: &str) -> bool {
    content.contains(r#"thinking""#) && !content.contains(r#""text""#)
}

/// What the contents of a user's record are; `None` if nobody knows.
fn said(content: &str) -> Option<Kind> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        label: Text<'a>,
        #[serde(borrow, default)]
        text: Option<Text<'a>>,
    }
    if let Ok(Text(text)) = serde_json::from_str(content) {
        return Some(spoken(&text));
    }
    let blocks = serde_json::from_str::<Vec<Block<'_>>>(content).ok()?;
    if blocks.iter().any(|block| &*block.label == "tool_result") {
        return Some(Kind::Results);
    }
    let text = blocks.iter().find_map(|block| block.text.as_ref());
    Some(text.map_or(if blocks.is_empty() { Kind::Hidden } else { Kind::Prompt }, |text| spoken(text)))
}

fn spoken(text: &str) -> Kind {
    let text = text.trim_start();
    let begins = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if begins(&["[Request interrupted by user"]) {
        Kind::Interruption
    } else if begins(&["<task-notification>"]) {
        Kind::Notification
    } else if begins(&["<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>"]) {
        Kind::CommandOutput
    } else if begins(&["<local-command-caveat>"]) {
        Kind::Hidden
    } else if begins(&["<command-name>", "<command-message>"]) {
        Kind::Command
    } else {
        Kind::Prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Link> {
        reading(line).map(|reading| reading.link)
    }

    fn reading(line: &str) -> Option<Reading> {
        Link::read(line.as_bytes(), 1, 0..u64::try_from(line.len()).unwrap()).unwrap()
    }

    fn user(content: &str) -> Kind {
        read(&format!(r#"{{"type":"user","uuid":"u","message":{{"role":"user","content":{content}}}}}"#)).unwrap().kind
    }

    #[test]
    fn what_a_user_record_is() {
        for (content, kind) in [
            (r#""hello""#, Kind::Prompt),
            (r#"[{"type":"text","text":"hello"}]"#, Kind::Prompt),
            (r#"[{"type":"image","source":{}}]"#, Kind::Prompt),
            (r#"[{"type":"image","source":{}},{"type":"text","text":"<b>"}]"#, Kind::Prompt),
            (r#"[{"tool_use_id":"t","type":"tool_result","content":"[Request interrupted by user]"}]"#, Kind::Results),
            (r#"[{"type":"text","text":"[Request interrupted by user for tool use]"}]"#, Kind::Interruption),
            (r#""<task-notification>\n<task-id>a""#, Kind::Notification),
            (r#""<local-command-stdout>Compacted </local-command-stdout>""#, Kind::CommandOutput),
            (r#""<command-name>/compact</command-name>""#, Kind::Command),
            ("[]", Kind::Hidden),
            ("7", Kind::Hidden),
            (r#"{"type":"text"}"#, Kind::Hidden),
        ] {
            assert_eq!(user(content), kind, "{content}");
        }
    }

    #[test]
    fn a_boundary_hangs_from_what_stood_before_it() {
        let line =
            r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        let link = read(line).unwrap();
        assert_eq!((link.kind, link.parent), (Kind::Boundary, Some(RecordId::of("a"))));
        // Elsewhere it means nothing.
        let line = r#"{"type":"user","uuid":"b","parentUuid":null,"logicalParentUuid":"a"}"#;
        assert_eq!(read(line).unwrap().parent, None);
    }

    #[test]
    fn bookkeeping_has_no_link_and_nonsense_is_an_error() {
        assert_eq!(read(r#"{"type":"queue-operation","operation":"enqueue"}"#), None);
        assert_eq!(read(r#"{"type":"user","uuid":null}"#), None);
        for line in ["", "{}", "[]", "nonsense", r#"{"type":"user","uuid":7}"#, r#"{"type":"user","uuid":"x""#] {
            assert!(Link::read(line.as_bytes(), 1, 0..0).is_err(), "{line}");
        }
    }

    #[test]
    fn the_turn_of_a_record_is_always_the_same() {
        let id = RecordId::of("5411c267-6714-419b-bc64-f9e428e89a9f");
        assert_eq!(id.turn().to_string(), RecordId::of("5411C267-6714-419B-BC64-F9E428E89A9F").turn().to_string());
        assert_eq!(id.turn().get_version_num(), 5);
        assert_ne!(id.turn(), RecordId::of("x").turn());
    }

    #[test]
    fn a_turn_may_end_where_the_model_has_said_all_or_something_stopped_it() {
        let answer = |rest: &str, content: &str| {
            let line =
                format!(r#"{{"type":"assistant","uuid":"u","message":{{"id":"m","content":[{content}]{rest}}}}}"#);
            read(&line).unwrap().over
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
        assert!(read(failed).unwrap().over);
        let over = |content: &str| {
            read(&format!(r#"{{"type":"user","uuid":"u","message":{{"content":{content}}}}}"#)).unwrap().over
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
        assert_eq!((said.link.kind, said.message), (Kind::Folded, Some(RecordId::of(id))));
        let told = reading(&line("task-notification")).unwrap();
        assert_eq!((told.link.kind, told.message), (Kind::Hidden, None));
    }

    #[test]
    fn a_result_names_the_agent_that_was_made() {
        let line = |returned: &str| {
            let line = format!(
                r#"{{"type":"user","uuid":"u","message":{{"content":[{{"type":"tool_result"}}]}},"toolUseResult":{returned}}}"#
            );
            reading(&line).unwrap().agent
        };
        assert_eq!(line(r#"{"status":"completed","agentId":"a1"}"#), Some(RecordId::of("a1")));
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
            assert!(reading.strange.is_some() && reading.link.kind == Kind::Hidden, "{line}");
        }
        assert_eq!(reading(r#"{"type":"something-new","uuid":"u"}"#).unwrap().strange, None);
    }
}
