//! Which classes and qdiscs of the kernel's are whose: the numbers that the tree of queues and the
//! BPF classifiers agree on.
//!
//! An id has 16 bits for the qdisc and 16 for the class in it, and one qdisc could not hold a
//! thousand bundles of 256 flow classes. So the root has a class per bundle, and where the bundle's
//! policy wants classes by flow, below that stands a qdisc of the bundle's own, with as many classes
//! as it likes:
//!
//! ```text
//! 1:                      HTB, the root: `fb_classify` gives 1:(i + 1), or nothing
//! ├─ 1:1                  the class of bundle 0, with its rate
//! │  └─ 4000:             HTB, bundle 0's flows: `fb_flow` gives 4000:1 to 4000:n
//! │     ├─ 4000:1
//! │     └─ ...
//! ├─ 1:2                  the class of bundle 1
//! │  └─ 4001:
//! └─ 1:ffff               what is in no bundle: the root's default
//! ```
//!
//! Both programs set the minor number alone; the kernel takes the major one from the filter's
//! `classid`, which is therefore [`Handle::of_root`]'s or [`Handle::of_flows`]'s.

use std::fmt;

/// How many bundles there can be: each has a handle of its own from `4000:` to `7fff:`, which leaves
/// out what the kernel gives to qdiscs that were made without one (`8000:` and above).
pub const MAX_BUNDLES: usize = 0x4000;
/// How many classes a bundle's flows may have. A class takes memory, whether flows use it or not.
pub const MAX_FLOW_CLASSES: u32 = 1024;

/// The id of a qdisc or of a class, as the kernel and `tc` have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

impl Handle {
    const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The root qdisc.
    pub const fn of_root() -> Self {
        Self::new(1, 0)
    }

    /// The class of what is in no bundle.
    pub const fn of_rest() -> Self {
        Self::new(1, 0xffff)
    }

    /// The class of a bundle; `None` if there can be no such bundle.
    pub fn of_bundle(bundle: usize) -> Option<Self> {
        (bundle < MAX_BUNDLES).then(|| Self::new(1, bundle as u16 + 1))
    }

    /// The qdisc below a bundle's class, whose classes are by flow; `None` likewise.
    pub fn of_flows(bundle: usize) -> Option<Self> {
        (bundle < MAX_BUNDLES).then(|| Self::new(0x4000 + bundle as u16, 0))
    }

    /// A class of this qdisc: the `n`th, counted from zero.
    #[must_use]
    pub const fn class(self, n: u16) -> Self {
        Self(self.0 & 0xffff_0000 | (n as u32 + 1) & 0xffff)
    }
}

/// As `tc` writes it.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 >> 16, self.0 & 0xffff) {
            (major, 0) => write!(f, "{major:x}:"),
            (major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_as_tc_writes_them() {
        assert_eq!(Handle::of_root().to_string(), "1:");
        assert_eq!(Handle::of_bundle(0).unwrap().to_string(), "1:1");
        assert_eq!(Handle::of_flows(10).unwrap().to_string(), "400a:");
        assert_eq!(Handle::of_flows(10).unwrap().class(255).to_string(), "400a:100");
        assert_eq!(Handle::of_flows(MAX_BUNDLES - 1).unwrap().to_string(), "7fff:");
    }

    #[test]
    fn no_two_are_alike() {
        let mut all = BTreeSet::from([Handle::of_root(), Handle::of_rest()]);
        for bundle in 0..MAX_BUNDLES {
            assert!(all.insert(Handle::of_bundle(bundle).unwrap()), "{bundle}");
            assert!(all.insert(Handle::of_flows(bundle).unwrap()), "{bundle}");
        }
        assert_eq!(Handle::of_bundle(MAX_BUNDLES), None);
        assert_eq!(Handle::of_flows(MAX_BUNDLES), None);
    }
}
