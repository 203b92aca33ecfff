//! Answers requests for the page's files.

use std::collections::HashMap;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::content_coding::ContentCoding;
use crate::page_files::{self, PageFile, is_hashed, media_type};
use crate::security_headers::add_security_headers;

/// The page itself, which answers every path that is no file.
const INDEX_FILE: &str = "index.html";

/// For files whose names change with their contents.
const CACHE_IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// For all others: browsers may store them, but revalidate each time.
const CACHE_REVALIDATE: &str = "no-cache";

const NOT_BUILT_MESSAGE: &str = "This binary does not contain the web page. Run `cargo xtask web`, then `cargo build`.";
const NOT_FOUND_MESSAGE: &str = "File not found.";
const METHOD_NOT_ALLOWED_MESSAGE: &str = "Method not allowed. Use GET or HEAD.";

/// The whole page, by paths.
#[derive(Debug)]
pub struct Site {
    entries: HashMap<String, PageEntry>,
}

/// A file with its copies.
#[derive(Debug)]
struct PageEntry {
    media_type: HeaderValue,
    cache_control: HeaderValue,
    /// The smallest first. There is at least one, the uncompressed file.
    copies: Vec<EncodedCopy>,
}

#[derive(Debug)]
struct EncodedCopy {
    encoding: ContentCoding,
    etag: HeaderValue,
    content: Bytes,
}

impl Site {
    /// The site embedded in this binary.
    pub fn embedded() -> Self {
        Self::new(page_files::load_embedded())
    }

    /// A site of these files.
    pub fn new(files: impl IntoIterator<Item = PageFile>) -> Self {
        let mut all: HashMap<String, PageFile> = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let is_copy = |path: &str| {
            let mut ends =
                ContentCoding::ALL.iter().map(|encoding| encoding.suffix()).filter(|suffix| !suffix.is_empty());
            ends.any(|suffix| path.strip_suffix(suffix).is_some_and(|whole| all.contains_key(whole)))
        };
        let names: Vec<String> = all.keys().filter(|path| !is_copy(path)).cloned().collect();
        let entries = names.into_iter().map(|name| {
            let copies = ContentCoding::ALL.into_iter().filter_map(|encoding| {
                let file = all.remove(&format!("{name}{}", encoding.suffix()))?;
                Some(EncodedCopy { encoding, etag: to_etag(&file.hash), content: file.content })
            });
            let entry = PageEntry {
                copies: copies.collect(),
                media_type: HeaderValue::from_static(media_type(&name)),
                cache_control: HeaderValue::from_static(if is_hashed(&name) {
                    CACHE_IMMUTABLE
                } else {
                    CACHE_REVALIDATE
                }),
            };
            (name, entry)
        });
        Self { entries: entries.collect() }
    }

    /// Whether there is a page at all.
    pub fn is_built(&self) -> bool {
        self.entries.contains_key(INDEX_FILE)
    }

    /// Answers a request. The body is present for HEAD, too: the HTTP layer omits it.
    pub fn respond(&self, request: &Parts) -> Response<Bytes> {
        let mut answer = self.respond_with_file(request);
        add_security_headers(answer.headers_mut());
        answer
    }

    fn respond_with_file(&self, request: &Parts) -> Response<Bytes> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let mut answer = text_response(StatusCode::METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED_MESSAGE);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let Some(page) = self.entries.get(INDEX_FILE) else {
            return text_response(StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT_MESSAGE);
        };
        // Paths are compared literally: nothing is decoded, and there is no directory to escape from.
        let path = request.uri.path().trim_start_matches('/');
        match self.entries.get(path) {
            Some(entry) => entry.respond(&request.headers),
            None if path.contains('.') => text_response(StatusCode::NOT_FOUND, NOT_FOUND_MESSAGE),
            // A route inside of the page, such as a session.
            None => page.respond(&request.headers),
        }
    }
}

impl PageEntry {
    fn respond(&self, request: &HeaderMap) -> Response<Bytes> {
        let mut answer = Response::default();
        let Some(copy) = self.copies.iter().find(|copy| copy.encoding.is_accepted(request)) else {
            return text_response(StatusCode::NOT_FOUND, NOT_FOUND_MESSAGE);
        };
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, self.cache_control.clone());
        headers.insert(ETAG, copy.etag.clone());
        if self.copies.len() > 1 {
            headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if matches_etag(request, &copy.etag) {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return answer;
        }
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        if copy.encoding != ContentCoding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(copy.encoding.name()));
        }
        *answer.body_mut() = copy.content.clone();
        answer
    }
}

/// The `ETag` of a content. Each copy has its own, because its bytes differ.
fn to_etag(hash: &[u8; 32]) -> HeaderValue {
    let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{digits}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the browser has this content already.
fn matches_etag(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = values.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
}

fn text_response(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests;
