//! Credentials that clients bring, by what they are good for. They live in memory alone, and end: by themselves when
//! their time is over, when the upstream refuses them, or when a client takes them back.
//!
//! A credential of the host's own goes first; one that a client has brought is used where there is none, or where the
//! host's own was refused.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::credential::{CredentialError, CredentialSource, CredentialStatus, CredentialVersion};

/// What somebody signs in to, in the words of RFC 9728.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResource {
    /// Its identifier, a URL.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Who issues tokens for it.
    pub authorization_server: String,
    /// What a token has to be good for.
    pub scopes: Vec<String>,
}

/// A resource that upstreams need, and whether they have what they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResourceStatus {
    /// The resource.
    pub resource: ProtectedResource,
    /// Whether there is a credential for it.
    pub credential_status: CredentialStatus,
    /// Whether no upstream at all can be used without it.
    pub required: bool,
}

/// Why nobody was signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No upstream needs it.
    #[error("no upstream of this host takes a sign-in to {0:?}")]
    UnknownResource(String),
    /// No upstream has to be asked about this.
    #[error("{0}")]
    InvalidToken(String),
    /// The upstream does not take the token.
    #[error("{0}")]
    Rejected(String),
}

/// What clients have brought, by the resource's identifier.
pub struct SignInStore {
    entries: Mutex<HashMap<String, SignInEntry>>,
    changes: watch::Sender<u64>,
    next_sequence: AtomicU64,
}

/// When a sign-in or a sign-out was asked for. However long each takes, what was asked for last is what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SignInSequence(pub u64);

/// What became of the sign-ins to one resource.
#[derive(Default)]
struct SignInEntry {
    token: Option<SecretString>,
    /// When this was asked for, so that nothing earlier takes its place, nor the end of an earlier token for its own.
    sequence: SignInSequence,
    /// Whether the last one came to an end that nobody asked for.
    is_expired: bool,
    /// Ends the token when its time is over.
    _expiry_task: Option<AbortOnDropHandle<()>>,
}

