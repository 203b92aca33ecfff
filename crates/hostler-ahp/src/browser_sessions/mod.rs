//! Passes: how a browser comes in without the token.
//!
//! A person asks for a *link* that works once and for a short time, and opens it in a browser. The page exchanges the link's code
//! for a *pass*: a cookie that no script can read, and a key that is not a cookie, since browsers send cookies to every port of
//! a name. Both are needed. Only hashes are kept: of codes in memory, of passes in a file.
//!
//! | module | idea |
//! |---|---|
//! | `book` | links and passes: made, recognized, forgotten; pure |
//! | `secret` | random texts and their hashes |
//! | `file` | passes outlive the host |
//! | `cookie` | a pass on its way to a browser and back; pure |
//! | `key` | the key that a request presents; pure |
//! | `browser` | what to call a browser; pure |
//! | `door` | `/sign-in` and `/sign-out` over HTTP |
//! | `commands` | the same for clients that are in |

mod browser_label;
pub(crate) mod commands;
mod cookie;
mod page_key;
mod secret;
mod session_file;
mod session_table;
pub(crate) mod sign_in_page;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use secret::SignInSecret;
use session_table::{BrowserSession, BrowserSessionTable, LinkRedemption};

/// How old what the file says about a visit may be before it is written again.
const LAST_SEEN_SAVE_INTERVAL: Duration = Duration::from_secs(3600);

/// The passes of a host. Cheap to clone.
#[derive(Clone)]
pub struct BrowserSessions(Arc<Shared>);

struct Shared {
    table: Mutex<BrowserSessionTable>,
    /// Held while the file is written: the last one to write has seen everything.
    file: Mutex<Option<PathBuf>>,
}

/// A browser that is in by its pass, until this is dropped.
pub(crate) struct BrowserClient {
    sessions: BrowserSessions,
    session_id: String,
    /// Fires when it is signed out.
    pub(crate) signed_out: CancellationToken,
}

impl BrowserClient {
    /// The pass's id.
    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }
}

impl Drop for BrowserClient {
    fn drop(&mut self) {
        self.sessions.lock_table().touch(&self.session_id, now_ms());
    }
}

/// What a browser gets for a code.
struct IssuedCredentials {
    cookie: SignInSecret,
    page_key: SignInSecret,
}

/// A link that was just made.
pub(crate) struct IssuedLink {
    pub(crate) code: SignInSecret,
    /// Milliseconds since 1970.
    pub(crate) expires_at_ms: i64,
}

/// Passes that end with the host.
impl Default for BrowserSessions {
    fn default() -> Self {
        Self::from_table(BrowserSessionTable::new("memory".to_owned()), None)
    }
}

impl BrowserSessions {
    /// The passes that a file keeps; it is made when there is one. What cannot be understood is not taken: everybody signs in
    /// again. Passes belong to the token that the host had when they were given: with another one they do not count.
    ///
    /// # Errors
    /// If it cannot be read, or there is no randomness.
    pub fn open(path: PathBuf, token: Option<&SecretString>) -> io::Result<Self> {
        let book = match session_file::read(&path)? {
            Some(book) => book,
            None => BrowserSessionTable::new(secret::random_id::<4>()?),
        };
        let token = token.map(|token| SignInSecret::from_text(token.expose_secret()).hash());
        Ok(Self::from_table(book.for_token(token), Some(path)))
    }

    fn from_table(mut book: BrowserSessionTable, path: Option<PathBuf>) -> Self {
        book.remove_expired(now_ms());
        Self(Arc::new(Shared { table: Mutex::new(book), file: Mutex::new(path) }))
    }

    fn lock_table(&self) -> MutexGuard<'_, BrowserSessionTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link, for a browser if its pass is named. `None` if that is signed out already.
    pub(crate) fn create_link(
        &self,
        lasts: Duration,
        label: Option<String>,
        maker: Option<&str>,
    ) -> io::Result<Option<IssuedLink>> {
        let code = SignInSecret::generate::<18>()?;
        let until = now_ms().saturating_add(to_millis(lasts));
        let added = self.lock_table().add_link(code.hash(), until, label, maker);
        Ok(added.then_some(IssuedLink { code, expires_at_ms: until }))
    }

