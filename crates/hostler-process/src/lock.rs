//! One agent process per conversation, across all hosts of a user.
//!
//! The lock is a `flock`, which belongs to an open file and not to a process: the supervisor inherits it, and it
//! holds until the last copy is closed. So nothing resumes a conversation beside an agent that is still being ended,
//! even after the host has died.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Common file systems accept file names of at most 255 bytes.
const MAX_LOCK_NAME_BYTES: usize = 240;

/// How much of the holder's description is read.
const MAX_HOLDER_BYTES: u64 = 1024;

/// Another process may remove the file between opening and locking it. So many removals in a row indicate an error.
const MAX_LOCK_ATTEMPTS: usize = 64;

/// Why a conversation could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process runs this conversation.
    #[error("the conversation is already open in {holder}; close it there first")]
    Held {
        /// The holder's description of itself.
        holder: String,
    },
    /// The conversation's name cannot be a file name.
    #[error("the conversation's name has {length} bytes; it must have 1 to {MAX_LOCK_NAME_BYTES}")]
    InvalidName {
        /// Its length as a file name, in bytes.
        length: usize,
    },
    /// The lock file could not be used.
    #[error("failed to lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl LockError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held { .. } => "conversationBusy",
            Self::InvalidName { .. } => "invalidConversationName",
            Self::Io { .. } => "lockFailed",
        }
    }
}

/// The right to run a conversation. Dropping it releases the right; [`spawn`](crate::spawn) shares it with the
/// supervisor, which holds it until the agent's tree is empty.
#[derive(Debug)]
pub struct ConversationLock {
    file: File,
    path: PathBuf,
    /// Whether dropping this removes the file: not while a supervisor may hold the lock as well.
    removes_file: bool,
}

impl ConversationLock {
    /// Locks `conversation`, or reports its holder. `holder` is the description that other processes receive.
    pub fn acquire(runtime_dir: &Path, conversation: &str, holder: &str) -> Result<Self, LockError> {
        let path = runtime_dir.join(lock_file_name(conversation)?);
        match lock_file(&path) {
            Ok(LockAttempt::File(mut file)) => {
                let written = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                let lock = Self { file, path, removes_file: true };
                match written {
                    Ok(()) => Ok(lock),
                    Err(source) => Err(LockError::Io { path: lock.path.clone(), source }),
                }
            }
            Ok(LockAttempt::HeldBy(by)) => Err(LockError::Held { holder: by }),
            Err(source) => Err(LockError::Io { path, source }),
        }
    }

    /// A lock that this process inherited.
    pub(crate) fn inherited(file: File, path: PathBuf) -> Self {
        Self { file, path, removes_file: true }
    }

    /// The supervisor now shares the lock and will remove the file.
    pub(crate) fn hand_file_to_supervisor(&mut self) {
        self.removes_file = false;
    }

    /// The supervisor has exited without removing the file.
    pub(crate) fn reclaim_file(&mut self) {
        self.removes_file = true;
    }
}

impl Drop for ConversationLock {
    fn drop(&mut self) {
        // Removed while still locked: a process that waits on the old file detects that this path no longer names it.
        if self.removes_file && is_same_file(&self.file, &self.path).unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A lock that is held until an agent's tree is empty, even if the host has died by then.
#[derive(Debug)]
pub enum ProcessTreeLock {
    /// The right to run a conversation. Its file is removed with it.
    Conversation(ConversationLock),
    /// A copy of a file that the caller has locked for more than this tree. The file is not removed.
    File(File),
}

impl ProcessTreeLock {
    /// The file that the supervisor removes when the tree is empty.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Conversation(lock) => Some(&lock.path),
            Self::File(_) => None,
        }
    }
}

impl From<ConversationLock> for ProcessTreeLock {
    fn from(lock: ConversationLock) -> Self {
        Self::Conversation(lock)
    }
}

impl AsFd for ProcessTreeLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Conversation(lock) => lock.file.as_fd(),
            Self::File(file) => file.as_fd(),
        }
    }
}

enum LockAttempt {
    File(File),
    HeldBy(String),
}

fn lock_file(path: &Path) -> io::Result<LockAttempt> {
    for _ in 0..MAX_LOCK_ATTEMPTS {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        match file.try_lock() {
            Ok(()) if is_same_file(&file, path)? => return Ok(LockAttempt::File(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(LockAttempt::HeldBy(read_holder(&mut file)?)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("the file is removed repeatedly"))
}

fn read_holder(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = Vec::new();
    file.take(MAX_HOLDER_BYTES).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(match text.trim() {
        // The holder has the lock and has not written its description yet.
        "" => "another process".to_owned(),
        holder => holder.to_owned(),
    })
}

/// Whether `path` still names `file`.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.dev() == held.dev() && found.ino() == held.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A unique file name for each conversation: letters, digits and a few signs unchanged, all else by code.
fn lock_file_name(conversation: &str) -> Result<String, LockError> {
    let mut name = String::new();
    for byte in conversation.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.is_empty() || name.len() > MAX_LOCK_NAME_BYTES {
        return Err(LockError::InvalidName { length: name.len() });
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
    fn second_holder_gets_the_description_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = ConversationLock::acquire(dir.path(), "c", "host 1").unwrap();
        match ConversationLock::acquire(dir.path(), "c", "host 2") {
            Err(LockError::Held { holder: by }) => assert_eq!(by, "host 1"),
            other => panic!("{other:?}"),
        }
        ConversationLock::acquire(dir.path(), "another", "host 2").unwrap();
        drop(first);
        ConversationLock::acquire(dir.path(), "c", "host 2").unwrap();
        assert_eq!(files(dir.path()), 0);
    }

    #[test]
    fn stale_lock_file_is_reused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c.lock"), "a host that died long ago").unwrap();
        let held = ConversationLock::acquire(dir.path(), "c", "me").unwrap();
        assert_eq!(std::fs::read_to_string(&held.path).unwrap(), "me");
    }

    #[test]
    fn recreated_lock_file_belongs_to_its_new_holder() {
        let dir = tempfile::tempdir().unwrap();
        let old = ConversationLock::acquire(dir.path(), "c", "old").unwrap();
        std::fs::remove_file(&old.path).unwrap();
        let new = ConversationLock::acquire(dir.path(), "c", "new").unwrap();
        drop(old);
        assert!(new.path.exists(), "the old holder removed the new holder's file");
        assert!(ConversationLock::acquire(dir.path(), "c", "third").is_err());
    }

    #[test]
    fn lock_has_one_holder_at_a_time() {
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
    fn conversation_names_become_plain_file_names() {
        assert_eq!(lock_file_name("a/../b c").unwrap(), "a%2f..%2fb%20c.lock");
        assert_ne!(lock_file_name("a/b").unwrap(), lock_file_name("a%2fb").unwrap());
        assert!(matches!(lock_file_name(""), Err(LockError::InvalidName { length: 0 })));
        assert!(matches!(lock_file_name(&"x".repeat(241)), Err(LockError::InvalidName { length: 241 })));
    }

    #[test]
    fn symlink_in_place_of_the_lock_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join("c.lock")).unwrap();
        assert!(matches!(ConversationLock::acquire(dir.path(), "c", "me"), Err(LockError::Io { .. })));
        assert_eq!(std::fs::read_to_string(target).unwrap(), "text");
    }
}
