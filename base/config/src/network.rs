//! Addresses and prefixes as people write them, with errors that show the right form.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A mistake in an address or a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkError(String);

/// Reads a type from a string by `FromStr`.
macro_rules! deserialize_from_string {
    ($name:ident, $what:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

/// A prefix without host bits: `"10.2.0.0/16"`, `"2001:db8::/32"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub IpNet);

deserialize_from_string!(Prefix, "a prefix such as \"10.2.0.0/16\"");

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Prefix {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let fail = |message: String| Err(NetworkError(message));
        if let Ok(address) = text.parse::<IpAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return fail(format!("\"{text}\" lacks a length: one address is \"{text}/{bits}\""));
        }
        let Ok(net) = text.parse::<IpNet>() else {
            return fail(format!(
                "\"{text}\" is no prefix: write an address and a length, such as \"10.2.0.0/16\" or \
                 \"2001:db8::/32\""
            ));
        };
        if let IpNet::V6(v6) = net
            && let Some(v4) = v6.addr().to_ipv4_mapped()
            && let Some(length) = v6.prefix_len().checked_sub(96)
        {
            return fail(format!("\"{text}\" has IPv4 addresses: write \"{v4}/{length}\""));
        }
        if net.addr() != net.network() {
            let right = net.trunc();
            return fail(format!("\"{text}\" has bits beyond its length: write \"{right}\""));
        }
        Ok(Self(net))
    }
}

/// An IP address and a port that one host can have: `"192.0.2.1:28316"`,
/// `"[2001:db8::1]:28316"`, `"[fe80::1%wan0]:28316"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostAddress(pub SocketAddr);

deserialize_from_string!(HostAddress, "an address and a port such as \"192.0.2.1:28316\"");

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for HostAddress {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        match split(text)? {
            (Host::Address(address), port) => check(text, address, port).map(Self),
            (Host::Name(_), _) => Err(NetworkError(format!(
                "\"{text}\" is no address: write numbers, such as \"192.0.2.1:28316\""
            ))),
        }
    }
}

/// The IP versions that an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// Only IPv4 addresses.
    V4,
    /// Only IPv6 addresses.
    V6,
    /// Either of them.
    Any,
}

impl IpVersion {
    /// Returns the versions of the hosts that a socket at `listen` can talk to. A socket at all
    /// addresses of IPv6 talks IPv4 too.
    pub const fn of_peers(listen: SocketAddr) -> Self {
        match listen {
            SocketAddr::V4(_) => Self::V4,
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => Self::Any,
            SocketAddr::V6(_) => Self::V6,
        }
    }

    /// Whether `address` is of this version.
    pub const fn has(self, address: SocketAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
            Self::Any => true,
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
            Self::Any => "IP",
        })
    }
}

/// The address of another host: as [`HostAddress`], or with a name that is resolved,
/// `"branch.example.org:28317"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    text: String,
    host: Host<String>,
    port: u16,
}

deserialize_from_string!(RemoteAddress, "an address and a port such as \"192.0.2.1:28317\"");

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for RemoteAddress {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (host, port) = split(text)?;
        let host = match host {
            Host::Address(address) => {
                check(text, address, port)?;
                if address.ip().is_unspecified() {
                    return Err(NetworkError(format!("\"{text}\" is no address of another host")));
                }
                Host::Address(address)
            }
            Host::Name(name) => Host::Name(name.to_owned()),
        };
        Ok(Self { text: text.to_owned(), host, port })
    }
}

/// The address itself, which is not resolved.
impl From<SocketAddr> for RemoteAddress {
    fn from(address: SocketAddr) -> Self {
        let mut host = address;
        host.set_port(0);
        Self { text: address.to_string(), host: Host::Address(host), port: address.port() }
    }
}

impl RemoteAddress {
    /// Whether it has a name, which has to be resolved.
    pub const fn has_name(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    /// Returns the address, which is of `version`. A name is resolved, which may take seconds.
    ///
    /// # Errors
    /// If the address is of another version, or the name has no address of this version.
    pub fn resolve(&self, version: IpVersion) -> Result<SocketAddr, NetworkError> {
        let Self { text, host, port } = self;
        match host {
            Host::Address(address) if version.has(*address) => {
                let mut address = *address;
                address.set_port(*port);
                Ok(address)
            }
            Host::Address(_) => Err(NetworkError(format!("\"{text}\" is no {version} address"))),
            Host::Name(name) => {
                let found = (name.as_str(), *port).to_socket_addrs().map_err(|e| {
                    NetworkError(format!("the name \"{name}\" cannot be resolved: {e}"))
                })?;
                let mut right = found.filter(|address| version.has(*address));
                right.next().ok_or_else(|| {
                    NetworkError(format!("the name \"{name}\" has no {version} address"))
                })
            }
        }
    }
}

/// The host of an address, before its port is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host<Name> {
    /// An address with the zone of a link-local one; the port is zero.
    Address(SocketAddr),
    Name(Name),
}

