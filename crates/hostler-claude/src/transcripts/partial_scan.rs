//! What is known of a transcript for its list entry, without reading the whole file for every scan.
//!
//! ```text
//!   |── head ──|···· unread ····|── tail ──|── appended ──|
//! ```
//!
//! Both ends are read at once. The part between them may contain metadata too, and is read later, within a budget per
//! scan; appended data is read when the file has grown. So metadata that was seen stays known, however much is
//! appended.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt as _;

use hostler_driver::ConversationTag;

use super::listing::ConversationListing;
use super::metadata::TranscriptMetadata;
use super::{lines, regular_file};

/// How much of each end of a file is read at once. No metadata record is longer.
const END_READ_BYTES: u64 = 64 * 1024;

/// How much of the start is read if the first prompt does not fit into that, as with an image.
pub(super) const MAX_HEAD_READ_BYTES: u64 = 4 * 1024 * 1024;

/// A file that has grown by more is read like a new one.
const MAX_INCREMENTAL_READ_BYTES: u64 = 16 * 1024 * 1024;

/// How many bytes before the end of the last read must be unchanged for the rest to be reused.
const COMPARED_TAIL_BYTES: u64 = 64;

/// The scan of a file.
#[derive(Debug, Clone)]
pub(super) struct PartialScan {
    /// Device and inode.
    identity: (u64, u64),
    size: u64,
    /// The end of the last line that was read.
    end: u64,
    /// The last bytes before that.
    last_bytes: Vec<u8>,
    /// The head, with its metadata and that of the part read after it.
    head: ConversationListing,
    /// The metadata after the unread part.
    tail_metadata: TranscriptMetadata,
    unread: Range<u64>,
}

impl PartialScan {
    /// Reads both ends of a file.
    pub(super) fn read(file: &File, facts: &Metadata) -> io::Result<Self> {
        let size = facts.len();
        let mut head = read_range(file, 0, END_READ_BYTES)?;
        let mut early = ConversationListing::from_head(&head);
        let (mut late, mut unread, mut end) = (TranscriptMetadata::default(), 0..0, complete_lines_bytes(&head));
        if size > END_READ_BYTES {
            let from = size - END_READ_BYTES;
            let tail = read_range(file, from, END_READ_BYTES)?;
            late = TranscriptMetadata::from_bytes(&tail);
            if early.first_prompt.is_none() || early.working_directory.is_none() {
                head = read_range(file, 0, MAX_HEAD_READ_BYTES)?;
                early = ConversationListing::from_head(&head);
            }
            unread = complete_lines_bytes(&head)..from;
            end = from + complete_lines_bytes(&tail);
        }
        // If it has shrunk meanwhile, the comparison fails at the next scan.
        let last = regular_file::read_bytes_before(file, end, COMPARED_TAIL_BYTES).unwrap_or_default();
        Ok(Self {
            identity: file_identity(facts),
            size,
            end,
            last_bytes: last,
            head: early,
            tail_metadata: late,
            unread,
        })
    }

    /// Extends the scan if the file has only grown. Reads what is new.
    pub(super) fn extended(&self, file: &File, facts: &Metadata) -> io::Result<Option<Self>> {
        let more =
            facts.len().checked_sub(self.size).is_some_and(|more| (1..=MAX_INCREMENTAL_READ_BYTES).contains(&more));
        let same = || {
            regular_file::read_bytes_before(file, self.end, COMPARED_TAIL_BYTES)
                .is_ok_and(|last| last == self.last_bytes)
        };
        if !more || file_identity(facts) != self.identity || !same() {
            return Ok(None);
        }
        let (new, end) = read_metadata(file, self.end..facts.len())?;
        let last = regular_file::read_bytes_before(file, end, COMPARED_TAIL_BYTES).unwrap_or_default();
        let late = self.tail_metadata.merged_with(&new);
        Ok(Some(Self { size: facts.len(), end, last_bytes: last, tail_metadata: late, ..self.clone() }))
    }

    /// How much between the ends was not read.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.unread.end.saturating_sub(self.unread.start)
    }

    /// Reads up to this many bytes of it, to the end of a line. A file that was replaced meanwhile is left for the
    /// next scan.
    pub(super) fn read_more(&self, file: &File, facts: &Metadata, bytes: u64) -> io::Result<Option<Self>> {
        if file_identity(facts) != self.identity {
            return Ok(None);
        }
        let until = self.unread.end.min(self.unread.start.saturating_add(bytes));
        let (notes, next) = read_metadata(file, self.unread.start..until)?;
        let mut on = self.clone();
        on.head.metadata = self.head.metadata.merged_with(&notes);
        // If the file ends too early, nothing is unread.
        on.unread.start = if next < until { self.unread.end } else { next };
        Ok(Some(on))
    }

    /// The list entry.
    pub(super) fn listing(&self) -> ConversationListing {
        ConversationListing { metadata: self.head.metadata.merged_with(&self.tail_metadata), ..self.head.clone() }
    }

    /// The title that a person set; `None` if the unread part may contain a newer one.
    pub(super) fn custom_title(&self) -> Option<String> {
        let title = self.tail_metadata.custom_title.as_ref().or(self
            .head
            .metadata
            .custom_title
            .as_ref()
            .filter(|_| self.unread_bytes() == 0));
        title.filter(|title| !title.is_empty()).cloned()
    }

    /// Its tag, with the same restriction.
    pub(super) fn tag(&self) -> ConversationTag {
        match self.tail_metadata.tag.as_ref().or(self.head.metadata.tag.as_ref().filter(|_| self.unread_bytes() == 0)) {
            Some(tag) if !tag.is_empty() => ConversationTag::Tagged(tag.clone()),
            None if self.unread_bytes() > 0 => ConversationTag::Unknown,
            _ => ConversationTag::Untagged,
        }
    }
}

