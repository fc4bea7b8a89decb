//! One router's BMP session (RFC 7854): its octets in, changes of the table out.
//!
//! The caller owns the connection and the clock. It gives a [`Session`] what it receives, and cuts
//! it when the connection ends, when [`Session::receive`] returns an error, or when the session is
//! [stuck](Session::is_stuck). [`Session::cut`] keeps the routes, so that a router that connects
//! again takes them over one by one. [`Session::expire`] withdraws what it has not taken over, and
//! [`Session::close`] everything.
//!
//! What makes peers and routes the same:
//!
//! | what | the same if |
//! |---|---|
//! | peers | type, distinguisher and address are (RFC 7854, section 4.2) |
//! | routes of a peer | prefix and path identifier are (RFC 7911, section 3) |
//! | routes before and after the router's policy | peer, prefix and path identifier are: once a router sends those after its policy, they replace those before it (RFC 7854, section 5) |
//! | routes of VRFs and other instances | never: they are of another table, and are left out (RFC 7854, section 4.2; RFC 9069, section 4.1) |
//! | routes that the router sends (RFC 8671) | never: they are left out |

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::Malformed;
use crate::attributes::{Attributes, Encoding, decode};
use crate::link_state;
use crate::nlri::{Family, prefixes};
use crate::octets::Octets;
use crate::table::{PeerId, Table};

/// The longest message that is read, in octets. A BGP message has at most 65 535 (RFC 8654), and
/// a peer's start has two of them.
pub const MAX_MESSAGE: usize = 200_000;
/// The most that is waited for octets of a router before its session counts as stuck. BMP has no
/// keepalives, but routers send statistics every minute or few minutes.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(600);

const VERSION: u8 = 3;
const HEADER: usize = 6;

/// Why a session must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BmpError {
    /// The octets are not BMP version 3.
    #[error("the router speaks BMP version {0}, or no BMP: version 3 is needed")]
    Version(u8),
    /// A message has an impossible length.
    #[error("a message of {0} octets is longer than any real one, or shorter than its header")]
    Length(u32),
    /// The router ended the session.
    #[error("the router ended the session")]
    Terminated,
}

/// What a session has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// The messages, of all types.
    pub messages: u64,
    /// The routes that were announced.
    pub announced: u64,
    /// The routes that were withdrawn, by themselves.
    pub withdrawn: u64,
    /// The messages that could not be read. Routes with a wrong attribute are withdrawn (RFC 7606).
    pub malformed: u64,
    /// The messages about peers that the router has not announced, or for which the table has no
    /// room.
    pub unknown: u64,
    /// The messages about routes that the router sends to its peers (RFC 8671), which are no
    /// routes of the network.
    pub outgoing: u64,
    /// The messages about peers and routes of VRFs and other instances of the router, which are no
    /// routes of the network.
    pub instances: u64,
    /// The messages about routes before the router's policy of peers of which it sends those after
    /// its policy, too.
    pub superseded: u64,
    /// The messages with routes of families that are not read, such as those of VPNs.
    pub families: u64,
}

/// What makes a peer one of its own: type, distinguisher, address, and whether routes are those
/// after the router's policy.
type Key = (u8, [u8; 8], IpAddr, bool);

#[derive(Clone, Copy, Debug)]
struct Up {
    id: PeerId,
    add_path: [bool; 2],
    /// Whether a route of each family came: IPv4, IPv6, and BGP-LS.
    begun: [bool; 3],
    /// Whether the end of each family's first routes came (End-of-RIB, RFC 4724, section 2).
    ended: [bool; 3],
    /// Whether the routes are those before the router's policy, of a peer whose routes after it
    /// come, too.
    is_superseded: bool,
}

impl Up {
    /// Whether the first routes of the peer have all come.
    fn is_loaded(&self) -> bool {
        if self.is_superseded {
            return true;
        }
        let mut families = self.begun.iter().zip(self.ended);
        self.ended.contains(&true) && families.all(|(begun, ended)| !begun || ended)
    }
}

