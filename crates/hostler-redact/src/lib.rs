//! What may be printed of what nobody may read: prompts, contents, keys, and addresses that hold a password.
//!
//! A text that was read wrongly is told by its fault ([`json_fault`]), an address by its host ([`SafeUrl`]), a text that has to be
//! mentioned by its length ([`length`]), and what holds one by its name ([`variant`]). Nothing here looks for secrets in a text: what is printed is what is
//! known to be harmless.

#![forbid(unsafe_code)]

mod byte_length;
mod safe_url;
mod serde_errors;
mod variant_name;

pub use byte_length::{ByteLength, byte_length};
pub use safe_url::{SafeUrl, host_and_port};
pub use serde_errors::{redact_json_error, redact_serde_error};
pub use variant_name::variant_name;
