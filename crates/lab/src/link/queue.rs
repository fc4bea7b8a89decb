//! The bottleneck's queue, the same in every engine that runs this project's code.

use forebay_queue::{
    Codel, ConfigError, Fifo, FqCodel, Limit, Packet, Pie, Qdisc, Sfq, codel, fifo, fq_codel, pie,
    sfq,
};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::scenario::{Path, Queue, QueueKind};

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
    /// PIE on one queue.
    Pie {
        /// Packets that may wait.
        limit_packets: u32,
        /// PIE's target, in nanoseconds.
        target_ns: u64,
        /// The time between PIE's updates, in nanoseconds.
        tupdate_ns: u64,
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

impl QueueSpec {
    /// What `queue` is on `path`; `None` if only the kernel has it.
    pub fn of(queue: &Queue, path: &Path) -> Option<Self> {
        // A scenario's limits fit: at most a million packets.
        let limit_packets = u32::try_from(queue.limit_packets(path)).unwrap_or(u32::MAX);
        let codel::Params { target, interval, .. } = codel::Params::default();
        let target_ns = queue.target.unwrap_or(target).0;
        let (interval_ns, ecn) = (queue.interval.unwrap_or(interval).0, queue.ecn);
        Some(match queue.kind {
            QueueKind::Fifo => Self::Fifo { limit_bytes: queue.limit_bytes(path).0 },
            QueueKind::Sfq => Self::Sfq { limit_packets },
            QueueKind::Codel => Self::Codel { limit_packets, target_ns, interval_ns, ecn },
            QueueKind::FqCodel => Self::FqCodel { limit_packets, target_ns, interval_ns, ecn },
            QueueKind::Pie => {
                let pie::Params { target, tupdate, .. } = pie::Params::default();
                let target_ns = queue.target.unwrap_or(target).0;
                Self::Pie { limit_packets, target_ns, tupdate_ns: tupdate.0, ecn }
            }
            QueueKind::Cake | QueueKind::Strict => return None,
        })
    }

    /// Packets that may wait; for a limit in bytes, as many as there are of a quarter of a frame.
    pub(super) fn packets(&self) -> u64 {
        match self {
            Self::Fifo { limit_bytes } => limit_bytes / 384,
            Self::Sfq { limit_packets }
            | Self::Codel { limit_packets, .. }
            | Self::Pie { limit_packets, .. }
            | Self::FqCodel { limit_packets, .. } => u64::from(*limit_packets),
        }
    }

    /// The queue itself.
    ///
    /// # Errors
    /// If a parameter is out of the discipline's range.
    pub fn build<P: Packet + 'static>(&self) -> Result<Box<dyn Qdisc<P>>, ConfigError> {
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
            Self::Pie { limit_packets, target_ns, tupdate_ns, ecn } => {
                Box::new(Pie::new(pie::Config {
                    limit: Limit::packets(limit_packets),
                    params: pie::Params {
                        target: Nanos(target_ns),
                        tupdate: Nanos(tupdate_ns),
                        ecn,
                        ..pie::Params::default()
                    },
                    ..pie::Config::default()
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
