//! The order for a guest, as JSON in the directory that it shares with the host.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file in the shared directory with the order.
const ORDER: &str = "order.json";
/// The file in the shared directory with the result.
const RESULT: &str = "result.json";

/// The guest's network and work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whether to set the sysctl to 1. A kernel without the patch does not have it.
    pub backpressure: bool,
    /// The queue of the sender.
    pub queue: Queue,
    /// The work of the guest.
    pub work: Work,
}

/// The sender's egress: a token bucket with a packet queue below it, then a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The rate of the token bucket in bit/s.
    pub rate: u64,
    /// The depth of the token bucket in bytes. A longer super-packet is segmented before it is
    /// queued.
    pub burst: u64,
    /// The number of packets that the queue below it holds.
    pub limit: u32,
    /// The delay of acknowledgements in microseconds.
    pub delay: u64,
    /// The number of transmit queues of the device. With more than one, `mq` is their root, and
    /// each has a token bucket of its part of the rate and a packet queue of the whole limit.
    pub queues: u32,
    /// Whether the device is a TUN device whose reader has the rate. Its ring and its qdisc
    /// (pfifo_fast) hold the limit each, and there is no token bucket.
    pub tun: bool,
}

/// The work of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Measures backlogged TCP flows.
    Flows {
        /// The number of flows.
        flows: u32,
        /// The pacing rate of each flow in bit/s; 0 for none.
        pace: u64,
        /// The time before the measurement in seconds.
        warm_up: u64,
        /// The time of the measurement in seconds.
        seconds: u64,
    },
    /// Sends a number of bytes over each TCP flow.
    Transfer {
        /// The number of flows.
        flows: u32,
        /// The number of bytes of each flow.
        bytes: u64,
    },
    /// Sends datagrams from several sockets as fast as possible; none may be lost.
    Datagrams {
        /// The number of sockets, with one thread each.
        sockets: u32,
        /// The number of datagrams of each socket.
        each: u32,
        /// Whether the sockets poll instead of blocking in the call.
        polled: bool,
    },
    /// Closes TCP flows while they are paused, every other one by a reset.
    Close {
        /// The number of flows.
        flows: u32,
    },
    /// Takes the device of TCP flows down and up while they are paused.
    Down {
        /// The number of flows.
        flows: u32,
        /// The number of bytes of each flow.
        bytes: u64,
    },
    /// Deletes the queue of TCP flows while they are paused, and adds it again.
    Replace {
        /// The number of flows.
        flows: u32,
        /// The number of bytes of each flow.
        bytes: u64,
    },
}

impl Order {
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        std::fs::write(dir.join(ORDER), serde_json::to_vec(self)?)
    }

    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(dir.join(ORDER))?)?)
    }
}

/// The result of a guest's work, or the reason of its failure.
pub(super) type Outcome = Result<Findings, String>;

pub(super) fn write_outcome(dir: &Path, outcome: &Outcome) -> io::Result<()> {
    std::fs::write(dir.join(RESULT), serde_json::to_vec(outcome)?)
}

pub(super) fn read_outcome(dir: &Path) -> io::Result<Outcome> {
    Ok(serde_json::from_slice(&std::fs::read(dir.join(RESULT))?)?)
}

/// The result of a guest's work. Values are of the measured time, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The length of the work or of the measurement, in seconds of the guest's clock.
    pub seconds: f64,
    /// The number of bytes that the sender counted as sent.
    pub sent: u64,
    /// The number of bytes that the receiver's programs read.
    pub arrived: u64,
    /// The number of packets that the sender's queue dropped.
    pub dropped: u64,
    /// The number of segments that TCP sent again.
    pub retransmissions: u64,
    /// The number of retransmission timeouts.
    pub timeouts: u64,
    /// The number of retransmission timeouts before the measurement.
    pub early_timeouts: u64,
    /// The mean length of the frames that the device sent in the measured time, in bytes; a
    /// super-packet is one frame.
    pub frame: f64,
    /// The number of times that a segment was to be sent again while the device's queue still had
    /// it (`TCPSpuriousRtxHostQueues`), from the start on.
    pub held: u64,
    /// The number of times that a socket was paused; `None` without the patch.
    pub paused: Option<u64>,
    /// The number of times that a socket was resumed; `None` without the patch.
    pub resumed: Option<u64>,
    /// The number of times that the queue refused a datagram of a polling socket.
    pub refused: u64,
    /// The times from giving a piece to the queue to its acknowledgement.
    pub round_trips: Percentiles,
    /// The times from writing a piece to its acknowledgement.
    pub waits: Percentiles,
    /// The smoothed round trips of each flow by TCP's own estimate, once per second.
    pub smoothed: Percentiles,
    /// The longest time without arrivals of each flow.
    pub gaps: Percentiles,
    /// The number of arrived bytes of each flow.
    pub shares: Percentiles,
    /// The number of TCP sockets that the kernel still had at the end, in both namespaces.
    pub sockets_left: u64,
    /// The kernel's warnings.
    pub warnings: Vec<String>,
}

/// Exact percentiles by nearest rank. Times are in milliseconds, shares in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The number of samples.
    pub count: u64,
    /// The smallest sample.
    pub min: f64,
    /// The median sample.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest sample.
    pub max: f64,
}

impl Percentiles {
    /// Computes the percentiles of samples, of which `unit` make one unit of the result.
    pub(super) fn of(mut samples: Vec<u64>, unit: f64) -> Self {
        samples.sort_unstable();
        let at = |share: f64| {
            let rank = (samples.len() as f64 * share).ceil() as usize;
            samples.get(rank.max(1) - 1).map_or(0.0, |sample| *sample as f64 / unit)
        };
        Self {
            count: samples.len() as u64,
            min: at(0.0),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let of = Percentiles::of((1..=200).rev().map(|n| n * 1_000).collect(), 1e3);
        assert_eq!((of.count, of.min, of.p50), (200, 1.0, 100.0));
        assert_eq!((of.p99, of.p999, of.max), (198.0, 200.0, 200.0));
        assert_eq!(Percentiles::of(Vec::new(), 1.0), Percentiles::default());
    }
}
