//! Two sites with one process each: `forebay site init` makes their files, and `forebay site` runs
//! both directions over one UDP port.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use forebay_records::Status;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};
use serde_json::Value;

use crate::support::process::{self, Process};
use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// Makes the files of both sites in the directory of `sites`.
fn init(sites: &Sites) {
    let made = Command::new(PROGRAM)
        .args(["site", "init", "--directory"])
        .arg(&sites.dir.0)
        .args(["--site", "head", "fb-out", "10.9.9.1", "10.9.1.0/24,fd09:1::/64"])
        .args(["--site", "branch", "eth0", "10.9.9.2", "10.9.9.2/32,fd09:9::2/128"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn start(sites: &Sites, place: &Namespace, name: &str) -> Process {
    let file = sites.dir.0.join(name).join("site.toml");
    let log = sites.dir.0.join(format!("{name}.log"));
    process::start(place, &["site", "--config", file.to_str().unwrap()], &log)
}

/// Returns what a process beside the head site's serves.
fn get(sites: &Sites, port: u16, path: &'static str) -> String {
    within(&sites.router.0, move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    })
}

/// Returns what an exporter beside the head site's process serves.
fn metrics(sites: &Sites) -> String {
    let log = sites.dir.0.join("exporter.log");
    let _exporter = process::start(&sites.router, &["exporter"], &log);
    get(sites, 9477, "/metrics")
}

/// What the history beside the head site's process has after its end.
fn check_history(sites: &Sites, mut watch: Process, file: &str) {
    until("the history has seen control", || {
        let all: Value = serde_json::from_str(&get(sites, 9478, "/history.json")).unwrap();
        let series = all.as_array().unwrap().iter();
        let rows = series.flat_map(|series| series["rows"].as_array().unwrap());
        // A rate needs two states.
        rows.into_iter().any(|row| row["mode"] == "delay_control" && row["rate_bps"].is_number())
    });
    let page = get(sites, 9478, "/");
    assert!(page.contains("To branch") && page.contains("From branch"), "{page}");
    watch.signal(libc::SIGTERM);
    let ask = |command: &str| {
        run(&format!("ip netns exec {} {PROGRAM} {command} --history {file}", sites.router.0))
    };
    let story = ask("explain branch");
    for text in ["To branch, the site at fb-out", "delay control for", "It sent", "From branch"] {
        assert!(story.contains(text), "{text}: {story}");
    }
    let events = ask("events branch --since 1h --all --json");
    let numbers: Vec<u64> = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].as_u64())
        .collect();
    assert!(events.contains("\"kind\":\"mode_changed\""), "{events}");
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "every decision once: {events}");
}

#[test]
fn two_sites_control_both_directions_with_one_process_each() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kb");
    sites.stop_receivebox();
    init(&sites);
    let log = |name: &str| fs::read_to_string(sites.dir.0.join(format!("{name}.log"))).unwrap();
    let mut head = start(&sites, &sites.router, "head");
    let mut branch = start(&sites, &sites.to, "branch");
    run(&format!("ip -n {} link set lo up", sites.router.0));
    let file = sites.dir.0.join("history.db").display().to_string();
    let log_of_watch = sites.dir.0.join("watch.log");
    let watch = process::start(&sites.router, &["watch", "--history", &file], &log_of_watch);
    let there = Transfers::start(&sites, "10.9.9.2", FILLING);
    let back = Transfers::between(&sites.to, &sites.from, "10.9.1.2", FILLING);
    for (name, other) in [("head", "branch"), ("branch", "head")] {
        until(&format!("{name} measures the way to {other}"), || {
            log(name).contains(&format!("bundle {other}: mode open -> "))
        });
    }
    // The bottleneck of 24 Mbit/s is on the way to the branch.
    sites.wait_for_control();
    there.go_on();
    back.go_on();
    for (place, name, other) in [(&sites.router, "head", "branch"), (&sites.to, "branch", "head")] {
        let json = run(&format!("ip netns exec {} {PROGRAM} status --json", place.0));
        let all: Vec<Status> = serde_json::from_str(&json).unwrap();
        let [status] = all.as_slice() else { panic!("{name}: one process: {json}") };
        let ([send], [receive]) = (status.sends.as_slice(), status.receives.as_slice()) else {
            panic!("{name}: one peer in both directions: {json}")
        };
        assert_eq!((send.name.as_str(), receive.name.as_str()), (other, other));
        assert!(send.measurements > 0 && send.rtt_ms > Some(40.0), "{json}");
        assert!(receive.packets > 0 && receive.heard_s.is_some(), "{json}");
        assert_eq!((&send.trouble, &receive.trouble), (&None, &None), "{json}");
        eprintln!("{}", run(&format!("ip netns exec {} {PROGRAM} status", place.0)));
    }
    check_history(&sites, watch, &file);
    let metrics = metrics(&sites);
    for line in [
        "forebay_send_trouble{interface=\"fb-out\",bundle=\"branch\"} 0",
        "forebay_receive_trouble{interface=\"fb-out\",bundle=\"branch\"} 0",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
    for process in [&mut head, &mut branch] {
        process.signal(libc::SIGTERM);
    }
    for name in ["head", "branch"] {
        let said = log(name);
        assert!(!said.contains("packets: 0 }"), "{said}");
    }
    assert!(!sites.tc("qdisc show {}").contains("htb"), "{}", sites.tc("qdisc show {}"));
    there.end();
    back.end();
}
