//! The metrics of an interface in each version of OSPF and at each level of IS-IS.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::config::{Igp, Level};

/// The metric of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The metric in use.
    pub value: u32,
    /// Whether the configuration has it. Otherwise it is the daemon's: in OSPF it follows from the
    /// interface's rate.
    pub configured: bool,
}

/// A version of OSPF or a level of IS-IS: each has its own metric of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instance {
    /// OSPFv2, for IPv4.
    Ospf2,
    /// OSPFv3, for IPv6.
    Ospf3,
    /// Level 1 of IS-IS.
    Level1,
    /// Level 2 of IS-IS.
    Level2,
}

impl Instance {
    /// All instances of both protocols.
    pub const ALL: [Self; 4] = [Self::Ospf2, Self::Ospf3, Self::Level1, Self::Level2];
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ospf2 => "in OSPFv2",
            Self::Ospf3 => "in OSPFv3",
            Self::Level1 => "at level 1",
            Self::Level2 => "at level 2",
        })
    }
}

impl From<Level> for Instance {
    fn from(level: Level) -> Self {
        match level {
            Level::One => Self::Level1,
            Level::Two => Self::Level2,
        }
    }
}

/// The metrics of an interface in each version of OSPF, or at each level of IS-IS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// In OSPFv2; `None` if that does not run there.
    pub v2: Option<Metric>,
    /// The metric in OSPFv3; `None` if that does not run there.
    pub v3: Option<Metric>,
    /// The metric at level 1 of IS-IS; `None` if the interface does not have that level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level1: Option<Metric>,
    /// The metric at level 2 of IS-IS; `None` if the interface does not have that level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level2: Option<Metric>,
}

impl Metrics {
    /// Returns the metric of `instance`.
    pub fn get(&self, instance: Instance) -> Option<Metric> {
        match instance {
            Instance::Ospf2 => self.v2,
            Instance::Ospf3 => self.v3,
            Instance::Level1 => self.level1,
            Instance::Level2 => self.level2,
        }
    }

    /// Sets the metric of `instance`.
    pub fn put(&mut self, instance: Instance, metric: Option<Metric>) {
        let place = match instance {
            Instance::Ospf2 => &mut self.v2,
            Instance::Ospf3 => &mut self.v3,
            Instance::Level1 => &mut self.level1,
            Instance::Level2 => &mut self.level2,
        };
        *place = metric;
    }

    /// Returns these metrics, and those of `other` in instances that have none.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut all = *self;
        for instance in Instance::ALL {
            all.put(instance, self.get(instance).or(other.get(instance)));
        }
        all
    }
}

impl Igp {
    /// Returns the instances of an interface that get the same metric.
    pub fn instances(self, metrics: &Metrics) -> Vec<Instance> {
        match self {
            Self::Ospf { v3: false } => vec![Instance::Ospf2],
            Self::Ospf { v3: true } => vec![Instance::Ospf2, Instance::Ospf3],
            Self::Isis { level: Some(level) } => vec![level.into()],
            Self::Isis { level: None } => {
                let mut levels = vec![Instance::Level1, Instance::Level2];
                levels.retain(|level| metrics.get(*level).is_some());
                levels
            }
        }
    }

    /// Returns what an interface with these metrics lacks of the protocol.
    pub(super) fn lacks(self, metrics: &Metrics) -> Option<&'static str> {
        let instances = self.instances(metrics);
        if let ([], Self::Isis { .. }) = (instances.as_slice(), self) {
            return Some("IS-IS");
        }
        let lacks = instances.into_iter().find(|instance| metrics.get(*instance).is_none())?;
        Some(match lacks {
            Instance::Ospf2 => "OSPF",
            Instance::Ospf3 => "OSPFv3",
            Instance::Level1 => "level 1 of IS-IS",
            Instance::Level2 => "level 2 of IS-IS",
        })
    }

    /// Returns the metric that counts for the loads of links: that of OSPFv2, or of the higher
    /// level.
    pub(super) fn metric(self, metrics: &Metrics) -> Option<u32> {
        let first = match self {
            Self::Ospf { .. } => metrics.v2,
            Self::Isis { .. } => {
                let instances = self.instances(metrics);
                instances.into_iter().rev().find_map(|instance| metrics.get(instance))
            }
        };
        first.map(|metric| metric.value)
    }

    /// Says which metrics differ between instances that get the same.
    pub(super) fn unequal(self, metrics: &Metrics) -> Option<String> {
        let &[one, other] = self.instances(metrics).as_slice() else { return None };
        let value = |instance| metrics.get(instance).map(|metric| metric.value);
        let (one_value, other_value) = (value(one)?, value(other)?);
        (one_value != other_value)
            .then(|| format!("has {one_value} {one}, and {other_value} {other}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_ospf_are_stored_as_before() {
        let text = r#"{"v2":{"value":10,"configured":false},"v3":null}"#;
        let metrics: Metrics = serde_json::from_str(text).unwrap();
        assert_eq!(metrics.v2, Some(Metric { value: 10, configured: false }));
        assert_eq!(serde_json::to_string(&metrics).unwrap(), text);
    }

    #[test]
    fn instances_are_those_of_the_protocol_and_the_interface() {
        use Instance::{Level1, Level2, Ospf2, Ospf3};
        let metric = |value| Some(Metric { value, configured: false });
        let two = Metrics { level2: metric(9), ..Metrics::default() };
        let both = Metrics { level1: metric(7), ..two };
        let ospf = Metrics { v2: metric(5), ..Metrics::default() };
        let isis = |level| Igp::Isis { level };
        let one = isis(Some(Level::One));
        for (igp, metrics, instances, value, lacks) in [
            (Igp::Ospf { v3: false }, ospf, vec![Ospf2], Some(5), None),
            (Igp::Ospf { v3: true }, ospf, vec![Ospf2, Ospf3], Some(5), Some("OSPFv3")),
            (Igp::Ospf { v3: false }, both, vec![Ospf2], None, Some("OSPF")),
            (isis(None), two, vec![Level2], Some(9), None),
            (isis(None), both, vec![Level1, Level2], Some(9), None),
            (isis(None), ospf, vec![], None, Some("IS-IS")),
            (one, both, vec![Level1], Some(7), None),
            (one, two, vec![Level1], None, Some("level 1 of IS-IS")),
        ] {
            assert_eq!(igp.instances(&metrics), instances, "{igp:?} {metrics:?}");
            assert_eq!(igp.metric(&metrics), value, "{igp:?} {metrics:?}");
            assert_eq!(igp.lacks(&metrics), lacks, "{igp:?} {metrics:?}");
        }
        let unequal = |igp: Igp| igp.unequal(&both);
        assert_eq!(unequal(isis(None)).unwrap(), "has 7 at level 1, and 9 at level 2");
        assert_eq!(unequal(one), None);
        let v3 = Metrics { v3: metric(6), ..ospf };
        let expected = "has 5 in OSPFv2, and 6 in OSPFv3";
        assert_eq!(Igp::Ospf { v3: true }.unequal(&v3).unwrap(), expected);
    }
}
