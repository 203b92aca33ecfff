//! Parses the value of a `Host` header.

use std::net::IpAddr;

/// The name and, if present, the port. Brackets of an IPv6 address are removed; a malformed value has an empty name.
#[must_use]
pub fn split_host_and_port(host: &str) -> (&str, Option<&str>) {
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, port)) => port.strip_prefix(':').map_or(("", None), |port| (name, Some(port))),
            None => ("", None),
        };
    }
    host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)))
}

/// Whether a name always means this machine, so that no DNS answer can change it.
#[must_use]
pub fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_values_are_split() {
        for (host, parts) in [
            ("localhost", ("localhost", None)),
            ("localhost:80", ("localhost", Some("80"))),
            ("[::1]", ("::1", None)),
            ("[::1]:80", ("::1", Some("80"))),
            ("[::1]x", ("", None)),
            ("[::1", ("", None)),
            ("", ("", None)),
        ] {
            assert_eq!(split_host_and_port(host), parts, "{host}");
        }
    }

    #[test]
    fn only_names_that_no_dns_answer_can_change_are_loopback() {
        for name in ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "10.0.0.1", "::", "localhost."] {
            assert!(!is_loopback_name(name), "{name}");
        }
    }
}
