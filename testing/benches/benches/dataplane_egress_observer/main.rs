//! What it costs to see a packet leave the kernel's queues, by the kernel's own account of its BPF
//! programs: `cargo bench -p forebay-benches --features live --bench
//! dataplane_egress_observer`, as root.
//!
//! TCP goes from one namespace into the next. The tracepoint is the machine's, so that the program
//! runs for the packets of other devices too, and turns away from them: what that costs is measured
//! by itself and taken off.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod sites;

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Hook, Netdev, Sampler};
use forebay_system::clock;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{enter, run};
use forebay_units::Nanos;
use libbpf_rs::query::ProgInfoIter;
use sites::{FROM, KEY, Sites, TO, prefixes};

const LEN: usize = 256 << 20;
const EPOCH: u32 = 64;

/// How often a program has run, and how long.
#[derive(Clone, Copy)]
struct Runs {
    count: u64,
    nanos: u64,
}

impl Runs {
    fn of(name: &str) -> Self {
        let mut all = Self { count: 0, nanos: 0 };
        for program in ProgInfoIter::default().filter(|p| p.name == name) {
            all.count += program.run_cnt;
            all.nanos += program.run_time_ns;
        }
        all
    }

    fn since(self, before: Self) -> Self {
        Self { count: self.count - before.count, nanos: self.nanos - before.nanos }
    }
}

/// The program's runs while TCP carries its load.
fn during(sites: &Sites, program: &str) -> Runs {
    let before = Runs::of(program);
    sites.tcp(LEN);
    Runs::of(program).since(before)
}

fn observer(bundles: usize) -> EgressObserver {
    let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
    let others = (1..bundles).map(|i| format!("10.{}.{}.0/24", 100 + i / 256, i % 256));
    let all: Vec<_> = [prefixes(&TO)].into_iter().chain(others.map(|p| prefixes(&[&p]))).collect();
    observer.set_bundles(&all).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, EPOCH).unwrap();
    observer
}

/// Runs the classifier on a TCP packet of the bundle, again and again; returns the nanoseconds of
/// one run.
fn classify(observer: &EgressObserver) -> u32 {
    let mut frame = vec![0; 1514];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&1500u16.to_be_bytes());
    frame[19] = 7;
    frame[23] = 6;
    frame[30..34].copy_from_slice(&[10, 9, 2, 2]);
    let classifier = observer.classifier().unwrap();
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        repeat: 5_000_000,
        ..Default::default()
    };
    // SAFETY: a program's descriptor, and options whose size they say themselves; the frame lives
    // through the call and is only read.
    let rc =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(classifier.as_raw_fd(), &raw mut options) };
    assert_eq!((rc, options.retval), (0, 0), "the packet is in the bundle");
    options.duration
}

fn main() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    let (a, b) = (sites.from.0.clone(), sites.to.0.clone());

    // On a device that carries one packet, by which it is known, what is seen is the others'.
    run(&format!("ip -n {a} link add idle type veth peer name idle2"));
    run(&format!("ip -n {a} addr add 10.99.0.1/24 dev idle"));
    for device in ["idle", "idle2"] {
        run(&format!("ip -n {a} link set {device} up"));
    }
    run(&format!("ip -n {a} neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev idle"));
    enter(&a);
    let mut idle = EgressObserver::attach(&Netdev::find("idle").unwrap()).unwrap();
    idle.set_bundles(&[prefixes(&TO)]).unwrap();
    idle.report_alive(clock::now() + Nanos::from_secs(3_600)).unwrap();
    // The kernel's own account costs as much as the program.
    println!("the classifier: {} ns", classify(&idle));
    // SAFETY: the kernel counts as long as the descriptor is open, which is nobody else's.
    let _counting = unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        assert!(fd >= 0, "the kernel counts no run times");
        OwnedFd::from_raw_fd(fd)
    };
    UdpSocket::bind("10.99.0.1:0").unwrap().send_to(b"known", "10.99.0.2:9").unwrap();
    let runs = during(&sites, "fb_egress");
    let other = runs.nanos as f64 / runs.count as f64;
    drop(idle);
    println!("a packet of another device: {other:.0} ns");

    println!("Without notes of the classifier:");
    println!("TSO  bundles  ns per sk_buff  ns per packet on the wire");
    for tso in ["on", "off"] {
        run(&format!("ip netns exec {a} ethtool -K eth0 tso {tso}"));
        for bundles in [1, 1000] {
            let observer = observer(bundles);
            let before = Sites::sent(&a, "eth0");
            let runs = during(&sites, "fb_egress");
            let own = Sites::sent(&a, "eth0") - before;
            let nanos = runs.nanos as f64 - other * (runs.count - own) as f64;
            let packets = observer.counts(0).unwrap().packets;
            let (each, packet) = (nanos / own as f64, nanos / packets as f64);
            println!("{tso:3}  {bundles:7}  {each:14.0}  {packet:25.0}");
        }
    }
    // XDP comes last: it makes the router cut its super-packets up.
    run(&format!("ip netns exec {b} ethtool -K eth0 gro on"));
    run(&format!("ip netns exec {a} ethtool -K eth0 tso on"));
    enter(&b);
    println!("receivebox  ns per run  ns per packet on the wire");
    for (hook, program) in [(Hook::Tc, "fb_ingress"), (Hook::Xdp, "fb_receivebox")] {
        let rule = BundleRule {
            sources: prefixes(&FROM),
            destinations: prefixes(&TO),
            key: KEY,
            epoch: EPOCH,
        };
        let sampler = Sampler::attach_at(&Netdev::find("eth0").unwrap(), &[rule], hook).unwrap();
        let runs = during(&sites, program);
        let packets = sampler.counts(0).unwrap().packets;
        let each = runs.nanos as f64 / runs.count as f64;
        println!("{hook:11} {each:10.0}  {:25.0}", runs.nanos as f64 / packets as f64);
    }
}
