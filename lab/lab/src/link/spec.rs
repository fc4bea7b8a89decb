use std::net::IpAddr;
use std::path::PathBuf;

use forebay_dataplane::Pool;
use forebay_discipline::QueueSpec;
use forebay_sim::{Capacity, DelayTrace, Jitter, Loss, PolicerConfig, PropagationConfig};
use forebay_units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::scenario::Back;

/// The specification of a link process, which it reads as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The interface towards the senders.
    pub left: String,
    /// The interface towards the receivers, behind the bottleneck.
    pub right: String,
    /// The interfaces of further senders, whose frames also enter at the bottleneck: cross traffic
    /// and other sites. At most 200.
    pub others: Vec<String>,
    /// The bottleneck's rate in bits per second, counting whole frames.
    pub rate_bps: u64,
    /// The propagation delay in each direction, in nanoseconds.
    pub delay_ns: u64,
    /// The bottleneck's rate over time, from the start of the run; by default constant.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// The delay of both directions over time, from the start of the run, instead of `delay_ns`.
    #[serde(default)]
    pub delay_trace: Option<DelayTrace>,
    /// The loss behind the bottleneck.
    #[serde(default)]
    pub loss: Loss,
    /// The variation of the delay behind the bottleneck.
    #[serde(default)]
    pub jitter: Jitter,
    /// The share of feedback that is lost on the way back.
    #[serde(default)]
    pub feedback_loss: f64,
    /// The UDP port of the sendboxes, by which feedback is recognised.
    #[serde(default)]
    pub feedback_port: u16,
    /// The policer in front of the queue.
    #[serde(default)]
    pub policer: Option<PolicerConfig>,
    /// The bottleneck of the way back.
    #[serde(default)]
    pub back: Option<Back>,
    /// The queue of the way back, instead of the FIFO of `back`.
    #[serde(default)]
    pub back_queue: Option<QueueSpec>,
    /// The largest number of packets that each wire loses one after the other, if it is limited.
    #[serde(default)]
    pub most_lost_in_a_row: LossLimits,
    /// Times in which nothing arrives, from the start of the run.
    #[serde(default)]
    pub outage: Option<OutageSpec>,
    /// By how much the round trips of the hosts behind each port exceed the path's, in nanoseconds,
    /// in the order `left`, `right`, `others`; zero for ports that are not listed.
    #[serde(default)]
    pub longer_ns: Vec<u64>,
    /// Parallel ways, each with its own queue and wire, in the place of `neck`, `rate_bps`,
    /// `capacity` and `delay_ns` in the direction to the right; empty if there is one way.
    #[serde(default)]
    pub ways: Vec<WaySpec>,
    /// Chooses a way for each packet instead of each flow.
    #[serde(default)]
    pub per_packet: bool,
    /// The source addresses whose packets take the way of the same number, where ways are chosen by
    /// the site. Packets from other addresses take the first.
    #[serde(default)]
    pub sites: Vec<IpAddr>,
    /// Later round-trip times of the path, ascending by time.
    #[serde(default)]
    pub routes: Vec<RouteSpec>,
    /// Traffic whose way back is longer, recognised by its ports.
    #[serde(default)]
    pub later: Vec<LaterSpec>,
    /// The seed of random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The queue at the bottleneck.
    #[serde(rename = "neck")]
    pub queue: BottleneckSpec,
    /// The file in which every packet through the queue is recorded.
    pub packet_log: PathBuf,
    /// The largest number of packets to record.
    pub packet_limit: u64,
    /// The file to which the packet counts are written at the end.
    pub counters: PathBuf,
}

/// The largest numbers of packets that are lost one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossLimits {
    /// Behind the bottleneck, to the right.
    pub to_right: Option<u32>,
    /// On the way back, to the left.
    pub to_left: Option<u32>,
}

/// Times in which packets that reach the end of a wire are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// The time before each outage in which packets arrive, in nanoseconds.
    pub on_ns: u64,
    /// The length of each outage, in nanoseconds.
    pub off_ns: u64,
    /// The number of outages.
    pub times: u32,
    /// Whether packets to the right are lost.
    pub to_right: bool,
    /// Whether packets to the left are lost.
    pub to_left: bool,
}

impl OutageSpec {
    /// Returns whether an outage is in progress at `time` from the start of the run.
    pub(super) fn is_on(&self, time: Nanos) -> bool {
        let period = self.on_ns.saturating_add(self.off_ns).max(1);
        time.0 / period < u64::from(self.times) && time.0 % period >= self.on_ns
    }
}

/// One of several parallel ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaySpec {
    /// The rate of its bottleneck in bits per second.
    pub rate_bps: u64,
    /// The propagation delay behind the bottleneck, in nanoseconds.
    pub delay_ns: u64,
    /// The queue at its bottleneck.
    pub queue: QueueSpec,
}

