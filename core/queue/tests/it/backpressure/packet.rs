use forebay_queue::backpressure::{FlowId, FlowPacket};
use forebay_queue::{Ecn, Packet};
use forebay_units::Bytes;

/// The `seq`-th packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pkt {
    pub(crate) flow: u32,
    pub(crate) seq: u32,
    pub(crate) len: u64,
    pub(crate) class: u8,
}

impl Packet for Pkt {
    fn len(&self) -> Bytes {
        Bytes(self.len)
    }

    fn flow_hash(&self) -> u32 {
        self.flow.wrapping_mul(0x9e37_79b1)
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

impl FlowPacket for Pkt {
    fn flow(&self) -> FlowId {
        FlowId(self.flow)
    }
}

/// Returns a packet of `flow` of the most urgent class, as long as a full frame.
pub(crate) fn pkt(flow: u32, seq: u32) -> Pkt {
    Pkt { flow, seq, len: 1514, class: 0 }
}
