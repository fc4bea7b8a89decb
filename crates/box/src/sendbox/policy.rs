//! From a policy in the configuration to a qdisc.

use forebay_dataplane::Packet;
use forebay_queue::{ConfigError, Qdisc, StrictPriority};

use crate::config::{Policy, PolicyKind};

pub(super) type BoxedQdisc = Box<dyn Qdisc<Packet>>;

/// Builds the qdisc of a bundle; `seed` is for its hashes.
pub(super) fn build(policy: &Policy, seed: u64) -> Result<BoxedQdisc, ConfigError> {
    if policy.kind != PolicyKind::Strict {
        return policy.kind.build(seed);
    }
    let classes = policy.classes.iter().map(|c| c.policy.build(seed));
    let classes: Vec<BoxedQdisc> = classes.collect::<Result<_, _>>()?;
    Ok(Box::new(StrictPriority::new(classes)?))
}

/// How many packets a bundle's qdisc can hold.
pub(super) fn capacity(policy: &Policy) -> u64 {
    let classes = policy.classes.iter().map(|c| c.policy.capacity());
    policy.kind.capacity() + classes.sum::<u64>()
}

#[cfg(test)]
mod tests;
