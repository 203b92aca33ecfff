//! One record of a transcript, as far as its place in the conversation goes.

use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::wire::Text;

/// Names a record within its file. Builds give records UUIDs; another name counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(u128);

impl RecordId {
    fn of(name: &str) -> Self {
        let uuid = Uuid::try_parse(name).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
        Self(uuid.as_u128())
    }

    /// The record's own UUID, if that is what it is called.
    pub fn uuid(self) -> Uuid {
        Uuid::from_u128(self.0)
    }

    /// The turn that begins with this record: the same one whenever the file is read.
    pub fn turn(self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &self.0.to_be_bytes())
    }
}

/// What a record is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody said something.
    Prompt,
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
    fn is_message(self) -> bool {
        !matches!(self, Self::Hidden | Self::ApiError | Self::Boundary)
    }

    /// Whether a turn begins with it.
    pub(super) fn begins_a_turn(self) -> bool {
        matches!(self, Self::Prompt | Self::Notification)
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
    /// Where its line stands in the file, without the line break.
    pub place: Range<u64>,
}

impl Link {
    /// Whether it may be the last thing of a conversation.
    pub(super) fn may_end(&self) -> bool {
        !self.aside && self.kind.is_message()
    }

    /// Reads a line. `None` for a record that hangs from nothing and has no name: the agent's own bookkeeping.
    pub(super) fn read(line: &[u8], place: Range<u64>) -> Result<Option<Self>, serde_json::Error> {
        let record: Record<'_> = serde_json::from_slice(line)?;
        let Some(uuid) = &record.uuid else { return Ok(None) };
        let kind = record.kind();
        let parent = match (&record.parent, kind) {
            (None, Kind::Boundary) => record.logical_parent.as_ref(),
            (parent, _) => parent.as_ref(),
        };
        let answer = record.message.as_ref().and_then(|message| message.id.as_ref()).filter(|_| kind == Kind::Answer);
        Ok(Some(Self {
            id: RecordId::of(uuid),
            parent: parent.map(|parent| RecordId::of(parent)),
            kind,
            answer: answer.map(|id| RecordId::of(id)),
            aside: record.sidechain.unwrap_or(false) || record.team.is_some(),
            place,
        }))
    }
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
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Record<'_> {
    fn kind(&self) -> Kind {
        match (&*self.label, self.subtype.as_deref()) {
            ("assistant", _) => Kind::Answer,
            ("user", _) if self.summary == Some(true) => Kind::Summary,
            ("user", _) if self.meta == Some(true) => Kind::Hidden,
            ("user", _) => {
                let content = self.message.as_ref().and_then(|message| message.content);
                content.map_or(Kind::Hidden, |content| said(content.get()))
            }
            ("system", Some("compact_boundary")) => Kind::Boundary,
            ("system", Some("api_error")) => Kind::ApiError,
            _ => Kind::Hidden,
        }
    }
}

/// What the contents of a user's record are.
fn said(content: &str) -> Kind {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        label: Text<'a>,
        #[serde(borrow, default)]
        text: Option<Text<'a>>,
    }
    if let Ok(Text(text)) = serde_json::from_str(content) {
        return spoken(&text);
    }
    let Ok(blocks) = serde_json::from_str::<Vec<Block<'_>>>(content) else { return Kind::Hidden };
    if blocks.iter().any(|block| &*block.label == "tool_result") {
        return Kind::Results;
    }
    let text = blocks.iter().find_map(|block| block.text.as_ref());
    text.map_or(if blocks.is_empty() { Kind::Hidden } else { Kind::Prompt }, |text| spoken(text))
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
    } else {
        Kind::Prompt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Link> {
        Link::read(line.as_bytes(), 0..u64::try_from(line.len()).unwrap()).unwrap()
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
            (r#""<command-name>/compact</command-name>""#, Kind::Prompt),
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
            assert!(Link::read(line.as_bytes(), 0..0).is_err(), "{line}");
        }
    }

    #[test]
    fn the_turn_of_a_record_is_always_the_same() {
        let id = RecordId::of("5411c267-6714-419b-bc64-f9e428e89a9f");
        assert_eq!(id.turn().to_string(), RecordId::of("5411C267-6714-419B-BC64-F9E428E89A9F").turn().to_string());
        assert_eq!(id.turn().get_version_num(), 5);
        assert_ne!(id.turn(), RecordId::of("x").turn());
    }
}
