//! Grants: access of clients beyond the sessions' directories. Stored in a file, listed, and revocable.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hostler_files::{
    FileAccess, FileError, FileOperations, FileWrite, Root, Roots, file_uri_to_path, path_to_file_uri,
};
use hostler_redact::redact_json_error;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::{ResourceError, access_verb};

/// File name in the state directory.
const GRANTS_FILE: &str = "grants.json";

/// Maximum size of that file.
const MAX_GRANTS_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum number of grants, including those that wait for approval.
const MAX_GRANTS: usize = 256;

/// What happens to a client's request for access outside of the sessions' directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrantPolicy {
    /// It is refused.
    #[default]
    Never,
    /// It waits for a person's approval.
    Ask,
    /// It is granted.
    Always,
}

/// A grant, or a request for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGrant {
    /// Its id.
    pub id: String,
    /// The path, with links resolved.
    pub uri: String,
    /// Whether it includes write access.
    pub write: bool,
    /// The client that requested it.
    pub client: String,
    /// Time of the request.
    pub since: String,
    /// Whether it waits for approval.
    pub waiting: bool,
}

impl ResourceGrant {
    fn access(&self) -> FileAccess {
        if self.write { FileAccess::Write } else { FileAccess::Read }
    }

    /// The root that it grants now. A path that resolves to another place by now grants nothing.
    fn root(&self) -> Option<Root> {
        let path = file_uri_to_path(&self.uri).ok().filter(|_| !self.waiting)?;
        let root = Root::file_or_directory(path.clone(), self.access());
        (root.real_path() == Some(&path)).then_some(root)
    }
}

/// All grants and requests for grants.
pub(crate) struct GrantStore {
    policy: GrantPolicy,
    directory: PathBuf,
    files: FileOperations,
    grants: Mutex<Vec<ResourceGrant>>,
}

/// A client's request for access.
pub(super) struct GrantRequest<'a> {
    pub(super) uri: &'a str,
    pub(super) access: FileAccess,
    pub(super) client: &'a str,
    pub(super) now: String,
}

impl GrantStore {
    /// Reads the stored grants. An unreadable file grants nothing, and is replaced by the next grant.
    pub(crate) fn open(directory: &Path, policy: GrantPolicy) -> Self {
        let roots = state_directory_roots(directory);
        let grants = match roots.read(&directory.join(GRANTS_FILE), MAX_GRANTS_FILE_BYTES) {
            Ok(contents) => serde_json::from_slice(&contents).unwrap_or_else(|error| {
                let error = redact_json_error(&error);
                tracing::warn!(error, "failed to read the grants file; its grants do not apply");
                Vec::new()
            }),
            Err(FileError::NotFound) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "failed to read the grants file; its grants do not apply");
                Vec::new()
            }
        };
        Self { policy, directory: directory.to_owned(), files: FileOperations::default(), grants: Mutex::new(grants) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ResourceGrant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All grants, the oldest first.
    pub(crate) fn list(&self) -> Vec<ResourceGrant> {
        self.lock().clone()
    }

    pub(crate) fn roots(&self) -> Vec<Root> {
        self.lock().iter().filter_map(ResourceGrant::root).collect()
    }

    /// Decides about a path that no root contains.
    pub(super) fn request(&self, request: &GrantRequest<'_>) -> Result<(), ResourceError> {
        let GrantRequest { uri, access, .. } = *request;
        let denied = |sentence| Err(ResourceError::Denied { uri: uri.to_owned(), access, message: sentence });
        if self.policy == GrantPolicy::Never {
            return denied(format!(
                "This host grants no access outside of the directories of its sessions, so clients cannot {} {uri}. To change \
                 that, set `grant` in `[files]` of the host's configuration.",
                access_verb(access),
            ));
        }
        let file = |error| ResourceError::File { uri: uri.to_owned(), error };
        let path = file_uri_to_path(uri).map_err(file)?;
        let root = Root::file_or_directory(path, access);
        let real = root.real_path().ok_or_else(|| file(FileError::NotFound))?;
        let real = path_to_file_uri(real).map_err(file)?;
        let waiting = self.policy == GrantPolicy::Ask;
        let write = access == FileAccess::Write;
        let mut grants = self.lock();
        // A repeated request needs no second grant.
        let known = grants.iter().find(|grant| grant.uri == real && grant.write >= write && grant.waiting <= waiting);
        let id = match known {
            Some(grant) => grant.id.clone(),
            None => {
                if grants.len() >= MAX_GRANTS {
                    return Err(ResourceError::TooManyGrants { max: MAX_GRANTS });
                }
                let id = Uuid::new_v4().simple().to_string();
                let (client, since) = (request.client.to_owned(), request.now.clone());
                let grant = ResourceGrant { id: id.clone(), uri: real, write, client, since, waiting };
                self.persist_change(&mut grants, |grants| grants.push(grant))?;
                id
            }
        };
        if !waiting {
            return Ok(());
        }
        denied(format!(
            "A person must grant access to {uri} first. The request is pending as grant {id}. Request it again when it is allowed."
        ))
    }

    /// Approves a request.
    pub(crate) fn allow(&self, id: &str) -> Result<(), ResourceError> {
        self.edit(id, |grants, index| {
            if let Some(grant) = grants.get_mut(index) {
                grant.waiting = false;
            }
        })
    }

    /// Revokes a grant.
    pub(crate) fn revoke(&self, id: &str) -> Result<(), ResourceError> {
        self.edit(id, |grants, index| drop(grants.remove(index)))
    }

    fn edit(&self, id: &str, edit: impl FnOnce(&mut Vec<ResourceGrant>, usize)) -> Result<(), ResourceError> {
        let mut grants = self.lock();
        let index = grants.iter().position(|grant| grant.id == id);
        let index = index.ok_or_else(|| ResourceError::GrantNotFound(id.to_owned()))?;
        self.persist_change(&mut grants, |grants| edit(grants, index))
    }

    /// Writes the file before memory changes, so that a revoked grant stays revoked after a restart.
    fn persist_change(
        &self,
        grants: &mut Vec<ResourceGrant>,
        edit: impl FnOnce(&mut Vec<ResourceGrant>),
    ) -> Result<(), ResourceError> {
        let mut next = grants.clone();
        edit(&mut next);
        let path = self.directory.join(GRANTS_FILE);
        let failed = |error| ResourceError::File { uri: GRANTS_FILE.to_owned(), error };
        let data = serde_json::to_vec_pretty(&next).map_err(|error| failed(FileError::Io(error.into())))?;
        let write = FileWrite { data: &data, ..FileWrite::default() };
        self.files
            .write(&state_directory_roots(&self.directory), &path, write, MAX_GRANTS_FILE_BYTES)
            .map_err(failed)?;
        *grants = next;
        Ok(())
    }
}

/// Access to the state directory for the host itself.
fn state_directory_roots(directory: &Path) -> Roots {
    [Root::directory(directory.to_owned(), FileAccess::Write)].into_iter().collect()
}
