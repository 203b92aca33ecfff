//! Checks the `Host` header against DNS rebinding.
//!
//! A web page can make its own name resolve to this machine, and its requests then carry that name in their `Host`
//! header. Names that no DNS answer can change are accepted: loopback, and, where the gateway listens beyond loopback,
//! every IP address. All other names must be allowed by the configuration.

use std::net::{IpAddr, SocketAddr};

use hostler_net::{is_loopback_name, split_host_and_port};
use http::request::Parts;
use http::{StatusCode, header};

use crate::error::{ApiError, ApiErrorKind};

/// The accepted hosts of one gateway.
pub(crate) struct HostHeaderCheck {
    address: SocketAddr,
    /// Further names, on any port.
    allowed: Vec<String>,
}

impl HostHeaderCheck {
    pub(crate) fn new(address: SocketAddr, allowed: Vec<String>) -> Self {
        Self { address, allowed }
    }

    /// Rejects a request that has no `Host` header, several, or one with another name.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), ApiError> {
        let mut hosts = parts.headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        // The authority of an absolute request target takes precedence over the header.
        let target = parts.uri.authority().map(http::uri::Authority::as_str);
        if host.is_some_and(|host| self.is_allowed(host)) && target.is_none_or(|target| self.is_allowed(target)) {
            return Ok(());
        }
        let message = "The gateway does not accept the request's Host header. Use the address that it listens \
                       on, or add the name to allowed-hosts.";
        Err(ApiError::with_status(StatusCode::FORBIDDEN, ApiErrorKind::Permission, message))
    }

    fn is_allowed(&self, host: &str) -> bool {
        let (name, port) = split_host_and_port(host);
        if self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
            return true;
        }
        if !self.address.ip().is_loopback() && name.parse::<IpAddr>().is_ok() {
            return true;
        }
        let is_own_port = port.map_or(self.address.port() == 80, |port| port.parse() == Ok(self.address.port()));
        is_loopback_name(name) && is_own_port
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn answers(names: &HostHeaderCheck, target: &str, hosts: &[&str]) -> bool {
        let request = hosts.iter().fold(Request::get(target), |request, host| request.header("host", *host));
        names.check(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn on_loopback_only_loopback_with_the_right_port_and_allowed_names_are_accepted() {
        let names = HostHeaderCheck::new("127.0.0.1:4000".parse().unwrap(), vec!["box.example".to_owned()]);
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000", "[::1]:4000", "box.example", "Box.Example:1"]
        {
            assert!(answers(&names, "/", &[host]), "{host}");
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1.evil.example:4000",
            "localhost.evil.example:4000",
            "localhost",
            "localhost:4001",
            "localhost:04000x",
            "0.0.0.0:4000",
            "10.0.0.1:4000",
            "[::]:4000",
            "[::1",
            "",
            "evil@127.0.0.1:4000",
        ] {
            assert!(!answers(&names, "/", &[host]), "{host}");
        }
        assert!(!answers(&names, "/", &[]));
        assert!(!answers(&names, "/", &["localhost:4000", "localhost:4000"]), "two of them");
        assert!(!answers(&names, "http://evil.example/", &["localhost:4000"]), "the target names another host");
        assert!(answers(&names, "http://localhost:4000/", &["localhost:4000"]));
    }

    #[test]
    fn beyond_loopback_ip_addresses_are_accepted_and_other_names_are_not() {
        let names = HostHeaderCheck::new("0.0.0.0:4000".parse().unwrap(), Vec::new());
        for host in ["192.168.1.5:8080", "0.0.0.0:4000", "[fe80::1]:4000", "localhost:4000"] {
            assert!(answers(&names, "/", &[host]), "{host}");
        }
        for host in ["evil.example", "evil.example:4000", "localhost:1"] {
            assert!(!answers(&names, "/", &[host]), "{host}");
        }
    }
}
