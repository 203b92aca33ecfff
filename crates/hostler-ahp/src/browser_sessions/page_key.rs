//! The page key: the second secret of a browser session, which is not a cookie.
//!
//! Browsers send cookies to every port of a name, so any local server that a browser visits sees this host's cookie.
//! The page stores the key in the storage of its origin, which includes the port, and presents it as a header or, where
//! browsers allow no headers, as a WebSocket subprotocol. It never appears in a URL.

use http::header::{HeaderMap, HeaderName, SEC_WEBSOCKET_PROTOCOL};

use super::secret::SignInSecret;

/// The HTTP request header that carries the key.
const PAGE_KEY_HEADER: HeaderName = HeaderName::from_static("x-hostler-key");

/// Prefix of the subprotocol that carries the key.
const PAGE_KEY_SUBPROTOCOL_PREFIX: &str = "hostler.key.";

/// Maximum length of a checked key, in bytes.
const MAX_PAGE_KEY_BYTES: usize = 128;

/// The key that a request presents; `None` if it presents several.
pub(super) fn page_key_of_request(headers: &HeaderMap) -> Option<SignInSecret> {
    let plain = headers.get_all(PAGE_KEY_HEADER).iter().filter_map(|value| value.to_str().ok());
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols = protocols
        .flat_map(|value| value.split(','))
        .filter_map(|one| one.trim().strip_prefix(PAGE_KEY_SUBPROTOCOL_PREFIX));
    let mut keys = plain.map(str::trim).chain(protocols);
    match (keys.next(), keys.next()) {
        (Some(key), None) if !key.is_empty() && key.len() <= MAX_PAGE_KEY_BYTES => Some(SignInSecret::from_text(key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lines: &[(&'static str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        page_key_of_request(&headers).map(|key| key.expose().to_owned())
    }

    #[test]
    fn a_key_is_accepted_once_as_header_or_subprotocol() {
        let long = "x".repeat(MAX_PAGE_KEY_BYTES + 1);
        for (lines, expected) in [
            (&[("x-hostler-key", "one")][..], Some("one")),
            (&[("sec-websocket-protocol", "hostler.ahp, hostler.key.one")], Some("one")),
            (&[("sec-websocket-protocol", "hostler.ahp"), ("sec-websocket-protocol", "hostler.key.one")], Some("one")),
            (&[("x-hostler-key", "one"), ("x-hostler-key", "one")], None),
            (&[("x-hostler-key", "one"), ("sec-websocket-protocol", "hostler.key.two")], None),
            (&[("sec-websocket-protocol", "hostler.key.one, hostler.key.two")], None),
            (&[("sec-websocket-protocol", "hostler.ahp, hostler.key.")], None),
            (&[("sec-websocket-protocol", "hostler.ahp")], None),
            (&[("x-hostler-key", "")], None),
            (&[("x-hostler-key", &long)], None),
            (&[], None),
        ] {
            assert_eq!(key(lines).as_deref(), expected, "{lines:?}");
        }
    }
}
