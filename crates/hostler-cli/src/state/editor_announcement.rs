//! Announces the host to editors on this machine by a file in their user data.
//!
//! VS Code looks for such files; there is one per host, named by a hash of its process and instance id. They contain
//! the token, so they are private, and they are removed when the host ends. The next host removes files of a host that
//! was killed.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::process_exists;

/// Configuration folders of editors that look for hosts.
const EDITOR_CONFIG_DIRS: [&str; 6] =
    ["Code", "Code - Insiders", "Code - Exploration", "Code - OSS", "VSCodium", "VSCodium - Insiders"];

/// Path of the files below an editor's folder.
const ENTRIES_PATH: [&str; 3] = ["agent-host", "local-endpoint", "entries"];

/// Schema version of the files.
const ENTRY_SCHEMA_VERSION: u32 = 2;

/// Protocol version of current editors. The host negotiates newer versions with clients that offer them.
const ANNOUNCED_PROTOCOL_VERSION: &str = "0.9.0";

/// Type of a host that no editor started.
const ENTRY_HOST_TYPE: &str = "standalone";

/// Prefix of the instance ids in our files.
const INSTANCE_ID_PREFIX: &str = "hostler-";

/// Maximum size of our files.
const MAX_ENTRY_BYTES: u64 = 64 * 1024;

/// Returns the folders of the installed editors.
pub(crate) fn editor_data_dirs(configuration: &Path) -> Vec<PathBuf> {
    EDITOR_CONFIG_DIRS.iter().map(|name| configuration.join(name)).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointEntry<'a> {
    schema_version: u32,
    r#type: &'static str,
    pid: u32,
    instance_id: &'a str,
    protocol_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_token: Option<&'a str>,
    endpoint: TcpEndpoint,
}

#[derive(Serialize)]
struct TcpEndpoint {
    r#type: &'static str,
    host: String,
    port: u16,
}

/// Fields of a file that identify its host.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryOwner {
    pid: u32,
    instance_id: String,
}

/// Files of one host. They are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct EditorAnnouncement {
    files: Vec<PathBuf>,
}

impl EditorAnnouncement {
    /// Announces a host to the installed editors. A failure is logged and skips that editor: the host works
    /// without.
    pub(crate) fn publish(
        editors: &[PathBuf],
        state_dir: &Path,
        addr: SocketAddr,
        token: Option<&SecretString>,
    ) -> Self {
        // The lock of the state directory is held, so existing files with its prefix belong to hosts that have
        // ended.
        let mark = format!("{INSTANCE_ID_PREFIX}{}-", short_hash(state_dir.as_os_str().as_encoded_bytes()));
        let instance = format!("{mark}{}", uuid::Uuid::new_v4());
        let mut announced = Self::default();
        for editor in editors.iter().filter(|editor| editor.is_dir()) {
            let directory = ENTRIES_PATH.iter().fold(editor.clone(), |path, part| path.join(part));
            remove_stale_entries(&directory, &mark);
            match write_entry(&directory, &instance, addr, token) {
                Ok(file) => announced.files.push(file),
                Err(error) => {
                    tracing::warn!(%error, path = %directory.display(), "failed to announce the host to an editor")
                }
            }
        }
        announced
    }
}

impl Drop for EditorAnnouncement {
    fn drop(&mut self) {
        for file in &self.files {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "failed to remove the announcement file of this host");
            }
        }
    }
}

