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
use super::access::{CopilotAccess, CopilotAccessError, is_same_secret};
use super::access_lifetime::AccessAge;
use super::github_api::GitHubApi;
use super::wall_clock::WallClock;
use crate::credential::{CredentialSource, CredentialStatus};

/// How long an attempt may take, its second tries included.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed renewal the old access is used for so long before the next one.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(30);
/// So many secrets are remembered for redaction; an error may quote one that is not in use any more.
const MAX_REMEMBERED_SECRETS: usize = 16;
/// What is shorter may be part of any word, and is no secret of anybody's.
const MIN_SECRET_BYTES: usize = 8;

/// Gives out accesses.
pub(super) struct CopilotAccessManager {
    github: Arc<GitHubApi>,
    credential: Arc<dyn CredentialSource>,
    clock: Arc<dyn WallClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    access: Option<Arc<CopilotAccess>>,
    attempt: Option<Attempt>,
    /// How many attempts there were; the number of the latest.
    attempt_count: u64,
    no_renewal_before: Option<SystemTime>,
    past_secrets: VecDeque<SecretString>,
    /// Tokens that are tried just now. They are not remembered: whoever tries many must not make us forget the others.
    tokens_under_check: Vec<SecretString>,
}

type AccessResult = Result<Arc<CopilotAccess>, CopilotAccessError>;

#[derive(Clone)]
struct Attempt {
    github_token: SecretString,
    outcome: Shared<BoxFuture<'static, AccessResult>>,
}

/// What a caller finds.
enum AccessLookup {
    Ready(Arc<CopilotAccess>),
    Pending(Attempt),
}

impl CopilotAccessManager {
    pub(super) fn new(github: GitHubApi, credential: Arc<dyn CredentialSource>, clock: Arc<dyn WallClock>) -> Self {
        Self { github: Arc::new(github), credential, clock, state: Mutex::default() }
    }

    /// An access that should be good, after waiting for one if there is none.
    pub(super) async fn current(&self) -> AccessResult {
        let mut refused: Option<SecretString> = None;
        loop {
            let github_token = self.credential.current()?.ok_or(CopilotAccessError::SignedOut)?;
            // GitHub's refusal made the source look again; only another token is worth a second attempt.
            if refused.as_ref().is_some_and(|refused| is_same_secret(refused, &github_token)) {
                return Err(CopilotAccessError::TokenRejected);
            }
            let attempt = match self.lookup(&github_token) {
                AccessLookup::Ready(access) => return Ok(access),
                AccessLookup::Pending(attempt) => attempt,
            };
            let outcome = attempt.outcome.await;
            let mut state = self.lock_settled();
            match outcome {
                Err(CopilotAccessError::TokenRejected) if refused.is_none() => refused = Some(github_token),
                Err(error) => return Err(error),
                Ok(access) => {
                    // A newer GitHub token may have overtaken this attempt; then nobody else has seen this key.
                    state.remember_secret(&access.key);
                    return Ok(access);
                }
            }
        }
    }

    /// A token is about to be tried: as long as the value lives, it is taken out of texts.
    pub(super) fn begin_token_check<'a>(&'a self, github_token: &'a SecretString) -> TokenCheckGuard<'a> {
        self.lock().tokens_under_check.push(github_token.clone());
        TokenCheckGuard { manager: self, github_token }
    }

    /// Tries a token that is not in use yet. What it gives serves the first call, if the token comes into use.
    pub(super) async fn check_token(&self, github_token: &SecretString) -> AccessResult {
        let number = {
            let mut state = self.lock_settled();
            state.attempt_count += 1;
            state.attempt_count
        };
        let access = self.github.acquire_access(number, github_token, &*self.clock);
        let access =
            Arc::new(tokio::time::timeout(ATTEMPT_TIMEOUT, access).await.unwrap_or(Err(CopilotAccessError::TimedOut))?);
        let mut state = self.lock_settled();
        if state.access.as_ref().is_none_or(|current| is_same_secret(&current.github_token, github_token)) {
            state.replace_access(Some(Arc::clone(&access)));
        }
        Ok(access)
    }

    pub(super) fn credential_status(&self) -> CredentialStatus {
        self.credential.status()
    }

    /// Copilot refused an access: it is given to nobody any more. Another one that came meanwhile stays.
    pub(super) fn discard(&self, access: &CopilotAccess) {
        let mut state = self.lock_settled();
        if state.access.as_ref().is_some_and(|current| current.number == access.number) {
            state.replace_access(None);
        }
    }

    /// Copilot took the GitHub token of an access itself.
    pub(super) fn mark_token_accepted(&self, access: &CopilotAccess) {
        self.credential.mark_accepted(&access.github_token);
    }

    /// The GitHub token of an access is not good any more; says whether there is another one.
    pub(super) fn reject_token(&self, access: &CopilotAccess) -> bool {
        let is_other =
            || matches!(self.credential.current(), Ok(Some(token)) if !is_same_secret(&token, &access.github_token));
        // Others whose calls were refused with it may have been here before.
        is_other() || {
            self.credential.mark_rejected(&access.github_token);
            is_other()
        }
    }

    /// Takes every secret in use and of late out of a text.
    pub(super) fn redact(&self, text: Bytes) -> Bytes {
        self.lock().secrets_to_redact().iter().fold(text, redact)
    }

