//! Sign-ins of clients: to what, whether one is needed, and how one is taken.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use super::Gateway;
use crate::credential::CredentialStatus;
use crate::error;
use crate::sign_in::{ProtectedResourceStatus, SignInError, SignInSequence};
use crate::upstream::UpstreamError;
use crate::upstream_registry::{RegisteredUpstream, UpstreamScope};

/// More is no token.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Less is none either, and could not be taken out of texts that quote it.
const MIN_TOKEN_BYTES: usize = 8;

impl Gateway {
    /// What clients can sign in to, each once, and whether that is needed.
    #[must_use]
    pub fn protected_resources(&self) -> Vec<ProtectedResourceStatus> {
        let offers = self.shared.upstreams();
        let required = offers.all().iter().all(|offer| offer.upstream.credential_status() != CredentialStatus::Ready);
        let mut found: Vec<ProtectedResourceStatus> = Vec::new();
        for offer in offers.all() {
            let Some(resource) = offer.upstream.protected_resource() else { continue };
            let standing = offer.upstream.credential_status();
            match found.iter_mut().find(|known| known.resource.id == resource.id) {
                Some(known) if known.credential_status == CredentialStatus::Ready => known.credential_status = standing,
                Some(_) => {}
                None => found.push(ProtectedResourceStatus { resource, credential_status: standing, required }),
            }
        }
        found
    }

    /// What somebody has to sign in to before a model can be used, by the id that a person chose.
    #[must_use]
    pub fn required_sign_in(&self, model: &str) -> Option<ProtectedResourceStatus> {
        let offers = self.shared.upstreams();
        let (offer, _) = offers.route(UpstreamScope::All, model).ok()?;
        let (resource, standing) = (offer.upstream.protected_resource()?, offer.upstream.credential_status());
        (standing != CredentialStatus::Ready).then_some(ProtectedResourceStatus {
            resource,
            credential_status: standing,
            required: true,
        })
    }

    /// Somebody asks to be signed in or out now: what is asked for later is not undone by what is done later.
    #[must_use]
    pub fn next_sign_in_sequence(&self) -> SignInSequence {
        self.shared.sign_ins.next_sequence()
    }

    /// Takes a client's token for a resource after trying it, for as long as it lasts. A token that cannot be tried just
    /// now is taken: the first call tries it.
    ///
    /// # Errors
    /// If no upstream needs it, or if one refuses it; then an earlier one stays.
    pub async fn sign_in(
        &self,
        turn: SignInSequence,
        resource: &str,
        token: SecretString,
        lasts: Option<Duration>,
    ) -> Result<(), SignInError> {
        let takers = self.upstreams_for_resource(resource)?;
        if token.expose_secret().len() < MIN_TOKEN_BYTES {
            return Err(SignInError::InvalidToken("the token is no token: it is too short".to_owned()));
        }
        if token.expose_secret().len() > MAX_TOKEN_BYTES
            || !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(SignInError::Rejected(
                "the token is no token: it is too long, or holds other signs".to_owned(),
            ));
        }
        for offer in takers {
            match offer.upstream.verify_token(token.clone()).await {
                Ok(()) => {}
                Err(UpstreamError::ErrorResponse(refusal))
                    if matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
                {
                    let told = error::error_body_message(&refusal.body);
                    let told = told.unwrap_or_else(|| format!("{} does not accept the token.", offer.name));
                    return Err(SignInError::Rejected(told));
                }
                Err(error) => tracing::info!(upstream = offer.name, %error, "a token could not be tried"),
            }
        }
        self.shared.sign_ins.store_token(turn, resource, token, lasts);
        Ok(())
    }

    /// Forgets the token that clients have brought for a resource.
    ///
    /// # Errors
    /// If no upstream needs it.
    pub fn sign_out(&self, turn: SignInSequence, resource: &str) -> Result<(), SignInError> {
        self.upstreams_for_resource(resource)?;
        self.shared.sign_ins.remove_token(turn, resource);
        Ok(())
    }

    /// Says whenever [`protected`](Self::protected) may have changed, but for a change of the upstreams.
    #[must_use]
    pub fn sign_in_changes(&self) -> watch::Receiver<u64> {
        self.shared.sign_ins.changes()
    }

    /// The upstreams that a token for a resource is for.
    fn upstreams_for_resource(&self, resource: &str) -> Result<Vec<Arc<RegisteredUpstream>>, SignInError> {
        let offers = self.shared.upstreams();
        let takes = |offer: &&Arc<RegisteredUpstream>| {
            offer.upstream.protected_resource().is_some_and(|own| own.id == resource)
        };
        let takers: Vec<Arc<RegisteredUpstream>> = offers.all().iter().filter(takes).cloned().collect();
        if takers.is_empty() { Err(SignInError::UnknownResource(resource.to_owned())) } else { Ok(takers) }
    }
}
