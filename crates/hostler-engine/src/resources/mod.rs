//! Resources: the files that clients read and change, within their access.
//!
//! Accessible without a grant are the directories of this host's sessions (`session_directories`), with everything in
//! them, and the default directory, for choosing a directory. Everything else needs a grant (`grants`). The host's own
//! directories are never accessible. File operations run off the actors and off the connection reader, a few at a time
//! per client. [`ResourceService`] owns all of it for the whole host; it knows no client and no session's state.

mod error;
mod file_list;
pub(crate) mod git;
mod grants;
mod session_directories;
mod session_roots;
mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hostler_files::{
    DirectoryEntry, EntryKind, FileAccess, FileError, FileKind, FileMetadata, FileOperations, FileWrite, Root, Roots,
    TreeLimits, WriteMode, file_uri_to_path, path_to_file_uri,
};

use hostler_redact::byte_length;

pub use error::ResourceError;
pub(crate) use file_list::FileList;
use file_list::FileListCache;
use grants::GrantStore;
pub use grants::{GrantPolicy, ResourceGrant};
use session_directories::SessionDirectories;
pub(crate) use session_roots::MAX_SESSION_DIRECTORIES;
pub use session_roots::SessionRoots;
use watch::WatchRegistry;
pub use watch::{WatchPatternError, WatchResource};

use crate::clock::ClockExt as _;
use crate::host::Host;
use crate::sessions::action_mapper::content_hash;
use crate::{Engine, EngineError, clock};

/// Maximum size of a file that is read or written at once.
pub const MAX_RESOURCE_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum number of entries of a listed directory.
const MAX_DIRECTORY_ENTRIES: usize = 50_000;

/// The files that clients may access, and their watches.
pub(crate) struct ResourceService {
    session_directories: SessionDirectories,
    grants: GrantStore,
    watches: WatchRegistry,
    files: FileOperations,
    /// Where sessions may work, and which paths are never accessible, because they contain keys and tokens.
    session_roots: SessionRoots,
    file_lists: FileListCache,
}

impl ResourceService {
    pub(crate) fn new(state: &Path, default: &Path, policy: GrantPolicy, mut session_roots: SessionRoots) -> Self {
        let state = fs_err::canonicalize(state).unwrap_or_else(|_| state.to_owned());
        let grants = GrantStore::open(&state, policy);
        session_roots.private_paths.push(state);
        let (session_directories, watches, files) =
            (SessionDirectories::new(default), WatchRegistry::default(), FileOperations::default());
        Self { session_directories, grants, watches, files, session_roots, file_lists: FileListCache::default() }
    }

    /// Sets the working directories of a session.
    pub(crate) fn set_session_directories(&self, session: &Arc<str>, directories: &[String]) {
        self.session_directories.set(session, directories);
    }

    /// Removes the working directories of a deleted session.
    pub(crate) fn remove_session_directories(&self, session: &str) {
        self.session_directories.remove(session);
    }

    /// The first working directory of a session, as the session names it.
    pub(crate) fn primary_directory(&self, session: &str) -> Option<String> {
        self.session_directories.primary_directory(session)
    }

    /// Where sessions may work.
    pub(crate) fn session_roots(&self) -> &SessionRoots {
        &self.session_roots
    }

    /// Whether a channel is a watch.
    pub(crate) fn has_watch(&self, channel: &str) -> bool {
        self.watches.contains(channel)
    }

    /// The files of a directory, without those that are never accessible.
    pub(crate) async fn list_files(&self, directory: &Path) -> FileList {
        self.file_lists.files(directory, self.session_roots.resolved_private_paths()).await
    }

    /// All roots that clients may access at this moment.
    pub(crate) fn roots(&self) -> Roots {
        // A session's directory may have been allowed by an earlier configuration, or resolve to another place by now.
        let private = self.session_roots.resolved_private_paths();
        let allowed = |root: &Root| root.real_path().is_some_and(|real| self.session_roots.is_allowed(real, &private));
        let roots: Roots =
            self.session_directories.roots().into_iter().filter(allowed).chain(self.grants.roots()).collect();
        private.into_iter().fold(roots, Roots::excluding)
    }
}

/// Metadata of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// Its URI, links resolved.
    pub uri: String,
    /// File, directory or link.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Time of the last write.
    pub modified: Option<String>,
    /// Time of creation.
    pub created: Option<String>,
    /// Tag of this version.
    pub etag: String,
}

impl ResourceMetadata {
    fn new(uri: String, facts: FileMetadata) -> Self {
        let text = |time: Option<SystemTime>| time.map(clock::format_timestamp);
        let (modified, created) = (text(facts.modified), text(facts.created));
        Self { uri, kind: facts.kind, size: facts.size, modified, created, etag: facts.etag }
    }
}

