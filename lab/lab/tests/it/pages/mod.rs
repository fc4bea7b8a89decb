//! Tests of pages and reports from stored runs, through the public interface only. The pages are
//! kept in `target/tmp` for inspection.

mod synthetic;

use std::path::PathBuf;

use forebay_lab::analysis::Analysis;
use forebay_lab::demo::{Arm, Demo, Setting};
use forebay_lab::report;
use forebay_lab::results::store;
use forebay_units::Rate;

/// Returns an empty directory.
fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory for tests");
    dir
}

fn demo(seconds: f64) -> Demo {
    let setting = Setting {
        engine: "netns".to_owned(),
        offered: Rate::from_mbps(84),
        notes: vec!["200 persistent connections, TCP Cubic, and <one> bulk transfer.".to_owned()],
        command: "forebay lab demo --seed 17 --duration 60".to_owned(),
    };
    let runs = Arm::ALL.map(|arm| Analysis::of(&synthetic::run(arm, 17, seconds)));
    Demo::new(setting, &runs).expect("one of each arm")
}

/// Asserts that all tags are closed in order, and that none loads or runs anything.
fn check(html: &str) {
    let mut open = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.split_whitespace().next().expect("a tag has a name");
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "closed out of order"),
            None if tag.ends_with('/') || matches!(name, "!doctype" | "meta") => {}
            None => open.push(name),
        }
        assert!(!matches!(name, "script" | "link" | "img" | "iframe" | "object"), "{tag}");
        assert!(!tag.contains("src=") && !tag.contains(" on"), "{tag}");
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(!html.contains("://") && !html.contains("url(") && !html.contains("@import"));
    for picture in html.split("<svg").skip(1) {
        assert!(picture.contains("role=\"img\"") && picture.contains("</title>\n<desc"));
    }
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).filter_map(|t| t.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    assert!(!html.contains("NaN") && !html.contains("inf\""));
}

#[test]
fn the_demonstration() {
    let dir = scratch("demo");
    let demo = demo(60.0);
    let html = demo.html();
    std::fs::write(dir.join("report.html"), &html).unwrap();
    std::fs::write(dir.join("demo.json"), demo.json().unwrap()).unwrap();
    check(&html);
    assert!(html.len() < 500_000, "{} bytes", html.len());
    assert_eq!(html.matches("<svg").count(), 4 + 3);
    assert!(html.contains("and &lt;one&gt; bulk transfer"));
    // Each of the two arms with a bundle has one mark in its picture and two decisions in its
    // table.
    assert_eq!(html.matches("<path class=\"event\"").count(), 2);
    assert_eq!(html.matches(": decisions 2, moves of the rate 1</summary>").count(), 2);

    let table = demo.table(false);
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    insta::assert_snapshot!("table", table);
    insta::assert_snapshot!("json", demo.json().unwrap());
}

#[test]
fn a_report_from_stored_runs() {
    let dir = scratch("runs");
    for arm in Arm::ALL {
        for seed in [1, 2] {
            let run = synthetic::run(arm, seed, 4.0);
            store::save(&dir.join(store::file_name(&run)), &run).unwrap();
        }
    }
    let runs: Vec<Analysis> = store::files(&dir)
        .unwrap()
        .iter()
        .map(|path| Analysis::of(&store::load(path).unwrap()))
        .collect();
    assert_eq!(runs[0], Analysis::of(&synthetic::run(Arm::ForebayFifo, 1, 4.0)));
    let html = report::html("A scenario", &runs);
    std::fs::write(dir.join("report.html"), &html).unwrap();
    check(&html);
    assert!(html.len() < 500_000, "{} bytes", html.len());
    insta::assert_snapshot!("text", report::text(&runs, false));
}
