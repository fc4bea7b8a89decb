//! A site whose address changes is followed by its authentic messages, and repeated ones move
//! nothing.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use forebay_records::Status;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};

use super::floods::captured;
use crate::support::process::{self, Process};
use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The head site's file: it does not have the branch's address.
const HEAD: &str = r#"[site]
interface = "fb-out"
listen = "[::]:28316"
prefixes = ["10.9.1.0/24"]
[[peer]]
name = "branch"
prefixes = ["10.9.9.2/32"]
key_file = "key"
"#;

/// The branch's file, which has the head's address.
fn branch(head: &str) -> String {
    format!(
        r#"[site]
interface = "eth0"
listen = "[::]:28316"
prefixes = ["10.9.9.2/32"]
[[peer]]
name = "head"
address = "{head}:28316"
prefixes = ["10.9.1.0/24"]
key_file = "key"
"#
    )
}

fn start(sites: &Sites, place: &Namespace, name: &str, text: &str) -> Process {
    let file = sites.dir.file(&format!("{name}.toml"), text, 0o644);
    let log = sites.dir.0.join(format!("{name}.log"));
    process::start(place, &["site", "--config", file.to_str().unwrap()], &log)
}

fn status(place: &Namespace) -> Status {
    let json = run(&format!("ip netns exec {} {PROGRAM} status --json", place.0));
    let mut all: Vec<Status> = serde_json::from_str(&json).unwrap();
    assert_eq!(all.len(), 1, "one process: {json}");
    all.remove(0)
}

/// Waits until messages of both directions go to `address`, and the bundle is measured from there.
fn until_at(sites: &Sites, address: &str) {
    let address = Some(address.parse().unwrap());
    until(&format!("the branch is at {address:?}"), || {
        let Status { sends, receives, .. } = status(&sites.router);
        sends[0].receivebox == address && receives[0].sendbox == address
    });
    let before = status(&sites.router).sends[0].measurements;
    until("its feedback counts", || status(&sites.router).sends[0].measurements > before + 20);
    let now = status(&sites.router);
    assert_eq!((&now.sends[0].trouble, &now.receives[0].trouble), (&None, &None), "{now:?}");
}

#[test]
fn a_site_is_followed_to_another_address_and_ip_version_and_not_by_replays() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kx");
    sites.stop_receivebox();
    let head = start(&sites, &sites.router, "head", HEAD);
    let unknown = status(&sites.router);
    assert_eq!((unknown.sends[0].receivebox, unknown.receives[0].sendbox), (None, None));
    let branch_process = start(&sites, &sites.to, "branch", &branch("10.9.9.1"));
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    until_at(&sites, "10.9.9.2:28316");
    sites.wait_for_control();

    // Another address of the branch: it sends from there.
    let old = captured(&sites.router, "fb-out", 28316);
    run(&format!("ip -n {} route replace 10.9.9.0/24 dev eth0 src 10.9.9.3", sites.to.0));
    until_at(&sites, "10.9.9.3:28316");
    let moves = status(&sites.router).receives[0].moves;

    // Messages from before and of now, repeated from a third place.
    let new = captured(&sites.router, "fb-out", 28316);
    let refused = |status: &Status| status.sends[0].refused + status.receives[0].refused;
    let before = refused(&status(&sites.router));
    let payloads: Vec<_> = old.iter().chain(&new).map(|frame| frame[42..].to_vec()).collect();
    let count = payloads.len() as u64;
    within(&sites.to.0, move || {
        let socket = UdpSocket::bind("10.9.9.2:4444").unwrap();
        for payload in payloads {
            socket.send_to(&payload, "10.9.9.1:28316").unwrap();
        }
    });
    until("they are refused", || refused(&status(&sites.router)) >= before + count);
    let after = status(&sites.router);
    assert_eq!(after.receives[0].moves, moves, "a replay moves nothing");
    until_at(&sites, "10.9.9.3:28316");

    // The branch talks IPv6 from now on.
    fs::write(sites.dir.0.join("branch.toml"), branch("[fd09:9::1]")).unwrap();
    run(&format!("ip netns exec {} {PROGRAM} reload", sites.to.0));
    until_at(&sites, "[fd09:9::2]:28316");
    transfers.go_on();
    transfers.end();

    let said = fs::read_to_string(sites.dir.0.join("head.log")).unwrap();
    for line in [
        "bundle branch: the sendbox is at 10.9.9.2:28316",
        "bundle branch: the receivebox is at 10.9.9.2:28316",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let Status { sends, .. } = status(&sites.router);
    assert!(sends[0].moves >= 2, "{sends:?}");

    // A new process goes on at the address of now, which no file has. Nothing moves it meanwhile.
    drop(branch_process);
    let place = |status: Status| (status.sends[0].receivebox, status.receives[0].sendbox);
    let before = place(status(&sites.router));
    assert!(before.0.is_some() && before.0 == before.1, "{before:?}");
    let upgrade = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "upgrade", "--", "sh", "-c"])
        .arg(format!("kill {}", head.id()))
        .spawn()
        .unwrap();
    let mut head = head;
    head.wait();
    let again = start(&sites, &sites.router, "head", HEAD);
    assert!(upgrade.wait_with_output().unwrap().status.success());
    assert_eq!(place(status(&sites.router)), before);
    drop(again);
}
