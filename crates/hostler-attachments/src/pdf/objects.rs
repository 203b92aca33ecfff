//! Parses single objects of a document, from their own bytes only.

use lopdf::{DecompressError, Dictionary, Object, ObjectStream, Stream};

use crate::rejection_reason::RejectionReason;

/// Maximum size of a parsed object; objects of the page tree are far smaller.
const MAX_OBJECT_BYTES: usize = 1 << 20;
/// Maximum unpacked size of one object stream.
const MAX_UNPACKED_BYTES: usize = 4 << 20;
/// Maximum number of filters of a stream; each costs as much as the first.
const MAX_FILTERS: usize = 4;

/// The trailer of a document, or of an earlier revision of it.
pub(super) struct Trailer(Dictionary);

impl Trailer {
    pub(super) fn parse_object(text: &[u8]) -> Option<Self> {
        match parse(text)? {
            Object::Dictionary(dictionary) => Some(Self(dictionary)),
            _ => None,
        }
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.0.has(key)
    }

    pub(super) fn reference(&self, key: &[u8]) -> Option<u32> {
        self.0.get(key).and_then(Object::as_reference).ok().map(|(number, _)| number)
    }
}

/// Parses the object at the start of the text. The parser accepts only documents, so the object is wrapped in a minimal
/// one.
pub(super) fn parse(text: &[u8]) -> Option<Object> {
    const INDEX: &[u8] = b"0 0 ";
    let text = text.trim_ascii_start();
    if text.is_empty() || text.len() > MAX_OBJECT_BYTES {
        return None;
    }
    let mut dictionary = Dictionary::new();
    dictionary.set("N", 1);
    dictionary.set("First", Object::Integer(INDEX.len() as i64));
    let holder = Stream::new(dictionary, [INDEX, text].concat());
    ObjectStream::new_with_limit(&holder, Some(MAX_OBJECT_BYTES + INDEX.len())).ok()?.objects.remove(&(0, 0))
}

/// The objects of an object stream, with their numbers.
pub(super) struct UnpackedObjects {
    content: Vec<u8>,
    /// Number and byte range of each object.
    index: Vec<(u32, std::ops::Range<usize>)>,
}

impl UnpackedObjects {
    /// Unpacks an object stream. `budget` is the remaining unpacked size of the document; `None` if the stream is
    /// unreadable.
    pub(super) fn unpack(dictionary: &[u8], data: &[u8], budget: &mut usize) -> Result<Option<Self>, RejectionReason> {
        let Some(Object::Dictionary(dictionary)) = parse(dictionary) else { return Ok(None) };
        let Some(first) =
            dictionary.get(b"First").and_then(Object::as_i64).ok().and_then(|first| first.try_into().ok())
        else {
            return Ok(None);
        };
        if dictionary.get(b"Filter").and_then(Object::as_array).is_ok_and(|filters| filters.len() > MAX_FILTERS) {
            return Ok(None);
        }
        let content = match Stream::new(dictionary, data.to_vec())
            .get_plain_content_with_limit(MAX_UNPACKED_BYTES.min(*budget))
        {
            Ok(content) => content,
            Err(lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
                return Err(decompression_bomb());
            }
            Err(_) => return Ok(None),
        };
        *budget -= content.len().min(*budget);
        Ok(Self::build_index(&content, first).map(|index| Self { content, index }))
    }

    /// Each object extends to the next one, so that no byte is parsed twice.
    fn build_index(content: &[u8], first: usize) -> Option<Vec<(u32, std::ops::Range<usize>)>> {
        let numbers = std::str::from_utf8(content.get(..first)?).ok()?;
        let mut numbers = numbers.split_ascii_whitespace().map_while(|number| number.parse::<u32>().ok());
        let mut starts = Vec::new();
        while let (Some(number), Some(offset)) = (numbers.next(), numbers.next()) {
            starts.push((first.checked_add(usize::try_from(offset).ok()?)?, number));
        }
        starts.sort_unstable();
        starts.dedup_by_key(|(start, _)| *start);
        let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([content.len()]);
        Some(starts.iter().zip(ends).map(|((start, number), end)| (*number, *start..end)).collect())
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.index.iter().filter_map(|(number, range)| Some((*number, self.content.get(range.clone())?)))
    }
}

fn decompression_bomb() -> RejectionReason {
    RejectionReason::too_large(
        "the document expands to too much data; print it to a new PDF file and attach the new file",
    )
}