/// The contents of a resource.
#[derive(Clone, PartialEq, Eq)]
pub struct ResourceContents {
    /// Media type, if known.
    pub content_type: Option<String>,
    /// The contents.
    pub body: Vec<u8>,
}

/// A request to write a file.
#[derive(Clone, Default)]
pub struct WriteResource {
    /// The file.
    pub uri: String,
    /// The bytes.
    pub data: Vec<u8>,
    /// Where the bytes are written.
    pub mode: WriteMode,
    /// Offset in bytes, relative to the mode's position.
    pub position: u64,
    /// Fails if the file exists.
    pub create_only: bool,
    /// Fails unless the file has this version tag.
    pub if_match: Option<String>,
}

impl fmt::Debug for ResourceContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceContents({:?}, {:?})", self.content_type, byte_length(&self.body))
    }
}

impl fmt::Debug for WriteResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteResource")
            .field("uri", &self.uri)
            .field("data", &byte_length(&self.data))
            .field("mode", &self.mode)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// Access to the files that clients may use. Cheap to clone.
#[derive(Clone)]
pub struct Resources {
    pub(crate) host: Arc<Host>,
}

impl Engine {
    /// Access to the files that clients may use.
    pub fn resources(&self) -> Resources {
        Resources { host: Arc::clone(&self.host) }
    }
}

impl Resources {
    /// Reads contents: of a file, or of a blob that a state of this host refers to.
    ///
    /// # Errors
    /// If the resource does not exist, may not be read, or is too large.
    pub async fn read(&self, uri: &str) -> Result<ResourceContents, ResourceError> {
        if content_hash(uri).is_some() {
            let engine = Engine { host: Arc::clone(&self.host) };
            let content = engine.content(uri).await?;
            return Ok(ResourceContents { content_type: Some(content.content_type), body: content.body });
        }
        let body = self
            .run_file_operation(uri, FileAccess::Read, |context, path| context.roots().read(path, MAX_RESOURCE_BYTES))
            .await?;
        Ok(ResourceContents { content_type: None, body })
    }

    /// Lists a directory. Links are listed as their targets' kind; broken links and links that leave the roots, as
    /// files.
    ///
    /// # Errors
    /// If the directory does not exist, or may not be read.
    pub async fn list(&self, uri: &str) -> Result<Vec<(String, FileKind)>, ResourceError> {
        let list = |context: &ResourceService, path: &Path| {
            let roots = context.roots();
            let entries = roots.list(path, MAX_DIRECTORY_ENTRIES)?;
            Ok(entries.into_iter().map(|entry| listed_entry(&roots, path, entry)).collect())
        };
        self.run_file_operation(uri, FileAccess::Browse, list).await
    }

    /// Returns the metadata of a file, directory or link.
    ///
    /// # Errors
    /// If the resource does not exist, or may not be read.
    pub async fn resolve(&self, uri: &str, follow: bool) -> Result<ResourceMetadata, ResourceError> {
        let asked = uri.to_owned();
        let look = move |context: &ResourceService, path: &Path| {
            let facts = context.roots().resolve(path, follow)?;
            // Without a resolved link, the caller's URI stays.
            let uri = if !follow || facts.path == path { asked } else { path_to_file_uri(&facts.path)? };
            Ok(ResourceMetadata::new(uri, facts))
        };
        self.run_file_operation(uri, FileAccess::Browse, look).await
    }

    /// Writes a file.
    ///
    /// # Errors
    /// If the file may not be written, or does not match the request's conditions. The file is then unchanged.
    pub async fn write(&self, write: WriteResource) -> Result<(), ResourceError> {
        let WriteResource { uri, data, mode, position, create_only, if_match } = write;
        let act = move |context: &ResourceService, path: &Path| {
            let write = FileWrite { data: &data, mode, position, create_only, if_match: if_match.as_deref() };
            context.files.write(&context.roots(), path, write, MAX_RESOURCE_BYTES)
        };
        self.run_file_operation(&uri, FileAccess::Write, act).await
    }

    /// Creates a directory, and missing ones above it.
    ///
    /// # Errors
    /// If the directory may not be created, or something else has its name.
    pub async fn make_directory(&self, uri: &str) -> Result<(), ResourceError> {
        self.run_file_operation(uri, FileAccess::Write, |context, path| {
            context.files.make_directory(&context.roots(), path)
        })
        .await
    }

    /// Copies a file or a tree; an existing target is replaced unless `keep` is set.
    ///
    /// # Errors
    /// If either path is not accessible. Nothing has changed then.
    pub async fn copy(&self, from: &str, to: &str, keep: bool) -> Result<(), ResourceError> {
        self.check_access(from, FileAccess::Read).await?;
        let source = parse_path(from)?;
        let act = move |context: &ResourceService, target: &Path| {
            context.files.copy(&context.roots(), &source, target, keep, &TreeLimits::default())
        };
        self.run_file_operation(to, FileAccess::Write, act).await
    }

