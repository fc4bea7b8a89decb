//! The counters that the BPF programs keep for each bundle, and the samples of its boundary
//! packets. They are the same at both boxes (`bpf/bundles.h`).

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_units::{Bytes, Nanos};
use forebay_wire::FingerprintKey;
use ipnet::IpNet;
use libbpf_rs::{Map, MapCore, MapFlags, Object, OpenObject, RingBuffer, RingBufferBuilder};

use crate::bpf;
use crate::error::{Error, last};

/// The largest number of prefixes in a trie.
pub const MAX_PREFIXES: usize = 65_536;
/// The samples that may wait between two calls of [`Bundles::poll`]: as many as fit into the
/// kernel's ring.
const WAITING: usize = (1 << 18) / size_of::<RawSample>();

/// The least number of bundles for which a program has room.
const LEAST_ROOM: usize = 64;

/// The key of a bundle for which none was set.
const NO_KEY: FingerprintKey = FingerprintKey([0; 2]);

/// The bytes and packets of a bundle that have passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of IP packets, by the lengths in their headers.
    pub bytes: Bytes,
    /// Packets on the wire: a super-packet counts as its segments.
    pub packets: u64,
}

/// An epoch boundary packet that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The index of its bundle's rule.
    pub bundle: usize,
    /// The fingerprint of the packet.
    pub fingerprint: u32,
    /// The bundle's counts, including this packet.
    pub counts: Counts,
    /// The epoch size that makes it a boundary packet.
    pub epoch: u32,
    /// The time at which it passed (`CLOCK_MONOTONIC`).
    pub time: Nanos,
    /// Its flow, where it left this machine.
    pub flow: Option<Flow>,
}

/// The flow of a packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The kernel's hash of the flow.
    pub hash: u32,
    /// The time since the flow's last packet left, in microseconds; 4295 s at most.
    pub pause_us: u32,
}

/// The layout of `struct sample` in bpf/bundles.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSample {
    bundle: u32,
    fingerprint: u32,
    bytes: u64,
    packets: u64,
    time: u64,
    epoch: u32,
    flow: u32,
    pause_us: u32,
    unused: u32,
}

/// The maps of a loaded object that counts bundles.
pub(crate) struct Bundles {
    ring: RingBuffer<'static>,
    waiting: Rc<RefCell<Vec<Sample>>>,
    counts: View,
    /// The key of each bundle's fingerprints.
    keys: Vec<FingerprintKey>,
    pub(crate) object: Object,
}

/// Returns the number of bundles for which a program that starts with `n` has room, of at most
/// `most`.
pub(crate) fn room(n: usize, most: usize) -> usize {
    (2 * n).clamp(LEAST_ROOM, most)
}

/// Makes room for `n` bundles in an object that is about to be loaded.
pub(crate) fn make_room(open: &mut OpenObject, n: usize) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        if map.name() == "counts" || map.name() == "samplings" {
            map.set_max_entries(n.max(1) as u32)?;
        }
    }
    Ok(())
}

impl Bundles {
    /// Opens the maps of a loaded object.
    pub(crate) fn new(object: Object) -> Result<Self, Error> {
        let waiting = Rc::new(RefCell::new(Vec::with_capacity(WAITING)));
        let ring = {
            let wrap = |e| Error::bpf("opening the sample ring", e);
            let (waiting, samples) = (Rc::clone(&waiting), bpf::map(&object, "samples")?);
            let mut builder = RingBufferBuilder::new();
            let take = move |raw: &[u8]| {
                waiting.borrow_mut().extend(decode(raw));
                0
            };
            builder.add(&samples, take).map_err(wrap)?;
            builder.build().map_err(wrap)?
        };
        let counts = View::new(&bpf::map(&object, "counts")?)?;
        let bundles = Self { ring, waiting, counts, keys: Vec::new(), object };
        // The first reading opens a file to learn the number of processors. A running box may have
        // no descriptor left for that.
        bundles.samples_lost()?;
        Ok(bundles)
    }

