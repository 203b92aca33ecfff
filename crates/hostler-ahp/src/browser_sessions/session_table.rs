//! Links and passes: made, recognized, forgotten. Times are milliseconds since 1970.

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use super::secret::SecretHash;

/// How many passes there may be; the one that was not used for longest makes room.
pub(super) const MAX_BROWSER_SESSIONS: usize = 100;

/// How many links may wait; the oldest makes room.
const MAX_PENDING_LINKS: usize = 32;

/// A pass that was not used for so long is forgotten: 90 days.
pub(super) const UNUSED_EXPIRY_MS: i64 = 90 * 24 * 60 * 60 * 1000;

/// So many wrong codes in so long are enough, whoever brings them.
const MAX_WRONG_CODES: usize = 10;
const WRONG_CODES_WINDOW_MS: i64 = 60 * 1000;

/// All of them.
pub(super) struct BrowserSessionTable {
    /// Tells this host's cookies from those of others: browsers send them to all ports of a name.
    host_id: String,
    links: VecDeque<PendingLink>,
    sessions: Vec<BrowserSession>,
    /// What counts only while the host has another token: kept, and never recognized.
    other_token_sessions: Vec<BrowserSession>,
    /// Of the token that the host has.
    token_hash: Option<SecretHash>,
    wrong_code_times: VecDeque<i64>,
}

struct PendingLink {
    code_hash: SecretHash,
    expires_at_ms: i64,
    label: Option<String>,
    /// The pass of the browser that made the link; none if a client with the token did.
    created_by: Option<String>,
}

/// One browser's right to come in.
#[derive(Debug, Clone)]
pub(super) struct BrowserSession {
    /// What people call it by; no secret.
    pub(super) id: String,
    /// Of the cookie.
    pub(super) cookie_hash: SecretHash,
    /// Of the page key: the cookie counts only with it.
    pub(super) page_key_hash: SecretHash,
    pub(super) label: String,
    /// Of the token that the host had when it was given.
    pub(super) token_hash: Option<SecretHash>,
    pub(super) created_ms: i64,
    pub(super) last_seen_ms: i64,
    /// When that was last given to the file.
    pub(super) last_saved_ms: i64,
    /// Fires when it is taken back.
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

/// What became of a code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkRedemption<T> {
    /// It was right, and is used up.
    Accepted { is_new: T },
    /// It was never right, is used up, or too old.
    Rejected,
    /// The same, and there were many of that kind just now.
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

    /// What a file has kept.
    pub(super) fn from_sessions(host: String, sessions: Vec<BrowserSession>) -> Self {
        Self { sessions, ..Self::new(host) }
    }

    /// The token that the host has: what a browser was given while it had another one does not outlive that.
    pub(super) fn for_token(mut self, token: Option<SecretHash>) -> Self {
        let all = self.sessions.drain(..).chain(self.other_token_sessions.drain(..));
        let (passes, others) = all.partition(|pass| pass.token_hash == token);
        Self { sessions: passes, other_token_sessions: others, token_hash: token, ..self }
    }

    pub(super) fn host_id(&self) -> &str {
        &self.host_id
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> &[BrowserSession] {
        &self.sessions
    }

    /// All that is to be kept.
    pub(super) fn persistent_sessions(&self) -> impl Iterator<Item = &BrowserSession> {
        self.sessions.iter().chain(&self.other_token_sessions)
    }

    /// Adds a link. Says whether it counts: a browser that has been signed out meanwhile makes none.
    pub(super) fn add_link(
        &mut self,
        hash: SecretHash,
        until: i64,
        label: Option<String>,
        maker: Option<&str>,
    ) -> bool {
        if maker.is_some_and(|maker| !self.contains(maker)) {
            return false;
        }
        if self.links.len() >= MAX_PENDING_LINKS {
            self.links.pop_front();
        }
        self.links.push_back(PendingLink {
            code_hash: hash,
            expires_at_ms: until,
            label,
            created_by: maker.map(str::to_owned),
        });
        true
    }

    /// Whether there is a pass with this id.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.sessions.iter().any(|pass| pass.id == id)
    }

