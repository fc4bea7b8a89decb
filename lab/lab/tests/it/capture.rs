//! Tests of captures of simulated runs, read with a parser of others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forebay_lab::engine::{Engine, EngineError, Interrupt, Job};
use forebay_lab::results::Run;
use forebay_lab::scenario::{Scenario, parse};
use forebay_lab::sim_engine::{Capturing, MAX_CAPTURE, Sim};
use forebay_records::packet_log::{Fate, Record};
use forebay_units::Nanos;
use pcap_parser::{Block, OptionCode, PcapNGOption, parse_block_le, parse_sectionheaderblock_le};

/// Requests with handshakes and ECN, datagrams of all kinds, cross traffic, and a lossy bottleneck.
const ALL: &str = r#"name = "all"
warmup = "1 s"
duration = "2 s"
seeds = [3]
ecn = true
[path]
rate = "12 Mbit/s"
rtt = "20 ms"
queue = { kind = "fifo", limit = "1 bdp" }
loss = "0.1 %"
[path.back]
rate = "1 Mbit/s"
limit = "20 kB"
[[traffic]]
name = "web"
kind = "requests"
load = "30 %"
max_size = "100 kB"
connections = 50
new_connections = true
class = 2
[[traffic]]
name = "bulk"
kind = "bulk"
flows = 4
[[traffic]]
name = "loops"
kind = "udp_rr"
flows = 2
[[traffic]]
name = "others"
kind = "cbr"
rate = "1 Mbit/s"
from = "cross"
[[arm]]
name = "forward"
sendbox = "forward"
queue = { kind = "fq_codel", limit = "100 packets", ecn = true }
[[arm]]
name = "box"
sendbox = { policy = "sfq", limit = "30 packets" }
[[arm]]
name = "large"
sendbox = "forward"
queue = { kind = "fifo", limit = "10000 packets" }
"#;

fn scenario(text: &str) -> Scenario {
    parse("all.toml".as_ref(), text).unwrap().cells.remove(0)
}

/// A directory that is removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("fb-capture-{name}-{}", std::process::id())))
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(files) = std::fs::read_dir(&self.0) else { return Vec::new() };
        files.map(|file| file.unwrap().path()).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A captured packet.
struct Packet {
    time: u64,
    bytes: Vec<u8>,
    length: u32,
    comment: String,
}

/// A capture by the names of its interfaces: the packets, and the counts of packets and of missing
/// ones.
#[derive(Default)]
struct Capture {
    packets: BTreeMap<String, Vec<Packet>>,
    counts: BTreeMap<String, [u64; 2]>,
}

