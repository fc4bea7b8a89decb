//! What the device offers its driver (virtio 1.2, sections 5.1.3 and 6).

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
const INDIRECT: u32 = 28;
pub(crate) const EVENT_INDEX: u32 = 29;
/// Not virtio's but vhost-user's: that there are protocol features.
pub(crate) const PROTOCOL: u32 = 30;
pub(crate) const VERSION_1: u32 = 32;

/// All that is offered. A control queue is not: a driver waits for its answers.
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

/// Whether `bit` is in `features`.
pub(crate) fn has(features: u64, bit: u32) -> bool {
    features >> bit & 1 == 1
}

/// Bytes of the header before each frame.
pub(crate) fn header(features: u64) -> usize {
    if has(features, VERSION_1) || has(features, MERGE) {
        crate::offload::HEADER
    } else {
        crate::offload::SHORT_HEADER
    }
}

/// What a guest can take of what is left to do to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receives {
    pub(crate) checksum: bool,
    pub(crate) tso4: bool,
    pub(crate) tso6: bool,
    pub(crate) ecn: bool,
}

impl Receives {
    /// Of a driver that takes `features`.
    pub(crate) fn of(features: u64) -> Self {
        let has = |bit| has(features, bit);
        Self {
            checksum: has(GUEST_CHECKSUM),
            tso4: has(GUEST_TSO4),
            tso6: has(GUEST_TSO6),
            ecn: has(GUEST_ECN),
        }
    }

    /// Whether such a frame can go there as it is.
    pub(crate) fn takes(self, offload: &crate::offload::Offload) -> bool {
        let segments = offload
            .segments
            .is_none_or(|s| (if s.v6 { self.tso6 } else { self.tso4 }) && (self.ecn || !s.ecn));
        segments && (self.checksum || offload.checksum.is_none())
    }
}
