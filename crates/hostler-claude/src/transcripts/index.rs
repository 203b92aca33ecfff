//! Indexes a transcript in one pass: the position, id, parent and kind of each record, without contents.

use std::io::{self, BufRead};
use std::ops::Range;

use serde::Deserialize;

use super::lines;
use super::record::{IndexedRecord, RecordId};
use crate::wire::WireText;

/// A longer line is skipped; its neighbours are read.
pub const MAX_TRANSCRIPT_LINE_BYTES: usize = 64 * 1024 * 1024;

/// How many damaged lines are listed; further ones are only counted.
const MAX_REPORTED_LINES: usize = 16;

/// Prefixes of bookkeeping records, which are never part of a conversation and can be as large as the whole system
/// prompt. Recognizing them by their first bytes is a hundred times faster than parsing them.
const BOOKKEEPING_PREFIXES: [&[u8]; 5] = [
    br#"{"type":"api-request"#,
    br#"{"type":"queue-operation""#,
    br#"{"type":"file-history-"#,
    LAST_PROMPT_PREFIX,
    br#"{"type":"atis-latch""#,
];

/// Prefix of the bookkeeping record that names the last record the agent knew.
const LAST_PROMPT_PREFIX: &[u8] = br#"{"type":"last-prompt""#;

/// Some editors put it at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The index of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptIndex {
    /// Its records, in the order of the file.
    pub records: Vec<IndexedRecord>,
    /// Messages that were folded into a turn: the record's position in `records`, and the id that the message was
    /// sent with.
    pub(super) folded_messages: Vec<(usize, RecordId)>,
    /// Results that name a sub-agent: the record's position in `records`, and the sub-agent.
    pub(super) sub_agents: Vec<(usize, RecordId)>,
    /// The record in the agent's last `last-prompt` note.
    pub(super) leaf: Option<RecordId>,
    /// How many bytes were read: up to the end of the last complete line. The rest is being written or was truncated.
    pub bytes_read: u64,
    /// What could not be read.
    pub damage: TranscriptDamage,
    /// The same without a last record that lacks its line break: where `extend` continues.
    complete_lines_end: u64,
    /// The number of lines up to there.
    line_count: u64,
}

/// The parts of a transcript that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptDamage {
    /// How many lines are not records.
    pub damaged_lines: u64,
    /// The first of them: line number, from 1, and the problem. Never the contents.
    pub first_damaged: Vec<(u64, String)>,
    /// Bytes after the last complete line.
    pub partial_line_bytes: u64,
}

impl TranscriptDamage {
    /// In sentences, with this many lines at most.
    pub(super) fn describe(&self, max_lines: usize) -> Vec<String> {
        let lines = self.first_damaged.iter().take(max_lines);
        let mut sentences: Vec<_> = lines.map(|(number, what)| format!("line {number} {what}")).collect();
        let unnamed = self.damaged_lines.saturating_sub(sentences.len() as u64);
        if unnamed > 0 {
            sentences.push(format!("{unnamed} more lines are damaged"));
        }
        if self.partial_line_bytes > 0 {
            sentences.push(format!("{} bytes at the end are an incomplete record", self.partial_line_bytes));
        }
        sentences
    }

    fn report(&mut self, line: u64, what: impl FnOnce() -> String) {
        self.damaged_lines += 1;
        if self.first_damaged.len() < MAX_REPORTED_LINES {
            self.first_damaged.push((line, what()));
        }
    }
}

impl TranscriptIndex {
    /// Reads a transcript from its start.
    pub fn read(file: &mut impl BufRead) -> io::Result<Self> {
        let mut index = Self::default();
        index.extend(file)?;
        Ok(index)
    }

    /// The file offset at which [`extend`](Self::extend) must start.
    pub(super) fn resume_offset(&self) -> u64 {
        self.complete_lines_end
    }

