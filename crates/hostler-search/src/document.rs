//! What can be found: the texts of a turn by their kind, and a session's title.

use std::borrow::Cow;

use crate::segmentation;

/// Stands where something was left out.
const ELLIPSIS_GAP: &str = "\n…\n";

/// What a text is. The order is the order of the index's columns, and of what is shown first of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextKind {
    /// The session's title.
    Title,
    /// What a person said.
    User,
    /// What the agent answered.
    Answer,
    /// Files that were read, written or attached.
    Files,
    /// Names of tools.
    ToolName,
    /// What tools were told.
    ToolInput,
    /// What tools said.
    ToolOutput,
    /// What the model thought.
    Reasoning,
}

impl TextKind {
    /// All of them, in their order.
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

    /// How much more a word counts here.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Title => 8.0,
            Self::User => 4.0,
            Self::Answer | Self::Files | Self::ToolName => 2.0,
            Self::ToolInput | Self::Reasoning => 1.0,
            Self::ToolOutput => 0.5,
        }
    }

    /// How much of it is kept of one turn, in bytes. Each kind has room of its own: a file that was written must not keep
    /// the answer from being found.
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

/// A session, as far as finding goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDocument {
    /// Its name.
    pub session: String,
    /// Its title.
    pub title: String,
    /// The directory that it works in.
    pub workspace: Option<String>,
    /// When it was changed last, in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// Where a turn is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnLocation {
    /// The chat.
    pub chat: String,
    /// Its place among the chat's turns.
    pub position: usize,
}

/// A turn, as far as finding goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDocument {
    /// Where it is.
    pub location: TurnLocation,
    /// Its name.
    pub turn_id: String,
    /// When it began, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What was said in it.
    pub texts: TextsByKind,
}

/// The texts of one turn by their kind, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextsByKind {
    kinds: [String; 8],
}

impl TextsByKind {
    /// Adds a text. Where a kind becomes too long, its beginning and its end are kept: what was wanted, and what came of it.
    pub fn add(&mut self, kind: TextKind, text: &str) {
        let text = text.trim();
        let Some(kept) = self.kinds.get_mut(kind as usize).filter(|_| !text.is_empty()) else { return };
        if !kept.is_empty() {
            kept.push('\n');
        }
        // Before it is copied: a text may be a thousand times as long as what is kept of it.
        kept.push_str(&clip(text, kind.max_bytes()));
        if let Cow::Owned(clipped) = clip(kept, kind.max_bytes()) {
            *kept = clipped;
        }
    }

    /// Adds a name unless it is there already: of a tool, of a file. One that has no room is left out as a whole, since a part
    /// of it would be another name.
    pub fn add_once(&mut self, kind: TextKind, name: &str) {
        let (name, kept) = (name.trim(), self.of(kind));
        if kept.len() + name.len() < kind.max_bytes() && kept.lines().all(|line| line != name) {
            self.add(kind, name);
        }
    }

    /// The texts of a kind.
    pub fn of(&self, kind: TextKind) -> &str {
        self.kinds.get(kind as usize).map_or("", String::as_str)
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(String::is_empty)
    }

    /// As the index keeps them.
    pub(crate) fn segmented(&self) -> [String; 8] {
        self.kinds.each_ref().map(|text| segmentation::segment(text))
    }
}

/// A text, or its beginning and its end.
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
    fn texts_of_a_kind_are_lines_and_names_are_kept_once() {
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
    fn a_turn_of_any_length_takes_bounded_room_and_is_cut_between_characters() {
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
    fn no_kind_takes_the_room_of_another() {
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
    fn of_what_is_too_long_the_beginning_and_the_end_are_kept_however_it_came() {
        let words: Vec<String> = (0..10_000).map(|n| format!("word{n}")).collect();
        let (mut whole, mut parts) = (TextsByKind::default(), TextsByKind::default());
        whole.add(TextKind::Answer, &words.join("\n"));
        words.iter().for_each(|word| parts.add(TextKind::Answer, word));
        for texts in [&whole, &parts] {
            let answer = texts.of(TextKind::Answer);
            assert!(answer.starts_with("word0\nword1\n") && answer.ends_with("\nword9998\nword9999"));
            assert_eq!(answer.matches('…').count(), 1);
        }
    }

    #[test]
    fn a_name_is_kept_whole_or_not_at_all() {
        let mut texts = TextsByKind::default();
        let names: Vec<String> = (0..2_000).map(|n| format!("/w/file{n}.rs")).collect();
        names.iter().for_each(|name| texts.add_once(TextKind::Files, name));
        let kept: Vec<&str> = texts.of(TextKind::Files).lines().collect();
        assert!(kept.len() > 400 && kept.iter().zip(&names).all(|(kept, name)| *kept == name), "{}", kept.len());
    }
}
