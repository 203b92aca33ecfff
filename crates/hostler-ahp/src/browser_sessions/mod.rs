//! Browser sessions: how a browser connects without the token.
//!
//! A signed-in client creates a *sign-in link*, which works once and for a short time. The page exchanges the link's
//! code for a *browser session*: a cookie that scripts cannot read, and a page key that is not a cookie, because
//! browsers send cookies to every port of a name. Both are required. Signing out closes the connections of that browser
//! session. Only hashes are stored: of codes in memory, of browser sessions in a file.
//!
//! | module | content |
//! |---|---|
//! | `session_table` | links and browser sessions: created, authenticated, revoked; pure |
//! | `secret` | random secrets and their hashes |
//! | `session_file` | browser sessions survive restarts of the host |
//! | `cookie` | the cookie in requests and responses; pure |
//! | `page_key` | the key that a request presents; pure |
//! | `browser_label` | label of a browser; pure |
//! | `sign_in_endpoints` | `/sign-in` and `/sign-out` over HTTP |
//! | `commands` | the methods for connected clients |

mod browser_label;
pub(crate) mod commands;
mod cookie;
mod page_key;
mod secret;
mod session_file;
mod session_table;
pub(crate) mod sign_in_endpoints;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use secret::SignInSecret;
use session_table::{BrowserSession, BrowserSessionTable, LinkRedemption};

/// Maximum age of the last-seen time in the file before it is written again.
const LAST_SEEN_SAVE_INTERVAL: Duration = Duration::from_secs(3600);

/// The browser sessions of a host. Cheap to clone.
#[derive(Clone)]
pub struct BrowserSessions(Arc<Shared>);

struct Shared {
    table: Mutex<BrowserSessionTable>,
    /// Locked while the file is written, so the last writer has seen all changes.
    file: Mutex<Option<PathBuf>>,
}

/// Client that a browser session authenticated. Dropping it updates the last-seen time.
pub(crate) struct BrowserClient {
    sessions: BrowserSessions,
    session_id: String,
    /// Canceled when the browser session is signed out.
    pub(crate) signed_out: CancellationToken,
}

impl BrowserClient {
    /// The browser session's id.
    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }
}

impl Drop for BrowserClient {
    fn drop(&mut self) {
        self.sessions.lock_table().touch(&self.session_id, now_ms());
    }
}

/// Credentials that a browser receives for a code.
struct IssuedCredentials {
    cookie: SignInSecret,
    page_key: SignInSecret,
}

/// A link that was just created.
pub(crate) struct IssuedLink {
    pub(crate) code: SignInSecret,
    /// Milliseconds since 1970.
    pub(crate) expires_at_ms: i64,
}

/// Browser sessions in memory only, which end with the host.
impl Default for BrowserSessions {
    fn default() -> Self {
        Self::from_table(BrowserSessionTable::new("memory".to_owned()), None)
    }
}

impl BrowserSessions {
    /// Opens the browser sessions in a file, which is created with the first one. A file that cannot be parsed is
    /// ignored, and all browsers have to sign in again. A browser session belongs to the token that the host had when
    /// it was created: with another token it is not accepted.
    ///
    /// # Errors
    /// If the file cannot be read, or the system has no randomness.
    pub fn open(path: PathBuf, token: Option<&SecretString>) -> io::Result<Self> {
        let table = match session_file::read(&path)? {
            Some(table) => table,
            None => BrowserSessionTable::new(secret::random_id::<4>()?),
        };
        let token = token.map(|token| SignInSecret::from_text(token.expose_secret()).hash());
        Ok(Self::from_table(table.for_token(token), Some(path)))
    }

    fn from_table(mut table: BrowserSessionTable, path: Option<PathBuf>) -> Self {
        table.remove_expired(now_ms());
        Self(Arc::new(Shared { table: Mutex::new(table), file: Mutex::new(path) }))
    }

    fn lock_table(&self) -> MutexGuard<'_, BrowserSessionTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a link; `creator` is the browser session that requests it. `None` if that one is signed out already.
    pub(crate) fn create_link(
        &self,
        validity: Duration,
        label: Option<String>,
        creator: Option<&str>,
    ) -> io::Result<Option<IssuedLink>> {
        let code = SignInSecret::generate::<18>()?;
        let until = now_ms().saturating_add(to_millis(validity));
        let added = self.lock_table().add_link(code.hash(), until, label, creator);
        Ok(added.then_some(IssuedLink { code, expires_at_ms: until }))
    }

    /// Exchanges a code for a browser session. A signed-in browser keeps its own; a browser that has lost its page key
    /// gets a new one in place of those (`lost`) whose cookies it presents.
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
                    // The browser never receives its credentials, so the session must not appear in the list.
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

    /// The browser session that a request presents: its cookie together with its page key.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Option<BrowserClient> {
        self.authenticate_with_cookie(headers).map(|(client, _)| client)
    }

    /// Like `authenticate`, and returns the cookie's value.
    fn authenticate_with_cookie(&self, headers: &HeaderMap) -> Option<(BrowserClient, SignInSecret)> {
        let now = now_ms();
        let key = page_key::page_key_of_request(headers)?.hash();
        let mut table = self.lock_table();
        let cookies = cookie::session_cookies(headers, table.host_id());
        let (id, signed_out, written, cookie) = cookies.into_iter().find_map(|cookie| {
            let session = table.authenticate(&cookie.hash(), &key, now)?;
            let written = std::mem::replace(&mut session.last_saved_ms, now);
            Some((session.id.clone(), session.signed_out.clone(), written, cookie))
        })?;
        drop(table);
        if now.saturating_sub(written) > to_millis(LAST_SEEN_SAVE_INTERVAL) {
            let sessions = self.clone();
            // The client does not depend on the result, so the write is not awaited.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = sessions.save() {
                    tracing::warn!(%error, "failed to store last-seen times of browser sessions");
                }
            });
        }
        Some((BrowserClient { sessions: self.clone(), session_id: id, signed_out }, cookie))
    }

    /// All browser sessions, the most recently used first.
    fn list(&self) -> Vec<BrowserSession> {
        self.lock_table().list(now_ms())
    }

    /// The ids of all browser sessions whose cookies a request presents: a browser that used both TLS and plain HTTP
    /// has two. They authenticate no request.
    fn session_ids_of_cookies(&self, headers: &HeaderMap) -> Vec<String> {
        let table = self.lock_table();
        let cookies = cookie::session_cookies(headers, table.host_id());
        cookies.iter().filter_map(|cookie| Some(table.session_id_by_cookie(&cookie.hash())?.to_owned())).collect()
    }

    /// Revokes some browser sessions, or all, and closes their connections. Returns how many there were.
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
