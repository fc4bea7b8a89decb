use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// Number of tags compared per iteration. The compiler turns this into two vector instructions.
const AT_ONCE: usize = 32;

/// The state of a mark and six bits of a hash of its fingerprint, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u8);

impl Tag {
    /// The mark was answered or has expired, and waits to reach the end of the ring.
    pub(super) const DONE: Self = Self(0);
    const LIVE: u8 = 0x80;
    const AMBIGUOUS: u8 = 0x40;

    /// Returns the tag of an outstanding mark of `fingerprint`.
    ///
    /// Boundary fingerprints end in zeros, so the tag takes the high bits of a product (Fibonacci
    /// hashing; the constant is 2^32 over the golden ratio).
    pub(super) fn of(fingerprint: u32) -> Self {
        Self(Self::LIVE | (fingerprint.wrapping_mul(0x9e37_79b9) >> 26) as u8)
    }

    /// Returns the tag of the mark after its fingerprint was sent again.
    pub(super) fn ambiguous(self) -> Self {
        Self(self.0 | Self::AMBIGUOUS)
    }

    /// Returns whether the mark awaits feedback and is not ambiguous.
    pub(super) fn is_outstanding(self) -> bool {
        self.0 & (Self::LIVE | Self::AMBIGUOUS) == Self::LIVE
    }

    /// Returns whether the mark's fingerprint was sent again.
    pub(super) fn is_ambiguous(self) -> bool {
        self.0 & Self::AMBIGUOUS != 0
    }

    /// Returns whether a mark with this tag may have the fingerprint of the tag `wanted`.
    fn may_be(self, wanted: Self) -> bool {
        self.0 & !Self::AMBIGUOUS == wanted.0
    }
}

/// The tags of a ring of marks, indexed by the marks' numbers.
#[derive(Debug)]
pub(super) struct Tags(Box<[Tag]>);

impl Tags {
    /// Creates the tags of `capacity` marks, a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        Self(vec![Tag::DONE; capacity].into_boxed_slice())
    }

    pub(super) fn get(&self, number: u64) -> Tag {
        self.0[self.index(number)]
    }

    pub(super) fn set(&mut self, number: u64, tag: Tag) {
        let index = self.index(number);
        self.0[index] = tag;
    }

    /// Returns the first of `numbers` whose tag may be `wanted` and for which `is_it` returns true.
    pub(super) fn find(
        &self,
        numbers: Range<u64>,
        wanted: Tag,
        is_it: impl Fn(&u64) -> bool,
    ) -> Option<u64> {
        let mut at = numbers.start;
        while at < numbers.end {
            let index = self.index(at);
            let end = self.0.len().min(index + AT_ONCE.min((numbers.end - at) as usize));
            let some = &self.0[index..end];
            // The loop has no early exit, so that the compiler can vectorize it.
            if some.iter().fold(false, |any, tag| any | tag.may_be(wanted)) {
                let mut numbered = (at..).zip(some);
                let found = numbered.find(|(number, tag)| tag.may_be(wanted) && is_it(number));
                if found.is_some() {
                    return found.map(|(number, _)| number);
                }
            }
            at += some.len() as u64;
        }
        None
    }

    fn index(&self, number: u64) -> usize {
        number as usize & (self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn a_tag_says_whether_feedback_is_awaited() {
        let tag = Tag::of(64);
        assert!(tag.is_outstanding() && !tag.ambiguous().is_outstanding());
        assert!(!Tag::DONE.is_outstanding());
        assert!(tag.may_be(tag) && tag.ambiguous().may_be(tag), "a search finds both");
        assert!((0..4096).all(|i| !Tag::DONE.may_be(Tag::of(i * 64))));
    }

    #[test]
    fn boundary_fingerprints_have_different_tags() {
        let mut seen = [0; 256];
        (0..6400).for_each(|i| seen[usize::from(Tag::of(i * 64).0)] += 1);
        assert!(seen.iter().all(|&n| n == 0 || (80..120).contains(&n)), "64 tags, a hundred each");
    }

    proptest! {
        /// The numbers wrap around the ring and exceed one iteration, and some fingerprints share a
        /// tag.
        #[test]
        fn the_first_match_is_found(
            fingerprints in prop::collection::vec(0u32..90, 1..128),
            start in 0u64..1000,
            wanted in 0u32..90,
        ) {
            let mut tags = Tags::new(128);
            let numbers: Vec<_> = (start..).zip(fingerprints.iter().copied()).collect();
            for &(number, fingerprint) in &numbers {
                let tag = Tag::of(fingerprint);
                tags.set(number, if number % 3 == 0 { tag.ambiguous() } else { tag });
            }
            let end = start + numbers.len() as u64;
            let is_it = |number: &u64| fingerprints[(number - start) as usize] == wanted;
            let naive = numbers.iter().find(|(_, f)| *f == wanted).map(|(number, _)| *number);
            prop_assert_eq!(tags.find(start..end, Tag::of(wanted), is_it), naive);
        }
    }
}
