//! Prompt ids that this host recognizes without storing them.
//!
//! The agent stores a prompt's id in its transcript. Half of the id is random; the other half is derived from that
//! half, the conversation and a key in this state directory. A transcript that several programs continued therefore
//! shows which turns this host started, also after a crash, and also if the conversation was copied.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use uuid::Uuid;

const PROMPT_KEY_FILE: &str = "prompt.key";
const PROMPT_KEY_BYTES: usize = 32;

/// Creates and recognizes prompt ids.
pub(crate) struct PromptIds {
    key: [u8; PROMPT_KEY_BYTES],
}

impl PromptIds {
    /// Reads the key of a state directory. A missing or invalid key is replaced by a new one.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(PROMPT_KEY_FILE);
        match fs::read(&path) {
            Ok(bytes) => match bytes.try_into() {
                Ok(key) => return Ok(Self { key }),
                Err(_) => {
                    tracing::warn!(file = PROMPT_KEY_FILE, "the key of prompt IDs was damaged; created a new one")
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut key = [0; PROMPT_KEY_BYTES];
        for half in key.chunks_mut(16) {
            half.copy_from_slice(Uuid::new_v4().as_bytes());
        }
        // Written to a temporary file and renamed: after a crash the key is absent or complete.
        let made = directory.join(format!("{PROMPT_KEY_FILE}.new"));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        file.write_all(&key)?;
        file.sync_all()?;
        fs::rename(&made, &path)?;
        Ok(Self { key })
    }

    /// Creates an id for a prompt of a conversation.
    pub(crate) fn mint(&self, conversation: Uuid) -> Uuid {
        self.complete_id(conversation, Uuid::new_v4())
    }

    /// Whether this host created an id, for this conversation.
    pub(crate) fn is_minted_here(&self, conversation: Uuid, id: Uuid) -> bool {
        self.complete_id(conversation, id) == id
    }

    /// Completes an id from its first half.
    fn complete_id(&self, conversation: Uuid, id: Uuid) -> Uuid {
        let random = id.as_u64_pair().0;
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(conversation.as_bytes());
        hasher.update(&random.to_be_bytes());
        let mut tag = [0; 8];
        hasher.finalize_xof().fill(&mut tag);
        // The two variant bits of a UUID.
        let tag = (u64::from_be_bytes(tag) >> 2) | (0b10 << 62);
        Uuid::from_u64_pair(random, tag)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn id_is_recognized_only_by_its_host_and_in_its_conversation() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ids = PromptIds::open(here.path()).unwrap();
        let (conversation, another) = (Uuid::new_v4(), Uuid::new_v4());
        let id = ids.mint(conversation);
        assert_eq!((id.get_version_num(), id.get_variant()), (4, uuid::Variant::RFC4122));
        assert_ne!(id, ids.mint(conversation));
        assert!(ids.is_minted_here(conversation, id) && !ids.is_minted_here(another, id));
        assert!(!ids.is_minted_here(conversation, Uuid::new_v4()) && !ids.is_minted_here(conversation, Uuid::nil()));
        // A restarted host recognizes it, another host does not.
        assert!(PromptIds::open(here.path()).unwrap().is_minted_here(conversation, id));
        assert!(!PromptIds::open(there.path()).unwrap().is_minted_here(conversation, id));
    }

    #[test]
    fn key_is_private_and_a_damaged_key_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(PROMPT_KEY_FILE);
        PromptIds::open(directory.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        let ids = PromptIds::open(directory.path()).unwrap();
        let id = ids.mint(Uuid::nil());
        assert!(PromptIds::open(directory.path()).unwrap().is_minted_here(Uuid::nil(), id));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(PromptIds::open(directory.path()).is_err());
    }
}
