//! Manages the current access and at most one attempt at a time to get the next.
//!
//! An attempt is its own task: callers wait for it, and a caller that is cancelled does not affect the others. The
//! manager and the waiting callers own it, so it ends with the last of them at the latest. This module does not know
//! how an access is obtained; `github_api` does.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use hostler_gateway::upstream_support::redact_secret;
use hostler_gateway::{CredentialSource, CredentialStatus};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::task::AbortOnDropHandle;

use crate::access::{CopilotAccess, CopilotAccessError, is_same_secret};
use crate::access_lifetime::AccessAge;
use crate::github_api::GitHubApi;
use crate::wall_clock::WallClock;

/// Maximum duration of an attempt, including retries.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the old access is used after a failed renewal before the next attempt.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Number of secrets that are remembered for redaction; an error may contain one that is no longer in use.
const MAX_REMEMBERED_SECRETS: usize = 16;
/// Minimum length of a secret for redaction; shorter ones could match ordinary text.
const MIN_SECRET_BYTES: usize = 8;

/// Provides accesses.
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
    /// Number of attempts; also the number of the latest one.
    attempt_count: u64,
    no_renewal_before: Option<SystemTime>,
    past_secrets: VecDeque<SecretString>,
    /// Tokens that are being verified. They are redacted but not remembered, so that verifying many tokens does not
    /// evict other secrets.
    tokens_under_check: Vec<SecretString>,
}

type AccessResult = Result<Arc<CopilotAccess>, CopilotAccessError>;

#[derive(Clone)]
struct Attempt {
    github_token: SecretString,
    outcome: Shared<BoxFuture<'static, AccessResult>>,
}

/// Result of looking up the current access.
enum AccessLookup {
    Ready(Arc<CopilotAccess>),
    Pending(Attempt),
}

impl CopilotAccessManager {
    pub(super) fn new(github: GitHubApi, credential: Arc<dyn CredentialSource>, clock: Arc<dyn WallClock>) -> Self {
        Self { github: Arc::new(github), credential, clock, state: Mutex::default() }
    }

    /// Returns a valid access, waiting for a new one if there is none.
    pub(super) async fn current(&self) -> AccessResult {
        let mut refused: Option<SecretString> = None;
        loop {
            let github_token = self.credential.current()?.ok_or(CopilotAccessError::SignedOut)?;
            // After GitHub's rejection the source is queried again; only a different token is worth a second attempt.
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
                    // A newer GitHub token may have replaced this attempt; its key is then not remembered yet.
                    state.remember_secret(&access.key);
                    return Ok(access);
                }
            }
        }
    }

    /// Marks a token as being verified: it is redacted until the guard is dropped.
    pub(super) fn begin_token_check<'a>(&'a self, github_token: &'a SecretString) -> TokenCheckGuard<'a> {
        self.lock().tokens_under_check.push(github_token.clone());
        TokenCheckGuard { manager: self, github_token }
    }

    /// Verifies a token that is not in use yet. The resulting access serves the first call if the token comes into use.
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

    /// Discards an access that Copilot rejected. A newer access stays.
    pub(super) fn discard(&self, access: &CopilotAccess) {
        let mut state = self.lock_settled();
        if state.access.as_ref().is_some_and(|current| current.number == access.number) {
            state.replace_access(None);
        }
    }

    /// Marks an access's GitHub token as accepted by Copilot.
    pub(super) fn mark_token_accepted(&self, access: &CopilotAccess) {
        self.credential.mark_accepted(&access.github_token);
    }

    /// Marks an access's GitHub token as rejected; returns whether there is another one.
    pub(super) fn reject_token(&self, access: &CopilotAccess) -> bool {
        let is_other =
            || matches!(self.credential.current(), Ok(Some(token)) if !is_same_secret(&token, &access.github_token));
        // Another caller with the same rejected token may have done this already.
        is_other() || {
            self.credential.mark_rejected(&access.github_token);
            is_other()
        }
    }

    /// Removes all current and recent secrets from a text.
    pub(super) fn redact(&self, text: Bytes) -> Bytes {
        self.lock().secrets_to_redact().iter().fold(text, redact_secret)
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

    /// Returns the running attempt for this token, or starts one.
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
            let ended =
                |_| CopilotAccessError::Internal { reason: "the request for Copilot access ended early".to_owned() };
            task.await.map_err(ended).flatten()
        };
        let attempt = Attempt { github_token: github_token.clone(), outcome: outcome.boxed().shared() };
        state.attempt = Some(attempt.clone());
        attempt
    }

    /// Locks the state after applying the result of a finished attempt.
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
                tracing::debug!(?access, "acquired Copilot access");
                // If the token is the key, only a call to Copilot proves that it is valid.
                if !access.uses_github_token() {
                    self.credential.mark_accepted(&github_token);
                }
                state.no_renewal_before = None;
                state.replace_access(Some(access));
            }
            Err(error) => {
                // The previous access stays in use.
                tracing::warn!(%error, "failed to renew Copilot access");
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

/// A token that is being verified.
pub(super) struct TokenCheckGuard<'a> {
    manager: &'a CopilotAccessManager,
    github_token: &'a SecretString,
}

impl Drop for TokenCheckGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.manager.lock();
        // Several callers may verify the same token at once.
        if let Some(place) = state.tokens_under_check.iter().position(|tried| is_same_secret(tried, self.github_token))
        {
            state.tokens_under_check.swap_remove(place);
        }
    }
}

impl State {
    /// Replaces the current access; errors may still contain the previous key, so it is remembered.
    fn replace_access(&mut self, access: Option<Arc<CopilotAccess>>) {
        if let Some(before) = std::mem::replace(&mut self.access, access) {
            self.remember_secret(&before.github_token);
            self.remember_secret(&before.key);
        }
    }

    /// All secrets that must be redacted.
    fn secrets_to_redact(&self) -> Vec<SecretString> {
        let in_use = self.access.iter().flat_map(|access| [&access.github_token, &access.key]);
        let asked_with = self.attempt.iter().map(|attempt| &attempt.github_token);
        let all = in_use.chain(asked_with).chain(&self.tokens_under_check).chain(&self.past_secrets);
        all.filter(|secret| secret.expose_secret().len() >= MIN_SECRET_BYTES).cloned().collect()
    }

    /// Remembers a secret; the least recently used one is evicted, so the GitHub token outlives many keys.
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
    fn secrets_in_use_are_remembered_and_old_ones_are_evicted() {
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
    fn tokens_under_check_are_redacted_and_short_texts_are_not() {
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
