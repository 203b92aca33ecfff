//! Reads files to attach, within the size limits.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ahp_types::state::{MessageAttachment, MessageEmbeddedResourceAttachment, MessageResourceAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::{AttachmentErrorCode, AttachmentLimits};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::content_type::guess_content_type;
use super::plan::{AttachmentPlanResponse, FilePlanResponse, format_size};
use crate::environment::HostEnvironment;
use crate::exit::{CommandFailure, Exit};

/// Argument that means standard input.
const STDIN: &str = "-";

/// Reads all attachments in their order. The outer error is about the command line; the inner one is about files
/// that exist and are not sent.
pub(crate) async fn read_attachments(
    names: &[OsString],
    limits: &AttachmentLimits,
    environment: &HostEnvironment,
    stdin: &mut (dyn AsyncRead + Send + Unpin),
) -> Result<Result<Vec<MessageAttachment>, AttachmentPlanResponse>, CommandFailure> {
    if names.len() > limits.files {
        let text = format!("{} files are attached, and a message may carry {}.", names.len(), limits.files);
        return Err(CommandFailure::new(Exit::Usage, text));
    }
    if names.iter().filter(|name| *name == STDIN).count() > 1 {
        return Err(CommandFailure::new(Exit::Usage, "stdin can be attached only once."));
    }
    let mut reader = AttachmentReader { limits, environment, remaining_bytes: limits.total_bytes as u64 };
    let (mut attachments, mut refused, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match reader.read(name, stdin).await {
            Ok(attachment) => attachments.push(attachment),
            Err(AttachmentReadError::Unreadable(why)) => {
                unreadable.push(format!("{} cannot be attached: {why}.", display_name(name)))
            }
            Err(AttachmentReadError::TooLarge(why)) => {
                refused.push(FilePlanResponse::new_refused(attachment_label(name), AttachmentErrorCode::TooLarge, why))
            }
        }
    }
    if !unreadable.is_empty() {
        return Err(CommandFailure::new(Exit::Usage, unreadable.join("\n")));
    }
    Ok(if refused.is_empty() {
        Ok(attachments)
    } else {
        Err(AttachmentPlanResponse { ok: false, reason: None, files: refused })
    })
}

struct AttachmentReader<'a> {
    limits: &'a AttachmentLimits,
    environment: &'a HostEnvironment,
    /// Bytes that the message may still carry.
    remaining_bytes: u64,
}

enum AttachmentReadError {
    Unreadable(String),
    TooLarge(String),
}

impl From<std::io::Error> for AttachmentReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl AttachmentReader<'_> {
    async fn read(
        &mut self,
        name: &OsStr,
        stdin: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<MessageAttachment, AttachmentReadError> {
        if name == STDIN {
            let contents = self.read_contents(stdin).await?;
            return Ok(embedded_attachment("stdin".to_owned(), Path::new(""), &contents));
        }
        let path = self.environment.resolve_path(Path::new(name));
        let facts = tokio::fs::metadata(&path).await?;
        if facts.is_dir() {
            return directory_attachment(&path);
        }
        if !facts.is_file() {
            // Opening a named pipe may block forever.
            return Err(AttachmentReadError::Unreadable(
                "it is neither a file nor a directory; - attaches stdin".to_owned(),
            ));
        }
        self.check_size(facts.len())?;
        let mut file = tokio::fs::File::open(&path).await?;
        let contents = self.read_contents(&mut file).await?;
        Ok(embedded_attachment(attachment_label(name), &path, &contents))
    }

    /// Reads at most a little more than the limit, because the reported size may be wrong.
    async fn read_contents(
        &mut self,
        source: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Vec<u8>, AttachmentReadError> {
        let most = self.remaining_bytes.min(self.limits.file_bytes as u64);
        let mut contents = Vec::new();
        source.take(most + 1).read_to_end(&mut contents).await?;
        self.check_size(contents.len() as u64)?;
        self.remaining_bytes -= contents.len() as u64;
        Ok(contents)
    }

    fn check_size(&self, bytes: u64) -> Result<(), AttachmentReadError> {
        let (file, total) = (self.limits.file_bytes as u64, self.limits.total_bytes as u64);
        if bytes > file {
            return Err(AttachmentReadError::TooLarge(format!(
                "it is larger than {}, the most that one file may be",
                format_size(file)
            )));
        }
        if bytes > self.remaining_bytes {
            let total = format_size(total);
            return Err(AttachmentReadError::TooLarge(format!(
                "the files together are larger than {total}, the most for a message"
            )));
        }
        Ok(())
    }
}

fn embedded_attachment(label: String, name: &Path, contents: &[u8]) -> MessageAttachment {
    let content_type = guess_content_type(name, contents);
    MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
        label,
        range: None,
        display_kind: Some(if content_type.starts_with("image/") { "image" } else { "document" }.to_owned()),
        meta: None,
        data: STANDARD.encode(contents),
        content_type: content_type.to_owned(),
        selection: None,
    })
}

fn directory_attachment(path: &Path) -> Result<MessageAttachment, AttachmentReadError> {
    let uri = url::Url::from_file_path(path)
        .map_err(|()| AttachmentReadError::Unreadable("its path cannot be written as a URI".to_owned()))?;
    Ok(MessageAttachment::Resource(MessageResourceAttachment {
        label: attachment_label(path.as_os_str()),
        range: None,
        display_kind: Some("directory".to_owned()),
        meta: None,
        uri: uri.into(),
        size_hint: None,
        content_type: None,
        nonce: None,
        selection: None,
    }))
}

/// Returns the last component of a path; for `.` and the like, the whole path.
fn attachment_label(name: &OsStr) -> String {
    if name == STDIN {
        return "stdin".to_owned();
    }
    Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned()
}

/// Formats a file name for a sentence.
fn display_name(name: &OsStr) -> String {
    crate::console::to_one_line(&name.to_string_lossy())
}