fn option<'a>(options: &'a [PcapNGOption<'_>], code: u16) -> &'a [u8] {
    let option = options.iter().find(|o| o.code == OptionCode(code)).unwrap();
    option.as_bytes().unwrap()
}

fn read(path: &Path) -> Capture {
    let file = std::fs::read(path).unwrap();
    let (mut rest, _) = parse_sectionheaderblock_le(&file).unwrap();
    let (mut capture, mut names) = (Capture::default(), Vec::new());
    while !rest.is_empty() {
        let (next, block) = parse_block_le(rest).unwrap();
        rest = next;
        match block {
            Block::InterfaceDescription(of) => {
                assert_eq!((of.linktype.0, of.if_tsresol), (1, 9));
                let name = String::from_utf8(option(&of.options, 2).to_vec()).unwrap();
                capture.packets.insert(name.clone(), Vec::new());
                names.push(name);
            }
            Block::EnhancedPacket(packet) => {
                let of = capture.packets.get_mut(&names[packet.if_id as usize]).unwrap();
                of.push(Packet {
                    time: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    bytes: packet.data[..packet.caplen as usize].to_vec(),
                    length: packet.origlen,
                    comment: String::from_utf8(option(&packet.options, 1).to_vec()).unwrap(),
                });
            }
            Block::InterfaceStatistics(of) => {
                let count =
                    |code| u64::from_le_bytes(option(&of.options, code).try_into().unwrap());
                let name = names[of.if_id as usize].clone();
                capture.counts.insert(name, [count(4), count(5)]);
            }
            other => panic!("{other:?}"),
        }
    }
    capture
}

fn run(scenario: &Scenario, arm: &str, name: &str) -> (Run, Capture) {
    let dir = Dir::new(name);
    let arm = scenario.arms.iter().find(|a| a.name == arm).unwrap();
    let engine = Capturing::new(&dir.0, &[], MAX_CAPTURE);
    let job = Job { scenario, arm, seed: 3 };
    let run = engine.run(&job, &Interrupt::default(), &mut |_| {}).unwrap();
    assert!(engine.take_cut().is_empty());
    assert_eq!(run, Sim.run(&job, &Interrupt::default(), &mut |_| {}).unwrap(), "nothing changes");
    let [file] = &dir.files()[..] else { panic!("one file") };
    (run, read(file))
}

/// Compares the packets of a queue and its drops with the records of the run.
fn compare(records: &[Record], capture: &Capture, place: &str) {
    let epoch = 946_684_800_000_000_000;
    for (fate, name) in [(Fate::Sent, place.to_owned()), (Fate::Dropped, format!("{place} drops"))]
    {
        let expected: Vec<_> = records.iter().filter(|r| r.fate == fate).collect();
        let packets = &capture.packets[&name];
        assert_eq!(packets.len(), expected.len(), "{name}");
        assert_eq!(capture.counts[&name], [expected.len() as u64, 0], "{name}");
        for (record, packet) in expected.iter().zip(packets) {
            assert_eq!(packet.time, epoch + record.time.0);
            assert_eq!(u64::from(packet.length), record.len.0);
            let comment = &packet.comment;
            let wait = format!(" wait_ms={:.6}", record.sojourn.0 as f64 / 1e6);
            assert!(comment.contains(&wait), "{comment}: {wait}");
            assert_eq!(comment.contains(" mark"), record.marked, "{comment}");
            assert_eq!(comment.contains(" drop="), fate == Fate::Dropped, "{comment}");
            // The mark is in the header too.
            assert!(!record.marked || packet.bytes[15] & 0b11 == 0b11, "{comment}");
        }
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum()
}

fn folds_to_ones(mut sum: u32) -> bool {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum == 0xFFFF
}

#[test]
fn a_capture_has_every_packet_of_the_records() {
    let scenario = scenario(ALL);
    let (run, capture) = run(&scenario, "forward", "forward");
    let names: Vec<_> = capture.packets.keys().map(String::as_str).collect();
    assert_eq!(names, ["back", "back drops", "bottleneck", "bottleneck drops"]);
    compare(&run.bottleneck, &capture, "bottleneck");
    let comments = || capture.packets.values().flatten().map(|p| p.comment.as_str());
    let has = |word: &str| comments().any(|c| c.contains(word));
    for traffic in ["web", "bulk", "loops", "others"] {
        assert!(has(&format!("traffic={traffic} flow=")), "{traffic}");
    }
    assert!(has(" mark"));
    assert!(has(" lost"));
    let lost = comments().filter(|c| c.ends_with(" lost")).count() as u64;
    let link = run.hops.iter().find(|h| h.hop == "link").unwrap();
    assert_eq!(lost, link.lost);
    assert!(!capture.packets["back"].is_empty());
}

#[test]
fn a_box_has_interfaces_of_its_own() {
    let scenario = scenario(ALL);
    let (run, capture) = run(&scenario, "box", "box");
    compare(&run.bottleneck, &capture, "bottleneck");
    compare(&run.sendbox, &capture, "sendbox");
    let drops = &capture.packets["sendbox drops"];
    assert!(!drops.is_empty());
    assert!(drops.iter().all(|p| p.comment.contains("drop=packet-limit")), "{}", drops[0].comment);
    let sendbox = &capture.packets["sendbox"];
    let class = |traffic: &str| {
        let own = sendbox.iter().find(|p| p.comment.contains(traffic)).unwrap();
        own.comment.split(" class=").nth(1).unwrap()[..1].to_owned()
    };
    assert_eq!(["traffic=web", "traffic=bulk"].map(class), ["2", "1"]);
    let back = &capture.packets["back"];
    assert!(back.iter().any(|p| p.comment.starts_with("message=feedback ")));
}

/// Lengths and checksums of every header, which is not read with the code that wrote it.
#[test]
fn headers_are_valid_in_both_versions() {
    let ipv6 = ALL.replace("ecn = true\n", "ecn = true\nip = 6\n");
    for (text, version, header) in [(ALL, 4, 20), (&ipv6, 6, 40)] {
        let (_, capture) = run(&scenario(text), "box", &format!("v{version}"));
        let mut transports = BTreeSet::new();
        for packet in capture.packets.values().flatten() {
            let ip = &packet.bytes[14..];
            assert_eq!(ip[0] >> 4, version);
            let word =
                |bytes: &[u8], at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
            let (protocol, addresses, payload) = match version {
                4 => {
                    assert!(folds_to_ones(sum(&ip[..20])));
                    assert_eq!(word(ip, 2), packet.length - 14);
                    (ip[9], &ip[12..20], word(ip, 2) - 20)
                }
                _ => {
                    assert_eq!(word(ip, 4), packet.length - 54);
                    (ip[6], &ip[8..40], word(ip, 4))
                }
            };
            let transport = &ip[header..];
            match protocol {
                6 => assert_eq!(usize::from(transport[12] >> 4) * 4, transport.len()),
                17 => assert_eq!((word(transport, 4), transport.len()), (payload, 8)),
                other => panic!("{other}"),
            }
            // The payload, which is left out, is zero.
            let all = sum(addresses) + u32::from(protocol) + payload + sum(transport);
            assert!(folds_to_ones(all), "{:02x?}", packet.bytes);
            transports.insert(protocol);
        }
        assert_eq!(transports, [6, 17].into());
    }
}

/// The bytes of each answer, from the SYN to the FIN, over a queue that drops nothing.
#[test]
fn sequence_numbers_cover_a_connection_without_gaps() {
    let text = ALL.replace("loss = \"0.1 %\"\n", "");
    let (_, capture) = run(&scenario(&text), "large", "numbers");
    assert!(capture.packets["bottleneck drops"].is_empty());
    let mut flows: BTreeMap<(&[u8], &[u8]), u32> = BTreeMap::new();
    let mut closed = 0;
    for packet in &capture.packets["bottleneck"] {
        if !packet.comment.contains("traffic=web") {
            continue;
        }
        let (ends, tcp) = (&packet.bytes[26..38], &packet.bytes[34..]);
        let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
        let payload = packet.length - packet.bytes.len() as u32;
        let [fin, syn] = [1, 2].map(|flag| tcp[13] & flag != 0);
        let next = flows.entry((&ends[..8], &ends[8..])).or_insert(0);
        // A retransmission after a timeout may be needless.
        assert!(seq <= *next, "{seq} follows {next}");
        if seq == *next {
            *next = seq + payload + u32::from(fin) + u32::from(syn);
            closed += u32::from(fin);
        }
    }
    assert!(closed > 20, "{closed}");
}

#[test]
fn a_capture_is_cut_at_its_largest_size_and_says_so() {
    let dir = Dir::new("cut");
    let scenario = scenario(ALL);
    let job = Job { scenario: &scenario, arm: &scenario.arms[1], seed: 3 };
    let engine = Capturing::new(&dir.0, &[], 50_000);
    let run = engine.run(&job, &Interrupt::default(), &mut |_| {}).unwrap();
    let [cut] = &engine.take_cut()[..] else { panic!("one capture") };
    let capture = read(&cut.path);
    let size = std::fs::metadata(&cut.path).unwrap().len();
    assert!((50_000..51_000).contains(&size), "{size}");
    let written = capture.packets.values().map(Vec::len).sum::<usize>() as u64;
    let [packets, missing] = [0, 1].map(|n| capture.counts.values().map(|c| c[n]).sum::<u64>());
    assert_eq!((packets - missing, missing), (written, cut.missing));
    let of = |name: &str| capture.counts[name][0] + capture.counts[&format!("{name} drops")][0];
    assert_eq!(of("bottleneck"), run.bottleneck.len() as u64);
    assert_eq!(of("sendbox"), run.sendbox.len() as u64);
}

#[test]
fn a_run_that_ends_early_leaves_no_capture() {
    let dir = Dir::new("early");
    let scenario = scenario(ALL);
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 3 };
    let interrupt = Interrupt::default();
    let engine = Capturing::new(&dir.0, &[], MAX_CAPTURE);
    let mut files = 0;
    let result = engine.run(&job, &interrupt, &mut |progress| {
        if progress.elapsed > Nanos::from_secs(1) {
            files = dir.files().len();
            interrupt.raise();
        }
    });
    assert!(matches!(result, Err(EngineError::Interrupted)));
    assert_eq!((files, dir.files().len()), (1, 0));
}

#[test]
fn a_capture_that_cannot_be_written_fails_the_run() {
    let dir = Dir::new("file");
    std::fs::write(&dir.0, "").unwrap();
    let scenario = scenario(ALL);
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 3 };
    let engine = Capturing::new(&dir.0, &[], MAX_CAPTURE);
    let error = engine.run(&job, &Interrupt::default(), &mut |_| {}).unwrap_err().to_string();
    std::fs::remove_file(&dir.0).unwrap();
    assert!(error.starts_with("cannot write the capture "), "{error}");
}