    /// Exchanges a code for a pass. A browser that is signed in keeps the one it has; one that has lost its key gets another
    /// pass in place of those (`lost`) whose cookies it brings.
    fn redeem(
        &self,
        code: &SignInSecret,
        is_signed_in: bool,
        lost: &[&str],
        browser: String,
    ) -> io::Result<LinkRedemption<Option<IssuedCredentials>>> {
        let (cookie, key, id) =
            (SignInSecret::generate::<32>()?, SignInSecret::generate::<32>()?, secret::random_id::<6>()?);
        let new_id = id.clone();
        let redeemed = self.lock_table().redeem(&code.hash(), now_ms(), |label| match is_signed_in {
            true => None,
            false => Some(BrowserSession::new(id, cookie.hash(), key.hash(), label.unwrap_or(browser), now_ms())),
        });
        match redeemed {
            LinkRedemption::Accepted { is_new: true } => {
                self.lock_table().revoke(Some(lost));
                if let Err(error) = self.save() {
                    // Its browser never hears of it, so nobody else may find it in the list.
                    self.lock_table().revoke(Some(&[&new_id]));
                    return Err(error);
                }
                Ok(LinkRedemption::Accepted { is_new: Some(IssuedCredentials { cookie, page_key: key }) })
            }
            LinkRedemption::Accepted { is_new: false } => Ok(LinkRedemption::Accepted { is_new: None }),
            LinkRedemption::Rejected => Ok(LinkRedemption::Rejected),
            LinkRedemption::RateLimited => Ok(LinkRedemption::RateLimited),
        }
    }

    /// Whose pass a request brings: its cookie, together with its key.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Option<BrowserClient> {
        self.authenticate_with_cookie(headers).map(|(guest, _)| guest)
    }

    /// The same with the pass itself.
    fn authenticate_with_cookie(&self, headers: &HeaderMap) -> Option<(BrowserClient, SignInSecret)> {
        let now = now_ms();
        let key = page_key::page_key_of_request(headers)?.hash();
        let mut book = self.lock_table();
        let given = cookie::session_cookies(headers, book.host_id());
        let (id, ended, written, given) = given.into_iter().find_map(|given| {
            let pass = book.authenticate(&given.hash(), &key, now)?;
            let written = std::mem::replace(&mut pass.last_saved_ms, now);
            Some((pass.id.clone(), pass.signed_out.clone(), written, given))
        })?;
        drop(book);
        if now.saturating_sub(written) > to_millis(LAST_SEEN_SAVE_INTERVAL) {
            let passes = self.clone();
            // It is of no use to whoever comes in, so nobody waits for it.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = passes.save() {
                    tracing::warn!(%error, "when browsers were last here could not be written");
                }
            });
        }
        Some((BrowserClient { sessions: self.clone(), session_id: id, signed_out: ended }, given))
    }

    /// All passes, the one that was used last first.
    fn list(&self) -> Vec<BrowserSession> {
        self.lock_table().list(now_ms())
    }

    /// The ids of all passes whose cookies a browser brings: one that came by both ways, with TLS and without, has two. They
    /// sign nobody in.
    fn session_ids_of_cookies(&self, headers: &HeaderMap) -> Vec<String> {
        let book = self.lock_table();
        let given = cookie::session_cookies(headers, book.host_id());
        given.iter().filter_map(|given| Some(book.session_id_by_cookie(&given.hash())?.to_owned())).collect()
    }

    /// Takes back some passes, or all of them; whoever is in by them has to leave. Says how many there were.
    fn revoke(&self, ids: Option<&[&str]>) -> io::Result<usize> {
        let revoked = self.lock_table().revoke(ids);
        if revoked > 0 {
            self.save()?;
        }
        Ok(revoked)
    }

    fn save(&self) -> io::Result<()> {
        let file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &*file else { return Ok(()) };
        let text = session_file::serialize(&self.lock_table())?;
        session_file::write(path, &text)
    }
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, to_millis)
}

fn to_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
