//! A sendbox over the kernel's own queues: what BPF does for it. The queues themselves are made by
//! netlink, elsewhere.
//!
//! [`Sight`] is two eyes on one device. Its classifiers tell the queues which bundle, and which flow
//! class, a packet is of ([`class`] has the numbers). And it sees each packet again as it leaves the
//! queues for the driver, counts it and reports the epoch boundary packets, as a
//! [`Sampler`](crate::Sampler) does where they arrive.
//!
//! # Super-packets
//!
//! With TSO and GSO one `sk_buff` is many packets, which the NIC (or a later hop of this machine)
//! cuts up. They are counted and fingerprinted as the packets that they will be. The kernel's own
//! segmentation and that of NICs count the IPv4 ID up, segment by segment. Two things can change
//! that:
//!
//! - What GRO merged from packets of one ID, each with DF set (RFC 6864 lets senders do that), is cut
//!   into packets of one ID again. The kernel marks such super-packets, and this follows the mark.
//! - A NIC with `tx-tcp-mangleid-segmentation` may write either. It is off unless somebody turned it
//!   on (`ethtool -k DEV`); leave it off, or boundary packets get lost between the boxes: the
//!   sendbox then has too few samples, and the bundle goes open.
//!
//! IPv6 has no ID. There, as with the ID 0, the TCP sequence number, acknowledgement, length and time
//! stamps tell segments apart, all of which are the same with any segmentation. UDP super-packets
//! (QUIC) without IDs have one known fingerprint, the first segment's; the others are counted, and
//! no boundaries. In tunnels it is the outer header's ID that counts; without one, segments of
//! tunnelled super-packets are no boundaries. Of SCTP's, which differ in size, no packet is, and
//! they count as one. IPv4 packets of more than 64 KiB (BIG TCP, `gso_ipv4_max_size`) have no length
//! in their header and are not recognised: leave it at 65536.
//!
//! # What is bounded
//!
//! [`class::MAX_BUNDLES`] bundles, [`MAX_PREFIXES`] prefixes: more are an error. The ring of reports
//! holds 256 KiB; what finds it full is lost and counted. Of a super-packet, 512 segments are looked
//! at and the rest is only counted.

pub mod class;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ipnet::IpNet;
use libbpf_rs::{Link, MapCore, Object};

use crate::bpf;
pub use crate::bundles::MAX_PREFIXES;
use crate::bundles::{self, Bundles, Counts, Sample, trie_key};
use crate::error::Error;
use crate::netdev::Netdev;
use class::{MAX_BUNDLES, MAX_FLOW_CLASSES};

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The programs that see a device's packets leave; they go when this value, or this process, goes.
pub struct Sight {
    /// Dropped first: nothing is seen after that.
    _links: [Link; 2],
    bundles: Bundles,
    /// What is in the trie.
    prefixes: HashMap<IpNet, u32>,
}

impl Sight {
    /// Attaches to `netdev`, which is in the namespace of the calling thread. No packet is any
    /// bundle's until [`Sight::set_bundles`] has said which, and none is a boundary until
    /// [`Sight::set_epoch`] has.
    ///
    /// # Errors
    /// If the device is no Ethernet device, a right is missing, or the kernel is without BTF, BPF
    /// ring buffers (both Linux 5.8) or raw tracepoints.
    pub fn attach(netdev: &Netdev) -> Result<Self, Error> {
        if !netdev.is_ethernet() {
            return Err(Error::NotEthernet(netdev.name.clone()));
        }
        if !Path::new(BTF).exists() {
            return Err(Error::Kernel(
                "a kernel of at least Linux 5.8 that describes its types (CONFIG_DEBUG_INFO_BTF; \
                 there is no /sys/kernel/btf/vmlinux); use `dataplane = \"user\"`",
            ));
        }
        let object = load((netdev.index, namespace()?))?;
        let attach = |program: &str, tracepoint: &str| {
            bpf::program(&object, program)?.attach_raw_tracepoint(tracepoint).map_err(|e| {
                match e.kind() {
                    libbpf_rs::ErrorKind::NotFound => Error::Kernel(
                        "raw tracepoints on transmission (CONFIG_BPF_EVENTS, CONFIG_TRACEPOINTS); \
                         use `dataplane = \"user\"`",
                    ),
                    _ => Error::bpf(format!("attaching to the tracepoint {tracepoint}"), e),
                }
            })
        };
        // The answers first: no packet is counted whose refusal would not be seen.
        let answer = attach("fb_sight_answer", "net_dev_xmit")?;
        let links = [attach(bpf::SIGHT.name, "net_dev_start_xmit")?, answer];
        Ok(Self { _links: links, bundles: Bundles::new(object)?, prefixes: HashMap::new() })
    }

