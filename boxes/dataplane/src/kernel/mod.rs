//! BPF programs for a sendbox over the kernel's own queues. The crate `forebay-tc` sets up the
//! queues themselves.
//!
//! An [`EgressObserver`] has two programs on one device. The classifier selects the bundle of a
//! packet for the queues: bundle `i`'s class has the minor number `i + 1`, and packets of no bundle
//! stay in the root qdisc. It writes the class within the bundle and the bundle into the packet's
//! `cb[0]`, for the filter below, and a note with its findings into the other four words of `cb`.
//! The second program sees each packet as it leaves the queues for the driver. It counts the packet
//! and reports epoch boundary packets, as a [`Sampler`](crate::Sampler) does where packets arrive.
//! A packet without a note is parsed there.
//!
//! The classifier outlives its process, and so do the rates of the queues. Therefore it sends
//! packets into the bundles' classes only while the process reports that it is alive
//! ([`EgressObserver::report_alive`]). When the last report is older than
//! [`HEARTBEAT_TIMEOUT`](crate::HEARTBEAT_TIMEOUT), all packets stay in the root qdisc, without a
//! limit.
//!
//! The observer knows a device by its index and, from its first packet on, by its address in kernel
//! memory. A device that disappears and comes back under the same index needs another observer.
//!
//! # Super-packets
//!
//! With TSO and GSO one `sk_buff` is many packets, which the NIC or a later hop of this machine
//! segments. They are counted and fingerprinted as the packets that they will be. The kernel's own
//! segmentation and that of NICs increment the IPv4 ID from segment to segment, with two
//! exceptions:
//!
//! - GRO may merge packets that all have the same ID and the DF bit (RFC 6864 allows this). They
//!   are segmented into packets of one ID again. The kernel marks such super-packets, and the
//!   programs follow the mark.
//! - A NIC with `tx-tcp-mangleid-segmentation` may write either. The feature is off by default
//!   (`ethtool -k DEV`). Leave it off: otherwise boundary packets do not match between the boxes,
//!   the sendbox has too few samples, and the bundle goes open.
//!
//! IPv6 has no ID. There, as with the ID 0, the TCP sequence number, acknowledgement, length and
//! time stamps distinguish segments, and are the same with any segmentation. UDP super-packets
//! (QUIC) without IDs have one known fingerprint, that of the first segment; the other segments are
//! counted but never boundary packets. In tunnels the outer header's ID counts. Without one,
//! segments of tunnelled super-packets are never boundary packets. SCTP's segments differ in size:
//! none is a boundary packet, and they count as one packet. Super-packets of more than 64 KiB (BIG
//! TCP) have their length in a jumbo payload option (IPv6), which their segments do not have, or
//! nowhere in their headers (IPv4), so that the length of the `sk_buff` counts.
//!
//! # Bounds
//!
//! There are at most [`MAX_BUNDLES`] bundles of [`MAX_CLASSES`] classes, [`MAX_PREFIXES`] prefixes
//! of bundles, as many prefixes of classes, and as many ports of classes; more are an error. The
//! ring of reports holds 256 KiB; reports that do not fit are lost and counted. Of a super-packet,
//! 512 segments are examined and the others only counted.

mod classes;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay_units::Nanos;
use forebay_wire::FingerprintKey;
use ipnet::{IpNet, Ipv4Net};
use libbpf_rs::{Link, MapCore, Object};

use crate::bpf;
pub use crate::bundles::MAX_PREFIXES;
use crate::bundles::{self, Bundles, Counts, Sample, covers_ipv4, trie_key};
use crate::error::Error;
use crate::framing::Framing;
use crate::heartbeat;
use crate::netdev::Netdev;
use classes::Tables;
pub use classes::{ClassRule, MAX_CLASSES};

/// The largest number of bundles of a device: as many as the tree of queues has names for.
pub const MAX_BUNDLES: usize = 16_384;

/// The entry of the trie for destinations of no bundle, where it needs one.
const NO_BUNDLE: u32 = u32::MAX;

/// The kernel's type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The programs of an [`EgressObserver`], loaded and not attached. Loading takes much longer than
/// attaching, and another thread can do it.
pub struct LoadedEgress(Object);

impl LoadedEgress {
    /// Loads the programs for `netdev`, which is in the namespace of the calling thread.
    ///
    /// # Errors
    /// As [`EgressObserver::attach`].
    pub fn load(netdev: &Netdev) -> Result<Self, Error> {
        let framing = netdev.framing()?;
        Self::check_types()?;
        Self::load_for((netdev.index, namespace()?), framing)
    }

    /// Checks that the kernel accepts the programs for devices of this framing.
    ///
    /// # Errors
    /// As [`EgressObserver::attach`].
    pub fn check_loading(framing: Framing) -> Result<(), Error> {
        Self::check_types()?;
        Self::load_for((0, 0), framing).map(drop)
    }

    /// Checks that the kernel describes its types.
    fn check_types() -> Result<(), Error> {
        if !Path::new(BTF).exists() {
            return Err(Error::Kernel(
                "a kernel of at least Linux 5.12 that describes its types (CONFIG_DEBUG_INFO_BTF; \
                 there is no /sys/kernel/btf/vmlinux); use `dataplane = \"user\"`",
            ));
        }
        Ok(())
    }

