//! Table dumps in MRT: TABLE_DUMP and TABLE_DUMP_V2 (RFC 6396, sections 4.2 and 4.3), the latter
//! with path identifiers (RFC 8050, section 4).
//!
//! A peer is the same if view, BGP identifier, address and AS are. A file of several dumps has each
//! peer once, and a later route of a peer replaces the earlier one.

mod record;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;

use forebay_input::Kind;

use crate::Malformed;
use crate::attributes::{Attributes, Encoding, decode};
use crate::nlri::{Family, prefix, whole_prefix};
use crate::octets::Octets;
use crate::table::{Full, PeerId, Table};
pub use record::RecordKind;

/// The longest record that is read, in octets. A prefix with a route from each of a thousand peers
/// has a few hundred thousand.
pub const MAX_RECORD: usize = 4_000_000;
/// The most kinds of skipped records that are counted apart.
const MAX_KINDS: usize = 256;
/// The first octets of a file that are kept to say what it is.
const START: usize = 512;

/// What was read of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The records, of all types.
    pub records: u64,
    /// The routes that were offered to the table.
    pub routes: u64,
    /// The records that have no unicast routes or are of an unknown type, by their kind.
    pub skipped: BTreeMap<RecordKind, u64>,
    /// The records with something in them that cannot be read. Routes before that place count.
    pub malformed: u64,
    /// The first of these, by its number from 1, and what is wrong with it.
    pub first_malformed: Option<(u64, Malformed)>,
    /// Whether the dump ends within a record.
    pub cut: bool,
}

impl Summary {
    /// Takes note of a skipped record.
    fn skip(&mut self, kind: RecordKind) {
        if self.skipped.len() < MAX_KINDS || self.skipped.contains_key(&kind) {
            *self.skipped.entry(kind).or_default() += 1;
        }
    }

    /// Describes the skipped records: their number and kinds, the most frequent ones first. `None`
    /// if there are none.
    pub fn describe_skipped(&self) -> Option<String> {
        /// Kinds that are named.
        const NAMED: usize = 4;
        let mut kinds: Vec<_> = self.skipped.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut words: Vec<String> =
            kinds.iter().take(NAMED).map(|(kind, count)| format!("{count} {kind}")).collect();
        if kinds.len() > NAMED {
            words.push("others".to_owned());
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Why a dump was not read to its end, or gave nothing.
#[derive(Debug)]
pub enum MrtError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file is not MRT. It may be known what it is.
    NotMrt(Option<Kind>),
    /// A record is longer than any real one.
    TooLong(u64),
    /// The dump names more peers than fit into the table.
    Peers(Full),
    /// The file has no route.
    NoRoutes(Box<Summary>),
}

impl From<io::Error> for MrtError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Full> for MrtError {
    fn from(full: Full) -> Self {
        Self::Peers(full)
    }
}

impl std::error::Error for MrtError {}

impl fmt::Display for MrtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// What should be given instead.
        const GIVE: &str = "give a table dump, such as rib.* of RouteViews or bview.* of RIPE";
        match self {
            Self::Read(error) => f.write_str(&forebay_input::describe(error)),
            Self::NotMrt(None) => write!(f, "is no MRT file: {GIVE}"),
            Self::NotMrt(Some(kind)) if kind.what() == "text" => {
                write!(f, "is text, maybe of `bgpdump` or `show ip bgp`: {GIVE}")
            }
            Self::NotMrt(Some(kind)) => write!(f, "is {} and no MRT file: {GIVE}", kind.what()),
            Self::TooLong(record) => {
                write!(f, "record {record} has more than 4 MB: the file is damaged there")
            }
            Self::Peers(_) => f.write_str("the dump has more peers than fit into the table"),
            Self::NoRoutes(summary) => no_routes(f, summary, GIVE),
        }
    }
}

fn no_routes(f: &mut fmt::Formatter<'_>, summary: &Summary, give: &str) -> fmt::Result {
    let records = summary.records;
    if let Some((record, cause)) = summary.first_malformed
        && summary.malformed == records
    {
        return write!(
            f,
            "has no routes, since its {records} records cannot be read: record {record} {cause}"
        );
    }
    write!(f, "has no routes")?;
    if let Some(skipped) = summary.describe_skipped() {
        write!(f, " in {records} records: {skipped}")?;
    }
    if summary.skipped.keys().any(RecordKind::is_message) {
        write!(f, "; these are messages of BGP, and no table")?;
    }
    if summary.cut {
        write!(f, "; it ends within a record")?;
    }
    write!(f, ": {give}")
}

