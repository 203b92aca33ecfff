//! Reads what is to be attached, within the limits.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ahp_types::state::{MessageAttachment, MessageEmbeddedResourceAttachment, MessageResourceAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::{Code, Limits};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::content_type::guess;
use super::plan::{FilePlan, Plan, size};
use crate::environment::HostEnvironment;
use crate::exit::{Exit, Failure};

/// Stands for what comes on stdin.
const STDIN: &str = "-";

/// Everything that is to be attached, in its order. The outer failure is about the command line; the inner one about files
/// that are there and are not sent.
pub(crate) async fn attached(
    names: &[OsString],
    limits: &Limits,
    environment: &HostEnvironment,
    stdin: &mut (dyn AsyncRead + Send + Unpin),
) -> Result<Result<Vec<MessageAttachment>, Plan>, Failure> {
    if names.len() > limits.files {
        let text = format!("{} files are attached, and a message may carry {}.", names.len(), limits.files);
        return Err(Failure::new(Exit::Usage, text));
    }
    if names.iter().filter(|name| *name == STDIN).count() > 1 {
        return Err(Failure::new(Exit::Usage, "stdin can be attached only once."));
    }
    let mut reader = Reader { limits, environment, left: limits.total_bytes as u64 };
    let (mut attachments, mut refused, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match reader.read(name, stdin).await {
            Ok(attachment) => attachments.push(attachment),
            Err(Problem::Unreadable(why)) => unreadable.push(format!("{} cannot be attached: {why}.", shown(name))),
            Err(Problem::TooLarge(why)) => refused.push(FilePlan::refused(label(name), Code::TooLarge, why)),
        }
    }
    if !unreadable.is_empty() {
        return Err(Failure::new(Exit::Usage, unreadable.join("\n")));
    }
    Ok(if refused.is_empty() { Ok(attachments) } else { Err(Plan { ok: false, reason: None, files: refused }) })
}

struct Reader<'a> {
    limits: &'a Limits,
    environment: &'a HostEnvironment,
    /// How many bytes the message may still carry.
    left: u64,
}

enum Problem {
    Unreadable(String),
    TooLarge(String),
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl Reader<'_> {
    async fn read(
        &mut self,
        name: &OsStr,
        stdin: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<MessageAttachment, Problem> {
        if name == STDIN {
            let contents = self.contents(stdin).await?;
            return Ok(embedded("stdin".to_owned(), Path::new(""), &contents));
        }
        let path = self.environment.absolute(Path::new(name));
        let facts = tokio::fs::metadata(&path).await?;
        if facts.is_dir() {
            return directory(&path);
        }
        if !facts.is_file() {
            // Whoever opens a pipe may wait for ever.
            return Err(Problem::Unreadable("it is neither a file nor a directory; - attaches stdin".to_owned()));
        }
        self.fits(facts.len())?;
        let mut file = tokio::fs::File::open(&path).await?;
        let contents = self.contents(&mut file).await?;
        Ok(embedded(label(name), &path, &contents))
    }

    /// Reads not much more than may be sent, whatever the size was said to be.
    async fn contents(&mut self, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Vec<u8>, Problem> {
        let most = self.left.min(self.limits.file_bytes as u64);
        let mut contents = Vec::new();
        source.take(most + 1).read_to_end(&mut contents).await?;
        self.fits(contents.len() as u64)?;
        self.left -= contents.len() as u64;
        Ok(contents)
    }

    fn fits(&self, bytes: u64) -> Result<(), Problem> {
        let (file, total) = (self.limits.file_bytes as u64, self.limits.total_bytes as u64);
        if bytes > file {
            return Err(Problem::TooLarge(format!("it is larger than {}, the most that one file may be", size(file))));
        }
        if bytes > self.left {
            let total = size(total);
            return Err(Problem::TooLarge(format!(
                "the files together are larger than {total}, the most for a message"
            )));
        }
        Ok(())
    }
}

fn embedded(label: String, name: &Path, contents: &[u8]) -> MessageAttachment {
    let content_type = guess(name, contents);
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

fn directory(path: &Path) -> Result<MessageAttachment, Problem> {
    let uri = url::Url::from_file_path(path)
        .map_err(|()| Problem::Unreadable("its path cannot be written as a URI".to_owned()))?;
    Ok(MessageAttachment::Resource(MessageResourceAttachment {
        label: label(path.as_os_str()),
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

/// The last part of a path; of `.` and the like, all of it.
fn label(name: &OsStr) -> String {
    if name == STDIN {
        return "stdin".to_owned();
    }
    Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned()
}

/// How a file is called in a sentence.
fn shown(name: &OsStr) -> String {
    crate::console::one_line(&name.to_string_lossy())
}
