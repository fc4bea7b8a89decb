//! Tests a sendbox with `dataplane = "kernel"`: the real command, the kernel's TCP, and the
//! laboratory's link as the bottleneck. They need root.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bundles;
mod capture;
mod classes;
#[path = "../common/mod.rs"]
mod common;
mod delayed;
mod doctor;
mod faults;
mod floods;
mod limits;
mod mistakes;
mod names;
#[path = "../../../dataplane/tests/namespace/mod.rs"]
mod namespace;
mod roam;
mod site;
#[allow(dead_code, reason = "the tests of faults use the rest")]
mod sites;
mod stranger;
#[allow(dead_code, reason = "the tests of faults use the rest")]
mod transfer;
mod tunnel;
#[path = "../../../dataplane/tests/tunnel/mod.rs"]
mod tunnel_device;
mod weights;

use std::process::Command;

use namespace::has_root;
use sites::{PROGRAM, SENDBOX, Sites, path, until};
use transfer::{FILLING, Transfers};

#[test]
fn kernel_queues_are_controlled_and_removed_in_order() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kq");
    let mut sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    until("the queue is here", || sites.class().is_some_and(|c| c.waiting > 0));
    transfers.go_on();

    sendbox.signal(libc::SIGTERM);
    assert!(!sites.tc("qdisc show {}").contains("htb"), "{}", sites.tc("qdisc show {}"));
    transfers.go_on();
    transfers.end();
}

#[test]
fn existing_qdiscs_are_kept_unless_configured_otherwise() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kt");
    sites.tc("qdisc add {} root handle 7: pfifo limit 77");
    let file = sites.dir.0.join("sendbox.toml");
    let output = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "sendbox", "--config", path(&file)])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("already has queues of another owner (pfifo 7:)"), "{said}");
    assert!(said.contains("take_over = true"), "{said}");
    assert!(sites.tc("qdisc show {}").contains("pfifo 7:"));

    let text = SENDBOX.replacen("[sendbox]\n", "[sendbox]\ntake_over = true\n", 1);
    sites.dir.file("sendbox.toml", &text, 0o644);
    let mut sendbox = sites.sendbox();
    assert!(sites.tc("qdisc show {}").contains("htb fb0:"));
    sendbox.signal(libc::SIGTERM);
    let after = sites.tc("qdisc show {}");
    assert!(after.contains("pfifo 7:") && after.contains("limit 77p"), "{after}");
}
