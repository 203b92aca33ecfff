//! What an event means for clients: actions, and the contents that they name instead of carrying them.

use ahp_types::StateAction;
use ahp_types::state::{ContentRef, ToolInput};
use hostler_store::Blob;

/// What is longer is named instead of carried, so that states and envelopes stay small.
pub(crate) const INLINE: usize = 16 * 1024;

/// The scheme of contents that this host serves by their hash. A name may follow the hash, behind a slash: clients show it,
/// and take from it which language a text is written in.
const CONTENT_SCHEME: &str = "ahp-content:/";

/// The URI of contents without a name.
pub(crate) fn content_uri(blob: &Blob) -> String {
    format!("{CONTENT_SCHEME}{}", blob.hash())
}

/// The hash in the URI of contents.
pub(crate) fn content_hash(uri: &str) -> Option<&str> {
    uri.strip_prefix(CONTENT_SCHEME)?.split('/').next()
}

/// Actions of the chat, in order, and the contents that they name.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) actions: Vec<StateAction>,
    pub(crate) blobs: Vec<Blob>,
}

impl From<StateAction> for Output {
    fn from(action: StateAction) -> Self {
        Self { actions: vec![action], blobs: Vec::new() }
    }
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(crate) fn push(&mut self, action: StateAction) {
        self.actions.push(action);
    }

    /// Keeps contents aside and names them.
    pub(crate) fn refer(&mut self, content_type: &str, body: String) -> ContentRef {
        let blob = Blob::new(content_type, body.into_bytes());
        let reference = ContentRef {
            uri: content_uri(&blob),
            size_hint: i64::try_from(blob.body().len()).ok(),
            content_type: Some(content_type.to_owned()),
            nonce: None,
        };
        self.blobs.push(blob);
        reference
    }

    /// Keeps the contents of a file aside, under the last part of the file's own URI.
    pub(crate) fn refer_file(&mut self, file: &str, body: String) -> ContentRef {
        let mut reference = self.refer("text/plain", body);
        if let Some((_, name)) = file.rsplit_once('/').filter(|(_, name)| !name.is_empty()) {
            reference.uri = format!("{}/{name}", reference.uri);
        }
        reference
    }

    /// A call's input, carried or named.
    pub(crate) fn tool_input(&mut self, json: &str) -> ToolInput {
        if json.len() <= INLINE {
            ToolInput::Inline(json.to_owned())
        } else {
            ToolInput::ContentRef(self.refer("application/json", json.to_owned()))
        }
    }
}

/// The beginning of a text, cut between characters.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
