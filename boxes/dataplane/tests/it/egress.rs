//! Observers of the packets that leave a site, against what arrives at the other.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Hook, Netdev, Sample, Sampler};
use forebay_system::clock;
use forebay_test_support::namespace::{self, Namespace, run};
use forebay_units::Nanos;

use crate::seen::{Comparison, Seen};
use crate::sites::{FROM, KEY, Sites, TO, host, prefixes};

/// Programs on the packets that leave the first site, and on those that arrive at the other.
pub(crate) struct Observation<'a> {
    sites: &'a Sites,
    observer: EgressObserver,
    samplers: Vec<Sampler>,
}

impl<'a> Observation<'a> {
    /// Attaches the programs, of which those of the receivebox have these hooks.
    pub(crate) fn new(sites: &'a Sites, hooks: &[Hook]) -> Self {
        // Attached in the device's namespace, read from anywhere.
        let home = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        namespace::enter(&sites.from.0);
        let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
        observer.set_bundles(&[vec![], prefixes(&TO)]).unwrap();
        observer.set_key(1, KEY).unwrap();
        observer.set_epoch(1, 1).unwrap();
        namespace::enter(&sites.to.0);
        let netdev = Netdev::find("eth0").unwrap();
        let attach = |hook| Sampler::attach_at(&netdev, &[rule()], hook).unwrap();
        let samplers = hooks.iter().copied().map(attach).collect();
        namespace::enter_file(&home);
        Self { sites, observer, samplers }
    }

    /// Puts queues on the device of the first site, whose classifier leaves notes in packets.
    pub(crate) fn add_queues(&self) {
        let a = &self.sites.from.0;
        run(&format!("tc -n {a} qdisc add dev eth0 root handle fb0: htb"));
        let shape = "rate 32gbit burst 10mb cburst 10mb quantum 3028";
        run(&format!("tc -n {a} class add dev eth0 parent fb0: classid fb0:2 htb {shape}"));
        filter(self.sites, &self.observer);
    }

    /// Returns what is seen of some traffic: as it leaves, and as it arrives at each hook.
    pub(crate) fn observe(&mut self, traffic: impl FnOnce(&Sites)) -> (Seen, Vec<Seen>) {
        let left_before = self.observer.counts(1).unwrap();
        let before: Vec<_> = self.samplers.iter().map(|s| s.counts(0).unwrap()).collect();
        let begin = clock::now();
        traffic(self.sites);
        self.sites.settle();
        let end = clock::now();
        let left = Seen::leaving(&mut self.observer, 1, left_before);
        let is_within = |s: &Sample| begin <= s.time && s.time <= end;
        assert!(left.samples.iter().all(is_within), "one clock for all");
        let arrived = self.samplers.iter_mut().zip(before);
        (left, arrived.map(|(sampler, before)| Seen::arriving(sampler, before)).collect())
    }
}

/// Returns the rule of a receivebox, for which each packet is a boundary packet.
fn rule() -> BundleRule {
    BundleRule { sources: prefixes(&FROM), destinations: prefixes(&TO), key: KEY, epoch: 1 }
}

fn everything(sites: &Sites) {
    for version in [0, 1] {
        sites.tcp(version, 1 << 20);
        sites.udp(host(version), 4000..4020, 1200, 0);
        // In fragments, which have IDs in both versions.
        sites.udp(host(version), 4020..4025, 4000, 0);
    }
    // A QUIC sender's super-packets, whose segments an IPv4 ID tells apart.
    sites.udp(host(0), 4025..4030, 10_300, 1000);
}

/// Compares every kind of traffic with and without super-packets, and with and without notes.
pub(crate) fn compare_with_tso_on_and_off(mut comparison: Comparison) {
    let sites = Sites::new();
    let (a, b) = (&sites.from.0, &sites.to.0);
    // Between the driver, where XDP is, and tc, GRO merges what it can.
    run(&format!("ip netns exec {b} ethtool -K eth0 gro on"));
    let mut observation = Observation::new(&sites, &[Hook::Xdp, Hook::Tc]);
    for (tso, noted) in [("on", false), ("off", false), ("off", true), ("on", true)] {
        run(&format!("ip netns exec {a} ethtool -K eth0 tso {tso} tx-udp-segmentation {tso}"));
        if (tso, noted) == ("off", true) {
            observation.add_queues();
        }
        let before = sites.sent(a, "eth0");
        let (left, arrived) = observation.observe(everything);
        let frames = sites.sent(a, "eth0") - before;
        let [xdp, tc] = &arrived[..] else { panic!("both were asked") };

        assert!(xdp.counts.packets > 1500, "{:?}", xdp.counts);
        // Neighbour discovery is the difference to all frames.
        match tso {
            "on" => assert!(frames < xdp.counts.packets / 2, "super-packets: {frames}"),
            _ => assert!(frames >= xdp.counts.packets, "no super-packets: {frames}"),
        }
        assert_eq!(tc.counts, xdp.counts, "TSO {tso}: XDP and tc");
        assert!(tc.packets() == xdp.packets(), "TSO {tso}: XDP and tc");
        comparison.add(&format!("TSO {tso}, noted: {noted}"), &left, xdp);
    }
    comparison.check();
}

