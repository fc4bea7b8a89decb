//! Tests `forebay l4s capture` on captures of the simulator, whose TCP is not that of the analysis,
//! and on files as people have them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_test_support::{Dir, Need, skip};
use serde_json::Value;

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

const SCENARIO: &str = r#"
name = "l4s"
duration = "5 s"
seeds = [1]
ecn = true
[path]
rate = "40 Mbit/s"
rtt = "20 ms"
queue = { kind = "QUEUE", limit = "4 bdp" }
[path.back]
rate = "40 Mbit/s"
limit = "1 MB"
[[traffic]]
name = "transfers"
kind = "requests"
load = "50 %"
max_size = "20 MB"
new_connections = true
congestion = "CONGESTION"
[[arm]]
name = "plain"
sendbox = "forward"
"#;

/// Simulates transfers with this bottleneck and sender, and returns the capture.
fn simulate(dir: &Dir, queue: &str, congestion: &str) -> PathBuf {
    let name = format!("{queue}-{congestion}");
    let text = SCENARIO.replace("QUEUE", queue).replace("CONGESTION", congestion);
    let file = dir.file(&format!("{name}.toml"), &text, 0o644);
    let out = dir.0.join(&name);
    let [file, out_arg] = [&file, &out].map(|p: &PathBuf| p.to_str().unwrap().to_owned());
    let run =
        forebay(&["lab", "run", &file, "--engine", "sim", "--out", &out_arg, "--export", "pcapng"]);
    assert!(run.status.success(), "{run:?}");
    let mut files = fs::read_dir(out).unwrap().map(|f| f.unwrap().path());
    files.find(|f| f.extension().is_some_and(|e| e == "pcapng")).unwrap()
}

/// Returns the exit status and the report.
fn report(capture: &Path) -> (Option<i32>, Value) {
    let capture = capture.to_str().unwrap();
    let queues = ["--interface", "bottleneck", "--interface", "back"];
    let output = forebay(&[&["l4s", "capture", capture, "--json"], &queues[..]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn captures_of_the_simulator_are_judged() {
    let dir = Dir::new("l4s-capture");
    let healthy = simulate(&dir, "dualpi2", "prague");
    let (status, found) = report(&healthy);
    assert_eq!(
        (status, &found["verdict"]),
        (Some(0), &Value::from("works")),
        "{}",
        found["findings"]
    );
    let connections = found["connections"].as_array().unwrap();
    assert!(connections.iter().any(|c| c["feedback"] == "accurate"));
    let directions = || connections.iter().flat_map(|c| c["directions"].as_array().unwrap());
    // What is marked here is echoed, up to what was in flight at the end.
    for direction in directions() {
        let ce = direction["segments"]["ce"].as_i64().unwrap();
        let echoed = direction["echo"]["marks"]["least"].as_i64().unwrap_or(ce);
        assert!((ce - echoed).abs() <= 40 + ce / 20, "{direction}");
    }
    assert!(directions().any(|d| d["segments"]["ce"].as_i64() > Some(50)));

    let (status, found) = report(&simulate(&dir, "dualpi2", "cubic"));
    let kinds = |found: &Value| {
        let findings = found["findings"].as_array().unwrap().clone();
        findings.iter().map(|f| f["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((status, kinds(&found)), (Some(1), vec!["classic_feedback".to_owned()]));

    // The same compressed, and cut off.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let octets = fs::read(&healthy).unwrap();
    packed.write_all(&octets).unwrap();
    let file = dir.0.join("packed.gz");
    fs::write(&file, packed.finish().unwrap()).unwrap();
    assert_eq!(report(&file).0, Some(0));
    fs::write(&file, &octets[..octets.len() - 7]).unwrap();
    assert_eq!(report(&file).0, Some(0));
}

#[test]
fn files_that_cannot_be_used_end_with_2() {
    let dir = Dir::new("l4s-capture-files");
    let file = dir.file("no.pcap", "no capture", 0o644);
    let missing = dir.0.join("missing");
    for (path, text) in [(&file, "is text and no capture"), (&missing, "cannot be read")] {
        for option in ["--sender", "--receiver"] {
            let output = forebay(&["l4s", "capture", option, path.to_str().unwrap()]);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(text), "{error}");
        }
    }
    let both = forebay(&["l4s", "capture", "a", "--sender", "b"]);
    assert_eq!(both.status.code(), Some(2));
    assert_eq!(forebay(&["l4s", "capture"]).status.code(), Some(2));
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

/// Returns the report of a capture of the cases.
fn capture(cases: &Path, name: &str) -> Value {
    let path = cases.join(name);
    let output = forebay(&["l4s", "capture", path.to_str().unwrap(), "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: {output:?}"))
}

#[test]
fn captures_of_the_field() {
    let Some(cases) = cases() else { return };
    let count = |report: &Value, key: &str| report[key].as_u64().unwrap();
    let large = capture(&cases, "s17_bigtcp6.pcap.gz");
    let directions = large["connections"][0]["directions"].as_array().unwrap();
    let segments = |direction: &Value| -> u64 {
        let by_codepoint = direction["segments"].as_object().unwrap();
        by_codepoint.values().map(|n| n.as_u64().unwrap()).sum()
    };
    assert_eq!(directions.iter().map(segments).max(), Some(600), "{large}");
    assert_eq!(large["others"], Value::Array(Vec::new()));
    let twice = capture(&cases, "s19_ack_twice.pcap.gz");
    let marks: Vec<_> = twice["connections"][0]["directions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|direction| direction["echo"]["marks"]["most"].as_u64())
        .collect();
    assert!(marks.contains(&15), "{marks:?}");
    let tunnel = capture(&cases, "s16_vxlan.pcap.gz");
    assert_eq!(count(&tunnel, "segments"), count(&tunnel, "packets"), "{tunnel}");
    assert!(count(&tunnel, "segments") > 0);
    assert!(count(&capture(&cases, "ok.pcap.zst"), "segments") > 0);
}

#[test]
fn a_text_is_no_capture() {
    let dir = Dir::new("l4s-text");
    let file = dir.file("text", "TABLE_DUMP2|1700000000|B|192.0.2.1|64500|\n", 0o644);
    let output = forebay(&["l4s", "capture", file.to_str().unwrap()]);
    let expected = format!(
        "forebay: {}: is text and no capture: give a file in pcap or pcapng, as of `tcpdump -w`\n",
        file.display()
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    assert!(output.stdout.is_empty() && output.status.code() == Some(2), "{:?}", output.status);
}
