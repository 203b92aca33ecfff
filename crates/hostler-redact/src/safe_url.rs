//! A URL whose Debug and Display omit everything that can be secret.

use std::fmt;

use url::Url;

/// A configured http or https URL. It can contain a password, or a key in its path or query, so it prints as its
/// scheme, host and port.
// Boxed, because settings have several optional URLs and most are absent.
#[derive(Clone, PartialEq, Eq)]
pub struct SafeUrl(Box<Url>);

impl SafeUrl {
    /// Parses a URL. `None` if the text is not a URL, has no host, or has another scheme.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then(|| Self(Box::new(url)))
    }

    /// The complete URL, for the code that connects to it.
    pub fn expose(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SafeUrl({self})")
    }
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), host_and_port(&self.0))
    }
}

/// A URL's host, and its port if the URL contains one. Other parts can be secret.
pub fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_prints_only_scheme_host_and_port() {
        for (text, shown) in [
            ("https://ada:planted@box.example/planted?key=planted#planted", "https://box.example"),
            ("http://planted@127.0.0.1:9/v1", "http://127.0.0.1:9"),
            ("http://[::1]:9/", "http://[::1]:9"),
            ("https://box.example:443", "https://box.example"),
        ] {
            let url = SafeUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("SafeUrl({shown})"));
            assert_eq!(url.expose(), &Url::parse(text).unwrap());
        }
    }

    #[test]
    fn parse_rejects_urls_without_host_or_http_scheme() {
        for text in ["", "box.example", "ftp://box.example", "file:///etc/passwd", "http://"] {
            assert_eq!(SafeUrl::parse(text), None, "{text}");
        }
    }
}
