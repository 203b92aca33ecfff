//! Sign-ins: what the upstreams need that the host does not have, and how clients bring it.
//!
//! Tokens pass through here and stay nowhere: the gateway keeps them, in memory. What is told to clients is what is
//! needed, in the root's state, and that a sign-in has come to an end, as a notice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahp_types::state::ProtectedResourceMetadata;
use hostler_store::{Batch, Durability};
use secrecy::SecretString;

use crate::engine::Engine;
use crate::host::Host;
use crate::hub::NoticeKind;
use crate::port::{Protected, SignInError, SignInNeed, SignInTurn};
use crate::{EngineError, uri};

/// What clients were told last about each resource.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashMap<String, Option<SignInNeed>>>);

impl Told {
    /// Takes note of what is needed now; gives back what has come to an end since. It is asked for here, so that of two
    /// who come at once the later one has the later answer.
    fn ended(&self, protected: impl FnOnce() -> Vec<Protected>) -> Vec<Protected> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let protected = protected();
        told.retain(|resource, _| protected.iter().any(|known| known.resource == *resource));
        let newly_over = |known: &Protected| {
            let before = told.insert(known.resource.clone(), known.needed);
            known.needed == Some(SignInNeed::Over) && before != Some(Some(SignInNeed::Over))
        };
        protected.into_iter().filter(newly_over).collect()
    }
}

impl Protected {
    /// What clients are shown.
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
            required: Some(self.required),
        }
    }

    /// What a person can do about it.
    pub(crate) fn sentence(&self) -> String {
        let name = &self.name;
        let what = match self.needed {
            Some(SignInNeed::Over) => format!("The sign-in to {name} is over or was refused"),
            Some(SignInNeed::First) | None => format!("Nobody has signed in to {name}"),
        };
        format!("{what}. Sign in with your client, or run `hostler agents login` on the host, and send it again.")
    }
}

impl Host {
    /// What clients should sign in to.
    pub(crate) fn sign_ins_needed(&self) -> Vec<Protected> {
        self.gateway.protected().into_iter().filter(|protected| protected.needed.is_some()).collect()
    }

    /// Refuses a wish that cannot come true before somebody has signed in.
    pub(crate) fn check_signed_in(&self) -> Result<(), EngineError> {
        let needed: Vec<Protected> = self.sign_ins_needed().into_iter().filter(|needed| needed.required).collect();
        match needed.first() {
            Some(first) => Err(EngineError::SignInNeeded {
                sentence: first.sentence(),
                resources: needed.iter().map(Protected::metadata).collect(),
            }),
            None => Ok(()),
        }
    }

    /// Tells clients what is needed now, and what has come to an end.
    pub(crate) async fn sign_ins_changed(&self) {
        let ended = self.signed_in.ended(|| self.gateway.protected());
        self.models_changed().await;
        for protected in ended {
            let hub = Arc::clone(&self.hub);
            let notice = NoticeKind::SignInOver(Box::new(protected.metadata()));
            let marker = Batch::new(None, Durability::Memory).then(move |_| hub.notify(uri::ROOT, notice));
            if let Err(error) = self.store.sequencer().submit(marker).await {
                tracing::debug!(%error, "the end of a sign-in came too late");
            }
        }
    }
}

impl Engine {
    /// A client asks for a sign-in now, which may take a while: to be called in the order in which clients ask.
    #[must_use]
    pub fn sign_in_turn(&self) -> SignInTurn {
        self.host.gateway.sign_in_turn()
    }

    /// Takes a client's token for a resource, for all clients, as long as it lasts or until it is taken back. An empty one
    /// takes back what is there.
    ///
    /// # Errors
    /// If nothing here needs it, or the token is refused; then nothing has changed.
    pub async fn authenticate(
        &self,
        turn: SignInTurn,
        resource: &str,
        token: Option<SecretString>,
        lasts: Option<Duration>,
    ) -> Result<(), EngineError> {
        let gateway = &self.host.gateway;
        let done = match token {
            Some(token) => gateway.sign_in(turn, resource, token, lasts).await,
            None => gateway.sign_out(turn, resource),
        };
        done.map_err(|error| match error {
            SignInError::Unknown(sentence) | SignInError::Unfit(sentence) => EngineError::Invalid(sentence),
            SignInError::Refused(sentence) => {
                let protected = gateway.protected().into_iter();
                let meant = protected.filter(|protected| protected.resource == resource);
                EngineError::SignInNeeded { sentence, resources: meant.map(|meant| meant.metadata()).collect() }
            }
        })?;
        self.host.sign_ins_changed().await;
        Ok(())
    }

    /// What the upstreams need may have changed: clients are told if it has.
    pub async fn sign_ins_changed(&self) {
        self.host.sign_ins_changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_again_after_the_next_sign_in() {
        let state = |needed| {
            vec![Protected {
                resource: "https://api.example.com".to_owned(),
                name: "Example".to_owned(),
                authorization_server: "https://example.com/login".to_owned(),
                scopes: Vec::new(),
                needed,
                required: true,
            }]
        };
        let told = Told::default();
        for (needed, ended) in [
            (Some(SignInNeed::First), 0),
            (None, 0),
            (Some(SignInNeed::Over), 1),
            (Some(SignInNeed::Over), 0),
            (None, 0),
            (Some(SignInNeed::Over), 1),
            (Some(SignInNeed::First), 0),
        ] {
            assert_eq!(told.ended(|| state(needed)).len(), ended, "{needed:?}");
        }
        assert!(told.ended(Vec::new).is_empty());
        assert!(told.0.lock().unwrap().is_empty(), "what is not configured any more is forgotten");
    }
}
