//! From a policy in the configuration to a qdisc.

use forebay_config::Limit as LimitValue;
use forebay_dataplane::Packet;
use forebay_queue::{
    ConfigError, Fifo, FqCodel, Limit, Pie, Qdisc, Sfq, StrictPriority, codel, fifo, fq_codel, pie,
    sfq,
};
use forebay_units::{Bytes, Rate};

use crate::config::{Policy, PolicyKind};

/// The frame that limits in bytes or time are converted to packets with.
const FRAME: Bytes = Bytes(1514);
/// The rate that a limit in time is converted with where a discipline counts packets only.
const REFERENCE: Rate = Rate::from_mbps(1000);
/// A queue limited in bytes or time never has more packets than this: each takes a buffer.
pub(super) const MAX_PACKETS: u32 = 16_384;

pub(super) type BoxedQdisc = Box<dyn Qdisc<Packet>>;

/// Builds the qdisc of a bundle; `seed` is for its hashes.
pub(super) fn build(policy: &Policy, seed: u64) -> Result<BoxedQdisc, ConfigError> {
    if policy.kind != PolicyKind::Strict {
        return build_kind(&policy.kind, seed);
    }
    let classes = policy.classes.iter().map(|c| build_kind(&c.policy, seed));
    Ok(Box::new(StrictPriority::new(classes.collect::<Result<Vec<_>, _>>()?)?))
}

/// How many packets a bundle's qdisc can hold.
pub(super) fn capacity(policy: &Policy) -> u64 {
    match policy.kind {
        PolicyKind::Strict => policy.classes.iter().map(|c| capacity_of(&c.policy)).sum(),
        ref kind => capacity_of(kind),
    }
}

fn capacity_of(kind: &PolicyKind) -> u64 {
    let packets = match kind {
        PolicyKind::Fifo { limit } | PolicyKind::Pie { limit, .. } => fifo_limit(*limit).packets,
        PolicyKind::Sfq { limit, .. } => sfq_config(*limit).limit,
        PolicyKind::FqCodel { limit, .. } => fq_codel_limit(*limit),
        PolicyKind::Strict => 0,
    };
    u64::from(packets)
}

fn build_kind(kind: &PolicyKind, seed: u64) -> Result<BoxedQdisc, ConfigError> {
    Ok(match kind {
        PolicyKind::Fifo { limit } => {
            Box::new(Fifo::new(fifo::Config { limit: fifo_limit(*limit) })?)
        }
        PolicyKind::Sfq { limit, perturb } => {
            let defaults = sfq_config(*limit);
            let perturb = perturb.or(defaults.perturb);
            Box::new(Sfq::new(sfq::Config { perturb, seed, ..defaults })?)
        }
        PolicyKind::FqCodel { limit, target, interval, ecn } => {
            let defaults = fq_codel::Config::default();
            let codel = codel::Params {
                target: target.unwrap_or(defaults.codel.target),
                interval: interval.unwrap_or(defaults.codel.interval),
                ecn: *ecn,
                ..defaults.codel
            };
            let limit = fq_codel_limit(*limit);
            Box::new(FqCodel::new(fq_codel::Config { limit, codel, seed, ..defaults })?)
        }
        PolicyKind::Pie { limit, target, ecn } => {
            let defaults = pie::Params::default();
            let target = target.unwrap_or(defaults.target);
            let params = pie::Params { target, ecn: *ecn, ..defaults };
            Box::new(Pie::new(pie::Config { limit: fifo_limit(*limit), params, seed })?)
        }
        PolicyKind::Strict => Box::new(StrictPriority::new(Vec::<BoxedQdisc>::new())?),
    })
}

fn fifo_limit(limit: Option<LimitValue>) -> Limit {
    let bounded = |l: Limit| l.and(Limit::packets(MAX_PACKETS));
    match limit {
        // As much as SFQ's default, so that the policies can be compared.
        None => Limit::packets(sfq::Config::default().limit),
        Some(LimitValue::Packets(n)) => Limit::packets(n as u32),
        Some(LimitValue::Bytes(b)) => bounded(Limit::bytes(b)),
        Some(LimitValue::Time(t)) => bounded(Limit::time(t)),
        Some(LimitValue::Bdp(_)) => Limit::packets(MAX_PACKETS),
    }
}

fn sfq_config(limit: Option<LimitValue>) -> sfq::Config {
    let defaults = sfq::Config::default();
    let limit = limit.map_or(defaults.limit, in_packets);
    sfq::Config { limit, depth: limit, ..defaults }
}

fn fq_codel_limit(limit: Option<LimitValue>) -> u32 {
    limit.map_or(fq_codel::Config::default().limit, in_packets)
}

fn in_packets(limit: LimitValue) -> u32 {
    let packets = match limit {
        LimitValue::Packets(n) => return n as u32,
        LimitValue::Bytes(b) => b.0.div_ceil(FRAME.0),
        LimitValue::Time(t) => REFERENCE.bytes_in(t).0.div_ceil(FRAME.0),
        LimitValue::Bdp(_) => u64::from(MAX_PACKETS),
    };
    packets.clamp(1, u64::from(MAX_PACKETS)) as u32
}

#[cfg(test)]
mod tests;
