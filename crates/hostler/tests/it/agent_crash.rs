//! Real Claude Code, both builds: it crashes in every state of a turn, or cannot be started. Each failure has its
//! own error, no process or lock remains, and the conversation continues.

mod crash_during_turn;
mod failed_starts;
mod long_chat;