/// A change of the path's round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// When it happens, in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// The round-trip time from then on, half of it in each direction, in nanoseconds.
    pub rtt_ns: u64,
}

/// Traffic whose way back takes longer than that of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaterSpec {
    /// The lowest TCP or UDP port of the traffic, source or destination.
    pub first_port: u16,
    /// The highest port.
    pub last_port: u16,
    /// By how much its way back is longer, in nanoseconds.
    pub by_ns: u64,
}

/// The queue at the bottleneck: of this project or of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum BottleneckSpec {
    /// A queueing discipline of this project, in front of a wire of the link's rate.
    Forebay {
        /// The discipline and its parameters.
        queue: QueueSpec,
    },
    /// A queueing discipline of the kernel, which shapes to the link's rate.
    Kernel {
        /// The interface that has the discipline.
        entry: String,
        /// The peer of that interface, at which packets come out.
        exit: String,
    },
}

impl BottleneckSpec {
    /// The number of packets that may wait in this process's memory; packets in the kernel use its
    /// memory.
    fn packets(&self) -> u64 {
        match self {
            Self::Forebay { queue } => queue.packets(),
            Self::Kernel { .. } => 0,
        }
    }
}

impl LinkSpec {
    /// The bottleneck's rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps)
    }

    /// The bottleneck's rate over time.
    pub(super) fn capacity(&self) -> Capacity {
        self.capacity.clone().unwrap_or(Capacity::Constant(self.rate()))
    }

    /// The way of packets behind the bottleneck.
    pub(super) fn rightward(&self) -> PropagationConfig {
        PropagationConfig {
            loss: self.loss,
            most_lost_in_a_row: self.most_lost_in_a_row.to_right,
            jitter: self.jitter,
            ..self.each_way()
        }
    }

    /// Returns how frames pass the way back.
    pub(super) fn leftward(&self) -> PropagationConfig {
        PropagationConfig {
            loss: self.back.map_or(Loss::None, |b| b.loss),
            most_lost_in_a_row: self.most_lost_in_a_row.to_left,
            ..self.each_way()
        }
    }

    fn each_way(&self) -> PropagationConfig {
        let delay_trace = self.delay_trace.clone();
        let delay = if delay_trace.is_some() { Nanos::ZERO } else { Nanos(self.delay_ns) };
        PropagationConfig { delay, delay_trace, ..PropagationConfig::default() }
    }

    /// The longest time that a packet may be on its way.
    fn longest_delay(&self) -> Nanos {
        let traced = self.delay_trace.as_ref().map_or(Nanos::ZERO, DelayTrace::longest);
        let longer = self.longer_ns.iter().copied().max().unwrap_or(0);
        let later = self.later.iter().map(|later| later.by_ns).max().unwrap_or(0);
        let ways = self.ways.iter().map(|way| way.delay_ns);
        let routes = self.routes.iter().map(|route| route.rtt_ns);
        let longest = ways.chain(routes).max().unwrap_or(0);
        Nanos(self.delay_ns.max(longest))
            .max(traced)
            .saturating_add(self.jitter.up_to)
            .saturating_add(Nanos(longer.max(later)))
    }

    /// Creates a pool with room for the queue, for packets in flight in both directions and for the
    /// rings of the ports.
    pub(super) fn pool(&self, mtu: u32) -> Result<Pool, forebay_dataplane::Error> {
        const RINGS: u64 = 16_384;
        // At times a varying rate is above its mean.
        let rate = match &self.capacity {
            Some(Capacity::Steps(steps)) => steps.iter().map(|s| s.1).max().unwrap_or(self.rate()),
            Some(Capacity::Trace(_)) => Rate::from_bps(self.rate_bps.saturating_mul(2)),
            _ => self.rate(),
        };
        let ways = self.ways.iter().map(|way| way.rate_bps).fold(0, u64::saturating_add);
        let rate = rate.max(Rate::from_bps(ways));
        let on_the_way = 4 * rate.bytes_in(self.longest_delay()).0 / 512;
        // The smallest packets have 64 bytes.
        let back = match &self.back_queue {
            Some(queue) => queue.packets(),
            None => self.back.map_or(0, |back| back.limit.0 / 64),
        };
        let queues = match self.ways[..] {
            [] => self.queue.packets(),
            _ => self.ways.iter().map(|way| way.queue.packets()).sum(),
        };
        let chunks = queues + on_the_way + back + RINGS;
        Pool::new(chunks.min(1 << 20) as u32, mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_repeat_and_end() {
        let outage = OutageSpec { on_ns: 10, off_ns: 3, times: 2, to_right: true, to_left: true };
        let on: Vec<_> = (0..60).filter(|n| outage.is_on(Nanos(*n))).collect();
        assert_eq!(on, [10, 11, 12, 23, 24, 25]);
        let never = OutageSpec { on_ns: 0, off_ns: 0, ..outage };
        assert!(!never.is_on(Nanos(2)));
    }
}