/// The session of one router.
#[derive(Debug)]
pub struct Session {
    router: String,
    buffer: Vec<u8>,
    peers: BTreeMap<Key, Up>,
    /// The peers of the connection before, as far as they still have routes.
    stale: BTreeMap<Key, PeerId>,
    counts: Counts,
    last: Duration,
}

impl Session {
    /// Creates the session of `router` at the time `now`, on any clock.
    pub fn new(router: &str, now: Duration) -> Self {
        Self {
            router: router.to_owned(),
            buffer: Vec::new(),
            peers: BTreeMap::new(),
            stale: BTreeMap::new(),
            counts: Counts::default(),
            last: now,
        }
    }

    /// Returns what the session has done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of peers that are up.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Whether the router has peers, and has said of each that its first routes have all come.
    pub fn is_loaded(&self) -> bool {
        !self.peers.is_empty() && self.peers.values().all(Up::is_loaded)
    }

    /// Returns the time at which the router was heard last.
    pub fn last(&self) -> Duration {
        self.last
    }

    /// Whether nothing came from the router for longer than `silence`, mostly [`SESSION_TIMEOUT`].
    pub fn is_stuck(&self, now: Duration, silence: Duration) -> bool {
        now.saturating_sub(self.last) > silence
    }

    /// Takes note of a new connection of the router.
    pub fn connect(&mut self, now: Duration) {
        self.last = now;
    }

    /// Takes note of the end of the connection. The routes stay until [`Session::expire`], or until
    /// the router, connected again, announces or withdraws them.
    pub fn cut(&mut self, table: &mut Table) {
        for (key, up) in std::mem::take(&mut self.peers) {
            match self.stale.get(&key) {
                // The peer has not yet announced again what it had before.
                Some(older) if !up.is_loaded() => table.give_back(up.id, *older),
                Some(older) => {
                    table.remove_peer(*older);
                    self.stale.insert(key, up.id);
                }
                None => {
                    self.stale.insert(key, up.id);
                }
            }
        }
        self.buffer = Vec::new();
    }

    /// Withdraws the routes of earlier connections that the present one has not taken over.
    pub fn expire(&mut self, table: &mut Table) {
        for id in std::mem::take(&mut self.stale).into_values() {
            table.remove_peer(id);
        }
    }

    /// Withdraws all routes of this session.
    pub fn close(&mut self, table: &mut Table) {
        self.cut(table);
        self.expire(table);
    }

    /// Adds a peer to the table, in place of the same one of the connection before.
    fn add(
        &mut self,
        key: Key,
        peer: PeerHeader,
        add_path: [bool; 2],
        table: &mut Table,
    ) -> Option<Up> {
        let id = table.add_peer(&self.router, peer.address, peer.asn).ok()?;
        if let Some(old) = self.stale.get(&key) {
            table.replace_peer(*old, id);
        }
        let up = Up { id, add_path, begun: [false; 3], ended: [false; 3], is_superseded: false };
        self.peers.insert(key, up);
        Some(up)
    }

