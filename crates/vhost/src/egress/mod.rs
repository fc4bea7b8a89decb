//! The way out of the scheduled buffer, and the way in for what comes back.

mod port;
mod tap;

use std::os::fd::RawFd;

use forebay_dataplane::{Method, Netdev};

pub(crate) use self::port::PortEgress;
pub(crate) use self::tap::Tap;
use crate::Error;
use crate::offload::Offload;

/// Where the packets of all virtual machines go, as the configuration names it.
#[derive(Clone, Debug)]
pub enum Outside {
    /// An interface, reached by AF_XDP or AF_PACKET: full frames only.
    Port {
        /// Which.
        netdev: Netdev,
        /// How.
        method: Method,
    },
    /// A TAP device, which is made if it is not there.
    Tap {
        /// Its name.
        name: String,
        /// Whether it gets super-packets and open checksums as guests make them; if not, full frames.
        super_packets: bool,
    },
}

/// What became of a frame that was to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on its way.
    Done,
    /// There is no room for it now.
    Later,
    /// It can never leave here: it is too long.
    TooLong,
    /// The kernel would not have it.
    Refused,
}

/// A way out.
pub(crate) trait Egress {
    /// Whether checksums and segmentation may be left undone.
    fn completes(&self) -> bool;

    /// Sends a frame. Where [`Self::completes`] is false, `offload` is nothing.
    fn send(&mut self, offload: &Offload, frame: &[u8]) -> Sent;

    /// Hands what was sent to the kernel, for ways out that gather frames. Whether all is gone.
    fn flush(&mut self) -> bool {
        true
    }

    /// Calls `each` for frames that have come in, at most `limit`.
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Offload, &[u8]));

    /// Becomes readable when frames have come, and writable when there is room.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Frames that were lost at the device or in the kernel: coming in, and going out.
    fn lost(&mut self) -> (u64, u64);

    /// For people.
    fn describe(&self) -> String;
}

/// Opens it.
pub(crate) fn open(outside: &Outside) -> Result<Box<dyn Egress>, Error> {
    Ok(match outside {
        Outside::Port { netdev, method } => Box::new(PortEgress::open(netdev, *method)?),
        Outside::Tap { name, super_packets } => Box::new(Tap::open(name, *super_packets)?),
    })
}
