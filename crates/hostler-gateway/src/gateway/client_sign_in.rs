//! Sign-ins by clients: lists protected resources and their status, accepts and removes tokens. The tokens are in
//! `SignInStore`.

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

/// Maximum length of a token.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Minimum length of a token; a shorter one could not be redacted reliably from texts that contain it.
const MIN_TOKEN_BYTES: usize = 8;

impl Gateway {
    /// Lists what clients can sign in to, each resource once, with its status.
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

    /// The resource that requires a sign-in before this model can be used, by the id that a person selected.
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

    /// Returns the position of a sign-in or sign-out that starts now; a later request wins, even if an earlier one
    /// finishes after it.
    #[must_use]
    pub fn next_sign_in_sequence(&self) -> SignInSequence {
        self.shared.sign_ins.next_sequence()
    }

    /// Verifies a client's token for a resource and stores it until it expires. A token that cannot be verified at the
    /// moment is stored as well; the first call verifies it.
    ///
    /// # Errors
    /// If no upstream uses the resource, or if an upstream rejects the token; an earlier token then stays.
    pub async fn sign_in(
        &self,
        sequence: SignInSequence,
        resource: &str,
        token: SecretString,
        lifetime: Option<Duration>,
    ) -> Result<(), SignInError> {
        let takers = self.upstreams_for_resource(resource)?;
        if token.expose_secret().len() < MIN_TOKEN_BYTES {
            return Err(SignInError::InvalidToken("it is too short"));
        }
        if token.expose_secret().len() > MAX_TOKEN_BYTES
            || !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(SignInError::Rejected(
                "the token is invalid: it is too long or contains characters that are not printable ASCII".to_owned(),
            ));
        }
        for offer in takers {
            match offer.upstream.verify_token(token.clone()).await {
                Ok(()) => {}
                Err(UpstreamError::ErrorResponse(refusal))
                    if matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
                {
                    let message = error::error_body_message(&refusal.body);
                    let message = message.unwrap_or_else(|| format!("{} rejected the token", offer.name));
                    return Err(SignInError::Rejected(message));
                }
                Err(error) => {
                    tracing::info!(upstream = offer.name, %error, "failed to verify a token; it is stored unverified")
                }
            }
        }
        self.shared.sign_ins.store_token(sequence, resource, token, lifetime);
        Ok(())
    }

    /// Removes the token that clients have provided for a resource.
    ///
    /// # Errors
    /// If no upstream uses the resource.
    pub fn sign_out(&self, sequence: SignInSequence, resource: &str) -> Result<(), SignInError> {
        self.upstreams_for_resource(resource)?;
        self.shared.sign_ins.remove_token(sequence, resource);
        Ok(())
    }

    /// Signals that [`protected_resources`](Self::protected_resources) may have changed, except when the upstreams are
    /// replaced.
    #[must_use]
    pub fn sign_in_changes(&self) -> watch::Receiver<u64> {
        self.shared.sign_ins.changes()
    }

    /// The upstreams that use tokens for a resource.
    fn upstreams_for_resource(&self, resource: &str) -> Result<Vec<Arc<RegisteredUpstream>>, SignInError> {
        let offers = self.shared.upstreams();
        let takes = |offer: &&Arc<RegisteredUpstream>| {
            offer.upstream.protected_resource().is_some_and(|own| own.id == resource)
        };
        let takers: Vec<Arc<RegisteredUpstream>> = offers.all().iter().filter(takes).cloned().collect();
        if takers.is_empty() { Err(SignInError::UnknownResource(resource.to_owned())) } else { Ok(takers) }
    }
}
