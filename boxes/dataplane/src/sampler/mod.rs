//! The receivebox's sampler: a BPF program that counts each bundle's bytes and packets as they
//! arrive and reports epoch boundary packets.

mod hook;
mod plan;
mod tables;

use std::os::fd::RawFd;

use forebay_wire::FingerprintKey;
use ipnet::IpNet;

use crate::bpf;
use crate::bundles::{self, Bundles, Counts, Sample};
use crate::error::Error;
use crate::framing::Framing;
use crate::netdev::Netdev;
use hook::Attached;
pub use hook::Hook;
use tables::Tables;

/// The largest number of bundles at one interface (`MAX_BUNDLES` in bpf/rules.h).
const MAX_BUNDLES: usize = 65_536;

/// The rule by which packets belong to a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleRule {
    /// The prefixes of sources; an empty list means any source.
    pub sources: Vec<IpNet>,
    /// The prefixes of destinations.
    pub destinations: Vec<IpNet>,
    /// The key of the bundle's fingerprints.
    pub key: FingerprintKey,
    /// The initial epoch size N in packets, a power of two.
    pub epoch: u32,
}

/// The program on an interface. It is detached when this value is dropped or this process ends.
pub struct Sampler {
    /// The attachment, which is dropped first.
    attached: Option<Attached>,
    hook: Hook,
    bundles: Bundles,
    tables: Tables,
    room: usize,
}

impl Sampler {
    /// Attaches to `netdev`, with a bundle for each of `rules`. Where two rules fit a packet, the
    /// longest destination prefix decides, then the longest source prefix.
    ///
    /// The program is attached to XDP in the driver, or to tc's ingress where the driver has no
    /// XDP or the device no Ethernet header, which the program in XDP needs.
    ///
    /// # Errors
    /// If another XDP program is there, the device has an unknown framing, or the kernel refuses.
    pub fn attach(netdev: &Netdev, rules: &[BundleRule]) -> Result<Self, Error> {
        if netdev.framing()? != Framing::Ethernet {
            return Self::attach_at(netdev, rules, Hook::Tc);
        }
        // A port's program belongs to a box, alive or restarting: it must stay.
        if let Some((id, name)) = bpf::attached(netdev.index)? {
            let interface = netdev.name.clone();
            if name == bpf::PORT.name && netdev.reserve().is_ok() {
                return Err(Error::Leftover(interface));
            }
            let ours = name == bpf::RECEIVEBOX.name || name == bpf::PORT.name;
            return Err(if ours {
                Error::InUse(interface)
            } else {
                Error::ForeignProgram { interface, id }
            });
        }
        Self::attach_at(netdev, rules, Hook::Xdp).or_else(|e| match e {
            e @ Error::Permission(_) => Err(e),
            e => {
                tracing::info!("{e}; counting packets at tc's ingress instead");
                Self::attach_at(netdev, rules, Hook::Tc)
            }
        })
    }

    /// Attaches as [`Sampler::attach`], but at the given hook. At tc it shares the interface with
    /// other programs.
    ///
    /// # Errors
    /// If the driver has no XDP, the device has a framing that the hook does not know, or the
    /// kernel refuses.
    pub fn attach_at(netdev: &Netdev, rules: &[BundleRule], hook: Hook) -> Result<Self, Error> {
        if hook == Hook::Xdp {
            netdev.check_ethernet()?;
        }
        let sampler = Self::load(rules, hook, netdev.framing()?)?;
        let program = bpf::program(&sampler.bundles.object, hook.source().name)?;
        let attached = Attached::new(&program, hook, netdev)?;
        Ok(Self { attached: Some(attached), ..sampler })
    }

    /// Checks that the kernel accepts the program at tc's ingress for devices of this framing.
    ///
    /// # Errors
    /// If it does not, or a right is missing.
    pub fn check_loading(framing: Framing) -> Result<(), Error> {
        Self::load(&[], Hook::Tc, framing).map(drop)
    }

    /// Loads the program without attaching it.
    fn load(rules: &[BundleRule], hook: Hook, framing: Framing) -> Result<Self, Error> {
        let room = bundles::room(rules.len(), MAX_BUNDLES);
        let object = hook.source().load(|open| {
            if hook == Hook::Tc {
                bpf::Settings::of_this_kernel(framing).write(open)?;
            }
            bundles::make_room(open, room)
        })?;
        let (bundles, tables) = (Bundles::new(object)?, Tables::default());
        let mut sampler = Self { attached: None, hook, bundles, tables, room };
        for (number, rule) in rules.iter().enumerate() {
            sampler.bundles.set_key(number, rule.key)?;
            sampler.bundles.set_epoch(number, rule.epoch)?;
        }
        sampler.set_rules(&rules.iter().enumerate().collect::<Vec<_>>())?;
        Ok(sampler)
    }

    /// Returns the number of bundles that there may be: their numbers are below it.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Sets the rules of all bundles, each with the number of its bundle. A packet that
    /// the same prefixes give to the same bundle before and after is counted meanwhile too. Keys
    /// and epoch sizes stay as they are.
    ///
    /// # Errors
    /// If there are too many prefixes, before any change; or if the kernel refuses.
    pub fn set_rules(&mut self, rules: &[(usize, &BundleRule)]) -> Result<(), Error> {
        let changes = self.tables.change(rules)?;
        changes.into_iter().try_for_each(|change| change.apply(&self.bundles.object))
    }

    /// Begins a bundle whose number another one may have had: it has counted nothing.
    ///
    /// # Errors
    /// If there is no such number.
    pub fn begin(&mut self, bundle: usize, rule: &BundleRule) -> Result<(), Error> {
        self.bundles.begin(bundle, rule.key)?;
        self.bundles.set_epoch(bundle, rule.epoch)
    }

    /// Sets the key of a bundle's fingerprints, and its epoch size.
    ///
    /// # Errors
    /// If there is no such bundle.
    pub fn set_key(&mut self, bundle: usize, key: FingerprintKey, epoch: u32) -> Result<(), Error> {
        self.bundles.set_key(bundle, key)?;
        self.bundles.set_epoch(bundle, epoch)
    }

    /// Returns the hook at which it sees packets.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Whether this process has to detach the program itself, which needs `CAP_NET_ADMIN`.
    pub fn is_detached_by_process(&self) -> bool {
        matches!(self.attached, Some(Attached::Filter(_)))
    }

    /// Returns a descriptor that becomes readable when samples have arrived.
    pub fn descriptor(&self) -> RawFd {
        self.bundles.descriptor()
    }

    /// Passes the samples that have arrived to `each`. Never blocks.
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Sample)) -> Result<(), Error> {
        self.bundles.poll(each)
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
        self.bundles.set_epoch(bundle, epoch)
    }

    /// Counts the frames that arrived and may carry an IP packet which was not found.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn not_understood(&self) -> Result<u64, Error> {
        self.bundles.not_understood()
    }

    /// Returns what has arrived for a bundle.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&self, bundle: usize) -> Result<Counts, Error> {
        self.bundles.counts(bundle)
    }

    /// Counts the samples that were lost because the ring was full.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn samples_lost(&self) -> Result<u64, Error> {
        self.bundles.samples_lost()
    }
}

#[cfg(test)]
mod tests;