impl SignInStore {
    /// Nobody has signed in.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), changes: watch::Sender::new(0), next_sequence: AtomicU64::new(1) })
    }

    /// Somebody asks for something now.
    pub(crate) fn next_sequence(&self) -> SignInSequence {
        SignInSequence(self.next_sequence.fetch_add(1, Ordering::Relaxed))
    }

    /// Says whenever something may have changed, in what was brought or in what the host has itself.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A source that gives the host's own credential or, where that does not do, what clients have brought.
    #[must_use]
    pub fn credential_source(self: &Arc<Self>, resource: &str, own: Arc<dyn CredentialSource>) -> ProvidedCredential {
        let (sign_ins, resource) = (Arc::clone(self), resource.to_owned());
        ProvidedCredential { sign_ins, resource, host_credential: own, rejected: Mutex::default() }
    }

    /// Takes a token that was found good, for as long as it lasts, unless something later was done meanwhile. Must be
    /// called inside a tokio runtime.
    pub(crate) fn store_token(
        self: &Arc<Self>,
        turn: SignInSequence,
        resource: &str,
        token: SecretString,
        lasts: Option<Duration>,
    ) {
        let mut brought = self.lock();
        let entry = brought.entry(resource.to_owned()).or_default();
        if entry.sequence > turn {
            return;
        }
        let (resource, this) = (resource.to_owned(), Arc::downgrade(self));
        let time = lasts.map(|lasts| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep(lasts).await;
                if let Some(this) = this.upgrade() {
                    this.expire_token(&resource, |entry| entry.sequence == turn);
                }
            }))
        });
        *entry = SignInEntry { token: Some(token), sequence: turn, is_expired: false, _expiry_task: time };
        drop(brought);
        self.notify_changed();
    }

    /// Forgets a token, because a client says so, unless something later was done meanwhile.
    pub(crate) fn remove_token(&self, turn: SignInSequence, resource: &str) {
        let mut brought = self.lock();
        let entry = brought.entry(resource.to_owned()).or_default();
        if entry.sequence > turn {
            return;
        }
        let before = std::mem::replace(entry, SignInEntry { sequence: turn, ..SignInEntry::default() });
        drop(brought);
        if before.token.is_some() || before.is_expired {
            self.notify_changed();
        }
    }

    /// What was brought for a resource, if it is still good.
    fn token(&self, resource: &str) -> Option<SecretString> {
        self.lock().get(resource)?.token.clone()
    }

    fn is_expired(&self, resource: &str) -> bool {
        self.lock().get(resource).is_some_and(|entry| entry.is_expired)
    }

    /// A token has come to an end; says whether it was there.
    fn expire_token(&self, resource: &str, is_meant: impl Fn(&SignInEntry) -> bool) -> bool {
        let mut brought = self.lock();
        let Some(entry) = brought.get_mut(resource).filter(|entry| entry.token.is_some() && is_meant(entry)) else {
            return false;
        };
        entry.token = None;
        entry.is_expired = true;
        drop(brought);
        tracing::info!(resource, "a sign-in is over");
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

/// One upstream's credential: the host's own, or what clients have brought.
pub struct ProvidedCredential {
    sign_ins: Arc<SignInStore>,
    resource: String,
    host_credential: Arc<dyn CredentialSource>,
    /// The host's own credential that was refused; another one is worth a try again.
    rejected: Mutex<Option<RejectedCredential>>,
}

struct RejectedCredential {
    secret: SecretString,
    /// Tells without looking at it whether there is another one.
    version: Option<CredentialVersion>,
}

impl ProvidedCredential {
    /// Whether the host's own credential is one that was refused.
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
        let brought = self.sign_ins.token(&self.resource);
        // Nobody waits for the host's own while there is another one to go on with.
        let own = if brought.is_some() { self.host_credential.try_current() } else { self.host_credential.current() };
        match &own {
            Ok(Some(token)) if !self.was_rejected(token) => own,
            _ => brought.map_or(own, |token| Ok(Some(token))),
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
        f.debug_struct("BroughtCredential")
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
    async fn what_a_client_brings_is_used_until_it_is_taken_back() {
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
    async fn a_sign_in_ends_with_its_time_and_not_with_that_of_the_one_before() {
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
    async fn what_was_asked_for_last_counts_however_long_it_takes() {
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
    async fn a_refusal_ends_the_token_that_was_refused_and_no_other() {
        let sign_ins = SignInStore::new();
        let source = lacking(&sign_ins);
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "newer".into(), None);
        source.mark_rejected(&"older".into());
        assert_eq!(shown(&source).as_deref(), Some("newer"));
        source.mark_rejected(&"newer".into());
        assert_eq!((shown(&source), source.status()), (None, CredentialStatus::Expired));
    }

    #[tokio::test]
    async fn the_hosts_own_goes_first_until_it_is_refused() {
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(FixedCredential(Some("own".into()))));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "brought".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("own"));
        source.mark_rejected(&"own".into());
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("brought"), CredentialStatus::Ready));
        source.mark_rejected(&"brought".into());
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("own"), CredentialStatus::Expired));
    }

    #[tokio::test]
    async fn a_credential_that_is_taken_after_all_is_good_again() {
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
        assert!(!changes.has_changed().unwrap(), "every call may say so");
    }

    /// A credential of the host's own that nobody gets at once.
    #[derive(Debug)]
    struct Locked;

    impl CredentialSource for Locked {
        fn current(&self) -> Result<Option<SecretString>, CredentialError> {
            panic!("this would wait for a person")
        }

        fn try_current(&self) -> Result<Option<SecretString>, CredentialError> {
            Err(CredentialError("not yet".to_owned()))
        }

        fn status(&self) -> CredentialStatus {
            CredentialStatus::Ready
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_locked_keyring_while_there_is_another_token() {
        let sign_ins = SignInStore::new();
        let source = sign_ins.credential_source(PLACE, Arc::new(Locked));
        sign_ins.store_token(sign_ins.next_sequence(), PLACE, "brought".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("brought"));
        source.mark_rejected(&"some other".into());
        *source.lock() = Some(RejectedCredential { secret: "own".into(), version: None });
        assert_eq!((shown(&source).as_deref(), source.status()), (Some("brought"), CredentialStatus::Ready));
        source.mark_rejected(&"brought".into());
        assert_eq!(source.status(), CredentialStatus::Expired);
    }

    #[test]
    fn another_credential_of_the_hosts_own_is_worth_a_try() {
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
