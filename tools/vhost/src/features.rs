//! Features that the device offers to its driver (virtio 1.2, sections 5.1.3 and 6).

pub(crate) const CHECKSUM: u32 = 0;
pub(crate) const GUEST_CHECKSUM: u32 = 1;
const MTU: u32 = 3;
const MAC: u32 = 5;
pub(crate) const GUEST_TSO4: u32 = 7;
pub(crate) const GUEST_TSO6: u32 = 8;
pub(crate) const GUEST_ECN: u32 = 9;
const HOST_TSO4: u32 = 11;
const HOST_TSO6: u32 = 12;
const HOST_ECN: u32 = 13;
pub(crate) const MERGE: u32 = 15;
const STATUS: u32 = 16;
/// A control queue, for [`QUEUES`] only.
pub(crate) const CONTROL: u32 = 17;
/// Several pairs of rings (`VIRTIO_NET_F_MQ`).
pub(crate) const QUEUES: u32 = 22;
const INDIRECT: u32 = 28;
pub(crate) const EVENT_INDEX: u32 = 29;
/// A feature of vhost-user, not of virtio: the back end has protocol features.
pub(crate) const PROTOCOL: u32 = 30;
pub(crate) const VERSION_1: u32 = 32;

/// Features that every device offers.
pub(crate) const OFFERED: u64 = {
    let bits = [
        CHECKSUM,
        GUEST_CHECKSUM,
        MTU,
        MAC,
        GUEST_TSO4,
        GUEST_TSO6,
        GUEST_ECN,
        HOST_TSO4,
        HOST_TSO6,
        HOST_ECN,
        MERGE,
        STATUS,
        INDIRECT,
        EVENT_INDEX,
        PROTOCOL,
        VERSION_1,
    ];
    let mut set = 0;
    let mut i = 0;
    while i < bits.len() {
        set |= 1 << bits[i];
        i += 1;
    }
    set
};

/// Features of a device with `pairs` pairs of rings. The number of pairs in use is set through the
/// control queue, so both come together.
pub(crate) fn offered(pairs: u8) -> u64 {
    if pairs > 1 { OFFERED | 1 << QUEUES | 1 << CONTROL } else { OFFERED }
}

/// Whether `features` contains `bit`.
pub(crate) fn has(features: u64, bit: u32) -> bool {
    features >> bit & 1 == 1
}

/// Length in bytes of the header before each frame.
pub(crate) fn header(features: u64) -> usize {
    if has(features, VERSION_1) || has(features, MERGE) {
        crate::offload::HEADER
    } else {
        crate::offload::SHORT_HEADER
    }
}

/// Offloads that a guest accepts in frames that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptedOffloads {
    pub(crate) checksum: bool,
    pub(crate) tso4: bool,
    pub(crate) tso6: bool,
    pub(crate) ecn: bool,
}

impl AcceptedOffloads {
    /// Offloads that a driver with these negotiated `features` accepts.
    pub(crate) fn of(features: u64) -> Self {
        let has = |bit| has(features, bit);
        Self {
            checksum: has(GUEST_CHECKSUM),
            tso4: has(GUEST_TSO4),
            tso6: has(GUEST_TSO6),
            ecn: has(GUEST_ECN),
        }
    }

    /// Whether the guest accepts a frame with this `offload` unchanged.
    pub(crate) fn accepts(self, offload: &crate::offload::Offload) -> bool {
        let segments = offload
            .segments
            .is_none_or(|s| (if s.v6 { self.tso6 } else { self.tso4 }) && (self.ecn || !s.ecn));
        segments && (self.checksum || offload.checksum.is_none())
    }
}
