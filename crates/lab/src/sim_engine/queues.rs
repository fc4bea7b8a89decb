//! The sendbox's queues, with the same settings as the real sendbox gives them.

use forebay_config::Limit;
use forebay_queue::{ConfigError, Fifo, FqCodel, Pie, Sfq, fifo, fq_codel, pie, sfq};
use forebay_sim::Queue;
use forebay_units::{Bytes, Rate};

use crate::scenario::{self, Path, QueueKind};

/// A full-sized frame, the rate that a time is converted to packets with, and the most packets that
/// follow from a limit in bytes or time: as in the sendbox.
const FRAME: Bytes = Bytes(1514);
const REFERENCE: Rate = Rate::from_mbps(1000);
const MAX_PACKETS: u32 = 16_384;

/// The bundle's queue at the sendbox, which does not know its path: a limit in bandwidth-delay
/// products goes in bytes.
pub(super) fn sendbox(
    queue: &scenario::Queue,
    path: &Path,
    seed: u64,
) -> Result<Queue, ConfigError> {
    let limit = match queue.limit {
        Limit::Bdp(_) => Limit::Bytes(queue.limit_bytes(path)),
        other => other,
    };
    Ok(match queue.kind {
        QueueKind::Fifo => Box::new(Fifo::new(fifo::Config { limit: fifo_limit(limit) })?),
        QueueKind::Sfq => {
            let limit = in_packets(limit);
            Box::new(Sfq::new(sfq::Config { limit, depth: limit, seed, ..sfq::Config::default() })?)
        }
        QueueKind::Pie => {
            let limit = fifo_limit(limit);
            Box::new(Pie::new(pie::Config { limit, seed, ..pie::Config::default() })?)
        }
        // No other kind is a policy, as scenarios are checked to know.
        _ => {
            let limit = in_packets(limit);
            Box::new(FqCodel::new(fq_codel::Config { limit, seed, ..fq_codel::Config::default() })?)
        }
    })
}

fn fifo_limit(limit: Limit) -> forebay_queue::Limit {
    use forebay_queue::Limit as Waiting;
    let most = Waiting::packets(MAX_PACKETS);
    match limit {
        Limit::Packets(n) => Waiting::packets(u32::try_from(n).unwrap_or(u32::MAX)),
        Limit::Bytes(bytes) => most.and(Waiting::bytes(bytes)),
        Limit::Time(time) => most.and(Waiting::time(time)),
        Limit::Bdp(_) => most,
    }
}

fn in_packets(limit: Limit) -> u32 {
    let packets = match limit {
        Limit::Packets(n) => return u32::try_from(n).unwrap_or(u32::MAX),
        Limit::Bytes(bytes) => bytes.0.div_ceil(FRAME.0),
        Limit::Time(time) => REFERENCE.bytes_in(time).0.div_ceil(FRAME.0),
        Limit::Bdp(_) => u64::from(MAX_PACKETS),
    };
    packets.clamp(1, u64::from(MAX_PACKETS)) as u32
}
