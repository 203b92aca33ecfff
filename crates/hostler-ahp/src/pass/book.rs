//! Links and passes: made, recognized, forgotten. Times are milliseconds since 1970.

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use super::secret::Hash;

/// How many passes there may be; the one that was not used for longest makes room.
pub(super) const MOST_PASSES: usize = 100;

/// How many links may wait; the oldest makes room.
const MOST_LINKS: usize = 32;

/// A pass that was not used for so long is forgotten: 90 days.
pub(super) const UNUSED: i64 = 90 * 24 * 60 * 60 * 1000;

/// So many wrong codes in so long are enough, whoever brings them.
const WRONG: usize = 10;
const WRONG_WITHIN: i64 = 60 * 1000;

/// All of them.
pub(super) struct Book {
    /// Tells this host's cookies from those of others: browsers send them to all ports of a name.
    host: String,
    links: VecDeque<WaitingLink>,
    passes: Vec<Pass>,
    /// What counts only while the host has another token: kept, and never recognized.
    others: Vec<Pass>,
    /// Of the token that the host has.
    token: Option<Hash>,
    wrong: VecDeque<i64>,
}

struct WaitingLink {
    hash: Hash,
    until: i64,
    label: Option<String>,
    /// The pass of the browser that made the link; none if a client with the token did.
    maker: Option<String>,
}

/// One browser's right to come in.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    /// What people call it by; no secret.
    pub(super) id: String,
    /// Of the cookie.
    pub(super) hash: Hash,
    /// Of the page key: the cookie counts only with it.
    pub(super) key: Hash,
    pub(super) label: String,
    /// Of the token that the host had when it was given.
    pub(super) token: Option<Hash>,
    pub(super) created: i64,
    pub(super) seen: i64,
    /// When that was last given to the file.
    pub(super) written: i64,
    /// Fires when it is taken back.
    pub(super) ended: CancellationToken,
}

impl Pass {
    pub(super) fn new(id: String, hash: Hash, key: Hash, label: String, now: i64) -> Self {
        Self {
            id,
            hash,
            key,
            label,
            token: None,
            created: now,
            seen: now,
            written: now,
            ended: CancellationToken::new(),
        }
    }
}

/// What became of a code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redeemed<T> {
    /// It was right, and is used up.
    In { is_new: T },
    /// It was never right, is used up, or too old.
    Wrong,
    /// The same, and there were many of that kind just now.
    TooMany,
}

impl Book {
    pub(super) fn new(host: String) -> Self {
        let (links, wrong) = (VecDeque::new(), VecDeque::new());
        Self { host, links, passes: Vec::new(), others: Vec::new(), token: None, wrong }
    }

    /// What a file has kept.
    pub(super) fn restored(host: String, passes: Vec<Pass>) -> Self {
        Self { passes, ..Self::new(host) }
    }

    /// The token that the host has: what a browser was given while it had another one does not outlive that.
    pub(super) fn under(mut self, token: Option<Hash>) -> Self {
        let all = self.passes.drain(..).chain(self.others.drain(..));
        let (passes, others) = all.partition(|pass| pass.token == token);
        Self { passes, others, token, ..self }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    #[cfg(test)]
    pub(super) fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// All that is to be kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Pass> {
        self.passes.iter().chain(&self.others)
    }

    /// Adds a link. Says whether it counts: a browser that has been signed out meanwhile makes none.
    pub(super) fn add_link(&mut self, hash: Hash, until: i64, label: Option<String>, maker: Option<&str>) -> bool {
        if maker.is_some_and(|maker| !self.has(maker)) {
            return false;
        }
        if self.links.len() >= MOST_LINKS {
            self.links.pop_front();
        }
        self.links.push_back(WaitingLink { hash, until, label, maker: maker.map(str::to_owned) });
        true
    }

