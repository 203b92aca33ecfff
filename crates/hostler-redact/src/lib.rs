//! Redacted Debug and Display for prompts, contents, keys, errors, and URLs that can contain a password.
//!
//! An error of a parser prints as its kind and position ([`redact_json_error`]), a URL as its scheme, host and port
//! ([`SafeUrl`]), a text as its length ([`byte_length()`]), and an enum as the name of its variant
//! ([`variant_name()`]). The crate does not search texts for secrets: it prints only what is known to be harmless.

#![forbid(unsafe_code)]

mod byte_length;
mod safe_url;
mod serde_errors;
mod variant_name;

pub use byte_length::{ByteLength, byte_length};
pub use safe_url::{SafeUrl, host_and_port};
pub use serde_errors::{redact_json_error, redact_serde_error};
pub use variant_name::variant_name;
