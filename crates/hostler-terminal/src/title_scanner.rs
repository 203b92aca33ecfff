//! Detects titles that programs set: `ESC ] 0 ; TITLE BEL`, or 2 instead of 0, or `ESC \` instead of BEL.

/// Maximum length of a title; longer ones are ignored.
const MAX_TITLE_BYTES: usize = 512;

/// Scans for titles; the bytes are not changed.
#[derive(Debug, Default)]
pub(crate) struct TitleScanner {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// Inside a sequence, with its content so far.
    Osc(Vec<u8>),
    /// Inside a sequence, after an escape that may end it.
    OscEscape(Vec<u8>),
}

impl TitleScanner {
    /// The last title in these bytes.
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
                // Not a title sequence, or too long; the rest is ordinary text.
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
