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

use crate::credential::{CredentialError, CredentialSource, Stamp, Standing};

/// What somebody signs in to, in the words of RFC 9728.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
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
pub struct Protected {
    /// The resource.
    pub resource: Resource,
    /// Whether there is a credential for it.
    pub standing: Standing,
    /// Whether no upstream at all can be used without it.
    pub required: bool,
}

/// Why nobody was signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// No upstream needs it.
    #[error("no upstream of this host takes a sign-in to {0:?}")]
    Unknown(String),
    /// No upstream has to be asked about this.
    #[error("{0}")]
    Unfit(String),
    /// The upstream does not take the token.
    #[error("{0}")]
    Refused(String),
}

/// What clients have brought, by the resource's identifier.
pub struct SignIns {
    brought: Mutex<HashMap<String, Brought>>,
    changes: watch::Sender<u64>,
    turns: AtomicU64,
}

/// When a sign-in or a sign-out was asked for. However long each takes, what was asked for last is what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SignInTurn(pub u64);

/// What became of the sign-ins to one resource.
#[derive(Default)]
struct Brought {
    token: Option<SecretString>,
    /// When this was asked for, so that nothing earlier takes its place, nor the end of an earlier token for its own.
    turn: SignInTurn,
    /// Whether the last one came to an end that nobody asked for.
    over: bool,
    /// Ends the token when its time is over.
    _time: Option<AbortOnDropHandle<()>>,
}

impl SignIns {
    /// Nobody has signed in.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { brought: Mutex::default(), changes: watch::Sender::new(0), turns: AtomicU64::new(1) })
    }

    /// Somebody asks for something now.
    pub(crate) fn turn(&self) -> SignInTurn {
        SignInTurn(self.turns.fetch_add(1, Ordering::Relaxed))
    }

    /// Says whenever something may have changed, in what was brought or in what the host has itself.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A source that gives the host's own credential or, where that does not do, what clients have brought.
    #[must_use]
    pub fn source(self: &Arc<Self>, resource: &str, own: Arc<dyn CredentialSource>) -> BroughtCredential {
        let (sign_ins, resource) = (Arc::clone(self), resource.to_owned());
        BroughtCredential { sign_ins, resource, own, refused: Mutex::default() }
    }

    /// Takes a token that was found good, for as long as it lasts, unless something later was done meanwhile. Must be
    /// called inside a tokio runtime.
    pub(crate) fn bring(
        self: &Arc<Self>,
        turn: SignInTurn,
        resource: &str,
        token: SecretString,
        lasts: Option<Duration>,
    ) {
        let mut brought = self.lock();
        let entry = brought.entry(resource.to_owned()).or_default();
        if entry.turn > turn {
            return;
        }
        let (resource, this) = (resource.to_owned(), Arc::downgrade(self));
        let time = lasts.map(|lasts| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep(lasts).await;
                if let Some(this) = this.upgrade() {
                    this.end(&resource, |entry| entry.turn == turn);
                }
            }))
        });
        *entry = Brought { token: Some(token), turn, over: false, _time: time };
        drop(brought);
        self.changed();
    }

    /// Forgets a token, because a client says so, unless something later was done meanwhile.
    pub(crate) fn take_back(&self, turn: SignInTurn, resource: &str) {
        let mut brought = self.lock();
        let entry = brought.entry(resource.to_owned()).or_default();
        if entry.turn > turn {
            return;
        }
        let before = std::mem::replace(entry, Brought { turn, ..Brought::default() });
        drop(brought);
        if before.token.is_some() || before.over {
            self.changed();
        }
    }

    /// What was brought for a resource, if it is still good.
    fn token(&self, resource: &str) -> Option<SecretString> {
        self.lock().get(resource)?.token.clone()
    }

    fn is_over(&self, resource: &str) -> bool {
        self.lock().get(resource).is_some_and(|entry| entry.over)
    }

    /// A token has come to an end; says whether it was there.
    fn end(&self, resource: &str, is_meant: impl Fn(&Brought) -> bool) -> bool {
        let mut brought = self.lock();
        let Some(entry) = brought.get_mut(resource).filter(|entry| entry.token.is_some() && is_meant(entry)) else {
            return false;
        };
        entry.token = None;
        entry.over = true;
        drop(brought);
        tracing::info!(resource, "a sign-in is over");
        self.changed();
        true
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Brought>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<String> = self.lock().keys().cloned().collect();
        f.debug_struct("SignIns").field("resources", &resources).finish_non_exhaustive()
    }
}

/// One upstream's credential: the host's own, or what clients have brought.
pub struct BroughtCredential {
    sign_ins: Arc<SignIns>,
    resource: String,
    own: Arc<dyn CredentialSource>,
    /// The host's own credential that was refused; another one is worth a try again.
    refused: Mutex<Option<Refused>>,
}

