//! Negotiates compression: `permessage-deflate` without context takeover, or none.
//!
//! No message refers to an earlier one, in either direction. So many clients can share a compressed frame, and an idle
//! connection needs no memory for windows.

use http::HeaderMap;
use http::header::SEC_WEBSOCKET_EXTENSIONS;

/// The accepted extension, as header value of the answer.
const ACCEPTED_EXTENSION: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// The same for a client that specified the server's window: it is the largest one.
const ACCEPTED_EXTENSION_FULL_WINDOW: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15";

/// Accepts the first offer that the server supports, as header value of the answer. A bad offer is declined and is no
/// error: the connection then continues without compression.
pub(crate) fn negotiate(headers: &HeaderMap) -> Option<&'static str> {
    let offers = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter().filter_map(|value| value.to_str().ok());
    offers.flat_map(|value| value.split(',')).find_map(accept_offer)
}

fn accept_offer(offer: &str) -> Option<&'static str> {
    let mut parts = offer.split(';').map(str::trim);
    if parts.next()? != "permessage-deflate" {
        return None;
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut agreed = ACCEPTED_EXTENSION;
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name.trim(), Some(unquote(value.trim()))),
            None => (part, None),
        };
        if seen.contains(&name) {
            return None;
        }
        seen.push(name);
        match (name, value) {
            // The server never keeps a context and reads any window size.
            ("server_no_context_takeover" | "client_no_context_takeover" | "client_max_window_bits", None) => {}
            ("client_max_window_bits", Some(bits)) if parse_window_bits(bits).is_some() => {}
            // The compressor has one window size.
            ("server_max_window_bits", Some(bits)) if parse_window_bits(bits) == Some(15) => {
                agreed = ACCEPTED_EXTENSION_FULL_WINDOW
            }
            _ => return None,
        }
    }
    Some(agreed)
}

fn unquote(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// 8 to 15, written without leading zeros.
fn parse_window_bits(bits: &str) -> Option<u8> {
    if bits.starts_with('0') {
        return None;
    }
    bits.parse().ok().filter(|bits| (8..=15).contains(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(offers: &[&str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for offer in offers {
            headers.append(SEC_WEBSOCKET_EXTENSIONS, offer.parse().unwrap());
        }
        negotiate(&headers)
    }

    #[test]
    fn offers_of_browsers_and_libraries_are_accepted() {
        for offer in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; client_max_window_bits=10",
            "permessage-deflate; client_max_window_bits=\"15\"",
            "permessage-deflate;server_no_context_takeover;client_no_context_takeover",
            "x-webkit-deflate-frame, permessage-deflate",
        ] {
            assert_eq!(answer(&[offer]), Some(ACCEPTED_EXTENSION), "{offer}");
        }
        assert_eq!(answer(&["permessage-deflate; server_max_window_bits=15"]), Some(ACCEPTED_EXTENSION_FULL_WINDOW));
    }

    #[test]
    fn an_unsupported_offer_is_declined_and_the_next_one_tried() {
        for offer in [
            "",
            "permessage-bzip2",
            "permessage-deflate; unknown",
            "permessage-deflate; server_max_window_bits=10",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; client_max_window_bits=7",
            "permessage-deflate; client_max_window_bits=16",
            "permessage-deflate; client_max_window_bits=09",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
        ] {
            assert_eq!(answer(&[offer]), None, "{offer}");
            assert_eq!(answer(&[offer, "permessage-deflate"]), Some(ACCEPTED_EXTENSION), "{offer}");
        }
        let fallback = "permessage-deflate; server_max_window_bits=10, permessage-deflate";
        assert_eq!(answer(&[fallback]), Some(ACCEPTED_EXTENSION));
        assert_eq!(answer(&[]), None);
    }
}
