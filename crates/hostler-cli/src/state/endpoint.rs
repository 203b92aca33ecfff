//! Publishes the address of the running host in the state directory and finds it there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use fs_err as fs;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::directory::write_private_file;
use super::{HostLock, StateDir, StateError, process_exists, read_token};

const ENDPOINT_FILE: &str = "endpoint.json";
/// Holds a token from another source while its host runs.
const ENDPOINT_TOKEN_FILE: &str = "endpoint-token";

/// Address of the host that runs on a state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostEndpoint {
    /// Process id of the host.
    pub(crate) pid: u32,
    /// Address for clients on this machine.
    pub(crate) host: IpAddr,
    /// The port.
    pub(crate) port: u16,
    /// URL of the page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "page")]
    pub(crate) page_url: Option<String>,
    /// File with the token; absent if none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// When the host started to listen.
    #[serde(rename = "started")]
    pub(crate) started_at: String,
}

impl HostEndpoint {
    /// Finds the host that runs on a directory; files of a host that ended are ignored.
    pub(crate) fn find_running(directory: &StateDir) -> Result<Option<Self>, StateError> {
        let text = match fs::read_to_string(directory.join(ENDPOINT_FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Ok(endpoint) = serde_json::from_str::<Self>(&text) else {
            return Ok(None);
        };
        let alive = endpoint.is_alive() && HostLock::is_held(directory)?;
        Ok(alive.then_some(endpoint))
    }

    /// Reads the host's token.
    pub(crate) fn token(&self) -> Result<Option<SecretString>, StateError> {
        self.token_file.as_deref().map(read_token).transpose()
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    fn is_alive(&self) -> bool {
        process_exists(self.pid)
    }
}

/// Published endpoint; dropping it removes the files.
#[derive(Debug)]
pub(crate) struct PublishedEndpoint {
    endpoint: HostEndpoint,
    files: Vec<PathBuf>,
}

impl PublishedEndpoint {
    /// Publishes the address that this process listens on.
    pub(crate) fn publish(
        directory: &StateDir,
        _lock: &HostLock,
        listening: SocketAddr,
        token: Option<&SecretString>,
        page: Option<String>,
    ) -> Result<Self, StateError> {
        let mut files = vec![directory.join(ENDPOINT_FILE)];
        remove_if_exists(&directory.join(ENDPOINT_TOKEN_FILE))?;
        let stored_file = directory.join(super::token::TOKEN_FILE);
        let token_file = match token {
            None => None,
            Some(token)
                if read_token(&stored_file).is_ok_and(|stored| stored.expose_secret() == token.expose_secret()) =>
            {
                Some(stored_file)
            }
            Some(token) => {
                let path = directory.join(ENDPOINT_TOKEN_FILE);
                write_private_file(&path, &format!("{}\n", token.expose_secret()))?;
                files.push(path.clone());
                Some(path)
            }
        };
        let endpoint = HostEndpoint {
            pid: std::process::id(),
            host: to_local_ip(listening.ip()),
            port: listening.port(),
            page_url: page,
            token_file,
            started_at: crate::time::now_rfc3339(),
        };
        let text = serde_json::to_string_pretty(&endpoint).map_err(io::Error::other)?;
        write_private_file(&directory.join(ENDPOINT_FILE), &format!("{text}\n"))?;
        Ok(Self { endpoint, files })
    }

    pub(crate) fn endpoint(&self) -> &HostEndpoint {
        &self.endpoint
    }
}

impl Drop for PublishedEndpoint {
    fn drop(&mut self) {
        for file in &self.files {
            if let Err(error) = fs::remove_file(file) {
                tracing::warn!(%error, "failed to remove endpoint file");
            }
        }
    }
}

/// Removes the file of a host that was killed.
fn remove_if_exists(path: &Path) -> Result<(), StateError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns an address that a client on this machine can reach.
pub(crate) fn to_local_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn listening() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 4711))
    }

    #[tokio::test]
    async fn published_endpoint_is_found_and_removed_on_drop() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDir::open(scratch.path()).unwrap();
        let lock = HostLock::acquire(&directory).await.unwrap();
        let token = directory.load_or_create_token(&lock).unwrap();
        let published = PublishedEndpoint::publish(&directory, &lock, listening(), Some(&token), None).unwrap();

        let found = HostEndpoint::find_running(&directory).unwrap().unwrap();
        assert_eq!(&found, published.endpoint());
        assert_eq!(found.addr(), SocketAddr::from((Ipv4Addr::LOCALHOST, 4711)));
        assert_eq!(found.token().unwrap().unwrap().expose_secret(), token.expose_secret());
        let path = scratch.path().join(ENDPOINT_FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(&path).unwrap().contains(token.expose_secret()));

        drop(published);
        assert_eq!(HostEndpoint::find_running(&directory).unwrap(), None);
        assert!(scratch.path().join("token").exists());
    }

    #[tokio::test]
    async fn external_token_is_readable_while_its_host_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDir::open(scratch.path()).unwrap();
        let lock = HostLock::acquire(&directory).await.unwrap();
        let token = SecretString::from("given-by-flag");
        let published = PublishedEndpoint::publish(&directory, &lock, listening(), Some(&token), None).unwrap();
        assert_eq!(published.endpoint().token().unwrap().unwrap().expose_secret(), "given-by-flag");
        let path = scratch.path().join(ENDPOINT_TOKEN_FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(published);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn endpoint_of_a_dead_host_is_ignored() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDir::open(scratch.path()).unwrap();
        let lock = HostLock::acquire(&directory).await.unwrap();
        let published = PublishedEndpoint::publish(&directory, &lock, listening(), None, None).unwrap();
        let text = fs::read_to_string(scratch.path().join(ENDPOINT_FILE)).unwrap();

        // The process exists but the lock is free: a recycled process id.
        drop(lock);
        assert_eq!(HostEndpoint::find_running(&directory).unwrap(), None);

        // A starting host holds the lock, but the process in the file has ended.
        let _lock = HostLock::acquire(&directory).await.unwrap();
        assert!(HostEndpoint::find_running(&directory).unwrap().is_some());
        let dead = text.replace(&format!("\"pid\": {}", std::process::id()), "\"pid\": 2147483646");
        fs::write(scratch.path().join(ENDPOINT_FILE), dead).unwrap();
        assert_eq!(HostEndpoint::find_running(&directory).unwrap(), None);

        fs::write(scratch.path().join(ENDPOINT_FILE), "{\"pid\":").unwrap();
        assert_eq!(HostEndpoint::find_running(&directory).unwrap(), None);
        drop(published);
    }
}
