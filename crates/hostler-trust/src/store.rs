//! The decisions about folders, in one file of the state directory.

use std::path::{Path, PathBuf};

use hostler_driver::{ConfigurationItem, WorkspaceConfiguration};
use hostler_statefile::{StateFile, StateFileError};
use serde::{Deserialize, Serialize};

use crate::{Assessment, Difference, TrustState, TrustedBy};

/// The file's name within the state directory.
const FILE: &str = "trust.toml";

/// The most folders that the file holds.
const MAX_FOLDERS: usize = 10_000;

/// Why a decision was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read or written.
    #[error("the trusted folders are not available: {0}")]
    File(#[from] StateFileError),
    /// There is no such folder.
    #[error("{path} is not a folder that can be read")]
    NotAFolder {
        /// As it was given.
        path: PathBuf,
    },
    /// The home folder or the root of the file system, without having been named.
    #[error("{path} is too broad to be trusted by the way; run `hostler trust add {path}` to trust it by name")]
    TooBroad {
        /// The folder.
        path: PathBuf,
    },
    /// The home folder or the root of the file system with everything below it.
    #[error("{path} and everything below it cannot be trusted at once; trust a folder inside of it")]
    TooBroadWithSubfolders {
        /// The folder.
        path: PathBuf,
    },
    /// The configuration cannot be applied.
    #[error("the configuration of {path} cannot be applied: {problem}")]
    Problem {
        /// The folder.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The configuration is not the one that the person saw.
    #[error("the configuration of {path} has changed; look at it again")]
    Changed {
        /// The folder.
        path: PathBuf,
    },
    /// The path cannot be written into the file.
    #[error("{} is not a path in UTF-8, so it cannot be remembered", .path.display())]
    NotUtf8 {
        /// The folder.
        path: PathBuf,
    },
    /// There are too many folders.
    #[error("at most {MAX_FOLDERS} folders are remembered; remove some with `hostler trust remove`")]
    Full,
}

/// A person's decision about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
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
    /// What was decided.
    pub decision: Decision,
    /// The fingerprint of the configuration that was decided about.
    #[serde(default)]
    pub fingerprint: String,
    /// The parent folder that it has its trust from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<PathBuf>,
    /// What was decided about, so that a difference can be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ConfigurationItem>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default)]
    folder: Vec<TrustEntry>,
}

/// What the host's own configuration says.
#[derive(Debug, Clone, Default)]
pub struct TrustOptions {
    /// Folders whose configuration applies without a decision, with their subfolders. Meant for machines without people.
    pub trusted_folders: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
}

/// The decisions. A file that cannot be read trusts nothing.
#[derive(Debug)]
pub struct TrustStore {
    file: StateFile<Stored>,
    trusted_folders: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl TrustStore {
    /// Opens the file of a state directory.
    pub fn open(state_dir: &Path, options: &TrustOptions) -> Self {
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        Self {
            file: StateFile::open_lenient(state_dir.join(FILE)),
            trusted_folders: options.trusted_folders.iter().filter_map(real).collect(),
            home: options.home.as_ref().and_then(real),
        }
    }

    /// Grows with every change of the file.
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

    /// The folders that the host's own configuration trusts, by their real paths.
    pub fn trusted_folders(&self) -> &[PathBuf] {
        &self.trusted_folders
    }

    /// Whether the configuration of a folder applies. `inspect` reads the configuration of the folder's real path.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn assess(
        &self,
        directory: &Path,
        inspect: impl FnOnce(&Path) -> WorkspaceConfiguration,
    ) -> Result<Assessment, TrustError> {
        let directory = real(directory)?;
        let configuration = inspect(&directory);
        let state = self.state(&directory, &configuration);
        Ok(Assessment { directory, configuration, state })
    }