/// Splits a text into host and port.
fn split(text: &str) -> Result<(Host<&str>, u16), NetworkError> {
    let fail = |message: String| Err(NetworkError(message));
    if let Ok(address) = text.parse::<IpAddr>() {
        let right = SocketAddr::new(address, 28316);
        return fail(format!("\"{text}\" lacks a port: write it as \"{right}\""));
    }
    let form = || {
        fail(format!(
            "\"{text}\" is no address with a port: write it as \"192.0.2.1:28316\" or \
             \"[2001:db8::1]:28316\""
        ))
    };
    let Some((host, port)) = text.rsplit_once(':') else { return form() };
    let Ok(port) = port.parse::<u32>() else { return form() };
    let Ok(port) = u16::try_from(port) else {
        return fail(format!("{port} is no port: 1 to 65535"));
    };
    if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        let (address, zone) = inner.split_once('%').map_or((inner, None), |(a, z)| (a, Some(z)));
        let Ok(address) = address.parse::<Ipv6Addr>() else { return form() };
        let zone = match zone {
            None => 0,
            Some(zone) => match interface_index(zone) {
                Some(index) => index,
                None => return fail(format!("\"{text}\": there is no interface \"{zone}\"")),
            },
        };
        return Ok((Host::Address(SocketAddrV6::new(address, 0, 0, zone).into()), port));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return match address {
            IpAddr::V4(_) => Ok((Host::Address(SocketAddr::new(address, 0)), port)),
            // `fd00::1:28316` could be an address without a port.
            IpAddr::V6(_) => form(),
        };
    }
    let is_name = !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
        // A wrong number, such as 10.0.0.256, is not looked up.
        && host.bytes().any(|b| b.is_ascii_alphabetic());
    if !is_name {
        return form();
    }
    if port == 0 {
        return fail(format!("\"{text}\" has no port: 0 is none, 1 to 65535"));
    }
    Ok((Host::Name(host), port))
}

/// Returns the address with its port, unless no host can have it.
fn check(text: &str, mut address: SocketAddr, port: u16) -> Result<SocketAddr, NetworkError> {
    let fail = |why: String| Err(NetworkError(format!("\"{text}\" {why}")));
    if port == 0 {
        return fail("has no port: 0 is none, 1 to 65535".to_owned());
    }
    match address {
        _ if address.ip().is_multicast() => {
            return fail("is a multicast address, which no single host has".to_owned());
        }
        SocketAddr::V4(v4) if v4.ip().is_broadcast() => {
            return fail("is the broadcast address, which no host has".to_owned());
        }
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            let right = format!("[{}%wan0]:{port}", v6.ip());
            return fail(format!("lacks its interface: write it as \"{right}\""));
        }
        SocketAddr::V6(v6) => {
            if let Some(v4) = v6.ip().to_ipv4_mapped() {
                return fail(format!("is an IPv4 address: write \"{v4}:{port}\""));
            }
        }
        SocketAddr::V4(_) => {}
    }
    address.set_port(port);
    Ok(address)
}