struct Refused {
    secret: SecretString,
    /// Tells without looking at it whether there is another one.
    stamp: Option<Stamp>,
}

impl BroughtCredential {
    /// Whether the host's own credential is one that was refused.
    fn was_refused(&self, own: &SecretString) -> bool {
        let mut refused = self.lock();
        let is_it = refused.as_ref().map(|refused| same(&refused.secret, own));
        if is_it == Some(false) {
            *refused = None;
            drop(refused);
            self.sign_ins.changed();
        }
        is_it == Some(true)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialSource for BroughtCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        let brought = self.sign_ins.token(&self.resource);
        // Nobody waits for the host's own while there is another one to go on with.
        let own = if brought.is_some() { self.own.at_once() } else { self.own.current() };
        match &own {
            Ok(Some(token)) if !self.was_refused(token) => own,
            _ => brought.map_or(own, |token| Ok(Some(token))),
        }
    }

    fn standing(&self) -> Standing {
        let refused = self.lock().as_ref().map(|refused| refused.stamp);
        let own = refused.is_none_or(|stamp| stamp != self.own.stamp()) && self.own.standing() == Standing::Ready;
        if own || self.sign_ins.token(&self.resource).is_some() {
            Standing::Ready
        } else if refused.is_some() || self.sign_ins.is_over(&self.resource) {
            Standing::Over
        } else {
            Standing::Missing
        }
    }

    fn refused(&self, secret: &SecretString) {
        if self.sign_ins.end(&self.resource, |entry| entry.token.as_ref().is_some_and(|token| same(token, secret))) {
            return;
        }
        let stamp = self.own.stamp();
        let is_own = matches!(self.own.at_once(), Ok(Some(own)) if same(&own, secret));
        self.own.refused(secret);
        if !is_own {
            return;
        }
        let before = self.lock().replace(Refused { secret: secret.clone(), stamp });
        if before.is_none_or(|before| !same(&before.secret, secret) || before.stamp != stamp) {
            self.sign_ins.changed();
        }
    }

    fn accepted(&self, secret: &SecretString) {
        self.own.accepted(secret);
        let forgiven = self.lock().take_if(|refused| same(&refused.secret, secret));
        if forgiven.is_some() {
            self.sign_ins.changed();
        }
    }
}

fn same(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}