    fn lookup(&self, github_token: &SecretString) -> AccessLookup {
        let now = self.clock.now();
        let mut state = self.lock_settled();
        let access = state.access.clone().filter(|access| is_same_secret(&access.github_token, github_token));
        match access.map(|access| (access.lifetime.age(now), access)) {
            Some((AccessAge::Fresh, access)) => AccessLookup::Ready(access),
            Some((AccessAge::RenewalDue, access)) => {
                if state.no_renewal_before.is_none_or(|time| now >= time) {
                    self.start_or_join_attempt(&mut state, github_token);
                }
                AccessLookup::Ready(access)
            }
            Some((AccessAge::Expired, _)) | None => {
                AccessLookup::Pending(self.start_or_join_attempt(&mut state, github_token))
            }
        }
    }

    /// The attempt that is under way for this token, or a new one.
    fn start_or_join_attempt(&self, state: &mut State, github_token: &SecretString) -> Attempt {
        if let Some(attempt) =
            state.attempt.as_ref().filter(|attempt| is_same_secret(&attempt.github_token, github_token))
        {
            return attempt.clone();
        }
        state.remember_secret(github_token);
        state.attempt_count += 1;
        let number = state.attempt_count;
        let (github, clock, token) = (Arc::clone(&self.github), Arc::clone(&self.clock), github_token.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let access = tokio::time::timeout(ATTEMPT_TIMEOUT, github.acquire_access(number, &token, &*clock)).await;
            access.unwrap_or(Err(CopilotAccessError::TimedOut)).map(Arc::new)
        }));
        let outcome = async move {
            let ended = |_| CopilotAccessError::Internal { reason: "the attempt to get access ended early".to_owned() };
            task.await.map_err(ended).flatten()
        };
        let attempt = Attempt { github_token: github_token.clone(), outcome: outcome.boxed().shared() };
        state.attempt = Some(attempt.clone());
        attempt
    }

    /// The state, after an attempt that is over has been taken note of.
    fn lock_settled(&self) -> MutexGuard<'_, State> {
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
                if !access.uses_github_token() {
                    self.credential.mark_accepted(&github_token);
                }
                state.no_renewal_before = None;
                state.replace_access(Some(access));
            }
            Err(error) => {
                // What there was before is as good as it was.
                tracing::warn!(%error, "no new access to Copilot");
                state.no_renewal_before = Some(self.clock.now() + RENEWAL_RETRY_DELAY);
                if matches!(error, CopilotAccessError::TokenRejected) {
                    self.credential.mark_rejected(&github_token);
                }
            }
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CopilotAccessManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accesses").field("github", &self.github).finish_non_exhaustive()
    }
}

/// A token that is tried.
pub(super) struct TokenCheckGuard<'a> {
    manager: &'a CopilotAccessManager,
    github_token: &'a SecretString,
}

impl Drop for TokenCheckGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.manager.lock();
        // The same token may be tried by several at once.
        if let Some(place) = state.tokens_under_check.iter().position(|tried| is_same_secret(tried, self.github_token))
        {
            state.tokens_under_check.swap_remove(place);
        }
    }
}

impl State {
    /// Another access is in use from now on; an error may still quote the one before.
    fn replace_access(&mut self, access: Option<Arc<CopilotAccess>>) {
        if let Some(before) = std::mem::replace(&mut self.access, access) {
            self.remember_secret(&before.github_token);
            self.remember_secret(&before.key);
        }
    }

    /// Everything that must not be quoted.
    fn secrets_to_redact(&self) -> Vec<SecretString> {
        let in_use = self.access.iter().flat_map(|access| [&access.github_token, &access.key]);
        let asked_with = self.attempt.iter().map(|attempt| &attempt.github_token);
        let all = in_use.chain(asked_with).chain(&self.tokens_under_check).chain(&self.past_secrets);
        all.filter(|secret| secret.expose_secret().len() >= MIN_SECRET_BYTES).cloned().collect()
    }

    /// What was remembered or used last is forgotten last: the GitHub token outlives many keys.
    fn remember_secret(&mut self, secret: &SecretString) {
        self.past_secrets.retain(|known| !is_same_secret(known, secret));
        if self.past_secrets.len() == MAX_REMEMBERED_SECRETS {
            self.past_secrets.pop_front();
        }
        self.past_secrets.push_back(secret.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_use_are_remembered_and_old_ones_are_not_kept_for_ever() {
        let mut state = State::default();
        for number in 0..100 {
            state.remember_secret(&"the GitHub token".into());
            state.remember_secret(&format!("key {number}").into());
        }
        let known: Vec<&str> = state.past_secrets.iter().map(|secret| secret.expose_secret()).collect();
        assert_eq!(known.len(), MAX_REMEMBERED_SECRETS);
        assert!(known.contains(&"the GitHub token") && known.contains(&"key 99") && !known.contains(&"key 9"));
    }

    #[test]
    fn what_is_tried_is_known_meanwhile_and_what_is_short_never() {
        let mut state = State { tokens_under_check: vec!["a token to try".into(), "e".into()], ..State::default() };
        state.remember_secret(&"in use for long".into());
        let known = |state: &State| -> Vec<String> {
            state.secrets_to_redact().iter().map(|secret| secret.expose_secret().to_owned()).collect()
        };
        assert_eq!(known(&state), ["a token to try", "in use for long"]);
        state.tokens_under_check.clear();
        assert_eq!(known(&state), ["in use for long"]);
    }
}
