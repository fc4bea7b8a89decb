use std::path::PathBuf;

use forebay_dataplane::{Packet, Pool};
use forebay_queue::{
    Codel, ConfigError, Fifo, FqCodel, Limit, Qdisc, Sfq, codel, fifo, fq_codel, sfq,
};
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// What a link process is told, as one line of JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The interface towards the senders.
    pub left: String,
    /// The interface towards the receivers, behind the bottleneck.
    pub right: String,
    /// The interface of the cross traffic, which enters at the bottleneck too.
    pub cross: Option<String>,
    /// The bottleneck's rate, in bits per second of frames.
    pub rate_bps: u64,
    /// Propagation delay each way, in nanoseconds.
    pub delay_ns: u64,
    /// The bottleneck's queue.
    pub queue: QueueSpec,
    /// Where to record every packet through that queue.
    pub packet_log: PathBuf,
    /// How many packets to record at most.
    pub packet_limit: u64,
    /// Where to write the account of all packets at the end.
    pub counters: PathBuf,
}

/// The qdisc at the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueSpec {
    /// First in, first out.
    Fifo {
        /// Bytes that may wait.
        limit_bytes: u64,
    },
    /// Stochastic fairness queueing.
    Sfq {
        /// Packets that may wait.
        limit_packets: u32,
    },
    /// CoDel on one queue.
    Codel {
        /// Packets that may wait.
        limit_packets: u32,
        /// CoDel's target, in nanoseconds.
        target_ns: u64,
        /// CoDel's interval, in nanoseconds.
        interval_ns: u64,
        /// Whether to mark instead of dropping where the sender allows it.
        ecn: bool,
    },
    /// Flow queueing with CoDel.
    FqCodel {
        /// Packets that may wait.
        limit_packets: u32,
        /// CoDel's target, in nanoseconds.
        target_ns: u64,
        /// CoDel's interval, in nanoseconds.
        interval_ns: u64,
        /// Whether to mark instead of dropping where the sender allows it.
        ecn: bool,
    },
}

impl LinkSpec {
    /// The bottleneck's rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps)
    }

    /// Propagation delay each way.
    pub(super) fn delay(&self) -> Nanos {
        Nanos(self.delay_ns)
    }

    /// A pool that holds what can be inside: the queue, what is on its way in both directions, and
    /// what the ports' rings take.
    pub(super) fn pool(&self, mtu: u32) -> Result<Pool, forebay_dataplane::Error> {
        const RINGS: u64 = 16_384;
        let on_the_way = 4 * self.rate().bytes_in(self.delay()).0 / 512;
        let chunks = self.queue.packets() + on_the_way + RINGS;
        Pool::new(chunks.min(1 << 20) as u32, mtu)
    }
}

impl QueueSpec {
    /// Packets that may wait; for a limit in bytes, as many as there are of a quarter of a frame.
    fn packets(&self) -> u64 {
        match self {
            Self::Fifo { limit_bytes } => limit_bytes / 384,
            Self::Sfq { limit_packets }
            | Self::Codel { limit_packets, .. }
            | Self::FqCodel { limit_packets, .. } => u64::from(*limit_packets),
        }
    }

    pub(super) fn build(&self) -> Result<Box<dyn Qdisc<Packet>>, ConfigError> {
        let params = |target: u64, interval: u64, ecn| codel::Params {
            target: Nanos(target),
            interval: Nanos(interval),
            ecn,
            ..codel::Params::default()
        };
        Ok(match *self {
            Self::Fifo { limit_bytes } => {
                Box::new(Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(limit_bytes)) })?)
            }
            Self::Sfq { limit_packets } => Box::new(Sfq::new(sfq::Config {
                limit: limit_packets,
                depth: limit_packets,
                ..sfq::Config::default()
            })?),
            Self::Codel { limit_packets, target_ns, interval_ns, ecn } => {
                Box::new(Codel::new(codel::Config {
                    limit: Limit::packets(limit_packets),
                    params: params(target_ns, interval_ns, ecn),
                })?)
            }
            Self::FqCodel { limit_packets, target_ns, interval_ns, ecn } => {
                Box::new(FqCodel::new(fq_codel::Config {
                    limit: limit_packets,
                    codel: params(target_ns, interval_ns, ecn),
                    ..fq_codel::Config::default()
                })?)
            }
        })
    }
}
