//! The interface or device through which packets leave and arrive.

mod port;
mod tap;

use std::os::fd::RawFd;

use forebay_dataplane::{Method, Netdev};

pub(crate) use self::port::PortEgress;
pub(crate) use self::tap::Tap;
use crate::Error;
use crate::offload::Offload;

/// Interface or device for the packets of all virtual machines, as configured.
#[derive(Clone, Debug)]
pub enum Outside {
    /// An interface over AF_XDP or AF_PACKET, which carries full frames only.
    Port {
        /// The network interface.
        netdev: Netdev,
        /// The method by which it is opened.
        method: Method,
    },
    /// A TAP device, which is created if it does not exist.
    Tap {
        /// Name of the device.
        name: String,
        /// Whether it carries super-packets and open checksums; otherwise full frames.
        super_packets: bool,
    },
}

/// Result of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The frame is sent.
    Done,
    /// There is no room for the frame at present.
    NoRoom,
    /// The frame is too long for this way out.
    TooLong,
    /// The kernel refused the frame.
    Refused,
}

/// A way out of the back end.
pub(crate) trait Egress {
    /// Whether it carries frames with open checksums and super-packets.
    fn carries_offloads(&self) -> bool;

    /// Sends a frame. Where [`Self::carries_offloads`] is false, `offload` is empty.
    fn send(&mut self, offload: &Offload, frame: &[u8]) -> Sent;

    /// Passes sent frames to the kernel, where they are collected first; returns whether all are
    /// gone.
    fn flush(&mut self) -> bool {
        true
    }

    /// Calls `each` for at most `limit` arriving frames.
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Offload, &[u8]));

    /// Descriptors that become readable when frames have arrived, and writable when there is room.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Frames lost at the device or in the kernel: on arrival, and on departure.
    fn lost(&mut self) -> (u64, u64);

    /// Human-readable description, for logs.
    fn describe(&self) -> String;
}

/// Opens the configured way out.
pub(crate) fn open(outside: &Outside) -> Result<Box<dyn Egress>, Error> {
    Ok(match outside {
        Outside::Port { netdev, method } => Box::new(PortEgress::open(netdev, *method)?),
        Outside::Tap { name, super_packets } => Box::new(Tap::open(name, *super_packets)?),
    })
}
