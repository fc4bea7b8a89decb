//! A discipline and its settings.

use forebay_config::Limit;
use forebay_queue::{Packet, Qdisc};
use forebay_tc as tc;
use forebay_units::Rate;

use crate::limit::{LimitOnPath, MAX_BUFFERED_PACKETS};
use crate::specification::{BuildError, KernelOnly, Terms};
use crate::{Kind, Settings};

/// A queueing discipline and its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discipline {
    /// The name of the discipline.
    pub kind: Kind,
    /// The settings of the discipline.
    pub settings: Settings,
}

impl From<Kind> for Discipline {
    /// The discipline with its own defaults.
    fn from(kind: Kind) -> Self {
        Self { kind, settings: Settings::default() }
    }
}

impl Discipline {
    /// Makes the discipline of `kind` with `limit`, and its own defaults for the rest.
    pub fn limited(kind: Kind, limit: Option<Limit>) -> Self {
        Self { kind, settings: Settings { limit, ..Settings::default() } }
    }

    /// Builds a box's queue; `seed` is for its hashes and random drops.
    ///
    /// # Errors
    /// If a setting is out of the discipline's range, or only the kernel has the discipline; and
    /// for a policy of classes, which are built one by one.
    pub fn build<P: Packet + 'static>(&self, seed: u64) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let terms = Terms { seed: Some(seed), most_packets: MAX_BUFFERED_PACKETS };
        self.kind.build(&self.settings, terms)
    }

    /// Refuses a discipline that only the kernel has.
    ///
    /// # Errors
    /// If only the kernel has it.
    pub fn check_own(&self) -> Result<(), KernelOnly> {
        if self.kind.is_kernel_only() { Err(KernelOnly(self.kind.name())) } else { Ok(()) }
    }

    /// Returns the number of packets that [`Discipline::build`]'s queue can hold; zero for a
    /// policy of classes, which hold them.
    pub fn capacity(&self) -> u64 {
        u64::from(self.kind.capacity(&self.settings))
    }

    /// Returns the discipline for a queue whose rate is known. A limit in time becomes bytes
    /// wherever packets are counted, and DualPI2's limit is 250 ms by default (RFC 9332 Figure 2,
    /// line 5).
    #[must_use]
    pub fn at_rate(&self, rate: Rate) -> Self {
        Self { settings: self.kind.at_rate(&self.settings, rate), ..*self }
    }

    /// Returns the kernel's queue of this kind, for a sendbox over the kernel's queues; `None` for
    /// a policy of classes, and for a discipline that only this project has.
    ///
    /// The limit is that of the box's own queue, in packets where the kernel counts nothing else. A
    /// super-packet counts as one.
    pub fn to_tc(&self) -> Option<tc::Discipline> {
        self.kind.to_tc(&self.settings)
    }

    /// Returns the arguments of `tc qdisc add` for the kernel's queue of this kind at a bottleneck
    /// of `rate`; `None` if the laboratory cannot have it.
    pub fn tc_arguments(&self, limit: LimitOnPath, rate: Rate) -> Option<String> {
        self.kind.tc_arguments(&self.on_path(limit), rate)
    }

    /// The settings at a bottleneck, each of them given.
    pub(crate) fn on_path(&self, limit: LimitOnPath) -> Settings {
        let limit = Some(self.kind.limit_on_path(limit));
        self.kind.resolve(&Settings { limit, ..self.settings })
    }
}
