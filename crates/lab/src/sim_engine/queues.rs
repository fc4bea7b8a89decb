//! The sendbox's queues: the real sendbox's own policies, over simulated packets.

use forebay_config::Limit;
use forebay_dataplane::{PolicyKind, Profile};
use forebay_queue::{ConfigError, StrictPriority};
use forebay_sim::Queue;

use crate::scenario::{self, QueueKind, Scenario};

/// The bundle's queue at the sendbox, which does not know its path: a limit in bandwidth-delay
/// products goes in bytes. What scenarios do not say is as a sendbox has it whose file does not.
pub(super) fn sendbox(
    queue: &scenario::Queue,
    scenario: &Scenario,
    seed: u64,
) -> Result<Queue, ConfigError> {
    let limit = Some(match queue.limit {
        Limit::Bdp(_) => Limit::Bytes(queue.limit_bytes(&scenario.path)),
        other => other,
    });
    let policy = match queue.kind {
        QueueKind::Fifo => PolicyKind::Fifo { limit },
        QueueKind::Sfq | QueueKind::Strict => PolicyKind::Sfq { limit, perturb: None },
        QueueKind::DualPi2 => {
            let (target, coupling) = (queue.target, queue.coupling);
            PolicyKind::DualPi2 { profile: Profile::Rfc9332, limit, target, coupling }
        }
        QueueKind::Pie => PolicyKind::Pie { limit, target: queue.target, ecn: true },
        // No other kind is a policy, as scenarios are checked to know.
        _ => PolicyKind::FqCodel { limit, target: queue.target, interval: None, ecn: true },
    };
    if queue.kind != QueueKind::Strict {
        return policy.build(seed);
    }
    let classes = (0..scenario.classes()).map(|class| policy.build(seed ^ u64::from(class) << 32));
    Ok(Box::new(StrictPriority::new(classes.collect::<Result<Vec<Queue>, _>>()?)?))
}
