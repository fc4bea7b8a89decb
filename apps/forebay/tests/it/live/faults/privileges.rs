//! Tests which rights a running box has, and that it works with them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run};

use crate::support::probe::Probe;
use crate::support::process::Process;
use crate::support::sites::{SENDBOX, Sites};
use crate::support::span::{BOXES, METHODS, Span, TO};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The bit of `CAP_NET_ADMIN`.
const NET_ADMIN: u64 = 1 << 12;

/// Returns a field of a thread's `status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

/// Checks that all threads of a process have these capabilities and no others, and cannot gain any.
/// The thread that commands reach has none.
fn assert_reduced(what: &str, process: u32, capabilities: u64) {
    let directory = format!("/proc/{process}");
    for thread in fs::read_dir(format!("{directory}/task")).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let set = |name| u64::from_str_radix(field(&status, name), 16).unwrap();
        let is_reached = field(&status, "Name") == "commands";
        for name in ["CapEff", "CapPrm"] {
            let expected = if is_reached { 0 } else { capabilities };
            assert_eq!(set(name), expected, "{what}: {name}");
        }
        for name in ["CapBnd", "CapInh", "CapAmb"] {
            assert_eq!(set(name), 0, "{what}: {name}");
        }
        assert_eq!(field(&status, "NoNewPrivs"), "1", "{what}");
        assert_eq!(field(&status, "Seccomp"), "2", "{what}: a filter of system calls");
    }
    let limits = fs::read_to_string(format!("{directory}/limits")).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{what}: {cores}");
}

fn assert_written(file: &Path) {
    assert!(fs::metadata(file).unwrap().len() > 0, "{} is empty", file.display());
}

#[test]
fn a_box_in_user_space_runs_without_capabilities() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        for (kind, files) in BOXES {
            let what = format!("{kind}, {method}");
            let span = Span::over("fx", method);
            let mut command = span.command((kind, &[]), "");
            for file in files {
                command.arg(format!("--{file}")).arg(span.dir.0.join(file));
            }
            let mut running = Process::start_ready(&mut command);
            assert_reduced(&what, running.id(), 0);
            let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
            transfers.receive_new();
            assert_eq!(running.signal(libc::SIGTERM), Some(0), "{what}");
            probe.go_on();
            transfers.receive_new();
            transfers.end();
            // A link makes no records of packets that it does not shape, nor a sendbox of events
            // without a receivebox.
            for file in files.iter().filter(|file| !file.ends_with("-log")) {
                assert_written(&span.dir.0.join(file));
            }
            assert!(span.has_programs());
        }
    }
}

#[test]
fn a_sendbox_over_the_kernels_queues_keeps_one_capability() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("fy");
    // The classes need a BPF program, which a repair has to attach again.
    let text = format!("{SENDBOX}{STRICT}");
    sites.dir.file("sendbox.toml", &text, 0o644);
    assert_reduced("receivebox", sites.receivebox_id(), 0);
    let mut sendbox = sites.sendbox();
    assert_reduced("sendbox", sendbox.id(), NET_ADMIN);
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    sites.tc("qdisc del {} root");
    until("it is repaired", || sites.said().contains("the queues of fb-out are repaired"));
    sites.wait_for_control();
    transfers.go_on();
    sendbox.signal(libc::SIGTERM);
    transfers.go_on();
    transfers.end();
    assert!(!sites.tc("qdisc show {}").contains("htb"));
    assert!(!sites.said().contains("ERROR"), "{}", sites.said());

    // A sendbox that adopts a tree has not attached its programs itself.
    let mut killed = sites.sendbox();
    killed.signal(libc::SIGKILL);
    let mut sendbox = sites.sendbox();
    assert_reduced("sendbox", sendbox.id(), NET_ADMIN);
    let repairs = || sites.said().matches("the queues of fb-out are repaired").count();
    let before = repairs();
    sites.tc("qdisc del {} root");
    until("it is repaired", || repairs() > before);
    sendbox.signal(libc::SIGTERM);
    assert!(!sites.tc("qdisc show {}").contains("htb"));
}

/// Classes below the first bundle.
const STRICT: &str = r#"policy = { kind = "strict" }
[[bundle.class]]
name = "urgent"
dscp = [46]
[[bundle.class]]
name = "rest"
"#;

/// The unit for systemd.
const UNIT: &str = include_str!("../../../../../../contrib/systemd/forebay@.service");

/// Returns a command that runs the program in `namespace` with the capabilities of the
/// unit. The unit also lifts the limit of locked memory. A test may lack the right to do so, and
/// uses the capability that has the same effect.
fn as_service(namespace: &Namespace) -> Command {
    let names = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = names.unwrap().split(' ').map(|name| name.strip_prefix("CAP_").unwrap());
    let set: String = names.map(|name| format!(",+{}", name.to_lowercase())).collect();
    assert!(UNIT.contains("\nLimitMEMLOCK=infinity\n"));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.0, "setpriv", "--no-new-privs", "--bounding-set"]);
    command.arg(format!("-all,+ipc_lock{set}")).arg(PROGRAM).stdin(Stdio::null());
    command
}

#[test]
fn the_rights_of_the_documented_service_suffice() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        for (kind, _) in BOXES {
            let span = Span::over("ft", method);
            let mut command = as_service(&span.middle);
            command.args([kind, "--config"]).arg(span.dir.0.join(format!("{kind}.toml")));
            let mut running = Process::start_ready(&mut command);
            assert_reduced(kind, running.id(), 0);
            let transfers = span.transfers();
            transfers.go_on();
            assert_eq!(running.signal(libc::SIGTERM), Some(0));
            transfers.end();
        }
    }
    let sites = Sites::new("fg");
    sites.stop_receivebox();
    for (kind, namespace, capabilities) in
        [("receivebox", &sites.to, 0), ("sendbox", &sites.router, NET_ADMIN)]
    {
        let mut command = as_service(namespace);
        command.args([kind, "--config"]).arg(sites.dir.0.join(format!("{kind}.toml")));
        let mut running = Process::start_ready(&mut command);
        assert_reduced(kind, running.id(), capabilities);
        assert_eq!(running.signal(libc::SIGTERM), Some(0));
    }
}

#[test]
fn a_box_that_may_not_give_up_its_rights_warns_and_runs() {
    if !has_root() {
        return;
    }
    let span = Span::new("fz");
    let log = span.dir.0.join("log");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &span.middle.0, "setpriv", "--bounding-set", "-setpcap"]);
    command.args([PROGRAM, "link", "--config"]).arg(span.dir.0.join("link.toml"));
    command.stdin(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut running = Process::start_ready(&mut command);
    let said = fs::read_to_string(&log).unwrap();
    let warning = "WARN capabilities that commands could gain cannot be given up: Operation not";
    assert!(said.contains(warning), "{said}");
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    assert_eq!(field(&status, "CapEff"), "0000000000000000");
    let transfers = span.transfers();
    transfers.go_on();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    transfers.end();
    let middle = &span.middle.0;
    run(&format!("ip netns exec {middle} {PROGRAM} detach fb-in fb-out"));
}
