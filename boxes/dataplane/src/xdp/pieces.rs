//! Frames that AF_XDP sends in several pieces, since a chunk of the kernel has at most a page.

use crate::pool::{Frame, Pool};

/// Splits frames at the borders of the kernel's chunks, and knows when all pieces of a frame are
/// sent.
#[derive(Debug)]
pub(super) struct Pieces {
    kernel_chunk: u32,
    chunk: u32,
    /// The pieces of the frame in each chunk of the pool that the kernel has not sent yet. Empty if
    /// every frame is one piece.
    unsent: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(pool: &Pool) -> Self {
        let chunks = if pool.is_for_jumbo_frames() { pool.chunks() } else { 0 };
        let (kernel_chunk, chunk) = (pool.kernel_chunk(), pool.chunk());
        Self { kernel_chunk, chunk, unsent: vec![0; chunks] }
    }

    /// Returns the pieces of `frame`.
    pub(super) fn split(&self, frame: &Frame) -> Split {
        Split { addr: frame.addr, left: frame.len.into(), kernel_chunk: self.kernel_chunk }
    }

    /// Notes that the kernel gets the pieces `split` of `frame`, whose chunk is the kernel's until
    /// [`Pieces::is_last`].
    #[allow(clippy::needless_pass_by_value, reason = "the frame is used up")]
    pub(super) fn start(&mut self, frame: Frame, split: &Split) {
        if let Some(unsent) = self.of(frame.addr) {
            *unsent = split.remaining() as u8;
        }
    }

    /// Notes that the piece at `addr` is sent. Returns whether the whole frame is.
    pub(super) fn is_last(&mut self, addr: u32) -> bool {
        self.of(addr).is_none_or(|unsent| {
            *unsent = unsent.saturating_sub(1);
            *unsent == 0
        })
    }

    fn of(&mut self, addr: u32) -> Option<&mut u8> {
        if self.unsent.is_empty() {
            return None;
        }
        self.unsent.get_mut((addr / self.chunk) as usize)
    }
}

/// The pieces of a frame, as entries of the transmit ring.
#[derive(Debug, Default)]
pub(super) struct Split {
    addr: u32,
    left: u32,
    kernel_chunk: u32,
}

impl Split {
    /// Returns the number of pieces that it has not returned yet.
    pub(super) fn remaining(&self) -> u32 {
        match self.left.checked_sub(1) {
            // A chunk's size is a power of two, and a shift takes less time than a division.
            Some(rest) => ((self.offset() + rest) >> self.kernel_chunk.trailing_zeros()) + 1,
            None => 0,
        }
    }

    /// Returns the offset of the next piece in its chunk of the kernel.
    fn offset(&self) -> u32 {
        self.addr & (self.kernel_chunk - 1)
    }
}

impl Iterator for Split {
    type Item = libc::xdp_desc;

    fn next(&mut self) -> Option<libc::xdp_desc> {
        if self.left == 0 {
            return None;
        }
        let addr = self.addr;
        let len = self.left.min(self.kernel_chunk - self.offset());
        (self.addr, self.left) = (addr + len, self.left - len);
        let options = if self.left > 0 { libc::XDP_PKT_CONTD } else { 0 };
        Some(libc::xdp_desc { addr: addr.into(), len, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries without the kernel's names.
    fn entries(split: Split) -> Vec<(u64, u32, u32)> {
        split.map(|e| (e.addr, e.len, e.options)).collect()
    }

    #[test]
    fn a_frame_is_split_at_the_kernels_chunks() {
        let mut pool = Pool::new(2, 9000).unwrap();
        let pieces = Pieces::new(&pool);
        let frame = pool.frame(&[0; 9014]).unwrap();
        let split = pieces.split(&frame);
        assert_eq!(split.remaining(), 3);
        assert_eq!(entries(split), [(256, 3840, 1), (4096, 4096, 1), (8192, 1078, 0)]);
        // The last piece of one byte, and none of zero.
        for (len, count) in [(3840, 1), (3841, 2), (7936, 2), (7937, 3), (12_032, 3)] {
            let split = pieces.split(&Frame { addr: 12_288 + 256, len });
            assert_eq!(split.remaining(), count);
            let all = entries(split);
            assert_eq!(all.len(), count as usize);
            assert_eq!(all.iter().map(|e| e.1).sum::<u32>(), u32::from(len));
            assert!(all.iter().all(|e| e.0 / 4096 == (e.0 + u64::from(e.1) - 1) / 4096));
        }
        assert_eq!(Split::default().remaining(), 0);
    }

    #[test]
    fn a_chunk_is_free_when_all_its_pieces_are_sent() {
        let mut pool = Pool::new(2, 9000).unwrap();
        let mut pieces = Pieces::new(&pool);
        let [first, second] = [9014, 60].map(|len| pool.frame(&vec![0; len]).unwrap());
        let addr = second.addr;
        for frame in [first, second] {
            let split = pieces.split(&frame);
            pieces.start(frame, &split);
        }
        assert_eq!([256, 4096].map(|addr| pieces.is_last(addr)), [false; 2]);
        assert!(pieces.is_last(addr), "another frame");
        assert!(pieces.is_last(8192));
        // Small frames are one piece each.
        let mut pieces = Pieces::new(&Pool::new(2, 1500).unwrap());
        assert!(pieces.is_last(256) && pieces.is_last(2304));
    }
}
