//! Clients: their registry, subscriptions, reconnections and completions, and the root channel that all of them see.

pub(crate) mod broadcaster;
pub(crate) mod completion;
pub(crate) mod publication;
pub(crate) mod reconnect;
pub(crate) mod registry;
pub(crate) mod root_channel;
