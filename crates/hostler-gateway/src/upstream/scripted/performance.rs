//! Plays an act: which blocks, in which pieces, with which pauses. Pure; knows neither clock nor wire.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde_json::value::RawValue;

use super::script::{Act, Directive};

/// Large output comes in pieces of this size.
const HUGE_PIECE_BYTES: usize = 4096;
/// Tool input comes in pieces of so many characters.
const JSON_PIECE_CHARS: usize = 16;

/// What happens next.
#[derive(Debug)]
pub(super) enum Step {
    /// A block begins.
    Open(Opening),
    /// The open block grows.
    Piece(String),
    /// The open block ends.
    Close,
    /// The message ends, for this reason.
    End(&'static str),
    /// Time passes.
    Pause(Duration),
    /// The request fails.
    Error { status: StatusCode, message: String },
    /// The connection breaks.
    Cut,
    /// Nothing happens any more.
    Hang,
}

/// What kind of block begins.
#[derive(Debug)]
pub(super) enum Opening {
    Text,
    Thinking,
    Tool { name: String, input: Box<RawValue> },
}

/// An act being played; an iterator, so that large output is never held as a whole.
#[derive(Debug)]
pub(super) struct Performance {
    directives: std::vec::IntoIter<Directive>,
    pace: Duration,
    /// The pieces that the open block still gets.
    open: Option<Pieces>,
    due: VecDeque<Step>,
    blocks: usize,
    calls: usize,
    over: bool,
}

impl Performance {
    pub(super) fn new(act: Act) -> Self {
        Self {
            directives: act.directives.into_iter(),
            pace: act.pace,
            open: None,
            due: VecDeque::new(),
            blocks: 0,
            calls: 0,
            over: false,
        }
    }

    fn open(&mut self, opening: Opening, pieces: Pieces) {
        self.blocks += 1;
        self.calls += usize::from(matches!(opening, Opening::Tool { .. }));
        self.due.push_back(Step::Open(opening));
        self.open = Some(pieces);
    }

    fn grow(&mut self, mut pieces: Pieces) {
        match pieces.next() {
            Some(piece) => {
                if !self.pace.is_zero() {
                    self.due.push_back(Step::Pause(self.pace));
                }
                self.due.push_back(Step::Piece(piece));
                self.open = Some(pieces);
            }
            None => self.due.push_back(Step::Close),
        }
    }

    fn perform(&mut self, directive: Directive) {
        match directive {
            Directive::Say(text) => self.open(Opening::Text, Pieces::words(&text)),
            // What was seen has become something to say.
            Directive::See { text, .. } => self.open(Opening::Text, Pieces::words(&text)),
            Directive::Think(text) => self.open(Opening::Thinking, Pieces::words(&text)),
            Directive::Deltas { count, text } => self.open(Opening::Text, Pieces::Numbered { next: 1, count, text }),
            Directive::Huge(bytes) => self.open(Opening::Text, Pieces::Filler { bytes }),
            Directive::Tool { name, input } => {
                let pieces = Pieces::json(input.get());
                self.open(Opening::Tool { name, input }, pieces);
            }
            Directive::Pace(pace) => self.pace = pace,
            Directive::Wait(time) => self.due.push_back(Step::Pause(time)),
            Directive::Error { status, message } => self.finish(Step::Error { status, message }),
            Directive::Cut => self.finish(Step::Cut),
            Directive::Hang => self.finish(Step::Hang),
        }
    }

    /// The message ends by itself. An answer without any block would be no answer, so there is a last word.
    fn end(&mut self) {
        if self.blocks == 0 {
            self.open(Opening::Text, Pieces::words("Done."));
        } else {
            self.finish(Step::End(if self.calls > 0 { "tool_use" } else { "end_turn" }));
        }
    }

