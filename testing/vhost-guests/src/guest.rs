//! The guest's first process: it brings the network up, does its work, prints the result, and
//! powers off.

use std::ffi::CString;
use std::io;
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::Value;

use crate::machine::RESULT;
use crate::{mixed, requests, sink, stream};

/// The word for a guest whose kernel's backpressure is on.
pub(crate) const ZD: &str = "zd";
/// The word for a guest whose TCP asks for ECN.
pub(crate) const ECN: &str = "ecn";
/// Name of the guest's network card.
pub(crate) const CARD: &str = "eth0";
/// The sysctl of `kernel/zd`.
const SWITCH: &str = "/proc/sys/net/core/zd";

/// Runs a guest. `words` are what is switched on in its kernel, the kind of work, and the arguments
/// of the work, of which the first two are the guest's address and the length of its queue.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let seconds = |word: &str| Duration::from_secs(word.parse().unwrap());
    set_up(&words[0]);
    let number = |word: &str| word.parse().unwrap();
    let result: Value = match words[1].as_str() {
        "stream" => {
            connect(&words[2], number(&words[3]));
            let flows = number(&words[4]) as usize;
            stream::run(flows, seconds(&words[5]), seconds(&words[6]))
        }
        "requests" => {
            connect(&words[2], number(&words[3]));
            requests::run(seconds(&words[4]), seconds(&words[5]))
        }
        "mixed" => {
            steer(number(&words[4]));
            connect(&words[2], number(&words[3]));
            mixed::run(number(&words[5]) as usize, seconds(&words[6]), seconds(&words[7]))
        }
        other => panic!("no such work: {other}"),
    };
    println!("{RESULT}{result}");
    // SAFETY: neither call takes a pointer; the second does not return in a guest.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    ExitCode::FAILURE
}

fn set_up(switch: &str) {
    let (proc, path) = (CString::new("proc").unwrap(), CString::new("/proc").unwrap());
    // SAFETY: the C strings live through the call, and there is no data.
    let done =
        unsafe { libc::mount(proc.as_ptr(), path.as_ptr(), proc.as_ptr(), 0, std::ptr::null()) };
    assert_eq!(done, 0, "mounting /proc");
    // Super-packets of a millisecond at the flow's rate, as over any path longer than this one:
    // below half a millisecond of round trip Linux (5.18 and later) fills them to 64 kB whatever
    // the rate.
    std::fs::write("/proc/sys/net/ipv4/tcp_tso_rtt_log", "0").unwrap();
    match switch {
        ZD => std::fs::write(SWITCH, "1").unwrap(),
        ECN => std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap(),
        _ => {}
    }
}

/// Sets up the network card, with a queue of `length` packets.
fn connect(address: &str, length: u32) {
    ip("link set lo up");
    ip(&format!("address add {address}/24 dev {CARD}"));
    ip(&format!("link set {CARD} txqueuelen {length}"));
    ip(&format!("link set {CARD} up"));
}

/// Uses `rings` pairs of rings: the backlogged flows go to the first, the requests to the second.
fn steer(rings: u32) {
    if rings == 1 {
        return;
    }
    run("ethtool", &format!("-L {CARD} combined {rings}"));
    run("tc", &format!("qdisc replace dev {CARD} root mq"));
    run("tc", &format!("qdisc add dev {CARD} clsact"));
    for (ring, port) in [sink::DISCARD, sink::ECHO].into_iter().enumerate() {
        let to = format!("protocol ip flower ip_proto tcp dst_port {port}");
        let action = format!("action skbedit queue_mapping {ring}");
        run("tc", &format!("filter add dev {CARD} egress {to} {action}"));
    }
}

/// Runs `ip` with the words of `line`, which must succeed.
fn ip(line: &str) {
    run("ip", line);
}

/// Runs `program` with the words of `line`, which must succeed.
fn run(program: &str, line: &str) {
    let status = Command::new(program).args(line.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {line}");
}

/// Packets that the qdiscs of `device` dropped.
pub(crate) fn queue_drops(device: &str) -> io::Result<u64> {
    let out = Command::new("tc").args(["-s", "-j", "qdisc", "show", "dev", device]).output()?;
    let queues: Value = serde_json::from_slice(&out.stdout)?;
    let queues = queues.as_array().map(Vec::as_slice).unwrap_or_default();
    let root = queues.iter().find(|queue| queue["root"] == true);
    root.and_then(|queue| queue["drops"].as_u64())
        .ok_or_else(|| io::Error::other(format!("no qdisc of {device}: {queues:?}")))
}