    /// Reads what was appended after the last complete line. The file is positioned there.
    pub(super) fn extend(&mut self, file: &mut impl BufRead) -> io::Result<()> {
        let whole = self.complete_lines_end;
        self.records.truncate(self.records.partition_point(|link| link.byte_range.start < whole));
        let links = self.records.len();
        self.sub_agents.retain(|(at, _)| *at < links);
        self.folded_messages.retain(|(at, _)| *at < links);
        (self.bytes_read, self.damage.partial_line_bytes) = (whole, 0);
        let rest = lines::for_each_line(file, MAX_TRANSCRIPT_LINE_BYTES, |line, length| self.add_line(line, length))?;
        self.add_partial_line(&rest.start, rest.length);
        Ok(())
    }

    /// Adds a line that has a line break. `line` may be shorter than `length`.
    fn add_line(&mut self, line: &[u8], length: u64) {
        self.line_count += 1;
        let place = self.complete_lines_end..self.complete_lines_end + length;
        self.complete_lines_end = place.end + 1;
        self.bytes_read = self.complete_lines_end;
        if length > MAX_TRANSCRIPT_LINE_BYTES as u64 {
            let number = self.line_count;
            self.damage
                .report(number, || format!("has {length} bytes, more than the limit of {MAX_TRANSCRIPT_LINE_BYTES}"));
            return;
        }
        if line.starts_with(LAST_PROMPT_PREFIX) {
            self.leaf = parse_leaf(line).or(self.leaf);
        }
        if line.trim_ascii().is_empty() || BOOKKEEPING_PREFIXES.iter().any(|start| line.starts_with(start)) {
            return;
        }
        if let Err(error) = self.add_record(line, self.line_count, place) {
            let number = self.line_count;
            self.damage.report(number, || format!("is not a record (column {})", error.column()));
        }
    }

    fn add_record(&mut self, line: &[u8], number: u64, mut place: Range<u64>) -> Result<(), serde_json::Error> {
        let mut record = line;
        if place.start == 0
            && let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK)
        {
            (record, place.start) = (rest, BYTE_ORDER_MARK.len() as u64);
        }
        let Some(reading) = IndexedRecord::parse(record, number, place)? else { return Ok(()) };
        self.folded_messages.extend(reading.queued_message.map(|message| (self.records.len(), message)));
        self.sub_agents.extend(reading.sub_agent.map(|agent| (self.records.len(), agent)));
        if let Some(strange) = reading.anomaly {
            self.damage.report(number, || strange.to_owned());
        }
        self.records.push(reading.record);
        Ok(())
    }

    /// Adds what follows the last line break.
    fn add_partial_line(&mut self, line: &[u8], length: u64) {
        if length == 0 {
            return;
        }
        // A complete record that only lacks its line break counts: an agent that died has written it. Its anomalies
        // are reported when the line is complete.
        let (place, damage) = (self.complete_lines_end..self.complete_lines_end + length, self.damage.clone());
        let is_record =
            length <= MAX_TRANSCRIPT_LINE_BYTES as u64 && self.add_record(line, self.line_count + 1, place).is_ok();
        self.damage = damage;
        if is_record {
            self.bytes_read = self.complete_lines_end + length;
        } else {
            self.damage.partial_line_bytes = length;
        }
    }
}

impl TranscriptIndex {
    /// The index after the file has grown to this.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn extended_to(mut self, text: &[u8]) -> Self {
        let rest = usize::try_from(self.resume_offset()).ok().and_then(|from| text.get(from..)).unwrap_or_default();
        // Reading from memory does not fail.
        let _ = self.extend(&mut &*rest);
        self
    }

    /// The index of a sub-agent's transcript: its own records are no sidechain there.
    pub(super) fn into_sub_agent_index(mut self) -> Self {
        self.records.iter_mut().for_each(|link| link.is_sidechain = false);
        self
    }
}

