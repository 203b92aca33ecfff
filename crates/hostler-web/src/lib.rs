//! The web page as the host serves it: embeds the output of `cargo xtask web` and answers requests from it.
//!
//! A request is a value and so is its answer; listeners, access control and sign-in are elsewhere.
//!
//! | module | content |
//! |---|---|
//! | `page_files` | the built files and their media types |
//! | `content_coding` | which compressed copy a browser accepts |
//! | `security_headers` | headers that restrict the page |
//! | `site` | answers requests |
//!
//! **Architecture Invariant:** nothing here does I/O or knows a session; the page contains no secret, so it is public.

#![forbid(unsafe_code)]

mod content_coding;
mod page_files;
mod security_headers;
mod site;

pub use page_files::PageFile;
pub use site::Site;
