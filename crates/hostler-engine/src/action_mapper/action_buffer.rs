//! What an event means for clients: actions, and the contents that they name instead of carrying them.

use ahp_types::StateAction;
use ahp_types::state::{ContentRef, ToolInput};
use hostler_store::Blob;

/// What is longer is named instead of carried, so that states and envelopes stay small.
pub(crate) const MAX_INLINE_BYTES: usize = 16 * 1024;

/// The scheme of contents that this host serves by their hash. A name may follow the hash, behind a slash: clients show it,
/// and take from it which language a text is written in.
const CONTENT_SCHEME: &str = "ahp-content:/";

/// The URI of contents without a name.
pub(crate) fn content_uri(blob: &Blob) -> String {
    format!("{CONTENT_SCHEME}{}", blob.hash())
}

/// The URI of contents with the name that they had where they come from: the last part of a URI's path, if it is a name
/// that can stand in a URI.
pub(crate) fn named_content_uri(blob: &Blob, origin: &str) -> String {
    let path = origin.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let fits = |name: &str| (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    match fits(name) && name != blob.hash() {
        true => format!("{}/{name}", content_uri(blob)),
        false => content_uri(blob),
    }
}

/// The hash in the URI of contents.
pub(crate) fn content_hash(uri: &str) -> Option<&str> {
    uri.strip_prefix(CONTENT_SCHEME)?.split('/').next()
}

/// Actions of the chat, in order, and the contents that they name.
#[derive(Debug, Default)]
pub(crate) struct ActionBuffer {
    pub(crate) actions: Vec<StateAction>,
    pub(crate) blobs: Vec<Blob>,
}

impl From<StateAction> for ActionBuffer {
    fn from(action: StateAction) -> Self {
        Self { actions: vec![action], blobs: Vec::new() }
    }
}

impl ActionBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(crate) fn push(&mut self, action: StateAction) {
        self.actions.push(action);
    }

    /// Keeps contents aside and names them.
    pub(crate) fn add_blob(&mut self, content_type: &str, body: String) -> ContentRef {
        self.add_named_blob("", content_type, body)
    }

    /// The same for the text of a file.
    pub(crate) fn add_file_blob(&mut self, file: &str, body: String) -> ContentRef {
        self.add_named_blob(file, "text/plain", body)
    }

    fn add_named_blob(&mut self, origin: &str, content_type: &str, body: String) -> ContentRef {
        let blob = Blob::new(content_type, body.into_bytes());
        let reference = ContentRef {
            uri: named_content_uri(&blob, origin),
            size_hint: i64::try_from(blob.body().len()).ok(),
            content_type: Some(content_type.to_owned()),
            nonce: None,
        };
        self.blobs.push(blob);
        reference
    }

    /// A call's input, carried or named.
    pub(crate) fn tool_input(&mut self, json: &str) -> ToolInput {
        if json.len() <= MAX_INLINE_BYTES {
            ToolInput::Inline(json.to_owned())
        } else {
            ToolInput::ContentRef(self.add_blob("application/json", json.to_owned()))
        }
    }
}

/// The beginning of a text, cut between characters.
pub(crate) fn truncate_at_char(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_carry_the_name_that_they_had_where_that_is_one() {
        let blob = Blob::new("text/plain", b"x".to_vec());
        let plain = content_uri(&blob);
        for (origin, name) in [
            ("file:///a/my%20notes.md", "my%20notes.md"),
            ("vscode-agent-host://local/ab/main.rs?_ah=e30", "main.rs"),
            ("shot.png", "shot.png"),
        ] {
            let uri = named_content_uri(&blob, origin);
            assert_eq!(uri, format!("{plain}/{name}"));
            assert_eq!(content_hash(&uri), Some(blob.hash()));
            assert_eq!(named_content_uri(&blob, &uri), uri, "named once, it keeps its name");
        }
        for origin in ["", "file:///a/", "Pasted Image", "Bär", plain.as_str(), &"x".repeat(256)] {
            assert_eq!(named_content_uri(&blob, origin), plain, "{origin}");
        }
        assert_eq!(content_hash(&plain), Some(blob.hash()));
        assert_eq!(content_hash("file:///x"), None);
    }
}
