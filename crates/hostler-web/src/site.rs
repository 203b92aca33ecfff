//! A request becomes an answer.

use std::collections::HashMap;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::encoding::Encoding;
use crate::files::{self, File, is_hashed, media_type};
use crate::headers::add_strict;

/// The page itself, which answers for everything that is no file.
const PAGE: &str = "index.html";

/// For files whose names change with their contents.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// For all others: they may be kept, but whether they are still right is asked each time.
const ASK_FIRST: &str = "no-cache";

const NOT_BUILT: &str =
    "The web page was not built into this binary. Run `cargo xtask web`, then build it again: `cargo build`.";
const NOT_THERE: &str = "There is no such file.";
const ONLY_READ: &str = "The page can only be read: use GET or HEAD.";

/// The whole page, by paths.
#[derive(Debug)]
pub struct Site {
    entries: HashMap<String, Entry>,
}

/// A file with its copies.
#[derive(Debug)]
struct Entry {
    media_type: HeaderValue,
    caching: HeaderValue,
    /// The smallest first. There is at least one, the file as it is.
    copies: Vec<Copied>,
}

#[derive(Debug)]
struct Copied {
    encoding: Encoding,
    tag: HeaderValue,
    content: Bytes,
}

impl Site {
    /// What is embedded in this binary.
    pub fn embedded() -> Self {
        Self::new(files::embedded())
    }

    /// A site of these files.
    pub fn new(files: impl IntoIterator<Item = File>) -> Self {
        let mut all: HashMap<String, File> = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let is_copy = |path: &str| {
            let mut ends = Encoding::ALL.iter().map(|encoding| encoding.suffix()).filter(|suffix| !suffix.is_empty());
            ends.any(|suffix| path.strip_suffix(suffix).is_some_and(|whole| all.contains_key(whole)))
        };
        let names: Vec<String> = all.keys().filter(|path| !is_copy(path)).cloned().collect();
        let entries = names.into_iter().map(|name| {
            let copies = Encoding::ALL.into_iter().filter_map(|encoding| {
                let file = all.remove(&format!("{name}{}", encoding.suffix()))?;
                Some(Copied { encoding, tag: tag(&file.hash), content: file.content })
            });
            let entry = Entry {
                copies: copies.collect(),
                media_type: HeaderValue::from_static(media_type(&name)),
                caching: HeaderValue::from_static(if is_hashed(&name) { FOR_EVER } else { ASK_FIRST }),
            };
            (name, entry)
        });
        Self { entries: entries.collect() }
    }

    /// Whether there is a page at all.
    pub fn is_built(&self) -> bool {
        self.entries.contains_key(PAGE)
    }

    /// Answers a request. The body is there for HEAD, too: whoever writes the answer knows what to leave out.
    pub fn answer(&self, request: &Parts) -> Response<Bytes> {
        let mut answer = self.find(request);
        add_strict(answer.headers_mut());
        answer
    }

    fn find(&self, request: &Parts) -> Response<Bytes> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let mut answer = sentence(StatusCode::METHOD_NOT_ALLOWED, ONLY_READ);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let Some(page) = self.entries.get(PAGE) else {
            return sentence(StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT);
        };
        // Paths are compared as they are: nothing in them is decoded, and there is no directory to leave.
        let path = request.uri.path().trim_start_matches('/');
        match self.entries.get(path) {
            Some(entry) => entry.answer(&request.headers),
            None if path.contains('.') => sentence(StatusCode::NOT_FOUND, NOT_THERE),
            // A place inside of the page, such as a session.
            None => page.answer(&request.headers),
        }
    }
}

impl Entry {
    fn answer(&self, request: &HeaderMap) -> Response<Bytes> {
        let mut answer = Response::default();
        let Some(copy) = self.copies.iter().find(|copy| copy.encoding.is_taken(request)) else {
            return sentence(StatusCode::NOT_FOUND, NOT_THERE);
        };
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, self.caching.clone());
        headers.insert(ETAG, copy.tag.clone());
        if self.copies.len() > 1 {
            headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if is_known(request, &copy.tag) {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return answer;
        }
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        if copy.encoding != Encoding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(copy.encoding.name()));
        }
        *answer.body_mut() = copy.content.clone();
        answer
    }
}

/// What names a content. Each copy has its own, since each is another sequence of bytes.
fn tag(hash: &[u8; 32]) -> HeaderValue {
    let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{digits}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the browser has this content already.
fn is_known(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = values.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
}

fn sentence(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests;