/// Returns the number of the interface that `zone` names, or is the number of.
fn interface_index(zone: &str) -> Option<u32> {
    if let Ok(number) = zone.parse() {
        return Some(number).filter(|number| *number > 0);
    }
    // The kernel allows neither a slash nor these names.
    if zone.is_empty() || zone.contains('/') || zone == "." || zone == ".." {
        return None;
    }
    let file = format!("/sys/class/net/{zone}/ifindex");
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Result<String, String> {
        text.parse::<Prefix>().map(|p| p.to_string()).map_err(|e| e.to_string())
    }

    fn host(text: &str) -> Result<String, String> {
        text.parse::<HostAddress>().map(|a| a.to_string()).map_err(|e| e.to_string())
    }

    fn remote(text: &str, is_ipv4: bool) -> Result<String, String> {
        let version = if is_ipv4 { IpVersion::V4 } else { IpVersion::V6 };
        let address = text.parse::<RemoteAddress>().and_then(|a| a.resolve(version));
        address.map(|a| a.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn wrong_prefixes_are_answered_with_right_ones() {
        for good in ["10.2.0.0/16", "0.0.0.0/0", "::/0", "2001:db8::/32", "10.9.9.2/32"] {
            assert_eq!(prefix(good).as_deref(), Ok(good));
        }
        for (text, right) in [
            ("10.2.3.4/16", "has bits beyond its length: write \"10.2.0.0/16\""),
            ("fd00:2::1/32", "has bits beyond its length: write \"fd00:2::/32\""),
            ("10.9.9.2", "lacks a length: one address is \"10.9.9.2/32\""),
            ("fd00::1", "lacks a length: one address is \"fd00::1/128\""),
            ("::ffff:10.0.0.0/104", "has IPv4 addresses: write \"10.0.0.0/8\""),
            ("10.2.0.0/33", "is no prefix: write an address and a length"),
            ("", "is no prefix"),
        ] {
            let said = prefix(text).unwrap_err();
            assert!(said.starts_with(&format!("\"{text}\" {right}")), "{said}");
        }
    }

    #[test]
    fn wrong_addresses_are_answered_with_right_ones() {
        for good in ["192.0.2.1:28316", "[2001:db8::1]:1", "0.0.0.0:28316", "[fe80::1%7]:9"] {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for (text, right) in [
            ("192.0.2.1", "lacks a port: write it as \"192.0.2.1:28316\""),
            ("2001:db8::1", "lacks a port: write it as \"[2001:db8::1]:28316\""),
            ("192.0.2.1:0", "has no port"),
            ("224.0.0.5:28316", "is a multicast address"),
            ("[ff02::1]:28316", "is a multicast address"),
            ("255.255.255.255:28316", "is the broadcast address"),
            ("[::ffff:10.0.0.1]:9", "is an IPv4 address: write \"10.0.0.1:9\""),
            ("[fe80::1]:9", "lacks its interface: write it as \"[fe80::1%wan0]:9\""),
            ("10.0.0.256:9", "is no address with a port"),
            ("10.0.0.1:", "is no address with a port"),
            (":9", "is no address with a port"),
            ("branch.example.org:9", "is no address: write numbers"),
        ] {
            let said = host(text).unwrap_err();
            assert!(said.starts_with(&format!("\"{text}\" {right}")), "{said}");
        }
        assert_eq!(host("10.0.0.1:70000").unwrap_err(), "70000 is no port: 1 to 65535");
        let said = host("[fe80::1%fb-none]:9").unwrap_err();
        assert!(said.contains("there is no interface \"fb-none\""), "{said}");
        let loopback = host("[fe80::1%lo]:9").unwrap();
        assert!(loopback.starts_with("[fe80::1%") && loopback.ends_with("]:9"), "{loopback}");
    }

    #[test]
    fn a_socket_at_all_addresses_of_ipv6_talks_to_both_versions() {
        let both = ["192.0.2.1:7", "[2001:db8::1]:7"].map(|text| text.parse().unwrap());
        for (listen, expected) in [
            ("0.0.0.0:1", [true, false]),
            ("192.0.2.9:1", [true, false]),
            ("[2001:db8::9]:1", [false, true]),
            ("[::]:1", [true, true]),
        ] {
            let version = IpVersion::of_peers(listen.parse().unwrap());
            assert_eq!(both.map(|address| version.has(address)), expected, "{listen}");
        }
    }

    #[test]
    fn other_hosts_may_have_names() {
        assert_eq!(remote("localhost:7", true).as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(remote("192.0.2.1:7", true).as_deref(), Ok("192.0.2.1:7"));
        assert_eq!(remote("[fe80::1%7]:9", false).as_deref(), Ok("[fe80::1%7]:9"));
        for (text, is_ipv4, right) in [
            ("192.0.2.1:7", false, "\"192.0.2.1:7\" is no IPv6 address"),
            ("0.0.0.0:7", true, "\"0.0.0.0:7\" is no address of another host"),
            ("localhost:0", true, "\"localhost:0\" has no port"),
            ("no_such_host.invalid:7", true, "the name \"no_such_host.invalid\" cannot be"),
        ] {
            let said = remote(text, is_ipv4).unwrap_err();
            assert!(said.starts_with(right), "{said}");
        }
    }
}
