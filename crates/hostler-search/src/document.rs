//! What is indexed: the texts of a turn by their kind, and a session's title.

use std::borrow::Cow;

use crate::segmentation;

/// Replaces omitted text.
const ELLIPSIS_GAP: &str = "\n…\n";

/// The kind of a text. The order is the order of the index's columns, and the order in which matches of a turn are
/// shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextKind {
    /// The session's title.
    Title,
    /// A person's message.
    User,
    /// The agent's answer.
    Answer,
    /// Files that were read, written or attached.
    Files,
    /// Names of tools.
    ToolName,
    /// Input of tool calls.
    ToolInput,
    /// Output of tool calls.
    ToolOutput,
    /// The model's reasoning.
    Reasoning,
}

impl TextKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 8] = [
        Self::Title,
        Self::User,
        Self::Answer,
        Self::Files,
        Self::ToolName,
        Self::ToolInput,
        Self::ToolOutput,
        Self::Reasoning,
    ];

    /// Its name: the column's, and the one that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::User => "person",
            Self::Answer => "answer",
            Self::Files => "files",
            Self::ToolName => "tool",
            Self::ToolInput => "input",
            Self::ToolOutput => "output",
            Self::Reasoning => "reasoning",
        }
    }

    /// How much a match in this kind counts.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Title => 8.0,
            Self::User => 4.0,
            Self::Answer | Self::Files | Self::ToolName => 2.0,
            Self::ToolInput | Self::Reasoning => 1.0,
            Self::ToolOutput => 0.5,
        }
    }

    /// Maximum indexed size per turn, in bytes. Each kind has its own limit: a long written file must not displace the
    /// answer.
    fn max_bytes(self) -> usize {
        let kilobytes = match self {
            Self::Answer => 24,
            Self::User | Self::ToolInput => 16,
            Self::Title | Self::Files | Self::ToolName | Self::Reasoning => 8,
            Self::ToolOutput => 4,
        };
        kilobytes * 1024
    }
}

/// An indexed session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDocument {
    /// Its URI.
    pub session: String,
    /// Its title.
    pub title: String,
    /// Its working directory.
    pub workspace: Option<String>,
    /// When it was last changed, in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// Location of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnLocation {
    /// The chat.
    pub chat: String,
    /// Its position among the chat's turns.
    pub position: usize,
}

/// An indexed turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDocument {
    /// Its location.
    pub location: TurnLocation,
    /// Its id.
    pub turn_id: String,
    /// When it started, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Its texts.
    pub texts: TextsByKind,
}

/// The texts of one turn by their kind, limited in size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextsByKind {
    kinds: [String; 8],
}

impl TextsByKind {
    /// Adds a text. If a kind becomes too long, its start and its end are retained: the request and the outcome.
    pub fn add(&mut self, kind: TextKind, text: &str) {
        let text = text.trim();
        let Some(stored) = self.kinds.get_mut(kind as usize).filter(|_| !text.is_empty()) else { return };
        if !stored.is_empty() {
            stored.push('\n');
        }
        // Before it is copied: a text may be a thousand times as long as its indexed part.
        stored.push_str(&clip(text, kind.max_bytes()));
        if let Cow::Owned(clipped) = clip(stored, kind.max_bytes()) {
            *stored = clipped;
        }
    }

    /// Adds the name of a tool or a file, once. A name that does not fit is omitted as a whole, because a part of it
    /// would be another name.
    pub fn add_once(&mut self, kind: TextKind, name: &str) {
        let (name, stored) = (name.trim(), self.of(kind));
        if stored.len() + name.len() < kind.max_bytes() && stored.lines().all(|line| line != name) {
            self.add(kind, name);
        }
    }

    /// The texts of a kind.
    pub fn of(&self, kind: TextKind) -> &str {
        self.kinds.get(kind as usize).map_or("", String::as_str)
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(String::is_empty)
    }

    /// The texts as the index stores them.
    pub(crate) fn segmented(&self) -> [String; 8] {
        self.kinds.each_ref().map(|text| segmentation::segment(text))
    }
}

/// A text, or its start and its end.
fn clip(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let half = (most - ELLIPSIS_GAP.len()) / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    Cow::Owned([head, ELLIPSIS_GAP, tail].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_by_lines_and_names_stored_once() {
        let mut texts = TextsByKind::default();
        texts.add(TextKind::Answer, " one ");
        texts.add(TextKind::Answer, "");
        texts.add(TextKind::Answer, "two");
        texts.add_once(TextKind::ToolName, "Bash");
        texts.add_once(TextKind::ToolName, "Read");
        texts.add_once(TextKind::ToolName, "Bash");
        assert_eq!((texts.of(TextKind::Answer), texts.of(TextKind::ToolName)), ("one\ntwo", "Bash\nRead"));
    }

    #[test]
    fn long_turns_are_truncated_between_characters() {
        let mut texts = TextsByKind::default();
        for kind in TextKind::ALL {
            for text in ["日".repeat(100_000), "é".repeat(1_000), "x".repeat(100_000), "more".to_owned()] {
                texts.add(kind, &text);
                assert!(texts.of(kind).len() <= kind.max_bytes());
            }
            assert!(texts.of(kind).len() > kind.max_bytes() - 8, "{kind:?}");
        }
    }

    #[test]
    fn each_kind_has_its_own_size_limit() {
        let mut texts = TextsByKind::default();
        texts.add(TextKind::ToolInput, &"written ".repeat(10_000));
        texts.add(TextKind::ToolOutput, &"printed ".repeat(10_000));
        texts.add_once(TextKind::Files, "/w/late.rs");
        texts.add_once(TextKind::ToolName, "Late");
        texts.add(TextKind::Answer, "The last word.");
        let late = [TextKind::Files, TextKind::ToolName, TextKind::Answer].map(|kind| texts.of(kind));
        assert_eq!(late, ["/w/late.rs", "Late", "The last word."]);
    }

    #[test]
    fn long_texts_retain_start_and_end_in_any_number_of_pieces() {
        let lines: Vec<String> = (0..10_000).map(|n| format!("word{n}")).collect();
        let (mut whole, mut parts) = (TextsByKind::default(), TextsByKind::default());
        whole.add(TextKind::Answer, &lines.join("\n"));
        lines.iter().for_each(|line| parts.add(TextKind::Answer, line));
        for texts in [&whole, &parts] {
            let answer = texts.of(TextKind::Answer);
            assert!(answer.starts_with("word0\nword1\n") && answer.ends_with("\nword9998\nword9999"));
            assert_eq!(answer.matches('…').count(), 1);
        }
    }

    #[test]
    fn a_name_is_stored_completely_or_omitted() {
        let mut texts = TextsByKind::default();
        let names: Vec<String> = (0..2_000).map(|n| format!("/w/file{n}.rs")).collect();
        names.iter().for_each(|name| texts.add_once(TextKind::Files, name));
        let stored: Vec<&str> = texts.of(TextKind::Files).lines().collect();
        assert!(
            stored.len() > 400 && stored.iter().zip(&names).all(|(stored, name)| *stored == name),
            "{}",
            stored.len()
        );
    }
}
