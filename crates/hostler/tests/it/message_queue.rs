//! Message queue, agent-initiated turns, and changes between messages, with the real Claude Code, both builds.

mod background_turns;
mod policy_changes;
mod queue;