/// The record that a `last-prompt` note names.
fn parse_leaf(line: &[u8]) -> Option<RecordId> {
    #[derive(Deserialize)]
    struct Note<'a> {
        #[serde(rename = "leafUuid", borrow, default)]
        leaf: Option<WireText<'a>>,
    }
    let note: Note<'_> = serde_json::from_slice(line).ok()?;
    note.leaf.map(|leaf| RecordId::from_name(&leaf))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &[u8]) -> TranscriptIndex {
        // A small buffer, so that lines are assembled from pieces.
        TranscriptIndex::read(&mut io::BufReader::with_capacity(7, text)).unwrap()
    }

    const RECORD: &str = r#"{"type":"user","uuid":"a","message":{"content":"hi"}}"#;

    #[test]
    fn records_have_their_byte_ranges() {
        let text = format!("{{\"type\":\"atis-latch\"}}\n{RECORD}\n\n{RECORD}\n");
        let index = index(text.as_bytes());
        let lines: Vec<&str> = index
            .records
            .iter()
            .map(|link| {
                text.get(usize::try_from(link.byte_range.start).unwrap()..usize::try_from(link.byte_range.end).unwrap())
                    .unwrap()
            })
            .collect();
        assert_eq!(lines, [RECORD, RECORD]);
        assert_eq!((index.bytes_read, index.damage), (text.len() as u64, TranscriptDamage::default()));
    }

    #[test]
    fn truncated_file_yields_its_complete_records() {
        let text = format!("{RECORD}\n{RECORD}");
        assert_eq!(index(text.as_bytes()).records.len(), 2);
        for cut in RECORD.len() + 2..text.len() {
            let index = index(&text.as_bytes()[..cut]);
            assert_eq!(index.records.len(), 1, "cut at {cut}");
            assert_eq!(index.damage.partial_line_bytes, (cut - RECORD.len() - 1) as u64);
            assert_eq!(index.bytes_read, RECORD.len() as u64 + 1);
        }
        assert_eq!(index(b""), TranscriptIndex::default());
    }

    #[test]
    fn damaged_line_is_reported_and_its_neighbours_are_read() {
        let mut text = Vec::new();
        for noise in [&b"\xff\xfe\x00binary"[..], b"{\"type\":\"user\",\"uuid\":\"x\"", b"\0\0\0\0", b"[1,2]", b"null"]
        {
            text.extend_from_slice(RECORD.as_bytes());
            text.push(b'\n');
            text.extend_from_slice(noise);
            text.push(b'\n');
        }
        let index = index(&text);
        assert_eq!((index.records.len(), index.damage.damaged_lines), (5, 5));
        assert_eq!(index.damage.first_damaged.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
        assert!(!format!("{:?}", index.damage).contains("binary"));
    }

    #[test]
    fn endless_line_takes_bounded_memory() {
        let length = MAX_TRANSCRIPT_LINE_BYTES as u64 + 5000;
        let mut endless = io::BufReader::new(io::Read::take(io::repeat(b'x'), length));
        let index = TranscriptIndex::read(&mut endless).unwrap();
        assert_eq!((index.damage.partial_line_bytes, index.bytes_read), (length, 0));
    }

    #[test]
    fn grown_file_is_read_from_the_resume_offset() {
        let agent = r#"{"type":"user","uuid":"b","message":{"content":[{"type":"tool_result"}]},"toolUseResult":{"agentId":"a"}}"#;
        let text = format!("\u{feff}{RECORD}\n\nnoise\n{RECORD}\n{agent}\n{agent}\nnoise\n{RECORD}");
        let whole = index(text.as_bytes());
        assert_eq!((whole.records.len(), whole.sub_agents.len(), whole.damage.damaged_lines), (5, 2, 2));
        assert_eq!(whole.records.iter().map(|link| link.line_number).collect::<Vec<_>>(), [1, 4, 5, 6, 8]);
        for cut in 0..text.len() {
            let mut grown = index(&text.as_bytes()[..cut]);
            let from = usize::try_from(grown.resume_offset()).unwrap();
            grown.extend(&mut io::BufReader::with_capacity(7, &text.as_bytes()[from..])).unwrap();
            assert_eq!(grown, whole, "cut at {cut}");
        }
    }

    #[test]
    fn carriage_returns_and_byte_order_marks_are_skipped() {
        let text = format!("\u{feff}{RECORD}\r\n{RECORD}\r\n");
        let index = index(text.as_bytes());
        assert_eq!((index.records.len(), index.damage), (2, TranscriptDamage::default()));
        assert_eq!(index_start(&text), 3);
    }

    fn index_start(text: &str) -> u64 {
        index(text.as_bytes()).records[0].byte_range.start
    }
}
