//! Finds objects and trailers in a document, in one pass from start to end.

use super::objects::Trailer;

/// Objects and trailers of a document.
#[derive(Default)]
pub(super) struct ScannedPdf<'a> {
    /// Object numbers and texts, in file order. A later object replaces an earlier one with the same number.
    pub(super) objects: Vec<ScannedObject<'a>>,
    /// In file order.
    pub(super) trailers: Vec<Trailer>,
}

pub(super) enum ScannedObject<'a> {
    Plain {
        number: u32,
        text: &'a [u8],
    },
    /// A stream of packed objects.
    ObjectStream {
        dictionary: &'a [u8],
        data: &'a [u8],
    },
}

pub(super) fn scan_pdf(file: &[u8]) -> ScannedPdf<'_> {
    let mut scanned = ScannedPdf::default();
    let mut at = 0;
    // Found once and used until it is passed; otherwise a file without ends would be searched again for each start.
    let mut end = 0;
    while let Some((number, gap, start)) = next_object(file, at) {
        scanned.trailers.extend(parse_trailer(gap));
        if end < start {
            end = find_bytes(file, b"endobj", start).unwrap_or(file.len());
        }
        let text = file.get(start..end).unwrap_or_default();
        let Some(head) = stream_start(text) else {
            scanned.objects.push(ScannedObject::Plain { number, text });
            at = end;
            continue;
        };
        let (dictionary, data_at) = (text.get(..head).unwrap_or_default(), start + head + STREAM.len());
        let declared = declared_end(file, dictionary, data_at);
        let data_end = declared.or_else(|| find_bytes(file, END_STREAM, data_at)).unwrap_or(file.len());
        let data = file.get(data_at..data_end).unwrap_or_default();
        if find_bytes(dictionary, b"/ObjStm", 0).is_some() {
            scanned.objects.push(ScannedObject::ObjectStream { dictionary, data: strip_line_end(data) });
        } else if find_bytes(dictionary, b"/XRef", 0).is_some() {
            scanned.trailers.extend(Trailer::parse_object(dictionary));
        }
        at = data_end;
    }
    scanned.trailers.extend(parse_trailer(file.get(at..).unwrap_or_default()));
    scanned
}

const STREAM: &[u8] = b"stream";
const END_STREAM: &[u8] = b"endstream";

/// Finds `12 0 obj`: the number, the bytes before it, and the start of its text.
fn next_object(file: &[u8], from: usize) -> Option<(u32, &[u8], usize)> {
    let mut at = from;
    loop {
        let marker = find_bytes(file, b"obj", at)?;
        let before = file.get(from..marker)?;
        if let Some((number, gap)) = parse_object_number(before) {
            return Some((number, before.get(..gap)?, marker + 3));
        }
        at = marker + 3;
    }
}

/// The number of the object whose marker follows, and where it starts.
fn parse_object_number(before: &[u8]) -> Option<(u32, usize)> {
    let (before, _generation) = split_trailing_number(before.trim_ascii_end())?;
    let (gap, number) = split_trailing_number(before.trim_ascii_end())?;
    before.last()?.is_ascii_whitespace().then_some((number, gap.len()))
}

fn split_trailing_number(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = text.split_at_checked(text.len() - digits)?;
    Some((before, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

/// The position of the `stream` keyword: after a dictionary, and alone on its line.
fn stream_start(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = find_bytes(text, STREAM, at)?;
        let (before, behind) = (text.get(..found)?, text.get(found + STREAM.len()..)?);
        if before.trim_ascii_end().ends_with(b">>")
            && (behind.is_empty() || behind.starts_with(b"\n") || behind.starts_with(b"\r"))
        {
            return Some(found);
        }
        at = found + STREAM.len();
    }
}

/// The end of a stream by its declared length, if that is plausible. A stream may contain a document with its own
/// objects.
fn declared_end(file: &[u8], dictionary: &[u8], data_at: usize) -> Option<usize> {
    const KEY: &[u8] = b"/Length";
    let at = find_bytes(dictionary, KEY, 0)?;
    let value = dictionary.get(at + KEY.len()..)?.trim_ascii_start();
    let digits = value.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(value.get(..digits)?).ok()?.parse().ok()?;
    let data = file.get(data_at..)?;
    let line_end = data.len() - strip_line_end(data).len();
    let behind = data.get(line_end.checked_add(length)?..)?;
    strip_line_end(behind).starts_with(END_STREAM).then_some(data_at + line_end + length)
}

fn strip_line_end(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\r\n").or_else(|| data.strip_prefix(b"\n")).or_else(|| data.strip_prefix(b"\r")).unwrap_or(data)
}

fn parse_trailer(gap: &[u8]) -> Option<Trailer> {
    let at = find_bytes(gap, b"trailer", 0)?;
    Trailer::parse_object(gap.get(at + 7..)?)
}

/// The next position of a byte sequence.
pub(super) fn find_bytes(bytes: &[u8], word: &[u8], from: usize) -> Option<usize> {
    let first = *word.first()?;
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(word) {
            return Some(at);
        }
        at += 1;
    }
}
