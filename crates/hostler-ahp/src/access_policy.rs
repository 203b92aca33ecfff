//! The network edge: decides before the upgrade which clients may connect, by token, `Host` and `Origin`. Knows browser
//! sessions only as a callback.

use std::net::IpAddr;

use hostler_net::{is_loopback_name, split_host_and_port};
use http::{HeaderMap, Uri, header};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// Which clients may connect.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// Token that clients must present; `None` requires none, for listeners that only loopback can reach.
    pub token: Option<SecretString>,
    /// Further accepted values of `Origin`.
    pub allowed_origins: Vec<String>,
    /// Further accepted names in `Host`, without a port.
    pub allowed_hosts: Vec<String>,
    /// Proxies on other machines whose forwarding headers are trusted. Proxies on this machine always are.
    pub trusted_proxies: Vec<IpAddr>,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerInfo {
    /// Address of the client or proxy that has connected.
    pub(crate) peer: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
}

/// Why a connection is refused, each with its HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The `Host` header names another machine: a sign of DNS rebinding by a web page.
    Host,
    /// A web page of another origin.
    Origin,
    /// No token, a wrong one, or several.
    Token,
}

impl AccessRefusal {
    /// Message for the client.
    pub fn message(self) -> &'static str {
        match self {
            Self::Host => "This host does not accept the name in the `Host` header. Add it to `allowed-hosts`.",
            Self::Origin => "Pages of this origin cannot connect. Add the origin to `allowed-origins`.",
            Self::Token => "The token is missing or wrong. Connect to the URL that `hostler serve` prints.",
        }
    }
}

impl AccessPolicy {
    /// Decides on an upgrade. The host's own page may present a browser session instead of the token; `recognize`
    /// verifies it, and its result is returned.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) fn check_upgrade<G>(
        &self,
        peer_info: PeerInfo,
        uri: &Uri,
        headers: &HeaderMap,
        recognize: impl FnOnce() -> Option<G>,
    ) -> Result<Option<G>, AccessRefusal> {
        self.check_host(headers)?;
        if !self.is_allowed_origin(headers) {
            return Err(AccessRefusal::Origin);
        }
        let recognized = if self.is_own_page(peer_info, headers) { recognize() } else { None };
        if recognized.is_none() && !self.has_valid_token(uri, headers) {
            return Err(AccessRefusal::Token);
        }
        Ok(recognized)
    }

    /// Whether a request comes from a page of this host, by its `Origin`, which other pages cannot forge. Where the
    /// browser is known to use TLS, a page that was loaded without TLS is foreign.
    pub(crate) fn is_own_page(&self, peer_info: PeerInfo, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
        let (Ok(origin), Some(host)) = (origin.to_str(), request_host(headers)) else { return false };
        match origin.split_once("://") {
            Some(("https", authority)) => authority == host,
            Some(("http", authority)) => authority == host && !self.is_secure(peer_info, headers),
            _ => false,
        }
    }

    /// Whether the browser uses TLS: directly, or to a trusted proxy that reports it.
    pub(crate) fn is_secure(&self, peer_info: PeerInfo, headers: &HeaderMap) -> bool {
        let peer = peer_info.peer.to_canonical();
        let is_trusted_proxy =
            || peer.is_loopback() || self.trusted_proxies.iter().any(|proxy| proxy.to_canonical() == peer);
        let is_forwarded_https = || {
            let mut values = headers.get_all("x-forwarded-proto").iter();
            matches!((values.next(), values.next()), (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"https"))
        };
        peer_info.is_tls || (is_forwarded_https() && is_trusted_proxy())
    }

    /// Whether clients need no credentials.
    pub(crate) fn allows_without_token(&self) -> bool {
        self.token.is_none()
    }

    /// Decides on a request for a public resource.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), AccessRefusal> {
        if self.is_own_host(headers) { Ok(()) } else { Err(AccessRefusal::Host) }
    }

    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let (name, _) = split_host_and_port(host);
        is_loopback_name(name) || self.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    fn is_allowed_origin(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let (Ok(origin), None) = (origin.to_str(), origins.next()) else { return false };
        if origin == "vscode-file://vscode-app" || origin.starts_with("vscode-webview:") {
            return true;
        }
        if self.allowed_origins.iter().any(|allowed| allowed == origin) {
            return true;
        }
        // The host's own page: its origin has the authority of the request, and the name is accepted.
        request_host(headers)
            .is_some_and(|host| origin == format!("http://{host}") || origin == format!("https://{host}"))
    }

    fn has_valid_token(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let query = uri.query().unwrap_or_default();
        let mut presented: Vec<String> = url::form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == "tkn")
            .map(|(_, value)| value.into_owned())
            .collect();
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(bearer) = bearer.and_then(|value| value.strip_prefix("Bearer ")) {
            presented.push(bearer.to_owned());
        }
        let [presented] = presented.as_slice() else { return false };
        bool::from(presented.as_bytes().ct_eq(token.expose_secret().as_bytes()))
    }
}