/// A dump while it is read.
struct Loader<'a> {
    router: &'a str,
    table: &'a mut Table,
    summary: Summary,
    /// The peers so far.
    known: HashMap<PeerKey, PeerId>,
    /// The peers of the last table of peers, by their index.
    index: Vec<PeerId>,
}

/// What makes a peer of a dump one of its own. The last part tells apart peers that are equal in
/// one table of peers.
type PeerKey = (u16, u32, IpAddr, u32, usize);

/// Adds the routes of a dump to `table`, as learned by `router`.
///
/// A record that cannot be read is counted and skipped. A dump that ends within a record is read up
/// to there.
///
/// # Errors
/// If the file cannot be read, is no MRT file, has too many peers, or has no routes.
pub fn load(mut dump: impl Read, router: &str, table: &mut Table) -> Result<Summary, MrtError> {
    let (summary, known, index) = (Summary::default(), HashMap::new(), Vec::new());
    let mut loader = Loader { router, table, summary, known, index };
    // Whether a record was of a known type, and the first octets of the file.
    let (mut is_mrt, mut start) = (false, Vec::new());
    let mut record = Vec::new();
    loop {
        let mut header = [0; 12];
        let count = fill(&mut dump, &mut header)?;
        keep_start(&mut start, &header[..count]);
        if count < header.len() {
            loader.summary.cut |= count > 0;
            break;
        }
        loader.summary.records += 1;
        let [_, _, _, _, t0, t1, s0, s1, l0, l1, l2, l3] = header;
        let kind = RecordKind::new(u16::from_be_bytes([t0, t1]), u16::from_be_bytes([s0, s1]));
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_RECORD {
            if is_mrt && Kind::of(&start).is_none() {
                return Err(MrtError::TooLong(loader.summary.records));
            }
            let mut rest = vec![0; START.saturating_sub(start.len())];
            let count = fill(&mut dump, &mut rest)?;
            keep_start(&mut start, &rest[..count]);
            return Err(MrtError::NotMrt(Kind::of(&start)));
        }
        record.resize(length, 0);
        let count = fill(&mut dump, &mut record)?;
        keep_start(&mut start, &record[..count]);
        if count < length {
            loader.summary.cut = true;
            break;
        }
        is_mrt |= kind.is_known();
        if let Err(error) = loader.record(kind, Octets(&record)) {
            match error {
                Failure::Malformed(malformed) => {
                    let Summary { records, malformed: count, first_malformed, .. } =
                        &mut loader.summary;
                    *count += 1;
                    first_malformed.get_or_insert((*records, malformed));
                }
                Failure::Full(full) => return Err(full.into()),
            }
        }
    }
    let summary = loader.summary;
    match (summary.routes, Kind::of(&start)) {
        (0, Some(kind)) => Err(MrtError::NotMrt(Some(kind))),
        (0, None) if !is_mrt && summary.skipped.is_empty() => Err(MrtError::NotMrt(None)),
        (0, None) => Err(MrtError::NoRoutes(Box::new(summary))),
        _ => Ok(summary),
    }
}

/// Keeps octets of the start of the file.
fn keep_start(start: &mut Vec<u8>, octets: &[u8]) {
    let room = START.saturating_sub(start.len()).min(octets.len());
    start.extend_from_slice(&octets[..room]);
}

/// Reads until `into` is full or the input ends. Returns the number of octets read.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match from.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Why a record was not read to its end.
enum Failure {
    Malformed(Malformed),
    Full(Full),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Loader<'_> {
    fn record(&mut self, kind: RecordKind, mut octets: Octets<'_>) -> Result<(), Failure> {
        if kind == RecordKind::PEER_INDEX_TABLE {
            return self.index(octets);
        }
        if let Some((family, four_octets)) = kind.first_version() {
            return self.first_version(octets, family, four_octets);
        }
        if let Some((family, add_path)) = kind.rib() {
            octets.take(4)?;
            return self.rib(octets, family, add_path);
        }
        if let Some(add_path) = kind.generic() {
            octets.take(4)?;
            let (afi, safi) = (octets.u16()?, octets.u8()?);
            match Family::of(afi, safi) {
                Some(family) => return self.rib(octets, family, add_path),
                None => self.summary.skip(kind.of_family(afi, safi)),
            }
        } else {
            self.summary.skip(kind);
        }
        Ok(())
    }

