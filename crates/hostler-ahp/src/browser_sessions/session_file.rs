//! Stores browser sessions across restarts of the host: a small private file, replaced as a whole.

use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::secret::hex;
use super::session_table::{BrowserSession, BrowserSessionTable};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BrowserSessionFile {
    host: String,
    sign_ins: Vec<StoredBrowserSession>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredBrowserSession {
    id: String,
    sha256: String,
    /// Hash of the page key. Files of earlier versions have none.
    #[serde(default)]
    key_sha256: String,
    /// Hash of the host's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_sha256: Option<String>,
    label: String,
    created_ms: i64,
    seen_ms: i64,
}

/// Reads the file; `None` if it does not exist or cannot be parsed.
pub(super) fn read(path: &Path) -> io::Result<Option<BrowserSessionTable>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(BrowserSessionFile { host, sign_ins }) = serde_json::from_str(&text) else {
        tracing::warn!(path = %path.display(), "failed to parse browser sessions; browsers have to sign in again");
        return Ok(None);
    };
    // The host id becomes part of a cookie's name.
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let sessions = sign_ins.into_iter().filter_map(|stored| {
        let StoredBrowserSession { id, sha256, key_sha256, token_sha256, label, created_ms: created, seen_ms: seen } =
            stored;
        // A cookie without a page key is not accepted: such a browser signs in again.
        let (hash, key) = (parse_hash(&sha256)?, parse_hash(&key_sha256)?);
        let token = match token_sha256 {
            Some(token) => Some(parse_hash(&token)?),
            None => None,
        };
        Some(BrowserSession {
            id,
            cookie_hash: hash,
            page_key_hash: key,
            token_hash: token,
            label,
            created_ms: created,
            last_seen_ms: seen,
            last_saved_ms: seen,
            signed_out: CancellationToken::new(),
        })
    });
    Ok(Some(BrowserSessionTable::from_sessions(host, sessions.collect())))
}

/// The contents of the file.
pub(super) fn serialize(table: &BrowserSessionTable) -> io::Result<String> {
    let stored = |session: &BrowserSession| StoredBrowserSession {
        id: session.id.clone(),
        sha256: hex(&session.cookie_hash),
        key_sha256: hex(&session.page_key_hash),
        token_sha256: session.token_hash.as_ref().map(|token| hex(token)),
        label: session.label.clone(),
        created_ms: session.created_ms,
        seen_ms: session.last_seen_ms,
    };
    let file = BrowserSessionFile {
        host: table.host_id().to_owned(),
        sign_ins: table.persistent_sessions().map(stored).collect(),
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&file)?))
}

/// Writes the file atomically: a reader, or a restart after a crash, finds the old text or the new one.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    // Temporary files have mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn written_browser_sessions_are_read_back() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sign-ins.json");
        assert!(read(&path).unwrap().is_none());
        let session = BrowserSession::new("id".to_owned(), [0xa7; 32], [0x5c; 32], "Firefox on Linux".to_owned(), 5);
        write(&path, &serialize(&BrowserSessionTable::from_sessions("c0ffee".to_owned(), vec![session])).unwrap())
            .unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let table = read(&path).unwrap().unwrap();
        assert_eq!(table.host_id(), "c0ffee");
        let [session] = table.sessions() else { panic!("one session") };
        assert_eq!(
            (session.id.as_str(), session.cookie_hash, session.created_ms, session.last_seen_ms),
            ("id", [0xa7; 32], 5, 5)
        );
        assert_eq!(session.page_key_hash, [0x5c; 32]);
    }

    #[test]
    fn a_browser_session_without_a_page_key_is_signed_out() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sign-ins.json");
        let hash = "a7".repeat(32);
        let old = |key: &str| {
            format!(
                r#"{{"host":"a1","signIns":[{{"id":"x","sha256":"{hash}",{key}"label":"","createdMs":0,"seenMs":0}}]}}"#
            )
        };
        for key in ["", r#""keySha256":"","#, r#""keySha256":"00","#] {
            std::fs::write(&path, old(key)).unwrap();
            assert!(read(&path).unwrap().unwrap().sessions().is_empty(), "{key}");
        }
        std::fs::write(&path, old(&format!(r#""keySha256":"{hash}","#))).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().sessions().len(), 1);
    }

    #[test]
    fn an_invalid_file_authenticates_no_browser() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sign-ins.json");
        for text in ["", "{", "[]", r#"{"host":"","signIns":[]}"#, r#"{"host":"a; Domain=x","signIns":[]}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap().is_none(), "{text}");
        }
        let short = r#"{"host":"a1","signIns":[{"id":"x","sha256":"00","label":"","createdMs":0,"seenMs":0}]}"#;
        std::fs::write(&path, short).unwrap();
        assert!(read(&path).unwrap().unwrap().sessions().is_empty());
    }
}
