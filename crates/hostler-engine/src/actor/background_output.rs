//! Reads the output of background work from the file that the agent has named for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hostler_files::{FileError, Roots};
use tokio::sync::oneshot;

use super::SessionActor;
use crate::EngineError;

/// Maximum size of the returned output, counted from the end.
const MAX_BACKGROUND_OUTPUT_BYTES: u64 = 64 * 1024;

/// The last output of a piece of background work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundOutput {
    /// The text.
    pub output: String,
    /// Whether earlier output was left out.
    pub truncated: bool,
}

impl SessionActor {
    /// Reads the output of a piece of work for a client.
    pub(super) fn read_background_output(
        &self,
        id: &str,
        reply: oneshot::Sender<Result<BackgroundOutput, EngineError>>,
    ) {
        let connection = self.agent.connection().filter(|_| self.background_tasks.contains_key(id));
        let Some((connection, _)) = connection else {
            let _ = reply.send(Err(EngineError::BackgroundWorkNotFound(id.to_owned())));
            return;
        };
        let Some(path) = connection.task_output_path(id) else {
            let reason = "the agent did not report an output file".to_owned();
            let _ = reply.send(Err(EngineError::BackgroundOutputUnavailable { id: id.to_owned(), reason }));
            return;
        };
        let id = id.to_owned();
        self.host.tasks.spawn_blocking(move || {
            let output = read_file_tail(&path)
                .map_err(|error| EngineError::BackgroundOutputUnavailable { id, reason: error.to_string() });
            // The requester may have disconnected.
            let _ = reply.send(output);
        });
    }
}

/// The end of a regular file. A link must not point out of its directory or to a file of another name.
fn read_file_tail(path: &Path) -> Result<BackgroundOutput, FileError> {
    let directory = path.parent().map(PathBuf::from).ok_or(FileError::NotFound)?;
    let opened = Roots::new([directory]).open(path)?;
    let same = |part: fn(&Path) -> Option<&OsStr>| part(&opened.resolved().path) == part(path);
    if !same(Path::file_name) || !same(|path| path.parent().and_then(Path::file_name)) {
        return Err(FileError::Outside);
    }
    let (contents, truncated) = opened.read_tail(MAX_BACKGROUND_OUTPUT_BYTES)?;
    Ok(BackgroundOutput { output: String::from_utf8_lossy(&contents).into_owned(), truncated })
}
