use forebay_queue::Ecn;

/// The most SACK blocks in a segment beside the timestamp option (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

/// SACK blocks, as distances from the segment's acknowledgement number; the most recent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sack {
    blocks: [(i32, i32); SACK_BLOCKS],
    count: u8,
    /// The first block says what came twice (RFC 2883).
    pub(crate) duplicate: bool,
}

impl Sack {
    /// Appends a block while there is room. Blocks further than 2 GB from the acknowledgement number
    /// do not occur: windows are smaller.
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

    /// The option's bytes, padding included.
    pub(crate) fn option_len(&self) -> u64 {
        if self.count == 0 { 0 } else { 4 + 8 * u64::from(self.count) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A TCP segment. Sequence numbers do not wrap: they are 64 bits here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// The first byte.
    pub(crate) seq: u64,
    /// Bytes of payload.
    pub(crate) len: u32,
    /// The next byte that is expected.
    pub(crate) ack: u64,
    /// How many bytes beyond `ack` may be sent.
    pub(crate) window: u32,
    /// When it was sent (the timestamp option of RFC 7323, in nanoseconds).
    pub(crate) timestamp: u64,
    /// The timestamp that it answers; zero if none.
    pub(crate) echo: u64,
    pub(crate) sack: Sack,
    /// The application had no more when its last byte was written.
    pub(crate) push: bool,
    /// ECN-echo.
    pub(crate) ece: bool,
    /// Congestion window reduced.
    pub(crate) cwr: bool,
    /// Marked packets that came so far (RFC 9768; a counter that does not wrap in a run).
    pub(crate) marked: u32,
    /// What its IP header says.
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
    fn blocks_are_relative_and_bounded() {
        let mut sack = Sack::default();
        assert!(sack.is_empty());
        for block in [(500, 600), (2000, 3000), (5000, 6000), (7000, 8000)] {
            sack.push(1000, block);
        }
        let blocks: Vec<_> = sack.blocks(1000).collect();
        assert_eq!(blocks, [(500, 600), (2000, 3000), (5000, 6000)]);
    }
}
