//! Tests a sendbox with `dataplane = "kernel"`: the real command, the kernel's TCP, and the
//! laboratory's link as the bottleneck.

mod bundles;
mod doctor;
pub(crate) mod faults;
mod floods;
mod limits;
mod mistakes;
mod names;
mod roam;
mod shares;
mod site;
pub(crate) mod stranger;
mod tunnel;

use std::process::Command;

use forebay_test_support::has_root;

use crate::support::sites::{SENDBOX, Sites, path};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

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
