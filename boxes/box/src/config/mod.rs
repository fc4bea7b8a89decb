//! Configuration of the boxes: TOML, checked whole before anything is touched.
//!
//! [`SendboxConfig`], [`ReceiveboxConfig`], [`SiteConfig`] and [`LinkConfig`] are each a
//! [`Configuration`]: it reads a file, looks at the interfaces and keys that the file names, and
//! either gives a configuration that can be run or one error that names the line and the key. It
//! changes nothing.

mod address;
mod bundle;
mod framing;
mod key;
mod link;
mod matches;
mod names;
mod policy;
mod ports;
mod receivebox;
mod sendbox;
mod share;
mod site;
mod steering;

pub use address::PeerAddress;
pub use bundle::BundleConfig;
pub use forebay_wire::feedback::{Key, KeyFingerprint};
pub use framing::{Cells, Framing};
pub use key::generate as generate_key;
pub use link::{DirectionConfig, LinkConfig};
pub use matches::Match;
pub use names::accept_unresolved_names;
pub(crate) use names::{keep_resolved_names, note_resolved};
pub use policy::{Class, Policy};
pub use ports::Ports;
pub use receivebox::{PeerConfig, ReceiveboxConfig};
pub use sendbox::{Dataplane, SendboxConfig};
pub use share::{Share, effective};
pub use site::SiteConfig;
pub use steering::{Classifier, DualQueue};

pub use forebay_config::Configuration;
pub use forebay_dataplane::Method;

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use forebay_config::{ConfigError, HostAddress, IpVersion, RemoteAddress, Source, Spanned};
use forebay_dataplane::Netdev;

/// Finds the interface `name` and checks that a port can be opened there.
fn interface(source: &Source, key: &str, name: &Spanned<String>) -> Result<Netdev, ConfigError> {
    let at = |e| source.error_at(name.span(), key, e);
    let netdev = Netdev::find(name.get_ref()).map_err(at)?;
    netdev.check().map_err(at)?;
    netdev.check_ethernet().map_err(at)?;
    Ok(netdev)
}

/// Finds the interface `name` and checks that packets can be counted there, and the kernel's queues
/// controlled. The kernel forwards frames of any size.
fn kernel_interface(
    source: &Source,
    key: &str,
    name: &Spanned<String>,
) -> Result<Netdev, ConfigError> {
    let at = |e| source.error_at(name.span(), key, e);
    let netdev = Netdev::find(name.get_ref()).map_err(at)?;
    netdev.check_up().map_err(at)?;
    netdev.framing().map_err(at)?;
    Ok(netdev)
}

/// Checks that `address` is one of this machine.
fn own(
    source: &Source,
    key: &str,
    address: &Spanned<HostAddress>,
) -> Result<SocketAddr, ConfigError> {
    let HostAddress(found) = *address.get_ref();
    let mut any_port = found;
    any_port.set_port(0);
    match UdpSocket::bind(any_port) {
        Ok(_) => Ok(found),
        Err(e) if e.kind() == ErrorKind::AddrNotAvailable => {
            let message = format!("this machine has no address {} (`ip address`)", found.ip());
            Err(source.error_at(address.span(), key, message))
        }
        Err(e) => Err(source.error_at(address.span(), key, format!("{}: {e}", found.ip()))),
    }
}

/// Returns the address of the other box, for a box that listens at `listen`.
fn peer(
    source: &Source,
    key: &str,
    address: &Spanned<RemoteAddress>,
    listen: SocketAddr,
) -> Result<PeerAddress, ConfigError> {
    let fail = |message: String| Err(source.error_at(address.span(), key, message));
    let given = address.get_ref();
    match names::resolve(given, IpVersion::of_peers(listen)) {
        Ok(Some(found)) if found == listen => fail(format!("{found} is this box's own `listen`")),
        Ok(found) => Ok(PeerAddress::given(given.clone(), found)),
        Err(e) => fail(format!("{e}; `listen` is {listen}")),
    }
}

/// Refuses a value that occurs twice.
fn unique<'a, T: PartialEq + std::fmt::Display + 'a>(
    source: &Source,
    key: &str,
    values: impl IntoIterator<Item = &'a Spanned<T>>,
) -> Result<(), ConfigError> {
    let mut seen: Vec<&T> = Vec::new();
    for value in values {
        if seen.contains(&value.get_ref()) {
            let message = format!("{} stands twice", value.get_ref());
            return Err(source.error_at(value.span(), key, message));
        }
        seen.push(value.get_ref());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
