//! The integration tests of `hostler-ahp`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod attachments;
mod browser_sessions;
mod common;
mod hostile_connections;
mod http_handler;
mod listener;
mod multi_client;
mod paging;
mod protocol;
mod protocol_reference;
#[path = "common/raw_websocket.rs"]
mod raw_websocket;
mod resources;
mod stalled_disk;
mod sub_agents;
mod tls;
mod unread_answers;
mod websocket;
