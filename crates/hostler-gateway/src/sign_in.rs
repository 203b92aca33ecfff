//! Tokens that clients provide, by protected resource. They are in memory only; the engine passes them on without
//! storing them. A token ends when it expires, when the upstream rejects it, or when a client signs out.
//!
//! The host's own credential takes precedence; a client's token is used if the host has none, or if the upstream
//! rejected it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::credential::{CredentialError, CredentialSource, CredentialStatus, CredentialVersion};

/// A resource that clients sign in to, as in RFC 9728.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResource {
    /// Its identifier, a URL.
    pub id: String,
    /// Display name.
    pub name: String,
    /// URL of the server that issues tokens for it.
    pub authorization_server: String,
    /// Scopes that a token needs.
    pub scopes: Vec<String>,
}

/// A resource that upstreams use, and whether a credential for it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResourceStatus {
    /// The resource.
    pub resource: ProtectedResource,
    /// Status of its credential.
    pub credential_status: CredentialStatus,
    /// Whether no upstream can be used without it.
    pub required: bool,
}

/// Why a sign-in failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No upstream uses this resource.
    #[error("no upstream of this host uses the resource {0:?}")]
    UnknownResource(String),
    /// The token is malformed; no upstream was called.
    #[error("the token is invalid: {0}")]
    InvalidToken(&'static str),
    /// The upstream rejected the token.
    #[error("{0}")]
    Rejected(String),
}

impl SignInError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownResource(_) => "unknownResource",
            Self::InvalidToken(_) => "invalidToken",
            Self::Rejected(_) => "tokenRejected",
        }
    }
}

/// Tokens by resource identifier.
pub struct SignInStore {
    entries: Mutex<HashMap<String, SignInEntry>>,
    changes: watch::Sender<u64>,
    next_sequence: AtomicU64,
}

/// Order in which sign-ins and sign-outs were requested. The latest request wins, even if an earlier one finishes after
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SignInSequence(pub u64);

/// State of the sign-in to one resource.
#[derive(Default)]
struct SignInEntry {
    token: Option<SecretString>,
    /// Sequence of the request that set this entry, so that an earlier request or the expiry of an earlier token does
    /// not replace it.
    sequence: SignInSequence,
    /// Whether the last token expired or was rejected, as opposed to a sign-out.
    is_expired: bool,
    /// Removes the token when it expires.
    _expiry_task: Option<AbortOnDropHandle<()>>,
}

impl SignInStore {
    /// Creates a store without tokens.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), changes: watch::Sender::new(0), next_sequence: AtomicU64::new(1) })
    }

    /// Returns the sequence for a request that starts now.
    pub(crate) fn next_sequence(&self) -> SignInSequence {
        SignInSequence(self.next_sequence.fetch_add(1, Ordering::Relaxed))
    }

    /// Signals that a token or the host's own credential may have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns a source of the host's own credential or, if that is missing or rejected, of the client's token.
    #[must_use]
    pub fn credential_source(self: &Arc<Self>, resource: &str, own: Arc<dyn CredentialSource>) -> ProvidedCredential {
        let (sign_ins, resource) = (Arc::clone(self), resource.to_owned());
        ProvidedCredential { sign_ins, resource, host_credential: own, rejected: Mutex::default() }
    }

    /// Stores a verified token until it expires, unless a later request was applied meanwhile. Must be called inside a
    /// tokio runtime.
    pub(crate) fn store_token(
        self: &Arc<Self>,
        sequence: SignInSequence,
        resource: &str,
        token: SecretString,
        lifetime: Option<Duration>,
    ) {
        let mut entries = self.lock();
        let entry = entries.entry(resource.to_owned()).or_default();
        if entry.sequence > sequence {
            return;
        }
        let (resource, this) = (resource.to_owned(), Arc::downgrade(self));
        let expiry_task = lifetime.map(|lifetime| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep(lifetime).await;
                if let Some(this) = this.upgrade() {
                    this.expire_token(&resource, |entry| entry.sequence == sequence);
                }
            }))
        });
        *entry = SignInEntry { token: Some(token), sequence, is_expired: false, _expiry_task: expiry_task };
        drop(entries);
        self.notify_changed();
    }

    /// Removes a token because a client signed out, unless a later request was applied meanwhile.
    pub(crate) fn remove_token(&self, sequence: SignInSequence, resource: &str) {
        let mut entries = self.lock();
        let entry = entries.entry(resource.to_owned()).or_default();
        if entry.sequence > sequence {
            return;
        }
        let before = std::mem::replace(entry, SignInEntry { sequence, ..SignInEntry::default() });
        drop(entries);
        if before.token.is_some() || before.is_expired {
            self.notify_changed();
        }
    }

    /// The token for a resource, if it is still valid.
    fn token(&self, resource: &str) -> Option<SecretString> {
        self.lock().get(resource)?.token.clone()
    }

    fn is_expired(&self, resource: &str) -> bool {
        self.lock().get(resource).is_some_and(|entry| entry.is_expired)
    }

    /// Removes a token that expired or was rejected; returns whether it was present.
    fn expire_token(&self, resource: &str, is_meant: impl Fn(&SignInEntry) -> bool) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(resource).filter(|entry| entry.token.is_some() && is_meant(entry)) else {
            return false;
        };
        entry.token = None;
        entry.is_expired = true;
        drop(entries);
        tracing::info!(resource, "sign-in ended");
        self.notify_changed();
        true
    }

    fn notify_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SignInEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SignInStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<String> = self.lock().keys().cloned().collect();
        f.debug_struct("SignIns").field("resources", &resources).finish_non_exhaustive()
    }
}

