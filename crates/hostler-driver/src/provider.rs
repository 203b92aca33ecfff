use std::path::{Path, PathBuf};

use futures::future::BoxFuture;

use crate::{OpenError, OpenSpec, Opened};

/// How a provider presents itself to people and to the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    /// The provider's id; a legal URI scheme, since session URIs are `<id>:/<uuid>`.
    pub id: String,
    /// The name that clients show.
    pub display_name: String,
    /// One sentence about the agent.
    pub description: String,
    /// The model that is used when a message names none.
    pub default_model: String,
    /// Where the agent writes its own plans: writing there is planning, not carrying out.
    pub plans: Option<PathBuf>,
}

/// The code that speaks to one provider's executable.
pub trait Driver: Send + Sync + 'static {
    /// Who this driver speaks for.
    fn describe(&self) -> ProviderInfo;

    /// What agents in this directory would be configured by, from files that the host does not know, as a fingerprint: an
    /// agent that was opened under another one is not what would be opened now.
    fn settings_fingerprint(&self, _working_directory: &Path) -> String {
        String::new()
    }

    /// Starts an agent for one conversation and finishes its handshake.
    ///
    /// Dropping the returned future must not leave a process behind; neither must any error.
    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<Opened, OpenError>>;
}
