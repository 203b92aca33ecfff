//! Sign-ins of clients: to what, whether one is needed, and how one is taken.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use super::Gateway;
use crate::credential::Standing;
use crate::error;
use crate::sign_in::{Protected, SignInError, SignInTurn};
use crate::upstream::UpstreamError;
use crate::upstreams::{Offer, Reach};

/// More is no token.
const MAX_TOKEN: usize = 16 * 1024;
/// Less is none either, and could not be taken out of texts that quote it.
const MIN_TOKEN: usize = 8;

impl Gateway {
    /// What clients can sign in to, each once, and whether that is needed.
    #[must_use]
    pub fn protected(&self) -> Vec<Protected> {
        let offers = self.shared.offers();
        let required = offers.all().iter().all(|offer| offer.upstream.standing() != Standing::Ready);
        let mut found: Vec<Protected> = Vec::new();
        for offer in offers.all() {
            let Some(resource) = offer.upstream.resource() else { continue };
            let standing = offer.upstream.standing();
            match found.iter_mut().find(|known| known.resource.id == resource.id) {
                Some(known) if known.standing == Standing::Ready => known.standing = standing,
                Some(_) => {}
                None => found.push(Protected { resource, standing, required }),
            }
        }
        found
    }

    /// What somebody has to sign in to before a model can be used, by the id that a person chose.
    #[must_use]
    pub fn sign_in_for(&self, model: &str) -> Option<Protected> {
        let offers = self.shared.offers();
        let (offer, _) = offers.route(Reach::All, model).ok()?;
        let (resource, standing) = (offer.upstream.resource()?, offer.upstream.standing());
        (standing != Standing::Ready).then_some(Protected { resource, standing, required: true })
    }

    /// Somebody asks to be signed in or out now: what is asked for later is not undone by what is done later.
    #[must_use]
    pub fn sign_in_turn(&self) -> SignInTurn {
        self.shared.sign_ins.turn()
    }

    /// Takes a client's token for a resource after trying it, for as long as it lasts. A token that cannot be tried just
    /// now is taken: the first call tries it.
    ///
    /// # Errors
    /// If no upstream needs it, or if one refuses it; then an earlier one stays.
    pub async fn sign_in(
        &self,
        turn: SignInTurn,
        resource: &str,
        token: SecretString,
        lasts: Option<Duration>,
    ) -> Result<(), SignInError> {
        let takers = self.takers(resource)?;
        if token.expose_secret().len() < MIN_TOKEN {
            return Err(SignInError::Unfit("the token is no token: it is too short".to_owned()));
        }
        if token.expose_secret().len() > MAX_TOKEN || !token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(SignInError::Refused("the token is no token: it is too long, or holds other signs".to_owned()));
        }
        for offer in takers {
            match offer.upstream.check(token.clone()).await {
                Ok(()) => {}
                Err(UpstreamError::Refused(refusal))
                    if matches!(refusal.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) =>
                {
                    let told = error::envelope_message(&refusal.body);
                    let told = told.unwrap_or_else(|| format!("{} does not accept the token.", offer.name));
                    return Err(SignInError::Refused(told));
                }
                Err(error) => tracing::info!(upstream = offer.name, %error, "a token could not be tried"),
            }
        }
        self.shared.sign_ins.bring(turn, resource, token, lasts);
        Ok(())
    }

    /// Forgets the token that clients have brought for a resource.
    ///
    /// # Errors
    /// If no upstream needs it.
    pub fn sign_out(&self, turn: SignInTurn, resource: &str) -> Result<(), SignInError> {
        self.takers(resource)?;
        self.shared.sign_ins.take_back(turn, resource);
        Ok(())
    }

    /// Says whenever [`protected`](Self::protected) may have changed, but for a change of the upstreams.
    #[must_use]
    pub fn sign_in_changes(&self) -> watch::Receiver<u64> {
        self.shared.sign_ins.changes()
    }

    /// The upstreams that a token for a resource is for.
    fn takers(&self, resource: &str) -> Result<Vec<Arc<Offer>>, SignInError> {
        let offers = self.shared.offers();
        let takes = |offer: &&Arc<Offer>| offer.upstream.resource().is_some_and(|own| own.id == resource);
        let takers: Vec<Arc<Offer>> = offers.all().iter().filter(takes).cloned().collect();
        if takers.is_empty() { Err(SignInError::Unknown(resource.to_owned())) } else { Ok(takers) }
    }
}