/// Compares traffic with offloads on everywhere, so that super-packets are never cut up.
pub(crate) fn compare_whole_super_packets(mut comparison: Comparison) {
    let sites = Sites::new();
    let mut observation = Observation::new(&sites, &[Hook::Tc]);
    for _ in 0..2 {
        let before = sites.sent(&sites.router.0, "fbr");
        let (left, arrived) = observation.observe(everything);
        let frames = sites.sent(&sites.router.0, "fbr") - before;
        let packets = arrived[0].counts.packets;
        assert!(frames < packets / 2, "the router sent super-packets: {frames} of {packets}");
        comparison.add("whole", &left, &arrived[0]);
    }
    comparison.check();
}

/// Compares BIG TCP: super-packets of more than 64 KiB, whose length is in a header that no segment
/// has. All segments of one have the time of their super-packet.
pub(crate) fn compare_super_packets_of_more_than_64_kib(mut comparison: Comparison) {
    let sites = Sites::new();
    let all = [(&sites.from, "eth0"), (&sites.router, "fbl"), (&sites.router, "fbr")];
    for (place, device) in all.into_iter().chain([(&sites.to, "eth0")]) {
        let sizes = "gso_max_size 190000 gro_max_size 190000";
        run(&format!("ip -n {} link set {device} {sizes}", place.0));
    }
    namespace::enter(&sites.router.0);
    let at_router = Netdev::find("fbl").unwrap();
    let mut at_router = Sampler::attach_at(&at_router, &[rule()], Hook::Tc).unwrap();
    let mut observation = Observation::new(&sites, &[]);
    for noted in [false, true] {
        if noted {
            observation.add_queues();
        }
        let before = at_router.counts(0).unwrap();
        let (left, _) = observation.observe(|sites| sites.bulk(1, 2 << 20));
        let arrived = Seen::arriving(&mut at_router, before);
        let mut of_time = BTreeMap::<_, u32>::new();
        left.samples.iter().for_each(|s| *of_time.entry(s.time.0).or_default() += 1);
        let most = of_time.values().max().unwrap();
        // 64 KiB are 45 segments of 1428 bytes.
        assert!(*most > 50, "there are longer super-packets: {most} segments");
        comparison.add(&format!("noted: {noted}"), &left, &arrived);
    }
    comparison.check();
}

/// A program in a file system of BPF's, where `tc` can take it from.
struct Pinned(std::path::PathBuf);

impl Pinned {
    fn new(program: &OwnedFd) -> Self {
        let directory = std::env::temp_dir().join(format!("fb-si{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        run(&format!("mount -t bpf bpf {}", directory.display()));
        let pinned = Self(directory);
        let path = CString::new(pinned.path()).unwrap();
        // SAFETY: an open descriptor and a C string.
        let rc = unsafe { libbpf_sys::bpf_obj_pin(program.as_raw_fd(), path.as_ptr()) };
        assert_eq!(rc, 0);
        pinned
    }

    fn path(&self) -> String {
        format!("{}/classify", self.0.display())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Puts the classifier on the queues of the sending site, as if its process reported all the time.
pub(crate) fn filter(sites: &Sites, observer: &EgressObserver) {
    filter_on(&sites.from, "eth0", observer);
}

/// Puts the classifier on the queues of a device, as [`filter`].
pub(crate) fn filter_on(namespace: &Namespace, device: &str, observer: &EgressObserver) {
    observer.report_alive(clock::now() + Nanos::from_secs(3_600)).unwrap();
    let pinned = Pinned::new(&observer.classifier().unwrap());
    let program = format!("object-pinned {} classid fb0:", pinned.path());
    let filter = format!("filter add dev {device} parent fb0: protocol all bpf da");
    run(&format!("tc -n {} {filter} {program}", namespace.0));
}
