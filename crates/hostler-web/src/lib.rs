//! The web page, as the host serves it: what `cargo xtask web` has built is embedded here, and answers are made from it.
//!
//! A request is a value and so is its answer; who listens, who may ask and who signs in is known elsewhere.
//!
//! | module | idea |
//! |---|---|
//! | `files` | what was built, and what it is by its name |
//! | `encoding` | which of the compressed copies a browser takes |
//! | `headers` | what every answer forbids |
//! | `site` | a request becomes an answer |
//!
//! **Architecture Invariant:** nothing here does I/O or knows a session; the page holds no secret, so everybody may have it.

#![forbid(unsafe_code)]

mod content_coding;
mod page_files;
mod security_headers;
mod site;

pub use page_files::PageFile;
pub use site::Site;
