//! Selects which compressed copy of a file a browser accepts.

use http::{HeaderMap, header};

/// How a copy of a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    Brotli,
    Gzip,
    Identity,
}

impl ContentCoding {
    /// All codings, the smallest first.
    pub(crate) const ALL: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Identity];

    /// The value of `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }

    /// Suffix of the copy's file name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }

    /// Whether a client accepts it. Weights above zero are ignored: smaller is better for both sides. The uncompressed
    /// file is always acceptable, even to a client that refuses it, because there is no alternative.
    pub(crate) fn is_accepted(self, headers: &HeaderMap) -> bool {
        if self == Self::Identity {
            return true;
        }
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let (mut named, mut any) = (None, None);
        for entry in values.flat_map(|value| value.split(',')) {
            let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
            let wanted = !is_zero_weight(parameters);
            match name.trim() {
                "*" => any = Some(wanted),
                name if name.eq_ignore_ascii_case(self.name()) => named = Some(wanted),
                _ => {}
            }
        }
        named.or(any).unwrap_or(false)
    }
}

/// Whether the parameters exclude it (`q=0`).
fn is_zero_weight(parameters: &str) -> bool {
    let weight = parameters.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
    weight.is_some_and(|weight| weight <= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(accept: &str) -> &'static str {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, accept.parse().unwrap());
        ContentCoding::ALL.into_iter().find(|encoding| encoding.is_accepted(&headers)).unwrap().name()
    }

    #[test]
    fn the_smallest_accepted_copy_is_sent() {
        for (accept, expected) in [
            ("gzip, deflate, br, zstd", "br"),
            ("gzip, deflate", "gzip"),
            ("GZIP;q=0.5", "gzip"),
            ("br;q=0, gzip;q=0.1", "gzip"),
            ("br;q=0.000, gzip; q=0", "identity"),
            ("*", "br"),
            ("*;q=0, gzip", "gzip"),
            ("br;q=0, *", "gzip"),
            ("identity", "identity"),
            ("", "identity"),
            ("brotli, x-gzip, ;;,,q=", "identity"),
        ] {
            assert_eq!(best(accept), expected, "{accept}");
        }
        assert!(!ContentCoding::Brotli.is_accepted(&HeaderMap::new()));
    }
}
