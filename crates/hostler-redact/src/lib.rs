//! What may be printed of what nobody may read: prompts, contents, keys, and addresses that hold a password.
//!
//! A text that was read wrongly is told by its fault ([`json_fault`]), an address by its host ([`SafeUrl`]), a text that has to be
//! mentioned by its length ([`length`]), and what holds one by its name ([`variant`]). Nothing here looks for secrets in a text: what is printed is what is
//! known to be harmless.

#![forbid(unsafe_code)]

mod fault;
mod length;
mod safe_url;
mod variant;

pub use fault::{json_fault, serde_fault};
pub use length::{Length, length};
pub use safe_url::{SafeUrl, place};
pub use variant::variant;
