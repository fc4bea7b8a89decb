//! Tests `forebay doctor` on this machine, beside running boxes.

use std::process::Command;

use forebay_test_support::has_root;
use forebay_test_support::namespace::run;
use serde_json::Value;

use crate::support::sites::{Sites, path};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The report about the router, and whether the exit status was success.
fn examine(sites: &Sites) -> (Value, bool) {
    let file = sites.dir.0.join("sendbox.toml");
    let output = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "doctor", "--json", "--config"])
        .arg(path(&file))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (serde_json::from_str(&said).unwrap(), output.status.success())
}

/// The verdict of one check, and its finding.
fn check(report: &Value, what: &str) -> (String, String) {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|c| c["what"] == what).unwrap_or_else(|| panic!("{report:#}"));
    let text = |key: &str| check[key].as_str().unwrap().to_owned();
    (text("verdict"), text("found"))
}

#[test]
fn the_doctor_reports_the_machine_and_changes_nothing() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kd");
    let looks = || {
        let links = run(&format!("ip -d -n {} link show", sites.router.0));
        sites.tc("qdisc show {}") + &links
    };
    let before = looks();
    let (report, well) = examine(&sites);
    assert!(well && report["healthy"] == true, "{report:#}");
    assert_eq!(report["wanted"], "sendbox_kernel");
    assert_eq!(check(&report, "tree of queues").0, "ok");
    assert_eq!(check(&report, "queues of fb-out"), ("ok".into(), "the kernel's own".into()));
    assert_eq!(check(&report, "egress observer").0, "ok");
    assert_eq!(check(&report, "fb-out XDP").0, "ok");
    let (verdict, found) = check(&report, "b: the receivebox");
    assert!(verdict == "ok" && found.starts_with("answered after"), "{found}");
    let to = check(&report, "b: to 10.9.9.3:28317");
    assert_eq!(to, ("ok".into(), "by fb-out, MTU 1500".into()));
    assert_eq!(looks(), before);

    // The probe left no state at the receivebox: a sendbox works with it as before.
    let mut sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    let (report, well) = examine(&sites);
    assert!(well, "{report:#}");
    assert_eq!(check(&report, "queues of fb-out"), ("note".into(), "a sendbox's".into()));
    let (verdict, found) = check(&report, "b: the receivebox");
    assert_eq!(verdict, "ok");
    assert_eq!(found, "answers the sendbox that runs here (delay control)");
    sites.stop_receivebox();
    until("the doctor says what the sendbox says", || {
        check(&examine(&sites).0, "b: the receivebox")
            .1
            .starts_with("no answer from the receivebox")
    });
    sendbox.signal(libc::SIGTERM);
    transfers.end();

    sites.tc("qdisc add {} root handle 7: pfifo limit 77");
    let (report, well) = examine(&sites);
    assert!(!well && report["healthy"] == false, "{report:#}");
    let queues = check(&report, "queues of fb-out");
    assert_eq!(queues, ("problem".into(), "somebody else's (pfifo 7:)".into()));
}
