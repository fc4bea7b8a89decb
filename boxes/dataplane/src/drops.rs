//! The counters of a set of ports, with the frames that the kernel dropped before the ports saw
//! them.

use crate::error::Error;
use crate::netdev::Netdev;
use crate::port::{Port, PortStats};

/// The counters of the kernel for dropped frames on a set of interfaces, from a moment on.
#[derive(Debug)]
pub struct KernelDrops {
    starts: Vec<Start>,
    /// The final count, if counting has stopped.
    stopped: Option<u64>,
}

/// The counters of one interface at the start.
#[derive(Debug)]
struct Start {
    netdev: Netdev,
    received: u32,
    sent: u32,
}

impl KernelDrops {
    /// Starts counting on `netdevs`.
    ///
    /// # Errors
    /// If an interface cannot be asked.
    pub fn from_now(netdevs: &[Netdev]) -> Result<Self, Error> {
        let start = |netdev: &Netdev| {
            let (received, sent) = netdev.dropped()?;
            Ok(Start { netdev: netdev.clone(), received, sent })
        };
        Ok(Self { starts: netdevs.iter().map(start).collect::<Result<_, _>>()?, stopped: None })
    }

    /// Stops counting. Frames that pass the interfaces later are not those of the ports.
    pub fn stop(&mut self) {
        self.stopped = Some(self.count());
    }

    /// Frames dropped from the start until counting stopped, or until now. An interface that is
    /// gone counts none.
    pub fn count(&self) -> u64 {
        if let Some(count) = self.stopped {
            return count;
        }
        let since = |start: &Start| {
            let (received, sent) = start.netdev.dropped().ok()?;
            // The kernel's counters of 32 bits wrap; their sum may need more.
            let received = u64::from(received.wrapping_sub(start.received));
            Some(received + u64::from(sent.wrapping_sub(start.sent)))
        };
        self.starts.iter().filter_map(since).sum()
    }
}

/// The frames of a set of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames received on all ports.
    pub received: u64,
    /// Frames sent on all ports.
    pub sent: u64,
    /// Frames lost on the way in or out.
    pub lost: u64,
}

impl Totals {
    /// The totals of `ports`. What the kernel counts per interface includes what the ports know of
    /// by themselves, so the larger of the two counts is what was lost.
    pub fn of(ports: &mut [Box<dyn Port>], kernel: &KernelDrops) -> Self {
        let stats: Vec<PortStats> = ports.iter_mut().map(|p| p.stats()).collect();
        let known: u64 = stats.iter().map(|s| s.receive_lost + s.send_lost).sum();
        Self {
            received: stats.iter().map(|s| s.received).sum(),
            sent: stats.iter().map(|s| s.sent).sum(),
            lost: known.max(kernel.count()),
        }
    }
}
