#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
//! The gateway over HTTP on loopback, with the scripted model and with a small Messages API server.

mod anthropic;
mod auth;
mod cancellation;
mod chunking;
mod connections;
mod copilot;
mod copilot_login;
mod diagnostics;
mod interrupted_streams;
mod limits;
mod log_capture;
mod mock_copilot;
mod openai;
mod requests;
mod routing;
mod scripted;
mod scripted_model_docs;
mod secrets;
mod support;
mod usage;
