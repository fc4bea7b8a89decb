//! The metrics that a protocol takes.

use crate::paths::{Entering, Tree, UNREACHABLE};
use crate::topology::{RouterId, Topology};

/// The metrics that a protocol takes, and the longest path that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The highest metric of a link that carries traffic; the lowest is 1.
    pub metric: u32,
    /// The longest sum of metrics along a path that routers use.
    pub path: u64,
}

impl Range {
    /// OSPF: metrics have 16 bits (RFC 2328, section A.4.2), and paths in an area have no limit.
    pub const OSPF: Self = Self { metric: 65_535, path: u64::MAX };
    /// IS-IS with wide metrics: 24 bits, of which the highest value excludes the link from shortest
    /// paths, and `MAX_PATH_METRIC` (RFC 5305, section 3).
    pub const WIDE: Self = Self { metric: (1 << 24) - 2, path: 0xfe00_0000 };
    /// IS-IS with both kinds of metrics: links have those of [`Range::NARROW`], and paths are
    /// summed as wide ones (RFC 3787, section 5.1).
    pub const TRANSITION: Self = Self { metric: Self::NARROW.metric, path: Self::WIDE.path };
    /// IS-IS with narrow metrics: `MaxLinkMetric` and `MaxPathMetric` (ISO/IEC 10589, table 2).
    pub const NARROW: Self = Self { metric: 63, path: 1023 };

    /// Returns the metrics that both ranges have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { metric: self.metric.min(other.metric), path: self.path.min(other.path) }
    }

    /// Returns the length of the longest of all shortest paths of `topology`, if routers do not use
    /// a path of that length.
    pub fn too_long(self, topology: &Topology) -> Option<u64> {
        let routers = topology.routers().len() as u64;
        let most = topology.links().iter().map(|link| link.metric).max().unwrap_or(0);
        // A path visits each router once.
        if routers.saturating_sub(1) * u64::from(most) <= self.path {
            return None;
        }
        let entering = Entering::of(topology);
        let longest = (0..routers as u32).filter_map(|router| {
            let tree = Tree::to(topology, &entering, RouterId(router));
            tree.distance.into_iter().filter(|distance| *distance != UNREACHABLE).max()
        });
        longest.max().filter(|longest| *longest > self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, LinkId, Router};

    #[test]
    fn limits_are_those_of_the_standards() {
        assert_eq!((Range::OSPF.metric, Range::NARROW.metric), (0xffff, 0x3f));
        assert_eq!((Range::WIDE.metric, Range::WIDE.path), (16_777_214, 4_261_412_864));
        assert_eq!(Range::WIDE.and(Range::NARROW), Range::NARROW);
        assert_eq!(Range::NARROW.and(Range::TRANSITION), Range::NARROW);
        assert_eq!(Range::TRANSITION.and(Range::WIDE), Range::TRANSITION);
        assert_eq!(Range::OSPF.and(Range::WIDE).metric, Range::OSPF.metric);
    }

    #[test]
    fn a_path_beyond_the_range_is_found() {
        // Routers in a line, one way. 17 links of at most 63 are between the limits of 1023.
        let routers = (0..18).map(|n| Router { name: n.to_string(), serves: true }).collect();
        let link = |from: u32| Link {
            from: RouterId(from),
            to: RouterId(from + 1),
            capacity: None,
            metric: 60,
        };
        let links = (0..17).map(link).collect();
        let mut line = Topology::new("line".to_owned(), routers, links, Vec::new());
        assert_eq!(Range::NARROW.too_long(&line), None, "1020");
        line.set_metric(LinkId(0), 63);
        assert_eq!(Range::NARROW.too_long(&line), None, "1023");
        line.set_metric(LinkId(16), 61);
        assert_eq!(Range::NARROW.too_long(&line), Some(1024));
        assert_eq!(Range::TRANSITION.too_long(&line), None);
        (0..17).for_each(|id| line.set_metric(LinkId(id), Range::WIDE.metric));
        assert_eq!(Range::WIDE.too_long(&line), None);
    }
}