    fn finish(&mut self, step: Step) {
        self.due.push_back(step);
        self.over = true;
    }
}

impl Iterator for Performance {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.due.pop_front() {
                return Some(step);
            }
            if self.over {
                return None;
            }
            if let Some(pieces) = self.open.take() {
                self.grow(pieces);
            } else if let Some(directive) = self.directives.next() {
                self.perform(directive);
            } else {
                self.end();
            }
        }
    }
}

/// The pieces of one block.
#[derive(Debug)]
enum Pieces {
    Ready(VecDeque<String>),
    Numbered { next: usize, count: usize, text: Option<String> },
    Filler { bytes: usize },
}

impl Pieces {
    fn words(text: &str) -> Self {
        Self::Ready(text.split_inclusive(char::is_whitespace).map(str::to_owned).collect())
    }

    fn json(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self::Ready(chars.chunks(JSON_PIECE_CHARS).map(|piece| piece.iter().collect()).collect())
    }
}

impl Iterator for Pieces {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self {
            Self::Ready(pieces) => pieces.pop_front(),
            Self::Numbered { next, count, .. } if *next > *count => None,
            Self::Numbered { next, text, .. } => {
                let piece = text.clone().unwrap_or_else(|| format!("{next} "));
                *next += 1;
                Some(piece)
            }
            Self::Filler { bytes: 0 } => None,
            Self::Filler { bytes } => {
                let size = HUGE_PIECE_BYTES.min(*bytes);
                *bytes -= size;
                Some("x".repeat(size))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    /// The steps of a script as words.
    fn play(script: &str) -> String {
        let act = Script::parse(script).unwrap().unwrap().act_after(0);
        let steps = Performance::new(act).map(|step| match step {
            Step::Open(Opening::Text) => "text[".to_owned(),
            Step::Open(Opening::Thinking) => "thinking[".to_owned(),
            Step::Open(Opening::Tool { name, .. }) => format!("{name}["),
            Step::Piece(piece) => format!("{piece:?}"),
            Step::Close => "]".to_owned(),
            Step::End(reason) => reason.to_owned(),
            Step::Pause(time) => format!("{}ms", time.as_millis()),
            Step::Error { status, .. } => status.as_str().to_owned(),
            Step::Cut => "cut".to_owned(),
            Step::Hang => "hang".to_owned(),
        });
        steps.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn scripts_are_played_step_by_step() {
        for (script, played) in [
            ("!say one two", r#"text[ "one " "two" ] end_turn"#),
            ("!say a\\nb", "text[ \"a\\n\" \"b\" ] end_turn"),
            ("!think hm\n!say x", r#"thinking[ "hm" ] text[ "x" ] end_turn"#),
            ("!deltas 3", r#"text[ "1 " "2 " "3 " ] end_turn"#),
            ("!deltas 2 x y", r#"text[ "x y" "x y" ] end_turn"#),
            ("!pace 5\n!say a b", r#"text[ 5ms "a " 5ms "b" ] end_turn"#),
            ("!wait 9\n!say a\n!wait 1", r#"9ms text[ "a" ] 1ms end_turn"#),
            ("!tool A {\"path\":\"/a/long/path\"}", "A[ \"{\\\"path\\\":\\\"/a/long\" \"/path\\\"}\" ] tool_use"),
            ("!say a\n!tool A\n!tool B\n!say b", r#"text[ "a" ] A[ "{}" ] B[ "{}" ] tool_use"#),
            ("!error 529\n!say never", "529"),
            ("!say a\n!cut\n!say never", r#"text[ "a" ] cut"#),
            ("!hang", "hang"),
            ("!pace 1", r#"text[ 1ms "Done." ] end_turn"#),
        ] {
            assert_eq!(play(script), played, "{script}");
        }
    }

    #[test]
    fn huge_output_has_exactly_the_size_asked_for() {
        let act = Script::parse("!huge 10000").unwrap().unwrap().act_after(0);
        let sizes: Vec<usize> = Performance::new(act)
            .filter_map(|step| if let Step::Piece(piece) = step { Some(piece.len()) } else { None })
            .collect();
        assert_eq!(sizes, [4096, 4096, 1808]);
    }
}
