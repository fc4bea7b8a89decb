//! What a guest is told to do, as JSON in the directory that it shares with the host.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// In the shared directory: the order.
const ORDER: &str = "order.json";
/// In the shared directory: what it came to.
const RESULT: &str = "result.json";

/// The guest's network and what is done in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whether the sysctl is set to 1. A kernel without the patch has none, and is left alone.
    pub backpressure: bool,
    /// The sender's queue.
    pub queue: Queue,
    /// What is done.
    pub work: Work,
}

/// The sender's way out: a token bucket with a queue of packets below it, and then a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The token bucket's rate, in bit/s.
    pub rate: u64,
    /// Its depth, in bytes. A super-packet that is longer is taken apart before it is queued.
    pub burst: u64,
    /// Packets that the queue below it holds.
    pub limit: u32,
    /// How long acknowledgements are under way, in microseconds.
    pub delay: u64,
}

/// What a guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Backlogged TCP flows, measured.
    Flows {
        /// How many.
        flows: u32,
        /// The rate that each is paced to, in bit/s; 0: none.
        pace: u64,
        /// Seconds before it is measured.
        warm_up: u64,
        /// Seconds that are measured.
        seconds: u64,
    },
    /// TCP flows that send so many bytes each and end.
    Transfer {
        /// How many.
        flows: u32,
        /// Bytes of each.
        bytes: u64,
    },
    /// Datagrams from several sockets as fast as they are taken, and none is to be lost.
    Datagrams {
        /// Sockets, a thread for each.
        sockets: u32,
        /// Datagrams of each.
        each: u32,
        /// Whether the sockets poll, rather than wait in the call.
        polled: bool,
    },
    /// TCP flows that are closed while they wait, every other one by a reset.
    Close {
        /// How many.
        flows: u32,
    },
    /// TCP flows whose device goes down and comes up while they wait.
    Down {
        /// How many.
        flows: u32,
        /// Bytes of each.
        bytes: u64,
    },
    /// TCP flows whose queue is deleted, and later added again, while they wait.
    Replace {
        /// How many.
        flows: u32,
        /// Bytes of each.
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

/// What a guest's work came to, or why it failed.
pub(super) type Outcome = Result<Findings, String>;

pub(super) fn write_outcome(dir: &Path, outcome: &Outcome) -> io::Result<()> {
    std::fs::write(dir.join(RESULT), serde_json::to_vec(outcome)?)
}

pub(super) fn read_outcome(dir: &Path) -> io::Result<Outcome> {
    Ok(serde_json::from_slice(&std::fs::read(dir.join(RESULT))?)?)
}

/// What was found in a guest. Where something was measured for a time only, that is the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// How long it took or was measured, in seconds of the guest's clock.
    pub seconds: f64,
    /// Bytes that were sent, as far as the sender counts them.
    pub sent: u64,
    /// Bytes that arrived at the receiver's programs.
    pub arrived: u64,
    /// Packets that the sender's queue dropped.
    pub dropped: u64,
    /// Segments that TCP tried to send again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// How often a socket was paused, and resumed; nothing where the kernel has not the patch.
    pub paused: Option<u64>,
    /// As said.
    pub resumed: Option<u64>,
    /// Of [`Work::Datagrams`] that poll: how often the queue said to try again.
    pub refused: u64,
    /// Round trips from when a piece is first given to the queue until it is acknowledged.
    pub round_trips: Percentiles,
    /// From when a piece is written by the program until it is acknowledged.
    pub waits: Percentiles,
    /// TCP's own smoothed round trip of each flow, each second.
    pub smoothed: Percentiles,
    /// Of each flow, the longest time without anything of it arriving.
    pub gaps: Percentiles,
    /// Bytes that arrived of each flow.
    pub shares: Percentiles,
    /// Sockets of TCP that the kernel still had at the end, in both namespaces.
    pub sockets_left: u64,
    /// Warnings of the kernel.
    pub warnings: Vec<String>,
}

/// Exact percentiles, by the nearest rank. Times are in milliseconds, shares in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Samples.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    /// Of samples in units of which `unit` are one of the result's.
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
