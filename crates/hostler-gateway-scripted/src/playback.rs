//! Plays one message of a script: its blocks, chunks and pauses. Pure; does not know a clock or the wire format.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde_json::value::RawValue;

use crate::script::{Directive, MessageScript};

/// Chunk size of large output.
const HUGE_CHUNK_BYTES: usize = 4096;
/// Chunk size of tool input, in characters.
const JSON_CHUNK_CHARS: usize = 16;

/// One step of the playback.
#[derive(Debug)]
pub(super) enum PlaybackStep {
    /// A block starts.
    Open(NewBlock),
    /// The open block grows.
    Chunk(String),
    /// The open block ends.
    Close,
    /// The message ends, for this reason.
    End(&'static str),
    /// A pause.
    Pause(Duration),
    /// The request fails.
    Error { status: StatusCode, message: String },
    /// The connection is closed.
    Disconnect,
    /// No further step follows, and the stream stays open.
    Hang,
}

/// The kind of a new block.
#[derive(Debug)]
pub(super) enum NewBlock {
    Text,
    Thinking,
    Tool { name: String, input: Box<RawValue> },
}

/// A running playback; an iterator, so that large output is never in memory as a whole.
#[derive(Debug)]
pub(super) struct ScriptPlayback {
    directives: std::vec::IntoIter<Directive>,
    delta_delay: Duration,
    /// Remaining chunks of the open block.
    open_block: Option<BlockChunks>,
    queued: VecDeque<PlaybackStep>,
    block_count: usize,
    tool_call_count: usize,
    is_over: bool,
}

impl ScriptPlayback {
    pub(super) fn new(message: MessageScript) -> Self {
        Self {
            directives: message.directives.into_iter(),
            delta_delay: message.delta_delay,
            open_block: None,
            queued: VecDeque::new(),
            block_count: 0,
            tool_call_count: 0,
            is_over: false,
        }
    }

    fn open_block(&mut self, opening: NewBlock, pieces: BlockChunks) {
        self.block_count += 1;
        self.tool_call_count += usize::from(matches!(opening, NewBlock::Tool { .. }));
        self.queued.push_back(PlaybackStep::Open(opening));
        self.open_block = Some(pieces);
    }

    fn extend_block(&mut self, mut pieces: BlockChunks) {
        match pieces.next() {
            Some(piece) => {
                if !self.delta_delay.is_zero() {
                    self.queued.push_back(PlaybackStep::Pause(self.delta_delay));
                }
                self.queued.push_back(PlaybackStep::Chunk(piece));
                self.open_block = Some(pieces);
            }
            None => self.queued.push_back(PlaybackStep::Close),
        }
    }

    fn run_directive(&mut self, directive: Directive) {
        match directive {
            Directive::Say(text) => self.open_block(NewBlock::Text, BlockChunks::from_words(&text)),
            // `with_images` has set the text.
            Directive::See { text, .. } => self.open_block(NewBlock::Text, BlockChunks::from_words(&text)),
            Directive::Think(text) => self.open_block(NewBlock::Thinking, BlockChunks::from_words(&text)),
            Directive::Deltas { count, text } => {
                self.open_block(NewBlock::Text, BlockChunks::Numbered { next: 1, count, text })
            }
            Directive::Huge(bytes) => self.open_block(NewBlock::Text, BlockChunks::Filler { bytes }),
            Directive::Tool { name, input } => {
                let pieces = BlockChunks::from_json(input.get());
                self.open_block(NewBlock::Tool { name, input }, pieces);
            }
            Directive::Pace(pace) => self.delta_delay = pace,
            Directive::Wait(time) => self.queued.push_back(PlaybackStep::Pause(time)),
            Directive::Error { status, message } => self.finish(PlaybackStep::Error { status, message }),
            Directive::Cut => self.finish(PlaybackStep::Disconnect),
            Directive::Hang => self.finish(PlaybackStep::Hang),
        }
    }

    /// Ends the message. A message without any block is invalid, so a final text is added.
    fn end_message(&mut self) {
        if self.block_count == 0 {
            self.open_block(NewBlock::Text, BlockChunks::from_words("Done."));
        } else {
            self.finish(PlaybackStep::End(if self.tool_call_count > 0 { "tool_use" } else { "end_turn" }));
        }
    }

    fn finish(&mut self, step: PlaybackStep) {
        self.queued.push_back(step);
        self.is_over = true;
    }
}

impl Iterator for ScriptPlayback {
    type Item = PlaybackStep;

    fn next(&mut self) -> Option<PlaybackStep> {
        loop {
            if let Some(step) = self.queued.pop_front() {
                return Some(step);
            }
            if self.is_over {
                return None;
            }
            if let Some(pieces) = self.open_block.take() {
                self.extend_block(pieces);
            } else if let Some(directive) = self.directives.next() {
                self.run_directive(directive);
            } else {
                self.end_message();
            }
        }
    }
}

/// The chunks of one block.
#[derive(Debug)]
enum BlockChunks {
    Ready(VecDeque<String>),
    Numbered { next: usize, count: usize, text: Option<String> },
    Filler { bytes: usize },
}

impl BlockChunks {
    fn from_words(text: &str) -> Self {
        Self::Ready(text.split_inclusive(char::is_whitespace).map(str::to_owned).collect())
    }

    fn from_json(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self::Ready(chars.chunks(JSON_CHUNK_CHARS).map(|piece| piece.iter().collect()).collect())
    }
}

impl Iterator for BlockChunks {
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
                let size = HUGE_CHUNK_BYTES.min(*bytes);
                *bytes -= size;
                Some("x".repeat(size))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    /// The steps of a script as text.
    fn play(script: &str) -> String {
        let message = Script::parse(script).unwrap().unwrap().message_after(0);
        let steps = ScriptPlayback::new(message).map(|step| match step {
            PlaybackStep::Open(NewBlock::Text) => "text[".to_owned(),
            PlaybackStep::Open(NewBlock::Thinking) => "thinking[".to_owned(),
            PlaybackStep::Open(NewBlock::Tool { name, .. }) => format!("{name}["),
            PlaybackStep::Chunk(piece) => format!("{piece:?}"),
            PlaybackStep::Close => "]".to_owned(),
            PlaybackStep::End(reason) => reason.to_owned(),
            PlaybackStep::Pause(time) => format!("{}ms", time.as_millis()),
            PlaybackStep::Error { status, .. } => status.as_str().to_owned(),
            PlaybackStep::Disconnect => "cut".to_owned(),
            PlaybackStep::Hang => "hang".to_owned(),
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
    fn huge_output_has_exactly_the_requested_size() {
        let message = Script::parse("!huge 10000").unwrap().unwrap().message_after(0);
        let sizes: Vec<usize> = ScriptPlayback::new(message)
            .filter_map(|step| if let PlaybackStep::Chunk(piece) = step { Some(piece.len()) } else { None })
            .collect();
        assert_eq!(sizes, [4096, 4096, 1808]);
    }
}