    /// Says which destinations are whose: those of `bundles[i]` are bundle `i`'s, and where several
    /// fit, the longest decides. What was so already is not touched, so that no packet is missed by
    /// a change that does not concern it.
    ///
    /// # Errors
    /// If there are too many bundles or prefixes, before anything has changed; or if the kernel
    /// refuses.
    pub fn set_bundles(&mut self, bundles: &[Vec<IpNet>]) -> Result<(), Error> {
        let all = bundles.iter().enumerate();
        let wanted: HashMap<_, _> =
            all.flat_map(|(i, b)| b.iter().map(move |p| (p.trunc(), i as u32))).collect();
        for (what, given, max) in [
            ("bundles", bundles.len(), MAX_BUNDLES),
            ("prefixes of bundles", wanted.len(), MAX_PREFIXES),
        ] {
            if given > max {
                return Err(Error::TooMany { what, given, max });
            }
        }
        let map = bpf::map(&self.bundles.object, "bundles")?;
        // First what goes, to make room.
        for prefix in self.prefixes.keys().filter(|p| !wanted.contains_key(p)) {
            map.delete(&trie_key(prefix)).map_err(|e| Error::bpf("removing a prefix", e))?;
        }
        self.prefixes.retain(|p, _| wanted.contains_key(p));
        for (prefix, bundle) in wanted {
            if self.prefixes.get(&prefix) != Some(&bundle) {
                bpf::update(&map, &trie_key(&prefix), &bundle.to_ne_bytes())?;
                self.prefixes.insert(prefix, bundle);
            }
        }
        Ok(())
    }

    /// Sets the epoch size of a bundle.
    ///
    /// # Errors
    /// If there is no such bundle.
    ///
    /// # Panics
    /// If `epoch` is not a power of two.
    pub fn set_epoch(&self, bundle: usize, epoch: u32) -> Result<(), Error> {
        assert!(epoch.is_power_of_two(), "the epoch size is a power of two");
        self.bundles.set_epoch(bundle, epoch)
    }

    /// What has left for a bundle. While a driver has a packet and has not said yet whether it takes
    /// it, that packet is counted.
    ///
    /// # Errors
    /// If there is no such bundle.
    pub fn counts(&self, bundle: usize) -> Result<Counts, Error> {
        self.bundles.counts(bundle)
    }

    /// A descriptor that becomes readable when samples have come.
    pub fn descriptor(&self) -> RawFd {
        self.bundles.descriptor()
    }

    /// Gives the boundary packets that have left to `each`. Never blocks.
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Sample)) -> Result<(), Error> {
        self.bundles.poll(each)
    }

    /// Boundary packets that found the ring full.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn samples_lost(&self) -> Result<u64, Error> {
        self.bundles.samples_lost()
    }

    /// The program for a cls_bpf filter, direct action, on the root qdisc: a packet's class is that
    /// of its bundle ([`class::Handle::of_bundle`]). A filter keeps the program when this value goes.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn classifier(&self) -> Result<OwnedFd, Error> {
        self.duplicate("fb_classify")
    }

    /// The program for one on a bundle's own qdisc: a packet's class there is its flow's.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn flow_classifier(&self) -> Result<OwnedFd, Error> {
        self.duplicate("fb_flow")
    }

    /// Into how many classes the flows of each bundle go; none to begin with, which leaves packets
    /// to the default of the bundle's qdisc.
    ///
    /// # Errors
    /// If there are more than [`MAX_FLOW_CLASSES`], or the kernel refuses.
    pub fn set_flow_classes(&self, n: u32) -> Result<(), Error> {
        if n > MAX_FLOW_CLASSES {
            let (given, max) = (n as usize, MAX_FLOW_CLASSES as usize);
            return Err(Error::TooMany { what: "classes of flows", given, max });
        }
        let map = bpf::map(&self.bundles.object, "flow_classes")?;
        bpf::update(&map, &0u32.to_ne_bytes(), &n.to_ne_bytes())
    }

    fn duplicate(&self, program: &str) -> Result<OwnedFd, Error> {
        let program = bpf::program(&self.bundles.object, program)?;
        let fd: BorrowedFd<'_> = program.as_fd();
        let wrap = |e| Error::system("duplicating a program's descriptor", e);
        fd.try_clone_to_owned().map_err(wrap)
    }
}

/// Loads the programs for a device, attached to nothing yet.
fn load(device: (u32, u32)) -> Result<Object, Error> {
    let settings = bpf::Settings { device, ..bpf::Settings::of_this_kernel() };
    bpf::SIGHT.load(|open| {
        settings.write(open)?;
        bundles::make_room(open, MAX_BUNDLES)
    })
}

/// The inode of this thread's network namespace: what the kernel tells namespaces apart by.
fn namespace() -> Result<u32, Error> {
    let wrap = |e| Error::system("asking for the network namespace", e);
    Ok(std::fs::metadata("/proc/thread-self/ns/net").map_err(wrap)?.ino() as u32)
}
