//! The address of the other box of a bundle, as a file gives it.

use std::fmt;
use std::net::SocketAddr;

use forebay_config::RemoteAddress;

/// The address of the other box: an address, a name, or none, so that it is learned from the
/// messages of that box.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    given: Option<RemoteAddress>,
    found: Option<SocketAddr>,
}

impl PeerAddress {
    /// Makes an address that messages will tell.
    pub(crate) const fn learned() -> Self {
        Self { given: None, found: None }
    }

    /// Makes the address that a file gives, and where it was found; `None` if its name has not been
    /// resolved yet.
    pub(crate) const fn given(address: RemoteAddress, found: Option<SocketAddr>) -> Self {
        Self { given: Some(address), found }
    }

    /// Returns the address as it was found when the file was read.
    pub fn found(&self) -> Option<SocketAddr> {
        self.found
    }

    /// Returns the name and port, if the file gives a name.
    pub fn name(&self) -> Option<&RemoteAddress> {
        self.given.as_ref().filter(|given| given.has_name())
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::given(address.into(), Some(address))
    }
}

/// Two are equal if files give the same. A name may have another address later.
impl PartialEq for PeerAddress {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(given) => given.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_another_address_is_the_same_name() {
        let name: RemoteAddress = "branch.example.org:7".parse().unwrap();
        let at = |text: &str| PeerAddress::given(name.clone(), Some(text.parse().unwrap()));
        assert_eq!(at("192.0.2.1:7"), at("192.0.2.2:7"));
        assert_eq!(at("192.0.2.1:7"), PeerAddress::given(name.clone(), None));
        assert_ne!(at("192.0.2.1:7"), PeerAddress::learned());
        let address = |text: &str| PeerAddress::from(text.parse::<SocketAddr>().unwrap());
        assert_ne!(address("192.0.2.1:7"), address("192.0.2.2:7"));
        assert_eq!(address("192.0.2.1:7").name(), None);
        let shown = [at("192.0.2.1:7"), address("192.0.2.1:7"), PeerAddress::learned()];
        assert_eq!(shown.map(|a| a.to_string()), ["branch.example.org:7", "192.0.2.1:7", "none"]);
    }
}
