//! What boxes write down about themselves, and the laboratory reads.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::netdev::Netdev;
use crate::port::{Port, PortStats};

/// A hop's account of its packets: what came in went out, was dropped by policy, or is still inside.
/// `received = sent + policy_drops + local + queued`, and `lost = 0`, or something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCounters {
    /// The hop's name: `sendbox`, `link`.
    pub hop: String,
    /// Frames received on all ports.
    pub received: u64,
    /// Frames sent on all ports.
    pub sent: u64,
    /// Frames that a queueing policy dropped.
    pub policy_drops: u64,
    /// Frames that ended here because they were for the hop itself.
    pub local: u64,
    /// Frames that were still inside at the end.
    pub queued: u64,
    /// Frames lost in any other way (a full ring, a failed send): must be zero.
    pub lost: u64,
}

impl HopCounters {
    /// The account of a hop's ports. What the kernel counts per interface includes what the ports
    /// know of by themselves, so the larger of the two counts as lost.
    pub fn new(hop: &str, ports: &mut [Box<dyn Port>], kernel: &KernelDrops) -> Self {
        let stats: Vec<PortStats> = ports.iter_mut().map(|p| p.stats()).collect();
        let known: u64 = stats.iter().map(|s| s.receive_lost + s.send_lost).sum();
        Self {
            hop: hop.to_owned(),
            received: stats.iter().map(|s| s.received).sum(),
            sent: stats.iter().map(|s| s.sent).sum(),
            lost: known.max(kernel.count()),
            ..Self::default()
        }
    }

    /// Writes this account to `path`, as one line of JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_string(self)? + "\n")
    }
}

/// What the kernel has dropped on a set of interfaces, from a moment on.
#[derive(Debug)]
pub struct KernelDrops(Vec<(Netdev, (u32, u32))>);

impl KernelDrops {
    /// Starts counting.
    ///
    /// # Errors
    /// If an interface cannot be asked.
    pub fn from_now(netdevs: &[Netdev]) -> Result<Self, Error> {
        netdevs.iter().map(|n| Ok((n.clone(), n.dropped()?))).collect::<Result<_, _>>().map(Self)
    }

    /// Frames dropped since. An interface that is gone has none.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .filter_map(|(netdev, before)| Some((netdev.dropped().ok()?, before)))
            .map(|(now, before)| now.0.wrapping_sub(before.0) + now.1.wrapping_sub(before.1))
            .map(u64::from)
            .sum()
    }
}

/// A tick of a bundle's controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// In nanoseconds.
    pub time: u64,
    /// The bundle's name.
    pub bundle: String,
    /// `delay control` or `open`.
    pub mode: String,
    /// The rate applied, in bits per second; `None` when open.
    pub rate: Option<u64>,
    /// The latest round-trip time, in nanoseconds.
    pub rtt: Option<u64>,
    /// The minimum round-trip time, in nanoseconds.
    pub min_rtt: Option<u64>,
    /// The send rate S over about one round-trip time, in bits per second.
    pub send_rate: Option<u64>,
    /// The receive rate R over about one round-trip time, in bits per second.
    pub receive_rate: Option<u64>,
    /// The epoch size N, in packets.
    pub epoch: u32,
    /// Bytes in the bundle's queue.
    pub backlog: u64,
}
