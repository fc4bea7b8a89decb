//! Substitutes for the boxes, which are in another crate: the sendbox is a plain bridge.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use forebay_lab::results::{HopCounters, Tick};

/// The environment variable that makes the sendbox fail.
pub(crate) const FAIL: &str = "FOREBAY_TEST_FAIL";

/// Bridges two interfaces until the process is killed.
pub(crate) fn sendbox() -> ExitCode {
    if std::env::var_os(FAIL).is_some() {
        eprintln!("as it was told to fail");
        return ExitCode::FAILURE;
    }
    let config = fs::read_to_string(flag("--config")).unwrap();
    for line in ["inside = \"fb-in\"", "outside = \"fb-out\"", "limit = \"1000 packets\""] {
        assert!(config.contains(line), "{line} is not in:\n{config}");
    }
    bridge(&["fb-in", "fb-out"]);
    fs::write(flag("--packet-log"), "").unwrap();
    fs::write(flag("--event-log"), "").unwrap();
    let tick = Tick {
        time: 1,
        bundle: if config.contains("name = \"outer\"") { "outer" } else { "b" }.to_owned(),
        mode: "open".to_owned(),
        rate: None,
        rtt: None,
        min_rtt: None,
        send_rate: None,
        receive_rate: None,
        response: None,
        contrast: None,
        epoch: 1,
        backlog: 0,
        accepted: 0,
        out_of_order: 0,
    };
    fs::write(flag("--tick-log"), serde_json::to_string(&tick).unwrap() + "\n").unwrap();
    write_hop(&flag("--counters"), "sendbox");
    ready();
    wait()
}

/// Does nothing, since the engine owns the bridge to observe.
pub(crate) fn receivebox() -> ExitCode {
    assert!(fs::read_to_string(flag("--config")).unwrap().contains("interface = \"fb-up\""));
    ready();
    wait()
}

/// Writes a file in place of a key.
pub(crate) fn keygen() -> ExitCode {
    fs::write(std::env::args().nth(2).unwrap(), "a key\n").unwrap();
    ExitCode::SUCCESS
}

fn flag(name: &str) -> String {
    std::env::args().skip_while(|arg| arg != name).nth(1).unwrap()
}

fn ready() {
    println!(r#"{{"event":"ready"}}"#);
}

/// Waits until SIGTERM ends the process.
fn wait() -> ExitCode {
    loop {
        std::thread::park();
    }
}

fn write_hop(file: &str, hop: &str) {
    let counters = HopCounters { hop: hop.to_owned(), ..HopCounters::default() };
    fs::write(file, serde_json::to_string(&counters).unwrap() + "\n").unwrap();
}

fn bridge(devices: &[&str]) {
    let ip = |args: &str| {
        let status = Command::new("ip").args(args.split(' ')).status().unwrap();
        assert!(status.success(), "ip {args}");
    };
    // The kernel keeps the bridge of a stand-in that was stopped.
    let _ = Command::new("ip").args(["link", "del", "br0"]).stderr(Stdio::null()).status();
    ip("link add br0 type bridge mcast_snooping 0");
    for device in devices {
        ip(&format!("link set {device} master br0"));
    }
    ip("link set br0 up");
}