    /// Returns the number of a peer in the table.
    fn peer(&mut self, key: PeerKey) -> Result<PeerId, Failure> {
        if let Some(id) = self.known.get(&key) {
            return Ok(*id);
        }
        let (_, _, address, asn, _) = key;
        let id = self.table.add_peer(self.router, address, asn).map_err(Failure::Full)?;
        self.known.insert(key, id);
        Ok(id)
    }

    /// Reads a table of peers (RFC 6396, section 4.3.1).
    fn index(&mut self, mut octets: Octets<'_>) -> Result<(), Failure> {
        self.index.clear();
        octets.take(4)?;
        let name = octets.u16()?;
        octets.take(usize::from(name))?;
        let count = octets.u16()?;
        let mut equal: HashMap<(u32, IpAddr, u32), usize> = HashMap::new();
        for _ in 0..count {
            let kind = octets.u8()?;
            let identifier = octets.u32()?;
            let address = if kind & 1 != 0 { octets.v6()?.into() } else { octets.v4()?.into() };
            let asn = if kind & 2 != 0 { octets.u32()? } else { octets.u16()?.into() };
            let number = equal.entry((identifier, address, asn)).or_default();
            let key = (0, identifier, address, asn, *number);
            *number += 1;
            let id = self.peer(key)?;
            self.index.push(id);
        }
        Ok(())
    }

    /// Reads the routes of a prefix (RFC 6396, sections 4.3.2 to 4.3.4).
    fn rib(
        &mut self,
        mut octets: Octets<'_>,
        family: Family,
        add_path: bool,
    ) -> Result<(), Failure> {
        let prefix = prefix(&mut octets, family)?;
        let entries = octets.u16()?;
        for _ in 0..entries {
            let number = octets.u16()?;
            octets.take(4)?;
            let path_id = if add_path { octets.u32()? } else { 0 };
            let attributes = attributes(&mut octets, false)?;
            let peer = self.index.get(usize::from(number)).ok_or(Malformed::Peer(number))?;
            let peer = *peer;
            self.announce(peer, prefix, path_id, attributes);
        }
        Ok(())
    }

    /// Reads a record of the first version, which has one route (RFC 6396, section 4.2).
    fn first_version(
        &mut self,
        mut octets: Octets<'_>,
        family: Family,
        four_octets: bool,
    ) -> Result<(), Failure> {
        let view = octets.u16()?;
        octets.take(2)?;
        let prefix = whole_prefix(&mut octets, family)?;
        // A status, and the time at which the route came.
        octets.take(1 + 4)?;
        let address = match family {
            Family::V4 => octets.v4()?.into(),
            Family::V6 => octets.v6()?.into(),
        };
        let asn = if four_octets { octets.u32()? } else { octets.u16()?.into() };
        let attributes = attributes(&mut octets, !four_octets)?;
        let peer = self.peer((view, 0, address, asn, 0))?;
        self.announce(peer, prefix, 0, attributes);
        Ok(())
    }

    fn announce(
        &mut self,
        peer: PeerId,
        prefix: ipnet::IpNet,
        path_id: u32,
        attributes: Attributes,
    ) {
        let attributes = self.table.share(attributes);
        self.table.announce(peer, prefix, path_id, &attributes);
        // The table may have refused the route.
        self.table.release(attributes);
        self.summary.routes += 1;
    }
}

/// Reads the attributes of a route, behind their length.
fn attributes(octets: &mut Octets<'_>, short_as: bool) -> Result<Attributes, Malformed> {
    let encoding = Encoding { short_as, add_path: [false; 2], of_dump: true };
    let length = octets.u16()?;
    let decoded = decode(octets.part(usize::from(length))?, encoding)?;
    if let Some(error) = decoded.error {
        return Err(error);
    }
    let next_hop = decoded.reach_hop.or(decoded.attributes.next_hop);
    Ok(Attributes { next_hop, ..decoded.attributes })
}

#[cfg(test)]
mod tests;
