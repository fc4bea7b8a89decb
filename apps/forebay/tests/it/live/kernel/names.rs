//! The name of another box is resolved when it can be, and again when that box has moved.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use forebay_records::Status;
use forebay_test_support::has_root;
use forebay_test_support::namespace::run;

use crate::support::sites::{RECEIVEBOX, SENDBOX, Sites};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The files that `ip netns exec` puts in place of those of `/etc`.
struct Hosts(PathBuf);

impl Hosts {
    fn of(namespace: &str) -> Self {
        let directory = PathBuf::from("/etc/netns").join(namespace);
        fs::create_dir_all(&directory).unwrap();
        let hosts = Self(directory);
        hosts.write("127.0.0.1 localhost\n");
        // No server is asked.
        fs::write(hosts.0.join("resolv.conf"), "").unwrap();
        hosts
    }

    /// Changes the file in place, since it is mounted elsewhere.
    fn write(&self, text: &str) {
        fs::write(self.0.join("hosts"), text).unwrap();
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // Only if it is empty.
        let _ = fs::remove_dir("/etc/netns");
    }
}

#[test]
fn a_name_is_resolved_when_it_can_be_and_again_after_a_reload() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("ky");
    let hosts = Hosts::of(&sites.router.0);
    let text = SENDBOX.replace("10.9.9.3:28317", "branch.fb.invalid:28317");
    let file = sites.dir.file("sendbox.toml", &text, 0o644);
    let check = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "check"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(check.stderr).unwrap();
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("the name \"branch.fb.invalid\" cannot be resolved"), "{said}");

    // The box starts without the address, and finds it.
    let sendbox = sites.sendbox();
    let place = || {
        let json = run(&format!("ip netns exec {} {PROGRAM} status --json", sites.router.0));
        let all: Vec<Status> = serde_json::from_str(&json).unwrap();
        all[0].sends[0].receivebox.map(|address| address.to_string())
    };
    assert_eq!(place(), None);
    assert!(sites.said().contains("\"branch.fb.invalid\" cannot be resolved"), "{}", sites.said());
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    hosts.write("10.9.9.3 branch.fb.invalid\n");
    until("the name is resolved", || place().as_deref() == Some("10.9.9.3:28317"));
    sites.wait_for_control();

    // The process that asks has no capabilities, and ends with its box.
    let children = format!("/proc/{0}/task/{0}/children", sendbox.id());
    let child = fs::read_to_string(children).unwrap().trim().to_owned();
    let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");

    // The receivebox moves, and a reload asks for its name again.
    sites.restart_receivebox(&RECEIVEBOX.replace("10.9.9.3:28317", "10.9.9.2:28317"));
    hosts.write("10.9.9.2 branch.fb.invalid\n");
    run(&format!("ip netns exec {} {PROGRAM} reload", sites.router.0));
    until("the name is resolved again", || place().as_deref() == Some("10.9.9.2:28317"));
    sites.wait_for_control();
    transfers.go_on();
    transfers.end();
    let said = sites.said();
    let line = "the receivebox moved from 10.9.9.3:28317 to 10.9.9.2:28317, as its name";
    assert!(said.contains(line), "{said}");
    drop(sendbox);
    until("the process that asks has ended", || !PathBuf::from(format!("/proc/{child}")).exists());
}
