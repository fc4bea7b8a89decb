//! From a policy in the configuration to a qdisc.

use forebay_dataplane::{Packet, PolicyKind};
use forebay_queue::{Qdisc, StrictPriority};

use crate::Error;
use crate::config::{Discipline, Policy};

pub(super) type BoxedQdisc = Box<dyn Qdisc<Packet>>;

/// Builds the qdisc of the bundle called `bundle`; `seed` is for its hashes.
pub(super) fn build(bundle: &str, policy: &Policy, seed: u64) -> Result<BoxedQdisc, Error> {
    let refused = |source| Error::Policy { bundle: bundle.to_owned(), source };
    let qdisc = |discipline: &Discipline| {
        let not_own = |source| Error::NotOwn { bundle: bundle.to_owned(), source };
        discipline.own().map_err(not_own)?.build(seed).map_err(refused)
    };
    if policy.classes.is_empty() {
        return qdisc(&policy.kind);
    }
    let classes = policy.classes.iter().map(|c| qdisc(&c.policy));
    let classes: Vec<BoxedQdisc> = classes.collect::<Result<_, _>>()?;
    Ok(Box::new(StrictPriority::new(classes).map_err(refused)?))
}

/// How many packets a bundle's qdisc can hold.
pub(super) fn capacity(policy: &Policy) -> u64 {
    let classes = policy.classes.iter().map(|c| &c.policy);
    let own = std::iter::once(&policy.kind).chain(classes).filter_map(|d| d.own().ok());
    own.map(PolicyKind::capacity).sum()
}

#[cfg(test)]
mod tests;
