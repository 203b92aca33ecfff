//! Whether the configuration of one folder applies now, and why. Reads no file.

use std::path::PathBuf;

use hostler_driver::{FolderConfiguration, WorkspaceConfiguration};

use crate::ConfigurationDifference;

/// The trust of a folder at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustAssessment {
    /// The folder's real path.
    pub directory: PathBuf,
    /// The folder's configuration.
    pub configuration: WorkspaceConfiguration,
    /// Whether the configuration applies.
    pub state: TrustState,
}

/// Whether a folder's configuration applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// The folder has no configuration of its own.
    Empty,
    /// The configuration applies.
    Trusted(TrustedBy),
    /// There is no decision yet.
    Undecided,
    /// A person decided that the configuration does not apply.
    Restricted,
    /// The configuration differs from the one that was trusted.
    Changed(ConfigurationDifference),
    /// The folder cannot be trusted, for this reason.
    Refused(String),
}

/// Why a folder is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedBy {
    /// A person trusted this folder.
    Person,
    /// A person trusted a parent folder and its subfolders.
    Parent(PathBuf),
    /// The host's configuration lists the folder or a parent.
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
    /// The configuration that an agent in this folder starts with.
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

    /// Whether a person has to decide.
    pub fn needs_decision(&self) -> bool {
        matches!(self.state, TrustState::Undecided | TrustState::Changed(_))
    }
}
