//! One TOML file of the state directory that several processes read and change.
//!
//! A [`StateFile`] owns the path and the last contents that could be read. Every read compares the file's modification
//! time, so a change by another process takes effect at the next read. A writer locks the directory, reads the file
//! again, and replaces it in one step: no change is lost, and a reader sees the old file or the new one. Errors state
//! what is wrong and where, without quoting the file.
//!
//! The crate does not know what the contents mean.

#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hostler_redact::redact_serde_error;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Size limit for reads and writes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Why a file could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StateFileError {
    /// The contents are not valid.
    #[error("failed to read {path}: {problem}; repair or delete the file")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong, without quoting the contents.
        problem: String,
    },
    /// The file cannot be written.
    #[error("failed to write {path}: {problem}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        problem: String,
    },
}

impl StateFileError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "stateFileUnreadable",
            Self::Unwritable { .. } => "stateFileUnwritable",
        }
    }
}

/// Why a new file could not be written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("failed to serialize the contents: {0}")]
    Serialize(#[from] toml::ser::Error),
    #[error("the file would be larger than 4 MiB; remove entries first")]
    TooLarge,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The contents at one moment.
#[derive(Debug)]
pub struct StateFileContents<T> {
    /// Increases with every change of the file.
    pub version: u64,
    /// The last contents that could be read.
    pub value: Arc<T>,
    /// Why the current file cannot be read.
    pub read_error: Option<String>,
}

/// Identifies a version of the file on disk.
type ModificationStamp = Option<(SystemTime, u64)>;

#[derive(Debug)]
struct LoadedContents<T> {
    stamp: ModificationStamp,
    version: u64,
    value: Arc<T>,
    read_error: Option<String>,
}

/// A file and its last known contents. A missing file has the default value.
#[derive(Debug)]
pub struct StateFile<T> {
    path: PathBuf,
    loaded: Mutex<LoadedContents<T>>,
}

impl<T: Default + Serialize + DeserializeOwned> StateFile<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn open(path: PathBuf) -> Result<Self, StateFileError> {
        let (stamp, value) = read_file(&path)?;
        let loaded = LoadedContents { stamp, version: 0, value: Arc::new(value), read_error: None };
        Ok(Self { path, loaded: Mutex::new(loaded) })
    }

    /// Opens a file even if it cannot be read; then [`StateFileContents::read_error`] is set.
    pub fn open_lenient(path: PathBuf) -> Self {
        let (stamp, value, broken) = match read_file(&path) {
            Ok((stamp, value)) => (stamp, value, None),
            Err(error) => (read_stamp(&path), T::default(), Some(error.to_string())),
        };
        Self {
            path,
            loaded: Mutex::new(LoadedContents { stamp, version: 0, value: Arc::new(value), read_error: broken }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LoadedContents<T>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current contents. If the file cannot be read, the last contents with the error.
    pub fn current(&self) -> StateFileContents<T> {
        let mut loaded = self.lock();
        if read_stamp(&self.path) != loaded.stamp {
            let version = loaded.version + 1;
            match read_file(&self.path) {
                Ok((stamp, value)) => {
                    *loaded = LoadedContents { stamp, version, value: Arc::new(value), read_error: None };
                }
                Err(error) => {
                    tracing::error!(%error, "failed to read a file of the state directory");
                    loaded.stamp = read_stamp(&self.path);
                    loaded.version = version;
                    loaded.read_error = Some(error.to_string());
                }
            }
        }
        StateFileContents {
            version: loaded.version,
            value: Arc::clone(&loaded.value),
            read_error: loaded.read_error.clone(),
        }
    }

    /// Changes the contents under the directory's lock. Nothing is written if `change` returns `false`. Blocks.
    ///
    /// # Errors
    /// The error of `change`, or that the file cannot be read or written. Nothing has changed then.
    pub fn change<E: From<StateFileError>>(&self, change: impl FnOnce(&mut T) -> Result<bool, E>) -> Result<bool, E> {
        let unwritable = |problem: String| StateFileError::Unwritable { path: self.path.clone(), problem };
        let mut loaded = self.lock();
        let directory = self.path.parent().ok_or_else(|| unwritable("the path has no parent directory".to_owned()))?;
        let locked = lock_directory(directory).map_err(|error| unwritable(error.to_string()))?;
        let (_, mut value) = read_file(&self.path)?;
        if !change(&mut value)? {
            return Ok(false);
        }
        write_file(&self.path, directory, &value).map_err(|error| unwritable(error.to_string()))?;
        let version = loaded.version + 1;
        *loaded = LoadedContents { stamp: read_stamp(&self.path), version, value: Arc::new(value), read_error: None };
        drop(locked);
        Ok(true)
    }
}

/// Prevents changes by other processes until the handle is dropped. The lock is on the directory because every change
/// replaces the file.
fn lock_directory(directory: &Path) -> io::Result<std::fs::File> {
    let handle = fs_err::File::open(directory)?.into_file();
    handle.lock()?;
    Ok(handle)
}

fn read_stamp(path: &Path) -> ModificationStamp {
    let facts = fs_err::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

fn read_file<T: Default + DeserializeOwned>(path: &Path) -> Result<(ModificationStamp, T), StateFileError> {
    let unreadable = |problem: String| StateFileError::Unreadable { path: path.to_owned(), problem };
    // The stamp is read before the contents, so a change in between causes another read.
    let stamp = read_stamp(path);
    let mut text = String::new();
    let read = fs_err::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() as u64 > MAX_FILE_BYTES => Err(unreadable("the file is larger than 4 MiB".to_owned())),
        Ok(_) => Ok((stamp, toml::from_str(&text).map_err(|error| unreadable(describe_toml_error(&text, &error)))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, T::default())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Describes the error and its line without quoting the contents: errors are logged, and contents can contain a
/// password.
fn describe_toml_error(text: &str, error: &toml::de::Error) -> String {
    let fault = redact_serde_error(error.message()).unwrap_or_else(|| error.message().to_owned());
    match error.span() {
        Some(span) => {
            let line = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            format!("{fault} (line {line})")
        }
        None => fault,
    }
}

/// Writes a new file that only its owner can read, and replaces the old one with it.
fn write_file<T: Serialize>(path: &Path, directory: &Path, value: &T) -> Result<(), WriteError> {
    let text = toml::to_string_pretty(value)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(WriteError::TooLarge);
    }
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(io::Error::from)?;
    Ok(fs_err::File::open(directory)?.sync_all()?)
}
