//! Reads lines of files written by other programs: an endless line takes bounded memory.

use std::io::{self, BufRead};

/// A larger buffer is not reused for the next line.
const MAX_RETAINED_CAPACITY_BYTES: usize = 1024 * 1024;

/// What follows the last line break.
#[derive(Debug, Default)]
pub(super) struct PartialLine {
    /// Its first bytes.
    pub(super) start: Vec<u8>,
    /// Its length.
    pub(super) length: u64,
}

/// The lines of these bytes, without their line breaks. The last one may be partial or empty.
pub(super) fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        let Some(at) = memchr::memchr(b'\n', bytes) else { return Some(bytes) };
        rest = bytes.get(at + 1..);
        bytes.get(..at)
    })
}

/// Passes the lines of a file one by one, without their line breaks: a prefix of bounded length of each, and its full
/// length.
pub(super) fn for_each_line(
    file: &mut impl BufRead,
    longest: usize,
    mut on_line: impl FnMut(&[u8], u64),
) -> io::Result<PartialLine> {
    // The start of a line that did not fit into the reader's buffer.
    let mut rest = PartialLine::default();
    loop {
        let available = match file.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(rest);
        }
        let Some((line, _)) = memchr::memchr(b'\n', available).and_then(|at| available.split_at_checked(at)) else {
            let used = available.len();
            append_bounded(&mut rest.start, available, longest);
            rest.length += used as u64;
            file.consume(used);
            continue;
        };
        let used = line.len() + 1;
        if rest.length == 0 {
            on_line(line.get(..longest).unwrap_or(line), line.len() as u64);
        } else {
            append_bounded(&mut rest.start, line, longest);
            on_line(&rest.start, rest.length + line.len() as u64);
            rest.start.clear();
            rest.start.shrink_to(MAX_RETAINED_CAPACITY_BYTES);
            rest.length = 0;
        }
        file.consume(used);
    }
}

fn append_bounded(line: &mut Vec<u8>, piece: &[u8], longest: usize) {
    let room = longest.saturating_sub(line.len());
    line.extend_from_slice(piece.get(..room).unwrap_or(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_size_does_not_change_lines_and_long_ones_are_truncated() {
        for capacity in [1, 2, 3, 7, 100] {
            let mut file = io::BufReader::with_capacity(capacity, &b"one\n\nsixteen letters.\nrest"[..]);
            let mut received = Vec::new();
            let on_line = |line: &[u8], length| received.push((String::from_utf8(line.to_vec()).unwrap(), length));
            let rest = for_each_line(&mut file, 7, on_line).unwrap();
            assert_eq!(received, [("one".to_owned(), 3), (String::new(), 0), ("sixteen".to_owned(), 16)], "{capacity}");
            assert_eq!((&rest.start[..], rest.length), (&b"rest"[..], 4));
        }
    }

    #[test]
    fn endless_line_takes_bounded_memory() {
        let mut endless = io::BufReader::new(io::Read::take(io::repeat(b'x'), 5_000_000));
        let rest = for_each_line(&mut endless, 1000, |_, _| ()).unwrap();
        assert_eq!((rest.start.len(), rest.length), (1000, 5_000_000));
    }
}
