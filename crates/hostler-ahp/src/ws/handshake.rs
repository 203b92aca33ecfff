//! The opening handshake: whether a request is a valid upgrade, and its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ALLOW, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY};
use http::header::{HeaderName, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use sha1::{Digest as _, Sha1};

use super::encoding::FrameEncoding;
use super::extension;

/// The constant that RFC 6455 appends to the client's key.
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The subprotocol that the page offers. A browser that offers subprotocols closes a connection that selects none; the
/// page's other one carries its secret page key.
const SUBPROTOCOL: &str = "hostler.ahp";

/// Why a request is not upgraded. The text is the body of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpgradeError {
    /// An ordinary request.
    #[error("This is a Hostler host. Connect with an AHP client over WebSocket.")]
    Plain,
    /// The method or the version of HTTP cannot be upgraded.
    #[error("Open a WebSocket with GET over HTTP/1.1.")]
    Method,
    /// `Connection` lacks `Upgrade`: most likely a proxy removed it.
    #[error("The header `Connection: Upgrade` is missing. A proxy in between must forward it.")]
    Connection,
    /// A draft of the protocol.
    #[error("This host supports WebSocket version 13 only.")]
    Version,
    /// The key is not 16 bytes in base64, or there are several.
    #[error("The header `Sec-WebSocket-Key` must be present once, with 16 bytes in base64.")]
    Key,
}

impl UpgradeError {
    /// The status of the answer.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Plain | Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Connection | Self::Key => StatusCode::BAD_REQUEST,
        }
    }

    /// The header that names the expected value, if there is one.
    pub(crate) fn hint_header(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Plain => Some((UPGRADE, HeaderValue::from_static("websocket"))),
            Self::Version => Some((SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))),
            Self::Method => Some((ALLOW, HeaderValue::from_static("GET"))),
            Self::Connection | Self::Key => None,
        }
    }
}

/// A request that may be upgraded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AcceptedUpgrade {
    accept_key: HeaderValue,
    subprotocol: Option<&'static str>,
    extension: Option<&'static str>,
}

impl AcceptedUpgrade {
    /// How frames will be encoded on the socket.
    pub(crate) fn encoding(&self) -> FrameEncoding {
        if self.extension.is_some() { FrameEncoding::Deflated } else { FrameEncoding::Plain }
    }

    /// The answer: 101 with the negotiated parameters.
    pub(crate) fn response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept_key);
        if let Some(subprotocol) = self.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        if let Some(extension) = self.extension {
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(extension));
        }
        response
    }
}

/// Whether a request asks for a WebSocket, valid or not.
pub(crate) fn is_upgrade_request(headers: &HeaderMap) -> bool {
    has_list_value(headers, &UPGRADE, "websocket")
}

/// Checks a request.
///
/// # Errors
/// Why it is not upgraded.
pub(crate) fn check_upgrade<B>(request: &Request<B>) -> Result<AcceptedUpgrade, UpgradeError> {
    let headers = request.headers();
    if !is_upgrade_request(headers) {
        return Err(UpgradeError::Plain);
    }
    if request.method() != Method::GET || request.version() < Version::HTTP_11 {
        return Err(UpgradeError::Method);
    }
    if !has_list_value(headers, &CONNECTION, "upgrade") {
        return Err(UpgradeError::Connection);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version.as_bytes() != b"13") {
        return Err(UpgradeError::Version);
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(UpgradeError::Key) };
    let key = compute_accept_key(key.as_bytes()).ok_or(UpgradeError::Key)?;
    let subprotocol = has_list_value(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL).then_some(SUBPROTOCOL);
    Ok(AcceptedUpgrade { accept_key: key, subprotocol, extension: extension::negotiate(headers) })
}

/// Whether a list header contains this value.
fn has_list_value(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| entry.trim().eq_ignore_ascii_case(word))
}

fn compute_accept_key(key: &[u8]) -> Option<HeaderValue> {
    STANDARD.decode(key).ok().filter(|nonce| nonce.len() == 16)?;
    let digest = Sha1::new().chain_update(key).chain_update(WEBSOCKET_GUID).finalize();
    HeaderValue::try_from(STANDARD.encode(digest)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    /// The valid request with one header replaced; an empty value removes it.
    fn with(name: &str, value: &str) -> Request<()> {
        let mut request = Request::builder();
        for (known, good) in GOOD {
            match (known == name, value) {
                (true, "") => {}
                (true, value) => request = request.header(known, value),
                (false, _) => request = request.header(known, good),
            }
        }
        request.body(()).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_gets_the_answer_of_the_rfc() {
        let response: Response<()> = check_upgrade(&with("none", "")).unwrap().response();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key("sec-websocket-extensions"));
    }

    #[test]
    fn negotiated_compression_is_in_the_answer() {
        let mut request = with("none", "");
        request.headers_mut().insert("sec-websocket-extensions", HeaderValue::from_static("permessage-deflate"));
        let accepted = check_upgrade(&request).unwrap();
        assert_eq!(accepted.encoding(), FrameEncoding::Deflated);
        let response: Response<()> = accepted.response();
        let agreed = response.headers()["sec-websocket-extensions"].to_str().unwrap();
        assert!(agreed.contains("server_no_context_takeover; client_no_context_takeover"), "{agreed}");
    }

    #[test]
    fn only_the_pages_public_subprotocol_is_selected() {
        for (offered, chosen) in
            [("hostler.ahp, hostler.key.s3cret", Some("hostler.ahp")), ("chat", None), ("hostler.key.s3cret", None)]
        {
            let mut request = with("none", "");
            request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(offered));
            let response: Response<()> = check_upgrade(&request).unwrap().response();
            let answered = response.headers().get("sec-websocket-protocol").map(|value| value.to_str().unwrap());
            assert_eq!(answered, chosen, "{offered}");
        }
    }

    #[test]
    fn each_upgrade_error_has_its_status_and_hint() {
        for (name, value, fault, status, hint) in [
            ("upgrade", "", UpgradeError::Plain, 426, Some("upgrade")),
            ("upgrade", "h2c", UpgradeError::Plain, 426, Some("upgrade")),
            ("connection", "close", UpgradeError::Connection, 400, None),
            ("sec-websocket-version", "8", UpgradeError::Version, 426, Some("sec-websocket-version")),
            ("sec-websocket-version", "", UpgradeError::Version, 426, Some("sec-websocket-version")),
            ("sec-websocket-key", "", UpgradeError::Key, 400, None),
            ("sec-websocket-key", "c2hvcnQ=", UpgradeError::Key, 400, None),
            ("sec-websocket-key", "not base64 at all!!!!!!!", UpgradeError::Key, 400, None),
        ] {
            assert_eq!(check_upgrade(&with(name, value)), Err(fault), "{name}: {value}");
            assert_eq!(fault.status(), status);
            assert_eq!(fault.hint_header().map(|(name, _)| name.as_str().to_owned()).as_deref(), hint);
        }
        let mut request = with("none", "");
        *request.method_mut() = Method::POST;
        assert_eq!(check_upgrade(&request), Err(UpgradeError::Method));
        let mut request = with("none", "");
        request.headers_mut().append("sec-websocket-key", HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(check_upgrade(&request), Err(UpgradeError::Key));
    }
}
