//! Table dumps in MRT (RFC 6396, section 4.3), with path identifiers (RFC 8050, section 4).

use std::io::{self, Read};

use crate::Malformed;
use crate::attributes::{Encoding, decode};
use crate::nlri::{Family, prefix};
use crate::octets::Octets;
use crate::table::{Full, PeerId, Table};

/// The longest record that is read, in octets. A prefix with a route from each of a thousand peers
/// has a few hundred thousand.
pub const LONGEST_RECORD: usize = 4_000_000;

/// The MRT type of a dump in the second version.
const TABLE_DUMP_V2: u16 = 13;
const PEER_INDEX_TABLE: u16 = 1;
/// The subtypes with routes: the family, and whether they have path identifiers.
const RIBS: [(u16, Family, bool); 4] =
    [(2, Family::V4, false), (4, Family::V6, false), (8, Family::V4, true), (10, Family::V6, true)];

/// What was read of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The records, of all types.
    pub records: u64,
    /// The routes that were offered to the table.
    pub routes: u64,
    /// The records of types that have no unicast routes.
    pub ignored: u64,
    /// The records with something in them that cannot be read. Routes before that place count.
    pub malformed: u64,
    /// Whether the dump ends within a record.
    pub cut: bool,
}

/// Why a dump was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum MrtError {
    /// The file cannot be read.
    #[error("cannot read the dump: {0}")]
    Read(#[from] io::Error),
    /// A record is longer than any real one.
    #[error("record {0} has more than 4 MB: this is no MRT file, or a damaged or compressed one")]
    TooLong(u64),
    /// The dump names more peers than fit into the table.
    #[error("the dump has more peers than fit into the table")]
    Peers(#[from] Full),
}

/// Adds the routes of a dump to `table`, as learned by `router`.
///
/// A record that cannot be read is counted and skipped. A dump that ends within a record is read up
/// to there.
///
/// # Errors
/// If the file cannot be read, is no MRT file, or has too many peers.
pub fn load(mut dump: impl Read, router: &str, table: &mut Table) -> Result<Summary, MrtError> {
    let mut summary = Summary::default();
    let mut peers = Vec::new();
    let mut record = Vec::new();
    loop {
        let mut header = [0; 12];
        match fill(&mut dump, &mut header)? {
            0 => return Ok(summary),
            12 => {}
            _ => {
                summary.cut = true;
                return Ok(summary);
            }
        }
        summary.records += 1;
        let [_, _, _, _, t0, t1, s0, s1, l0, l1, l2, l3] = header;
        let (kind, subtype) = (u16::from_be_bytes([t0, t1]), u16::from_be_bytes([s0, s1]));
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if length > LONGEST_RECORD {
            return Err(MrtError::TooLong(summary.records));
        }
        record.resize(length, 0);
        if fill(&mut dump, &mut record)? < length {
            summary.cut = true;
            return Ok(summary);
        }
        let rib = RIBS.iter().find(|(number, ..)| *number == subtype);
        let read = match (kind, subtype, rib) {
            (TABLE_DUMP_V2, PEER_INDEX_TABLE, _) => {
                // A file of several dumps has a table of peers for each.
                peers.clear();
                match index(Octets(&record)) {
                    Ok(found) => {
                        for (address, asn) in found {
                            peers.push(table.add_peer(router, address, asn)?);
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            (TABLE_DUMP_V2, _, Some((_, family, add_path))) => {
                routes(Octets(&record), *family, *add_path, &peers, table, &mut summary.routes)
            }
            _ => {
                summary.ignored += 1;
                Ok(())
            }
        };
        summary.malformed += u64::from(read.is_err());
    }
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

/// Reads the table of peers: the address and AS of each.
fn index(mut octets: Octets<'_>) -> Result<Vec<(std::net::IpAddr, u32)>, Malformed> {
    octets.take(4)?;
    let name = octets.u16()?;
    octets.take(usize::from(name))?;
    let count = octets.u16()?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let kind = octets.u8()?;
        octets.take(4)?;
        let address = if kind & 1 != 0 { octets.v6()?.into() } else { octets.v4()?.into() };
        let asn = if kind & 2 != 0 { octets.u32()? } else { octets.u16()?.into() };
        peers.push((address, asn));
    }
    Ok(peers)
}

fn routes(
    mut octets: Octets<'_>,
    family: Family,
    add_path: bool,
    peers: &[PeerId],
    table: &mut Table,
    count: &mut u64,
) -> Result<(), Malformed> {
    octets.take(4)?;
    let prefix = prefix(&mut octets, family)?;
    let entries = octets.u16()?;
    let encoding = Encoding { short_as: false, add_path: [false; 2], abbreviated: true };
    for _ in 0..entries {
        let peer = usize::from(octets.u16()?);
        octets.take(4)?;
        let path_id = if add_path { octets.u32()? } else { 0 };
        let length = octets.u16()?;
        let decoded = decode(octets.part(usize::from(length))?, encoding)?;
        if let Some(error) = decoded.error {
            return Err(error);
        }
        let Some(peer) = peers.get(peer) else { return Err(Malformed::Header) };
        let attributes = table.share(decoded.attributes);
        table.announce(*peer, prefix, path_id, &attributes);
        // The table may have refused the route.
        table.release(attributes);
        *count += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Limits;

    fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
        let mut record = vec![0, 0, 0, 9, 0, 13];
        record.extend(subtype.to_be_bytes());
        record.extend((body.len() as u32).to_be_bytes());
        record.extend(body);
        record
    }

    /// Two peers: 192.0.2.1 in AS 64500, and 2001:db8::1 in AS 4200000001.
    fn peers() -> Vec<u8> {
        let mut body = vec![198, 51, 100, 1, 0, 2, b'v', b'1', 0, 2];
        body.extend([0, 1, 1, 1, 1, 192, 0, 2, 1, 0xfb, 0xf4]);
        body.extend([3, 1, 1, 1, 2]);
        body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        body.extend(4_200_000_001u32.to_be_bytes());
        record(1, &body)
    }

    /// AS path 64500 64510, next hop 192.0.2.1, community 64500:120.
    const ATTRIBUTES: [u8; 32] = [
        0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0, 0, 0xfb, 0xfe, 0x40, 3, 4, 192, 0,
        2, 1, 0xc0, 8, 4, 0xfb, 0xf4, 0, 120, 0,
    ];

    fn attributes() -> &'static [u8] {
        &ATTRIBUTES[..31]
    }

    #[test]
    fn a_dump_by_hand_is_read() {
        let mut dump = peers();
        // 203.0.113.0/24 from peer 0.
        let mut body = vec![0, 0, 0, 0, 24, 203, 0, 113, 0, 1, 0, 0, 0, 0, 0, 5, 0, 31];
        body.extend(attributes());
        dump.extend(record(2, &body));
        // 203.0.0.0/16 twice from peer 0, with path identifiers 7 and 8.
        let mut body = vec![0, 0, 0, 1, 16, 203, 0, 0, 2];
        for id in [7, 8] {
            body.extend([0, 0, 0, 0, 0, 5, 0, 0, 0, id, 0, 31]);
            body.extend(attributes());
        }
        dump.extend(record(8, &body));
        // 2001:db8:1::/48 from peer 1, with an abbreviated MP_REACH_NLRI.
        let mut body =
            vec![0, 0, 0, 2, 48, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 1, 0, 1, 0, 0, 0, 5, 0, 29];
        body.extend([0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xfe, 0x80, 14, 17, 16]);
        body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        dump.extend(record(4, &body));
        let mut table = Table::new(Limits::default());
        let summary = load(&dump[..], "r1", &mut table).unwrap();
        let expected = Summary { records: 4, routes: 4, ..Summary::default() };
        assert_eq!(summary, expected);
        assert_eq!((table.routes(), table.distinct()), (4, 2));

        let (net, routes) = table.longest("203.0.113.9".parse().unwrap()).unwrap();
        assert_eq!(net.to_string(), "203.0.113.0/24");
        let got = &routes[0].attributes;
        assert_eq!((&*got.path, got.origin()), (&[64500, 64510][..], Some(64510)));
        assert_eq!(got.next_hop, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(&*got.communities, [64500 << 16 | 120]);
        let (net, routes) = table.longest("203.0.9.9".parse().unwrap()).unwrap();
        assert_eq!(net.to_string(), "203.0.0.0/16");
        assert_eq!(routes.iter().map(|r| r.path_id).collect::<Vec<_>>(), [7, 8]);
        let (_, routes) = table.longest("2001:db8:1::5".parse().unwrap()).unwrap();
        assert_eq!(routes[0].attributes.next_hop, Some("2001:db8::9".parse().unwrap()));
        assert_eq!(table.peer(routes[0].peer).unwrap().asn, 4_200_000_001);
        let own: Vec<_> = table.originated_by(64510).map(|net| net.to_string()).collect();
        assert_eq!(own, ["203.0.0.0/16", "203.0.113.0/24", "2001:db8:1::/48"]);
    }

    #[test]
    fn a_bad_record_costs_no_other_and_a_cut_one_is_told() {
        let mut dump = peers();
        // A prefix of 33 bits.
        dump.extend(record(2, &[0, 0, 0, 0, 33, 1, 2, 3, 4, 5, 0, 0]));
        let mut body = vec![0, 0, 0, 0, 8, 10, 0, 1, 0, 0, 0, 0, 0, 5, 0, 31];
        body.extend(attributes());
        dump.extend(record(2, &body));
        dump.extend(&record(2, &body)[..20]);
        let mut table = Table::new(Limits::default());
        let summary = load(&dump[..], "r1", &mut table).unwrap();
        assert_eq!((summary.routes, summary.malformed, summary.cut), (1, 1, true));
        let text = b"<html>this is no dump</html>";
        assert!(matches!(load(&text[..], "r1", &mut table), Err(MrtError::TooLong(1))));
    }
}
