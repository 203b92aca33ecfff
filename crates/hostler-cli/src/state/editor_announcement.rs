//! Editors on this machine find a host by a file in their own directory.
//!
//! VS Code looks for such files below its user data; one per host, named by a hash of who it is. They hold the token, so
//! they are private, and they go with the host. What a host that was killed left behind is removed by the next one.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::process_exists;

/// The folders of the editors that look for hosts, below the user's configuration.
const EDITOR_CONFIG_DIRS: [&str; 6] =
    ["Code", "Code - Insiders", "Code - Exploration", "Code - OSS", "VSCodium", "VSCodium - Insiders"];

/// Where the files lie, below an editor's folder.
const ENTRIES_PATH: [&str; 3] = ["agent-host", "local-endpoint", "entries"];

/// The version of the files' form.
const ENTRY_SCHEMA_VERSION: u32 = 2;

/// What the editors of today speak. The host speaks newer versions with whoever offers them.
const ANNOUNCED_PROTOCOL_VERSION: &str = "0.9.0";

/// The kind of host that nobody but itself started.
const ENTRY_HOST_TYPE: &str = "standalone";

/// By this beginning we know our own files.
const INSTANCE_ID_PREFIX: &str = "hostler-";

/// More is no file of ours.
const MAX_ENTRY_BYTES: u64 = 64 * 1024;

/// The folders of the editors that this user has.
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

/// What has to be known of a file to tell whose it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryOwner {
    pid: u32,
    instance_id: String,
}

/// The files of one host. They are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct EditorAnnouncement {
    files: Vec<PathBuf>,
}

impl EditorAnnouncement {
    /// Announces a host to the editors whose folders are there. An editor that cannot be told is left out, with a note in
    /// the log: the host works without.
    pub(crate) fn publish(
        editors: &[PathBuf],
        state_dir: &Path,
        addr: SocketAddr,
        token: Option<&SecretString>,
    ) -> Self {
        // The lock of the state directory is held, so whatever has its mark and is there already is of a host that is gone.
        let mark = format!("{INSTANCE_ID_PREFIX}{}-", short_hash(state_dir.as_os_str().as_encoded_bytes()));
        let instance = format!("{mark}{}", uuid::Uuid::new_v4());
        let mut announced = Self::default();
        for editor in editors.iter().filter(|editor| editor.is_dir()) {
            let directory = ENTRIES_PATH.iter().fold(editor.clone(), |path, part| path.join(part));
            remove_stale_entries(&directory, &mark);
            match write_entry(&directory, &instance, addr, token) {
                Ok(file) => announced.files.push(file),
                Err(error) => tracing::warn!(%error, path = %directory.display(), "an editor is not told of this host"),
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
                tracing::warn!(%error, "the file that announced this host is left behind");
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
    // Readers see a whole file or none, and nobody else sees either.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&serde_json::to_vec(&entry)?)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// Removes files of hosts of ours that are gone.
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
            tracing::warn!(%error, "the file of a host that is gone is left behind");
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
    fn an_editor_that_is_there_is_told_in_private_and_the_others_are_not_made_up() {
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
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "no other editor's folder was made");
        drop(announced);
        assert!(entries(scratch.path(), "Code").is_empty());
    }

    #[test]
    fn what_a_dead_host_left_is_removed_and_what_is_not_ours_stays() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("VSCodium")).unwrap();
        let left = announce(scratch.path(), "/state", None);
        let directory = left.files[0].parent().unwrap().to_owned();
        std::mem::forget(left);
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
        assert_eq!(entries(scratch.path(), "VSCodium").len(), 4, "and both hosts that run");
        drop((announced, other));
        assert_eq!(entries(scratch.path(), "VSCodium").len(), 2);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_left_out() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("Code")).unwrap();
        fs::write(scratch.path().join("Code").join("agent-host"), "a file").unwrap();
        assert!(announce(scratch.path(), "/state", None).files.is_empty());
    }
}
