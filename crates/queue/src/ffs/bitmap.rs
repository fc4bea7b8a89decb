use alloc::boxed::Box;
use alloc::vec;

use crate::ConfigError;
use crate::error::within;

/// The bits of a word, as a power of two.
const SHIFT: u32 = u64::BITS.trailing_zeros();
const MASK: u32 = u64::BITS - 1;
/// Four levels of 64-bit words.
const MAX_LEVELS: usize = 4;

/// A set of small integers that knows its first and last member.
///
/// A bit for each integer, and above every level a bit for each of its words that is not zero, up
/// to a single word. Every operation takes one step a level: two levels span 4096 integers, three
/// 262 144, four 16 777 216.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bitmap {
    words: Box<[u64]>,
    /// Where each level begins in `words`, the finest first.
    starts: [u32; MAX_LEVELS],
    levels: u8,
    bits: u32,
}

impl Bitmap {
    /// The most bits, those of four levels.
    pub const MAX_BITS: u32 = 1 << (SHIFT * MAX_LEVELS as u32);

    /// For the integers below `bits`, none of them set.
    ///
    /// # Errors
    /// If `bits` is zero or above [`Bitmap::MAX_BITS`].
    pub fn new(bits: u32) -> Result<Self, ConfigError> {
        within("bits", u64::from(bits), 1, u64::from(Self::MAX_BITS))?;
        let (mut starts, mut levels, mut words) = ([0; MAX_LEVELS], 0, 0);
        let mut width = bits;
        loop {
            starts[levels] = words;
            levels += 1;
            width = width.div_ceil(u64::BITS);
            words += width;
            if width == 1 {
                break;
            }
        }
        let words = vec![0; words as usize].into();
        Ok(Self { words, starts, levels: levels as u8, bits })
    }

    /// How many integers it is for.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words[self.words.len() - 1] == 0
    }

    /// Whether `bit` is set.
    ///
    /// # Panics
    /// If `bit` is past the last word.
    #[inline]
    pub fn contains(&self, bit: u32) -> bool {
        self.words[(bit >> SHIFT) as usize] >> (bit & MASK) & 1 == 1
    }

    /// Sets `bit`.
    ///
    /// # Panics
    /// If `bit` is out of range.
    #[inline]
    pub fn set(&mut self, bit: u32) {
        assert!(bit < self.bits, "bit {bit} of {}", self.bits);
        let mut at = bit;
        for start in &self.starts[..usize::from(self.levels)] {
            let word = &mut self.words[(start + (at >> SHIFT)) as usize];
            let before = *word;
            *word |= 1 << (at & MASK);
            if before != 0 {
                return;
            }
            at >>= SHIFT;
        }
    }

    /// Clears `bit`.
    ///
    /// # Panics
    /// If `bit` is out of range.
    #[inline]
    pub fn clear(&mut self, bit: u32) {
        assert!(bit < self.bits, "bit {bit} of {}", self.bits);
        let mut at = bit;
        for start in &self.starts[..usize::from(self.levels)] {
            let word = &mut self.words[(start + (at >> SHIFT)) as usize];
            *word &= !(1 << (at & MASK));
            if *word != 0 {
                return;
            }
            at >>= SHIFT;
        }
    }

    /// Clears all.
    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// The lowest bit that is set.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.descend(usize::from(self.levels), 0)) }
    }

    /// The lowest bit that is set and not below `from`.
    #[inline]
    pub fn first_from(&self, from: u32) -> Option<u32> {
        let mut at = from;
        if at >= self.bits {
            return None;
        }
        for level in 0..usize::from(self.levels) {
            let end = self.starts.get(level + 1).filter(|_| level + 1 < usize::from(self.levels));
            let end = end.map_or(self.words.len(), |&start| start as usize);
            let index = (self.starts[level] + (at >> SHIFT)) as usize;
            if index >= end {
                return None;
            }
            let rest = self.words[index] & (u64::MAX << (at & MASK));
            if rest != 0 {
                return Some(self.descend(level, at & !MASK | rest.trailing_zeros()));
            }
            at = (at >> SHIFT) + 1;
        }
        None
    }

    /// The highest bit that is set.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let mut at = 0;
        for start in self.starts[..usize::from(self.levels)].iter().rev() {
            let word = self.words[(start + at) as usize];
            at = at << SHIFT | (MASK - word.leading_zeros());
        }
        Some(at)
    }

    /// The first bit below word `at` of `level`, which is not zero.
    #[inline]
    fn descend(&self, level: usize, mut at: u32) -> u32 {
        for start in self.starts[..level].iter().rev() {
            at = at << SHIFT | self.words[(start + at) as usize].trailing_zeros();
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_those_of_the_levels() {
        for (bits, levels, words) in
            [(1, 1, 1), (64, 1, 1), (65, 2, 3), (4096, 2, 65), (4097, 3, 68), (1 << 18, 3, 4161)]
        {
            let map = Bitmap::new(bits).unwrap();
            assert_eq!((map.levels, map.words.len()), (levels, words), "{bits}");
        }
        assert!(Bitmap::new(0).is_err());
        assert!(Bitmap::new(Bitmap::MAX_BITS + 1).is_err());
    }

    #[test]
    fn the_ends_of_the_range() {
        for bits in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut map = Bitmap::new(bits).unwrap();
            assert_eq!((map.first(), map.last(), map.first_from(0)), (None, None, None));
            map.set(bits - 1);
            assert_eq!((map.first(), map.last()), (Some(bits - 1), Some(bits - 1)));
            assert_eq!(map.first_from(0), Some(bits - 1));
            assert_eq!(map.first_from(bits - 1), Some(bits - 1));
            assert_eq!(map.first_from(bits), None);
            map.set(0);
            assert_eq!((map.first(), map.last()), (Some(0), Some(bits - 1)));
            map.clear_all();
            assert!(map.is_empty());
        }
    }

    proptest! {
        #[test]
        fn like_an_ordered_set(
            bits in prop_oneof![1..200_u32, 4000..4200_u32, 260_000..270_000_u32],
            ops in prop::collection::vec((any::<u32>(), any::<bool>(), any::<u32>()), 1..200),
        ) {
            let mut map = Bitmap::new(bits).unwrap();
            let mut truth = BTreeSet::new();
            for (bit, set, from) in ops {
                // Few distinct ones, so that bits are cleared that were set.
                let (bit, from) = ((bit % 97).wrapping_mul(2741) % bits, from % bits);
                if set {
                    map.set(bit);
                    truth.insert(bit);
                } else {
                    map.clear(bit);
                    truth.remove(&bit);
                }
                prop_assert_eq!(map.contains(bit), set);
                prop_assert_eq!(map.first(), truth.first().copied());
                prop_assert_eq!(map.last(), truth.last().copied());
                prop_assert_eq!(map.first_from(from), truth.range(from..).next().copied());
                prop_assert_eq!(map.is_empty(), truth.is_empty());
            }
        }
    }
}
