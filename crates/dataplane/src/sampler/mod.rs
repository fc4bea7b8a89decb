//! The receivebox's eye: an XDP program that counts each bundle's bytes and packets as they arrive
//! and reports epoch boundary packets.

mod plan;

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::rc::Rc;

use forebay_units::{Bytes, Nanos};
use ipnet::IpNet;
use libbpf_rs::{Link, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};

use crate::bpf;
use crate::error::Error;
use crate::netdev::Netdev;
use plan::{Plan, trie_key};

/// The samples that may wait here between two calls of [`Sampler::poll`]; it matches the kernel's
/// ring, so more cannot come.
const WAITING: usize = (1 << 18) / size_of::<RawSample>();

/// Which packets are a bundle's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleRule {
    /// Where they come from; nothing listed means anywhere.
    pub sources: Vec<IpNet>,
    /// Where they go.
    pub destinations: Vec<IpNet>,
    /// The epoch size N to begin with, a power of two, in packets.
    pub epoch: u32,
}

/// What arrived for a bundle so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes, Ethernet headers included.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
}

/// An epoch boundary packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Whose: the place of its rule.
    pub bundle: usize,
    /// Its fingerprint.
    pub fingerprint: u32,
    /// What had arrived, it included.
    pub counts: Counts,
    /// The epoch size that made it one.
    pub epoch: u32,
    /// When it arrived (`CLOCK_MONOTONIC`).
    pub time: Nanos,
}

/// `struct sample` of bpf/receivebox.bpf.c.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSample {
    bundle: u32,
    fingerprint: u32,
    bytes: u64,
    packets: u64,
    time: u64,
    epoch: u32,
    unused: u32,
}

/// The program on an interface; it goes when this value, or this process, goes.
pub struct Sampler {
    /// Dropped first: nothing arrives after that.
    _link: Option<Link>,
    ring: RingBuffer<'static>,
    waiting: Rc<RefCell<Vec<Sample>>>,
    object: Object,
}

impl Sampler {
    /// Attaches to `netdev`, with a bundle for each of `rules`; where two rules fit a packet, the
    /// longest destination prefix decides, then the longest source prefix.
    ///
    /// # Errors
    /// If another XDP program is there, or the kernel refuses.
    pub fn attach(netdev: &Netdev, rules: &[BundleRule]) -> Result<Self, Error> {
        let sampler = Self::load(rules)?;
        let program = bpf::program(&sampler.object)?;
        // A port's program is a box's, alive or to be taken over by one: not for us to remove.
        if let Some((id, name)) = bpf::attached(netdev.index)? {
            let interface = netdev.name.clone();
            let ours = name == bpf::RECEIVEBOX.name || name == bpf::PORT.name;
            return Err(if ours {
                Error::InUse(interface)
            } else {
                Error::ForeignProgram { interface, id }
            });
        }
        let link = program
            .attach_xdp(netdev.index as i32)
            .map_err(|e| Error::bpf(format!("attaching XDP to `{}`", netdev.name), e))?;
        Ok(Self { _link: Some(link), ..sampler })
    }

    /// Loads the program, attached to nothing yet.
    fn load(rules: &[BundleRule]) -> Result<Self, Error> {
        let object = bpf::RECEIVEBOX.load(|open| {
            for mut map in open.maps_mut() {
                if map.name() == "counts" || map.name() == "epochs" {
                    map.set_max_entries(rules.len().max(1) as u32)?;
                }
            }
            Ok(())
        })?;
        fill(&object, rules)?;
        for (bundle, rule) in rules.iter().enumerate() {
            write_epoch(&object, bundle, rule.epoch)?;
        }
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
        Ok(Self { _link: None, ring, waiting, object })
    }

    /// A descriptor that becomes readable when samples have come.
    pub fn descriptor(&self) -> RawFd {
        self.ring.epoll_fd()
    }

