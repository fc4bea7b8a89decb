//! The links and nodes of the network, as routers report them by BGP-LS (RFC 9552).
//!
//! BGP-LS comes as routes of a family of its own, so it comes by BMP as other routes do. A
//! [`Graph`] keeps what each peer reports. [`Graph::routers`] and [`Graph::adjacencies`] say what
//! all of them report together, with the members of a broadcast network adjacent to each other.
//! Prefixes, and TLVs that are not used, are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::Malformed;
use crate::octets::Octets;
use crate::table::PeerId;

/// The AFI of BGP-LS.
pub(crate) const AFI: u16 = 16_388;
/// The SAFI of BGP-LS outside of VPNs.
pub(crate) const SAFI: u8 = 71;
/// The most objects of a graph, of all peers together.
pub const MAX_OBJECTS: usize = 200_000;

const NODE: u16 = 1;
const LINK: u16 = 2;
const LOCAL_NODE: u16 = 256;
const REMOTE_NODE: u16 = 257;
const IGP_ROUTER_ID: u16 = 515;
const NODE_NAME: u16 = 1026;
const ROUTER_IDS: std::ops::RangeInclusive<u16> = 1028..=1029;
const BANDWIDTH: u16 = 1089;
const METRIC: u16 = 1095;
/// Protocols (section 5.2, table 2): IS-IS, and OSPF of both versions.
const ISIS: [u8; 2] = [1, 2];
const OSPF: [u8; 2] = [3, 6];

/// A node, by what tells it from others (section 5.2.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The protocol that the router learned it by.
    pub protocol: u8,
    /// The instance of the protocol.
    pub instance: u64,
    /// The descriptors, as TLVs in ascending order.
    pub descriptors: Box<[u8]>,
    /// The router in the protocol: 4 octets for OSPF, 6 for IS-IS, and more for the network of a
    /// broadcast link.
    pub router: Box<[u8]>,
}

impl NodeId {
    /// Whether the node stands for a broadcast network (section 5.2.1.4).
    pub fn is_network(&self) -> bool {
        (ISIS.contains(&self.protocol) && self.router.len() == 7)
            || (OSPF.contains(&self.protocol) && self.router.len() == 8)
    }

    /// Returns the router as its protocol writes it, as in `192.0.2.1` or `1920.0000.2001`.
    pub fn text(&self) -> String {
        match *self.router {
            [a, b, c, d] => IpAddr::from([a, b, c, d]).to_string(),
            _ => {
                let pairs = self.router.chunks(2);
                let hex = |pair: &[u8]| pair.iter().map(|o| format!("{o:02x}")).collect::<String>();
                pairs.map(hex).collect::<Vec<_>>().join(".")
            }
        }
    }
}

/// An object that a route of BGP-LS is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A router, or a broadcast network.
    Node(NodeId),
    /// One direction of a link.
    Link {
        /// The node that it leaves.
        from: NodeId,
        /// The node that it leads to.
        to: NodeId,
        /// The descriptors of the link, which tell parallel links apart.
        descriptors: Box<[u8]>,
    },
}

/// What a route of BGP-LS says about its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The name of the node.
    pub name: Option<String>,
    /// The addresses of the node.
    pub addresses: Vec<IpAddr>,
    /// The metric of the link.
    pub metric: Option<u32>,
    /// The bandwidth of the link, in bits per second.
    pub bandwidth: Option<f64>,
}

/// Takes a TLV: its type and its value.
fn tlv<'a>(octets: &mut Octets<'a>) -> Result<(u16, Octets<'a>), Malformed> {
    let (kind, length) = (octets.u16()?, octets.u16()?);
    Ok((kind, octets.part(usize::from(length))?))
}

/// Reads the routes of a message. Kinds of objects that are not used are skipped.
pub(crate) fn objects(mut octets: Octets<'_>) -> Result<Vec<Object>, Malformed> {
    let mut found = Vec::new();
    while !octets.is_empty() {
        let (kind, mut body) = tlv(&mut octets)?;
        if !matches!(kind, NODE | LINK) {
            continue;
        }
        let protocol = body.u8()?;
        let high = u64::from(body.u32()?);
        let instance = high << 32 | u64::from(body.u32()?);
        let mut node = |wanted: u16| {
            let (kind, value) = tlv(&mut body)?;
            if kind != wanted {
                return Err(Malformed::Header);
            }
            let (mut rest, mut router) = (value, None);
            while !rest.is_empty() {
                let (kind, id) = tlv(&mut rest)?;
                router = router.or((kind == IGP_ROUTER_ID).then(|| id.0.into()));
            }
            let router = router.ok_or(Malformed::Header)?;
            Ok(NodeId { protocol, instance, descriptors: value.0.into(), router })
        };
        let from = node(LOCAL_NODE)?;
        found.push(match kind {
            NODE => Object::Node(from),
            _ => {
                let to = node(REMOTE_NODE)?;
                Object::Link { from, to, descriptors: body.0.into() }
            }
        });
    }
    Ok(found)
}

