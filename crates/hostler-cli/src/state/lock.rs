//! Lock that allows one host per state directory.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::time::Duration;

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;

use super::{StateDir, StateError};

pub(super) const LOCK_FILE: &str = "host.lock";

/// Attempts to take the lock. A process that checks whether a host runs holds it for microseconds, so one failure
/// proves nothing.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Right to run a host on a state directory, held until dropped or until the process ends.
#[derive(Debug)]
pub(crate) struct HostLock {
    _file: File,
}

impl HostLock {
    /// Takes the lock, or returns which process holds it.
    pub(crate) async fn acquire(directory: &StateDir) -> Result<Self, StateError> {
        let mut file = open_lock_file(directory)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => tokio::time::sleep(LOCK_RETRY_DELAY).await,
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                    return Err(StateError::InUse { path: directory.path().to_owned(), pid });
                }
            }
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }

    /// Returns whether a process holds the lock.
    pub(crate) fn is_held(directory: &StateDir) -> Result<bool, StateError> {
        // Checking creates no file.
        let file = match fs::File::open(directory.join(LOCK_FILE)) {
            Ok(file) => file.into_parts().0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

fn open_lock_file(directory: &StateDir) -> Result<File, StateError> {
    // Not truncated: the text belongs to the process that holds the lock.
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    Ok(options.open(directory.join(LOCK_FILE))?.into_parts().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn second_host_gets_the_pid_of_the_lock_holder() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDir::open(scratch.path()).unwrap();
        let first = HostLock::acquire(&directory).await.unwrap();
        assert!(HostLock::is_held(&directory).unwrap());

        let refusal = HostLock::acquire(&directory).await.unwrap_err();
        assert!(refusal.to_string().contains(&format!("(process {})", std::process::id())), "{refusal}");

        drop(first);
        assert!(!HostLock::is_held(&directory).unwrap());
        HostLock::acquire(&directory).await.unwrap();
    }
}
