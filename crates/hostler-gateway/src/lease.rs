//! Who may call: one lease per agent process, from its start to its end.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::SecretString;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::BearerNonce;
use crate::limits::{AdmissionControl, SessionAccount, SessionUsageStatus};
use crate::upstream_registry::UpstreamScope;
use crate::usage::{LeaseUsage, UsageTotals};

/// What an agent process is registered for. The session is what its requests are counted
/// and limited for; the chat is carried for logs only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session that the process works for.
    pub session: String,
    /// The chat of that session.
    pub chat: String,
    /// The one upstream that its bearer reaches; the gateway's default if absent.
    pub upstream: Option<String>,
}

/// A registered caller. Dropping it makes its bearer worthless and ends the calls that still use it.
pub struct Registration {
    bearer: SecretString,
    holder: Arc<LeaseHolder>,
    registry: Arc<LeaseRegistry>,
}

impl Registration {
    /// What the agent sends as its bearer.
    #[must_use]
    pub fn bearer(&self) -> &SecretString {
        &self.bearer
    }

    /// The id behind the dot of the bearer; not a secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.holder.id
    }

    /// The tokens that this lease has used so far, running streams included.
    #[must_use]
    pub fn usage(&self) -> UsageTotals {
        self.holder.usage.totals()
    }

    /// What its session has used, may use and waits for, now and whenever that changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<SessionUsageStatus> {
        self.holder.account.status()
    }

    /// Ends the lease now; the same as dropping it.
    pub fn revoke(self) {
        drop(self);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.remove(&self.holder.id);
        self.holder.cancellation.cancel();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("id", &self.holder.id)
            .field("lease", &self.holder.lease)
            .finish_non_exhaustive()
    }
}

/// A caller as the request path sees it.
pub(crate) struct LeaseHolder {
    pub(crate) id: String,
    /// Absent for callers that were let in without a registration.
    pub(crate) lease: Option<Lease>,
    pub(crate) usage: LeaseUsage,
    /// Where its requests are admitted and counted.
    pub(crate) account: Arc<SessionAccount>,
    /// Cancelled when the lease is revoked or the gateway stops.
    pub(crate) cancellation: CancellationToken,
}

impl LeaseHolder {
    /// Which upstreams its requests may go to.
    pub(crate) fn upstream_scope(&self) -> UpstreamScope<'_> {
        match &self.lease {
            Some(lease) => UpstreamScope::Single(lease.upstream.as_deref()),
            None => UpstreamScope::All,
        }
    }
}

/// The leases that are alive.
pub(crate) struct LeaseRegistry {
    holders: RwLock<HashMap<String, Arc<LeaseHolder>>>,
    accept_unregistered: bool,
    admission: Arc<AdmissionControl>,
    stop: CancellationToken,
}

impl LeaseRegistry {
    pub(crate) fn new(accept_unregistered: bool, admission: Arc<AdmissionControl>, stop: CancellationToken) -> Self {
        Self { holders: RwLock::default(), accept_unregistered, admission, stop }
    }

    pub(crate) fn register(self: &Arc<Self>, lease: Lease, nonce: &BearerNonce) -> Registration {
        let holder = Arc::new(self.new_holder(Uuid::new_v4().simple().to_string(), Some(lease)));
        self.holders.write().unwrap_or_else(PoisonError::into_inner).insert(holder.id.clone(), Arc::clone(&holder));
        Registration { bearer: nonce.mint_bearer(&holder.id), holder, registry: Arc::clone(self) }
    }

    /// The caller with this id; nobody if it is unknown and only registered ones are served.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<LeaseHolder>> {
        let known = self.holders.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known.or_else(|| self.accept_unregistered.then(|| Arc::new(self.new_holder(id.to_owned(), None))))
    }

    fn remove(&self, id: &str) {
        self.holders.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn new_holder(&self, id: String, lease: Option<Lease>) -> LeaseHolder {
        let account = match &lease {
            Some(lease) => self.admission.account(&lease.session),
            None => self.admission.unregistered_account(&id),
        };
        LeaseHolder { id, lease, usage: LeaseUsage::default(), account, cancellation: self.stop.child_token() }
    }
}
