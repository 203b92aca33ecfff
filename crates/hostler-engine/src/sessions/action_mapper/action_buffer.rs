//! `ActionBuffer`: the actions that follow from an event, and the contents that they refer to by hash.

use ahp_types::StateAction;
use ahp_types::state::{ContentRef, ToolInput};
use hostler_store::Blob;

/// Longer contents are referred to by hash, so that states and envelopes stay small.
pub(crate) const MAX_INLINE_BYTES: usize = 16 * 1024;

/// The scheme of contents that this host serves by their hash. A name may follow the hash after a slash: clients
/// display it and derive a text's language from it.
const CONTENT_SCHEME: &str = "ahp-content:/";

/// The URI of unnamed contents.
pub(crate) fn content_uri(blob: &Blob) -> String {
    format!("{CONTENT_SCHEME}{}", blob.hash())
}

/// The URI of contents with their original name: the last segment of the origin's path, if a URI can contain it.
pub(crate) fn named_content_uri(blob: &Blob, origin: &str) -> String {
    let path = origin.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let fits = |name: &str| (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    match fits(name) && name != blob.hash() {
        true => format!("{}/{name}", content_uri(blob)),
        false => content_uri(blob),
    }
}

/// The hash in a content URI.
pub(crate) fn content_hash(uri: &str) -> Option<&str> {
    uri.strip_prefix(CONTENT_SCHEME)?.split('/').next()
}

/// Actions of a chat, in order, and the contents that they refer to.
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

    /// Adds contents and returns a reference to them.
    pub(crate) fn add_blob(&mut self, content_type: &str, body: String) -> ContentRef {
        self.add_named_blob("", content_type, body)
    }

    /// Does the same for the text of a file.
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

    /// A call's input: inline, or by reference.
    pub(crate) fn tool_input(&mut self, json: &str) -> ToolInput {
        if json.len() <= MAX_INLINE_BYTES {
            ToolInput::Inline(json.to_owned())
        } else {
            ToolInput::ContentRef(self.add_blob("application/json", json.to_owned()))
        }
    }
}

/// The beginning of a text, cut at a character boundary.
pub(crate) fn truncate_at_char(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_content_uri_keeps_valid_file_names() {
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
