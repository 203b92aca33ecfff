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

mod book;
mod browser;
pub(crate) mod commands;
mod cookie;
pub(crate) mod door;
mod file;
mod key;
mod secret;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use book::{Book, Pass, Redeemed};
use secret::Secret;

/// How old what the file says about a visit may be before it is written again.
const WRITE_AFTER: Duration = Duration::from_secs(3600);

/// The passes of a host. Cheap to clone.
#[derive(Clone)]
pub struct Passes(Arc<Shared>);

struct Shared {
    book: Mutex<Book>,
    /// Held while the file is written: the last one to write has seen everything.
    file: Mutex<Option<PathBuf>>,
}

/// A browser that is in by its pass, until this is dropped.
pub(crate) struct Guest {
    passes: Passes,
    id: String,
    /// Fires when it is signed out.
    pub(crate) ended: CancellationToken,
}

impl Guest {
    /// The pass's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.passes.book().seen(&self.id, now());
    }
}

/// What a browser gets for a code.
struct Issued {
    cookie: Secret,
    key: Secret,
}

/// A link that was just made.
pub(crate) struct Link {
    pub(crate) code: Secret,
    /// Milliseconds since 1970.
    pub(crate) until: i64,
}

/// Passes that end with the host.
impl Default for Passes {
    fn default() -> Self {
        Self::with(Book::new("memory".to_owned()), None)
    }
}

impl Passes {
    /// The passes that a file keeps; it is made when there is one. What cannot be understood is not taken: everybody signs in
    /// again. Passes belong to the token that the host had when they were given: with another one they do not count.
    ///
    /// # Errors
    /// If it cannot be read, or there is no randomness.
    pub fn open(path: PathBuf, token: Option<&SecretString>) -> io::Result<Self> {
        let book = match file::read(&path)? {
            Some(book) => book,
            None => Book::new(secret::random::<4>()?),
        };
        let token = token.map(|token| Secret::brought(token.expose_secret()).hash());
        Ok(Self::with(book.under(token), Some(path)))
    }

    fn with(mut book: Book, path: Option<PathBuf>) -> Self {
        book.forget_old(now());
        Self(Arc::new(Shared { book: Mutex::new(book), file: Mutex::new(path) }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link, for a browser if its pass is named. `None` if that is signed out already.
    pub(crate) fn link(&self, lasts: Duration, label: Option<String>, maker: Option<&str>) -> io::Result<Option<Link>> {
        let code = Secret::new::<18>()?;
        let until = now().saturating_add(millis(lasts));
        let added = self.book().add_link(code.hash(), until, label, maker);
        Ok(added.then_some(Link { code, until }))
    }

    /// Exchanges a code for a pass. A browser that is signed in keeps the one it has; one that has lost its key gets another
    /// pass in place of those (`lost`) whose cookies it brings.
    fn redeem(
        &self,
        code: &Secret,
        is_signed_in: bool,
        lost: &[&str],
        browser: String,
    ) -> io::Result<Redeemed<Option<Issued>>> {
        let (cookie, key, id) = (Secret::new::<32>()?, Secret::new::<32>()?, secret::random::<6>()?);
        let new_id = id.clone();
        let redeemed = self.book().redeem(&code.hash(), now(), |label| match is_signed_in {
            true => None,
            false => Some(Pass::new(id, cookie.hash(), key.hash(), label.unwrap_or(browser), now())),
        });
        match redeemed {
            Redeemed::In { is_new: true } => {
                self.book().revoke(Some(lost));
                if let Err(error) = self.save() {
                    // Its browser never hears of it, so nobody else may find it in the list.
                    self.book().revoke(Some(&[&new_id]));
                    return Err(error);
                }
                Ok(Redeemed::In { is_new: Some(Issued { cookie, key }) })
            }
            Redeemed::In { is_new: false } => Ok(Redeemed::In { is_new: None }),
            Redeemed::Wrong => Ok(Redeemed::Wrong),
            Redeemed::TooMany => Ok(Redeemed::TooMany),
        }
    }

    /// Whose pass a request brings: its cookie, together with its key.
    pub(crate) fn recognize(&self, headers: &HeaderMap) -> Option<Guest> {
        self.find(headers).map(|(guest, _)| guest)
    }

    /// The same with the pass itself.
    fn find(&self, headers: &HeaderMap) -> Option<(Guest, Secret)> {
        let now = now();
        let key = key::presented(headers)?.hash();
        let mut book = self.book();
        let given = cookie::passes(headers, book.host());
        let (id, ended, written, given) = given.into_iter().find_map(|given| {
            let pass = book.recognize(&given.hash(), &key, now)?;
            let written = std::mem::replace(&mut pass.written, now);
            Some((pass.id.clone(), pass.ended.clone(), written, given))
        })?;
        drop(book);
        if now.saturating_sub(written) > millis(WRITE_AFTER) {
            let passes = self.clone();
            // It is of no use to whoever comes in, so nobody waits for it.
            tokio::task::spawn_blocking(move || {
                if let Err(error) = passes.save() {
                    tracing::warn!(%error, "when browsers were last here could not be written");
                }
            });
        }
        Some((Guest { passes: self.clone(), id, ended }, given))
    }

    /// All passes, the one that was used last first.
    fn list(&self) -> Vec<Pass> {
        self.book().list(now())
    }

    /// The ids of all passes whose cookies a browser brings: one that came by both ways, with TLS and without, has two. They
    /// sign nobody in.
    fn brought(&self, headers: &HeaderMap) -> Vec<String> {
        let book = self.book();
        let given = cookie::passes(headers, book.host());
        given.iter().filter_map(|given| Some(book.id_of_cookie(&given.hash())?.to_owned())).collect()
    }

    /// Takes back some passes, or all of them; whoever is in by them has to leave. Says how many there were.
    fn revoke(&self, ids: Option<&[&str]>) -> io::Result<usize> {
        let revoked = self.book().revoke(ids);
        if revoked > 0 {
            self.save()?;
        }
        Ok(revoked)
    }

    fn save(&self) -> io::Result<()> {
        let file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &*file else { return Ok(()) };
        let text = file::text(&self.book())?;
        file::write(path, &text)
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
