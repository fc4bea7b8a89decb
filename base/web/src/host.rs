//! The names by which clients may call a service.
//!
//! A page of others can give its own name the address of a service (DNS rebinding). A browser then
//! lets that page read the answers, also at addresses that only the browser's machine reaches. The
//! browser sends the name in the header `Host`, so a service refuses names that it does not know.
//! With TLS no check is needed: the browser compares the name with the certificate.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hyper::Request;
use hyper::header::HOST;
use hyper::http::uri::Authority;

use crate::Answer;

/// The longest name of a host (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;

/// A name by which clients may call a service, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(allowed) {
            return Err("write the name of a host without a scheme and a port, as in \
                        planner.example.net"
                .to_owned());
        }
        Ok(Self(name.to_owned()))
    }
}

/// The names by which clients may call a service, besides its addresses as numbers and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<HostName>);

impl From<Vec<HostName>> for Hosts {
    fn from(names: Vec<HostName>) -> Self {
        Self(names)
    }
}

impl Hosts {
    /// Checks the host of a request, both in its header and in an absolute target (RFC 9112,
    /// section 3.2).
    ///
    /// # Errors
    /// If there is not exactly one, or the service is not called so: the answer.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Answer> {
        let mut headers = request.headers().get_all(HOST).iter();
        let header = headers.next().and_then(|host| host.to_str().ok());
        let target = request.uri().authority().map(Authority::as_str);
        let good = headers.next().is_none()
            && header.is_some_and(|host| self.contain(host))
            && target.is_none_or(|host| self.contain(host));
        if good {
            return Ok(());
        }
        let message = "this is no host name of the service: use its IP address, or add the name \
                       to its hosts";
        Err(Answer::error(403, "host", None, message))
    }

    /// Whether a host, with a port or without, is an address, `localhost`, or one of the names.
    fn contain(&self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((address, port))) if address.parse::<Ipv6Addr>().is_ok() => ("", port),
            Some(_) => return false,
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        if !(port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) {
            return false;
        }
        let is_address = host.starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
        let name = name.strip_suffix('.').unwrap_or(name);
        let names = self.0.iter().map(|known| known.0.as_str()).chain(["localhost"]);
        is_address || names.into_iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_this_machine_and_listed_names_are_hosts() {
        let hosts = Hosts(vec!["Planner.example.net.".parse().unwrap()]);
        for good in [
            "127.0.0.1:9478",
            "127.0.0.1",
            "192.0.2.1:",
            "[::1]:9478",
            "[::1]",
            "[2001:DB8::1]:1",
            "localhost:1",
            "LOCALHOST",
            "localhost.",
            "planner.example.net",
            "PLANNER.example.net:8480",
            "planner.example.net.:8480",
        ] {
            assert!(hosts.contain(good), "{good}");
        }
        for bad in [
            "",
            ":1",
            "evil.example:9478",
            "127.0.0.1.evil.example",
            "localhost.evil",
            "evil.localhost",
            "[::1].evil.example",
            "[::1",
            "[evil.example]",
            "[127.0.0.1]",
            "::1",
            "evil@127.0.0.1",
            "127.0.0.1@evil",
            "127.0.0.1:1:1",
            "127.0.0.1:evil",
            "0x7f.1",
            "localhost/x",
            "planner.example.net.evil",
            "example.net",
        ] {
            assert!(!hosts.contain(bad), "{bad}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let request = |target: &str, hosts: &[&[u8]]| {
            let mut request = Request::builder().uri(target);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            Hosts::default().check(&request.body(()).unwrap()).map_err(|answer| answer.status)
        };
        let local: &[u8] = b"127.0.0.1";
        assert_eq!(request("/", &[local]), Ok(()));
        assert_eq!(request("http://localhost:1/", &[local]), Ok(()));
        for (target, hosts) in [
            ("/", &[][..]),
            ("/", &[local, local]),
            ("/", &[b"evil.example"]),
            ("/", &[b"\xff"]),
            ("http://evil.example/", &[local]),
        ] {
            assert_eq!(request(target, hosts), Err(403), "{target} {hosts:?}");
        }
    }

    #[test]
    fn names_have_no_scheme_and_no_port() {
        for bad in ["", ".", "a:1", "http://a", "a/b", "*", "[::1]", &"a".repeat(254)] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
