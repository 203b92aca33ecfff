//! One agent process per conversation, across all hosts of a user.
//!
//! The lock is a `flock`, which belongs to an open file and not to a process: the supervisor inherits it, and it stays
//! until the last copy is closed. So nothing resumes a conversation beside an agent that is still dying, even when the
//! host is gone.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest file name that common file systems take is 255 bytes.
const LONGEST_NAME: usize = 240;

/// How much of the holder's text is read back.
const LONGEST_HOLDER: u64 = 1024;

/// Between opening and locking, another process may remove the file. That this happens so often in a row is absurd.
const ATTEMPTS: usize = 64;

/// Why a conversation could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process runs this conversation.
    #[error("the conversation is already running in {by}; close it there first")]
    Held {
        /// What the holder said about itself.
        by: String,
    },
    /// The conversation's name cannot be a file's name.
    #[error("a conversation needs a name of 1 to {LONGEST_NAME} bytes, this one has {length}")]
    Name {
        /// Its length as a file name, in bytes.
        length: usize,
    },
    /// The lock file could not be used.
    #[error("the lock file {path} cannot be used: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// The right to run a conversation. Dropping it gives the right back; [`spawn`](crate::spawn) passes it on to the
/// supervisor, which keeps it until the agent's tree is empty.
#[derive(Debug)]
pub struct ConversationLock {
    file: File,
    path: PathBuf,
    /// Whether dropping this removes the file: not once a supervisor may hold the lock as well.
    ours: bool,
}

impl ConversationLock {
    /// Locks `conversation` or says who holds it. `holder` is the text that others will be told.
    pub fn acquire(runtime_dir: &Path, conversation: &str, holder: &str) -> Result<Self, LockError> {
        let path = runtime_dir.join(file_name(conversation)?);
        match lock_file(&path) {
            Ok(Locked::File(mut file)) => {
                let written = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                let lock = Self { file, path, ours: true };
                match written {
                    Ok(()) => Ok(lock),
                    Err(source) => Err(LockError::Io { path: lock.path.clone(), source }),
                }
            }
            Ok(Locked::HeldBy(by)) => Err(LockError::Held { by }),
            Err(source) => Err(LockError::Io { path, source }),
        }
    }

    /// A lock that a process was given by the one that started it.
    pub(crate) fn inherited(file: File, path: PathBuf) -> Self {
        Self { file, path, ours: true }
    }

    /// From now on a supervisor shares the lock and will remove the file.
    pub(crate) fn shared_with_supervisor(&mut self) {
        self.ours = false;
    }

    /// The supervisor is gone without having removed the file.
    pub(crate) fn take_back(&mut self) {
        self.ours = true;
    }
}

impl Drop for ConversationLock {
    fn drop(&mut self) {
        // Removed while still locked: whoever waits at the old file notices that it is no longer the one at this path.
        if self.ours && is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What stays locked until an agent's tree is empty, also when the host is gone by then.
#[derive(Debug)]
pub enum TreeLock {
    /// The right to run a conversation. Its file goes with it.
    Conversation(ConversationLock),
    /// A file that the caller has locked for more than this tree: a copy of what it keeps. It stays where it is.
    File(File),
}

impl TreeLock {
    /// The file that the supervisor removes when the tree is empty.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Conversation(lock) => Some(&lock.path),
            Self::File(_) => None,
        }
    }
}

impl From<ConversationLock> for TreeLock {
    fn from(lock: ConversationLock) -> Self {
        Self::Conversation(lock)
    }
}

impl AsFd for TreeLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Conversation(lock) => lock.file.as_fd(),
            Self::File(file) => file.as_fd(),
        }
    }
}

enum Locked {
    File(File),
    HeldBy(String),
}

fn lock_file(path: &Path) -> io::Result<Locked> {
    for _ in 0..ATTEMPTS {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path)? => return Ok(Locked::File(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Locked::HeldBy(holder_of(&mut file)?)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("it is removed again and again"))
}

fn holder_of(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = Vec::new();
    file.take(LONGEST_HOLDER).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(match text.trim() {
        // It has the lock and is about to write its name.
        "" => "another process".to_owned(),
        holder => holder.to_owned(),
    })
}

/// Whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.dev() == held.dev() && found.ino() == held.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file name of its own for each conversation: letters, digits and a few signs as they are, all else by its code.
fn file_name(conversation: &str) -> Result<String, LockError> {
    let mut name = String::new();
    for byte in conversation.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(LockError::Name { length: name.len() });
    }
    name.push_str(".lock");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_second_holder_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let first = ConversationLock::acquire(dir.path(), "c", "host 1").unwrap();
        match ConversationLock::acquire(dir.path(), "c", "host 2") {
            Err(LockError::Held { by }) => assert_eq!(by, "host 1"),
            other => panic!("{other:?}"),
        }
        ConversationLock::acquire(dir.path(), "another", "host 2").unwrap();
        drop(first);
        ConversationLock::acquire(dir.path(), "c", "host 2").unwrap();
        assert_eq!(files(dir.path()), 0);
    }

    #[test]
    fn a_stale_file_does_not_lock_anybody_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c.lock"), "a host that died long ago").unwrap();
        let held = ConversationLock::acquire(dir.path(), "c", "me").unwrap();
        assert_eq!(std::fs::read_to_string(&held.path).unwrap(), "me");
    }

    #[test]
    fn a_removed_and_recreated_file_belongs_to_its_new_holder() {
        let dir = tempfile::tempdir().unwrap();
        let old = ConversationLock::acquire(dir.path(), "c", "old").unwrap();
        std::fs::remove_file(&old.path).unwrap();
        let new = ConversationLock::acquire(dir.path(), "c", "new").unwrap();
        drop(old);
        assert!(new.path.exists(), "the old holder removed the new holder's file");
        assert!(ConversationLock::acquire(dir.path(), "c", "third").is_err());
    }

    #[test]
    fn only_one_of_many_at_a_time_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        if let Ok(lock) = ConversationLock::acquire(dir.path(), "c", "me") {
                            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
        assert_eq!(files(dir.path()), 0);
    }

    #[test]
    fn any_name_becomes_one_plain_file_name() {
        assert_eq!(file_name("a/../b c").unwrap(), "a%2f..%2fb%20c.lock");
        assert_ne!(file_name("a/b").unwrap(), file_name("a%2fb").unwrap());
        assert!(matches!(file_name(""), Err(LockError::Name { length: 0 })));
        assert!(matches!(file_name(&"x".repeat(241)), Err(LockError::Name { length: 241 })));
    }

    #[test]
    fn a_link_in_the_lock_files_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join("c.lock")).unwrap();
        assert!(matches!(ConversationLock::acquire(dir.path(), "c", "me"), Err(LockError::Io { .. })));
        assert_eq!(std::fs::read_to_string(target).unwrap(), "text");
    }
}
