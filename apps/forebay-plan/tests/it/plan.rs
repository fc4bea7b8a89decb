//! Tests `forebay plan hints`, `announce` and `withdraw`: they change nothing unless asked to, and
//! errors are one line that names the file and its line.

use std::fs;
use std::io::Write;
use std::process::{Command, Output};

use forebay_test_support::Dir;

const TOPOLOGY: &str = r#"{"directed": true, "name": "two", "nodes": [{"id": 1, "label": "in1"}, {"id": 2, "label": "in2"}, {"id": 3, "label": "out"}],
"links": [{"source": 1, "target": 3, "capacity": "100 Mbit/s"},
{"source": 2, "target": 3, "capacity": "100 Mbit/s"}]}"#;
const PROVIDERS: &str = r#"asn = 64500
[[provider]]
name = "video"
accepts = { med = true }
[[provider.entry]]
router = "in1"
peer = "192.0.2.1"
[[provider.entry]]
router = "in2"
peer = "192.0.2.2"
[[provider]]
name = "other"
participates = false
[[provider.entry]]
router = "in1"
"#;
const DEMANDS: &str =
    "provider,entry,router,demand\nvideo,in1,out,100 Mbit/s\nother,in1,out,100 Mbit/s\n";
const PREFIXES: &str = "prefix,router\n10.0.0.0/16,out\n";

fn hints(dir: &Dir, more: &[&str]) -> Output {
    let file = |name: &str| dir.0.join(name).to_str().unwrap().to_owned();
    Command::new(env!("CARGO_BIN_EXE_forebay-plan"))
        .args(["hints", "--topology", &file("isp.json"), "--providers", &file("p.toml")])
        .args([
            "--demands",
            &file("d.csv"),
            "--prefixes",
            &file("x.csv"),
            "--last",
            &file("h.json"),
        ])
        .args(more)
        .output()
        .unwrap()
}

fn files(dir: &Dir) {
    for (name, text) in
        [("isp.json", TOPOLOGY), ("p.toml", PROVIDERS), ("d.csv", DEMANDS), ("x.csv", PREFIXES)]
    {
        dir.file(name, text, 0o644);
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn hints_are_shown_and_stored_only_when_asked() {
    let dir = Dir::new("hints");
    files(&dir);
    let kept = dir.0.join("h.json");
    let text = said(&hints(&dir, &[]));
    assert!(
        text.contains("200.000 Mbit/s with these hints (100.0 % more)") && text.contains("new"),
        "{text}"
    );
    assert!(!kept.exists(), "nothing is changed");
    let lines = said(&hints(&dir, &["--show", "exabgp"]));
    assert_eq!(
        lines,
        "neighbor 192.0.2.1 announce route 10.0.0.0/16 next-hop self med 100\n\
         neighbor 192.0.2.2 announce route 10.0.0.0/16 next-hop self med 0\n"
    );
    let own = said(&hints(&dir, &["--show", "json", "--neighbour", "video"]));
    assert!(own.contains("\"entry\": \"in2\"") && !own.contains("out"), "{own}");
    let maps = said(&hints(&dir, &["--show", "alto", "--neighbour", "video"]));
    assert!(maps.contains("\"cost-mode\": \"ordinal\""), "{maps}");
    said(&hints(&dir, &["--write"]));
    assert!(fs::read_to_string(&kept).unwrap().contains("\"version\": 1"));
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 5, "no other file is left");
    let again = said(&hints(&dir, &[]));
    assert!(
        !again.contains("new") && again.contains("it follows 0.0 % of those in force"),
        "{again}"
    );
}

#[test]
fn each_mistake_is_named_by_file_and_line() {
    let dir = Dir::new("bad-hints");
    let cases = [
        ("x.csv", "prefix,router\n10.0.0.0/16,in9\n", 2, "the topology has no router \"in9\""),
        (
            "p.toml",
            "[[provider]]\nname = \"video\"\naccepts = { longest_v6 = 129 }\nentry = [{ router = \"in1\" }]\n",
            3,
            "provider.accepts.longest_v6: write a prefix length up to 128",
        ),
        ("h.json", "{\"version\": 1,\n\"network\": 5}", 2, "invalid type"),
        ("h.json", "{\"version\": 9}", 1, "is of version 9"),
    ];
    for (name, text, line, what) in cases {
        files(&dir);
        let _ = fs::remove_file(dir.0.join("h.json"));
        dir.file(name, text, 0o644);
        let output = hints(&dir, &["--write"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(&format!("{name}:{line}: ")) && error.contains(what), "{error}");
        assert!(name == "h.json" || !dir.0.join("h.json").exists());
    }
}

/// A stand-in for GoBGP's command: it keeps a table of routes for each speaker in a directory, and
/// dies or kills its parent at a given call.
const GOBGP: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$@" >> "$dir/calls"
calls=$(wc -l < "$dir/calls")
if [ -e "$dir/refuse" ]; then echo "connection refused" >&2; exit 1; fi
rib="$dir/rib.$4"
mkdir -p "$rib"
name=$(echo "$8" | tr / _)
# Killed after the route is there, before anybody knows of it.
case $7 in
add) echo "$@" > "$rib/$name" ;;
del) rm -f "$rib/$name" ;;
esac
if [ -e "$dir/kill" ] && [ "$calls" = "$(cat "$dir/kill")" ]; then kill -9 $PPID; fi
exit 0
"#;

