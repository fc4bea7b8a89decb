//! Tests files as people have them: packed, cut, of other formats, from pipes. The readers' own
//! tests have the kinds octet by octet.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_test_support::{Dir, Need, skip};
use serde_json::Value;

fn forebay_plan(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
    command.args(args);
    command
}

/// The standard output and the messages of a command, and its exit status.
fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The files that were found in the field, beside the repository.
fn cases() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cases");
    if !path.is_dir() {
        skip(Need::Files, "the files of the field are not beside the repository");
        return None;
    }
    Some(path)
}

/// Returns the prefixes that a dump of the cases gives, with the messages.
fn routes(cases: &Path, dump: &str) -> (String, String) {
    let path = |name: &str| cases.join(name).to_str().unwrap().to_owned();
    let (topology, hops) = (path("routes-topology.json"), path("routes-next-hops.csv"));
    let output =
        forebay_plan(&["routes", &path(dump), "--topology", &topology, "--next-hops", &hops])
            .output()
            .unwrap();
    let (text, messages, code) = told(&output);
    assert_eq!(code, Some(0), "{dump}: {messages}");
    (text.replace("prefix,router\n", ""), messages)
}

#[test]
fn dumps_of_the_field() {
    let Some(cases) = cases() else { return };
    for (dump, expected) in [
        ("r09_table_dump.mrt", "198.18.0.0/15,C\n203.0.113.0/24,B\n"),
        ("r02_full.mrt", "2001:db8:1::/48,C\n"),
        ("r04_v4_by_v6_full.mrt", "203.0.113.0/24,C\n"),
        ("r06_med.mrt", "203.0.113.0/24,C\n"),
    ] {
        assert_eq!(routes(&cases, dump).0, expected, "{dump}");
    }
    let (packed, messages) = routes(&cases, "r11_plain.bz2");
    assert!(!packed.is_empty(), "{messages}");
}

