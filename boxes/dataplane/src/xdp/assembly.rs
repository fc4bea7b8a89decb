//! Frames that AF_XDP receives in several chunks.

use std::mem;

use crate::pool::{Frame, Pool};

/// Puts the parts of a frame together in the chunk of its first part.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The parts that have arrived of a frame that is not complete.
    begun: Option<Frame>,
    /// Whether these do not fit into a chunk.
    is_too_long: bool,
    lost: u64,
}

impl Assembly {
    /// Takes in an entry of the receive ring, and returns the frame that it completes.
    pub(super) fn take_in(&mut self, entry: &libc::xdp_desc, pool: &mut Pool) -> Option<Frame> {
        let part = Frame { addr: entry.addr as u32, len: entry.len as u16 };
        let is_last = entry.options & libc::XDP_PKT_CONTD == 0;
        let frame = match self.begun.take() {
            None => part,
            Some(mut frame) => {
                self.is_too_long |= !pool.append(&mut frame, &part);
                pool.release(part);
                frame
            }
        };
        if !is_last {
            self.begun = Some(frame);
            return None;
        }
        if mem::take(&mut self.is_too_long) {
            pool.release(frame);
            self.lost += 1;
            return None;
        }
        Some(frame)
    }

    /// Returns the number of frames that were longer than a chunk.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of frames with these lengths of parts, in chunks with these bytes.
    fn entries(pool: &mut Pool, parts: &[usize]) -> Vec<libc::xdp_desc> {
        let entry = |(i, len): (usize, &usize)| {
            let frame = pool.frame(&vec![i as u8; *len]).unwrap();
            let options = if i + 1 < parts.len() { libc::XDP_PKT_CONTD } else { 0 };
            libc::xdp_desc { addr: frame.addr.into(), len: frame.len.into(), options }
        };
        parts.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn parts_become_a_frame_and_their_chunks_are_free_again() {
        let mut pool = Pool::new(4, 9000).unwrap();
        let mut assembly = Assembly::default();
        for parts in [&[60][..], &[3840, 3840, 1334], &[3840, 1]] {
            let all = entries(&mut pool, parts);
            let frames: Vec<_> =
                all.iter().filter_map(|e| assembly.take_in(e, &mut pool)).collect();
            let expected: Vec<u8> = (0..).zip(parts).flat_map(|(i, n)| vec![i; *n]).collect();
            let [frame]: [Frame; 1] = frames.try_into().unwrap();
            assert_eq!(pool.bytes(&frame), expected);
            assert_eq!(pool.available(), 3);
            pool.release(frame);
        }
        assert_eq!(assembly.lost(), 0);
    }

    #[test]
    fn a_frame_longer_than_a_chunk_is_lost_and_the_next_one_is_not() {
        let mut pool = Pool::new(5, 9000).unwrap();
        let mut assembly = Assembly::default();
        for entry in entries(&mut pool, &[3840, 3840, 3840, 3840, 7]) {
            assert_eq!(assembly.take_in(&entry, &mut pool), None);
        }
        assert_eq!((assembly.lost(), pool.available()), (1, 5));
        let [entry] = entries(&mut pool, &[60]).try_into().unwrap();
        assert_eq!(assembly.take_in(&entry, &mut pool).unwrap().len(), 60);
    }
}