struct Speakers(Dir);

impl Speakers {
    fn new(name: &str) -> Self {
        let dir = Dir::new(name);
        files(&dir);
        let providers = PROVIDERS
            .replace("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nspeaker = \"127.0.0.1:1001\"")
            .replace("peer = \"192.0.2.2\"", "peer = \"192.0.2.2\"\nspeaker = \"127.0.0.1:1002\"");
        dir.file("p.toml", &providers, 0o644);
        dir.file("gobgp", GOBGP, 0o755);
        said(&hints(&dir, &["--write"]));
        Self(dir)
    }

    fn run(&self, verb: &str, more: &[&str]) -> Output {
        let file = |name: &str| self.0.0.join(name).to_str().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        command.args([verb, "--journal", &file("journal"), "--gobgp", &file("gobgp")]);
        if verb == "announce" {
            command.args(["--hints", &file("h.json"), "--topology", &file("isp.json")]);
            command.args(["--providers", &file("p.toml")]);
        }
        command.args(more).output().unwrap()
    }

    /// The routes of all speakers.
    fn routes(&self) -> Vec<String> {
        let mut routes = Vec::new();
        for port in ["1001", "1002"] {
            let Ok(rib) = fs::read_dir(self.0.0.join(format!("rib.{port}"))) else { continue };
            routes.extend(rib.map(|e| fs::read_to_string(e.unwrap().path()).unwrap()));
        }
        routes
    }
}

#[test]
fn announcements_are_made_once_and_withdrawn() {
    let speakers = Speakers::new("speak");
    let text = said(&speakers.run("announce", &[]));
    assert!(
        text.contains("would announce 10.0.0.0/16 to video at in1") && text.contains("2 steps"),
        "{text}"
    );
    assert!(speakers.routes().is_empty() && !speakers.0.0.join("journal").exists());
    said(&speakers.run("announce", &["--apply"]));
    assert_eq!(
        speakers.routes(),
        [
            "-u 127.0.0.1 -p 1001 global rib add 10.0.0.0/16 origin igp med 100 -a ipv4\n",
            "-u 127.0.0.1 -p 1002 global rib add 10.0.0.0/16 origin igp med 0 -a ipv4\n",
        ]
    );
    assert_eq!(said(&speakers.run("announce", &["--apply"])), "Nothing to do.\n");
    // A speaker that cannot be reached is reported, and the journal keeps its routes.
    speakers.0.file("refuse", "", 0o644);
    let output = speakers.run("withdraw", &[]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("cannot withdraw 10.0.0.0/16 to video at in1: connection refused"),
        "{error}"
    );
    fs::remove_file(speakers.0.0.join("refuse")).unwrap();
    said(&speakers.run("withdraw", &[]));
    assert!(speakers.routes().is_empty());
    assert_eq!(said(&speakers.run("withdraw", &[])), "Nothing to do.\n");
}

