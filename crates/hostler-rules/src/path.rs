//! Paths as written and as resolved: the file access that decisions need, as a trait.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

/// File access for decisions. A rule applies to the path that remains after links are followed.
pub trait PathResolver {
    /// The path with all links followed and `..` resolved physically. Components that do not exist remain as written.
    ///
    /// # Errors
    /// If there is a link loop, or a link cannot be read. Such a path is asked about as unanalyzable.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// The kind of the entry. A link at the end is not followed.
    fn path_kind(&self, path: &Path) -> PathKind;

    /// The contents of a regular file of at most `limit` bytes; `None` for everything else.
    fn read(&self, path: &Path, limit: u64) -> Option<Vec<u8>>;

    /// The entries of a directory with their kinds. `None` if there are more than `limit`, or they cannot be read.
    fn list(&self, path: &Path, limit: usize) -> Option<Vec<(PathBuf, PathKind)>>;
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// There is no entry.
    Missing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a device, or an entry that cannot be examined.
    Other,
}

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskResolver;

/// Maximum number of links in a path, the same as the kernel's.
const MAX_SYMLINKS: usize = 40;

impl PathResolver for DiskResolver {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        follow_links(path, |link| match std::fs::read_link(link) {
            Ok(target) => Ok(Some(target)),
            // Not a link, missing, or below an entry that is not a directory.
            Err(error) => match error.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(error),
            },
        })
    }

    fn path_kind(&self, path: &Path) -> PathKind {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => PathKind::File,
            Ok(found) if found.is_dir() => PathKind::Directory,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                PathKind::Missing
            }
            Ok(_) | Err(_) => PathKind::Other,
        }
    }

    fn read(&self, path: &Path, limit: u64) -> Option<Vec<u8>> {
        // Only regular files are opened: reading a pipe could block.
        (self.path_kind(path) == PathKind::File).then_some(())?;
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    fn list(&self, path: &Path, limit: usize) -> Option<Vec<(PathBuf, PathKind)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).ok()? {
            let entry = entry.ok()?;
            let kind = match entry.file_type().ok()? {
                kind if kind.is_dir() => PathKind::Directory,
                kind if kind.is_file() => PathKind::File,
                _ => PathKind::Other,
            };
            (found.len() < limit).then(|| found.push((entry.path(), kind)))?;
        }
        Some(found)
    }
}

/// Resolves each path once, for one decision; the next decision reads the disk again. Several rules and parts of a line
/// name the same paths.
pub(crate) struct OneTimeResolver<'a> {
    inner: &'a dyn PathResolver,
    /// By the path as written; `None` if it cannot be resolved.
    resolved: RefCell<HashMap<OsString, Option<PathBuf>>>,
}

impl<'a> OneTimeResolver<'a> {
    pub(crate) fn new(inner: &'a dyn PathResolver) -> Self {
        Self { inner, resolved: RefCell::default() }
    }
}

impl PathResolver for OneTimeResolver<'_> {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let known = self.resolved.borrow().get(path.as_os_str()).cloned();
        let resolved = known.unwrap_or_else(|| {
            let resolved = self.inner.resolve(path).ok();
            self.resolved.borrow_mut().insert(path.into(), resolved.clone());
            resolved
        });
        resolved.ok_or_else(|| io::Error::other("the path cannot be resolved"))
    }

    fn path_kind(&self, path: &Path) -> PathKind {
        self.inner.path_kind(path)
    }

    fn read(&self, path: &Path, limit: u64) -> Option<Vec<u8>> {
        self.inner.read(path, limit)
    }

    fn list(&self, path: &Path, limit: usize) -> Option<Vec<(PathBuf, PathKind)>> {
        self.inner.list(path, limit)
    }
}

/// Links from a table, for tests and for decisions about another machine.
#[derive(Debug, Clone, Default)]
pub struct StaticLinks(pub std::collections::BTreeMap<PathBuf, PathBuf>);

impl PathResolver for StaticLinks {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        follow_links(path, |link| Ok(self.0.get(link).cloned()))
    }

    fn path_kind(&self, path: &Path) -> PathKind {
        if self.0.contains_key(path) { PathKind::Other } else { PathKind::Missing }
    }

    fn read(&self, _: &Path, _: u64) -> Option<Vec<u8>> {
        None
    }

    fn list(&self, _: &Path, _: usize) -> Option<Vec<(PathBuf, PathKind)>> {
        None
    }
}

/// Resolves a path component by component. A dangling link is followed too: writing through it creates its target.
fn follow_links(path: &Path, read_link: impl Fn(&Path) -> io::Result<Option<PathBuf>>) -> io::Result<PathBuf> {
    let mut found = PathBuf::from("/");
    let mut rest: VecDeque<std::ffi::OsString> = path.iter().map(std::ffi::OsStr::to_owned).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == "/" || name == "." {
            continue;
        }
        if name == ".." {
            found.pop();
            continue;
        }
        let next = found.join(&name);
        match read_link(&next)? {
            None => found = next,
            Some(target) => {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                if target.is_absolute() {
                    found = PathBuf::from("/");
                }
                for name in target.iter().rev() {
                    rest.push_front(name.to_owned());
                }
            }
        }
    }
    Ok(found)
}

/// Removes `.` and `..` from an absolute path without disk access.
pub fn normalize_path(path: &Path) -> PathBuf {
    let mut found = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::ParentDir => {
                found.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    found
}

/// All paths that a name may refer to: as written, and with links resolved.
///
/// A rule that allows must match all of them; a rule that denies or asks must match one.
#[derive(Debug, Clone)]
pub(crate) struct CandidatePaths {
    /// The name as written.
    pub text: String,
    pub paths: Vec<PathBuf>,
}

impl CandidatePaths {
    /// Resolves a name relative to a directory.
    pub(crate) fn new(
        text: &str,
        base: &Path,
        home: Option<&Path>,
        resolver: &dyn PathResolver,
    ) -> Result<Self, &'static str> {
        if text.contains('\0') {
            return Err("its path contains a NUL character");
        }
        let written = match text.strip_prefix('~') {
            None => base.join(text),
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                home.ok_or("the home directory is unknown")?.join(rest.trim_start_matches('/'))
            }
            Some(_) => return Err("it refers to another user's home directory"),
        };
        if !written.is_absolute() {
            return Err("its path is relative to an unknown directory");
        }
        let plain = normalize_path(&written);
        let mut paths = vec![plain.clone()];
        // Programs differ in whether `link/..` is the parent of the link or of its target.
        for path in [&plain, &written] {
            let real = resolver.resolve(path).map_err(|_| "its path cannot be resolved")?;
            if !paths.contains(&real) {
                paths.push(real);
            }
        }
        Ok(Self { text: text.to_owned(), paths })
    }
}
