//! What every answer forbids. The page shows what models and tools have written; if some of that were ever taken for a part of
//! the page, it should find nothing that it may do.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Nothing from elsewhere, nothing inline, no markup that was not looked at: `svelte-trusted-html` is the policy under which
/// Svelte makes its own templates.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; media-src 'self' blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types svelte-trusted-html";

/// Pictures may be taken on a phone; nothing else of the device is used.
const PERMISSIONS_POLICY: &str = "accelerometer=(), camera=(self), display-capture=(), geolocation=(), gyroscope=(), \
    hid=(), magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=(), xr-spatial-tracking=()";

const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), PERMISSIONS_POLICY),
];

/// Adds them.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in &SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