    /// Takes octets from the router, in pieces of any size.
    ///
    /// # Errors
    /// If the session must be closed; the octets after that place are lost.
    pub fn receive(
        &mut self,
        now: Duration,
        octets: &[u8],
        table: &mut Table,
    ) -> Result<(), BmpError> {
        self.last = now;
        self.buffer.extend_from_slice(octets);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..];
        while let Some((message, after)) = split(rest)? {
            rest = after;
            self.counts.messages += 1;
            match self.message(message, table) {
                Ok(true) => {}
                Ok(false) => return Err(BmpError::Terminated),
                Err(_) => self.counts.malformed += 1,
            }
        }
        self.buffer = rest.to_vec();
        Ok(())
    }

    /// Handles a message. Returns whether the session continues.
    fn message(&mut self, message: &[u8], table: &mut Table) -> Result<bool, Malformed> {
        let mut octets = Octets(&message[HEADER..]);
        match message[HEADER - 1] {
            0 => self.monitoring(octets, table)?,
            2 => {
                let (header, peer) = PeerHeader::read(&mut octets)?;
                if !self.is_of_network(peer) {
                    return Ok(true);
                }
                // Routes before and after policy are in one BGP session, which has ended.
                for policy in [false, true] {
                    let key = (header.0, header.1, header.2, policy);
                    if let Some(up) = self.peers.remove(&key) {
                        table.remove_peer(up.id);
                    }
                    if let Some(old) = self.stale.remove(&key) {
                        table.remove_peer(old);
                    }
                }
            }
            3 => self.up(octets, table)?,
            5 => return Ok(false),
            // Statistics, the router's description and mirrored messages have no routes.
            _ => {}
        }
        Ok(true)
    }

    /// Handles the start of a peer, whose two OPEN messages tell whether it uses path identifiers.
    fn up(&mut self, mut octets: Octets<'_>, table: &mut Table) -> Result<(), Malformed> {
        let (key, peer) = PeerHeader::read(&mut octets)?;
        if !self.is_of_network(peer) {
            return Ok(());
        }
        octets.take(20)?;
        let (sent, received) = (open(&mut octets)?, open(&mut octets)?);
        // The router's 1 and 3 are "can receive", the peer's 2 and 3 "can send" (RFC 7911, 4).
        let both = |family: usize| sent[family] & 1 != 0 && received[family] & 2 != 0;
        let add_path = [both(0), both(1)];
        for policy in [false, true] {
            if let Some(old) = self.peers.remove(&(key.0, key.1, key.2, policy)) {
                table.remove_peer(old.id);
            }
        }
        // A router that sends routes after its policy announces the peer once, with either flag.
        let key = (key.0, key.1, key.2, false);
        if self.add(key, peer, add_path, table).is_none() {
            self.counts.unknown += 1;
        }
        Ok(())
    }

    /// Whether a message is about routes of the network; if not, it is counted.
    fn is_of_network(&mut self, peer: PeerHeader) -> bool {
        let count = match peer {
            PeerHeader { is_outgoing: true, .. } => &mut self.counts.outgoing,
            PeerHeader { instance: Instance::Other, .. } => &mut self.counts.instances,
            PeerHeader { instance: Instance::Unknown, .. } => &mut self.counts.unknown,
            PeerHeader { instance: Instance::Global, .. } => return true,
        };
        *count += 1;
        false
    }

    /// Returns the peer of a message. Routes after the router's policy replace those before it.
    fn peer(&mut self, key: Key, peer: PeerHeader, table: &mut Table) -> Option<Up> {
        if let Some(up) = self.peers.get(&key) {
            return Some(*up);
        }
        let before_key = (key.0, key.1, key.2, false);
        let before = *self.peers.get(&before_key)?;
        let up = self.add(key, peer, before.add_path, table)?;
        if let Some(old) = self.stale.remove(&before_key) {
            table.remove_peer(old);
        }
        // The peer itself stays, since it is what the router has announced.
        table.remove_peer(before.id);
        match table.add_peer(&self.router, peer.address, peer.asn) {
            Ok(id) => {
                self.peers.insert(before_key, Up { id, is_superseded: true, ..before });
            }
            Err(_) => drop(self.peers.remove(&before_key)),
        }
        Some(up)
    }

    fn monitoring(&mut self, mut octets: Octets<'_>, table: &mut Table) -> Result<(), Malformed> {
        let (key, header) = PeerHeader::read(&mut octets)?;
        if !self.is_of_network(header) {
            return Ok(());
        }
        let Some(up) = self.peer(key, header, table) else {
            self.counts.unknown += 1;
            return Ok(());
        };
        if up.is_superseded {
            self.counts.superseded += 1;
            return Ok(());
        }
        let mut update = bgp(&mut octets, 2)?;
        let encoding =
            Encoding { short_as: header.short_as, add_path: up.add_path, of_dump: false };
        let length = update.u16()?;
        let gone = update.part(usize::from(length))?;
        let mut withdrawn = prefixes(gone, Family::V4, up.add_path[0])?;
        let length = update.u16()?;
        let attributes = update.part(usize::from(length))?;
        let end = match withdrawn.is_empty() && update.is_empty() {
            true => end_of_rib(attributes.0),
            false => None,
        };
        let decoded = decode(attributes, encoding)?;
        let announced = prefixes(update, Family::V4, up.add_path[0])?;
        let reached = decoded.announced;
        withdrawn.extend(decoded.withdrawn);
        self.counts.families += u64::from(!decoded.other_families.is_empty());
        if let Some(error) = decoded.error {
            withdrawn.extend(announced);
            withdrawn.extend(reached);
            for object in decoded.unreported.iter().chain(&decoded.reported) {
                table.unreport(up.id, object);
            }
            for (net, id) in withdrawn {
                table.withdraw(up.id, net, id);
            }
            return Err(error);
        }
        if let Some(up) = self.peers.get_mut(&key) {
            for (net, _) in announced.iter().chain(&reached) {
                up.begun[usize::from(net.addr().is_ipv6())] = true;
            }
            up.begun[LINK_STATE] |= !decoded.reported.is_empty();
            if let Some(family) = end {
                up.ended[family] = true;
            }
        }
        for object in &decoded.unreported {
            let gone = table.unreport(up.id, object);
            self.counts.withdrawn += u64::from(gone);
        }
        for object in decoded.reported {
            table.graph_mut().announce(up.id, object, &decoded.said);
            self.counts.announced += 1;
        }
        for (net, id) in withdrawn {
            self.counts.withdrawn += u64::from(table.withdraw(up.id, net, id));
        }
        if !reached.is_empty() {
            let next_hop = decoded.reach_hop;
            let attributes = Attributes { next_hop, ..decoded.attributes.clone() };
            self.announce(up.id, reached, attributes, table);
        }
        if !announced.is_empty() {
            self.announce(up.id, announced, decoded.attributes, table);
        }
        Ok(())
    }

    fn announce(
        &mut self,
        peer: PeerId,
        prefixes: Vec<(IpNet, u32)>,
        attributes: Attributes,
        table: &mut Table,
    ) {
        let attributes = table.share(attributes);
        for (net, id) in prefixes {
            table.announce(peer, net, id, &attributes);
            self.counts.announced += 1;
        }
        table.release(attributes);
    }
}

