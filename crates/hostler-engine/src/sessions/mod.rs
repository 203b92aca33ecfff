//! Sessions: their actor, state, turns, configuration and stored form.

pub(crate) mod action_mapper;
pub(crate) mod actor;
pub(crate) mod annotations;
pub(crate) mod background_on_stop;
pub(crate) mod budget;
pub(crate) mod config;
pub(crate) mod dispatch_facts;
pub(crate) mod local_command;
pub(crate) mod paging;
pub(crate) mod prompt_ids;
pub(crate) mod record;
pub(crate) mod rejection;
pub(crate) mod restore;
pub(crate) mod session;
pub(crate) mod session_config;
pub(crate) mod state;
pub(crate) mod sub_agent_chat;
pub(crate) mod summary;
pub(crate) mod turn;
pub(crate) mod turn_storage;