    /// Loads the programs for a device of this index in a namespace of this inode.
    fn load_for(device: (u32, u32), framing: Framing) -> Result<Self, Error> {
        let settings = bpf::Settings { device, ..bpf::Settings::of_this_kernel(framing) };
        let object = bpf::EGRESS.load(|open| {
            settings.write(open)?;
            bundles::make_room(open, MAX_BUNDLES)
        })?;
        Ok(Self(object))
    }
}

/// The programs that classify a device's packets and see them leave. They are detached when this
/// value is dropped or this process ends.
pub struct EgressObserver {
    /// The attachment, which is dropped first.
    _link: Option<Link>,
    bundles: Bundles,
    /// The entries of the trie.
    prefixes: HashMap<IpNet, u32>,
    classes: HashMap<usize, Tables>,
}

impl EgressObserver {
    /// Attaches to `netdev`, which is in the namespace of the calling thread. No packet belongs to
    /// a bundle before [`EgressObserver::set_bundles`], and none is a boundary packet before
    /// [`EgressObserver::set_epoch`].
    ///
    /// # Errors
    /// If the device has an unknown framing, a right is missing, or the kernel is without BTF, raw
    /// tracepoints, or BPF additions that return the sum (Linux 5.12).
    pub fn attach(netdev: &Netdev) -> Result<Self, Error> {
        Self::attach_loaded(LoadedEgress::load(netdev)?)
    }

    /// Attaches what was loaded for a device, as [`EgressObserver::attach`].
    ///
    /// # Errors
    /// As [`EgressObserver::attach`].
    pub fn attach_loaded(loaded: LoadedEgress) -> Result<Self, Error> {
        let unattached = Self::unattached(loaded)?;
        let object = &unattached.bundles.object;
        let attach = |program: &str, tracepoint: &str| {
            bpf::program(object, program)?.attach_raw_tracepoint(tracepoint).map_err(|e| {
                match e.kind() {
                    libbpf_rs::ErrorKind::NotFound => Error::Kernel(
                        "raw tracepoints on transmission (CONFIG_BPF_EVENTS, CONFIG_TRACEPOINTS); \
                         use `dataplane = \"user\"`",
                    ),
                    _ => Error::bpf(format!("attaching to the tracepoint {tracepoint}"), e),
                }
            })
        };
        let link = attach(bpf::EGRESS.name, "net_dev_start_xmit")?;
        Ok(Self { _link: Some(link), ..unattached })
    }

    /// Opens the maps of programs that are not attached.
    fn unattached(LoadedEgress(object): LoadedEgress) -> Result<Self, Error> {
        let (bundles, prefixes, classes) = (Bundles::new(object)?, HashMap::new(), HashMap::new());
        Ok(Self { _link: None, bundles, prefixes, classes })
    }

    /// Sets the destinations of each bundle: those of `bundles[i]` belong to bundle `i`, and the
    /// longest prefix decides. Prefixes that stay are not touched, so that no packet misses its
    /// bundle during an unrelated change.
    ///
    /// # Errors
    /// If there are too many bundles or prefixes, before any change; or if the kernel refuses.
    pub fn set_bundles(&mut self, bundles: &[Vec<IpNet>]) -> Result<(), Error> {
        let all = bundles.iter().enumerate();
        let mut wanted: HashMap<_, _> =
            all.flat_map(|(i, b)| b.iter().map(move |p| (p.trunc(), i as u32))).collect();
        if wanted.keys().any(covers_ipv4) {
            wanted.entry(IpNet::V4(Ipv4Net::default())).or_insert(NO_BUNDLE);
        }
        for (what, given, max) in [
            ("bundles", bundles.len(), MAX_BUNDLES),
            ("prefixes of bundles", wanted.len(), MAX_PREFIXES),
        ] {
            if given > max {
                return Err(Error::TooMany { what, given, max });
            }
        }
        let map = bpf::map(&self.bundles.object, "bundles")?;
        // Deleted prefixes go first, to make room.
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

    /// Reports that the process was alive at `now`. Without a report the classifier sends no packet
    /// into a bundle's class.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn report_alive(&self, now: Nanos) -> Result<(), Error> {
        heartbeat::beat(&self.bundles.object, now)
    }

    /// Begins a bundle whose number another one may have had, as if none of its packets had left.
    ///
    /// # Errors
    /// If there is no such bundle.
    pub fn begin(&mut self, bundle: usize, key: FingerprintKey) -> Result<(), Error> {
        self.bundles.begin(bundle, key)
    }

