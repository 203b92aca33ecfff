//! Turns at runtime: queued messages, steering, resumed turns, races.

mod agent_settings;
mod helpers;
mod queue;
mod races;
mod resume;
mod status;
mod steering;
