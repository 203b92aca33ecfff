//! The decisions about folders, in one file of the state directory. Owns the file and decides which entry applies to a
//! folder; the caller reads the folder's configuration.

use std::path::{Path, PathBuf};

use hostler_driver::{ConfigurationItem, WorkspaceConfiguration};
use hostler_statefile::{StateFile, StateFileError};
use serde::{Deserialize, Serialize};

use crate::{ConfigurationDifference, TrustAssessment, TrustState, TrustedBy};

/// The file's name within the state directory.
const TRUST_FILE_NAME: &str = "trust.toml";

/// Maximum number of folders in the file.
const MAX_FOLDERS: usize = 10_000;

/// Why a decision was not stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read or written.
    #[error("trusted folders are unavailable: {0}")]
    File(#[from] StateFileError),
    /// The folder does not exist.
    #[error("{path} is not a readable folder")]
    NotAFolder {
        /// The path as the caller gave it.
        path: PathBuf,
    },
    /// The home folder or the root of the file system, without the person having written its path.
    #[error("{path} can be trusted only by its full path; run `hostler trust add {path}`")]
    TooBroad {
        /// The folder.
        path: PathBuf,
    },
    /// The home folder or the root of the file system, with all subfolders.
    #[error("{path} cannot be trusted with its subfolders; trust a folder inside it")]
    TooBroadWithSubfolders {
        /// The folder.
        path: PathBuf,
    },
    /// The configuration cannot be applied.
    #[error("the configuration of {path} cannot be applied: {problem}")]
    InvalidConfiguration {
        /// The folder.
        path: PathBuf,
        /// The cause.
        problem: String,
    },
    /// The configuration differs from the one that the person saw.
    #[error("the configuration of {path} has changed; review it again")]
    Changed {
        /// The folder.
        path: PathBuf,
    },
    /// Without this decision, a parent's trust would apply to a configuration that was never displayed.
    #[error(
        "{path} is restricted below {parent}, which is trusted with its subfolders; trust {path} with `hostler trust add`, or remove {parent}"
    )]
    BelowTrusted {
        /// The folder.
        path: PathBuf,
        /// The parent that is trusted with its subfolders.
        parent: PathBuf,
    },
    /// The path is not UTF-8 and cannot be stored.
    #[error("{} cannot be stored because the path is not valid UTF-8", .path.display())]
    NotUtf8 {
        /// The folder.
        path: PathBuf,
    },
    /// The file holds the maximum number of folders.
    #[error("the limit of {MAX_FOLDERS} folders is reached; remove some with `hostler trust remove`")]
    TooManyFolders,
}

impl TrustError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File(StateFileError::Unreadable { .. }) => "stateFileUnreadable",
            Self::File(StateFileError::Unwritable { .. }) => "stateFileUnwritable",
            Self::NotAFolder { .. } => "notADirectory",
            Self::TooBroad { .. } | Self::TooBroadWithSubfolders { .. } => "folderTooBroad",
            Self::InvalidConfiguration { .. } => "invalidConfiguration",
            Self::Changed { .. } => "folderChanged",
            Self::BelowTrusted { .. } => "parentFolderTrusted",
            Self::NotUtf8 { .. } => "pathNotUtf8",
            Self::TooManyFolders => "tooManyFolders",
        }
    }
}

/// A person's decision about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrustDecision {
    /// Its configuration applies.
    Trust,
    /// Its configuration applies, and that of its subfolders.
    TrustSubfolders,
    /// Its configuration does not apply.
    Restrict,
}

/// One folder of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TrustEntry {
    /// Its real path.
    pub path: PathBuf,
    /// The decision itself.
    pub decision: TrustDecision,
    /// The fingerprint of the configuration that was decided about.
    #[serde(default)]
    pub fingerprint: String,
    /// The parent folder from which the trust is inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<PathBuf>,
    /// The items that the decision is about, for displaying a difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ConfigurationItem>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    #[serde(default)]
    folder: Vec<TrustEntry>,
}

/// Trust settings of the host's configuration.
#[derive(Debug, Clone, Default)]
pub struct TrustOptions {
    /// Folders whose configuration applies without a decision, with their subfolders. Meant for unattended machines.
    pub trusted_folders: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
}

/// The decisions. A file that cannot be read trusts nothing.
#[derive(Debug)]
pub struct TrustStore {
    file: StateFile<TrustFile>,
    trusted_folders: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl TrustStore {
    /// Opens the file of a state directory.
    pub fn open(state_dir: &Path, options: &TrustOptions) -> Self {
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        Self {
            file: StateFile::open_lenient(state_dir.join(TRUST_FILE_NAME)),
            trusted_folders: options.trusted_folders.iter().filter_map(real).collect(),
            home: options.home.as_ref().and_then(real),
        }
    }

    /// Increases with every change of the file.
    pub fn version(&self) -> u64 {
        self.file.current().version
    }

    /// All decisions, in the order in which they were made.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn entries(&self) -> Result<Vec<TrustEntry>, TrustError> {
        self.file.change::<TrustError>(|_| Ok(false))?;
        Ok(self.file.current().value.folder.clone())
    }