    /// Sets the key of a bundle's fingerprints, and no epoch size. Notes in queued packets hold
    /// fingerprints under the key of their time.
    ///
    /// # Errors
    /// If there is no such bundle.
    pub fn set_key(&mut self, bundle: usize, key: FingerprintKey) -> Result<(), Error> {
        self.bundles.set_key(bundle, key)
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

    /// Returns what has left for a bundle. A packet that the driver refuses for want of room is
    /// counted then, and not again when the kernel offers it again.
    ///
    /// # Errors
    /// If there is no such bundle.
    pub fn counts(&self, bundle: usize) -> Result<Counts, Error> {
        self.bundles.counts(bundle)
    }

    /// Returns a descriptor that becomes readable when samples have arrived.
    pub fn descriptor(&self) -> RawFd {
        self.bundles.descriptor()
    }

    /// Passes the boundary packets that have left to `each`. Never blocks.
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Sample)) -> Result<(), Error> {
        self.bundles.poll(each)
    }

    /// Counts the frames that left and may carry an IP packet which was not found.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn not_understood(&self) -> Result<u64, Error> {
        self.bundles.not_understood()
    }

    /// Counts the boundary packets that were lost because the ring was full.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn samples_lost(&self) -> Result<u64, Error> {
        self.bundles.samples_lost()
    }

    /// Sets the classes of a bundle, in order and without the last, which takes the packets of no
    /// other class. Without rules there is one class. Packets that pass meanwhile are in an old
    /// class, a new one, or the last.
    ///
    /// # Errors
    /// If there are too many classes, or too many ports or prefixes in all bundles together, before
    /// any change; or if the kernel refuses.
    pub fn set_classes(&mut self, bundle: usize, rules: &[ClassRule]) -> Result<(), Error> {
        if rules.len() >= MAX_CLASSES {
            let given = rules.len() + 1;
            return Err(Error::TooMany { what: "classes of a bundle", given, max: MAX_CLASSES });
        }
        let new = Tables::new(rules);
        let listed = |tables: &Tables| [tables.ports.len(), tables.prefixes.len()];
        let others = || self.classes.iter().filter(|(b, _)| **b != bundle).map(|(_, t)| listed(t));
        for (i, what) in ["ports of classes", "prefixes of classes"].into_iter().enumerate() {
            let given = others().map(|o| o[i]).sum::<usize>() + listed(&new)[i];
            if given > MAX_PREFIXES {
                return Err(Error::TooMany { what, given, max: MAX_PREFIXES });
            }
        }
        let id = (bundle as u32).to_ne_bytes();
        let [classes, ports, prefixes] = ["classes", "class_ports", "class_prefixes"]
            .map(|name| bpf::map(&self.bundles.object, name));
        let (classes, ports, prefixes) = (classes?, ports?, prefixes?);
        if let Some(old) = self.classes.remove(&bundle) {
            let wrap = |e| Error::bpf("removing a class", e);
            bpf::update(&classes, &id, &[0; 67])?;
            for (port, _) in old.ports {
                ports.delete(&port_key(id, port)).map_err(wrap)?;
            }
            for (prefix, _) in old.prefixes {
                prefixes.delete(&prefix_key(id, &prefix)).map_err(wrap)?;
            }
        }
        if rules.is_empty() {
            return Ok(());
        }
        for (port, bits) in &new.ports {
            bpf::update(&ports, &port_key(id, *port), &u32::from(*bits).to_ne_bytes())?;
        }
        for (prefix, bits) in &new.prefixes {
            bpf::update(&prefixes, &prefix_key(id, prefix), &u32::from(*bits).to_ne_bytes())?;
        }
        bpf::update(&classes, &id, &new.to_bytes())?;
        self.classes.insert(bundle, new);
        Ok(())
    }

    /// Returns the program for a cls_bpf filter with direct action on the root qdisc. The filter
    /// must have a `classid` of that qdisc, since the program sets the minor number only. A filter
    /// keeps the program and the bundles' prefixes when this value is dropped.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn classifier(&self) -> Result<OwnedFd, Error> {
        let program = bpf::program(&self.bundles.object, "fb_classify")?;
        let fd: BorrowedFd<'_> = program.as_fd();
        let wrap = |e| Error::system("duplicating a program's descriptor", e);
        fd.try_clone_to_owned().map_err(wrap)
    }
}

/// Encodes `struct class_port` of bpf/egress.bpf.c.
fn port_key(bundle: [u8; 4], port: u16) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&bundle);
    key[4..].copy_from_slice(&u32::from(port).to_ne_bytes());
    key
}

/// Encodes `struct class_prefix` of bpf/egress.bpf.c: the bundle and the prefix together.
fn prefix_key(bundle: [u8; 4], prefix: &IpNet) -> [u8; 24] {
    let plain = trie_key(prefix);
    let mut key = [0; 24];
    let length = plain.first_chunk().map_or(0, |l| u32::from_ne_bytes(*l));
    key[..4].copy_from_slice(&(32 + length).to_ne_bytes());
    key[4..8].copy_from_slice(&bundle);
    key[8..].copy_from_slice(&plain[4..]);
    key
}

/// Returns the inode of this thread's network namespace, which identifies the namespace.
fn namespace() -> Result<u32, Error> {
    let wrap = |e| Error::system("asking for the network namespace", e);
    Ok(std::fs::metadata("/proc/thread-self/ns/net").map_err(wrap)?.ino() as u32)
}

#[cfg(test)]
mod tests;
