//! The bottleneck's queue, the same in every engine that runs this project's code.

use forebay_queue::{
    Codel, ConfigError, DualPi2, Fifo, FqCodel, Limit, Packet, Pi2, Pie, Qdisc, Sfq, codel,
    dualpi2, fifo, fq_codel, pi2, pie, sfq,
};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::scenario::{Path, Profile, Queue, QueueKind};

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
        /// ECT(1) packets are marked that waited longer, in nanoseconds.
        #[serde(default)]
        l4s_threshold_ns: Option<u64>,
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
        /// What the other parameters are.
        #[serde(default)]
        profile: Profile,
    },
    /// PI2 on one queue.
    Pi2 {
        /// Packets that may wait.
        limit_packets: u32,
        /// The target, in nanoseconds.
        target_ns: u64,
    },
    /// DualPI2.
    #[serde(rename = "dualpi2")]
    DualPi2 {
        /// Packets that may wait in both queues together.
        limit_packets: u32,
        /// The C queue's target, in nanoseconds.
        target_ns: u64,
        /// What the other parameters are.
        profile: Profile,
        /// Its coupling factor, if it is another than that set's.
        #[serde(default)]
        coupling: Option<f64>,
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
        /// ECT(1) packets are marked that waited longer, in nanoseconds.
        #[serde(default)]
        l4s_threshold_ns: Option<u64>,
    },
}

/// PIE as De Schepper et al., 2017, compare with it (Table 1).
fn pie_of_the_paper() -> pie::Params {
    pie::Params {
        tupdate: Nanos::from_millis(16),
        alpha: 1.0 / 16.0,
        beta: 10.0 / 16.0,
        burst_allowance: Nanos::from_millis(100),
        mark_threshold: 0.25,
        ..pie::Params::default()
    }
}

/// PIE's parameters of a set.
fn pie_params(profile: Profile) -> pie::Params {
    match profile {
        Profile::Rfc | Profile::Linux => pie::Params::default(),
        Profile::Paper => pie_of_the_paper(),
    }
}

/// DualPI2's parameters of a set.
fn dualpi2_config(profile: Profile) -> dualpi2::Config {
    match profile {
        Profile::Rfc => dualpi2::Config::rfc9332(),
        Profile::Paper => dualpi2::Config::paper(),
        Profile::Linux => dualpi2::Config::linux(),
    }
}

impl QueueSpec {
    /// What `queue` is on `path`; `None` if only the kernel has it.
    pub fn of(queue: &Queue, path: &Path) -> Option<Self> {
        // A scenario's limits fit: at most a million packets.
        let limit_packets = u32::try_from(queue.limit_packets(path)).unwrap_or(u32::MAX);
        let codel::Params { target, interval, .. } = codel::Params::default();
        let target_ns = queue.target.unwrap_or(target).0;
        let (interval_ns, ecn) = (queue.interval.unwrap_or(interval).0, queue.ecn);
        let (profile, l4s_threshold_ns) = (queue.profile, queue.l4s_threshold.map(|t| t.0));
        Some(match queue.kind {
            QueueKind::Fifo => Self::Fifo { limit_bytes: queue.limit_bytes(path).0 },
            QueueKind::Sfq => Self::Sfq { limit_packets },
            QueueKind::Codel => {
                Self::Codel { limit_packets, target_ns, interval_ns, ecn, l4s_threshold_ns }
            }
            QueueKind::FqCodel => {
                Self::FqCodel { limit_packets, target_ns, interval_ns, ecn, l4s_threshold_ns }
            }
            QueueKind::Pie => {
                let pie::Params { target, tupdate, .. } = pie_params(profile);
                let target_ns = queue.target.unwrap_or(target).0;
                Self::Pie { limit_packets, target_ns, tupdate_ns: tupdate.0, ecn, profile }
            }
            QueueKind::Pi2 => {
                let target_ns = queue.target.unwrap_or(pi2::Params::default().target).0;
                Self::Pi2 { limit_packets, target_ns }
            }
            QueueKind::DualPi2 => {
                let target_ns = queue.target.unwrap_or(dualpi2_config(profile).params.target).0;
                Self::DualPi2 { limit_packets, target_ns, profile, coupling: queue.coupling }
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
            | Self::Pi2 { limit_packets, .. }
            | Self::DualPi2 { limit_packets, .. }
            | Self::FqCodel { limit_packets, .. } => u64::from(*limit_packets),
        }
    }

    /// The queue itself.
    ///
    /// # Errors
    /// If a parameter is out of the discipline's range.
    pub fn build<P: Packet + 'static>(&self) -> Result<Box<dyn Qdisc<P>>, ConfigError> {
        let params = |target: u64, interval: u64, ecn, l4s: Option<u64>| codel::Params {
            target: Nanos(target),
            interval: Nanos(interval),
            ecn,
            l4s_threshold: l4s.map(Nanos),
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
            Self::Codel { limit_packets, target_ns, interval_ns, ecn, l4s_threshold_ns } => {
                Box::new(Codel::new(codel::Config {
                    limit: Limit::packets(limit_packets),
                    params: params(target_ns, interval_ns, ecn, l4s_threshold_ns),
                })?)
            }
            Self::Pie { limit_packets, target_ns, tupdate_ns, ecn, profile } => {
                Box::new(Pie::new(pie::Config {
                    limit: Limit::packets(limit_packets),
                    params: pie::Params {
                        target: Nanos(target_ns),
                        tupdate: Nanos(tupdate_ns),
                        ecn,
                        ..pie_params(profile)
                    },
                    ..pie::Config::default()
                })?)
            }
            Self::Pi2 { limit_packets, target_ns } => Box::new(Pi2::new(pi2::Config {
                limit: Limit::packets(limit_packets),
                params: pi2::Params { target: Nanos(target_ns), ..pi2::Params::default() },
                ..pi2::Config::default()
            })?),
            Self::DualPi2 { limit_packets, target_ns, profile, coupling } => {
                let config = dualpi2_config(profile);
                let coupling = coupling.unwrap_or(config.coupling);
                let params = pi2::Params { target: Nanos(target_ns), ..config.params };
                let limit = limit_packets;
                Box::new(DualPi2::new(dualpi2::Config { limit, params, coupling, ..config })?)
            }
            Self::FqCodel { limit_packets, target_ns, interval_ns, ecn, l4s_threshold_ns } => {
                Box::new(FqCodel::new(fq_codel::Config {
                    limit: limit_packets,
                    codel: params(target_ns, interval_ns, ecn, l4s_threshold_ns),
                    ..fq_codel::Config::default()
                })?)
            }
        })
    }
}
