//! Leases: one per agent process, from its start to its end. The registry maps bearer ids to leases and cancels
//! requests of revoked ones.

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

/// What an agent process is registered for. Requests are counted and limited by session; the chat is only logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session that the process works for.
    pub session: String,
    /// The chat of that session.
    pub chat: String,
    /// The only upstream that the bearer reaches; the gateway's default if absent.
    pub upstream: Option<String>,
}

/// A registered agent process. Dropping it revokes its bearer and cancels the requests that use it.
pub struct Registration {
    bearer: SecretString,
    holder: Arc<LeaseHolder>,
    registry: Arc<LeaseRegistry>,
}

impl Registration {
    /// The agent's bearer.
    #[must_use]
    pub fn bearer(&self) -> &SecretString {
        &self.bearer
    }

    /// The id in the bearer, after the dot; not a secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.holder.id
    }

    /// Usage of this lease so far, running streams included.
    #[must_use]
    pub fn usage(&self) -> UsageTotals {
        self.holder.usage.totals()
    }

    /// The session's usage, limits and waiting request, now and at every change.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<SessionUsageStatus> {
        self.holder.account.status()
    }

    /// Revokes the lease; the same as dropping it.
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

/// The caller of a request.
pub(crate) struct LeaseHolder {
    pub(crate) id: String,
    /// Absent for unregistered callers.
    pub(crate) lease: Option<Lease>,
    pub(crate) usage: LeaseUsage,
    /// The account that its requests are admitted and counted under.
    pub(crate) account: Arc<SessionAccount>,
    /// Cancelled when the lease is revoked or the gateway stops.
    pub(crate) cancellation: CancellationToken,
}

impl LeaseHolder {
    /// The upstreams that its requests may reach.
    pub(crate) fn upstream_scope(&self) -> UpstreamScope<'_> {
        match &self.lease {
            Some(lease) => UpstreamScope::Single(lease.upstream.as_deref()),
            None => UpstreamScope::All,
        }
    }
}

/// All active leases.
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

    /// The caller with this id; `None` if it is unknown and only registered callers are served.
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
