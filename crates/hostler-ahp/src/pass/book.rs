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
    wrong: VecDeque<i64>,
}

struct WaitingLink {
    hash: Hash,
    until: i64,
    label: Option<String>,
}

/// One browser's right to come in.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    /// What people call it by; no secret.
    pub(super) id: String,
    pub(super) hash: Hash,
    pub(super) label: String,
    pub(super) created: i64,
    pub(super) seen: i64,
    /// When that was last given to the file.
    pub(super) written: i64,
    /// Fires when it is taken back.
    pub(super) ended: CancellationToken,
}

impl Pass {
    pub(super) fn new(id: String, hash: Hash, label: String, now: i64) -> Self {
        Self { id, hash, label, created: now, seen: now, written: now, ended: CancellationToken::new() }
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
        Self { host, links: VecDeque::new(), passes: Vec::new(), wrong: VecDeque::new() }
    }

    /// What a file has kept.
    pub(super) fn restored(host: String, passes: Vec<Pass>) -> Self {
        Self { passes, ..Self::new(host) }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn passes(&self) -> &[Pass] {
        &self.passes
    }

    pub(super) fn add_link(&mut self, hash: Hash, until: i64, label: Option<String>) {
        if self.links.len() >= MOST_LINKS {
            self.links.pop_front();
        }
        self.links.push_back(WaitingLink { hash, until, label });
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
        self.passes.push(pass);
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

    /// Whose pass it is.
    pub(super) fn recognize(&mut self, hash: &Hash, now: i64) -> Option<&mut Pass> {
        self.forget_old(now);
        let found = self
            .passes
            .iter_mut()
            .fold(None, |found, pass| if bool::from(pass.hash.ct_eq(hash)) { Some(pass) } else { found })?;
        found.seen = found.seen.max(now);
        Some(found)
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
        }
        let before = self.passes.len();
        self.passes.retain(|pass| {
            let stays = ids.is_some_and(|ids| !ids.contains(&&*pass.id));
            if !stays {
                pass.ended.cancel();
            }
            stays
        });
        before - self.passes.len()
    }

    /// What was not used for long is forgotten.
    pub(super) fn forget_old(&mut self, now: i64) {
        self.passes.retain(|pass| {
            let stays = now.saturating_sub(pass.seen) < UNUSED;
            if !stays {
                pass.ended.cancel();
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn book() -> Book {
        Book::new("h".to_owned())
    }

    fn pass(number: u8, now: i64) -> Pass {
        Pass::new(number.to_string(), [number; 32], format!("browser {number}"), now)
    }

    fn sign_in(book: &mut Book, number: u8, now: i64) -> CancellationToken {
        let pass = pass(number, now);
        let ended = pass.ended.clone();
        book.add_link([number; 32], now + 1, None);
        assert_eq!(book.redeem(&[number; 32], now, |_| Some(pass)), Redeemed::In { is_new: true });
        ended
    }

    #[test]
    fn a_code_works_once() {
        let mut book = book();
        book.add_link([7; 32], 1000, Some("phone".into()));
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
        book.add_link([7; 32], 1000, None);
        assert_eq!(book.redeem(&[8; 32], 10, |_| Some(pass(1, 10))), Redeemed::Wrong);
        assert_eq!(book.redeem(&[7; 32], 1000, |_| Some(pass(1, 1000))), Redeemed::Wrong);
        assert!(book.passes().is_empty());
    }

    #[test]
    fn many_wrong_codes_are_refused_for_a_while_and_keep_nobody_out() {
        let mut book = book();
        book.add_link([7; 32], 10 * DAY, None);
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
            book.add_link([number; 32], 1000, None);
        }
        assert_eq!(book.redeem(&[0; 32], 1, |_| None), Redeemed::Wrong);
        assert_eq!(book.redeem(&[1; 32], 1, |_| None), Redeemed::In { is_new: false });
        let tokens: Vec<_> = (0..=100).map(|number| sign_in(&mut book, number, i64::from(number))).collect();
        assert_eq!(book.passes().len(), MOST_PASSES);
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled());
        assert!(book.recognize(&[0; 32], 200).is_none() && book.recognize(&[100; 32], 200).is_some());
    }

    #[test]
    fn a_pass_that_nobody_uses_is_forgotten_and_one_in_use_is_not() {
        let mut book = book();
        let (first, second) = (sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0));
        assert!(book.recognize(&[1; 32], 80 * DAY).is_some());
        assert!(book.recognize(&[1; 32], 169 * DAY).is_some());
        assert!(book.recognize(&[2; 32], 169 * DAY).is_none());
        assert!(second.is_cancelled() && !first.is_cancelled());
    }

    #[test]
    fn signing_out_ends_one_or_all() {
        let mut book = book();
        let tokens = [sign_in(&mut book, 1, 0), sign_in(&mut book, 2, 0), sign_in(&mut book, 3, 0)];
        book.add_link([9; 32], 1000, None);
        assert_eq!((book.revoke(Some(&["2"])), book.revoke(Some(&["2"]))), (1, 0));
        assert_eq!(tokens.each_ref().map(CancellationToken::is_cancelled), [false, true, false]);
        assert!(book.recognize(&[2; 32], 1).is_none());
        assert_eq!(book.revoke(None), 2);
        assert!(tokens.iter().all(CancellationToken::is_cancelled));
        assert_eq!(book.redeem(&[9; 32], 1, |_| Some(pass(9, 1))), Redeemed::Wrong, "links that wait go, too");
    }
}
