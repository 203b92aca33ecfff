//! Sign-in links and browser sessions: created, authenticated, revoked and expired. Pure: does no I/O and has no clock.
//! Times are milliseconds since 1970.

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use super::secret::SecretHash;

/// Maximum number of browser sessions; the least recently used one is evicted.
pub(super) const MAX_BROWSER_SESSIONS: usize = 100;

/// Maximum number of unused links; the oldest is evicted.
const MAX_PENDING_LINKS: usize = 32;

/// A browser session that is unused for this long expires: 90 days.
pub(super) const UNUSED_EXPIRY_MS: i64 = 90 * 24 * 60 * 60 * 1000;

/// Maximum number of wrong codes per window, from all clients together.
const MAX_WRONG_CODES: usize = 10;
const WRONG_CODES_WINDOW_MS: i64 = 60 * 1000;

/// All links and browser sessions of a host.
pub(super) struct BrowserSessionTable {
    /// Distinguishes this host's cookies from those of other hosts: browsers send them to all ports of a name.
    host_id: String,
    links: VecDeque<PendingLink>,
    sessions: Vec<BrowserSession>,
    /// Browser sessions that were created under another token: stored, and never accepted.
    other_token_sessions: Vec<BrowserSession>,
    /// Hash of the host's current token.
    token_hash: Option<SecretHash>,
    wrong_code_times: VecDeque<i64>,
}

struct PendingLink {
    code_hash: SecretHash,
    expires_at_ms: i64,
    label: Option<String>,
    /// The browser session that created the link; `None` if a client with the token did.
    created_by: Option<String>,
}

/// One signed-in browser.
#[derive(Debug, Clone)]
pub(super) struct BrowserSession {
    /// Shown to people; not secret.
    pub(super) id: String,
    /// Hash of the cookie.
    pub(super) cookie_hash: SecretHash,
    /// Hash of the page key: the cookie is accepted only together with it.
    pub(super) page_key_hash: SecretHash,
    pub(super) label: String,
    /// Hash of the token that the host had at sign-in.
    pub(super) token_hash: Option<SecretHash>,
    pub(super) created_ms: i64,
    pub(super) last_seen_ms: i64,
    /// When the last-seen time was last written to the file.
    pub(super) last_saved_ms: i64,
    /// Canceled when the browser session is revoked.
    pub(super) signed_out: CancellationToken,
}

impl BrowserSession {
    pub(super) fn new(id: String, cookie_hash: SecretHash, page_key_hash: SecretHash, label: String, now: i64) -> Self {
        Self {
            id,
            cookie_hash,
            page_key_hash,
            label,
            token_hash: None,
            created_ms: now,
            last_seen_ms: now,
            last_saved_ms: now,
            signed_out: CancellationToken::new(),
        }
    }
}

/// Outcome of redeeming a code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkRedemption<T> {
    /// The code was valid and is used up.
    Accepted { is_new: T },
    /// The code is unknown, used up or expired.
    Rejected,
    /// Like `Rejected`, after many wrong codes in a short time.
    RateLimited,
}

impl BrowserSessionTable {
    pub(super) fn new(host_id: String) -> Self {
        let (links, wrong_code_times) = (VecDeque::new(), VecDeque::new());
        Self {
            host_id,
            links,
            sessions: Vec::new(),
            other_token_sessions: Vec::new(),
            token_hash: None,
            wrong_code_times,
        }
    }

    /// A table with the browser sessions of a file.
    pub(super) fn from_sessions(host: String, sessions: Vec<BrowserSession>) -> Self {
        Self { sessions, ..Self::new(host) }
    }

    /// Sets the host's token: browser sessions that were created under another token are not accepted.
    pub(super) fn for_token(mut self, token: Option<SecretHash>) -> Self {
        let all = self.sessions.drain(..).chain(self.other_token_sessions.drain(..));
        let (sessions, others) = all.partition(|session| session.token_hash == token);
        Self { sessions, other_token_sessions: others, token_hash: token, ..self }
    }

