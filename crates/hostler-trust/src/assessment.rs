//! Whether the configuration of one folder applies now, and why.

use std::path::PathBuf;

use hostler_driver::{FolderConfiguration, WorkspaceConfiguration};

use crate::ConfigurationDifference;

/// The trust of a folder at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustAssessment {
    /// The folder's real path.
    pub directory: PathBuf,
    /// What the folder brings.
    pub configuration: WorkspaceConfiguration,
    /// Whether it applies.
    pub state: TrustState,
}

/// Whether a folder's configuration applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// The folder brings no configuration.
    Empty,
    /// It applies.
    Trusted(TrustedBy),
    /// No one has decided yet.
    Undecided,
    /// A person decided that it does not apply.
    Restricted,
    /// The configuration is not the one that was trusted.
    Changed(ConfigurationDifference),
    /// It cannot be trusted, for this reason.
    Refused(String),
}

/// Why a folder is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedBy {
    /// A person trusted this folder.
    Person,
    /// A person trusted a parent folder and its subfolders.
    Parent(PathBuf),
    /// The host's configuration names it, or a parent.
    HostConfiguration,
}

impl TrustState {
    /// The name that clients and scripts see.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Trusted(_) => "trusted",
            Self::Undecided => "undecided",
            Self::Restricted => "restricted",
            Self::Changed(_) => "changed",
            Self::Refused(_) => "refused",
        }
    }
}

impl TrustAssessment {
    /// What an agent in this folder is opened with.
    pub fn folder_configuration(&self) -> FolderConfiguration {
        match &self.state {
            TrustState::Trusted(_) => {
                FolderConfiguration::Applied { fingerprint: self.configuration.fingerprint.clone() }
            }
            _ => FolderConfiguration::Ignored,
        }
    }

    /// Whether the folder is trusted through a parent.
    pub fn is_inherited(&self) -> bool {
        matches!(self.state, TrustState::Trusted(TrustedBy::Parent(_)))
    }

    /// Whether a person should be asked.
    pub fn needs_decision(&self) -> bool {
        matches!(self.state, TrustState::Undecided | TrustState::Changed(_))
    }
}