fn write_entry(
    directory: &Path,
    instance: &str,
    addr: SocketAddr,
    token: Option<&SecretString>,
) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::metadata(directory)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    }
    let pid = std::process::id();
    let entry = EndpointEntry {
        schema_version: ENTRY_SCHEMA_VERSION,
        r#type: ENTRY_HOST_TYPE,
        pid,
        instance_id: instance,
        protocol_version: ANNOUNCED_PROTOCOL_VERSION,
        connection_token: token.map(|token| token.expose_secret()),
        endpoint: TcpEndpoint { r#type: "tcp", host: addr.ip().to_string(), port: addr.port() },
    };
    let path =
        directory.join(format!("{}.json", sha256_hex(format!("{ENTRY_HOST_TYPE}\0{pid}\0{instance}").as_bytes())));
    // The file appears atomically and is private.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&serde_json::to_vec(&entry)?)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// Removes files of our hosts that have ended.
fn remove_stale_entries(directory: &Path, mark: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let readable = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file() && about.len() <= MAX_ENTRY_BYTES);
        let known = readable.then(|| fs::read(&path).ok()).flatten();
        let Some(known) = known.and_then(|text| serde_json::from_slice::<EntryOwner>(&text).ok()) else { continue };
        let ours = known.instance_id.starts_with(INSTANCE_ID_PREFIX);
        let gone = known.instance_id.starts_with(mark) || !process_exists(known.pid);
        if ours
            && gone
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(%error, "failed to remove the announcement file of an ended host");
        }
    }
}

fn sha256_hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn short_hash(text: &[u8]) -> String {
    sha256_hex(text).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use serde_json::{Value, json};

    use super::*;

    const ADDR: &str = "127.0.0.1:4711";

    fn announce(scratch: &Path, state: &str, token: Option<&str>) -> EditorAnnouncement {
        let token = token.map(SecretString::from);
        EditorAnnouncement::publish(&editor_data_dirs(scratch), Path::new(state), ADDR.parse().unwrap(), token.as_ref())
    }

    fn entries(scratch: &Path, editor: &str) -> Vec<PathBuf> {
        let directory = ENTRIES_PATH.iter().fold(scratch.join(editor), |path, part| path.join(part));
        fs::read_dir(directory).map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
    }

    #[test]
    fn installed_editor_gets_a_private_file_and_missing_editors_get_none() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("Code")).unwrap();
        let announced = announce(scratch.path(), "/state", Some("the-token"));
        let [path] = &entries(scratch.path(), "Code")[..] else { panic!("one file") };
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let entry: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let (pid, instance) = (std::process::id(), entry["instanceId"].as_str().unwrap());
        let expected = json!({"schemaVersion": 2, "type": "standalone", "pid": pid, "instanceId": instance,
            "protocolVersion": "0.9.0", "connectionToken": "the-token",
            "endpoint": {"type": "tcp", "host": "127.0.0.1", "port": 4711}});
        assert_eq!(entry, expected);
        let name = format!("{}.json", sha256_hex(format!("standalone\0{pid}\0{instance}").as_bytes()));
        assert_eq!(path.file_name().unwrap().to_str().unwrap(), name);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "no other editor's folder was created");
        drop(announced);
        assert!(entries(scratch.path(), "Code").is_empty());
    }

    #[test]
    fn stale_own_files_are_removed_and_foreign_files_stay() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("VSCodium")).unwrap();
        let stale = announce(scratch.path(), "/state", None);
        let directory = stale.files[0].parent().unwrap().to_owned();
        std::mem::forget(stale);
        let other = announce(scratch.path(), "/other", None);
        let dead = json!({"pid": 2_147_483_646, "instanceId": "hostler-elsewhere-1"}).to_string();
        let foreign = json!({"pid": 2_147_483_646, "instanceId": "vscode-1"}).to_string();
        for (name, text) in [("dead.json", dead.as_str()), ("foreign.json", &foreign), ("broken.json", "{\"pid\":")] {
            fs::write(directory.join(name), text).unwrap();
        }
        let announced = announce(scratch.path(), "/state", None);
        let mut names: Vec<String> = entries(scratch.path(), "VSCodium")
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .filter(|name| name.len() < 60)
            .collect();
        names.sort();
        assert_eq!(names, ["broken.json", "foreign.json"]);
        assert_eq!(entries(scratch.path(), "VSCodium").len(), 4, "and the files of both running hosts");
        drop((announced, other));
        assert_eq!(entries(scratch.path(), "VSCodium").len(), 2);
    }

    #[test]
    fn unwritable_editor_folder_is_skipped() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("Code")).unwrap();
        fs::write(scratch.path().join("Code").join("agent-host"), "a file").unwrap();
        assert!(announce(scratch.path(), "/state", None).files.is_empty());
    }
}