/// Reads the BGP-LS attribute (section 5.3). `None` if its TLVs do not fit: then the objects count
/// as reported without it (section 8.2.2).
pub(crate) fn said(mut octets: Octets<'_>) -> Option<Said> {
    let mut said = Said::default();
    while !octets.is_empty() {
        let (kind, mut value) = tlv(&mut octets).ok()?;
        let length = value.0.len();
        match kind {
            NODE_NAME => said.name = Some(String::from_utf8_lossy(value.0).into_owned()),
            kind if ROUTER_IDS.contains(&kind) => match length {
                4 => said.addresses.push(value.v4().ok()?.into()),
                16 => said.addresses.push(value.v6().ok()?.into()),
                _ => return None,
            },
            // An IEEE float, in octets per second.
            BANDWIDTH if length == 4 => {
                let bits = f64::from(f32::from_bits(value.u32().ok()?)) * 8.0;
                said.bandwidth = Some(bits).filter(|b| b.is_finite() && *b >= 0.0);
            }
            // One octet for small IS-IS metrics, two for OSPF, three for wide IS-IS metrics.
            METRIC if (1..=3).contains(&length) => {
                said.metric = Some(value.0.iter().fold(0, |m, octet| m << 8 | u32::from(*octet)));
            }
            _ => {}
        }
    }
    Some(said)
}

/// A router, as all peers report it together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Router {
    /// The name, if one is reported.
    pub name: Option<String>,
    /// The addresses of the router.
    pub addresses: BTreeSet<IpAddr>,
}

/// Two adjacent routers, by their identifiers in the protocol.
pub type Adjacency = (Box<[u8]>, Box<[u8]>);

/// The routers of a broadcast network.
#[derive(Debug, Default)]
struct Members<'a> {
    /// Routers with a link into the network.
    into: BTreeSet<&'a [u8]>,
    /// Routers that the network has a link to.
    out: BTreeSet<&'a [u8]>,
}

/// What all peers report.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    objects: BTreeMap<Object, BTreeMap<PeerId, Said>>,
    refused: u64,
}

impl Graph {
    /// Takes the report of an object by a peer. Beyond [`MAX_OBJECTS`] new ones are counted only.
    pub fn announce(&mut self, peer: PeerId, object: Object, said: &Said) {
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&object) {
            self.refused += 1;
            return;
        }
        self.objects.entry(object).or_default().insert(peer, said.clone());
    }

    /// Takes back the report of an object. Returns whether there was one.
    pub(crate) fn withdraw(&mut self, peer: PeerId, object: &Object) -> bool {
        let Some(peers) = self.objects.get_mut(object) else { return false };
        let gone = peers.remove(&peer).is_some();
        if peers.is_empty() {
            self.objects.remove(object);
        }
        gone
    }

    /// Takes back all reports of a peer.
    pub(crate) fn remove_peer(&mut self, peer: PeerId) {
        self.objects.retain(|_, peers| {
            peers.remove(&peer);
            !peers.is_empty()
        });
    }

    /// Gives the reports of a peer to another, whose own stay.
    pub(crate) fn give_back(&mut self, from: PeerId, to: PeerId) {
        for peers in self.objects.values_mut() {
            if let Some(said) = peers.remove(&from) {
                peers.entry(to).or_insert(said);
            }
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing is reported.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns how many objects there was no room for.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the objects with what the first of their peers says.
    pub fn iter(&self) -> impl Iterator<Item = (&Object, &Said)> {
        self.objects.iter().filter_map(|(object, said)| Some((object, said.values().next()?)))
    }

    /// Returns the routers by their identifier in the protocol, without broadcast networks. A
    /// router in several areas, levels or protocol instances is one router.
    pub fn routers(&self) -> BTreeMap<Box<[u8]>, Router> {
        let mut routers: BTreeMap<Box<[u8]>, Router> = BTreeMap::new();
        for (object, peers) in &self.objects {
            let Object::Node(node) = object else { continue };
            if node.is_network() {
                continue;
            }
            let router = routers.entry(node.router.clone()).or_default();
            for said in peers.values() {
                router.name = router.name.take().or(said.name.clone());
                router.addresses.extend(&said.addresses);
            }
            if let [a, b, c, d] = *node.router {
                router.addresses.insert([a, b, c, d].into());
            }
        }
        routers
    }

    /// Returns the pairs of routers with a link from the first to the second, by identifier. A
    /// network of many routers has far more pairs than [`MAX_OBJECTS`], which is their limit.
    pub fn adjacencies(&self) -> BTreeSet<Adjacency> {
        let mut pairs = BTreeSet::new();
        let mut members: BTreeMap<&[u8], Members<'_>> = BTreeMap::new();
        for object in self.objects.keys() {
            let Object::Link { from, to, .. } = object else { continue };
            match (from.is_network(), to.is_network()) {
                (false, false) => {
                    pairs.insert((from.router.clone(), to.router.clone()));
                }
                (false, true) => {
                    members.entry(&to.router).or_default().into.insert(&from.router);
                }
                (true, false) => {
                    members.entry(&from.router).or_default().out.insert(&to.router);
                }
                (true, true) => {}
            }
        }
        for Members { into, out } in members.values() {
            for from in into {
                for to in out.iter().filter(|to| *to != from) {
                    if pairs.len() >= MAX_OBJECTS {
                        return pairs;
                    }
                    pairs.insert((Box::from(*from), Box::from(*to)));
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests;
