//! Titles that programs give to their terminal: `ESC ] 0 ; TITLE BEL`, or 2 instead of 0, or `ESC \` instead of BEL.

/// The longest title that is taken.
const MAX_TITLE_BYTES: usize = 512;

/// Notices titles in passing; the bytes stay where they are.
#[derive(Debug, Default)]
pub(crate) struct TitleScanner {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// Inside of a sequence, with what it holds.
    Osc(Vec<u8>),
    /// The same, after an escape that may end it.
    OscEscape(Vec<u8>),
}

impl TitleScanner {
    /// The last title among these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<String> {
        let mut last = None;
        for &byte in bytes {
            self.state = match (std::mem::take(&mut self.state), byte) {
                (State::Escape, b']') => State::Osc(Vec::new()),
                (State::Osc(held), 0x07) | (State::OscEscape(held), b'\\') => {
                    last = parse_title(&held).or(last);
                    State::Ground
                }
                (State::Osc(held), 0x1b) => State::OscEscape(held),
                (State::Osc(mut held), byte) if byte >= b' ' && held.len() < MAX_TITLE_BYTES => {
                    held.push(byte);
                    State::Osc(held)
                }
                (_, 0x1b) => State::Escape,
                // A sequence that is none, or too long to be a title; the rest of it is text like any other.
                _ => State::Ground,
            };
        }
        last
    }
}

fn parse_title(held: &[u8]) -> Option<String> {
    let title = held.strip_prefix(b"0;").or_else(|| held.strip_prefix(b"2;"))?;
    let title = String::from_utf8_lossy(title);
    let title: String = title.chars().filter(|letter| !letter.is_control()).collect();
    let title = title.trim();
    (!title.is_empty()).then(|| title.to_owned())
}
