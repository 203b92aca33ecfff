use std::fmt;

use url::Url;

/// An http or https URL that somebody configured. It may hold a password, or a key in its path or query: it prints as its
/// scheme, host and port.
// Boxed: settings have room for several, and mostly none.
#[derive(Clone, PartialEq, Eq)]
pub struct SafeUrl(Box<Url>);

impl SafeUrl {
    /// Reads a URL; nothing if it is none, has no host, or is of another scheme.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then(|| Self(Box::new(url)))
    }

    /// The whole of it, for the one place that connects to it.
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

/// A URL's host, and its port where it names one; the rest may be secret.
pub fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_by_its_host_alone() {
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
    fn what_cannot_be_called_is_no_address() {
        for text in ["", "box.example", "ftp://box.example", "file:///etc/passwd", "http://"] {
            assert_eq!(SafeUrl::parse(text), None, "{text}");
        }
    }
}
