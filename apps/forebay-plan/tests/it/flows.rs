//! Tests `forebay plan flows`: flow records from files, from a capture and from the network, and
//! errors in them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_test_support::Dir;
use serde_json::Value;

const TOPOLOGY: &str = r#"{"directed": true, "name": "two", "nodes": [{"id": 1, "label": "in1"}, {"id": 2, "label": "in2"}, {"id": 3, "label": "out"}],
"links": [{"source": 1, "target": 3, "capacity": "100 Mbit/s"},
{"source": 2, "target": 3, "capacity": "100 Mbit/s"}]}"#;
const PROVIDERS: &str =
    "[[provider]]\nname = \"video\"\nentry = [{ router = \"in1\" }, { router = \"in2\" }]\n";
const PREFIXES: &str = "prefix,router\n10.0.0.0/9,out\n10.128.0.0/9,out\n";
const EXPORTERS: &str = "[[exporter]]\naddress = \"127.0.0.1\"\nrouter = \"in1\"\n\
interface = [{ index = 1, provider = \"video\" }]\n";
/// The export time of the messages: 2026-11-22T13:00:00Z.
const AT: u32 = 1_795_352_400;

fn files(dir: &Dir) {
    for (name, text) in
        [("isp.json", TOPOLOGY), ("p.toml", PROVIDERS), ("x.csv", PREFIXES), ("e.toml", EXPORTERS)]
    {
        dir.file(name, text, 0o644);
    }
}

fn command(dir: &Dir, more: &[&str]) -> Command {
    let file = |name: &str| dir.0.join(name).to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
    command.current_dir(&dir.0).args(["flows", "--topology", &file("isp.json")]);
    command.args(["--providers", &file("p.toml"), "--prefixes", &file("x.csv")]);
    command.args(["--exporters", &file("e.toml")]).args(more);
    command
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn set(number: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 4).unwrap();
    [&number.to_be_bytes()[..], &length.to_be_bytes(), body].concat()
}

/// A template of octets, packets, interface, IPv4 destination, start and end in milliseconds.
fn template() -> Vec<u8> {
    let fields = [(1_u16, 8_u16), (2, 4), (10, 4), (12, 4), (152, 8), (153, 8)];
    let fields: Vec<u8> =
        fields.iter().flat_map(|(n, l)| [n.to_be_bytes(), l.to_be_bytes()].concat()).collect();
    set(2, &[&[1, 0, 0, 6][..], &fields].concat())
}

fn flow(octets: u64, input: u32, to: [u8; 4], start: u64, end: u64) -> Vec<u8> {
    let times = [start, end].map(u64::to_be_bytes).concat();
    let head = [&octets.to_be_bytes()[..], &100_u32.to_be_bytes(), &input.to_be_bytes()].concat();
    [head, to.to_vec(), times].concat()
}

fn ipfix(at: u32, sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let body = sets.concat();
    let length = u16::try_from(16 + body.len()).unwrap();
    let words = [at, sequence, 0].map(u32::to_be_bytes).concat();
    [&[0, 10][..], &length.to_be_bytes(), &words, &body].concat()
}

/// Two minutes of 8 Mbit/s from interface 1, sampled 1 in 100, with every second message lost, and
/// some traffic from interface 5.
fn two_minutes() -> Vec<Vec<u8>> {
    let options = set(3, &[1, 1, 0, 2, 0, 1, 0, 149, 0, 4, 0, 34, 0, 4]);
    let said = set(257, &[0, 0, 0, 0, 0, 0, 0, 100]);
    let end = u64::from(AT) * 1000;
    let begin = end - 180_000;
    // 8 Mbit/s are 1 MB each second, of which 1 in 100 is sampled.
    let flows = set(
        256,
        &[
            flow(900_000, 1, [10, 0, 0, 1], begin, begin + 90_000),
            flow(900_000, 1, [10, 200, 0, 1], begin + 90_000, end),
            flow(50_000, 5, [10, 0, 0, 1], begin, end),
        ]
        .concat(),
    );
    vec![ipfix(AT - 180, 0, &[template(), options, said]), ipfix(AT, 5, &[flows])]
}