fn file_identity(facts: &Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

/// How many of these bytes are complete lines.
fn complete_lines_bytes(bytes: &[u8]) -> u64 {
    memchr::memrchr(b'\n', bytes).map_or(0, |at| at as u64 + 1)
}

/// The metadata in the lines that start in this range, and the start of the first line after it.
fn read_metadata(file: &File, stretch: Range<u64>) -> io::Result<(TranscriptMetadata, u64)> {
    let (mut notes, mut at) = (TranscriptMetadata::default(), stretch.start);
    if stretch.is_empty() {
        return Ok((notes, at));
    }
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    reader.seek(SeekFrom::Start(at))?;
    let longest = usize::try_from(END_READ_BYTES).unwrap_or(usize::MAX);
    let rest = lines::for_each_line(&mut reader, longest, |line, length| {
        notes.read_line(line);
        at += length + 1;
        if at < stretch.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // A complete record that only lacks its line break counts.
    notes.read_line(&rest.start);
    Ok((notes, at))
}

fn read_range(mut file: &File, from: u64, longest: u64) -> io::Result<Vec<u8>> {
    // Not filled with zeros first, which takes as long as reading.
    let mut bytes = Vec::with_capacity(usize::try_from(longest).unwrap_or_default());
    file.seek(SeekFrom::Start(from))?;
    file.take(longest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn sketch(text: &str) -> (tempfile::NamedTempFile, PartialScan) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let sketch = PartialScan::read(file.as_file(), &file.as_file().metadata().unwrap()).unwrap();
        (file, sketch)
    }

    fn text(middle: &str) -> String {
        let begin = "{\"type\":\"user\",\"uuid\":\"a\",\"cwd\":\"/p\",\"message\":{\"content\":\"hi\"}}\n";
        let noted = "{\"type\":\"custom-title\",\"customTitle\":\"A\"}\n{\"type\":\"tag\",\"tag\":\"x\"}\n";
        let filler = format!("{{\"type\":\"api-request-blob\",\"x\":\"{}\"}}\n", "y".repeat(1000));
        [begin, noted, &filler.repeat(100), middle, &filler.repeat(100)].concat()
    }

    #[test]
    fn values_that_may_have_changed_in_the_unread_part_are_unknown() {
        let middle = "{\"type\":\"custom-title\",\"customTitle\":\"B\"}\n{\"type\":\"tag\",\"tag\":\"\"}\n";
        for (middle, title, tag) in
            [("", "A", ConversationTag::Tagged("x".to_owned())), (middle, "B", ConversationTag::Untagged)]
        {
            let (file, mut sketch) = sketch(&text(middle));
            assert_eq!((sketch.custom_title(), sketch.tag()), (None, ConversationTag::Unknown));
            assert_eq!(sketch.listing().title(), Some("A"), "the best that is known");
            let facts = file.as_file().metadata().unwrap();
            let mut pieces = 0;
            while sketch.unread_bytes() > 0 {
                sketch = sketch.read_more(file.as_file(), &facts, 700).unwrap().unwrap();
                pieces += 1;
            }
            assert!(pieces > 10, "{pieces}");
            assert_eq!((sketch.custom_title(), sketch.tag()), (Some(title.to_owned()), tag));
        }
    }

    #[test]
    fn metadata_is_found_at_every_chunk_boundary() {
        let long = text("");
        let note = "{\"type\":\"tag\",\"tag\":\"here\"}\n";
        let lines: Vec<&str> = long.split_inclusive('\n').collect();
        for at in (3..lines.len()).step_by(7) {
            let (file, sketch) = sketch(&[&lines[..at].concat(), note, &lines[at..].concat()].concat());
            let facts = file.as_file().metadata().unwrap();
            let read = sketch.read_more(file.as_file(), &facts, u64::MAX).unwrap().unwrap();
            assert_eq!(
                (read.unread_bytes(), read.tag()),
                (0, ConversationTag::Tagged("here".to_owned())),
                "behind line {at}"
            );
        }
    }

    #[test]
    fn only_a_grown_file_is_extended() {
        let (mut file, sketch) = sketch(&text(""));
        let mut now = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            let facts = file.as_file().metadata().unwrap();
            sketch.extended(file.as_file(), &facts).unwrap().map(|grown| grown.tag())
        };
        assert_eq!(now(""), None, "it has changed in an unknown way");
        assert_eq!(
            now("{\"type\":\"tag\",\"tag\":\"y\"}"),
            Some(ConversationTag::Tagged("y".to_owned())),
            "without its line break"
        );
        assert_eq!(now("\n{}\n"), Some(ConversationTag::Tagged("y".to_owned())));
        let other = tempfile::NamedTempFile::new().unwrap();
        let longer = text("") + &text("");
        std::fs::write(other.path(), &longer).unwrap();
        assert!(sketch.extended(other.as_file(), &other.as_file().metadata().unwrap()).unwrap().is_none());
        std::fs::write(file.path(), longer.replace('y', "z")).unwrap();
        assert!(sketch.extended(file.as_file(), &file.as_file().metadata().unwrap()).unwrap().is_none(), "rewritten");
    }
}
