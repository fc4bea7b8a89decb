//! Compares the sums of five captures of flow records with what `tshark` decodes from them: NetFlow
//! v5 and v9, IPFIX, sFlow, and all of these in a file that ends within a packet.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use forebay_plan::flows::capture::Capture;
use forebay_plan::flows::time::Window;
use forebay_plan::flows::{Collector, Grain, Reason};
use forebay_plan::input;
use forebay_plan::topology::{Router, Topology};
use forebay_test_support::{Need, skip};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The time of all packets in seconds: 2026-11-22T13:00:00Z.
const AT: u32 = 1_795_352_400;
/// The ports of NetFlow, IPFIX and sFlow in the captures, and tshark's names of their dissectors.
const PORTS: [(u16, &str); 3] = [(9995, "cflow"), (4739, "cflow"), (6343, "sflow")];
/// The interfaces of the exporter; each is the entry of one provider.
const INTERFACES: u32 = 4;
/// The groups of users: 10.0.0.0/16 and 2001:db8::/48 are group 0, and so on.
const GROUPS: u8 = 3;

/// Octets by interface and group, with sampling corrected.
type Sums = BTreeMap<(u32, u8), u64>;

struct Random(ChaCha8Rng);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0.next_u32() % most
    }

    fn interface(&mut self) -> u32 {
        1 + self.below(INTERFACES)
    }

    fn ipv4(&mut self) -> [u8; 4] {
        [10, self.below(u32::from(GROUPS)) as u8, 0, self.below(256) as u8]
    }

    fn ipv6(&mut self) -> [u8; 16] {
        let group = self.below(u32::from(GROUPS)) as u8;
        [0x20, 1, 0x0d, 0xb8, 0, group, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.below(256) as u8]
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn set(number: u16, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u16 + 4;
    [&number.to_be_bytes()[..], &length.to_be_bytes(), body].concat()
}

/// A template of octets, interface and a destination of this element and length.
fn template(number: u16, octets: u16, destination: (u16, u16)) -> Vec<u8> {
    let fields = [number, 3, 1, octets, 10, 4, destination.0, destination.1];
    fields.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// NetFlow v5 with records of IPv4.
fn netflow5(random: &mut Random, records: u32, sequence: u32) -> Vec<u8> {
    let mut message = words(&[5 << 16 | records, 5000, AT, 0, sequence, 0]);
    for _ in 0..records {
        message.extend([192, 0, 2, 9]);
        message.extend(random.ipv4());
        message.extend(words(&[0, random.interface() << 16, 10, 40 + random.below(1 << 20)]));
        message.extend(words(&[4000, 4500, 80 << 16 | 443, 6 << 8, 0, 0]));
    }
    message
}

/// Sets of records of IPv4, then IPv6, with octets in as many octets as the template says.
fn records(random: &mut Random, each: u32, wide: bool) -> Vec<u8> {
    let octets = |random: &mut Random| match wide {
        true => u64::from(random.0.next_u32()).to_be_bytes().to_vec(),
        false => random.below(1 << 24).to_be_bytes().to_vec(),
    };
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for _ in 0..each {
        four.extend(octets(random));
        four.extend(words(&[random.interface()]));
        four.extend(random.ipv4());
        six.extend(octets(random));
        six.extend(words(&[random.interface()]));
        six.extend(random.ipv6());
    }
    [set(300, &four), set(301, &six)].concat()
}

/// NetFlow v9 with the templates in the first message.
fn netflow9(random: &mut Random, sequence: u32) -> Vec<u8> {
    let mut sets = Vec::new();
    if sequence == 0 {
        sets = set(0, &[template(300, 4, (12, 4)), template(301, 4, (28, 16))].concat());
    }
    sets.extend(records(random, 5, false));
    let count = 10 + if sequence == 0 { 2 } else { 0 };
    [words(&[9 << 16 | count, 5000, AT, sequence, 77]), sets].concat()
}

/// IPFIX with the templates in the first message.
fn ipfix(random: &mut Random, sequence: u32) -> Vec<u8> {
    let mut sets = Vec::new();
    if sequence == 0 {
        sets = set(2, &[template(300, 8, (12, 4)), template(301, 8, (28, 16))].concat());
    }
    sets.extend(records(random, 6, true));
    let length = 16 + sets.len() as u32;
    [words(&[10 << 16 | length, AT, sequence, 5]), sets].concat()
}

/// Makes a datagram of sFlow with flow samples of IPv4 in Ethernet with a VLAN tag, then expanded
/// ones of IPv6.
fn sflow(random: &mut Random, sequence: u32) -> Vec<u8> {
    let mut datagram = words(&[5, 1, 0xc000_0201, 0, sequence, 5000, 6]);
    for sample in 0..6 {
        let six = sample >= 3;
        let (rate, length) = (1 + random.below(5000), 60 + random.below(1400));
        let ethernet = [[2; 6], [4; 6]].concat();
        let mut frame = [&ethernet[..], &[0x81, 0, 0, 9]].concat();
        if six {
            frame.extend([0x86, 0xdd]);
            // UDP behind 40 octets of header.
            frame.extend(words(&[0x6000_0000, (length - 40) << 16 | 17 << 8 | 64]));
            frame.extend([0x20; 16]);
            frame.extend(random.ipv6());
        } else {
            frame.extend([8, 0]);
            frame.extend(words(&[0x4500_0000 | length, 0x4000, 64 << 24 | 17 << 16]));
            frame.extend([192, 0, 2, 9]);
            frame.extend(random.ipv4());
        }
        frame.extend(words(&[443 << 16 | 443, (length - 40) << 16]));
        let whole = frame.len() as u32;
        let mut record = words(&[1, length + 18 + 4, 4, whole]);
        record.extend(&frame);
        record.resize(record.len().next_multiple_of(4), 0);
        let (number, interface) = (sequence * 6 + sample, random.interface());
        let fixed = match six {
            true => words(&[number, 0, interface, rate, 9, 0, 0, interface, 0, 9, 1]),
            false => words(&[number, interface, rate, 9, 0, interface, 9, 1]),
        };
        let body = [fixed, words(&[1, record.len() as u32]), record].concat();
        datagram.extend(words(&[if six { 3 } else { 1 }, body.len() as u32]));
        datagram.extend(body);
    }
    datagram
}

/// A capture of raw IP with these datagrams, each to its port.
fn capture(datagrams: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut file =
        [&[0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4][..], &words(&[0, 0, 65_535, 101])].concat();
    for (port, datagram) in datagrams {
        let length = datagram.len() as u32 + 28;
        file.extend(words(&[AT, 0, length, length]));
        file.extend(words(&[0x4500_0000 | length, 0x4000, 64 << 24 | 17 << 16]));
        file.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend(words(&[40_000 << 16 | u32::from(*port), (length - 20) << 16]));
        file.extend(datagram);
    }
    file
}

/// Returns the sums that Forebay has of a capture, and whether the file is cut.
fn ours(file: &[u8]) -> (Sums, bool) {
    let names = (0..GROUPS).map(|group| format!("R{group}"));
    let routers = names.map(|name| Router { name, serves: true }).collect();
    let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let numbers = 1..=INTERFACES;
    let provider =
        |n: u32| format!("[[provider]]\nname = \"p{n}\"\nentry = [{{ router = \"R0\" }}]\n");
    let text: String = numbers.clone().map(provider).collect();
    let providers = input::providers("p".as_ref(), &text, &topology).unwrap().providers;
    let prefix = |g: u8| format!("10.{g}.0.0/16,R{g}\n2001:db8:{g}::/48,R{g}\n");
    let text = format!("prefix,router\n{}", (0..GROUPS).map(prefix).collect::<String>());
    let prefixes = input::prefixes("x".as_ref(), &text, &topology).unwrap();
    let interface = |n: u32| format!("{{ index = {n}, provider = \"p{n}\" }},");
    let text = format!(
        "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"R0\"\ninterface = [{}]\n",
        numbers.map(interface).collect::<String>()
    );
    let table = input::exporters("e".as_ref(), &text, &providers, &topology).unwrap();
    let mut collector = Collector::new(table, &prefixes, Grain::Router);
    // A window of 8 s, so that bits per second are octets.
    let at = i64::from(AT) * 1000;
    let window = Window { begin: at - 4000, end: at + 4000 };
    collector.begin(window.begin, window.length(), 1);
    let mut capture = Capture::new(file).unwrap();
    while let Some(datagram) = capture.next_datagram().unwrap() {
        collector.datagram(datagram.from, datagram.octets, datagram.at, &mut |t| panic!("{t:?}"));
    }
    for reason in Reason::ALL {
        assert_eq!(collector.counted(reason).times, 0, "{reason:?}");
    }
    assert_eq!(collector.lost(0), 0.0);
    let measured = collector.demands(window);
    let sums = measured
        .iter()
        .map(|m| ((m.place.provider + 1, m.router.0 as u8), m.rate.round() as u64))
        .collect();
    (sums, capture.cut.is_some())
}

/// The fields of tshark that the sums come from: those of NetFlow and IPFIX, then of sFlow. Those
/// of sampled packets follow those of the packet around them.
const FIELDS: [&str; 12] = [
    "cflow.octets",
    "cflow.inputint",
    "cflow.dstaddr",
    "cflow.dstaddrv6",
    "sflow.flow_sample.sampling_rate",
    "sflow.flow_sample.input_interface",
    "sflow.flow_sample.input_interface_value",
    "ip.len",
    "ip.dst",
    "ipv6.plen",
    "ipv6.dst",
    "udp.dstport",
];

fn group(address: &str) -> u8 {
    match address.parse().unwrap() {
        IpAddr::V4(address) => Ipv4Addr::octets(&address)[1],
        IpAddr::V6(address) => Ipv6Addr::octets(&address)[5],
    }
}

/// Adds what tshark found in a packet: the values of each field.
fn add(sums: &mut Sums, fields: &BTreeMap<&str, Vec<&str>>) {
    let texts = |name: &str| fields[name].iter().copied();
    let numbers = |name: &str| texts(name).map(|n| n.parse::<u64>().unwrap());
    let (octets, interfaces, to, rates): (Vec<u64>, Vec<u64>, Vec<&str>, Vec<u64>);
    if fields["udp.dstport"][0] == "6343" {
        rates = numbers("sflow.flow_sample.sampling_rate").collect();
        let expanded = numbers("sflow.flow_sample.input_interface_value");
        interfaces = numbers("sflow.flow_sample.input_interface").chain(expanded).collect();
        // tshark gives the payload of IPv6, to which its header is added.
        let six = numbers("ipv6.plen").map(|n| n + 40);
        octets = numbers("ip.len").skip(1).chain(six).collect();
        to = texts("ip.dst").skip(1).chain(texts("ipv6.dst")).collect();
    } else {
        octets = numbers("cflow.octets").collect();
        interfaces = numbers("cflow.inputint").collect();
        to = texts("cflow.dstaddr").chain(texts("cflow.dstaddrv6")).collect();
        rates = vec![1; octets.len()];
    }
    let counts = [rates.len(), interfaces.len(), to.len()];
    assert!(!octets.is_empty() && counts == [octets.len(); 3], "{fields:?}");
    for (at, octets) in octets.into_iter().enumerate() {
        *sums.entry((interfaces[at] as u32, group(to[at]))).or_default() += octets * rates[at];
    }
}

/// Returns the sums by tshark's decoding.
fn theirs(file: &Path) -> Sums {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    for (port, dissector) in PORTS {
        command.args(["-d", &format!("udp.port=={port},{dissector}")]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut sums = Sums::new();
    for line in text.lines() {
        let columns = line
            .split('|')
            .map(|column| column.split(',').filter(|value| !value.is_empty()).collect());
        let fields = FIELDS.into_iter().zip(columns).collect();
        add(&mut sums, &fields);
    }
    sums
}

#[test]
fn sums_of_captures_are_those_of_tshark() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(Need::Program, "tshark is not installed: apt-get install tshark");
    }
    let mut random = Random(ChaCha8Rng::seed_from_u64(67));
    let random = &mut random;
    let all = |kind: usize, random: &mut Random| -> Vec<(u16, Vec<u8>)> {
        (0..20)
            .map(|n| match kind {
                0 => (9995, netflow5(random, 30, n * 30)),
                1 => (9995, netflow9(random, n)),
                // The number of records before the message: 12 in each.
                2 => (4739, ipfix(random, n * 12)),
                _ => (6343, sflow(random, n)),
            })
            .collect()
    };
    let dir = std::env::temp_dir().join(format!("fb-tshark-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let mut compared = Vec::new();
    for (name, kinds) in [
        ("netflow5", &[0][..]),
        ("netflow9", &[1]),
        ("ipfix", &[2]),
        ("sflow", &[3]),
        ("mixed", &[0, 1, 2, 3]),
    ] {
        let datagrams: Vec<_> = kinds.iter().flat_map(|kind| all(*kind, random)).collect();
        let mut file = capture(&datagrams);
        let whole = name != "mixed";
        if !whole {
            file.truncate(file.len() - 100);
        }
        let path = dir.join(format!("{name}.pcap"));
        fs::write(&path, &file).unwrap();
        let (ours, cut) = ours(&file);
        compared.push((name, ours, theirs(&path), cut != whole));
    }
    fs::remove_dir_all(&dir).unwrap();
    for (name, ours, theirs, ends) in compared {
        assert_eq!(ours.len(), usize::from(GROUPS) * INTERFACES as usize, "{name}");
        assert_eq!(ours, theirs, "{name}");
        assert!(ends, "{name}: whether the capture is cut");
        let sum: u64 = ours.values().sum();
        println!("{name}: {sum} octets in {} sums", ours.len());
    }
}
