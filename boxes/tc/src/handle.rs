//! Names of qdiscs and classes, and the names that a sendbox uses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernel's name of a qdisc (`major:`) or of a class in it (`major:minor`), in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub u32);

/// The largest number of bundles in a tree. Each has a qdisc of its own, whose name must be below
/// 8000:, where the names begin that the kernel itself gives.
pub const MAX_BUNDLES: usize = 16_384;

/// The major number of the root. A tree with another root is not a sendbox's.
const TREE: u16 = 0x0fb0;
/// The major number of the first bundle's queue.
const QUEUES: u16 = 0x1000;
/// Leaf classes of one class of a bundle: as many as a byte can number.
pub(crate) const MAX_FLOWS: u16 = 256;

impl Handle {
    /// The place from which the device itself takes packets.
    pub const ROOT: Self = Self(0xffff_ffff);
    /// The qdisc at the root of the tree. Packets of no bundle wait in it unshaped.
    pub const TREE: Self = Self::new(TREE, 0);

    /// The class above those of all bundles, if they have a common limit.
    pub const UPLINK: Self = Self::new(TREE, u16::MAX);

    /// Names class `minor` of qdisc `major`; the qdisc itself if `minor` is zero.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// Names the class that shapes bundle number `index`, counted from zero.
    pub const fn of_bundle(index: usize) -> Self {
        Self::new(TREE, index as u16 + 1)
    }

    /// Returns the bundle whose class this is.
    pub fn bundle(self) -> Option<usize> {
        (self.major() == TREE).then(|| usize::from(self.minor()).checked_sub(1)).flatten()
    }

    /// Names the qdisc below the class of bundle number `index`.
    pub const fn of_queue(index: usize) -> Self {
        Self::new(QUEUES + index as u16, 0)
    }

    /// Returns the bundle to whose queue this qdisc or class belongs.
    pub fn queue(self) -> Option<usize> {
        let index = usize::from(self.major().checked_sub(QUEUES)?);
        (index < MAX_BUNDLES).then_some(index)
    }

    /// Whether a sendbox may have given this name to a qdisc.
    pub fn is_ours(self) -> bool {
        let queues = QUEUES..QUEUES + MAX_BUNDLES as u16;
        self.major() == TREE || queues.contains(&self.major())
    }

    /// Names the leaf class, in this queue of a bundle, for packets of class `class` (by urgency,
    /// from zero) whose flow has leaf number `flow`.
    pub const fn leaf(self, class: usize, flow: u16) -> Self {
        Self::new(self.major(), class as u16 * MAX_FLOWS + flow + 1)
    }

    /// Names the class, in this queue of a bundle, that lends weighted classes the bundle's rate.
    pub const fn lender(self) -> Self {
        Self::new(self.major(), u16::MAX)
    }

    /// Whether this is the class of a bundle that lends weighted classes its rate.
    pub fn is_lender(self) -> bool {
        self.queue().is_some() && self.minor() == u16::MAX
    }

    /// Returns the number of the qdisc.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the number of the class; zero is the qdisc itself.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }

    /// Returns the qdisc that contains this class.
    pub const fn qdisc(self) -> Self {
        Self::new(self.major(), 0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.minor()) {
            (Self::ROOT, _) => f.write_str("root"),
            (_, 0) => write!(f, "{:x}:", self.major()),
            (_, minor) => write!(f, "{:x}:{minor:x}", self.major()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_tc_writes_them() {
        let names = [
            (Handle::ROOT, "root"),
            (Handle::TREE, "fb0:"),
            (Handle::of_bundle(0), "fb0:1"),
            (Handle::of_bundle(999), "fb0:3e8"),
            (Handle::of_queue(0), "1000:"),
            (Handle::of_queue(0).leaf(0, 0), "1000:1"),
            (Handle::of_queue(1).leaf(0, 255), "1001:100"),
            (Handle::of_queue(1).leaf(7, 255), "1001:800"),
            (Handle::of_queue(MAX_BUNDLES - 1), "4fff:"),
        ];
        for (handle, name) in names {
            assert_eq!(handle.to_string(), name);
            assert_eq!(handle.is_ours(), handle != Handle::ROOT, "{name}");
        }
        assert!(!Handle::new(0x8001, 0).is_ours() && !Handle::new(1, 0).is_ours());
        assert_eq!(Handle::of_bundle(7).bundle(), Some(7));
        assert_eq!(Handle::of_queue(7).leaf(0, 3).queue(), Some(7));
        assert_eq!((Handle::TREE.queue(), Handle::new(0x8001, 0).queue()), (None, None));
        assert_eq!((Handle::TREE.bundle(), Handle::of_queue(7).bundle()), (None, None));
    }
}
