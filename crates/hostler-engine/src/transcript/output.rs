//! What an event means for clients: actions, and the contents that they name instead of carrying them.

use ahp_types::StateAction;
use ahp_types::state::{ContentRef, ToolInput};
use hostler_store::Blob;

/// What is longer is named instead of carried, so that states and envelopes stay small.
pub(crate) const INLINE: usize = 16 * 1024;

/// The scheme of contents that this host serves by their hash.
pub(crate) const CONTENT_SCHEME: &str = "ahp-content:/";

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
            uri: format!("{CONTENT_SCHEME}{}", blob.hash()),
            size_hint: i64::try_from(blob.body().len()).ok(),
            content_type: Some(content_type.to_owned()),
            nonce: None,
        };
        self.blobs.push(blob);
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
