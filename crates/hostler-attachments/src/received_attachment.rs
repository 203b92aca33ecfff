//! Attachments as a client sent them. Names, types and sizes are not trusted.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::DisplayName;

/// One received attachment.
#[derive(Clone)]
pub struct ReceivedAttachment {
    /// Name given by the client; may contain anything.
    pub name: String,
    /// Media type declared by the client. Only a hint.
    pub declared_media_type: Option<String>,
    /// Size declared by the client; if it is wrong, the attachment is rejected.
    pub declared_size: Option<u64>,
    /// Its contents.
    pub source: AttachmentSource,
}

impl ReceivedAttachment {
    /// An attachment with only a name and contents.
    pub fn new(name: impl Into<String>, source: AttachmentSource) -> Self {
        Self { name: name.into(), declared_media_type: None, declared_size: None, source }
    }
}

/// Contents of an attachment.
#[derive(Clone)]
pub enum AttachmentSource {
    /// Base64, as on the wire.
    Base64(String),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// A file or directory on the agent's machine, sent as a path.
    Reference(FileReference),
    /// Text that a client wrote for the model.
    Text(String),
}

/// A file or directory that the agent reads itself. The caller has checked that it may.
#[derive(Clone, PartialEq, Eq)]
pub struct FileReference {
    /// The path.
    pub path: PathBuf,
    /// File or directory.
    pub kind: FileReferenceKind,
    /// The selected part, if any.
    pub selection: Option<LineSelection>,
}

/// What a reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileReferenceKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A range of lines, counted from 1.
#[derive(Clone, PartialEq, Eq)]
pub struct LineSelection {
    /// The first line.
    pub first_line: u64,
    /// The last line.
    pub last_line: u64,
    /// The selected text, if known.
    pub text: Option<String>,
}

// Contents and paths are private, and the declared type may contain anything, so only the display name, kinds and sizes
// are shown.
impl fmt::Debug for ReceivedAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedAttachment")
            .field("name", &DisplayName::new(&self.name))
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AttachmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base64(text) => write!(f, "Base64({} bytes)", text.len()),
            Self::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
            Self::Reference(reference) => write!(f, "Reference({:?})", reference.kind),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
        }
    }
}

impl fmt::Debug for FileReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({:?})", self.kind)
    }
}

impl fmt::Debug for LineSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selection({}..={})", self.first_line, self.last_line)
    }
}
