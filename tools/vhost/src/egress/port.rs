//! An interface that carries full frames.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Method, Netdev, Pool, Port, open_ports};

use super::{Egress, Sent};
use crate::Error;
use crate::offload::Offload;

/// Number of chunks: the rings of an AF_XDP port, 2048 frames each, and the pending frames.
const CHUNKS: u32 = 16_384;
/// Maximum number of frames that wait for the port. It is small, because these are past the
/// scheduler.
const PENDING: usize = 64;
/// Length in bytes of the link layer of the longest frame: Ethernet and two VLAN tags.
const LINK_LAYER: usize = 14 + 8;

/// An open interface.
pub(crate) struct PortEgress {
    /// Declared before the pool, so that the port releases its chunks before the memory goes.
    port: Box<dyn Port>,
    pool: Pool,
    longest: usize,
    out: VecDeque<Frame>,
    received: Vec<Frame>,
}

impl PortEgress {
    pub(crate) fn open(netdev: &Netdev, method: Method) -> Result<Self, Error> {
        let mut pool = Pool::new(CHUNKS, netdev.mtu)?;
        let mut ports = open_ports(std::slice::from_ref(netdev), method, &mut pool)?;
        let longest = netdev.mtu as usize + LINK_LAYER;
        let (out, received) = (VecDeque::with_capacity(PENDING), Vec::new());
        Ok(Self { port: ports.remove(0), pool, longest, out, received })
    }
}

impl Egress for PortEgress {
    fn carries_offloads(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Offload, frame: &[u8]) -> Sent {
        if frame.len() > self.longest {
            return Sent::TooLong;
        }
        if self.out.len() >= PENDING && !self.flush() && self.out.len() >= PENDING {
            return Sent::NoRoom;
        }
        match self.pool.frame(frame) {
            Some(frame) => {
                self.out.push_back(frame);
                Sent::Done
            }
            // The port returns chunks when frames have left.
            None => {
                self.flush();
                Sent::NoRoom
            }
        }
    }

    fn flush(&mut self) -> bool {
        self.port.send(&mut self.pool, &mut self.out);
        self.out.is_empty()
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Offload, &[u8])) {
        self.port.receive(&mut self.pool, &mut self.received, limit);
        for frame in self.received.drain(..) {
            each(Offload::default(), self.pool.bytes(&frame));
            self.pool.release(frame);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.port.descriptors()
    }

    fn lost(&mut self) -> (u64, u64) {
        let stats = self.port.stats();
        (stats.receive_lost, stats.send_lost)
    }

    fn describe(&self) -> String {
        self.port.describe()
    }
}