    pub(super) fn host_id(&self) -> &str {
        &self.host_id
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> &[BrowserSession] {
        &self.sessions
    }

    /// All browser sessions to store.
    pub(super) fn persistent_sessions(&self) -> impl Iterator<Item = &BrowserSession> {
        self.sessions.iter().chain(&self.other_token_sessions)
    }

    /// Adds a link. `false` if the browser session that creates it was signed out meanwhile.
    pub(super) fn add_link(
        &mut self,
        hash: SecretHash,
        until: i64,
        label: Option<String>,
        creator: Option<&str>,
    ) -> bool {
        if creator.is_some_and(|creator| !self.contains(creator)) {
            return false;
        }
        if self.links.len() >= MAX_PENDING_LINKS {
            self.links.pop_front();
        }
        self.links.push_back(PendingLink {
            code_hash: hash,
            expires_at_ms: until,
            label,
            created_by: creator.map(str::to_owned),
        });
        true
    }

    /// Whether a browser session has this id.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.sessions.iter().any(|session| session.id == id)
    }

    /// Redeems a code. `make` receives the link's label and returns the browser session, if one is to be created.
    pub(super) fn redeem(
        &mut self,
        code: &SecretHash,
        now: i64,
        make: impl FnOnce(Option<String>) -> Option<BrowserSession>,
    ) -> LinkRedemption<bool> {
        self.links.retain(|link| link.expires_at_ms > now);
        // All links are compared, so the time does not reveal the position of the right one.
        let found = self.links.iter().enumerate().fold(None, |found, (index, link)| {
            if bool::from(link.code_hash.ct_eq(code)) { Some(index) } else { found }
        });
        let Some(link) = found.and_then(|index| self.links.remove(index)) else {
            return self.record_wrong_code(now);
        };
        let Some(session) = make(link.label) else { return LinkRedemption::Accepted { is_new: false } };
        self.remove_expired(now);
        while self.sessions.len() >= MAX_BROWSER_SESSIONS {
            let oldest = self
                .sessions
                .iter()
                .enumerate()
                .min_by_key(|(_, session)| session.last_seen_ms)
                .map(|(index, _)| index);
            let Some(index) = oldest else { break };
            self.sessions.remove(index).signed_out.cancel();
        }
        self.remove_orphaned_links();
        self.sessions.push(BrowserSession { token_hash: self.token_hash, ..session });
        LinkRedemption::Accepted { is_new: true }
    }

    /// Only wrong codes are limited, and a right one is always accepted: otherwise a client that guesses codes could
    /// block all sign-ins.
    fn record_wrong_code(&mut self, now: i64) -> LinkRedemption<bool> {
        self.wrong_code_times.retain(|at| now.saturating_sub(*at) < WRONG_CODES_WINDOW_MS);
        if self.wrong_code_times.len() >= MAX_WRONG_CODES {
            return LinkRedemption::RateLimited;
        }
        self.wrong_code_times.push_back(now);
        LinkRedemption::Rejected
    }

    /// The browser session of a cookie together with its page key.
    pub(super) fn authenticate(
        &mut self,
        cookie: &SecretHash,
        key: &SecretHash,
        now: i64,
    ) -> Option<&mut BrowserSession> {
        self.remove_expired(now);
        // All are compared, so the time does not reveal which one matches.
        let found = self.sessions.iter_mut().fold(None, |found, session| {
            if bool::from(session.cookie_hash.ct_eq(cookie) & session.page_key_hash.ct_eq(key)) {
                Some(session)
            } else {
                found
            }
        })?;
        found.last_seen_ms = found.last_seen_ms.max(now);
        Some(found)
    }

    /// The id of the browser session that a cookie belongs to. The cookie alone authenticates no request.
    pub(super) fn session_id_by_cookie(&self, cookie: &SecretHash) -> Option<&str> {
        let found = self.sessions.iter().fold(None, |found, session| {
            if bool::from(session.cookie_hash.ct_eq(cookie)) { Some(session) } else { found }
        })?;
        Some(&found.id)
    }

