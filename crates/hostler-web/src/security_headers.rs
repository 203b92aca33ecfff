//! Security headers of every answer. The page displays text of models and tools; if some of it were ever parsed as part
//! of the page, these headers leave it nothing to do.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// No foreign resources, nothing inline, no unchecked markup: `svelte-trusted-html` is the policy under which Svelte
/// creates its own templates.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; media-src 'self' blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types svelte-trusted-html";

/// The camera can take photos for attachments; no other device feature is used.
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

/// Adds the security headers.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in &SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
