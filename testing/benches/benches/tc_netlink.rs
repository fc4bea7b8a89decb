//! What changes of rate and questions for counts cost, in CPU time of this thread, which is where
//! the kernel does the work: `cargo bench -p forebay-benches --features live --bench tc_netlink` as
//! root. In a network namespace of its own.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Command;

use forebay_tc::{
    BundleQueues, Device, Discipline, Features, FifoLimit, Foreign, Plan, Programs, Tree, Watch,
};
use forebay_units::Rate;

const ROUNDS: u64 = 300;

fn main() {
    // SAFETY: takes a flag, and changes the namespace of this thread alone, before there are
    // others.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    ip("link add wan type veth peer name far");
    ip("link set wan up");
    ip("link set far up");
    println!("bundles  queue  changes  heard  us a change  us a bundle's counts");
    for (bundles, sfq) in
        [(1, false), (2, false), (10, false), (100, false), (1000, false), (100, true)]
    {
        let mut tree = tree(bundles, sfq);
        for changes in [1, 10, 100, 1000] {
            if changes > bundles {
                continue;
            }
            for heard in [false, true] {
                let mut watch = heard.then(|| Watch::new(&tree).unwrap());
                let change = rates(&mut tree, changes) / changes as f64;
                let news = watch.as_mut().map(|w| w.events().unwrap().len());
                assert!(news.is_none_or(|n| n == 0));
                let counts = counts(&mut tree) / bundles as f64;
                let queue = if sfq { "sfq" } else { "pfifo" };
                println!(
                    "{bundles:7}  {queue:5}  {changes:7}  {heard:5}  {change:11.2}  {counts:20.2}"
                );
            }
        }
        tree.remove().unwrap();
    }
}

fn tree(bundles: usize, sfq: bool) -> Tree {
    let discipline = if sfq {
        Discipline::Sfq { limit: 1_250, perturb: None }
    } else {
        Discipline::Fifo { limit: FifoLimit::Packets(1_000) }
    };
    let bundle = |number| BundleQueues {
        number,
        name: format!("b{number}"),
        classes: vec![discipline],
        shares: Vec::new(),
        share: forebay_tc::Share::default(),
    };
    let bundles: Vec<BundleQueues> = (0..bundles).map(bundle).collect();
    let plan = Plan::new(&bundles, &Features::probe().unwrap()).unwrap();
    let program = nothing();
    let programs = Programs { bundles: program.as_fd() };
    let device = Device::find("wan").unwrap();
    Tree::install(device, plan, &programs, Foreign::Refuse).unwrap().0
}

/// Microseconds to change `changes` rates with one call.
fn rates(tree: &mut Tree, changes: usize) -> f64 {
    let start = cpu();
    for round in 0..ROUNDS {
        for bundle in 0..changes {
            tree.set_rate(bundle, Some(Rate::from_mbps(10 + round % 7)));
        }
        assert_eq!(tree.flush().unwrap(), changes);
    }
    (cpu() - start) / ROUNDS as f64
}

/// Microseconds to ask for the counts of all bundles.
fn counts(tree: &mut Tree) -> f64 {
    let mut all = Vec::new();
    let start = cpu();
    for _ in 0..ROUNDS {
        tree.statistics(&mut all).unwrap();
    }
    (cpu() - start) / ROUNDS as f64
}

/// CPU time of this thread, in microseconds.
fn cpu() -> f64 {
    // SAFETY: all-zero is a valid `timespec`, which the call fills.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    }
}

/// A classifier that puts nothing into any class: `return TC_ACT_OK`.
fn nothing() -> OwnedFd {
    let code = [0xb7u64, 0x95];
    #[repr(C)]
    struct Attributes(u32, u32, u64, u64, [u64; 6]);
    let license = c"Apache-2.0".as_ptr() as u64;
    let attributes = Attributes(3, code.len() as u32, code.as_ptr() as u64, license, [0; 6]);
    // SAFETY: the start of the kernel's `union bpf_attr`, whose pointers live through the call.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, 5, &raw const attributes, size_of::<Attributes>());
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd as i32)
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}