    /// Updates a browser session's last-seen time.
    pub(super) fn touch(&mut self, id: &str, now: i64) {
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.last_seen_ms = session.last_seen_ms.max(now);
        }
    }

    pub(super) fn list(&mut self, now: i64) -> Vec<BrowserSession> {
        self.remove_expired(now);
        let mut sessions = self.sessions.clone();
        sessions.sort_by_key(|session| std::cmp::Reverse((session.last_seen_ms, session.created_ms)));
        sessions
    }

    /// Revokes some browser sessions, or all of them and all unused links. Returns how many browser sessions there
    /// were.
    pub(super) fn revoke(&mut self, ids: Option<&[&str]>) -> usize {
        if ids.is_none() {
            self.links.clear();
            self.other_token_sessions.clear();
        }
        let before = self.sessions.len();
        self.sessions.retain(|session| {
            let stays = ids.is_some_and(|ids| !ids.contains(&&*session.id));
            if !stays {
                session.signed_out.cancel();
            }
            stays
        });
        self.remove_orphaned_links();
        before - self.sessions.len()
    }

    /// Removes browser sessions that were unused for too long.
    pub(super) fn remove_expired(&mut self, now: i64) {
        self.other_token_sessions.retain(|session| now.saturating_sub(session.last_seen_ms) < UNUSED_EXPIRY_MS);
        self.sessions.retain(|session| {
            let stays = now.saturating_sub(session.last_seen_ms) < UNUSED_EXPIRY_MS;
            if !stays {
                session.signed_out.cancel();
            }
            stays
        });
        self.remove_orphaned_links();
    }

    /// Removes the links of browser sessions that are signed out.
    fn remove_orphaned_links(&mut self) {
        let sessions = &self.sessions;
        let is_there = |creator: &String| sessions.iter().any(|session| session.id == *creator);
        self.links.retain(|link| link.created_by.as_ref().is_none_or(is_there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn table() -> BrowserSessionTable {
        BrowserSessionTable::new("h".to_owned())
    }

    fn key(number: u8) -> SecretHash {
        [number ^ 0x80; 32]
    }

    fn session(number: u8, now: i64) -> BrowserSession {
        BrowserSession::new(number.to_string(), [number; 32], key(number), format!("browser {number}"), now)
    }

    fn sign_in(table: &mut BrowserSessionTable, number: u8, now: i64) -> CancellationToken {
        let session = session(number, now);
        let ended = session.signed_out.clone();
        table.add_link([number; 32], now + 1, None, None);
        assert_eq!(table.redeem(&[number; 32], now, |_| Some(session)), LinkRedemption::Accepted { is_new: true });
        ended
    }

    #[test]
    fn a_code_works_once() {
        let mut table = table();
        table.add_link([7; 32], 1000, Some("phone".into()), None);
        let mut label = None;
        let redeemed = table.redeem(&[7; 32], 999, |given| {
            label = given;
            Some(session(1, 999))
        });
        assert_eq!((redeemed, label.as_deref()), (LinkRedemption::Accepted { is_new: true }, Some("phone")));
        assert_eq!(table.redeem(&[7; 32], 999, |_| Some(session(2, 999))), LinkRedemption::Rejected);
        assert_eq!(table.sessions().len(), 1);
    }

    #[test]
    fn an_expired_or_unknown_code_is_rejected() {
        let mut table = table();
        table.add_link([7; 32], 1000, None, None);
        assert_eq!(table.redeem(&[8; 32], 10, |_| Some(session(1, 10))), LinkRedemption::Rejected);
        assert_eq!(table.redeem(&[7; 32], 1000, |_| Some(session(1, 1000))), LinkRedemption::Rejected);
        assert!(table.sessions().is_empty());
    }

    #[test]
    fn wrong_codes_are_rate_limited_and_right_ones_still_work() {
        let mut table = table();
        table.add_link([7; 32], 10 * DAY, None, None);
        for _ in 0..MAX_WRONG_CODES {
            assert_eq!(table.redeem(&[8; 32], 0, |_| None), LinkRedemption::Rejected);
        }
        assert_eq!(table.redeem(&[8; 32], WRONG_CODES_WINDOW_MS - 1, |_| None), LinkRedemption::RateLimited);
        assert_eq!(
            table.redeem(&[7; 32], WRONG_CODES_WINDOW_MS - 1, |_| None),
            LinkRedemption::Accepted { is_new: false }
        );
        assert_eq!(table.redeem(&[8; 32], WRONG_CODES_WINDOW_MS, |_| None), LinkRedemption::Rejected);
    }

    #[test]
    fn links_and_browser_sessions_are_limited_and_the_oldest_evicted() {
        let mut table = table();
        for number in 0..=32 {
            table.add_link([number; 32], 1000, None, None);
        }
        assert_eq!(table.redeem(&[0; 32], 1, |_| None), LinkRedemption::Rejected);
        assert_eq!(table.redeem(&[1; 32], 1, |_| None), LinkRedemption::Accepted { is_new: false });
        let tokens: Vec<_> = (0..=100).map(|number| sign_in(&mut table, number, i64::from(number))).collect();
        assert_eq!(table.sessions().len(), MAX_BROWSER_SESSIONS);
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(
            table.authenticate(&[0; 32], &key(0), 200).is_none()
                && table.authenticate(&[100; 32], &key(100), 200).is_some()
        );
    }

    #[test]
    fn an_unused_browser_session_expires_and_a_used_one_does_not() {
        let mut table = table();
        let (first, second) = (sign_in(&mut table, 1, 0), sign_in(&mut table, 2, 0));
        assert!(table.authenticate(&[1; 32], &key(1), 80 * DAY).is_some());
        assert!(table.authenticate(&[1; 32], &key(1), 169 * DAY).is_some());
        assert!(table.authenticate(&[2; 32], &key(2), 169 * DAY).is_none());
        assert!(second.is_cancelled() && !first.is_cancelled());
    }

    #[test]
    fn revoking_ends_one_browser_session_or_all() {
        let mut table = table();
        let tokens = [sign_in(&mut table, 1, 0), sign_in(&mut table, 2, 0), sign_in(&mut table, 3, 0)];
        table.add_link([9; 32], 1000, None, None);
        assert_eq!((table.revoke(Some(&["2"])), table.revoke(Some(&["2"]))), (1, 0));
        assert_eq!(tokens.each_ref().map(CancellationToken::is_cancelled), [false, true, false]);
        assert!(table.authenticate(&[2; 32], &key(2), 1).is_none());
        assert_eq!(table.revoke(None), 2);
        assert!(tokens.iter().all(CancellationToken::is_cancelled));
        assert_eq!(
            table.redeem(&[9; 32], 1, |_| Some(session(9, 1))),
            LinkRedemption::Rejected,
            "unused links are revoked, too"
        );
    }

    #[test]
    fn a_cookie_is_accepted_only_with_its_own_page_key() {
        let mut table = table();
        sign_in(&mut table, 1, 0);
        sign_in(&mut table, 2, 0);
        assert!(table.authenticate(&[1; 32], &key(2), 1).is_none(), "another browser's key");
        assert!(table.authenticate(&[1; 32], &[1; 32], 1).is_none(), "the cookie twice");
        assert!(table.authenticate(&key(1), &key(1), 1).is_none(), "the key twice");
        assert_eq!(table.authenticate(&[1; 32], &key(1), 1).unwrap().id, "1");
        assert_eq!(table.session_id_by_cookie(&[1; 32]), Some("1"));
    }

    #[test]
    fn signing_out_a_browser_voids_its_links() {
        let mut table = table();
        sign_in(&mut table, 1, 0);
        sign_in(&mut table, 2, 0);
        assert!(table.add_link([11; 32], 1000, None, Some("1")));
        assert!(table.add_link([12; 32], 1000, None, Some("2")));
        assert!(table.add_link([13; 32], 1000, None, None));
        table.revoke(Some(&["1"]));
        assert!(!table.add_link([14; 32], 1000, None, Some("1")), "it is signed out already");
        for voided in [11, 14] {
            assert_eq!(table.redeem(&[voided; 32], 1, |_| None), LinkRedemption::Rejected, "{voided}");
        }
        for good in [12, 13] {
            assert_eq!(table.redeem(&[good; 32], 1, |_| None), LinkRedemption::Accepted { is_new: false }, "{good}");
        }
        assert!(table.add_link([15; 32], 100 * DAY, None, Some("2")));
        table.remove_expired(UNUSED_EXPIRY_MS + 1);
        assert_eq!(
            table.redeem(&[15; 32], UNUSED_EXPIRY_MS + 1, |_| None),
            LinkRedemption::Rejected,
            "its browser was away for too long"
        );
    }
}