    /// Returns a descriptor that becomes readable when samples have arrived.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.ring.epoll_fd()
    }

    /// Passes the samples that have arrived to `each`. Never blocks.
    pub(crate) fn poll(&mut self, each: impl FnMut(Sample)) -> Result<(), Error> {
        self.ring.consume().map_err(|e| Error::bpf("reading samples", e))?;
        self.waiting.borrow_mut().drain(..).for_each(each);
        Ok(())
    }

    /// Begins a bundle whose number another one may have had: it has counted nothing.
    pub(crate) fn begin(&mut self, bundle: usize, key: FingerprintKey) -> Result<(), Error> {
        let map = bpf::map(&self.object, "counts")?;
        bpf::update(&map, &(bundle as u32).to_ne_bytes(), &[0; size_of::<[u64; 2]>()])?;
        self.set_key(bundle, key)
    }

    /// Sets the key of a bundle's fingerprints. No packet is a boundary until
    /// [`Bundles::set_epoch`].
    pub(crate) fn set_key(&mut self, bundle: usize, key: FingerprintKey) -> Result<(), Error> {
        if self.keys.len() <= bundle {
            self.keys.resize(bundle + 1, NO_KEY);
        }
        self.keys[bundle] = key;
        self.set_epoch(bundle, 0)
    }

    /// Sets the epoch size of a bundle, a power of two; with zero no packet is a boundary.
    pub(crate) fn set_epoch(&self, bundle: usize, epoch: u32) -> Result<(), Error> {
        let FingerprintKey([a, b]) = *self.keys.get(bundle).unwrap_or(&NO_KEY);
        // `struct sampling` of bpf/bundles.h.
        let mut sampling = [0; 24];
        sampling[..8].copy_from_slice(&a.to_ne_bytes());
        sampling[8..16].copy_from_slice(&b.to_ne_bytes());
        sampling[16..20].copy_from_slice(&epoch.to_ne_bytes());
        let map = bpf::map(&self.object, "samplings")?;
        bpf::update(&map, &(bundle as u32).to_ne_bytes(), &sampling)
    }

    /// Reads the counts of a bundle.
    pub(crate) fn counts(&self, bundle: usize) -> Result<Counts, Error> {
        self.counts.get(bundle).ok_or_else(|| {
            let source = io::Error::from(io::ErrorKind::NotFound);
            Error::System { what: format!("reading the counts of bundle {bundle}"), source }
        })
    }

    /// Counts the samples that were lost because the ring was full.
    pub(crate) fn samples_lost(&self) -> Result<u64, Error> {
        self.sum("samples_lost")
    }

    /// Counts the frames that may carry an IP packet which was not found.
    pub(crate) fn not_understood(&self) -> Result<u64, Error> {
        self.sum("not_understood")
    }

    /// Returns the sum of a counter that each CPU has.
    fn sum(&self, name: &str) -> Result<u64, Error> {
        let each_cpu = bpf::map(&self.object, name)?
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::bpf(format!("reading the counter {name}"), e))?;
        Ok(each_cpu.unwrap_or_default().iter().map(|raw| u64_at(raw, 0)).sum())
    }
}

/// The kernel's own `struct counts` (bpf/bundles.h) of each bundle, mapped for reading.
struct View {
    first: NonNull<[AtomicU64; 2]>,
    len: usize,
}

impl View {
    fn new(map: &Map<'_>) -> Result<Self, Error> {
        let len =
            map.info().map_err(|e| Error::bpf("asking for a map's size", e))?.info.max_entries;
        let len = len as usize;
        // SAFETY: a fresh mapping of the kernel's memory, for reading; no existing memory is
        // touched.
        let first = unsafe {
            let (fd, size) = (map.as_fd().as_raw_fd(), len * size_of::<[AtomicU64; 2]>());
            libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        if first == libc::MAP_FAILED {
            return Err(last("mapping the bundles' counts"));
        }
        let first =
            NonNull::new(first.cast()).ok_or_else(|| last("mapping the bundles' counts"))?;
        Ok(Self { first, len })
    }

    fn get(&self, bundle: usize) -> Option<Counts> {
        if bundle >= self.len {
            return None;
        }
        // SAFETY: within the mapping, which is page-aligned, lives as long as this, and changes
        // only by the kernel's atomic additions.
        let [bytes, packets] = unsafe { self.first.add(bundle).as_ref() };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Some(Counts { bytes: Bytes(read(bytes)), packets: read(packets) })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, of that size; nothing refers to it any more.
        unsafe {
            libc::munmap(self.first.as_ptr().cast(), self.len * size_of::<[AtomicU64; 2]>());
        }
    }
}

/// Encodes a prefix as `struct prefix` of bpf/bundles.h. IPv4 is looked up as `::ffff:a.b.c.d`.
pub(crate) fn trie_key(prefix: &IpNet) -> [u8; 20] {
    let (length, address) = match prefix {
        IpNet::V4(p) => (96 + u32::from(p.prefix_len()), p.network().to_ipv6_mapped()),
        IpNet::V6(p) => (u32::from(p.prefix_len()), p.network()),
    };
    let mut key = [0; 20];
    key[..4].copy_from_slice(&length.to_ne_bytes());
    key[4..].copy_from_slice(&address.octets());
    key
}

/// Whether an IPv6 prefix contains the range in which IPv4 is looked up. Such a prefix would match
/// every IPv4 packet that no other prefix matches. A trie with such a prefix therefore needs an
/// entry for all of IPv4, even if that entry only says that nothing matches.
pub(crate) fn covers_ipv4(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V6(p) if p.contains(&Ipv4Addr::UNSPECIFIED.to_ipv6_mapped()))
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Decodes a sample; `None` if it is too short.
fn decode(raw: &[u8]) -> Option<Sample> {
    if raw.len() < size_of::<RawSample>() {
        return None;
    }
    // SAFETY: long enough, and any bits are valid for this structure of integers.
    let raw = unsafe { raw.as_ptr().cast::<RawSample>().read_unaligned() };
    Some(Sample {
        bundle: raw.bundle as usize,
        fingerprint: raw.fingerprint,
        counts: Counts { bytes: Bytes(raw.bytes), packets: raw.packets },
        epoch: raw.epoch,
        time: Nanos(raw.time),
        flow: (raw.flow != 0).then_some(Flow { hash: raw.flow, pause_us: raw.pause_us }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_prefixes_are_keys_in_the_mapped_range() {
        let key = trie_key(&"10.2.3.4/16".parse().unwrap());
        assert_eq!(key[..4], 112u32.to_ne_bytes());
        assert_eq!(key[14..], [0xff, 0xff, 10, 2, 0, 0]);
    }
}
