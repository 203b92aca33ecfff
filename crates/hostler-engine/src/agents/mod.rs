//! Agents: the pool of their processes, the gateway that they use, sign-ins and installations.

pub(crate) mod install_progress;
pub(crate) mod model_gateway;
pub(crate) mod pool;
pub(crate) mod sign_in;
