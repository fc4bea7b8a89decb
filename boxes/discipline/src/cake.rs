//! CAKE, which only the kernel has.

use forebay_queue::{Packet, Qdisc};
use forebay_tc as tc;
use forebay_units::{Bytes, Rate};

use crate::limit::in_packets;
use crate::specification::{
    BuildError, EcnUse, KernelOnly, Specification, Terms, WrongSetting, at_most_a_minute,
};
use crate::{Key, Settings};

/// CAKE, which hashes flows into queues with an AQM each, shares the rate fairly between hosts and
/// between flows, and paces.
pub(crate) struct Cake;

/// The kernel memory that a full frame takes. CAKE limits memory.
const BUFFER: Bytes = Bytes(2_304);

impl Specification for Cake {
    const NAME: &'static str = "cake";
    const POLICY: Option<&'static [Key]> = Some(&[Key::Rtt, Key::Flows, Key::Diffserv]);
    const OWN: bool = false;
    const IN_TC: bool = true;
    const PACES_ITSELF: bool = true;
    const ECN: EcnUse = EcnUse::Always;

    fn build<P: Packet + 'static>(
        _settings: &Settings,
        _terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        Err(KernelOnly(Self::NAME).into())
    }

    fn capacity(_settings: &Settings) -> u32 {
        0
    }

    fn check(settings: &Settings) -> Result<(), WrongSetting> {
        at_most_a_minute(Key::Rtt, settings.rtt)
    }

    /// The queue does not pace: its bundle's class does.
    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let Settings { rtt, flows, diffserv, .. } = *settings;
        Some(tc::Discipline::Cake { memory: memory(settings), rtt, flows, diffserv })
    }

    /// Lengths are those of frames, as everywhere in the laboratory.
    fn tc_arguments(settings: &Settings, rate: Rate) -> Option<String> {
        let memory = memory(settings)?.0;
        let rate = rate.as_bps();
        Some(format!("cake bandwidth {rate}bit besteffort raw memlimit {memory}"))
    }
}

/// The memory that the limit's packets take.
fn memory(settings: &Settings) -> Option<Bytes> {
    settings.limit.map(in_packets).map(|n| Bytes(u64::from(n) * BUFFER.0))
}