    /// Uses a code up. `make` gets the link's label and makes the pass, if there is to be one.
    pub(super) fn redeem(
        &mut self,
        code: &SecretHash,
        now: i64,
        make: impl FnOnce(Option<String>) -> Option<BrowserSession>,
    ) -> LinkRedemption<bool> {
        self.links.retain(|link| link.expires_at_ms > now);
        // All are compared, so that the time says nothing about where the right one is.
        let found = self.links.iter().enumerate().fold(None, |found, (place, link)| {
            if bool::from(link.code_hash.ct_eq(code)) { Some(place) } else { found }
        });
        let Some(link) = found.and_then(|place| self.links.remove(place)) else {
            return self.record_wrong_code(now);
        };
        let Some(pass) = make(link.label) else { return LinkRedemption::Accepted { is_new: false } };
        self.remove_expired(now);
        while self.sessions.len() >= MAX_BROWSER_SESSIONS {
            let oldest =
                self.sessions.iter().enumerate().min_by_key(|(_, pass)| pass.last_seen_ms).map(|(place, _)| place);
            let Some(place) = oldest else { break };
            self.sessions.remove(place).signed_out.cancel();
        }
        self.remove_orphaned_links();
        self.sessions.push(BrowserSession { token_hash: self.token_hash, ..pass });
        LinkRedemption::Accepted { is_new: true }
    }

    /// Only wrong codes are counted, and a right one is good at any time: otherwise whoever reaches the port could keep
    /// everybody out by guessing.
    fn record_wrong_code(&mut self, now: i64) -> LinkRedemption<bool> {
        self.wrong_code_times.retain(|at| now.saturating_sub(*at) < WRONG_CODES_WINDOW_MS);
        if self.wrong_code_times.len() >= MAX_WRONG_CODES {
            return LinkRedemption::RateLimited;
        }
        self.wrong_code_times.push_back(now);
        LinkRedemption::Rejected
    }

    /// The pass of a cookie together with its key.
    pub(super) fn authenticate(
        &mut self,
        cookie: &SecretHash,
        key: &SecretHash,
        now: i64,
    ) -> Option<&mut BrowserSession> {
        self.remove_expired(now);
        // All are compared, so that the time says nothing about which one it is.
        let found = self.sessions.iter_mut().fold(None, |found, pass| {
            if bool::from(pass.cookie_hash.ct_eq(cookie) & pass.page_key_hash.ct_eq(key)) { Some(pass) } else { found }
        })?;
        found.last_seen_ms = found.last_seen_ms.max(now);
        Some(found)
    }

    /// The id of the pass that a cookie belongs to. The cookie alone is no sign-in.
    pub(super) fn session_id_by_cookie(&self, cookie: &SecretHash) -> Option<&str> {
        let found = self
            .sessions
            .iter()
            .fold(None, |found, pass| if bool::from(pass.cookie_hash.ct_eq(cookie)) { Some(pass) } else { found })?;
        Some(&found.id)
    }

    /// Whoever has this pass was here.
    pub(super) fn touch(&mut self, id: &str, now: i64) {
        if let Some(pass) = self.sessions.iter_mut().find(|pass| pass.id == id) {
            pass.last_seen_ms = pass.last_seen_ms.max(now);
        }
    }

    pub(super) fn list(&mut self, now: i64) -> Vec<BrowserSession> {
        self.remove_expired(now);
        let mut passes = self.sessions.clone();
        passes.sort_by_key(|pass| std::cmp::Reverse((pass.last_seen_ms, pass.created_ms)));
        passes
    }

