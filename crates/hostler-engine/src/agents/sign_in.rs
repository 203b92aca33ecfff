//! Sign-ins: which upstream credentials are missing, and how clients provide them.
//!
//! Tokens are passed on without being stored: the gateway holds them, in memory. Clients receive the missing sign-ins
//! in the root state, and a notification when a sign-in expires.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ahp_types::state::ProtectedResourceMetadata;
use secrecy::SecretString;

use super::AgentService;
use crate::agents::model_gateway::{SignInNeed, SignInResource, UpstreamSignInError, UpstreamSignInSequence};
use crate::clients::broadcaster::HostNotificationKind;
use crate::engine::Engine;
use crate::host::Host;
use crate::{EngineError, InvalidParams};

/// What was announced last about each resource.
#[derive(Default)]
pub(crate) struct AnnouncedSignIns(Mutex<HashMap<String, Option<SignInNeed>>>);

impl AnnouncedSignIns {
    /// Stores the present needs and returns the sign-ins that expired since the last call. `protected` is called under
    /// the lock, so that of two concurrent callers the later one has the newer answer.
    fn take_ended(&self, protected: impl FnOnce() -> Vec<SignInResource>) -> Vec<SignInResource> {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let protected = protected();
        announced.retain(|resource, _| protected.iter().any(|known| known.resource == *resource));
        let newly_over = |known: &SignInResource| {
            let before = announced.insert(known.resource.clone(), known.sign_in_need);
            known.sign_in_need == Some(SignInNeed::Expired) && before != Some(Some(SignInNeed::Expired))
        };
        protected.into_iter().filter(newly_over).collect()
    }
}

impl SignInResource {
    /// The metadata that clients receive.
    pub(crate) fn metadata(&self) -> ProtectedResourceMetadata {
        ProtectedResourceMetadata {
            resource: self.resource.clone(),
            resource_name: Some(self.name.clone()),
            authorization_servers: Some(vec![self.authorization_server.clone()]),
            jwks_uri: None,
            scopes_supported: Some(self.scopes.clone()),
            bearer_methods_supported: None,
            resource_signing_alg_values_supported: None,
            resource_documentation: None,
            resource_policy_uri: None,
            resource_tos_uri: None,
            required: Some(self.is_required),
        }
    }

    /// What a person can do to sign in.
    pub(crate) fn sign_in_instructions(&self) -> String {
        let name = &self.name;
        let what = match self.sign_in_need {
            Some(SignInNeed::Expired) => format!("The sign-in to {name} has expired or was rejected"),
            Some(SignInNeed::NotSignedIn) | None => format!("{name} needs a sign-in"),
        };
        format!(
            "{what}. Sign in with your client, or run `hostler agents login` on the host, then send the message again."
        )
    }
}

impl AgentService {
    /// The resources that clients should sign in to.
    fn needed_sign_ins(&self) -> Vec<SignInResource> {
        self.gateway.protected_resources().into_iter().filter(|protected| protected.sign_in_need.is_some()).collect()
    }

    /// Fails if a sign-in is required first.
    pub(crate) fn check_signed_in(&self) -> Result<(), EngineError> {
        let needed: Vec<SignInResource> =
            self.needed_sign_ins().into_iter().filter(|needed| needed.is_required).collect();
        match needed.first() {
            Some(first) => Err(EngineError::SignInNeeded {
                message: first.sign_in_instructions(),
                resources: needed.iter().map(SignInResource::metadata).collect(),
            }),
            None => Ok(()),
        }
    }

    /// The sign-ins that expired since the last call.
    fn take_expired_sign_ins(&self) -> Vec<SignInResource> {
        self.announced_sign_ins.take_ended(|| self.gateway.protected_resources())
    }
}

impl Host {
    /// Publishes the required sign-ins, and notifies clients of expired ones.
    pub(crate) async fn publish_sign_ins(&self) {
        let ended = self.agents.take_expired_sign_ins();
        self.refresh_models().await;
        if ended.is_empty() {
            return;
        }
        let notices = ended.iter().map(|ended| HostNotificationKind::SignInExpired(Box::new(ended.metadata())));
        if let Err(error) = self.publication.publish_notifications(notices.collect()).await {
            tracing::debug!(%error, "failed to publish an expired sign-in: the store has stopped");
        }
    }
}

impl Engine {
    /// Starts a sign-in, which may take a while. Must be called in the order of the clients' requests.
    #[must_use]
    pub fn next_sign_in_sequence(&self) -> UpstreamSignInSequence {
        self.host.agents.gateway().next_sign_in_sequence()
    }

    /// Sets a client's token for a resource, for all clients, until it expires or is removed. An empty token removes
    /// the present one.
    ///
    /// # Errors
    /// If no upstream needs it, or the token is rejected; nothing has changed then.
    pub async fn authenticate(
        &self,
        turn: UpstreamSignInSequence,
        resource: &str,
        token: Option<SecretString>,
        lasts: Option<Duration>,
    ) -> Result<(), EngineError> {
        let gateway = self.host.agents.gateway();
        let done = match token {
            Some(token) => gateway.sign_in(turn, resource, token, lasts).await,
            None => gateway.sign_out(turn, resource),
        };
        done.map_err(|error| match error {
            error @ (UpstreamSignInError::UnknownResource(_) | UpstreamSignInError::InvalidToken(_)) => {
                InvalidParams::SignIn(error).into()
            }
            UpstreamSignInError::TokenRejected(sentence) => {
                let protected = gateway.protected_resources().into_iter();
                let meant = protected.filter(|protected| protected.resource == resource);
                EngineError::SignInNeeded {
                    message: sentence,
                    resources: meant.map(|meant| meant.metadata()).collect(),
                }
            }
        })?;
        self.host.publish_sign_ins().await;
        Ok(())
    }

    /// Publishes the required sign-ins if they have changed.
    pub async fn publish_sign_ins(&self) {
        self.host.publish_sign_ins().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_announced_once_per_sign_in() {
        let state = |needed| {
            vec![SignInResource {
                resource: "https://api.example.com".to_owned(),
                name: "Example".to_owned(),
                authorization_server: "https://example.com/login".to_owned(),
                scopes: Vec::new(),
                sign_in_need: needed,
                is_required: true,
            }]
        };
        let announced = AnnouncedSignIns::default();
        for (needed, ended) in [
            (Some(SignInNeed::NotSignedIn), 0),
            (None, 0),
            (Some(SignInNeed::Expired), 1),
            (Some(SignInNeed::Expired), 0),
            (None, 0),
            (Some(SignInNeed::Expired), 1),
            (Some(SignInNeed::NotSignedIn), 0),
        ] {
            assert_eq!(announced.take_ended(|| state(needed)).len(), ended, "{needed:?}");
        }
        assert!(announced.take_ended(Vec::new).is_empty());
        assert!(announced.0.lock().unwrap().is_empty(), "what is not configured any more is forgotten");
    }
}
