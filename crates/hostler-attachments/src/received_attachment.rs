use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::DisplayName;

/// One attachment as it was received.
#[derive(Clone)]
pub struct ReceivedAttachment {
    /// What the client calls it. Anything may stand here.
    pub name: String,
    /// What kind of contents the client says that it is. A hint, never believed.
    pub declared_media_type: Option<String>,
    /// How many bytes the client says that its contents have. Not believed either: if it is wrong, the file is refused.
    pub declared_size: Option<u64>,
    /// Where its contents are.
    pub source: AttachmentSource,
}

impl ReceivedAttachment {
    /// One of which nothing but a name and its contents is said.
    pub fn new(name: impl Into<String>, source: AttachmentSource) -> Self {
        Self { name: name.into(), declared_media_type: None, declared_size: None, source }
    }
}

/// Where an attachment's contents are.
#[derive(Clone)]
pub enum AttachmentSource {
    /// Here, as the wire carries them.
    Base64(String),
    /// Here.
    Bytes(Arc<[u8]>),
    /// On the machine of the agent, which is told where.
    Reference(FileReference),
    /// Words that a client wrote for the model.
    Text(String),
}

/// A file or directory that the agent can look at by itself. Whether it may has been checked.
#[derive(Clone, PartialEq, Eq)]
pub struct FileReference {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub kind: FileReferenceKind,
    /// The part of it that is meant.
    pub selection: Option<LineSelection>,
}

/// What a reference leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileReferenceKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A part of a text, by lines that count from 1.
#[derive(Clone, PartialEq, Eq)]
pub struct LineSelection {
    /// The first line.
    pub first_line: u64,
    /// The last line.
    pub last_line: u64,
    /// What is selected, where it is known.
    pub text: Option<String>,
}

// Contents and paths are people's own, and a client may write anything where it declares a type.
impl fmt::Debug for ReceivedAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
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
            Self::Text(words) => write!(f, "Words({} bytes)", words.len()),
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
