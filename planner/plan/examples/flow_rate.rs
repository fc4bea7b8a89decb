//! Prints how many flow records a second one core takes: datagrams of NetFlow v5 with 30 records,
//! and messages of goflow2 with one. Sockets and brokers are not part of it.
//!
//! ```sh
//! cargo run --release -p forebay-plan --example flow_rate
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example of a measurement")]

use std::net::IpAddr;
use std::time::Instant;

use forebay_plan::flows::relayed::Relay;
use forebay_plan::flows::{Collector, Grain};
use forebay_plan::input;
use forebay_plan::topology::{Router, Topology};

/// The records of a run.
const RECORDS: u32 = 3_000_000;
/// The records of a datagram.
const IN_DATAGRAM: u32 = 30;
/// The prefixes of users.
const PREFIXES: u32 = 10_000;
const NOW: u32 = 1_795_352_400;

fn collector() -> Collector {
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let text = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }]\n";
    let providers = input::providers("p".as_ref(), text, &topology).unwrap().providers;
    let mut text = "prefix,router\n".to_owned();
    for n in 0..PREFIXES {
        text += &format!("10.{}.{}.0/24,{}\n", n / 256, n % 256, ["A", "B"][n as usize % 2]);
    }
    let prefixes = input::prefixes("x".as_ref(), &text, &topology).unwrap();
    let text = "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\n\
                interface = [{ index = 1, provider = \"x\" }]\n";
    let exporters = input::exporters("e".as_ref(), text, &providers, &topology).unwrap();
    let mut collector = Collector::new(exporters, &prefixes, Grain::Router);
    // As in the service: a window of five minutes in 60 bins, and some for the delay.
    collector.begin((i64::from(NOW) - 360) * 1000, 5000, 75);
    collector
}

/// The destination of a record.
fn destination(n: u32) -> [u8; 4] {
    let n = n.wrapping_mul(7919) % PREFIXES;
    [10, (n / 256) as u8, (n % 256) as u8, 9]
}

fn datagram(first: u32) -> Vec<u8> {
    let mut octets = vec![0, 5, 0, IN_DATAGRAM as u8];
    octets.extend([100_000, NOW, 0, first].map(u32::to_be_bytes).concat());
    octets.extend([0, 0, 0x40, 100]);
    for n in first..first + IN_DATAGRAM {
        octets.extend([198, 51, 100, 9]);
        octets.extend(destination(n));
        octets.extend([0, 0, 0, 0, 0, 1, 0, 9]);
        octets.extend([10, 15_000, 60_000, 99_000].map(u32::to_be_bytes).concat());
        octets.extend([0; 16]);
    }
    octets
}

fn varint(into: &mut Vec<u8>, field: u32, value: u64) {
    for mut part in [u64::from(field << 3), value] {
        while part >= 0x80 {
            into.push(part as u8 | 0x80);
            part >>= 7;
        }
        into.push(part as u8);
    }
}

fn message(n: u32) -> Vec<u8> {
    let mut octets = Vec::new();
    let nanos = |seconds: u32| u64::from(NOW - seconds) * 1_000_000_000;
    for (field, value) in [(1, 2), (3, 100), (9, 15_000), (10, 10), (18, 1), (19, 9), (20, 6)] {
        varint(&mut octets, field, value);
    }
    for (field, value) in
        [(21, 443), (22, 50_000), (110, nanos(0)), (111, nanos(40)), (112, nanos(1))]
    {
        varint(&mut octets, field, value);
    }
    for (field, address) in [(6, [198, 51, 100, 9]), (7, destination(n)), (11, [192, 0, 2, 1])] {
        octets.extend([field << 3 | 2, 4]);
        octets.extend(address);
    }
    octets
}

fn main() {
    let exporter: IpAddr = [192, 0, 2, 1].into();
    let datagrams: Vec<_> = (0..1000).map(|n| datagram(n * IN_DATAGRAM)).collect();
    let messages: Vec<_> = (0..30_000).map(message).collect();
    let mut direct = collector();
    let begun = Instant::now();
    for octets in datagrams.iter().cycle().take((RECORDS / IN_DATAGRAM) as usize) {
        direct.datagram(exporter, octets, i64::from(NOW) * 1000, &mut |t| panic!("{t:?}"));
    }
    report("NetFlow v5 datagrams", &direct, begun);
    let mut relayed = collector();
    let begun = Instant::now();
    for octets in messages.iter().cycle().take(RECORDS as usize) {
        relayed.relayed(Relay::Goflow2, octets, &mut |t| panic!("{t:?}"));
    }
    report("messages of goflow2", &relayed, begun);
}

fn report(what: &str, collector: &Collector, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let end = i64::from(NOW) * 1000;
    let window = collector.last(end, 300_000);
    let octets: f64 = collector.demands(window).iter().map(|m| m.rate * 300.0 / 8.0).sum();
    let expected = f64::from(RECORDS) * 15_000.0 * 100.0;
    let share = octets / expected * 100.0;
    println!("{what}: {:.0} records/s, {share:.3} % of the octets", f64::from(RECORDS) / seconds);
}
