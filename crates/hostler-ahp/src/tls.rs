//! TLS with a configured certificate. The files are read again when they change, so certificates can be renewed while
//! the host runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};

/// Certificate and key of a listener.
pub struct TlsIdentity {
    cert: PathBuf,
    key: PathBuf,
    loaded: Mutex<LoadedIdentity>,
}

struct LoadedIdentity {
    config: Arc<ServerConfig>,
    /// Stamps of the files at the last read, including a failed one.
    file_stamps: FileStamps,
}

type FileStamps = [Option<(u64, Option<SystemTime>)>; 2];

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("failed to read {path}: {error}.", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file contains no certificate.
    #[error("{} contains no PEM certificate (-----BEGIN CERTIFICATE-----).", .0.display())]
    NoCertificate(PathBuf),
    /// The file contains no key.
    #[error("{} contains no PEM private key (-----BEGIN PRIVATE KEY-----) that works without a passphrase.", .0.display())]
    NoKey(PathBuf),
    /// Certificate and key do not belong together.
    #[error("the key in {key} does not match the first certificate in {cert}.", key = .key.display(), cert = .cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Another problem with certificate or key.
    #[error("the certificate in {cert} cannot be used: {reason}.", cert = .cert.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The problem.
        reason: String,
    },
}

impl TlsError {
    /// Stable code of the error, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "tlsFileUnreadable",
            Self::NoCertificate(_) => "tlsCertificateMissing",
            Self::NoKey(_) => "tlsKeyMissing",
            Self::Mismatch { .. } => "tlsKeyMismatch",
            Self::Unusable { .. } => "tlsCertificateInvalid",
        }
    }
}

impl TlsIdentity {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn load(cert: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let stamps = read_file_stamps(&cert, &key);
        let loaded = Mutex::new(LoadedIdentity { config: load_config(&cert, &key)?, file_stamps: stamps });
        Ok(Self { cert, key, loaded })
    }

    /// The acceptor for the next connection. If changed files cannot be used, the previous certificate stays in use.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = read_file_stamps(&self.cert, &self.key);
        if stamps != loaded.file_stamps {
            loaded.file_stamps = stamps;
            match load_config(&self.cert, &self.key) {
                Ok(config) => {
                    loaded.config = config;
                    tracing::info!("reloaded the TLS certificate");
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to reload the TLS certificate; the previous one stays in use")
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

fn load_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |reason: String| TlsError::Unusable { cert: cert.to_owned(), reason };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read_file(cert)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| TlsError::NoCertificate(cert.to_owned()))?;
    let secret = PrivateKeyDer::from_pem_slice(&read_file(key)?).map_err(|_| TlsError::NoKey(key.to_owned()))?;
    let versions = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    let mut config = versions.with_no_client_auth().with_single_cert(chain, secret).map_err(|error| match error {
        Error::InconsistentKeys(_) => TlsError::Mismatch { cert: cert.to_owned(), key: key.to_owned() },
        error => unusable(error.to_string()),
    })?;
    // A WebSocket connection here starts with HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Unreadable { path: path.to_owned(), error })
}

/// Metadata that shows whether the files have changed, without reading them.
fn read_file_stamps(cert: &Path, key: &Path) -> FileStamps {
    [cert, key].map(|path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.len(), about.modified().ok()))
    })
}
