//! One pass over a transcript.

use std::io::{self, BufRead};
use std::ops::{ControlFlow, Range};

use serde::Deserialize;

use super::lines;
use super::link::{Link, RecordId};
use crate::wire::Text;

/// A longer line is not read; its neighbours are.
pub const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// How many damaged lines are named; the others are counted.
const NAMED: usize = 16;

/// How the agent's bookkeeping begins: records that are never part of a conversation, some of them as large as the whole
/// system prompt. They are told by their first bytes, which is a hundred times quicker than reading them.
const BOOKKEEPING: [&[u8]; 5] = [
    br#"{"type":"api-request"#,
    br#"{"type":"queue-operation""#,
    br#"{"type":"file-history-"#,
    LAST_PROMPT,
    br#"{"type":"atis-latch""#,
];

/// Such a record that names the last one that the agent knew.
const LAST_PROMPT: &[u8] = br#"{"type":"last-prompt""#;

/// What some editors put before the first letter of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Where everything stands in a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Its records, in the order of the file.
    pub links: Vec<Link>,
    /// Messages that were folded into a turn: the record's position in the links, and the id that the message was sent with.
    pub(super) folded: Vec<(usize, RecordId)>,
    /// Results that name a sub-agent: the record's position in the links, and the agent.
    pub(super) agents: Vec<(usize, RecordId)>,
    /// The record that an agent noted last as the last one that it knew.
    pub(super) leaf: Option<RecordId>,
    /// How many bytes were read: up to the end of the last whole line. What follows is being written, or was cut off.
    pub read: u64,
    /// What could not be read.
    pub damage: Damage,
    /// The same without a last record that lacks its line break: where a later reading goes on.
    whole: u64,
    /// How many lines that is.
    lines: u64,
}

/// What could not be read of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// How many lines are not records.
    pub lines: u64,
    /// The first of them: the line, from 1, and what is wrong with it. Never its contents.
    pub first: Vec<(u64, String)>,
    /// How many bytes stand behind the last whole line.
    pub unfinished: u64,
}

impl Damage {
    fn name(&mut self, line: u64, what: impl FnOnce() -> String) {
        self.lines += 1;
        if self.first.len() < NAMED {
            self.first.push((line, what()));
        }
    }
}

impl Index {
    /// Reads a transcript from its beginning.
    pub fn of(file: &mut impl BufRead) -> io::Result<Self> {
        let mut index = Self::default();
        index.go_on(file)?;
        Ok(index)
    }

    /// Where [`go_on`](Self::go_on) must begin.
    pub(super) fn next(&self) -> u64 {
        self.whole
    }

    /// Reads what was written behind the last whole line. The file is at that place.
    pub(super) fn go_on(&mut self, file: &mut impl BufRead) -> io::Result<()> {
        let whole = self.whole;
        self.links.truncate(self.links.partition_point(|link| link.place.start < whole));
        let links = self.links.len();
        self.agents.retain(|(at, _)| *at < links);
        self.folded.retain(|(at, _)| *at < links);
        (self.read, self.damage.unfinished) = (whole, 0);
        let rest = lines::each(file, LONGEST_LINE, |line, length| {
            self.line(line, length);
            ControlFlow::Continue(())
        })?;
        self.unfinished(&rest.begun, rest.length);
        Ok(())
    }

    /// A line with its line break. What is kept of it may be shorter than it was.
    fn line(&mut self, line: &[u8], length: u64) {
        self.lines += 1;
        let place = self.whole..self.whole + length;
        self.whole = place.end + 1;
        self.read = self.whole;
        if length > LONGEST_LINE as u64 {
            let number = self.lines;
            self.damage.name(number, || format!("is {length} bytes long; at most {LONGEST_LINE} are read"));
            return;
        }
        if line.starts_with(LAST_PROMPT) {
            self.leaf = leaf(line).or(self.leaf);
        }
        if line.trim_ascii().is_empty() || BOOKKEEPING.iter().any(|start| line.starts_with(start)) {
            return;
        }
        if let Err(error) = self.record(line, self.lines, place) {
            let number = self.lines;
            self.damage.name(number, || format!("is not a record (column {})", error.column()));
        }
    }

    fn record(&mut self, line: &[u8], number: u64, mut place: Range<u64>) -> Result<(), serde_json::Error> {
        let mut record = line;
        if place.start == 0
            && let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK)
        {
            (record, place.start) = (rest, BYTE_ORDER_MARK.len() as u64);
        }
        let Some(reading) = Link::read(record, number, place)? else { return Ok(()) };
        self.folded.extend(reading.message.map(|message| (self.links.len(), message)));
        self.agents.extend(reading.agent.map(|agent| (self.links.len(), agent)));
        if let Some(strange) = reading.strange {
            self.damage.name(number, || strange.to_owned());
        }
        self.links.push(reading.link);
        Ok(())
    }

    /// What stands behind the last line break.
    fn unfinished(&mut self, line: &[u8], length: u64) {
        if length == 0 {
            return;
        }
        // A whole record that only lacks its line break counts: an agent that died has written it. What is strange about it
        // is said when the line is whole.
        let (place, damage) = (self.whole..self.whole + length, self.damage.clone());
        let is_record = length <= LONGEST_LINE as u64 && self.record(line, self.lines + 1, place).is_ok();
        self.damage = damage;
        if is_record {
            self.read = self.whole + length;
        } else {
            self.damage.unfinished = length;
        }
    }
}