#[test]
fn everything_can_be_withdrawn_whenever_it_was_killed() {
    for call in 1..=2 {
        let speakers = Speakers::new(&format!("killed-{call}"));
        speakers.0.file("kill", &call.to_string(), 0o644);
        let output = speakers.run("announce", &["--apply"]);
        assert!(!output.status.success() && speakers.routes().len() == call, "{output:?}");
        fs::remove_file(speakers.0.0.join("kill")).unwrap();
        // Steps under way are repeated, or everything is withdrawn.
        if call == 1 {
            said(&speakers.run("announce", &["--apply"]));
            assert_eq!(speakers.routes().len(), 2);
        }
        let last = fs::read_to_string(speakers.0.0.join("calls")).unwrap().lines().count() + 1;
        speakers.0.file("kill", &last.to_string(), 0o644);
        assert!(!speakers.run("withdraw", &[]).status.success());
        fs::remove_file(speakers.0.0.join("kill")).unwrap();
        said(&speakers.run("withdraw", &[]));
        assert!(speakers.routes().is_empty());
    }
}

/// An MRT record (RFC 6396 section 2) of TABLE_DUMP_V2 with this subtype.
fn record(subtype: u8, message: &[&[u8]]) -> Vec<u8> {
    let message = message.concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0, 0, 0, 1, 0, 13, 0, subtype], &length[..], &message].concat()
}

/// A dump of one peer, with a route to each of these prefixes (RFC 6396 section 4.3).
fn dump(routes: &[([u8; 4], u8, [u8; 4], u32)]) -> Vec<u8> {
    // The collector, no view name, one peer: AS of four octets, identifier, address, 64501.
    let peers =
        record(1, &[&[192, 0, 2, 9, 0, 0, 0, 1, 2], &[1, 1, 1, 1, 192, 0, 2, 8, 0, 0, 0xfb, 0xf5]]);
    let mut all = peers;
    for (network, bits, next_hop, origin) in routes {
        // ORIGIN, AS_PATH of one sequence with one AS, NEXT_HOP (RFC 4271 section 4.3).
        let attributes = [
            &[0x40, 1, 1, 0, 0x40, 2, 6, 2, 1][..],
            &origin.to_be_bytes(),
            &[0x40, 3, 4],
            next_hop,
        ]
        .concat();
        let octets = &network[..usize::from(bits.div_ceil(8))];
        let length = u16::try_from(attributes.len()).unwrap().to_be_bytes();
        let entry = [&[0, 0, 0, 0, 0, 0][..], &length, &attributes].concat();
        all.extend(record(2, &[&[0, 0, 0, 0, *bits], octets, &[0, 1], &entry]));
    }
    all
}

#[test]
fn prefixes_of_users_come_from_a_table_dump() {
    let dir = Dir::new("routes");
    files(&dir);
    dir.file("hops.csv", "address,router\n198.51.100.1,in1\n198.51.100.2,out\n", 0o644);
    let routes = [
        ([10, 0, 0, 0], 16, [198, 51, 100, 2], 64501),
        ([10, 1, 0, 0], 16, [198, 51, 100, 1], 64502),
        ([10, 2, 0, 0], 15, [198, 51, 100, 3], 64502),
    ];
    let plain = dir.0.join("rib.mrt");
    fs::write(&plain, dump(&routes)).unwrap();
    let packed = dir.0.join("rib.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::default(),
    );
    gzip.write_all(&dump(&routes)).unwrap();
    gzip.finish().unwrap();
    let run = |file: &std::path::Path, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
        command.args(["routes"]).arg(file).args(more).output().unwrap()
    };
    let (topology, hops) = (dir.0.join("isp.json"), dir.0.join("hops.csv"));
    let learn = ["--topology", topology.to_str().unwrap(), "--next-hops", hops.to_str().unwrap()];
    for file in [&plain, &packed] {
        let output = run(file, &learn);
        assert_eq!(said(&output), "prefix,router\n10.0.0.0/16,out\n10.1.0.0/16,in1\n");
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(notes.contains("3 routes in 4 records"), "{notes}");
        assert!(notes.contains("the next hop 198.51.100.3"), "{notes}");
        assert_eq!(said(&run(file, &["--origin", "64502"])), "10.1.0.0/16\n10.2.0.0/15\n");
    }
    let none = run(&topology, &["--origin", "1"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
