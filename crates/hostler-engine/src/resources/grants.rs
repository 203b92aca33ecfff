//! What clients asked for beyond the sessions' directories: kept in a file, shown, and taken back.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hostler_files::{
    FileAccess, FileError, FileOperations, FileWrite, Root, Roots, file_uri_to_path, path_to_file_uri,
};
use hostler_redact::redact_json_error;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::{ResourceError, access_verb};

/// Where they are kept, in the state directory.
const GRANTS_FILE: &str = "grants.json";

/// How large that file may be.
const MAX_GRANTS_FILE_BYTES: u64 = 1024 * 1024;

/// How many there may be, those that wait included.
const MAX_GRANTS: usize = 256;

/// What becomes of a client's request for something outside of the sessions' directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrantPolicy {
    /// It is refused.
    #[default]
    Never,
    /// It waits until a person allows it.
    Ask,
    /// It is granted.
    Always,
}

/// Something that was granted, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGrant {
    /// Names it.
    pub id: String,
    /// What it is about, without links.
    pub uri: String,
    /// Whether it may be changed, too.
    pub write: bool,
    /// Who asked for it.
    pub client: String,
    /// When.
    pub since: String,
    /// Whether a person has yet to allow it.
    pub waiting: bool,
}

impl ResourceGrant {
    fn access(&self) -> FileAccess {
        if self.write { FileAccess::Write } else { FileAccess::Read }
    }

    /// What is granted by it now. A path that has been made to lead elsewhere grants nothing.
    fn root(&self) -> Option<Root> {
        let path = file_uri_to_path(&self.uri).ok().filter(|_| !self.waiting)?;
        let root = Root::file_or_directory(path.clone(), self.access());
        (root.real_path() == Some(&path)).then_some(root)
    }
}

/// The book of grants.
pub(crate) struct GrantStore {
    policy: GrantPolicy,
    directory: PathBuf,
    files: FileOperations,
    grants: Mutex<Vec<ResourceGrant>>,
}

/// A request for something.
pub(super) struct GrantRequest<'a> {
    pub(super) uri: &'a str,
    pub(super) access: FileAccess,
    pub(super) client: &'a str,
    pub(super) now: String,
}

impl GrantStore {
    /// Reads what there is. A file that cannot be read grants nothing, and is replaced by the next grant.
    pub(crate) fn open(directory: &Path, policy: GrantPolicy) -> Self {
        let roots = state_directory_roots(directory);
        let book = match roots.read(&directory.join(GRANTS_FILE), MAX_GRANTS_FILE_BYTES) {
            Ok(contents) => serde_json::from_slice(&contents).unwrap_or_else(|error| {
                let error = redact_json_error(&error);
                tracing::warn!(error, "the file of the grants cannot be read; nothing is granted by it");
                Vec::new()
            }),
            Err(FileError::NotFound) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the file of the grants cannot be read; nothing is granted by it");
                Vec::new()
            }
        };
        Self { policy, directory: directory.to_owned(), files: FileOperations::default(), grants: Mutex::new(book) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ResourceGrant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> Vec<ResourceGrant> {
        self.lock().clone()
    }

    pub(crate) fn roots(&self) -> Vec<Root> {
        self.lock().iter().filter_map(ResourceGrant::root).collect()
    }

    /// Decides about something that no root holds.
    pub(super) fn request(&self, request: &GrantRequest<'_>) -> Result<(), ResourceError> {
        let GrantRequest { uri, access, .. } = *request;
        let denied = |sentence| Err(ResourceError::Denied { uri: uri.to_owned(), access, message: sentence });
        if self.policy == GrantPolicy::Never {
            return denied(format!(
                "This host grants clients nothing beyond the directories of its sessions, so they may not {} {uri}. Its \
                 configuration can change that: `grant` in `[files]`.",
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
        let mut book = self.lock();
        // Asked for again: there is no need for a second one.
        let known = book.iter().find(|grant| grant.uri == real && grant.write >= write && grant.waiting <= waiting);
        let id = match known {
            Some(grant) => grant.id.clone(),
            None => {
                if book.len() >= MAX_GRANTS {
                    return Err(ResourceError::TooMany("there are as many grants as there may be; revoke some"));
                }
                let id = Uuid::new_v4().simple().to_string();
                let (client, since) = (request.client.to_owned(), request.now.clone());
                let grant = ResourceGrant { id: id.clone(), uri: real, write, client, since, waiting };
                self.persist_change(&mut book, |book| book.push(grant))?;
                id
            }
        };
        if !waiting {
            return Ok(());
        }
        denied(format!(
            "{uri} has to be granted by a person first; it waits as grant {id}. Ask again when it is allowed."
        ))
    }

    /// A person allows what waits.
    pub(crate) fn allow(&self, id: &str) -> Result<(), ResourceError> {
        self.edit(id, |book, index| {
            if let Some(grant) = book.get_mut(index) {
                grant.waiting = false;
            }
        })
    }

    /// A person takes it back.
    pub(crate) fn revoke(&self, id: &str) -> Result<(), ResourceError> {
        self.edit(id, |book, index| drop(book.remove(index)))
    }

    fn edit(&self, id: &str, edit: impl FnOnce(&mut Vec<ResourceGrant>, usize)) -> Result<(), ResourceError> {
        let mut book = self.lock();
        let index = book.iter().position(|grant| grant.id == id);
        let index = index.ok_or_else(|| ResourceError::GrantNotFound(id.to_owned()))?;
        self.persist_change(&mut book, |book| edit(book, index))
    }

    /// On the disk first: what was taken back stays so.
    fn persist_change(
        &self,
        book: &mut Vec<ResourceGrant>,
        edit: impl FnOnce(&mut Vec<ResourceGrant>),
    ) -> Result<(), ResourceError> {
        let mut next = book.clone();
        edit(&mut next);
        let path = self.directory.join(GRANTS_FILE);
        let failed = |error| ResourceError::File { uri: GRANTS_FILE.to_owned(), error };
        let data = serde_json::to_vec_pretty(&next).map_err(|error| failed(FileError::Io(error.into())))?;
        let write = FileWrite { data: &data, ..FileWrite::default() };
        self.files
            .write(&state_directory_roots(&self.directory), &path, write, MAX_GRANTS_FILE_BYTES)
            .map_err(failed)?;
        *book = next;
        Ok(())
    }
}

/// The state directory, for its own host.
fn state_directory_roots(directory: &Path) -> Roots {
    [Root::directory(directory.to_owned(), FileAccess::Write)].into_iter().collect()
}
