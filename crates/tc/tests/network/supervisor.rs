//! What happens when the daemon dies: this test binary is run again as a daemon and as its
//! supervisor, so that they can be killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Network, WAN, fifo, has_root, install};
use forebay_tc::{Error, Features, Outcome, Supervisor, supervise};
use forebay_units::Rate;

/// How long the slow machines of a test wait for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to be, if not a test.
const ROLE: &str = "FB_TC_ROLE";

/// Runs this binary again as `role`, in the calling thread's namespace and a process group of its
/// own.
fn start(role: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "supervisor::another_role", "--nocapture"])
        .env(ROLE, role)
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The entry of the other roles; as a test it does nothing.
#[test]
fn another_role() {
    match env::var(ROLE).as_deref() {
        // Three bundles, two of which have limits; then it waits to be killed.
        Ok(role @ ("daemon" | "generous daemon" | "orderly daemon")) => {
            let mut tree = install(&[&[fifo(9)], &[fifo(9)], &[fifo(9)]]);
            tree.set_rate(0, Some(Rate::from_mbps(1)));
            tree.set_rate(1, Some(Rate::from_mbps(2)));
            tree.flush().unwrap();
            let me = env::current_exe().unwrap();
            // SAFETY: this process has one thread that looks at its environment, this one.
            unsafe { env::set_var(ROLE, "supervisor") };
            let arguments = ["--exact", "supervisor::another_role", "--nocapture"];
            let mut supervisor = Supervisor::start(me.as_os_str(), &arguments).unwrap();
            assert!(supervisor.is_alive());
            if role == "generous daemon" {
                drop(tree);
            }
            if role == "orderly daemon" {
                return supervisor.dismiss().unwrap();
            }
            println!("\nready");
            loop {
                std::thread::park();
            }
        }
        Ok("supervisor") => {
            let outcome = supervise(WAN).unwrap();
            assert_ne!(outcome, Outcome::NoTree);
        }
        Ok("nobody") => {
            // SAFETY: integers; of this process alone.
            assert_eq!(unsafe { libc::setuid(65_534) }, 0);
            let error = Features::probe().unwrap_err();
            assert!(matches!(error, Error::Permission(_)), "{error}");
            println!("\n{error}");
        }
        _ => {}
    }
}

/// What a role says.
fn ready(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    // The harness writes lines of its own.
    lines.find(|l| l == "ready" || l.contains("needs root")).unwrap()
}

/// Kills `daemon` with its process group.
fn kill(mut daemon: Child) {
    // SAFETY: integers; the group is of this test's own child, which was not waited for yet.
    assert_eq!(unsafe { libc::kill(-(daemon.id() as i32), libc::SIGKILL) }, 0);
    daemon.wait().unwrap();
}

/// The rates of the bundles' classes, as `tc` says them.
fn limits(network: &Network) -> usize {
    let classes = network.tc("class show dev wan");
    classes.lines().filter(|l| l.contains("rate 1Mbit") || l.contains("rate 2Mbit")).count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn limits_are_lifted_when_the_daemon_is_killed() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        let mut daemon = start("daemon");
        ready(&mut daemon);
        assert_eq!(limits(&network), 2);
        kill(daemon);
        until("the limits are lifted", || limits(&network) == 0);
        assert_eq!(network.tc("class show dev wan").lines().count(), 3, "the tree stays");
        // The next daemon adopts it, and waits for the supervisor if it must.
        let tree = install(&[&[fifo(9)], &[fifo(9)], &[fifo(9)]]);
        tree.remove().unwrap();
    });
}

#[test]
fn a_tree_that_was_adopted_is_left_alone() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        // A daemon that has let go of its tree before it dies, so that the next one is there first.
        let mut daemon = start("generous daemon");
        ready(&mut daemon);
        assert_eq!(supervisors(&network).len(), 1);
        let tree = install(&[&[fifo(9)], &[fifo(9)], &[fifo(9)]]);
        kill(daemon);
        until("the supervisor ends", || supervisors(&network).is_empty());
        assert_eq!(limits(&network), 2);
        tree.remove().unwrap();
    });
}

#[test]
fn an_orderly_end_leaves_no_supervisor() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        let mut daemon = Command::new(env::current_exe().unwrap())
            .args(["--exact", "supervisor::another_role", "--nocapture"])
            .env(ROLE, "orderly daemon")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(daemon.wait().unwrap().success());
        assert!(supervisors(&network).is_empty());
        assert_eq!(limits(&network), 2, "nobody lifted anything");
    });
}

#[test]
fn without_rights_there_is_one_clear_line() {
    if !has_root() {
        return;
    }
    let mut nobody = start("nobody");
    assert_eq!(
        ready(&mut nobody),
        "making a network namespace needs root (CAP_NET_ADMIN, and CAP_BPF for programs): run it with sudo"
    );
    nobody.wait().unwrap();
}

/// The supervisors in the network's namespace.
fn supervisors(network: &Network) -> Vec<i32> {
    let is_one = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|v| v == format!("{ROLE}=supervisor").as_bytes())
    };
    network.pids().into_iter().filter(is_one).collect()
}
