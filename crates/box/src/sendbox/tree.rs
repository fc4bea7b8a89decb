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
    use crate::config::{Class, Match, Policy};

    #[test]
    fn bundles_are_numbered_as_they_stand_and_classes_by_urgency() {
        let bundle = |name: &str, policy| BundleConfig {
            name: name.to_owned(),
            id: 9,
            prefixes: vec!["10.0.0.0/8".parse().unwrap()],
            receivebox: "10.0.0.1:1".parse().unwrap(),
            key: forebay_wire::feedback::Key::new([0; 32]),
            policy,
            controller: forebay_control::ControllerKind::default(),
            cross_traffic: forebay_control::Detection::Ignore,
            multipath: forebay_control::Detection::Detect,
            min_rate: None,
            max_rate: None,
        };
        let fifo = |n| PolicyKind::Fifo { limit: Some(Limit::Packets(n)) };
        let class = |n| Class { name: String::new(), matches: Match::default(), policy: fifo(n) };
        let one = Policy { kind: fifo(7), classes: vec![] };
        let strict = Policy { kind: PolicyKind::Strict, classes: vec![class(8), class(9)] };
        let bundles = [bundle("one", one), bundle("strict", strict)];
        let plan = plan(&bundles, &Features::of(&["htb", "pfifo"])).unwrap();
        let expected = "\
qdisc fb0: htb
  filter bpf: by the longest prefix of the destination
  class fb0:1: bundle one, at the rate of its control loop
    qdisc 1000: pfifo limit 7 packets
  class fb0:2: bundle strict, at the rate of its control loop
    qdisc 1001: htb
      filter bpf: by the packet's class
      class 1001:1, unlimited, urgency 0
        qdisc pfifo limit 8 packets
      class 1001:101, unlimited, urgency 1
        qdisc pfifo limit 9 packets
  direct: everything else, unshaped
";
        assert_eq!(plan.to_string(), expected);
    }

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