    /// Takes back one pass, or all of them with the links that still wait. Says how many passes there were.
    pub(super) fn revoke(&mut self, ids: Option<&[&str]>) -> usize {
        if ids.is_none() {
            self.links.clear();
            self.other_token_sessions.clear();
        }
        let before = self.sessions.len();
        self.sessions.retain(|pass| {
            let stays = ids.is_some_and(|ids| !ids.contains(&&*pass.id));
            if !stays {
                pass.signed_out.cancel();
            }
            stays
        });
        self.remove_orphaned_links();
        before - self.sessions.len()
    }

    /// What was not used for long is forgotten.
    pub(super) fn remove_expired(&mut self, now: i64) {
        self.other_token_sessions.retain(|pass| now.saturating_sub(pass.last_seen_ms) < UNUSED_EXPIRY_MS);
        self.sessions.retain(|pass| {
            let stays = now.saturating_sub(pass.last_seen_ms) < UNUSED_EXPIRY_MS;
            if !stays {
                pass.signed_out.cancel();
            }
            stays
        });
        self.remove_orphaned_links();
    }

    /// Links of browsers that are signed out work no more.
    fn remove_orphaned_links(&mut self) {
        let passes = &self.sessions;
        let is_there = |maker: &String| passes.iter().any(|pass| pass.id == *maker);
        self.links.retain(|link| link.created_by.as_ref().is_none_or(is_there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn book() -> BrowserSessionTable {
        BrowserSessionTable::new("h".to_owned())
    }

    fn key(number: u8) -> SecretHash {
        [number ^ 0x80; 32]
    }

    fn pass(number: u8, now: i64) -> BrowserSession {
        BrowserSession::new(number.to_string(), [number; 32], key(number), format!("browser {number}"), now)
    }

    fn sign_in(book: &mut BrowserSessionTable, number: u8, now: i64) -> CancellationToken {
        let pass = pass(number, now);
        let ended = pass.signed_out.clone();
        book.add_link([number; 32], now + 1, None, None);
        assert_eq!(book.redeem(&[number; 32], now, |_| Some(pass)), LinkRedemption::Accepted { is_new: true });
        ended
    }

    #[test]
    fn a_code_works_once() {
        let mut book = book();
        book.add_link([7; 32], 1000, Some("phone".into()), None);
        let mut label = None;
        let redeemed = book.redeem(&[7; 32], 999, |given| {
            label = given;
            Some(pass(1, 999))
        });
        assert_eq!((redeemed, label.as_deref()), (LinkRedemption::Accepted { is_new: true }, Some("phone")));
        assert_eq!(book.redeem(&[7; 32], 999, |_| Some(pass(2, 999))), LinkRedemption::Rejected);
        assert_eq!(book.sessions().len(), 1);
    }

    #[test]
    fn a_code_that_is_too_old_or_unknown_is_wrong() {
        let mut book = book();
        book.add_link([7; 32], 1000, None, None);
        assert_eq!(book.redeem(&[8; 32], 10, |_| Some(pass(1, 10))), LinkRedemption::Rejected);
        assert_eq!(book.redeem(&[7; 32], 1000, |_| Some(pass(1, 1000))), LinkRedemption::Rejected);
        assert!(book.sessions().is_empty());
    }

    #[test]
    fn many_wrong_codes_are_refused_for_a_while_and_keep_nobody_out() {
        let mut book = book();
        book.add_link([7; 32], 10 * DAY, None, None);
        for _ in 0..MAX_WRONG_CODES {
            assert_eq!(book.redeem(&[8; 32], 0, |_| None), LinkRedemption::Rejected);
        }
        assert_eq!(book.redeem(&[8; 32], WRONG_CODES_WINDOW_MS - 1, |_| None), LinkRedemption::RateLimited);
        assert_eq!(
            book.redeem(&[7; 32], WRONG_CODES_WINDOW_MS - 1, |_| None),
            LinkRedemption::Accepted { is_new: false }
        );
        assert_eq!(book.redeem(&[8; 32], WRONG_CODES_WINDOW_MS, |_| None), LinkRedemption::Rejected);
    }

    #[test]
    fn links_and_passes_are_bounded_and_the_oldest_go_first() {
        let mut book = book();
        for number in 0..=32 {
            book.add_link([number; 32], 1000, None, None);
        }
        assert_eq!(book.redeem(&[0; 32], 1, |_| None), LinkRedemption::Rejected);
        assert_eq!(book.redeem(&[1; 32], 1, |_| None), LinkRedemption::Accepted { is_new: false });
        let tokens: Vec<_> = (0..=100).map(|number| sign_in(&mut book, number, i64::from(number))).collect();
        assert_eq!(book.sessions().len(), MAX_BROWSER_SESSIONS);
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(
            book.authenticate(&[0; 32], &key(0), 200).is_none()
                && book.authenticate(&[100; 32], &key(100), 200).is_some()
        );
    }

    #[test]
    fn a_pass_that_nobody_uses_is_forgotten_and_one_in_use_is_not() {
        let mut book = book();
        let (first, second) = (sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0));
        assert!(book.authenticate(&[1; 32], &key(1), 80 * DAY).is_some());
        assert!(book.authenticate(&[1; 32], &key(1), 169 * DAY).is_some());
        assert!(book.authenticate(&[2; 32], &key(2), 169 * DAY).is_none());
        assert!(second.is_cancelled() && !first.is_cancelled());
    }

    #[test]
    fn signing_out_ends_one_or_all() {
        let mut book = book();
        let tokens = [sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0), sign_in(&mut book, 3, 0)];
        book.add_link([9; 32], 1000, None, None);
        assert_eq!((book.revoke(Some(&["2"])), book.revoke(Some(&["2"]))), (1, 0));
        assert_eq!(tokens.each_ref().map(CancellationToken::is_cancelled), [false, true, false]);
        assert!(book.authenticate(&[2; 32], &key(2), 1).is_none());
        assert_eq!(book.revoke(None), 2);
        assert!(tokens.iter().all(CancellationToken::is_cancelled));
        assert_eq!(book.redeem(&[9; 32], 1, |_| Some(pass(9, 1))), LinkRedemption::Rejected, "links that wait go, too");
    }

    #[test]
    fn a_cookie_counts_only_with_the_key_of_its_own_pass() {
        let mut book = book();
        sign_in(&mut book, 1, 0);
        sign_in(&mut book, 2, 0);
        assert!(book.authenticate(&[1; 32], &key(2), 1).is_none(), "another browser's key");
        assert!(book.authenticate(&[1; 32], &[1; 32], 1).is_none(), "the cookie twice");
        assert!(book.authenticate(&key(1), &key(1), 1).is_none(), "the key twice");
        assert_eq!(book.authenticate(&[1; 32], &key(1), 1).unwrap().id, "1");
        assert_eq!(book.session_id_by_cookie(&[1; 32]), Some("1"));
    }

    #[test]
    fn signing_a_browser_out_voids_the_links_that_it_made() {
        let mut book = book();
        sign_in(&mut book, 1, 0);
        sign_in(&mut book, 2, 0);
        assert!(book.add_link([11; 32], 1000, None, Some("1")));
        assert!(book.add_link([12; 32], 1000, None, Some("2")));
        assert!(book.add_link([13; 32], 1000, None, None));
        book.revoke(Some(&["1"]));
        assert!(!book.add_link([14; 32], 1000, None, Some("1")), "it is signed out already");
        for voided in [11, 14] {
            assert_eq!(book.redeem(&[voided; 32], 1, |_| None), LinkRedemption::Rejected, "{voided}");
        }
        for good in [12, 13] {
            assert_eq!(book.redeem(&[good; 32], 1, |_| None), LinkRedemption::Accepted { is_new: false }, "{good}");
        }
        assert!(book.add_link([15; 32], 100 * DAY, None, Some("2")));
        book.remove_expired(UNUSED_EXPIRY_MS + 1);
        assert_eq!(
            book.redeem(&[15; 32], UNUSED_EXPIRY_MS + 1, |_| None),
            LinkRedemption::Rejected,
            "its browser was away for too long"
        );
    }
}
