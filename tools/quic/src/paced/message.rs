//! A transmit of quinn that waits for its time.

use std::net::{IpAddr, SocketAddr};

use quinn::udp::{EcnCodepoint, Transmit};

/// The datagrams of a transmit with everything that the socket below needs.
pub(super) struct Message {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    segment_size: Option<usize>,
    contents: Box<[u8]>,
}

impl Message {
    /// Copies a transmit.
    pub(super) fn of(transmit: &Transmit<'_>) -> Self {
        Self {
            destination: transmit.destination,
            source: transmit.src_ip,
            ecn: transmit.ecn,
            segment_size: transmit.segment_size,
            contents: transmit.contents.into(),
        }
    }

    /// Returns the transmit for the socket below.
    pub(super) fn transmit(&self) -> Transmit<'_> {
        Transmit {
            destination: self.destination,
            ecn: self.ecn,
            contents: &self.contents,
            segment_size: self.segment_size,
            src_ip: self.source,
        }
    }

    /// Returns the bytes of all datagrams.
    pub(super) fn len(&self) -> usize {
        self.contents.len()
    }

    /// Returns the number of datagrams.
    pub(super) fn packets(&self) -> u32 {
        match self.segment_size {
            Some(size) if size > 0 => self.contents.len().div_ceil(size).max(1) as u32,
            _ => 1,
        }
    }
}
