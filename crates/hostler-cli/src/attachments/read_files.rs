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
        let text = format!("Too many attachments: {}. A message can have {}.", names.len(), limits.files);
        return Err(CommandFailure::new(Exit::Usage, "tooManyAttachments", text));
    }
    if names.iter().filter(|name| *name == STDIN).count() > 1 {
        return Err(CommandFailure::new(Exit::Usage, "invalidArguments", "stdin can be attached only once."));
    }
    let mut reader = AttachmentReader { limits, environment, remaining_bytes: limits.total_bytes as u64 };
    let (mut attachments, mut refused, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let mut unreadable_code = None;
    for name in names {
        match reader.read(name, stdin).await {
            Ok(attachment) => attachments.push(attachment),
            Err(error) => match error.refusal_code() {
                Some(code) => {
                    refused.push(FilePlanResponse::new_refused(attachment_label(name), code, error.to_string()));
                }
                None => {
                    unreadable_code.get_or_insert(error.code());
                    unreadable.push(format!("Cannot attach {}: {error}.", display_name(name)));
                }
            },
        }
    }
    if let Some(code) = unreadable_code {
        return Err(CommandFailure::new(Exit::Usage, code, unreadable.join("\n")));
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

/// Why a file cannot be attached.
#[derive(Debug, thiserror::Error)]
enum AttachmentReadError {
    #[error("file not found")]
    NotFound,
    #[error("permission denied")]
    PermissionDenied,
    #[error("not a file or directory. Use - to attach stdin")]
    NotAFile,
    #[error("the path cannot be written as a URI")]
    InvalidPath,
    #[error("{0}")]
    Io(std::io::Error),
    #[error("larger than {}, the limit for one file", format_size(*.limit_bytes))]
    FileTooLarge { limit_bytes: u64 },
    #[error("the files together are larger than {}, the limit for one message", format_size(*.limit_bytes))]
    TotalTooLarge { limit_bytes: u64 },
}

impl AttachmentReadError {
    /// Returns the code for programs.
    fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "fileNotFound",
            Self::PermissionDenied => "permissionDenied",
            Self::NotAFile => "notAFile",
            Self::InvalidPath => "invalidPath",
            Self::Io(_) => "ioError",
            Self::FileTooLarge { .. } | Self::TotalTooLarge { .. } => AttachmentErrorCode::TooLarge.as_str(),
        }
    }

    /// Returns the code of the attachment plan, if the file is readable and its message would be refused.
    fn refusal_code(&self) -> Option<AttachmentErrorCode> {
        match self {
            Self::FileTooLarge { .. } | Self::TotalTooLarge { .. } => Some(AttachmentErrorCode::TooLarge),
            _ => None,
        }
    }
}

impl From<std::io::Error> for AttachmentReadError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::NotFound,
            std::io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            _ => Self::Io(error),
        }
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
        let metadata = tokio::fs::metadata(&path).await?;
        if metadata.is_dir() {
            return directory_attachment(&path);
        }
        if !metadata.is_file() {
            // Opening a named pipe may block forever.
            return Err(AttachmentReadError::NotAFile);
        }
        self.check_size(metadata.len())?;
        let mut file = tokio::fs::File::open(&path).await?;
        let contents = self.read_contents(&mut file).await?;
        Ok(embedded_attachment(attachment_label(name), &path, &contents))
    }

    /// Reads at most a little more than the limit, because the reported size may be wrong.
    async fn read_contents(
        &mut self,
        source: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Vec<u8>, AttachmentReadError> {
        let limit = self.remaining_bytes.min(self.limits.file_bytes as u64);
        let mut contents = Vec::new();
        source.take(limit + 1).read_to_end(&mut contents).await?;
        self.check_size(contents.len() as u64)?;
        self.remaining_bytes -= contents.len() as u64;
        Ok(contents)
    }

    fn check_size(&self, bytes: u64) -> Result<(), AttachmentReadError> {
        let (file_limit, total_limit) = (self.limits.file_bytes as u64, self.limits.total_bytes as u64);
        if bytes > file_limit {
            return Err(AttachmentReadError::FileTooLarge { limit_bytes: file_limit });
        }
        if bytes > self.remaining_bytes {
            return Err(AttachmentReadError::TotalTooLarge { limit_bytes: total_limit });
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
    let uri = url::Url::from_file_path(path).map_err(|()| AttachmentReadError::InvalidPath)?;
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
