//! Tests of `forebay lab run` with keys that are set on the command line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use forebay_test_support::Dir;

const SHORT: &str = r#"name = "short"
duration = "1 s"
[path]
rate = "24 Mbit/s"
rtt = "20 ms"
queue = { kind = "fifo", limit = "1 bdp" }
[[traffic]]
name = "bulk"
kind = "bulk"
flows = 1
congestion = "cubic"
[[arm]]
name = "today"
sendbox = "forward"
[[arm]]
name = "boxed"
sendbox = { policy = "sfq", limit = "500 packets" }
"#;

fn run(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-lab"));
    command.args(["run", "--engine", "sim"]).arg(file).args(args).output().unwrap()
}

fn errors(file: &Path, args: &[&str]) -> String {
    let output = run(file, args);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    text.replace(&format!("{}/", file.parent().unwrap().display()), "")
}

/// The files below `dir` by their paths, without those directly in it.
fn records(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        } else {
            found.push(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn a_grid_has_one_table_and_a_directory_for_each_point() {
    let dir = Dir::new("grid");
    let file = dir.file("short.toml", SHORT, 0o644);
    let (out, json) = (dir.0.join("out"), dir.0.join("all.json"));
    let output = run(
        &file,
        &[
            "--set",
            "ecn=true",
            "--set",
            "traffic.bulk.congestion=reno",
            "--grid",
            "path.rate=12 Mbit/s,24 Mbit/s",
            "--grid",
            "arm.boxed.sendbox.policy=sfq,fifo",
            "--arm",
            "boxed",
            "--out",
            out.to_str().unwrap(),
            "--json",
            json.to_str().unwrap(),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Long labels have several lines.
    let table = String::from_utf8(output.stdout).unwrap();
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["12 Mbit/s, 20 ms, sendbox.policy sfq", "24 Mbit/s, 20 ms, sendbox.policy fifo"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let summaries: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let summaries = summaries.as_array().unwrap();
    let rates: Vec<_> = summaries.iter().map(|s| s["rate_mbps"].as_f64().unwrap()).collect();
    assert_eq!(rates, [12.0, 12.0, 24.0, 24.0]);
    assert!(summaries.iter().all(|s| s["arm"] == "boxed"));
    let expected = ["12+Mbit%2Fs", "24+Mbit%2Fs"].map(|rate| {
        ["fifo", "sfq"].map(|policy| {
            let mbit = &rate[..2];
            format!(
                "path.rate={rate}/arm.boxed.sendbox.policy={policy}/boxed-{mbit}mbit-20ms-1.jsonl"
            )
        })
    });
    let mut found = records(&out);
    found.retain(|name| name != "report.html");
    assert_eq!(found, expected.concat());
}

#[test]
fn mistakes_name_the_key_and_come_all_at_once() {
    let dir = Dir::new("mistakes");
    let file = dir.file("short.toml", SHORT, 0o644);
    let found = errors(
        &file,
        &[
            "--set",
            "path.rat=1 Mbit/s",
            "--grid",
            "traffic.bulc.flows=1,2",
            "--grid",
            "traffic.bulk.flows=1,many",
            "--grid",
            "path.rtt=5 s,20 ms",
        ],
    );
    let starts = [
        "forebay-lab: short.toml:3: path.rat: unknown field `rat`, ",
        "short.toml:7: traffic.bulc.flows: there is no `bulc`; did you mean `bulk`?",
        "short.toml:10: traffic.flows: invalid type: string \"many\", expected u32",
        "short.toml:5: path.rtt: must be at most 2 s (set by path.rtt=\"5 s\")",
    ];
    assert_eq!(found.lines().count(), starts.len(), "{found}");
    for (line, start) in found.lines().zip(starts) {
        // The lines after the first one are indented.
        assert!(line.trim_start().starts_with(start), "{line}");
    }
    assert!(found.contains("did you mean `rate`? (set by path.rat=\"1 Mbit/s\")"), "{found}");
    let none = errors(&file, &["--arm", "boxd"]);
    assert_eq!(
        none,
        "forebay-lab: short.toml: --arm: there is no arm `boxd`; did you mean `boxed`?\n"
    );
    for (flag, value) in [("--set", "path.rate"), ("--grid", "path.rate=1 Mbit/s,")] {
        let output = run(&file, &[flag, value]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
