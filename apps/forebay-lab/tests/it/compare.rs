//! Tests `forebay lab compare` on stored results, and its exit status.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use forebay_test_support::Dir;

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay-lab")).args(args).output().unwrap()
}

const SCENARIO: &str = r#"
name = "pair"
duration = "1 s"
seeds = [1, 2]
[path]
rate = "24 Mbit/s"
rtt = "20 ms"
queue = { kind = "fifo", limit = "LIMIT" }
[[traffic]]
name = "bulk"
kind = "bulk"
[[arm]]
name = "plain"
sendbox = "forward"
"#;

/// Simulates the scenario with this limit and returns the directory of its records.
fn simulate(dir: &Dir, name: &str, limit: &str) -> String {
    let file = dir.file(&format!("{name}.toml"), &SCENARIO.replace("LIMIT", limit), 0o644);
    let out = dir.0.join(name);
    let json = dir.0.join(format!("{name}.json"));
    let [file, out, json] =
        [&file, &out, &json].map(|p: &std::path::PathBuf| p.to_str().unwrap().to_owned());
    let run = forebay(&["run", &file, "--engine", "sim", "--out", &out, "--json", &json]);
    assert!(run.status.success(), "{run:?}");
    out
}

#[test]
fn equal_results_pass_and_different_ones_fail_what_is_required() {
    let dir = Dir::new("compare");
    let (a, b) = (simulate(&dir, "a", "1 bdp"), simulate(&dir, "b", "8 bdp"));
    let same = forebay(&["compare", &a, &format!("{a}.json"), "--require", "100%"]);
    assert!(same.status.success(), "{same:?}");
    assert!(String::from_utf8(same.stdout).unwrap().contains("1 of 1 pairs are within"));

    let files = ["c.json", "c.html", "c.md"].map(|f| dir.0.join(f).to_str().unwrap().to_owned());
    let mut args = vec!["compare", &a, &b, "--json", &files[0], "--html", &files[1]];
    args.extend(["--markdown", &files[2]]);
    assert!(forebay(&args).status.success(), "it shows, and judges only when it is asked to");
    assert!(files.iter().all(|f| Path::new(f).exists()));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap();
    assert_eq!(json["pairs"][0]["seeds"], serde_json::json!([1, 2]));
    assert_eq!(json["total"]["within"], 0);

    let strict = forebay(&["compare", &a, &b, "--require", "90%"]);
    assert_eq!(strict.status.code(), Some(1));
    let said = String::from_utf8(strict.stderr).unwrap();
    assert_eq!(said, "forebay-lab: 0.0 % of the pairs are within their bands, 90 % are required\n");
    let loose = "throughput=any,delay=any,drops=any";
    let loose = forebay(&["compare", &a, &b, "--require", "90%", "--band", loose]);
    assert!(loose.status.success(), "{loose:?}");
}

#[test]
fn results_that_cannot_be_compared_are_an_error() {
    let dir = Dir::new("compare-bad");
    let missing = dir.0.join("nothing");
    let missing = missing.to_str().unwrap();
    let output = forebay(&["compare", missing, missing]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("nothing"));
    let output = forebay(&["compare", missing, missing, "--band", "speed=5%"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no measure is called `speed`"));
}