    /// Moves a file, a link or a tree; an existing target is replaced unless `keep` is set.
    ///
    /// # Errors
    /// If either path may not be changed.
    pub async fn rename(&self, from: &str, to: &str, keep: bool) -> Result<(), ResourceError> {
        self.check_access(from, FileAccess::Write).await?;
        let source = parse_path(from)?;
        let act = move |context: &ResourceService, target: &Path| {
            context.files.rename(&context.roots(), &source, target, keep, &TreeLimits::default())
        };
        self.run_file_operation(to, FileAccess::Write, act).await
    }

    /// Removes a file, a link or a directory; a directory that is not empty only if `recursive` is set.
    ///
    /// # Errors
    /// If the resource does not exist, or may not be removed.
    pub async fn remove(&self, uri: &str, recursive: bool) -> Result<(), ResourceError> {
        self.run_file_operation(uri, FileAccess::Write, move |context, path| {
            context.files.remove(&context.roots(), path, recursive)
        })
        .await
    }

    /// Requests access for a client. Existing access is confirmed; otherwise the configured policy decides.
    ///
    /// # Errors
    /// [`ResourceError::Denied`] if it is not granted.
    pub async fn request(&self, client: &str, uri: &str, access: FileAccess) -> Result<(), ResourceError> {
        if content_hash(uri).is_some() && access < FileAccess::Write {
            return Ok(());
        }
        if let Err(ResourceError::Denied { .. }) = self.check_access(uri, access).await {
            let (client, asked, now) = (client.to_owned(), uri.to_owned(), self.host.clock.now_timestamp());
            let decide = move |context: &ResourceService| {
                context.grants.request(&grants::GrantRequest { uri: &asked, access, client: &client, now })
            };
            return self.run_blocking(decide).await?;
        }
        parse_path(uri).map(drop)
    }

    /// All grants and requests for grants.
    pub fn grants(&self) -> Vec<ResourceGrant> {
        self.host.resources.grants.list()
    }

    /// Approves a request for a grant.
    ///
    /// # Errors
    /// If the grant does not exist, or cannot be stored.
    pub async fn allow_grant(&self, id: &str) -> Result<(), ResourceError> {
        let id = id.to_owned();
        self.run_blocking(move |context| context.grants.allow(&id)).await?
    }

    /// Revokes a grant. Watches that depend on it end.
    ///
    /// # Errors
    /// If the grant does not exist, or the change cannot be stored.
    pub async fn revoke_grant(&self, id: &str) -> Result<(), ResourceError> {
        let id = id.to_owned();
        self.run_blocking(move |context| context.grants.revoke(&id)).await??;
        let outside = |context: &ResourceService| {
            let roots = context.roots();
            context.watches.remove_where(|path| !roots.is_allowed(path, FileAccess::Read))
        };
        for channel in self.run_blocking(outside).await? {
            self.host.publication.close_channel(&channel);
        }
        Ok(())
    }

    /// Checks access to a path, whether it exists or not.
    async fn check_access(&self, uri: &str, access: FileAccess) -> Result<(), ResourceError> {
        let look = move |context: &ResourceService, path: &Path| {
            if context.roots().is_allowed(path, access) { Ok(()) } else { Err(FileError::Outside) }
        };
        self.run_file_operation(uri, access, look).await
    }

    /// Runs a file operation where it may block.
    pub(crate) async fn run_file_operation<T: Send + 'static>(
        &self,
        uri: &str,
        access: FileAccess,
        act: impl FnOnce(&ResourceService, &Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, ResourceError> {
        let path = parse_path(uri)?;
        let done = self.run_blocking(move |context| act(context, &path)).await?;
        done.map_err(|error| ResourceError::from_file_error(uri, access, error))
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&ResourceService) -> T + Send + 'static,
    ) -> Result<T, ResourceError> {
        let host = Arc::clone(&self.host);
        let done = tokio::task::spawn_blocking(move || act(&host.resources)).await;
        done.map_err(|_| ResourceError::Engine(EngineError::Stopping))
    }
}

fn parse_path(uri: &str) -> Result<PathBuf, ResourceError> {
    file_uri_to_path(uri).map_err(|error| ResourceError::File { uri: uri.to_owned(), error })
}

/// A directory entry for clients, which distinguish files and directories only.
fn listed_entry(roots: &Roots, directory: &Path, entry: DirectoryEntry) -> (String, FileKind) {
    let kind = match entry.kind {
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Link => roots.find(&directory.join(&entry.name)).map_or(FileKind::File, |found| found.kind),
        EntryKind::File | EntryKind::Special => FileKind::File,
    };
    (entry.name.to_string_lossy().into_owned(), kind)
}
