//! From bundles in the configuration to the kernel's queues.

use forebay_config::Limit;
use forebay_queue::sfq;
use forebay_tc::{Bundle, Discipline, Features, FifoLimit, Plan};

use crate::Error;
use crate::config::{BundleConfig, PolicyKind};

/// The tree of queues that holds `bundles` in a kernel that has `features`, the bundles being
/// numbered as they stand.
///
/// # Errors
/// If the kernel has not what a policy needs, or there are too many bundles or classes.
pub fn plan(bundles: &[BundleConfig], features: &Features) -> Result<Plan, Error> {
    let bundles: Vec<Bundle> = bundles
        .iter()
        .map(|bundle| {
            let policy = &bundle.policy;
            let classes = policy.classes.iter().map(|class| &class.policy);
            // Either has a discipline of its own, or classes that have.
            let all = std::iter::once(&policy.kind).chain(classes);
            Bundle { name: bundle.name.clone(), classes: all.filter_map(discipline).collect() }
        })
        .collect();
    Ok(Plan::new(&bundles, features)?)
}

/// The kernel's discipline; none for strict priority, which is made of classes. Its limit is that of
/// the sendbox's own, in packets where the kernel counts nothing else. A super-packet counts as one.
fn discipline(policy: &PolicyKind) -> Option<Discipline> {
    let packets = u32::try_from(policy.capacity()).unwrap_or(u32::MAX);
    Some(match *policy {
        PolicyKind::Strict => return None,
        PolicyKind::Fifo { limit: Some(Limit::Bytes(bytes)) } => {
            Discipline::Fifo { limit: FifoLimit::Bytes(bytes) }
        }
        PolicyKind::Fifo { .. } => Discipline::Fifo { limit: FifoLimit::Packets(packets) },
        PolicyKind::Sfq { perturb, .. } => {
            let perturb = perturb.or(sfq::Config::default().perturb);
            Discipline::Sfq { limit: packets, perturb }
        }
        PolicyKind::FqCodel { target, interval, ecn, .. } => {
            Discipline::FqCodel { limit: packets, target, interval, ecn }
        }
        PolicyKind::Pie { target, ecn, .. } => Discipline::Pie { limit: packets, target, ecn },
    })
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn limits_are_those_of_the_sendbox_s_own_queues() {
        let ms = |n| Some(Nanos::from_millis(n));
        let of = |policy: PolicyKind| discipline(&policy).unwrap().to_string();
        let bytes = Some(Limit::Bytes(Bytes(30_280)));
        assert_eq!(of(PolicyKind::Fifo { limit: None }), "pfifo limit 1250 packets");
        assert_eq!(of(PolicyKind::Fifo { limit: bytes }), "bfifo limit 30280 bytes");
        assert_eq!(
            of(PolicyKind::Sfq { limit: bytes, perturb: ms(5_000) }),
            "sfq limit 20 packets perturb 5.000 s"
        );
        let limit = Some(Limit::Packets(77));
        assert_eq!(
            of(PolicyKind::FqCodel { limit, target: ms(5), interval: None, ecn: false }),
            "fq_codel limit 77 packets target 5.000 ms noecn"
        );
        assert_eq!(
            of(PolicyKind::Pie { limit, target: ms(9), ecn: true }),
            "pie limit 77 packets target 9.000 ms ecn"
        );
        assert_eq!(discipline(&PolicyKind::Strict), None);
    }
}