/// The index of BGP-LS among the families of a peer.
const LINK_STATE: usize = 2;

/// Returns the index of the family whose first routes end with an UPDATE of these attributes and
/// without any prefix (RFC 4724, section 2).
fn end_of_rib(attributes: &[u8]) -> Option<usize> {
    let family = |a: u8, b: u8, safi: u8| match (u16::from_be_bytes([a, b]), safi) {
        (link_state::AFI, link_state::SAFI) => Some(LINK_STATE),
        (afi, safi) => Family::of(afi, safi).map(|f| usize::from(f == Family::V6)),
    };
    match attributes {
        [] => Some(0),
        // MP_UNREACH_NLRI without prefixes, with a length of one or two octets.
        [flags, 15, 3, a, b, safi] if flags & 0x10 == 0 => family(*a, *b, *safi),
        [flags, 15, 0, 3, a, b, safi] if flags & 0x10 != 0 => family(*a, *b, *safi),
        _ => None,
    }
}

/// A message, and the octets after it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// Splits a whole message from the front, if there is one.
fn split(octets: &[u8]) -> Result<Option<Split<'_>>, BmpError> {
    let Some(version) = octets.first() else { return Ok(None) };
    if *version != VERSION {
        return Err(BmpError::Version(*version));
    }
    let Some([_, a, b, c, d, _]) = octets.first_chunk::<HEADER>() else { return Ok(None) };
    let length = u32::from_be_bytes([*a, *b, *c, *d]);
    if !(HEADER..=MAX_MESSAGE).contains(&(length as usize)) {
        return Err(BmpError::Length(length));
    }
    Ok(octets.split_at_checked(length as usize))
}

