//! The cookie of a browser session: `Set-Cookie` headers and parsing of requests.

use http::{HeaderMap, HeaderValue, header};

use super::secret::SignInSecret;
use super::session_table::UNUSED_EXPIRY_MS;

/// Maximum number of cookies with this host's name that are checked; a browser sends one, or one of each kind.
const MAX_COOKIES: usize = 4;

/// Maximum length of a checked cookie value.
const MAX_COOKIE_BYTES: usize = 128;

/// The cookie's name. Browsers store a cookie with the `__Host-` prefix only if it came over TLS and for this exact
/// name.
fn cookie_name(host: &str, secure: bool) -> String {
    format!("{}hostler-{host}", if secure { "__Host-" } else { "" })
}

/// The header that sets a browser's cookie.
pub(super) fn set_cookie_header(host: &str, cookie: &SignInSecret, secure: bool) -> Option<HeaderValue> {
    build_cookie_header(host, cookie.expose(), UNUSED_EXPIRY_MS / 1000, secure)
}

/// The header that removes it.
pub(super) fn clear_cookie_header(host: &str, secure: bool) -> Option<HeaderValue> {
    build_cookie_header(host, "", 0, secure)
}

fn build_cookie_header(host: &str, value: &str, seconds: i64, secure: bool) -> Option<HeaderValue> {
    let (name, only_tls) = (cookie_name(host, secure), if secure { "; Secure" } else { "" });
    let text = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{only_tls}");
    let mut header = HeaderValue::try_from(text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// The cookie values in a request that belong to this host. Cookies of other hosts are ignored.
pub(super) fn session_cookies(headers: &HeaderMap, host: &str) -> Vec<SignInSecret> {
    let names = [cookie_name(host, false), cookie_name(host, true)];
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let ours = pairs.filter(|(name, value)| names.iter().any(|ours| ours == name) && value.len() <= MAX_COOKIE_BYTES);
    ours.take(MAX_COOKIES).map(|(_, value)| SignInSecret::from_text(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cookies: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(header::COOKIE, cookie.parse().unwrap());
        }
        session_cookies(&headers, "a1").iter().map(|cookie| cookie.expose().to_owned()).collect()
    }

    #[test]
    fn cookies_of_other_hosts_are_ignored() {
        assert_eq!(found(&["x=1; hostler-a1=one; hostler-a2=two"]), ["one"]);
        assert_eq!(found(&["hostler-a1=one", "__Host-hostler-a1=two"]), ["one", "two"]);
        assert_eq!(found(&["hostler-A1=one; hostler-a1x=1; =hostler-a1; hostler-a1; ;;"]), Vec::<String>::new());
        assert_eq!(found(&["hostler-a1=1; hostler-a1=2; hostler-a1=3; hostler-a1=4; hostler-a1=5"]).len(), MAX_COOKIES);
        assert_eq!(found(&[&format!("hostler-a1={}", "x".repeat(200))]), Vec::<String>::new());
    }

    #[test]
    fn cookies_are_http_only_and_same_site_strict() {
        let cookie = SignInSecret::from_text("pass");
        assert_eq!(
            set_cookie_header("a1", &cookie, false).unwrap().to_str().unwrap(),
            "hostler-a1=pass; HttpOnly; SameSite=Strict; Path=/; Max-Age=7776000"
        );
        assert_eq!(
            set_cookie_header("a1", &cookie, true).unwrap().to_str().unwrap(),
            "__Host-hostler-a1=pass; HttpOnly; SameSite=Strict; Path=/; Max-Age=7776000; Secure"
        );
        assert_eq!(
            clear_cookie_header("a1", false).unwrap().to_str().unwrap(),
            "hostler-a1=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
        );
        assert!(!format!("{:?}", set_cookie_header("a1", &cookie, false)).contains("pass;"));
    }
}
