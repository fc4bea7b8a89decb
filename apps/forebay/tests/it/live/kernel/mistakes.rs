//! Mistakes in the files of two sites: the log of each box says what is wrong.

use std::fs;
use std::process::Command;
use std::time::Instant;

use forebay_test_support::has_root;

use crate::support::sites::{RECEIVEBOX, SENDBOX, Sites};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// A mistake, and what each log has to say about it.
struct Mistake {
    name: &'static str,
    sendbox: String,
    receivebox: String,
    sendbox_says: &'static str,
    receivebox_says: &'static str,
}

fn mistakes() -> [Mistake; 5] {
    let plain = Mistake {
        name: "",
        sendbox: SENDBOX.to_owned(),
        receivebox: RECEIVEBOX.to_owned(),
        sendbox_says: "no answer from the receivebox at 10.9.9.3:28317",
        receivebox_says: "no message from the sendbox at 10.9.9.1:28316",
    };
    [
        Mistake {
            name: "another key",
            receivebox: RECEIVEBOX.replace("\"key\"", "\"other.key\""),
            receivebox_says: "a message from 10.9.9.1:28316 was refused: wrong tag: check that \
                              both boxes have the same key",
            sendbox: plain.sendbox.clone(),
            ..plain
        },
        Mistake {
            name: "another id",
            receivebox: RECEIVEBOX.replace("id = 1", "id = 2"),
            receivebox_says: "its messages are for bundle 1, which is not here",
            sendbox: plain.sendbox.clone(),
            ..plain
        },
        Mistake {
            name: "another port",
            receivebox: RECEIVEBOX.replace("10.9.9.3:28317", "10.9.9.3:28320"),
            sendbox_says: "the network reports: Connection refused",
            sendbox: plain.sendbox.clone(),
            ..plain
        },
        Mistake {
            name: "other prefixes at the receivebox",
            receivebox: RECEIVEBOX.replace("10.9.9.2/32", "10.9.8.0/24"),
            sendbox_says: "the receivebox counts none of the last",
            receivebox_says: "packets that the sendbox sent is counted here",
            sendbox: plain.sendbox.clone(),
        },
        Mistake {
            name: "other prefixes at the sendbox",
            sendbox: SENDBOX.replace("10.9.9.2/32", "10.9.8.0/24"),
            sendbox_says: "answers is for a packet that left here",
            receivebox_says: "the sendbox knows none of the packets of the last",
            receivebox: plain.receivebox,
        },
    ]
}

#[test]
fn each_mistake_is_said_at_both_ends_and_so_is_its_end() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("km");
    let other = sites.dir.0.join("other.key");
    assert!(Command::new(PROGRAM).arg("keygen").arg(other).status().unwrap().success());
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    let log = |name: &str, from: usize| {
        fs::read_to_string(sites.dir.0.join(name)).unwrap()[from..].to_owned()
    };
    for mistake in mistakes() {
        let starts = ["sendbox.log", "others.log"]
            .map(|name| fs::read_to_string(sites.dir.0.join(name)).unwrap_or_default().len());
        sites.restart_receivebox(&mistake.receivebox);
        sites.dir.file("sendbox.toml", &mistake.sendbox, 0o644);
        let mut sendbox = sites.sendbox();
        let began = Instant::now();
        let seconds =
            [(0, "sendbox.log", mistake.sendbox_says), (1, "others.log", mistake.receivebox_says)]
                .map(|(end, name, words)| {
                    until(&format!("{}: {name} says {words:?}", mistake.name), || {
                        log(name, starts[end]).contains(words)
                    });
                    began.elapsed().as_secs_f64()
                });
        eprintln!("{}: said after {seconds:.1?} s", mistake.name);
        sendbox.signal(libc::SIGTERM);
    }
    let start = log("others.log", 0).len();
    sites.restart_receivebox(RECEIVEBOX);
    sites.dir.file("sendbox.toml", SENDBOX, 0o644);
    let _sendbox = sites.sendbox();
    sites.wait_for_control();
    // The receivebox may have waited for the sendbox, and said so.
    const OVER: &str = "the boxes understand each other again";
    let said = || {
        let all = log("others.log", start);
        let from = all.rfind(OVER).unwrap_or(0);
        all[from..].to_owned()
    };
    until("all is well", || !said().contains("WARN"));
    transfers.end();
    assert!(!said().contains("WARN"), "all is well: {}", said());
}