    /// The real paths of the folders that the host's configuration trusts.
    pub fn trusted_folders(&self) -> &[PathBuf] {
        &self.trusted_folders
    }

    /// Whether the configuration of a folder applies. `inspect` reads the configuration at the folder's real path.
    ///
    /// # Errors
    /// If the folder does not exist.
    pub fn assess(
        &self,
        directory: &Path,
        inspect: impl FnOnce(&Path) -> WorkspaceConfiguration,
    ) -> Result<TrustAssessment, TrustError> {
        let directory = canonicalize_folder(directory)?;
        let configuration = inspect(&directory);
        let state = self.determine_state(&directory, &configuration);
        Ok(TrustAssessment { directory, configuration, state })
    }

    fn determine_state(&self, directory: &Path, configuration: &WorkspaceConfiguration) -> TrustState {
        if configuration.is_empty() {
            return TrustState::Empty;
        }
        if let Some(problem) = &configuration.problem {
            return TrustState::Refused(problem.clone());
        }
        let current = self.file.current();
        if let Some(broken) = current.read_error {
            return TrustState::Refused(broken);
        }
        self.determine_state_from(&current.value.folder, directory, configuration)
    }

    /// Applies the decisions to a configuration that can be applied.
    fn determine_state_from(
        &self,
        folders: &[TrustEntry],
        directory: &Path,
        configuration: &WorkspaceConfiguration,
    ) -> TrustState {
        let decided = |entry: &TrustEntry| match (entry.decision, entry.fingerprint == configuration.fingerprint) {
            (TrustDecision::Restrict, _) => TrustState::Restricted,
            (_, true) => TrustState::Trusted(match &entry.inherited_from {
                Some(parent) => TrustedBy::Parent(parent.clone()),
                None => TrustedBy::Person,
            }),
            (_, false) => TrustState::Changed(ConfigurationDifference::between(&entry.items, &configuration.items)),
        };
        let own = folders.iter().find(|entry| entry.path == directory);
        if let Some(entry) = own.filter(|entry| entry.inherited_from.is_none()) {
            return decided(entry);
        }
        let is_named = self.trusted_folders.iter().any(|folder| folder == directory);
        if self.is_broad(directory) && !is_named {
            return TrustState::Refused(TrustError::TooBroad { path: directory.to_owned() }.to_string());
        }
        let above = self.nearest_above(folders, directory);
        let restricted = above.filter(|entry| entry.decision == TrustDecision::Restrict);
        // The host's configuration also covers subfolders, except those of a broad folder.
        let is_configured = is_named
            || self.trusted_folders.iter().any(|folder| {
                let is_nearer = restricted.is_none_or(|entry| folder != &entry.path && folder.starts_with(&entry.path));
                !self.is_broad(folder) && directory.starts_with(folder) && is_nearer
            });
        if restricted.is_some() && !is_configured {
            return TrustState::Restricted;
        }
        // Inherited trust counts as long as the parent's decision exists.
        let gives = |parent: &Path| {
            let is_it = |entry: &TrustEntry| entry.path == parent && entry.decision == TrustDecision::TrustSubfolders;
            folders.iter().any(is_it) && !self.is_broad(parent) && directory.starts_with(parent)
        };
        if let Some(entry) = own.filter(|entry| entry.inherited_from.as_deref().is_some_and(gives)) {
            return decided(entry);
        }
        match above {
            _ if is_configured => TrustState::Trusted(TrustedBy::HostConfiguration),
            Some(parent) => TrustState::Trusted(TrustedBy::Parent(parent.path.clone())),
            None => TrustState::Undecided,
        }
    }

