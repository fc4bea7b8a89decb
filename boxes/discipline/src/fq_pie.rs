//! Flow queueing with PIE, which only the kernel has.

use forebay_queue::{Packet, Qdisc};
use forebay_tc as tc;

use crate::limit::in_packets;
use crate::specification::{BuildError, EcnUse, KernelOnly, Specification, Terms};
use crate::{Key, Settings};

/// A fair share for every flow, and PIE on each flow's queue.
pub(crate) struct FqPie;

impl Specification for FqPie {
    const NAME: &'static str = "fq_pie";
    const POLICY: Option<&'static [Key]> = Some(&[Key::Target, Key::Ecn]);
    const BOTTLENECK: Option<&'static [Key]> = None;
    const OWN: bool = false;
    const ECN: EcnUse = EcnUse::Optional { by_default: false };

    fn build<P: Packet + 'static>(
        _settings: &Settings,
        _terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        Err(KernelOnly(Self::NAME).into())
    }

    fn capacity(_settings: &Settings) -> u32 {
        0
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let limit = settings.limit.map(in_packets);
        let (target, ecn) = (settings.target, settings.ecn.unwrap_or(true));
        Some(tc::Discipline::FqPie { limit, target, ecn })
    }
}
