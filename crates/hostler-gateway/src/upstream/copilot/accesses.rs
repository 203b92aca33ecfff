//! The access that is in use, and the one attempt at a time to get the next.
//!
//! An attempt is a task of its own: callers wait for it, and one that leaves takes nothing from the others. It is owned
//! by this object and by those who wait, so it ends with the last of them at the latest. Knows nothing of how an access
//! is got.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::task::AbortOnDropHandle;

use super::super::redact;
use super::access::{Access, AccessError, same};
use super::clock::Clock;
use super::github::GitHub;
use super::lifetime::Age;
use crate::credential::{CredentialSource, Standing};

/// How long an attempt may take, its second tries included.
const ATTEMPT_TIME: Duration = Duration::from_secs(30);
/// After a failed renewal the old access is used for so long before the next one.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// So many secrets are remembered for redaction; an error may quote one that is not in use any more.
const REMEMBERED: usize = 16;
/// What is shorter may be part of any word, and is no secret of anybody's.
const SHORTEST: usize = 8;

/// Gives out accesses.
pub(super) struct Accesses {
    github: Arc<GitHub>,
    credential: Arc<dyn CredentialSource>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    access: Option<Arc<Access>>,
    attempt: Option<Attempt>,
    /// How many attempts there were; the number of the latest.
    attempts: u64,
    no_renewal_before: Option<SystemTime>,
    secrets: VecDeque<SecretString>,
    /// Tokens that are tried just now. They are not remembered: whoever tries many must not make us forget the others.
    tried: Vec<SecretString>,
}

type Outcome = Result<Arc<Access>, AccessError>;

#[derive(Clone)]
struct Attempt {
    github_token: SecretString,
    outcome: Shared<BoxFuture<'static, Outcome>>,
}

/// What a caller finds.
enum Found {
    Access(Arc<Access>),
    Attempt(Attempt),
}

impl Accesses {
    pub(super) fn new(github: GitHub, credential: Arc<dyn CredentialSource>, clock: Arc<dyn Clock>) -> Self {
        Self { github: Arc::new(github), credential, clock, state: Mutex::default() }
    }

    /// An access that should be good, after waiting for one if there is none.
    pub(super) async fn current(&self) -> Outcome {
        let mut refused: Option<SecretString> = None;
        loop {
            let github_token = self.credential.current()?.ok_or(AccessError::SignedOut)?;
            // GitHub's refusal made the source look again; only another token is worth a second attempt.
            if refused.as_ref().is_some_and(|refused| same(refused, &github_token)) {
                return Err(AccessError::TokenRefused);
            }
            let attempt = match self.find(&github_token) {
                Found::Access(access) => return Ok(access),
                Found::Attempt(attempt) => attempt,
            };
            let outcome = attempt.outcome.await;
            let mut state = self.settled();
            match outcome {
                Err(AccessError::TokenRefused) if refused.is_none() => refused = Some(github_token),
                Err(error) => return Err(error),
                Ok(access) => {
                    // A newer GitHub token may have overtaken this attempt; then nobody else has seen this key.
                    state.remember(&access.key);
                    return Ok(access);
                }
            }
        }
    }

    /// A token is about to be tried: as long as the value lives, it is taken out of texts.
    pub(super) fn trying<'a>(&'a self, github_token: &'a SecretString) -> Trying<'a> {
        self.lock().tried.push(github_token.clone());
        Trying { accesses: self, github_token }
    }

    /// Tries a token that is not in use yet. What it gives serves the first call, if the token comes into use.
    pub(super) async fn try_token(&self, github_token: &SecretString) -> Outcome {
        let number = {
            let mut state = self.settled();
            state.attempts += 1;
            state.attempts
        };
        let access = self.github.access(number, github_token, &*self.clock);
        let access = Arc::new(tokio::time::timeout(ATTEMPT_TIME, access).await.unwrap_or(Err(AccessError::TimedOut))?);
        let mut state = self.settled();
        if state.access.as_ref().is_none_or(|current| same(&current.github_token, github_token)) {
            state.replace(Some(Arc::clone(&access)));
        }
        Ok(access)
    }

    pub(super) fn standing(&self) -> Standing {
        self.credential.standing()
    }

    /// Copilot refused an access: it is given to nobody any more. Another one that came meanwhile stays.
    pub(super) fn refused(&self, access: &Access) {
        let mut state = self.settled();
        if state.access.as_ref().is_some_and(|current| current.number == access.number) {
            state.replace(None);
        }
    }

    /// Copilot took the GitHub token of an access itself.
    pub(super) fn accepted(&self, access: &Access) {
        self.credential.accepted(&access.github_token);
    }

    /// The GitHub token of an access is not good any more; says whether there is another one.
    pub(super) fn give_up(&self, access: &Access) -> bool {
        let is_other = || matches!(self.credential.current(), Ok(Some(token)) if !same(&token, &access.github_token));
        // Others whose calls were refused with it may have been here before.
        is_other() || {
            self.credential.refused(&access.github_token);
            is_other()
        }
    }

    /// Takes every secret in use and of late out of a text.
    pub(super) fn redact(&self, text: Bytes) -> Bytes {
        self.lock().known().iter().fold(text, redact)
    }

