//! TCP segments and SACK blocks.

use forebay_queue::Ecn;

/// The largest number of SACK blocks in a segment with the timestamp option (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

/// The SACK blocks of a segment as distances from its acknowledgement number, the most recent
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sack {
    blocks: [(i32, i32); SACK_BLOCKS],
    count: u8,
    /// Whether the first block reports a duplicate (RFC 2883).
    pub(crate) duplicate: bool,
}

impl Sack {
    /// Appends a block if there is room. Windows are far below 2 GB, so distances fit into 32 bits.
    pub(crate) fn push(&mut self, ack: u64, (start, end): (u64, u64)) {
        if usize::from(self.count) < SACK_BLOCKS {
            let distance = |n: u64| n.wrapping_sub(ack) as i64 as i32;
            self.blocks[usize::from(self.count)] = (distance(start), distance(end));
            self.count += 1;
        }
    }

    pub(crate) fn blocks(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> {
        let at = move |n: i32| ack.wrapping_add_signed(i64::from(n));
        let blocks = self.blocks;
        (0..usize::from(self.count)).map(move |i| (at(blocks[i].0), at(blocks[i].1)))
    }

    /// Returns the length of the option in bytes, including padding.
    pub(crate) fn option_len(&self) -> u64 {
        if self.count == 0 { 0 } else { 4 + 8 * u64::from(self.count) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A TCP segment with 64-bit sequence numbers, which do not wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// The number of the first byte.
    pub(crate) seq: u64,
    /// The length of the payload in bytes.
    pub(crate) len: u32,
    /// The number of the next byte expected.
    pub(crate) ack: u64,
    /// The number of bytes beyond `ack` that may be sent.
    pub(crate) window: u32,
    /// The send time in nanoseconds (the timestamp option of RFC 7323).
    pub(crate) timestamp: u64,
    /// The echoed timestamp; zero if none.
    pub(crate) echo: u64,
    pub(crate) sack: Sack,
    /// The push flag: the application had no more data after the last byte.
    pub(crate) push: bool,
    /// The ECN-echo flag.
    pub(crate) ece: bool,
    /// The "congestion window reduced" flag.
    pub(crate) cwr: bool,
    /// The number of marked packets received so far (RFC 9768, as a counter that does not wrap).
    pub(crate) marked: u32,
    /// The ECN field of the IP header.
    pub(crate) ecn: Ecn,
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_three_blocks_at_most() {
        let mut sack = Sack::default();
        assert!(sack.is_empty());
        for block in [(500, 600), (2000, 3000), (5000, 6000), (7000, 8000)] {
            sack.push(1000, block);
        }
        let blocks: Vec<_> = sack.blocks(1000).collect();
        assert_eq!(blocks, [(500, 600), (2000, 3000), (5000, 6000)]);
    }
}
