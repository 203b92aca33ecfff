//! Opens the user's editor on our terminal.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::environment::HostEnvironment;
use crate::terminal_mode::TermiosGuard;

/// Maximum size of an edited text; hosts accept less.
const MAX_EDITED_BYTES: u64 = 16 << 20;

/// Why there is no edited text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditorError {
    /// The editor cannot be started, or its file cannot be used.
    #[error("Failed to open the editor `{command}`: {reason}.")]
    Unusable { command: String, reason: String },
    /// The editor ended with a failure.
    #[error("The editor `{command}` failed ({status}). The input is unchanged.")]
    Failed { command: String, status: String },
}

/// Command that edits a text.
#[derive(Debug, Clone)]
pub(crate) struct TextEditor {
    command: OsString,
    temp_dir: PathBuf,
}

impl TextEditor {
    /// Uses `$VISUAL`, or `$EDITOR`.
    pub(crate) fn from_environment(environment: &HostEnvironment) -> Option<Self> {
        let command = environment.var("VISUAL").or_else(|| environment.var("EDITOR"))?.to_owned();
        Some(Self { command, temp_dir: environment.temp_dir.clone() })
    }

    /// Opens a text in the editor and returns the edited text. Dropping the future ends the editor.
    pub(crate) fn edit(&self, text: String) -> BoxFuture<'static, Result<String, EditorError>> {
        let Self { command, temp_dir } = self.clone();
        run_editor(command, temp_dir, text).boxed()
    }
}

async fn run_editor(command: OsString, temp_dir: PathBuf, text: String) -> Result<String, EditorError> {
    let name = command.to_string_lossy().into_owned();
    let unusable = |error: std::io::Error| EditorError::Unusable { command: name.clone(), reason: error.to_string() };
    // A private directory of its own: files that the editor leaves beside the text are removed with it.
    let directory = tempfile::Builder::new().prefix("hostler-edit-").tempdir_in(temp_dir).map_err(unusable)?;
    let file = directory.path().join("input.json");
    fs_err::write(&file, text).map_err(unusable)?;
    // The variable may contain arguments, so the shell splits it.
    let mut script = command.clone();
    script.push(" \"$@\"");
    let mut editor = tokio::process::Command::new("/bin/sh");
    editor.arg("-c").arg(script).arg(command).arg(&file).kill_on_drop(true);
    // Output for people goes to stderr; stdout may be a file.
    editor.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_err(unusable)?);
    let terminal = TermiosGuard::capture();
    let status = editor.status().await.map_err(unusable)?;
    drop(terminal);
    if !status.success() {
        return Err(EditorError::Failed { command: name.clone(), status: status.to_string() });
    }
    let mut edited = String::new();
    let file = fs_err::File::open(&file).map_err(unusable)?;
    file.take(MAX_EDITED_BYTES).read_to_string(&mut edited).map_err(unusable)?;
    Ok(edited)
}
