use std::net::{IpAddr, SocketAddr};

use forebay_queue::backpressure::{FlowId, FlowPacket};
use forebay_queue::{Ecn, Packet};
use forebay_units::Bytes;
use quinn::udp::{EcnCodepoint, Transmit};

// Lengths of headers in bytes: Ethernet, IP without options (RFC 791, RFC 8200) and UDP (RFC 768).
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// A UDP datagram on its way through the scheduled buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    flow: FlowId,
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Ecn,
    contents: Box<[u8]>,
}

impl Datagram {
    /// Creates a datagram of `contents`, a segment of `transmit`, sent by `flow`.
    pub(crate) fn new(flow: FlowId, transmit: &Transmit<'_>, contents: &[u8]) -> Self {
        let ecn = match transmit.ecn {
            None => Ecn::NotEct,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
        };
        let (destination, source) = (transmit.destination, transmit.src_ip);
        Self { flow, destination, source, ecn, contents: contents.into() }
    }

    /// Returns the transmit for the socket below.
    pub fn transmit(&self) -> Transmit<'_> {
        Transmit {
            destination: self.destination,
            ecn: match self.ecn {
                Ecn::NotEct => None,
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ce => Some(EcnCodepoint::Ce),
            },
            contents: &self.contents,
            segment_size: None,
            src_ip: self.source,
        }
    }
}

impl Packet for Datagram {
    fn len(&self) -> Bytes {
        // An IPv4-mapped IPv6 address leaves as IPv4.
        let ip = if self.destination.ip().to_canonical().is_ipv4() { IPV4 } else { IPV6 };
        Bytes((ETHERNET + ip + UDP + self.contents.len()) as u64)
    }

    fn flow_hash(&self) -> u32 {
        self.flow.0
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

impl FlowPacket for Datagram {
    fn flow(&self) -> FlowId {
        self.flow
    }
}