    /// The nearest parent's decision that applies to its subfolders. Decisions about broad folders do not apply to
    /// subfolders.
    fn nearest_above<'a>(&self, folders: &'a [TrustEntry], directory: &Path) -> Option<&'a TrustEntry> {
        let above = folders.iter().filter(|entry| {
            entry.decision != TrustDecision::Trust
                && entry.path != directory
                && directory.starts_with(&entry.path)
                && !self.is_broad(&entry.path)
        });
        above.max_by_key(|entry| entry.path.components().count())
    }

    /// Whether a folder is the root of the file system, the home folder, or a parent of the home folder.
    fn is_broad(&self, directory: &Path) -> bool {
        directory.parent().is_none() || self.home.as_ref().is_some_and(|home| home.starts_with(directory))
    }

    /// Stores a decision about an assessed folder. `named` means that the person wrote the folder's path. Blocks.
    ///
    /// # Errors
    /// If the folder is too broad, its configuration cannot be applied, or the file cannot be changed.
    pub fn decide(&self, assessment: &TrustAssessment, decision: TrustDecision, named: bool) -> Result<(), TrustError> {
        let TrustAssessment { directory, configuration, .. } = assessment;
        let path = || directory.clone();
        if decision != TrustDecision::Restrict {
            if self.is_broad(directory) && decision == TrustDecision::TrustSubfolders {
                return Err(TrustError::TooBroadWithSubfolders { path: path() });
            }
            if self.is_broad(directory) && !named {
                return Err(TrustError::TooBroad { path: path() });
            }
            if let Some(problem) = configuration.problem.clone() {
                return Err(TrustError::InvalidConfiguration { path: path(), problem });
            }
        }
        // A restriction applies to every configuration of the folder, so there is no difference to display.
        let items = if decision == TrustDecision::Restrict { Vec::new() } else { configuration.items.clone() };
        let fingerprint = configuration.fingerprint.clone();
        let entry = TrustEntry { path: path(), decision, fingerprint, inherited_from: None, items };
        self.file.change(|stored| replace_entry(stored, entry))?;
        Ok(())
    }

    /// Stores the configuration of a folder that is trusted through a parent, so that a later change is detected.
    /// Blocks.
    ///
    /// # Errors
    /// If the file cannot be changed, or the decisions have changed since the assessment.
    pub fn record_inherited(&self, assessment: &TrustAssessment) -> Result<(), TrustError> {
        let TrustAssessment { directory, configuration, state } = assessment;
        let TrustState::Trusted(TrustedBy::Parent(parent)) = state else { return Ok(()) };
        self.file.change(|stored| {
            if self.determine_state_from(&stored.folder, directory, configuration) != *state {
                return Err(TrustError::Changed { path: directory.clone() });
            }
            let noted = |entry: &TrustEntry| {
                entry.path == *directory && entry.inherited_from.as_deref() == Some(parent.as_path())
            };
            if stored.folder.iter().any(noted) {
                return Ok(false);
            }
            replace_entry(
                stored,
                TrustEntry {
                    path: directory.clone(),
                    decision: TrustDecision::Trust,
                    fingerprint: configuration.fingerprint.clone(),
                    inherited_from: Some(parent.clone()),
                    items: configuration.items.clone(),
                },
            )
        })?;
        Ok(())
    }

    /// Removes the decision about a folder and the trust that its subfolders inherited from it. Returns whether there
    /// was a decision. A folder below one that is trusted with its subfolders is restricted instead, so that no
    /// configuration is trusted that was never displayed. The folder need not exist any more. Blocks.
    ///
    /// # Errors
    /// If the file cannot be changed, or the folder is restricted below one that is trusted with its subfolders.
    pub fn remove(&self, directory: &Path) -> Result<bool, TrustError> {
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        self.file.change(|stored| {
            let Some(own) = stored.folder.iter().find(|entry| entry.path == directory) else { return Ok(false) };
            let above = self.nearest_above(&stored.folder, &directory);
            let parent = above.filter(|entry| entry.decision == TrustDecision::TrustSubfolders);
            let is_restricted = own.decision == TrustDecision::Restrict;
            match parent.map(|entry| entry.path.clone()) {
                Some(parent) if is_restricted => Err(TrustError::BelowTrusted { path: directory, parent }),
                Some(_) => replace_entry(
                    stored,
                    TrustEntry {
                        path: directory,
                        decision: TrustDecision::Restrict,
                        fingerprint: String::new(),
                        inherited_from: None,
                        items: Vec::new(),
                    },
                ),
                None => {
                    remove_entry(stored, &directory, true);
                    Ok(true)
                }
            }
        })
    }
}

/// Replaces the previous decision about a folder.
fn replace_entry(stored: &mut TrustFile, entry: TrustEntry) -> Result<bool, TrustError> {
    if entry.path.to_str().is_none() {
        return Err(TrustError::NotUtf8 { path: entry.path });
    }
    remove_entry(stored, &entry.path, entry.decision != TrustDecision::TrustSubfolders);
    if stored.folder.len() >= MAX_FOLDERS {
        return Err(TrustError::TooManyFolders);
    }
    stored.folder.push(entry);
    Ok(true)
}

/// Removes the decision about a folder, and the entries that inherited from it.
fn remove_entry(stored: &mut TrustFile, directory: &Path, with_heirs: bool) {
    stored
        .folder
        .retain(|entry| entry.path != directory && !(with_heirs && entry.inherited_from.as_deref() == Some(directory)));
}

/// A folder's real path.
fn canonicalize_folder(directory: &Path) -> Result<PathBuf, TrustError> {
    let not_a_folder = || TrustError::NotAFolder { path: directory.to_owned() };
    let real = std::fs::canonicalize(directory).map_err(|_| not_a_folder())?;
    if real.is_dir() { Ok(real) } else { Err(not_a_folder()) }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
