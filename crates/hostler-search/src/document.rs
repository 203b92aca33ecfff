//! What can be found: the texts of a turn by their kind, and a session's title.

use crate::signs;

/// How much text of one turn is kept, in bytes.
const PER_TURN: usize = 64 * 1024;

/// How much of what tools printed is kept of one turn, in bytes.
const OUTPUT: usize = 4 * 1024;

/// What a text is. The order is the order of the index's columns, and of what is shown first of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The session's title.
    Title,
    /// What a person said.
    Person,
    /// What the agent answered.
    Answer,
    /// Files that were read, written or attached.
    Files,
    /// Names of tools.
    Tool,
    /// What tools were told.
    Input,
    /// What tools said, the beginning of it.
    Output,
    /// What the model thought.
    Reasoning,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Self; 8] =
        [Self::Title, Self::Person, Self::Answer, Self::Files, Self::Tool, Self::Input, Self::Output, Self::Reasoning];

    /// Its name: the column's, and the one that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Person => "person",
            Self::Answer => "answer",
            Self::Files => "files",
            Self::Tool => "tool",
            Self::Input => "input",
            Self::Output => "output",
            Self::Reasoning => "reasoning",
        }
    }

    /// How much more a word counts here.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Title => 8.0,
            Self::Person => 4.0,
            Self::Answer | Self::Files | Self::Tool => 2.0,
            Self::Input | Self::Reasoning => 1.0,
            Self::Output => 0.5,
        }
    }
}

/// A session, as far as finding goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
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
pub struct Place {
    /// The chat.
    pub chat: String,
    /// Its place among the chat's turns.
    pub position: usize,
}

/// A turn, as far as finding goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnTexts {
    /// Where it is.
    pub place: Place,
    /// Its name.
    pub turn: String,
    /// When it began, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What was said in it.
    pub texts: Texts,
}

/// The texts of one turn by their kind, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    kinds: [String; 8],
    bytes: usize,
}

impl Texts {
    /// Adds a text, as far as there is room for it.
    pub fn add(&mut self, kind: Kind, text: &str) {
        let text = text.trim();
        let Some(kept) = self.kinds.get_mut(kind as usize) else { return };
        let most = if kind == Kind::Output { OUTPUT.saturating_sub(kept.len()) } else { PER_TURN };
        let room = most.min(PER_TURN.saturating_sub(self.bytes));
        let clipped = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        if clipped.is_empty() {
            return;
        }
        if !kept.is_empty() {
            kept.push('\n');
        }
        kept.push_str(clipped);
        self.bytes += clipped.len() + 1;
    }

    /// Adds a text unless it is there already: names of tools and files.
    pub fn add_once(&mut self, kind: Kind, text: &str) {
        if self.of(kind).lines().all(|line| line != text) {
            self.add(kind, text);
        }
    }

    /// The texts of a kind.
    pub fn of(&self, kind: Kind) -> &str {
        self.kinds.get(kind as usize).map_or("", String::as_str)
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(String::is_empty)
    }

    /// As the index keeps them.
    pub(crate) fn parted(&self) -> [String; 8] {
        self.kinds.each_ref().map(|text| signs::parted(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_kind_are_lines_and_names_are_kept_once() {
        let mut texts = Texts::default();
        texts.add(Kind::Answer, " one ");
        texts.add(Kind::Answer, "");
        texts.add(Kind::Answer, "two");
        texts.add_once(Kind::Tool, "Bash");
        texts.add_once(Kind::Tool, "Read");
        texts.add_once(Kind::Tool, "Bash");
        assert_eq!((texts.of(Kind::Answer), texts.of(Kind::Tool)), ("one\ntwo", "Bash\nRead"));
    }

    #[test]
    fn a_turn_of_any_length_takes_bounded_room_and_is_cut_between_characters() {
        let mut texts = Texts::default();
        texts.add(Kind::Output, &"é".repeat(OUTPUT));
        texts.add(Kind::Output, "more");
        assert_eq!(texts.of(Kind::Output).len(), OUTPUT);
        texts.add(Kind::Answer, &"日".repeat(PER_TURN));
        texts.add(Kind::Person, &"x".repeat(PER_TURN));
        let all: usize = Kind::ALL.iter().map(|kind| texts.of(*kind).len()).sum();
        assert!((PER_TURN - 8..=PER_TURN).contains(&all), "{all}");
    }
}