#[test]
fn flows_of_the_field() {
    let Some(cases) = cases() else { return };
    let dir = Dir::new("field-flows");
    dir.file(
        "isp.json",
        r#"{"nodes": [{"id": "A"}, {"id": "B"}], "links": [{"source": "A", "target": "B"}]}"#,
        0o644,
    );
    dir.file("p.toml", "[[provider]]\nname = \"video\"\nentry = [{ router = \"A\" }]\n", 0o644);
    dir.file("x.csv", "prefix,router\n203.0.113.0/24,B\n", 0o644);
    let exporters = "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\n\
                     interface = [{ index = 7, provider = \"video\" }]\n";
    dir.file("e.toml", exporters, 0o644);
    let file = cases.join("k02_sep_newline.bin");
    let output = forebay_plan(&["flows", "--topology", "isp.json", "--providers", "p.toml"])
        .args(["--prefixes", "x.csv", "--exporters", "e.toml", "--relay", "goflow2"])
        .args(["--window", "10 s", "--end", "2023-11-14T22:13:20Z", "--json", "report.json"])
        .args(["--delay", "0 s"])
        .arg(&file)
        .current_dir(&dir.0)
        .output()
        .unwrap();
    let report: Value =
        serde_json::from_slice(&fs::read(dir.0.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["exporters"][0]["flows"], 2, "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_topology_of_the_field() {
    let Some(cases) = cases() else { return };
    let dir = Dir::new("field-topology");
    dir.file("p.toml", "[[provider]]\nname = \"video\"\nentry = [{ router = \"A\" }]\n", 0o644);
    dir.file("d.csv", "provider,entry,router,demand\nvideo,A,Li\u{e8}ge,1 Gbit/s\n", 0o644);
    let output = forebay_plan(&["solve", "--topology"])
        .arg(cases.join("t04_latin1.graphml"))
        .args(["--providers", "p.toml", "--demands", "d.csv"])
        .current_dir(&dir.0)
        .output()
        .unwrap();
    let (text, messages, code) = told(&output);
    assert_eq!(code, Some(0), "{messages}");
    assert!(text.contains("Li\u{e8}ge"), "{text}");
}

/// A dump of one peer and one route, 203.0.113.0/24 by 198.51.100.1, octet by octet.
fn dump() -> Vec<u8> {
    let record = |subtype: u8, body: &[u8]| {
        [&[0, 0, 0, 9, 0, 13, 0, subtype, 0, 0, 0, body.len() as u8][..], body].concat()
    };
    let peers = [&[192, 0, 2, 9, 0, 0, 0, 1, 2][..], &[1, 1, 1, 1, 192, 0, 2, 8, 0, 0, 0xfb, 0xf5]];
    let attributes =
        [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf6, 0x40, 3, 4, 198, 51, 100, 1];
    let rib = [&[0, 0, 0, 0, 24, 203, 0, 113, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20][..], &attributes];
    [record(1, &peers.concat()), record(2, &rib.concat())].concat()
}

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_dump_comes_from_standard_input_too() {
    for octets in [dump(), gzip(&dump()), [gzip(&dump()[..10]), gzip(&dump()[10..])].concat()] {
        let mut child = forebay_plan(&["routes", "-", "--origin", "64502"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&octets).unwrap();
        let (text, messages, code) = told(&child.wait_with_output().unwrap());
        assert_eq!((text.as_str(), code), ("203.0.113.0/24\n", Some(0)), "{messages}");
    }
}

/// A file that gives nothing is no success, and the one line about it names the cause.
#[test]
fn files_that_give_nothing_are_errors() {
    let dir = Dir::new("field-errors");
    let put = |name: &str, octets: &[u8]| fs::write(dir.0.join(name), octets).unwrap();
    put("updates", &[&[0, 0, 0, 9, 0, 16, 0, 4, 0, 0, 0, 4][..], &[0; 4]].concat());
    put("empty", b"");
    put("empty.gz", &gzip(b""));
    put("cut.gz", &gzip(&dump())[..9]);
    put("page", b"<!DOCTYPE html><html>404 Not Found</html>");
    put("a.zip", b"PK\x03\x04rest");
    put("text", b"TABLE_DUMP2|1700000000|B|192.0.2.1|64500|\n");
    put("dump", &dump());
    put("isp.json", br#"{"nodes": [{"id": "A"}], "links": []}"#);
    put("hops.csv", b"address,router\n192.0.2.99,A\n");
    put("semicolons.csv", b"address;router\n192.0.2.99;A\n");
    let give = "give a table dump, such as rib.* of RouteViews or bview.* of RIPE";
    let cases: [(&[&str], String); 11] = [
        (
            &["routes", "updates", "--origin", "1"],
            format!(
                "updates: has no routes in 1 records: 1 BGP4MP_MESSAGE_AS4; these are messages of \
                 BGP, and no table: {give}"
            ),
        ),
        (&["routes", "empty", "--origin", "1"], "empty: is empty".to_owned()),
        (&["routes", "empty.gz", "--origin", "1"], "empty.gz: is empty".to_owned()),
        (
            &["routes", "cut.gz", "--origin", "1"],
            "cut.gz: the compressed file ends before anything can be unpacked: copy it again"
                .to_owned(),
        ),
        (
            &["routes", "page", "--origin", "1"],
            format!("page: is a web page and no MRT file: {give}"),
        ),
        (
            &["routes", "a.zip", "--origin", "1"],
            "a.zip: is a zip archive: unpack it with `unzip`".to_owned(),
        ),
        (
            &["routes", "text", "--origin", "1"],
            format!("text: is text, maybe of `bgpdump` or `show ip bgp`: {give}"),
        ),
        (&["routes", ".", "--origin", "1"], ".: is a directory: give a file in it".to_owned()),
        (
            &["routes", "dump", "--origin", "1"],
            "no prefix of these tables is originated by AS 1".to_owned(),
        ),
        (
            &["routes", "dump", "--topology", "isp.json", "--next-hops", "hops.csv"],
            "hops.csv: no prefix has a next hop of this file: add those that are named above"
                .to_owned(),
        ),
        (
            &["routes", "dump", "--topology", "isp.json", "--next-hops", "semicolons.csv"],
            "semicolons.csv:1: has semicolons between its columns: write commas".to_owned(),
        ),
    ];
    for (args, expected) in cases {
        let output = forebay_plan(args).current_dir(&dir.0).output().unwrap();
        let (text, messages, code) = told(&output);
        let last = messages.lines().last().unwrap_or_default();
        assert_eq!(last, format!("forebay-plan: {expected}"), "{args:?}: {messages}");
        assert!(text.is_empty() && matches!(code, Some(1 | 2)), "{args:?}: {output:?}");
    }
}