impl Index {
    /// The same file when it has grown to this.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn grown(mut self, text: &[u8]) -> Self {
        let rest = usize::try_from(self.next()).ok().and_then(|from| text.get(from..)).unwrap_or_default();
        // Reading from memory does not fail.
        let _ = self.go_on(&mut &*rest);
        self
    }

    /// The transcript of a sub-agent: to itself, nothing in it is aside.
    pub(super) fn of_a_sub_agent(mut self) -> Self {
        self.links.iter_mut().for_each(|link| link.aside = false);
        self
    }
}

/// The record that the agent's note names.
fn leaf(line: &[u8]) -> Option<RecordId> {
    #[derive(Deserialize)]
    struct Note<'a> {
        #[serde(rename = "leafUuid", borrow, default)]
        leaf: Option<Text<'a>>,
    }
    let note: Note<'_> = serde_json::from_slice(line).ok()?;
    note.leaf.map(|leaf| RecordId::of(&leaf))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &[u8]) -> Index {
        // A small buffer, so that lines are put together from pieces.
        Index::of(&mut io::BufReader::with_capacity(7, text)).unwrap()
    }

    const RECORD: &str = r#"{"type":"user","uuid":"a","message":{"content":"hi"}}"#;

    #[test]
    fn records_are_found_where_they_stand() {
        let text = format!("{{\"type\":\"atis-latch\"}}\n{RECORD}\n\n{RECORD}\n");
        let index = index(text.as_bytes());
        let lines: Vec<&str> = index
            .links
            .iter()
            .map(|link| {
                text.get(usize::try_from(link.place.start).unwrap()..usize::try_from(link.place.end).unwrap()).unwrap()
            })
            .collect();
        assert_eq!(lines, [RECORD, RECORD]);
        assert_eq!((index.read, index.damage), (text.len() as u64, Damage::default()));
    }

    #[test]
    fn a_file_that_is_cut_off_keeps_what_is_whole() {
        let text = format!("{RECORD}\n{RECORD}");
        assert_eq!(index(text.as_bytes()).links.len(), 2);
        for cut in RECORD.len() + 2..text.len() {
            let index = index(&text.as_bytes()[..cut]);
            assert_eq!(index.links.len(), 1, "cut at {cut}");
            assert_eq!(index.damage.unfinished, (cut - RECORD.len() - 1) as u64);
            assert_eq!(index.read, RECORD.len() as u64 + 1);
        }
        assert_eq!(index(b""), Index::default());
    }

    #[test]
    fn a_damaged_line_is_named_and_its_neighbours_are_read() {
        let mut text = Vec::new();
        for noise in [&b"\xff\xfe\x00binary"[..], b"{\"type\":\"user\",\"uuid\":\"x\"", b"\0\0\0\0", b"[1,2]", b"null"]
        {
            text.extend_from_slice(RECORD.as_bytes());
            text.push(b'\n');
            text.extend_from_slice(noise);
            text.push(b'\n');
        }
        let index = index(&text);
        assert_eq!((index.links.len(), index.damage.lines), (5, 5));
        assert_eq!(index.damage.first.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
        assert!(!format!("{:?}", index.damage).contains("binary"));
    }

    #[test]
    fn a_line_without_an_end_takes_bounded_memory() {
        let length = LONGEST_LINE as u64 + 5000;
        let mut endless = io::BufReader::new(io::Read::take(io::repeat(b'x'), length));
        let index = Index::of(&mut endless).unwrap();
        assert_eq!((index.damage.unfinished, index.read), (length, 0));
    }

    #[test]
    fn a_file_that_grew_is_read_from_where_the_last_reading_ended() {
        let agent = r#"{"type":"user","uuid":"b","message":{"content":[{"type":"tool_result"}]},"toolUseResult":{"agentId":"a"}}"#;
        let text = format!("\u{feff}{RECORD}\n\nnoise\n{RECORD}\n{agent}\n{agent}\nnoise\n{RECORD}");
        let whole = index(text.as_bytes());
        assert_eq!((whole.links.len(), whole.agents.len(), whole.damage.lines), (5, 2, 2));
        assert_eq!(whole.links.iter().map(|link| link.line).collect::<Vec<_>>(), [1, 4, 5, 6, 8]);
        for cut in 0..text.len() {
            let mut grown = index(&text.as_bytes()[..cut]);
            let from = usize::try_from(grown.next()).unwrap();
            grown.go_on(&mut io::BufReader::with_capacity(7, &text.as_bytes()[from..])).unwrap();
            assert_eq!(grown, whole, "cut at {cut}");
        }
    }

    #[test]
    fn other_line_breaks_and_marks_are_passed_over() {
        let text = format!("\u{feff}{RECORD}\r\n{RECORD}\r\n");
        let index = index(text.as_bytes());
        assert_eq!((index.links.len(), index.damage), (2, Damage::default()));
        assert_eq!(index_start(&text), 3);
    }

    fn index_start(text: &str) -> u64 {
        index(text.as_bytes()).links[0].place.start
    }
}
