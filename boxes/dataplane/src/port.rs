//! A port of a box: receives and sends frames in batches.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use forebay_units::Nanos;
use serde::Deserialize;

use crate::pool::{Frame, Pool};

/// How a port reaches its interface; in configuration files `auto`, `xdp` or `packet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// AF_XDP, or AF_PACKET where that cannot be had.
    #[default]
    Auto,
    /// AF_XDP and nothing else.
    Xdp,
    /// AF_PACKET, which works on every interface, at a higher cost per packet.
    Packet,
}

/// The counters of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames passed to the box.
    pub received: u64,
    /// Frames passed to the kernel for sending.
    pub sent: u64,
    /// Frames that arrived and were lost before the box saw them: for want of a free chunk or of
    /// room in a ring, or because a frame is larger than a chunk.
    pub receive_lost: u64,
    /// Frames that the kernel refused to send.
    pub send_lost: u64,
}

/// An interface whose frames a box receives and sends, in batches.
pub trait Port: Send {
    /// Returns the number of receive queues, into which the port can be split.
    fn queues(&self) -> usize {
        1
    }

    /// Deals the receive queues out to `parts` ports, each for a thread of its own. Returns the
    /// second one and those after it; this port is the first, and all of them if there are too few
    /// queues. The heartbeat and the programs remain with it.
    fn split(&mut self, _parts: usize) -> Vec<Box<dyn Port>> {
        Vec::new()
    }

    /// Appends at most `limit` received frames to `out`. Never blocks.
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize);

    /// Sends frames from the front of `frames` as long as there is room. The rest stays in order,
    /// and nothing is lost. Never blocks.
    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>);

    /// Returns descriptors that become readable when frames have arrived, and writable when there
    /// is room.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Reports that the process was alive at `now`.
    ///
    /// A port of a wire over AF_PACKET receives frames from the first report on. When the last one
    /// is older than [`HEARTBEAT_TIMEOUT`](crate::HEARTBEAT_TIMEOUT), it receives none. Frames that
    /// it does not receive pass to the other port without the process.
    fn report_alive(&mut self, _now: Nanos) {}

    /// Lets frames that arrive from now on pass to the other port without this process, if the
    /// port has a program for that. The frames that arrived before can still be received.
    fn bypass(&mut self);

    /// Takes the programs of a port of a wire off its interface when this value is dropped, so that
    /// its frames pass no longer. That needs `CAP_NET_ADMIN`.
    fn unplug(&mut self) {}

    /// Whether the kernel still sends frames out of the pool's memory.
    fn is_sending(&mut self, pool: &mut Pool) -> bool;

    /// Returns the counters so far.
    fn stats(&mut self) -> PortStats;

    /// Describes how frames are moved, for logs: `AF_XDP (native)`.
    fn describe(&self) -> String;
}
