//! One pass over a transcript.

use std::io::{self, BufRead};

use super::link::Link;

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
    br#"{"type":"last-prompt""#,
    br#"{"type":"atis-latch""#,
];

/// Where everything stands in a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Its records, in the order of the file.
    pub links: Vec<Link>,
    /// How many bytes were read: up to the end of the last whole line. What follows is being written, or was cut off.
    pub read: u64,
    /// What could not be read.
    pub damage: Damage,
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
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let length = read_line(file, &mut line)?;
            if length == 0 {
                return Ok(index);
            }
            number += 1;
            let end = index.read + length;
            if line.last() != Some(&b'\n') && length <= LONGEST_LINE as u64 {
                // A whole record that only lacks its line break counts: an agent that died has written it.
                match Link::read(&line, index.read..end) {
                    Ok(link) => {
                        index.links.extend(link);
                        index.read = end;
                    }
                    Err(_) => index.damage.unfinished = length,
                }
                return Ok(index);
            }
            let place = index.read..end.saturating_sub(1);
            index.read = end;
            if length > LONGEST_LINE as u64 {
                index.damage.name(number, || format!("is {length} bytes long; at most {LONGEST_LINE} are read"));
                continue;
            }
            let record = line.strip_suffix(b"\n").unwrap_or(&line);
            if record.trim_ascii().is_empty() || BOOKKEEPING.iter().any(|start| record.starts_with(start)) {
                continue;
            }
            match Link::read(record, place) {
                Ok(link) => index.links.extend(link),
                Err(error) => index.damage.name(number, || format!("is not a record (column {})", error.column())),
            }
        }
    }
}

impl Index {
    /// The transcript of a sub-agent: to itself, nothing in it is aside.
    pub(super) fn of_a_sub_agent(mut self) -> Self {
        self.links.iter_mut().for_each(|link| link.aside = false);
        self
    }
}

/// Reads up to and including the next line break, but keeps no more than [`LONGEST_LINE`] bytes; says how many were read.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let available = match file.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let (used, ends) = match available.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (available.len(), false),
        };
        let room = LONGEST_LINE.saturating_sub(line.len());
        line.extend(available.iter().take(used.min(room)));
        file.consume(used);
        length += used as u64;
        if ends || used == 0 {
            return Ok(length);
        }
    }
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
        let mut line = Vec::new();
        let mut endless = io::BufReader::new(io::Read::take(io::repeat(b'x'), LONGEST_LINE as u64 + 5000));
        assert_eq!(read_line(&mut endless, &mut line).unwrap(), LONGEST_LINE as u64 + 5000);
        assert_eq!(line.len(), LONGEST_LINE);
    }
}