/// Credential of one upstream: the host's own, or a client's token.
pub struct ProvidedCredential {
    sign_ins: Arc<SignInStore>,
    resource: String,
    host_credential: Arc<dyn CredentialSource>,
    /// The host's own credential that was rejected; a different one is tried again.
    rejected: Mutex<Option<RejectedCredential>>,
}

struct RejectedCredential {
    secret: SecretString,
    /// Detects a new credential without reading it.
    version: Option<CredentialVersion>,
}

impl ProvidedCredential {
    /// Whether the host's own credential is the one that was rejected.
    fn was_rejected(&self, own: &SecretString) -> bool {
        let mut refused = self.lock();
        let is_it = refused.as_ref().map(|refused| is_same_secret(&refused.secret, own));
        if is_it == Some(false) {
            *refused = None;
            drop(refused);
            self.sign_ins.notify_changed();
        }
        is_it == Some(true)
    }

    fn lock(&self) -> MutexGuard<'_, Option<RejectedCredential>> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialSource for ProvidedCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        let provided = self.sign_ins.token(&self.resource);
        // A call does not wait for the host's own credential if there is a client's token.
        let own = if provided.is_some() { self.host_credential.try_current() } else { self.host_credential.current() };
        match &own {
            Ok(Some(token)) if !self.was_rejected(token) => own,
            _ => provided.map_or(own, |token| Ok(Some(token))),
        }
    }

    fn status(&self) -> CredentialStatus {
        let refused = self.lock().as_ref().map(|refused| refused.version);
        let own = refused.is_none_or(|stamp| stamp != self.host_credential.version())
            && self.host_credential.status() == CredentialStatus::Ready;
        if own || self.sign_ins.token(&self.resource).is_some() {
            CredentialStatus::Ready
        } else if refused.is_some() || self.sign_ins.is_expired(&self.resource) {
            CredentialStatus::Expired
        } else {
            CredentialStatus::Missing
        }
    }

    fn mark_rejected(&self, secret: &SecretString) {
        if self.sign_ins.expire_token(&self.resource, |entry| {
            entry.token.as_ref().is_some_and(|token| is_same_secret(token, secret))
        }) {
            return;
        }
        let stamp = self.host_credential.version();
        let is_own = matches!(self.host_credential.try_current(), Ok(Some(own)) if is_same_secret(&own, secret));
        self.host_credential.mark_rejected(secret);
        if !is_own {
            return;
        }
        let before = self.lock().replace(RejectedCredential { secret: secret.clone(), version: stamp });
        if before.is_none_or(|before| !is_same_secret(&before.secret, secret) || before.version != stamp) {
            self.sign_ins.notify_changed();
        }
    }

    fn mark_accepted(&self, secret: &SecretString) {
        self.host_credential.mark_accepted(secret);
        let forgiven = self.lock().take_if(|refused| is_same_secret(&refused.secret, secret));
        if forgiven.is_some() {
            self.sign_ins.notify_changed();
        }
    }
}

fn is_same_secret(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}

