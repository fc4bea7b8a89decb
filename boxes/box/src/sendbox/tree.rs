//! Planning the kernel's queues for the bundles of the configuration.

use forebay_discipline::Discipline;
use forebay_tc::{BundleQueues, Features, Plan};
use forebay_units::Rate;

use crate::Error;
use crate::config::BundleConfig;

/// The tree of queues that holds `bundles` below their common `limit` in a kernel that has
/// `features`, the bundles being numbered as they stand.
///
/// # Errors
/// If the kernel lacks what a policy needs, or there are too many bundles or classes.
pub fn plan(
    bundles: &[BundleConfig],
    limit: Option<Rate>,
    features: &Features,
) -> Result<Plan, Error> {
    let bundles = bundles.iter().enumerate().map(|(number, bundle)| queues(number, bundle));
    Ok(Plan::limited(&bundles.collect::<Vec<_>>(), limit, features)?)
}

/// The same for bundles that have numbers already, in rising order.
pub(super) fn plan_numbered(
    bundles: &[(usize, BundleConfig)],
    limit: Option<Rate>,
    features: &Features,
) -> Result<Plan, Error> {
    let bundles = bundles.iter().map(|(number, bundle)| queues(*number, bundle));
    Ok(Plan::limited(&bundles.collect::<Vec<_>>(), limit, features)?)
}

/// Returns the queues of `bundle`, which has this number.
pub(super) fn queues(number: usize, bundle: &BundleConfig) -> BundleQueues {
    let policy = &bundle.policy;
    let classes = policy.classes.iter().map(|class| &class.policy);
    // Either the bundle has a discipline, or its classes have.
    let all = std::iter::once(&policy.discipline).chain(classes);
    BundleQueues {
        number,
        name: bundle.name.clone(),
        classes: all.filter_map(Discipline::to_tc).collect(),
        shares: policy.shares().map(Into::into).collect(),
        share: bundle.share.into(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::Limit;
    use forebay_discipline::Kind;

    use super::*;
    use crate::config::{Class, Match, Policy};

    #[test]
    fn bundles_are_numbered_as_they_stand_and_classes_by_urgency() {
        let bundle = |name: &str, policy| BundleConfig {
            name: name.to_owned(),
            id: 9,
            prefixes: vec!["10.0.0.0/8".parse().unwrap()],
            receivebox: std::net::SocketAddr::from(([10, 0, 0, 1], 1)).into(),
            key: forebay_wire::feedback::Key::new([0; 32]),
            policy,
            controller: forebay_control::ControllerKind::default(),
            cross_traffic: forebay_control::Detection::Ignore,
            multipath: forebay_control::Detection::Detect,
            guard: false,
            min_rate: None,
            max_rate: None,
            share: crate::config::Share::default(),
        };
        let fifo = |n| Discipline::limited(Kind::Fifo, Some(Limit::Packets(n)));
        let class = |n| {
            let share = crate::config::Share::default();
            Class { name: String::new(), matches: Match::default(), policy: fifo(n), share }
        };
        let one = Policy { discipline: fifo(7), classes: vec![], classifiers: vec![] };
        let classes = vec![class(8), class(9)];
        let strict = Policy { discipline: Kind::Strict.into(), classes, classifiers: vec![] };
        let bundles = [bundle("one", one), bundle("strict", strict)];
        let plan = plan(&bundles, None, &Features::of(&["htb", "pfifo"])).unwrap();
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
}
