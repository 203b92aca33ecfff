//! For the crates of upstreams: the parts of the Messages API and of HTTP that several of them need. The types that they
//! exchange with the gateway are in the crate's root.

pub use crate::error::{ApiErrorKind, error_body, error_body_kind, error_event, upstream_failure_message};
pub use crate::model_catalog::bundled_models;
pub use crate::sse::{SseEvent, SseEventSplitter, SseEventTooLarge, encode_event};
pub use crate::upstream::http_client;
pub use crate::upstream::redact_secret;
