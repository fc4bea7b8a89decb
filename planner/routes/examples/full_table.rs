//! Loads a synthetic full table from MRT, then takes an update storm by BMP, and prints times and
//! memory.
//!
//! `cargo run --release -p forebay-routes --example full_table -- [RECORDS] [UPDATES]`
//!
//! Prefix lengths are about those of the global IPv4 table, of which three fifths are /24. AS paths
//! have two to nine members, mostly four or five, and about six prefixes share one path. Both are
//! rounded from public statistics of the global table, and are no measurement. A tenth of
//! the records repeats a prefix.

use std::error::Error;
use std::io::Read;
use std::time::{Duration, Instant};

use forebay_routes::bmp::Session;
use forebay_routes::mrt;
use forebay_routes::table::{Limits, Table};

/// The share of each prefix length, in percent.
const LENGTHS: [(u8, u64); 9] =
    [(24, 60), (23, 10), (22, 11), (21, 5), (20, 5), (19, 3), (18, 2), (17, 1), (16, 3)];

/// A generator of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn prefix(number: u64) -> Vec<u8> {
    let mut draw = Random(number);
    let mut percent = draw.below(100);
    let mut bits = 24;
    for (length, share) in LENGTHS {
        bits = length;
        if percent < share {
            break;
        }
        percent -= share;
    }
    // Consecutive numbers of /24s, from 1.0.0.0 on. Shorter prefixes have several numbers, so a
    // tenth of the records repeats a prefix.
    let address = ((1 << 24) + (number << 8)) as u32 & (u32::MAX << (32 - u32::from(bits)));
    let mut octets = vec![bits];
    octets.extend(&address.to_be_bytes()[..usize::from(bits).div_ceil(8)]);
    octets
}

fn attributes(draw: &mut Random) -> Vec<u8> {
    let hops = 2 + (draw.below(3) + draw.below(3) + draw.below(4)) as u8;
    let mut octets = vec![0x40, 1, 1, 0, 0x40, 2, 2 + 4 * hops, 2, hops];
    octets.extend(64_500u32.to_be_bytes());
    for _ in 1..hops {
        octets.extend((1 + draw.below(400_000) as u32).to_be_bytes());
    }
    octets.extend([0x40, 3, 4, 192, 0, 2, 1]);
    let communities = draw.below(6) as u8;
    if communities > 0 {
        octets.extend([0xc0, 8, 4 * communities]);
        for _ in 0..communities {
            octets.extend((draw.below(1 << 32) as u32).to_be_bytes());
        }
    }
    octets
}

/// A dump that is made while it is read, so that it takes no memory.
struct Dump {
    routes: u64,
    made: u64,
    draw: Random,
    attributes: Vec<u8>,
    ready: Vec<u8>,
    read: usize,
}

impl Dump {
    fn new(routes: u64) -> Self {
        let mut body = vec![198, 51, 100, 1, 0, 0, 0, 1];
        body.extend([2, 1, 1, 1, 1, 192, 0, 2, 1]);
        body.extend(64_500u32.to_be_bytes());
        let ready = record(1, &body);
        Self { routes, made: 0, draw: Random(1), attributes: Vec::new(), ready, read: 0 }
    }
}

fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0, 0, 0, 0, 13];
    record.extend(subtype.to_be_bytes());
    record.extend((body.len() as u32).to_be_bytes());
    record.extend(body);
    record
}

impl Read for Dump {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.ready.len() {
            if self.made == self.routes {
                return Ok(0);
            }
            if self.made == 0 || self.draw.below(6) == 0 {
                self.attributes = attributes(&mut self.draw);
            }
            let mut body = vec![0, 0, 0, 0];
            body.extend(prefix(self.made));
            body.extend([0, 1, 0, 0, 0, 0, 0, 0]);
            body.extend((self.attributes.len() as u16).to_be_bytes());
            body.extend(&self.attributes);
            (self.ready, self.read) = (record(2, &body), 0);
            self.made += 1;
        }
        let count = into.len().min(self.ready.len() - self.read);
        into[..count].copy_from_slice(&self.ready[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    message.extend((body.len() as u16 + 19).to_be_bytes());
    message.push(kind);
    message.extend(body);
    message
}

fn bmp(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut peer = vec![0; 22];
    peer.extend([192, 0, 2, 1]);
    peer.extend(64_500u32.to_be_bytes());
    peer.extend([0; 12]);
    let mut message = vec![3];
    message.extend(((peer.len() + body.len()) as u32 + 6).to_be_bytes());
    message.push(kind);
    message.extend(peer);
    message.extend(body);
    message
}

/// Returns the highest resident memory of this process so far, in MB.
fn memory() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? / 1000)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let routes = arguments.next().map_or(Ok(1_000_000), |a| a.parse())?;
    let updates: u64 = arguments.next().map_or(Ok(100_000), |a| a.parse())?;
    let mut table = Table::new(Limits::default());
    let start = Instant::now();
    let summary = mrt::load(Dump::new(routes), "r1", &mut table)?;
    println!(
        "dump: {} records, {} routes in the table, {} different attributes, {:.2} s, {} MB",
        summary.records,
        table.routes(),
        table.distinct(),
        start.elapsed().as_secs_f64(),
        memory()?
    );

    // The same table by BMP, from another router, and then the storm.
    let mut session = Session::new("r2", Duration::ZERO);
    let mut open = vec![4, 0xfb, 0xf4, 0, 90, 1, 1, 1, 1, 0];
    open = bgp(1, &open);
    let up = [vec![0; 20], open.clone(), open].concat();
    session.receive(Duration::ZERO, &bmp(3, &up), &mut table)?;
    let mut draw = Random(2);
    let mut known = vec![false; routes as usize];
    let mut present = 0;
    let storm: Vec<Vec<u8>> = (0..updates)
        .map(|_| {
            let number = draw.below(routes);
            let prefix = prefix(number);
            let withdraw = std::mem::replace(&mut known[number as usize], true);
            let mut body = Vec::new();
            if withdraw && draw.below(2) == 0 {
                known[number as usize] = false;
                present -= 1;
                body.extend((prefix.len() as u16).to_be_bytes());
                body.extend(&prefix);
                body.extend([0, 0]);
            } else {
                present += u64::from(!withdraw);
                let attributes = attributes(&mut draw);
                body.extend([0, 0]);
                body.extend((attributes.len() as u16).to_be_bytes());
                body.extend(attributes);
                body.extend(&prefix);
            }
            bmp(0, &bgp(2, &body))
        })
        .collect();
    let start = Instant::now();
    for update in &storm {
        session.receive(Duration::ZERO, update, &mut table)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let counts = session.counts();
    println!(
        "storm: {} messages, {} announced, {} withdrawn, {} unread, {seconds:.2} s, {} MB",
        counts.messages,
        counts.announced,
        counts.withdrawn,
        counts.malformed + counts.unknown + table.refused(),
        memory()?
    );
    let start = Instant::now();
    session.close(&mut table);
    println!("closed: {} routes left, {:.2} s", table.routes(), start.elapsed().as_secs_f64());
    Ok(())
}