    /// Gives the samples that have come to `each`. Never blocks.
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Sample)) -> Result<(), Error> {
        self.ring.consume().map_err(|e| Error::bpf("reading samples", e))?;
        self.waiting.borrow_mut().drain(..).for_each(each);
        Ok(())
    }

    /// Sets the epoch size of a bundle.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Panics
    /// If `epoch` is not a power of two.
    pub fn set_epoch(&self, bundle: usize, epoch: u32) -> Result<(), Error> {
        assert!(epoch.is_power_of_two(), "the epoch size is a power of two");
        write_epoch(&self.object, bundle, epoch)
    }

    /// What has arrived for a bundle.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&self, bundle: usize) -> Result<Counts, Error> {
        let key = (bundle as u32).to_ne_bytes();
        let mut raw = [0; 16];
        bpf::map(&self.object, "counts")?
            .lookup_into(&key, &mut raw, MapFlags::ANY)
            .map_err(|e| Error::bpf("reading a bundle's counts", e))?;
        Ok(Counts { bytes: Bytes(u64_at(&raw, 0)), packets: u64_at(&raw, 8) })
    }

    /// Samples that found the ring full.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn samples_lost(&self) -> Result<u64, Error> {
        let each_cpu = bpf::map(&self.object, "samples_lost")?
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::bpf("reading the count of lost samples", e))?;
        Ok(each_cpu.unwrap_or_default().iter().map(|raw| u64_at(raw, 0)).sum())
    }
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

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
    })
}

fn write_epoch(object: &Object, bundle: usize, epoch: u32) -> Result<(), Error> {
    let key = (bundle as u32).to_ne_bytes();
    bpf::update(&bpf::map(object, "epochs")?, &key, &epoch.to_ne_bytes())
}

/// Writes the rules into the program's maps.
fn fill(object: &Object, rules: &[BundleRule]) -> Result<(), Error> {
    let plan = Plan::new(rules);
    for (name, prefixes) in [("sources", &plan.sources), ("destinations", &plan.destinations)] {
        let map = bpf::map(object, name)?;
        for (id, prefix) in prefixes.iter().enumerate() {
            bpf::update(&map, &trie_key(prefix), &(id as u32).to_ne_bytes())?;
        }
    }
    let pairs = bpf::map(object, "pairs")?;
    for (source, destination, bundle) in plan.pairs {
        let key = [source.to_ne_bytes(), destination.to_ne_bytes()].concat();
        bpf::update(&pairs, &key, &bundle.to_ne_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ProgramInput;

    use super::*;

    /// The vectors that the fingerprint's own crate is tested with: what a frame is called, its
    /// bytes, and its fingerprint.
    fn vectors() -> Vec<(&'static str, Vec<u8>, Option<u32>)> {
        let text = include_str!("../../../wire/vectors/fingerprint.txt");
        let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
        let parse = |line: &'static str| {
            let columns: Vec<_> = line.split(' ').collect();
            let [name, frame, fingerprint] = columns[..3] else { panic!("{line}") };
            let hex = |i: usize| u8::from_str_radix(&frame[2 * i..2 * i + 2], 16).expect("hex");
            let bytes = (0..frame.len() / 2).map(hex).collect();
            (name, bytes, u32::from_str_radix(fingerprint, 16).ok())
        };
        lines.map(parse).collect()
    }

    /// In the kernel, by its verifier's and JIT's leave, the program sees what the library sees.
    #[test]
    fn the_kernel_computes_the_same_fingerprints() {
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: loading BPF programs needs root");
            return;
        }
        let everything = ["0.0.0.0/0", "::/0"].map(|p| p.parse().expect("a prefix"));
        let rule = BundleRule { sources: vec![], destinations: everything.to_vec(), epoch: 1 };
        let mut sampler = Sampler::load(&[rule]).expect("the program loads");
        let (mut packets, mut bytes) = (0, 0);
        for (name, frame, expected) in vectors() {
            // The kernel refuses to run a program on less than an Ethernet header.
            if frame.len() < 14 {
                continue;
            }
            let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
            let output = bpf::program(&sampler.object).expect("it is there").test_run(input);
            assert_eq!(output.expect(name).return_value, 2, "{name}: XDP_PASS");
            let mut seen = Vec::new();
            sampler.poll(|sample| seen.push(sample)).expect("samples are read");
            assert_eq!(seen.iter().map(|s| s.fingerprint).next(), expected, "{name}");
            let counts = sampler.counts(0).expect("counts are read");
            if let Some(sample) = seen.first() {
                assert_eq!(sample.counts, counts, "{name}: the sample counts its own packet");
                assert_eq!(counts.packets, packets + 1, "{name}");
                assert_eq!(counts.bytes.0, bytes + frame.len() as u64, "{name}");
            }
            (packets, bytes) = (counts.packets, counts.bytes.0);
        }
        assert!(packets > 20, "most vectors are packets of the bundle");
        assert_eq!(sampler.samples_lost().expect("the count is read"), 0);
    }
}