fn capture(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4];
    // Time zone, accuracy, snapshot length, and the link type: raw IP.
    file.extend([0, 0, 0xffff_u32, 101].map(u32::to_be_bytes).concat());
    for message in messages {
        let length = u16::try_from(28 + message.len()).unwrap();
        let whole = u32::from(length).to_be_bytes();
        file.extend([AT.to_be_bytes(), [0; 4], whole, whole].concat());
        file.extend([0x45, 0]);
        file.extend(length.to_be_bytes());
        file.extend([0, 1, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2, 0x10, 0, 0x12, 0x83]);
        file.extend((length - 20).to_be_bytes());
        file.extend([0, 0]);
        file.extend(message);
    }
    file
}

fn put(dir: &Dir, name: &str, octets: &[u8]) {
    fs::write(dir.0.join(name), octets).unwrap();
}

fn packed(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn files_become_demands_that_a_plan_reads() {
    let dir = Dir::new("flows-files");
    files(&dir);
    let messages = two_minutes();
    put(&dir, "one.ipfix", &messages.concat());
    put(&dir, "all.pcap", &capture(&messages));
    // The name does not say that it is compressed.
    put(&dir, "packed", &packed(&capture(&messages)));
    let more = ["--out", "d.csv", "--shares", "shares.csv", "--json", "r.json"];
    for name in ["one.ipfix", "all.pcap", "packed"] {
        let text = said(&command(&dir, &more).arg(name).output().unwrap());
        assert!(text.contains("2026-11-22T12:57:00Z to 2026-11-22T12:59:00Z, 120 s"), "{text}");
        let report = json(&dir.0.join("r.json"));
        let demand = &report["demands"][0];
        assert!((demand["demand"].as_f64().unwrap() / 8e6 - 1.0).abs() < 1e-9, "{report}");
        assert!(demand["error"].as_f64().unwrap() > 0.0, "it was sampled");
        // One options record and three flow records arrived; four are missing.
        assert_eq!(report["exporters"][0]["lost"], 4.0 / 8.0, "{report}");
        assert_eq!(report["interfaces"][0]["index"], 5);
        assert_eq!(report["unmeasured"][0][1], "in2");
        let demands = fs::read_to_string(dir.0.join("d.csv")).unwrap();
        assert!(demands.ends_with("\"video\",\"in1\",\"out\",8000000\n"), "{demands}");
        let shares = fs::read_to_string(dir.0.join("shares.csv")).unwrap();
        assert!(shares.contains("10.0.0.0/9,\"out\",6.0") && shares.contains(",2.0"), "{shares}");
    }
    for forms in [["--demands", "d.csv"], ["--demands", "d.json"]] {
        said(&command(&dir, &["one.ipfix", "--out", forms[1]]).output().unwrap());
        let mut hints = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        hints.current_dir(&dir.0).args(["hints", "--topology", "isp.json"]).args(forms);
        hints.args(["--providers", "p.toml", "--prefixes", "shares.csv"]);
        let text = said(&hints.output().unwrap());
        assert!(text.contains("8.000 Mbit/s demand"), "{text}");
    }
    // Only traffic in the window counts.
    let half =
        ["one.ipfix", "--window", "60 s", "--end", "2026-11-22T12:57:30Z", "--json", "r.json"];
    said(&command(&dir, &half).output().unwrap());
    let demand = json(&dir.0.join("r.json"))["demands"][0]["demand"].as_f64().unwrap();
    assert!((demand / 4e6 - 1.0).abs() < 1e-9, "half of the window is before them: {demand}");
}

#[test]
fn each_mistake_is_named_by_file_and_place() {
    let dir = Dir::new("flows-bad");
    let whole = two_minutes().concat();
    let cut = &whole[..whole.len() - 3];
    let second = two_minutes()[0].len();
    let cases: [(&str, &[u8], String); 6] = [
        ("m", cut, format!("m: at octet {second}: the message is cut off")),
        ("m", &[0, 7, 0, 1], "m: at octet 0: the message is of version 7".to_owned()),
        ("m", &[0, 0, 0, 5, 0, 0, 0, 1], "m: at octet 0: the message is sFlow v5".to_owned()),
        ("m", &[0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 0, 0], "m: the gzip data are damaged".to_owned()),
        ("m", &[0x0a, 0x0d, 0x0d, 0x0a], "m: the header of the capture is incomplete".to_owned()),
        (
            "e.toml",
            b"[[exporter]]\naddress = \"x\"\n",
            "e.toml:2: exporter.address: write the address".to_owned(),
        ),
    ];
    for (name, octets, expected) in cases {
        files(&dir);
        put(&dir, "m", &whole);
        put(&dir, name, octets);
        let output = command(&dir, &["m"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.lines().count() == 1 && error.contains(&expected), "{error}, not {expected}");
    }
    // A set that cannot be read is reported, and the rest counts.
    files(&dir);
    let [first, second] = <[Vec<u8>; 2]>::try_from(two_minutes()).unwrap();
    let broken = ipfix(AT - 100, 1, &[set(2, &[1, 9, 0, 1, 0, 1, 0, 0])]);
    put(&dir, "m", &[&first[..], &broken, &second].concat());
    let output = command(&dir, &["m"]).output().unwrap();
    assert!(said(&output).contains("8.000 Mbit/s in all"), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!("m: at octet {}: the set of templates cannot be read", first.len() + 16);
    assert!(error.contains(&expected), "{error}, not {expected}");
    // Zeros between messages cost only themselves.
    put(&dir, "m", &[&first[..], &[0; 1400], &second].concat());
    let output = command(&dir, &["m"]).output().unwrap();
    assert!(said(&output).contains("8.000 Mbit/s in all"), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!("m: at octet {}: the message is of version 0", first.len());
    assert!(error.contains(&expected), "{error}, not {expected}");
    // A capture that is cut off in its last packet counts without it.
    let pcap = capture(&two_minutes());
    put(&dir, "m", &[&pcap[..], &pcap[24..40], &[0x45]].concat());
    let output = command(&dir, &["m"]).output().unwrap();
    assert!(said(&output).contains("8.000 Mbit/s in all"), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!(
        "m: at octet {}: the file ends within a packet: its last 17 octets are left out",
        pcap.len()
    );
    assert!(error.contains(&expected), "{error}, not {expected}");
    // Files without usable records.
    for (octets, expected) in [(&first[..], "the window is empty"), (&[], "empty")] {
        put(&dir, "m", octets);
        let output = command(&dir, &["m"]).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8(output.stderr).unwrap().contains(expected));
    }
}

#[test]
fn demands_come_from_received_flow_records() {
    let dir = Dir::new("flows-udp");
    files(&dir);
    let more = ["--listen", "127.0.0.1:0", "--window", "1 s", "--delay", "0 s", "--json", "r.json"];
    let mut child =
        command(&dir, &more).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let at = line.split_once("udp://").unwrap().1.split_whitespace().next().unwrap().to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    // 800 kbit/s for a minute before and after now, so that any window lies within.
    let flows = set(256, &flow(12_000_000, 1, [10, 0, 0, 1], now - 60_000, now + 60_000));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&ipfix(AT, 0, &[template(), flows]), &at).unwrap();
    assert!(child.wait().unwrap().success());
    let demand = json(&dir.0.join("r.json"))["demands"][0]["demand"].as_f64().unwrap();
    assert!((demand / 8e5 - 1.0).abs() < 1e-9, "{demand}");
}

/// A datagram of sFlow v5 with one sample of an IPv6 packet of 1000 octets, one of 1000, which came
/// in at interface 1; the destination is in 2001:db8::/32.
fn sflow(sequence: u32) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    // 960 octets of payload behind a header of 40 octets.
    let packet = [&words(&[0x6000_0000, 960 << 16 | 17 << 8 | 64]), &[0x20; 16][..]].concat();
    let to = words(&[0x2001_0db8, 0, 0, 9]);
    let record = [words(&[1, 16 + 40, 12, 1000, 0, 40]), packet, to].concat();
    let sample = [words(&[sequence, 1, 1000, 1000 * sequence, 0, 1, 2, 1]), record].concat();
    let header = words(&[5, 1, 0x7f00_0001, 0, sequence, 1000, 1, 1, sample.len() as u32]);
    [header, sample].concat()
}

#[test]
fn sflow_in_a_capture_becomes_demands() {
    let dir = Dir::new("flows-sflow");
    files(&dir);
    dir.file("x.csv", "prefix,router\n2001:db8::/32,out\n", 0o644);
    // One sample in each of ten seconds, without the sixth: the captured packets are a second
    // apart.
    let mut file = capture(&[]);
    for sequence in (0..10).filter(|s| *s != 5) {
        let mut packet = capture(&[sflow(sequence + 1)]).split_off(24);
        packet[..4].copy_from_slice(&(AT + sequence).to_be_bytes());
        file.extend(packet);
    }
    put(&dir, "m", &file);
    let end = "2026-11-22T13:00:10Z";
    let more = ["m", "--window", "10 s", "--end", end, "--json", "r.json", "--out", "d.csv"];
    said(&command(&dir, &more).output().unwrap());
    let report = json(&dir.0.join("r.json"));
    // Nine samples of 1000 octets stand for 9 MB, which are 7.2 Mbit/s in 10 s.
    let demands = fs::read_to_string(dir.0.join("d.csv")).unwrap();
    assert!(demands.ends_with("\"video\",\"in1\",\"out\",7200000\n"), "{demands}");
    assert_eq!(report["exporters"][0]["lost"], 0.1, "{report}");
    assert_eq!(report["exporters"][0]["sampling"][0], 1000.0, "{report}");
    // A file without times is refused by name.
    put(&dir, "m", &sflow(1));
    let output = command(&dir, &["m"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("m: at octet 0: the message is sFlow v5, which has no time"), "{error}");
}

#[test]
fn messages_of_akvorado_in_a_file_become_demands() {
    let dir = Dir::new("flows-relayed");
    files(&dir);
    // A varint of two octets, as a length or a number.
    let two = |n: usize| [(n & 0x7f) as u8 | 0x80, (n >> 7) as u8];
    let relayed = |message: &Vec<u8>| {
        // The time of AT, the datagram, the sender ::ffff:127.0.0.1, and the decoder of NetFlow.
        let mut body = vec![0x08, 0xd0, 0xce, 0x8b, 0xd8, 0x06, 0x12];
        body.extend(two(message.len()));
        body.extend(message);
        body.extend([0x1a, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1, 0x28, 1]);
        [&two(body.len())[..], &body].concat()
    };
    let file: Vec<u8> = two_minutes().iter().flat_map(relayed).collect();
    put(&dir, "raw.bin", &file);
    let args = ["raw.bin", "--relay", "akvorado", "--delay", "0s", "--json", "report.json"];
    said(&command(&dir, &args).output().unwrap());
    let report = json(&dir.0.join("report.json"));
    // As directly from the router: 8 Mbit/s.
    assert_eq!(report["demands"][0]["demand"], 8e6, "{report}");
    put(&dir, "cut.bin", &file[..file.len() - 3]);
    let output =
        command(&dir, &["cut.bin", "--relay", "akvorado", "--delay", "0s"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("ends early: 3 of its octets are missing"), "{errors}");
    let output = command(&dir, &["raw.bin", "--relay", "nfdump"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
