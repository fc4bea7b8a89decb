use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{
    ConfigError, Configuration, HostAddress, Prefix, RemoteAddress, Source, Spanned,
};
use forebay_dataplane::Netdev;
use forebay_wire::feedback::Key;
use ipnet::IpNet;
use serde::Deserialize;

use super::{PeerAddress, kernel_interface, key, own, peer, unique};

/// The configuration of a receivebox, which counts arriving packets and sends feedback.
#[derive(Debug)]
pub struct ReceiveboxConfig {
    /// The interface at which the bundles arrive.
    pub interface: Netdev,
    /// The address for epoch updates, and the source of feedback.
    pub listen: SocketAddr,
    /// The bundles, each with its sendbox.
    pub peers: Vec<PeerConfig>,
}

/// The configuration of a receivebox's bundle.
#[derive(Debug)]
pub struct PeerConfig {
    /// The name of the bundle.
    pub name: String,
    /// The number by which both boxes know the bundle.
    pub id: u16,
    /// The destinations of its packets.
    pub prefixes: Vec<IpNet>,
    /// The sources of its packets; an empty list means any source.
    pub sources: Vec<IpNet>,
    /// The address at which its sendbox listens.
    pub sendbox: PeerAddress,
    /// The key that it shares with its sendbox.
    pub key: Key,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    receivebox: ReceiveboxTable,
    bundle: Vec<PeerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiveboxTable {
    interface: Spanned<String>,
    listen: Spanned<HostAddress>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: Spanned<String>,
    id: Spanned<u16>,
    prefixes: Vec<Spanned<Prefix>>,
    #[serde(default)]
    sources: Vec<Spanned<Prefix>>,
    sendbox: Option<Spanned<RemoteAddress>>,
    key_file: Spanned<PathBuf>,
}

impl Configuration for ReceiveboxConfig {
    type File = File;

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let listen = own(source, "receivebox.listen", &file.receivebox.listen)?;
        unique(source, "bundle.name", file.bundle.iter().map(|b| &b.name))?;
        check_ids(source, &file.bundle)?;
        check_overlap(source, &file.bundle)?;
        let mut peers = Vec::new();
        for peer in file.bundle {
            peers.push(peer.check(source, listen)?);
        }
        let interface =
            kernel_interface(source, "receivebox.interface", &file.receivebox.interface)?;
        Ok(Self { interface, listen, peers })
    }
}

impl ReceiveboxConfig {
    /// Returns a line for each part of the configuration that is valid but leaves the boxes open to
    /// strangers.
    pub fn warnings(&self) -> Vec<String> {
        let open = self.peers.iter().filter(|peer| peer.sources.is_empty());
        let line = |peer: &PeerConfig| {
            format!(
                "bundle {}: without `sources`, packets of anybody to its prefixes count as the \
                 bundle's; list the prefixes of the sending site",
                peer.name
            )
        };
        open.map(line).collect()
    }
}

impl PeerTable {
    fn check(self, source: &Source, listen: SocketAddr) -> Result<PeerConfig, ConfigError> {
        if self.prefixes.is_empty() {
            let message = "a bundle needs at least one destination prefix";
            return Err(source.error_at(self.name.span(), "bundle.prefixes", message));
        }
        let sendbox = match &self.sendbox {
            Some(sendbox) => peer(source, "bundle.sendbox", sendbox, listen)?,
            None => PeerAddress::learned(),
        };
        let plain = |list: Vec<Spanned<Prefix>>| {
            list.into_iter().map(|p| p.into_inner().0).collect::<Vec<_>>()
        };
        Ok(PeerConfig {
            key: key::read(source, "bundle.key_file", &self.key_file)?,
            name: self.name.into_inner(),
            id: self.id.into_inner(),
            prefixes: plain(self.prefixes),
            sources: plain(self.sources),
            sendbox,
        })
    }
}

/// Refuses an id that occurs twice for one sendbox.
fn check_ids(source: &Source, peers: &[PeerTable]) -> Result<(), ConfigError> {
    for (i, peer) in peers.iter().enumerate() {
        let same = |p: &PeerTable| {
            let sendbox = |p: &PeerTable| p.sendbox.as_ref().map(|s| s.get_ref().clone());
            p.id.get_ref() == peer.id.get_ref() && sendbox(p) == sendbox(peer)
        };
        if peers[..i].iter().any(same) {
            let message = format!("{} stands twice for one sendbox", peer.id.get_ref());
            return Err(source.error_at(peer.id.span(), "bundle.id", message));
        }
    }
    Ok(())
}

/// Refuses a destination prefix in several bundles unless their sources differ.
fn check_overlap(source: &Source, peers: &[PeerTable]) -> Result<(), ConfigError> {
    let has = |list: &[Spanned<Prefix>], p: Prefix| list.iter().any(|q| *q.get_ref() == p);
    for (i, peer) in peers.iter().enumerate() {
        for (j, prefix) in peer.prefixes.iter().enumerate() {
            let p = *prefix.get_ref();
            let same_sources = |other: &PeerTable| {
                (peer.sources.is_empty() && other.sources.is_empty())
                    || peer.sources.iter().any(|s| has(&other.sources, *s.get_ref()))
            };
            let in_other = peers[..i].iter().any(|o| has(&o.prefixes, p) && same_sources(o));
            if in_other || has(&peer.prefixes[..j], p) {
                let message = format!("{p} stands twice (set `sources` to tell bundles apart)");
                return Err(source.error_at(prefix.span(), "bundle.prefixes", message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_config::parse;

    use super::*;

    fn check(text: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Peers {
            bundle: Vec<PeerTable>,
        }
        let (file, source) = parse::<Peers>(Path::new("x.toml"), text).unwrap();
        check_ids(&source, &file.bundle)
            .and_then(|()| check_overlap(&source, &file.bundle))
            .map_err(|e| e.to_string())
    }

    fn peer(id: u16, prefixes: &str, sources: &str, sendbox: &str) -> String {
        format!(
            "[[bundle]]\nname = \"b\"\nid = {id}\nprefixes = {prefixes}\nsources = {sources}\n\
             sendbox = \"{sendbox}\"\nkey_file = \"key\"\n"
        )
    }

    #[test]
    fn bundles_may_share_what_the_rest_tells_apart() {
        let (here, a, b) = ("[\"10.2.0.0/16\"]", "[\"10.1.0.0/16\"]", "[\"10.9.0.0/16\"]");
        let [first, second] = ["10.1.0.1:1", "10.9.0.1:1"];
        let one = peer(1, here, a, first);
        let overlap = "x.toml:11: bundle.prefixes: 10.2.0.0/16 stands twice (set `sources` to tell \
                       bundles apart)";
        for (other, expected) in [
            (peer(1, here, b, second), Ok(())),
            (peer(2, here, "[]", second), Ok(())),
            (peer(2, "[\"10.2.3.0/24\"]", a, second), Ok(())),
            (peer(2, here, a, second), Err(overlap)),
            (peer(2, here, "[\"10.9.0.0/16\", \"10.1.0.0/16\"]", second), Err(overlap)),
            (peer(1, here, b, first), Err("x.toml:10: bundle.id: 1 stands twice for one sendbox")),
        ] {
            assert_eq!(check(&(one.clone() + &other)), expected.map_err(str::to_owned), "{other}");
        }
        let twice = check(&peer(1, "[\"10.2.0.0/16\", \"10.2.0.0/16\"]", a, first)).unwrap_err();
        assert!(
            twice.starts_with("x.toml:4: bundle.prefixes: 10.2.0.0/16 stands twice"),
            "{twice}"
        );
    }
}
