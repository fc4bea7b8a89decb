//! The sendbox's queues: the real sendbox's own policies, over simulated packets.

use forebay_discipline::{BuildError, Discipline};
use forebay_queue::StrictPriority;
use forebay_sim::Queue;

use crate::scenario::{self, QueueKind, Scenario};

/// Builds the bundle's queue at the sendbox. Classes have an SFQ each, of the queue's limit.
pub(super) fn sendbox(
    queue: &scenario::Queue,
    scenario: &Scenario,
    seed: u64,
) -> Result<Queue, BuildError> {
    let policy = queue.policy(&scenario.path);
    if !policy.kind.is_classful() {
        return policy.build(seed);
    }
    let class = Discipline::limited(QueueKind::Sfq, policy.settings.limit);
    let classes = (0..scenario.classes()).map(|n| class.build(seed ^ u64::from(n) << 32));
    Ok(Box::new(StrictPriority::new(classes.collect::<Result<Vec<Queue>, _>>()?)?))
}
