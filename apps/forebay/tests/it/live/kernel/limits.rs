//! Process boxes get no more memory and no more descriptors.

use std::fs;

use forebay_test_support::has_root;

use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::until;

/// Limits a process to the memory and the descriptors that it has.
///
/// The limit on descriptors is one above the last of the first free ones, since a test's process
/// may inherit descriptors with higher numbers.
fn limit(process: u32) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let memory = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    let open = |n: &u64| fs::exists(format!("/proc/{process}/fd/{n}")).unwrap();
    let descriptors = (0..).find(|n| !open(n)).unwrap();
    for (resource, most) in [(libc::RLIMIT_AS, memory), (libc::RLIMIT_NOFILE, descriptors)] {
        let limit = libc::rlimit64 { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit lives during the call, and no old limit is asked for.
        let set = unsafe {
            libc::prlimit64(process as i32, resource, &raw const limit, std::ptr::null_mut())
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn running_boxes_need_neither_more_memory_nor_more_descriptors() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kl");
    let mut sendbox = sites.sendbox();
    limit(sendbox.id());
    limit(sites.receivebox_id());
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    // Some seconds of the link, since no box can tell how far it is: it may open no descriptor.
    let sent = || sites.class().unwrap().sent;
    let before = sent();
    until("packets pass", || sent() > before + 5_000);
    transfers.go_on();
    sites.wait_for_control();
    transfers.end();
    for (box_, process) in [("sendbox", sendbox.id()), ("receivebox", sites.receivebox_id())] {
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        assert!(!state.contains(") Z "), "the {box_} ended: {}", sites.all_said());
    }
    sendbox.signal(libc::SIGTERM);
    let queues = sites.tc("qdisc show {}");
    assert!(!queues.contains("htb"), "{queues}{}", sites.all_said());
}
