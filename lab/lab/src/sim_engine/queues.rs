//! The sendbox's queues: the real sendbox's own policies, over simulated packets.

use forebay_discipline::{BuildError, Discipline};
use forebay_queue::{StrictPriority, Weighted};
use forebay_sim::Queue;

use crate::scenario::{self, ClassShares, QueueKind, Scenario};

/// Builds the bundle's queue at the sendbox. Classes have an SFQ each, of the queue's limit, and
/// `shares` if they are weighted.
pub(super) fn sendbox(
    queue: &scenario::Queue,
    shares: &ClassShares,
    scenario: &Scenario,
    seed: u64,
) -> Result<Queue, BuildError> {
    let policy = queue.policy(&scenario.path);
    if !policy.kind.is_classful() {
        return policy.build(seed);
    }
    let class = Discipline::limited(QueueKind::Sfq, policy.settings.limit);
    let classes = (0..scenario.classes()).map(|n| class.build(seed ^ u64::from(n) << 32));
    let classes = classes.collect::<Result<Vec<Queue>, _>>()?;
    if policy.kind == QueueKind::Weighted {
        let shares = shares.iter().map(Into::into);
        return Ok(Box::new(Weighted::new(shares.zip(classes).collect())?));
    }
    Ok(Box::new(StrictPriority::new(classes)?))
}