    /// Whether there is a pass with this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.passes.iter().any(|pass| pass.id == id)
    }

    /// Uses a code up. `make` gets the link's label and makes the pass, if there is to be one.
    pub(super) fn redeem(
        &mut self,
        code: &Hash,
        now: i64,
        make: impl FnOnce(Option<String>) -> Option<Pass>,
    ) -> Redeemed<bool> {
        self.links.retain(|link| link.until > now);
        // All are compared, so that the time says nothing about where the right one is.
        let found = self
            .links
            .iter()
            .enumerate()
            .fold(None, |found, (place, link)| if bool::from(link.hash.ct_eq(code)) { Some(place) } else { found });
        let Some(link) = found.and_then(|place| self.links.remove(place)) else {
            return self.guessed(now);
        };
        let Some(pass) = make(link.label) else { return Redeemed::In { is_new: false } };
        self.forget_old(now);
        while self.passes.len() >= MOST_PASSES {
            let oldest = self.passes.iter().enumerate().min_by_key(|(_, pass)| pass.seen).map(|(place, _)| place);
            let Some(place) = oldest else { break };
            self.passes.remove(place).ended.cancel();
        }
        self.void_links();
        self.passes.push(Pass { token: self.token, ..pass });
        Redeemed::In { is_new: true }
    }

    /// Only wrong codes are counted, and a right one is good at any time: otherwise whoever reaches the port could keep
    /// everybody out by guessing.
    fn guessed(&mut self, now: i64) -> Redeemed<bool> {
        self.wrong.retain(|at| now.saturating_sub(*at) < WRONG_WITHIN);
        if self.wrong.len() >= WRONG {
            return Redeemed::TooMany;
        }
        self.wrong.push_back(now);
        Redeemed::Wrong
    }

    /// The pass of a cookie together with its key.
    pub(super) fn recognize(&mut self, cookie: &Hash, key: &Hash, now: i64) -> Option<&mut Pass> {
        self.forget_old(now);
        // All are compared, so that the time says nothing about which one it is.
        let found = self.passes.iter_mut().fold(None, |found, pass| {
            if bool::from(pass.hash.ct_eq(cookie) & pass.key.ct_eq(key)) { Some(pass) } else { found }
        })?;
        found.seen = found.seen.max(now);
        Some(found)
    }

    /// The id of the pass that a cookie belongs to. The cookie alone is no sign-in.
    pub(super) fn id_of_cookie(&self, cookie: &Hash) -> Option<&str> {
        let found = self
            .passes
            .iter()
            .fold(None, |found, pass| if bool::from(pass.hash.ct_eq(cookie)) { Some(pass) } else { found })?;
        Some(&found.id)
    }

    /// Whoever has this pass was here.
    pub(super) fn seen(&mut self, id: &str, now: i64) {
        if let Some(pass) = self.passes.iter_mut().find(|pass| pass.id == id) {
            pass.seen = pass.seen.max(now);
        }
    }

    pub(super) fn list(&mut self, now: i64) -> Vec<Pass> {
        self.forget_old(now);
        let mut passes = self.passes.clone();
        passes.sort_by_key(|pass| std::cmp::Reverse((pass.seen, pass.created)));
        passes
    }

    /// Takes back one pass, or all of them with the links that still wait. Says how many passes there were.
    pub(super) fn revoke(&mut self, ids: Option<&[&str]>) -> usize {
        if ids.is_none() {
            self.links.clear();
            self.others.clear();
        }
        let before = self.passes.len();
        self.passes.retain(|pass| {
            let stays = ids.is_some_and(|ids| !ids.contains(&&*pass.id));
            if !stays {
                pass.ended.cancel();
            }
            stays
        });
        self.void_links();
        before - self.passes.len()
    }

    /// What was not used for long is forgotten.
    pub(super) fn forget_old(&mut self, now: i64) {
        self.others.retain(|pass| now.saturating_sub(pass.seen) < UNUSED);
        self.passes.retain(|pass| {
            let stays = now.saturating_sub(pass.seen) < UNUSED;
            if !stays {
                pass.ended.cancel();
            }
            stays
        });
        self.void_links();
    }

    /// Links of browsers that are signed out work no more.
    fn void_links(&mut self) {
        let passes = &self.passes;
        let is_there = |maker: &String| passes.iter().any(|pass| pass.id == *maker);
        self.links.retain(|link| link.maker.as_ref().is_none_or(is_there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn book() -> Book {
        Book::new("h".to_owned())
    }

    fn key(number: u8) -> Hash {
        [number ^ 0x80; 32]
    }

    fn pass(number: u8, now: i64) -> Pass {
        Pass::new(number.to_string(), [number; 32], key(number), format!("browser {number}"), now)
    }

    fn sign_in(book: &mut Book, number: u8, now: i64) -> CancellationToken {
        let pass = pass(number, now);
        let ended = pass.ended.clone();
        book.add_link([number; 32], now + 1, None, None);
        assert_eq!(book.redeem(&[number; 32], now, |_| Some(pass)), Redeemed::In { is_new: true });
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
        assert_eq!((redeemed, label.as_deref()), (Redeemed::In { is_new: true }, Some("phone")));
        assert_eq!(book.redeem(&[7; 32], 999, |_| Some(pass(2, 999))), Redeemed::Wrong);
        assert_eq!(book.passes().len(), 1);
    }

    #[test]
    fn a_code_that_is_too_old_or_unknown_is_wrong() {
        let mut book = book();
        book.add_link([7; 32], 1000, None, None);
        assert_eq!(book.redeem(&[8; 32], 10, |_| Some(pass(1, 10))), Redeemed::Wrong);
        assert_eq!(book.redeem(&[7; 32], 1000, |_| Some(pass(1, 1000))), Redeemed::Wrong);
        assert!(book.passes().is_empty());
    }

    #[test]
    fn many_wrong_codes_are_refused_for_a_while_and_keep_nobody_out() {
        let mut book = book();
        book.add_link([7; 32], 10 * DAY, None, None);
        for _ in 0..WRONG {
            assert_eq!(book.redeem(&[8; 32], 0, |_| None), Redeemed::Wrong);
        }
        assert_eq!(book.redeem(&[8; 32], WRONG_WITHIN - 1, |_| None), Redeemed::TooMany);
        assert_eq!(book.redeem(&[7; 32], WRONG_WITHIN - 1, |_| None), Redeemed::In { is_new: false });
        assert_eq!(book.redeem(&[8; 32], WRONG_WITHIN, |_| None), Redeemed::Wrong);
    }

    #[test]
    fn links_and_passes_are_bounded_and_the_oldest_go_first() {
        let mut book = book();
        for number in 0..=32 {
            book.add_link([number; 32], 1000, None, None);
        }
        assert_eq!(book.redeem(&[0; 32], 1, |_| None), Redeemed::Wrong);
        assert_eq!(book.redeem(&[1; 32], 1, |_| None), Redeemed::In { is_new: false });
        let tokens: Vec<_> = (0..=100).map(|number| sign_in(&mut book, number, i64::from(number))).collect();
        assert_eq!(book.passes().len(), MOST_PASSES);
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(
            book.recognize(&[0; 32], &key(0), 200).is_none() && book.recognize(&[100; 32], &key(100), 200).is_some()
        );
    }

    #[test]
    fn a_pass_that_nobody_uses_is_forgotten_and_one_in_use_is_not() {
        let mut book = book();
        let (first, second) = (sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0));
        assert!(book.recognize(&[1; 32], &key(1), 80 * DAY).is_some());
        assert!(book.recognize(&[1; 32], &key(1), 169 * DAY).is_some());
        assert!(book.recognize(&[2; 32], &key(2), 169 * DAY).is_none());
        assert!(second.is_cancelled() && !first.is_cancelled());
    }

    #[test]
    fn signing_out_ends_one_or_all() {
        let mut book = book();
        let tokens = [sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0), sign_in(&mut book, 3, 0)];
        book.add_link([9; 32], 1000, None, None);
        assert_eq!((book.revoke(Some(&["2"])), book.revoke(Some(&["2"]))), (1, 0));
        assert_eq!(tokens.each_ref().map(CancellationToken::is_cancelled), [false, true, false]);
        assert!(book.recognize(&[2; 32], &key(2), 1).is_none());
        assert_eq!(book.revoke(None), 2);
        assert!(tokens.iter().all(CancellationToken::is_cancelled));
        assert_eq!(book.redeem(&[9; 32], 1, |_| Some(pass(9, 1))), Redeemed::Wrong, "links that wait go, too");
    }

    #[test]
    fn a_cookie_counts_only_with_the_key_of_its_own_pass() {
        let mut book = book();
        sign_in(&mut book, 1, 0);
        sign_in(&mut book, 2, 0);
        assert!(book.recognize(&[1; 32], &key(2), 1).is_none(), "another browser's key");
        assert!(book.recognize(&[1; 32], &[1; 32], 1).is_none(), "the cookie twice");
        assert!(book.recognize(&key(1), &key(1), 1).is_none(), "the key twice");
        assert_eq!(book.recognize(&[1; 32], &key(1), 1).unwrap().id, "1");
        assert_eq!(book.id_of_cookie(&[1; 32]), Some("1"));
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
            assert_eq!(book.redeem(&[voided; 32], 1, |_| None), Redeemed::Wrong, "{voided}");
        }
        for good in [12, 13] {
            assert_eq!(book.redeem(&[good; 32], 1, |_| None), Redeemed::In { is_new: false }, "{good}");
        }
        assert!(book.add_link([15; 32], 100 * DAY, None, Some("2")));
        book.forget_old(UNUSED + 1);
        assert_eq!(book.redeem(&[15; 32], UNUSED + 1, |_| None), Redeemed::Wrong, "its browser was away for too long");
    }
}