/// The table that a peer's routes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instance {
    /// The network's own.
    Global,
    /// That of a VRF, or of another instance of the router.
    Other,
    /// That of a type of peer that does not exist.
    Unknown,
}

/// The header of messages about one peer (RFC 7854, section 4.2).
#[derive(Clone, Copy, Debug)]
struct PeerHeader {
    address: IpAddr,
    asn: u32,
    short_as: bool,
    is_outgoing: bool,
    instance: Instance,
}

impl PeerHeader {
    fn read(octets: &mut Octets<'_>) -> Result<(Key, Self), Malformed> {
        let (kind, flags) = (octets.u8()?, octets.u8()?);
        let mut distinguisher = [0; 8];
        distinguisher.copy_from_slice(octets.take(8)?);
        let raw = octets.v6()?;
        let asn = octets.u32()?;
        octets.take(12)?;
        let [.., a, b, c, d] = raw.octets();
        // The flags of a router's own table (type 3, RFC 9069) have another meaning, and its
        // address is empty.
        let is_own = kind == 3;
        let is_v6 = !is_own && flags & 0x80 != 0;
        let address = if is_v6 { raw.into() } else { IpAddr::from([a, b, c, d]) };
        let header = Self {
            address,
            asn,
            short_as: !is_own && flags & 0x20 != 0,
            is_outgoing: !is_own && flags & 0x10 != 0,
            instance: match kind {
                0 => Instance::Global,
                3 if distinguisher == [0; 8] => Instance::Global,
                1..=3 => Instance::Other,
                _ => Instance::Unknown,
            },
        };
        Ok(((kind, distinguisher, address, !is_own && flags & 0x40 != 0), header))
    }
}

/// Takes a BGP message of a type, without its header (RFC 4271, section 4.1).
fn bgp<'a>(octets: &mut Octets<'a>, wanted: u8) -> Result<Octets<'a>, Malformed> {
    octets.take(16)?;
    let (length, kind) = (octets.u16()?, octets.u8()?);
    let body = usize::from(length).checked_sub(19).ok_or(Malformed::Header)?;
    let body = octets.part(body)?;
    if kind == wanted { Ok(body) } else { Err(Malformed::Header) }
}

/// Reads an OPEN message. Returns what it says about path identifiers of IPv4 and IPv6.
fn open(octets: &mut Octets<'_>) -> Result<[u8; 2], Malformed> {
    let mut body = bgp(octets, 1)?;
    body.take(9)?;
    let mut length = usize::from(body.u8()?);
    let mut extended = false;
    // Extended lengths of parameters (RFC 9072).
    if length == 255 && body.0.first() == Some(&255) {
        body.u8()?;
        length = usize::from(body.u16()?);
        extended = true;
    }
    let mut parameters = body.part(length)?;
    let mut add_path = [0; 2];
    while !parameters.is_empty() {
        let kind = parameters.u8()?;
        let length =
            if extended { usize::from(parameters.u16()?) } else { usize::from(parameters.u8()?) };
        let mut capabilities = parameters.part(length)?;
        while kind == 2 && !capabilities.is_empty() {
            let (code, length) = (capabilities.u8()?, capabilities.u8()?);
            let mut value = capabilities.part(usize::from(length))?;
            while code == 69 && !value.is_empty() {
                let (afi, safi, mode) = (value.u16()?, value.u8()?, value.u8()?);
                if let Some(family) = Family::of(afi, safi) {
                    add_path[usize::from(family == Family::V6)] = mode;
                }
            }
        }
    }
    Ok(add_path)
}

#[cfg(test)]
mod tests;