impl fmt::Debug for ProvidedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvidedCredential")
            .field("resource", &self.resource)
            .field("own", &self.host_credential)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::{FixedCredential, MissingCredential};

    const PLACE: &str = "https://api.example.com";

    fn shown(source: &ProvidedCredential) -> Option<String> {
        source.current().ok().flatten().map(|token| token.expose_secret().to_owned())
    }

    fn lacking(sign_ins: &Arc<SignInStore>) -> ProvidedCredential {
        sign_ins.credential_source(PLACE, Arc::new(MissingCredential("sign in".to_owned())))
    }

    #[tokio::test]
    async fn a_provided_token_is_used_until_sign_out() {
        let sign_ins = SignInStore::new();
        let source = lacking(&sign_ins);
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Missing));
        let mut changes = sign_ins.changes();
        sign_ins.store_token(
            sign_ins.next_sequence(),
            "https://elsewhere.example.com",
            "for-another-place".into(),
            None,
        );
        assert_eq!(source.status(), CredentialStatus::Missing);
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "first-one".into(), None);
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("first-one"), CredentialStatus::Ready));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "second-one".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("second-one"));
        sign_ins.remove_token(sign_ins.next_sequence(), PLACE);
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Missing));
        changes.mark_unchanged();
        sign_ins.remove_token(sign_ins.next_sequence(), PLACE);
        assert!(!changes.has_changed().unwrap(), "there was nothing to take back");
        assert!(!format!("{sign_ins:?} {source:?}").contains("-one"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_ends_with_its_own_expiry_and_not_that_of_an_earlier_one() {
        let sign_ins = SignInStore::new();
        let source = lacking(&sign_ins);
        let minute = Duration::from_secs(60);
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "short".into(), Some(minute));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "long".into(), Some(3 * minute));
        let mut changes = sign_ins.changes();
        tokio::time::sleep(2 * minute).await;
        assert_eq!(shown(&source).as_deref(), Some("long"));
        assert!(!changes.has_changed().unwrap());
        changes.changed().await.unwrap();
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Expired));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "for ever".into(), None);
        assert_eq!(source.status(), CredentialStatus::Ready);
    }

    #[tokio::test]
    async fn the_latest_request_wins_even_if_it_finishes_first() {
        let sign_ins = SignInStore::new();
        let source = lacking(&sign_ins);
        let [first, second, third, fourth] = std::array::from_fn(|_| sign_ins.next_sequence());
        sign_ins.store_token(second, PLACE, "second".into(), None);
        sign_ins.store_token(first, PLACE, "first".into(), Some(Duration::ZERO));
        assert_eq!(shown(&source).as_deref(), Some("second"));
        sign_ins.remove_token(fourth, PLACE);
        sign_ins.store_token(third, PLACE, "third".into(), None);
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Missing));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "fifth".into(), None);
        sign_ins.remove_token(fourth, PLACE);
        assert_eq!(shown(&source).as_deref(), Some("fifth"));
    }

    #[tokio::test]
    async fn a_rejection_removes_only_the_rejected_token() {
        let sign_ins = SignInStore::new();
        let source = lacking(&sign_ins);
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "newer".into(), None);
        source.mark_rejected(&"older".into());
        assert_eq!(shown(&source).as_deref(), Some("newer"));
        source.mark_rejected(&"newer".into());
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Expired));
    }

    #[tokio::test]
    async fn the_hosts_own_credential_takes_precedence_until_it_is_rejected() {
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(FixedCredential(Some("own".into()))));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "provided".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("own"));
        source.mark_rejected(&"own".into());
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("provided"), CredentialStatus::Ready));
        source.mark_rejected(&"provided".into());
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("own"), CredentialStatus::Expired));
    }

    #[tokio::test]
    async fn an_accepted_credential_is_no_longer_marked_as_rejected() {
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(FixedCredential(Some("own".into()))));
        source.mark_rejected(&"of old".into());
        assert_eq!(source.status(), CredentialStatus::Ready, "that was not this one");
        source.mark_rejected(&"own".into());
        let mut changes = sign_ins.changes();
        source.mark_accepted(&"another".into());
        assert_eq!((source.status(), changes.has_changed().unwrap()), (CredentialStatus::Expired, false));
        source.mark_accepted(&"own".into());
        assert_eq!((source.status(), changes.has_changed().unwrap()), (CredentialStatus::Ready, true));
        changes.mark_unchanged();
        source.mark_accepted(&"own".into());
        assert!(!changes.has_changed().unwrap(), "a repeated report is not a change");
    }

    /// A credential of the host that is not available at once.
    #[derive(Debug)]
    struct Locked;

    impl CredentialSource for Locked {
        fn current(&self) -> Result<Option<SecretString>, CredentialError> {
            panic!("this would wait for a person")
        }

        fn try_current(&self) -> Result<Option<SecretString>, CredentialError> {
            Err(CredentialError::KeyringTimeout)
        }

        fn status(&self) -> CredentialStatus {
            CredentialStatus::Ready
        }
    }

    #[tokio::test]
    async fn a_locked_keyring_does_not_delay_a_provided_token() {
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(Locked));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "provided".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("provided"));
        source.mark_rejected(&"some other".into());
        *source.lock() = Some(RejectedCredential { secret: "own".into(), version: None });
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("provided"), CredentialStatus::Ready));
        source.mark_rejected(&"provided".into());
        assert_eq!(source.status(), CredentialStatus::Expired);
    }

    #[test]
    fn a_changed_host_credential_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "one").unwrap();
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(crate::credential::FileCredential::new(path.clone())));
        source.mark_rejected(&"one".into());
        assert_eq!(source.status(), CredentialStatus::Expired);
        std::fs::write(&path, "another").unwrap();
        assert_eq!((source.status(), shown(&source).as_deref()), (CredentialStatus::Ready, Some("another")));
    }
}