/// The host name in the request.
fn request_host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).and_then(|host| host.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &AccessPolicy, path: &str, headers: &[(&str, &str)]) -> Result<(), AccessRefusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        policy.check_upgrade(peer_info(false), &path.parse().unwrap(), &map, || None::<()>).map(|_| ())
    }

    fn peer_info(tls: bool) -> PeerInfo {
        PeerInfo { peer: "127.0.0.1".parse().unwrap(), is_tls: tls }
    }

    fn guarded() -> AccessPolicy {
        AccessPolicy { token: Some("s3cret".into()), ..AccessPolicy::default() }
    }

    #[test]
    fn the_token_is_required_exactly_once() {
        let host = ("host", "127.0.0.1:8137");
        assert_eq!(check(&guarded(), "/?tkn=s3cret", &[host]), Ok(()));
        assert_eq!(check(&guarded(), "/", &[host, ("authorization", "Bearer s3cret")]), Ok(()));
        for path in ["/", "/?tkn=", "/?tkn=wrong", "/?tkn=s3cre", "/?tkn=s3cret&tkn=s3cret", "/?tkn=s3cret&tkn=x"] {
            assert_eq!(check(&guarded(), path, &[host]), Err(AccessRefusal::Token), "{path}");
        }
        assert_eq!(check(&AccessPolicy::default(), "/", &[host]), Ok(()));
    }

    #[test]
    fn only_accepted_host_names_are_answered() {
        let policy = AccessPolicy { allowed_hosts: vec!["box.example".into()], ..AccessPolicy::default() };
        for host in ["localhost", "localhost:1", "127.0.0.1:80", "127.8.8.8", "[::1]:9", "[::1]", "box.example:8137"] {
            assert_eq!(check(&policy, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1:80", "[fe80::1]"] {
            assert_eq!(check(&policy, "/", &[("host", host)]), Err(AccessRefusal::Host), "{host}");
        }
        assert_eq!(check(&policy, "/", &[]), Err(AccessRefusal::Host));
        assert_eq!(check(&policy, "/", &[("host", "localhost"), ("host", "evil")]), Err(AccessRefusal::Host));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let policy = AccessPolicy { allowed_origins: vec!["https://ok.example".into()], ..AccessPolicy::default() };
        let host = ("host", "127.0.0.1:8137");
        for origin in
            ["vscode-file://vscode-app", "vscode-webview://abc", "http://127.0.0.1:8137", "https://ok.example"]
        {
            assert_eq!(check(&policy, "/", &[host, ("origin", origin)]), Ok(()), "{origin}");
        }
        for origin in ["null", "http://127.0.0.1:9999", "https://evil.example", "http://localhost:8137"] {
            assert_eq!(check(&policy, "/", &[host, ("origin", origin)]), Err(AccessRefusal::Origin), "{origin}");
        }
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs =
            pairs.iter().map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    #[test]
    fn a_browser_session_is_accepted_only_from_the_hosts_own_page() {
        let host = ("host", "127.0.0.1:8137");
        let check = |pairs: &[(&str, &str)], session: Option<u8>| {
            guarded().check_upgrade(peer_info(false), &"/".parse().unwrap(), &headers(pairs), || session)
        };
        let own = ("origin", "http://127.0.0.1:8137");
        assert_eq!(check(&[host, own], Some(1)), Ok(Some(1)));
        assert_eq!(check(&[host, ("origin", "https://127.0.0.1:8137")], Some(1)), Ok(Some(1)));
        assert_eq!(check(&[host, own], None), Err(AccessRefusal::Token));
        assert_eq!(check(&[host], Some(1)), Err(AccessRefusal::Token), "no origin");
        assert_eq!(check(&[host, ("origin", "vscode-file://vscode-app")], Some(1)), Err(AccessRefusal::Token));
        assert_eq!(check(&[host, ("origin", "http://127.0.0.1:9000")], Some(1)), Err(AccessRefusal::Origin));
        assert_eq!(check(&[host, own, own], Some(1)), Err(AccessRefusal::Origin), "two origins");
        assert_eq!(
            check(&[("host", "evil.example"), ("origin", "http://evil.example")], Some(1)),
            Err(AccessRefusal::Host)
        );
    }

    #[test]
    fn a_proxy_is_trusted_on_this_machine_or_if_configured() {
        let policy = AccessPolicy { trusted_proxies: vec!["10.0.0.7".parse().unwrap()], ..AccessPolicy::default() };
        let secure = |peer: &str, pairs: &[(&str, &str)]| {
            policy.is_secure(PeerInfo { peer: peer.parse().unwrap(), is_tls: false }, &headers(pairs))
        };
        let https = ("x-forwarded-proto", "https");
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.7", "::ffff:10.0.0.7"] {
            assert!(secure(peer, &[https]), "{peer}");
        }
        assert!(!secure("10.0.0.8", &[https]));
        for forwarded in
            [&[][..], &[("x-forwarded-proto", "http")], &[https, https], &[("x-forwarded-proto", "https, http")]]
        {
            assert!(!secure("127.0.0.1", forwarded), "{forwarded:?}");
        }
        assert!(policy.is_secure(peer_info(true), &headers(&[])));
    }

    #[test]
    fn a_page_without_tls_is_foreign_where_the_browser_uses_tls() {
        let pairs = [("host", "box.example"), ("origin", "http://box.example")];
        assert!(guarded().is_own_page(peer_info(false), &headers(&pairs)));
        assert!(!guarded().is_own_page(peer_info(true), &headers(&pairs)));
        let through = [pairs[0], pairs[1], ("x-forwarded-proto", "https")];
        assert!(!guarded().is_own_page(peer_info(false), &headers(&through)));
        assert!(guarded().is_own_page(peer_info(true), &headers(&[pairs[0], ("origin", "https://box.example")])));
    }
}
