//! The guest's first process: it brings the network up, does its work, prints the result, and
//! powers off.

use std::ffi::CString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::Value;

use super::machine::RESULT;
use super::{requests, stream};

/// Runs a guest. `words` are its address, the kind of work, and the arguments of the work.
pub(super) fn main(words: &[String]) -> ExitCode {
    let seconds = |word: &str| Duration::from_secs(word.parse().unwrap());
    set_up(&words[0]);
    let result: Value = match words[1].as_str() {
        "stream" => stream::run(words[2].parse().unwrap(), seconds(&words[3]), seconds(&words[4])),
        "requests" => requests::run(seconds(&words[2]), seconds(&words[3])),
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

fn set_up(address: &str) {
    let (proc, path) = (CString::new("proc").unwrap(), CString::new("/proc").unwrap());
    // SAFETY: the C strings live through the call, and there is no data.
    let done =
        unsafe { libc::mount(proc.as_ptr(), path.as_ptr(), proc.as_ptr(), 0, std::ptr::null()) };
    assert_eq!(done, 0, "mounting /proc");
    // Super-packets of a millisecond at the flow's rate, as over any path longer than this one:
    // below half a millisecond of round trip Linux (5.18 and later) fills them to 64 kB whatever
    // the rate.
    std::fs::write("/proc/sys/net/ipv4/tcp_tso_rtt_log", "0").unwrap();
    for line in [
        "link set lo up".to_owned(),
        format!("address add {address}/24 dev eth0"),
        "link set eth0 up".to_owned(),
    ] {
        let status = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "ip {line}");
    }
}
