//! A hierarchical bitmap.

use alloc::boxed::Box;
use alloc::vec;

use crate::ConfigError;
use crate::error::within;

/// The base-2 logarithm of the bits of a word.
const SHIFT: u32 = u64::BITS.trailing_zeros();
const MASK: u32 = u64::BITS - 1;
/// The number of levels at most.
const MAX_LEVELS: usize = 4;

/// A set of small integers that finds its lowest and highest member in constant time.
///
/// The lowest level has a bit for each integer. Each higher level has a bit for each word of the
/// level below, set if that word is not zero; the top level is a single word. Every operation takes
/// one step per level: two levels span 4096 integers, three 262 144, four 16 777 216.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bitmap {
    words: Box<[u64]>,
    /// The index in `words` at which each level begins, the lowest level first.
    starts: [u32; MAX_LEVELS],
    levels: u8,
    bits: u32,
}

impl Bitmap {
    /// The largest number of bits, which is that of four levels.
    pub const MAX_BITS: u32 = 1 << (SHIFT * MAX_LEVELS as u32);

    /// Creates an empty set for the integers below `bits`.
    ///
    /// # Errors
    /// Fails if `bits` is zero or above [`Bitmap::MAX_BITS`].
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

    /// Returns the number of bits, set or not.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the bytes of memory behind the set.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Returns whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words[self.words.len() - 1] == 0
    }

    /// Returns whether `bit` is set.
    ///
    /// # Panics
    /// Panics if `bit` is past the last word.
    #[inline]
    pub fn contains(&self, bit: u32) -> bool {
        self.words[(bit >> SHIFT) as usize] >> (bit & MASK) & 1 == 1
    }

    /// Sets the bit `bit`.
    ///
    /// # Panics
    /// Panics if `bit` is out of range.
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

    /// Clears the bit `bit`.
    ///
    /// # Panics
    /// Panics if `bit` is out of range.
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

    /// Clears all bits.
    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// Returns the lowest bit that is set.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.descend(usize::from(self.levels), 0)) }
    }

    /// Returns the lowest bit that is set and not below `from`.
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

    /// Returns the highest bit that is set.
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

    /// Returns the lowest bit under word `at` of `level`, which must not be zero.
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
    fn the_number_of_bits_determines_levels_and_words() {
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
    fn the_lowest_and_highest_bit_of_the_range_work() {
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
        fn it_behaves_like_an_ordered_set(
            bits in prop_oneof![1..200_u32, 4000..4200_u32, 260_000..270_000_u32],
            ops in prop::collection::vec((any::<u32>(), any::<bool>(), any::<u32>()), 1..200),
        ) {
            let mut map = Bitmap::new(bits).unwrap();
            let mut truth = BTreeSet::new();
            for (bit, set, from) in ops {
                // Few distinct values, so that set bits are often cleared.
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