impl fmt::Debug for BroughtCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroughtCredential").field("resource", &self.resource).field("own", &self.own).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::{FixedCredential, MissingCredential};

    const PLACE: &str = "https://api.example.com";

    fn shown(source: &BroughtCredential) -> Option<String> {
        source.current().ok().flatten().map(|token| token.expose_secret().to_owned())
    }

    fn lacking(sign_ins: &Arc<SignIns>) -> BroughtCredential {
        sign_ins.source(PLACE, Arc::new(MissingCredential("sign in".to_owned())))
    }

    #[tokio::test]
    async fn what_a_client_brings_is_used_until_it_is_taken_back() {
        let sign_ins = SignIns::new();
        let source = lacking(&sign_ins);
        assert_eq!((shown(&source), source.standing()), (None, Standing::Missing));
        let mut changes = sign_ins.changes();
        sign_ins.bring(sign_ins.turn(), "https://elsewhere.example.com", "for-another-place".into(), None);
        assert_eq!(source.standing(), Standing::Missing);
        sign_ins.bring(sign_ins.turn(), PLACE, "first-one".into(), None);
        assert_eq!((shown(&source).as_deref(), source.standing()), (Some("first-one"), Standing::Ready));
        sign_ins.bring(sign_ins.turn(), PLACE, "second-one".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("second-one"));
        sign_ins.take_back(sign_ins.turn(), PLACE);
        assert_eq!((shown(&source), source.standing()), (None, Standing::Missing));
        changes.mark_unchanged();
        sign_ins.take_back(sign_ins.turn(), PLACE);
        assert!(!changes.has_changed().unwrap(), "there was nothing to take back");
        assert!(!format!("{sign_ins:?} {source:?}").contains("-one"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_in_ends_with_its_time_and_not_with_that_of_the_one_before() {
        let sign_ins = SignIns::new();
        let source = lacking(&sign_ins);
        let minute = Duration::from_secs(60);
        sign_ins.bring(sign_ins.turn(), PLACE, "short".into(), Some(minute));
        sign_ins.bring(sign_ins.turn(), PLACE, "long".into(), Some(3 * minute));
        let mut changes = sign_ins.changes();
        tokio::time::sleep(2 * minute).await;
        assert_eq!(shown(&source).as_deref(), Some("long"));
        assert!(!changes.has_changed().unwrap());
        changes.changed().await.unwrap();
        assert_eq!((shown(&source), source.standing()), (None, Standing::Over));
        sign_ins.bring(sign_ins.turn(), PLACE, "for ever".into(), None);
        assert_eq!(source.standing(), Standing::Ready);
    }

    #[tokio::test]
    async fn what_was_asked_for_last_counts_however_long_it_takes() {
        let sign_ins = SignIns::new();
        let source = lacking(&sign_ins);
        let [first, second, third, fourth] = std::array::from_fn(|_| sign_ins.turn());
        sign_ins.bring(second, PLACE, "second".into(), None);
        sign_ins.bring(first, PLACE, "first".into(), Some(Duration::ZERO));
        assert_eq!(shown(&source).as_deref(), Some("second"));
        sign_ins.take_back(fourth, PLACE);
        sign_ins.bring(third, PLACE, "third".into(), None);
        assert_eq!((shown(&source), source.standing()), (None, Standing::Missing));
        sign_ins.bring(sign_ins.turn(), PLACE, "fifth".into(), None);
        sign_ins.take_back(fourth, PLACE);
        assert_eq!(shown(&source).as_deref(), Some("fifth"));
    }

    #[tokio::test]
    async fn a_refusal_ends_the_token_that_was_refused_and_no_other() {
        let sign_ins = SignIns::new();
        let source = lacking(&sign_ins);
        sign_ins.bring(sign_ins.turn(), PLACE, "newer".into(), None);
        source.refused(&"older".into());
        assert_eq!(shown(&source).as_deref(), Some("newer"));
        source.refused(&"newer".into());
        assert_eq!((shown(&source), source.standing()), (None, Standing::Over));
    }

    #[tokio::test]
    async fn the_hosts_own_goes_first_until_it_is_refused() {
        let sign_ins = SignIns::new();
        let source = sign_ins.source(PLACE, Arc::new(FixedCredential(Some("own".into()))));
        sign_ins.bring(sign_ins.turn(), PLACE, "brought".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("own"));
        source.refused(&"own".into());
        assert_eq!((shown(&source).as_deref(), source.standing()), (Some("brought"), Standing::Ready));
        source.refused(&"brought".into());
        assert_eq!((shown(&source).as_deref(), source.standing()), (Some("own"), Standing::Over));
    }

    #[tokio::test]
    async fn a_credential_that_is_taken_after_all_is_good_again() {
        let sign_ins = SignIns::new();
        let source = sign_ins.source(PLACE, Arc::new(FixedCredential(Some("own".into()))));
        source.refused(&"of old".into());
        assert_eq!(source.standing(), Standing::Ready, "that was not this one");
        source.refused(&"own".into());
        let mut changes = sign_ins.changes();
        source.accepted(&"another".into());
        assert_eq!((source.standing(), changes.has_changed().unwrap()), (Standing::Over, false));
        source.accepted(&"own".into());
        assert_eq!((source.standing(), changes.has_changed().unwrap()), (Standing::Ready, true));
        changes.mark_unchanged();
        source.accepted(&"own".into());
        assert!(!changes.has_changed().unwrap(), "every call may say so");
    }

    /// A credential of the host's own that nobody gets at once.
    #[derive(Debug)]
    struct Locked;

    impl CredentialSource for Locked {
        fn current(&self) -> Result<Option<SecretString>, CredentialError> {
            panic!("this would wait for a person")
        }

        fn at_once(&self) -> Result<Option<SecretString>, CredentialError> {
            Err(CredentialError("not yet".to_owned()))
        }

        fn standing(&self) -> Standing {
            Standing::Ready
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_locked_keyring_while_there_is_another_token() {
        let sign_ins = SignIns::new();
        let source = sign_ins.source(PLACE, Arc::new(Locked));
        sign_ins.bring(sign_ins.turn(), PLACE, "brought".into(), None);
        assert_eq!(shown(&source).as_deref(), Some("brought"));
        source.refused(&"some other".into());
        *source.lock() = Some(Refused { secret: "own".into(), stamp: None });
        assert_eq!((shown(&source).as_deref(), source.standing()), (Some("brought"), Standing::Ready));
        source.refused(&"brought".into());
        assert_eq!(source.standing(), Standing::Over);
    }

    #[test]
    fn another_credential_of_the_hosts_own_is_worth_a_try() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "one").unwrap();
        let sign_ins = SignIns::new();
        let source = sign_ins.source(PLACE, Arc::new(crate::credential::FileCredential::new(path.clone())));
        source.refused(&"one".into());
        assert_eq!(source.standing(), Standing::Over);
        std::fs::write(&path, "another").unwrap();
        assert_eq!((source.standing(), shown(&source).as_deref()), (Standing::Ready, Some("another")));
    }
}