    fn find(&self, github_token: &SecretString) -> Found {
        let now = self.clock.now();
        let mut state = self.settled();
        let access = state.access.clone().filter(|access| same(&access.github_token, github_token));
        match access.map(|access| (access.lifetime.age(now), access)) {
            Some((Age::Fresh, access)) => Found::Access(access),
            Some((Age::Due, access)) => {
                if state.no_renewal_before.is_none_or(|time| now >= time) {
                    self.attempt(&mut state, github_token);
                }
                Found::Access(access)
            }
            Some((Age::Over, _)) | None => Found::Attempt(self.attempt(&mut state, github_token)),
        }
    }

    /// The attempt that is under way for this token, or a new one.
    fn attempt(&self, state: &mut State, github_token: &SecretString) -> Attempt {
        if let Some(attempt) = state.attempt.as_ref().filter(|attempt| same(&attempt.github_token, github_token)) {
            return attempt.clone();
        }
        state.remember(github_token);
        state.attempts += 1;
        let number = state.attempts;
        let (github, clock, token) = (Arc::clone(&self.github), Arc::clone(&self.clock), github_token.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let access = tokio::time::timeout(ATTEMPT_TIME, github.access(number, &token, &*clock)).await;
            access.unwrap_or(Err(AccessError::TimedOut)).map(Arc::new)
        }));
        let outcome = async move {
            let ended = |_| AccessError::Internal { reason: "the attempt to get access ended early".to_owned() };
            task.await.map_err(ended).flatten()
        };
        let attempt = Attempt { github_token: github_token.clone(), outcome: outcome.boxed().shared() };
        state.attempt = Some(attempt.clone());
        attempt
    }

    /// The state, after an attempt that is over has been taken note of.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let over = |attempt: &Attempt| {
            let outcome = attempt.outcome.clone().now_or_never()?;
            Some((attempt.github_token.clone(), outcome))
        };
        let Some((github_token, outcome)) = state.attempt.as_ref().and_then(over) else {
            return state;
        };
        state.attempt = None;
        match outcome {
            Ok(access) => {
                tracing::debug!(?access, "there is access to Copilot");
                // Where the token itself is the key, only a call shows that it is good.
                if !access.is_direct() {
                    self.credential.accepted(&github_token);
                }
                state.no_renewal_before = None;
                state.replace(Some(access));
            }
            Err(error) => {
                // What there was before is as good as it was.
                tracing::warn!(%error, "no new access to Copilot");
                state.no_renewal_before = Some(self.clock.now() + RENEWAL_PAUSE);
                if matches!(error, AccessError::TokenRefused) {
                    self.credential.refused(&github_token);
                }
            }
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Accesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accesses").field("github", &self.github).finish_non_exhaustive()
    }
}

/// A token that is tried.
pub(super) struct Trying<'a> {
    accesses: &'a Accesses,
    github_token: &'a SecretString,
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        let mut state = self.accesses.lock();
        // The same token may be tried by several at once.
        if let Some(place) = state.tried.iter().position(|tried| same(tried, self.github_token)) {
            state.tried.swap_remove(place);
        }
    }
}

impl State {
    /// Another access is in use from now on; an error may still quote the one before.
    fn replace(&mut self, access: Option<Arc<Access>>) {
        if let Some(before) = std::mem::replace(&mut self.access, access) {
            self.remember(&before.github_token);
            self.remember(&before.key);
        }
    }

    /// Everything that must not be quoted.
    fn known(&self) -> Vec<SecretString> {
        let in_use = self.access.iter().flat_map(|access| [&access.github_token, &access.key]);
        let asked_with = self.attempt.iter().map(|attempt| &attempt.github_token);
        let all = in_use.chain(asked_with).chain(&self.tried).chain(&self.secrets);
        all.filter(|secret| secret.expose_secret().len() >= SHORTEST).cloned().collect()
    }

    /// What was remembered or used last is forgotten last: the GitHub token outlives many keys.
    fn remember(&mut self, secret: &SecretString) {
        self.secrets.retain(|known| !same(known, secret));
        if self.secrets.len() == REMEMBERED {
            self.secrets.pop_front();
        }
        self.secrets.push_back(secret.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_use_are_remembered_and_old_ones_are_not_kept_for_ever() {
        let mut state = State::default();
        for number in 0..100 {
            state.remember(&"the GitHub token".into());
            state.remember(&format!("key {number}").into());
        }
        let known: Vec<&str> = state.secrets.iter().map(|secret| secret.expose_secret()).collect();
        assert_eq!(known.len(), REMEMBERED);
        assert!(known.contains(&"the GitHub token") && known.contains(&"key 99") && !known.contains(&"key 9"));
    }

    #[test]
    fn what_is_tried_is_known_meanwhile_and_what_is_short_never() {
        let mut state = State { tried: vec!["a token to try".into(), "e".into()], ..State::default() };
        state.remember(&"in use for long".into());
        let known = |state: &State| -> Vec<String> {
            state.known().iter().map(|secret| secret.expose_secret().to_owned()).collect()
        };
        assert_eq!(known(&state), ["a token to try", "in use for long"]);
        state.tried.clear();
        assert_eq!(known(&state), ["in use for long"]);
    }
}