    fn state(&self, directory: &Path, configuration: &WorkspaceConfiguration) -> TrustState {
        if configuration.is_empty() {
            return TrustState::Empty;
        }
        if let Some(problem) = &configuration.problem {
            return TrustState::Refused(problem.clone());
        }
        let current = self.file.current();
        if let Some(broken) = current.broken {
            return TrustState::Refused(broken);
        }
        let folders = &current.value.folder;
        if let Some(entry) = folders.iter().find(|entry| entry.path == directory) {
            return match (entry.decision, entry.fingerprint == configuration.fingerprint) {
                (Decision::Restrict, _) => TrustState::Restricted,
                (_, true) => TrustState::Trusted(match &entry.inherited_from {
                    Some(parent) => TrustedBy::Parent(parent.clone()),
                    None => TrustedBy::Person,
                }),
                (_, false) => TrustState::Changed(Difference::between(&entry.items, &configuration.items)),
            };
        }
        // The configuration names folders for machines without people; a broad one means itself alone.
        let named = |folder: &PathBuf| folder == directory || (!self.is_broad(folder) && directory.starts_with(folder));
        if self.trusted_folders.iter().any(named) {
            return TrustState::Trusted(TrustedBy::HostConfiguration);
        }
        let parent =
            |entry: &&TrustEntry| entry.decision == Decision::TrustSubfolders && directory.starts_with(&entry.path);
        if let Some(parent) = folders.iter().filter(parent).max_by_key(|entry| entry.path.components().count()) {
            return TrustState::Trusted(TrustedBy::Parent(parent.path.clone()));
        }
        if self.is_broad(directory) {
            return TrustState::Refused(TrustError::TooBroad { path: directory.to_owned() }.to_string());
        }
        TrustState::Undecided
    }

    /// Whether a folder is the home folder or the root of the file system.
    fn is_broad(&self, directory: &Path) -> bool {
        directory.parent().is_none() || self.home.as_deref() == Some(directory)
    }

    /// Remembers a decision about what was assessed. `named` says that the person wrote the folder's path. Blocks.
    ///
    /// # Errors
    /// If the folder is too broad, its configuration cannot be applied, or the file cannot be changed.
    pub fn decide(&self, assessment: &Assessment, decision: Decision, named: bool) -> Result<(), TrustError> {
        let Assessment { directory, configuration, .. } = assessment;
        let path = || directory.clone();
        if decision != Decision::Restrict {
            if self.is_broad(directory) && decision == Decision::TrustSubfolders {
                return Err(TrustError::TooBroadWithSubfolders { path: path() });
            }
            if self.is_broad(directory) && !named {
                return Err(TrustError::TooBroad { path: path() });
            }
            if let Some(problem) = configuration.problem.clone() {
                return Err(TrustError::Problem { path: path(), problem });
            }
        }
        self.put(TrustEntry {
            path: path(),
            decision,
            fingerprint: configuration.fingerprint.clone(),
            inherited_from: None,
            items: configuration.items.clone(),
        })
    }

    /// Remembers the configuration of a folder that is trusted through a parent, so that a later change is noticed. Blocks.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub fn note_inherited(&self, assessment: &Assessment) -> Result<(), TrustError> {
        let TrustState::Trusted(TrustedBy::Parent(parent)) = &assessment.state else { return Ok(()) };
        if self.file.current().value.folder.iter().any(|entry| entry.path == assessment.directory) {
            return Ok(());
        }
        self.put(TrustEntry {
            path: assessment.directory.clone(),
            decision: Decision::Trust,
            fingerprint: assessment.configuration.fingerprint.clone(),
            inherited_from: Some(parent.clone()),
            items: assessment.configuration.items.clone(),
        })
    }

    fn put(&self, entry: TrustEntry) -> Result<(), TrustError> {
        if entry.path.to_str().is_none() {
            return Err(TrustError::NotUtf8 { path: entry.path });
        }
        self.file.change(|stored| {
            stored.folder.retain(|known| known.path != entry.path);
            if stored.folder.len() >= MAX_FOLDERS {
                return Err(TrustError::Full);
            }
            stored.folder.push(entry);
            Ok(true)
        })?;
        Ok(())
    }

    /// Forgets the decision about a folder, and what its subfolders inherited from it; answers whether there was one. The
    /// folder need not exist any more. Blocks.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub fn remove(&self, directory: &Path) -> Result<bool, TrustError> {
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        self.file.change(|stored| {
            let before = stored.folder.len();
            stored.folder.retain(|entry| {
                entry.path != directory && entry.inherited_from.as_deref() != Some(directory.as_path())
            });
            Ok(stored.folder.len() != before)
        })
    }
}

/// A folder's real path.
fn real(directory: &Path) -> Result<PathBuf, TrustError> {
    let not_a_folder = || TrustError::NotAFolder { path: directory.to_owned() };
    let real = std::fs::canonicalize(directory).map_err(|_| not_a_folder())?;
    if real.is_dir() { Ok(real) } else { Err(not_a_folder()) }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
