//! The packets of a flow's turn.

/// The most packets that the kernel cuts a message into (`UDP_MAX_SEGMENTS` of Linux before 6.9;
/// later kernels take 128).
pub const MAX_SEGMENTS: u32 = 64;
/// The most bytes of a message: an IP packet of 65 535 bytes (RFC 791, section 3.1) without the
/// headers of IPv6 and UDP.
pub const MAX_MESSAGE: usize = 65_535 - 40 - 8;

/// The packets of a flow's turn, which its source writes.
///
/// They have one length, and only the last one may be shorter: so the kernel cuts a message.
#[derive(Debug)]
pub struct Segments<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    /// The bytes of the turn.
    limit: usize,
    /// The length of the first packet.
    segment: usize,
    packets: u32,
    /// Whether the last packet was shorter than the first.
    ended: bool,
}

/// What a source has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) segment: usize,
    pub(super) packets: u32,
}

impl<'a> Segments<'a> {
    /// Makes an empty turn of `limit` bytes, whose packets are appended to `buffer`.
    pub(super) fn new(buffer: &'a mut Vec<u8>, limit: u64) -> Self {
        let limit = limit.min(MAX_MESSAGE as u64) as usize;
        Self { start: buffer.len(), buffer, limit, segment: 0, packets: 0, ended: false }
    }

    /// Adds a packet of `length` bytes and returns it, to be written. It is zero before that.
    ///
    /// Returns `None` if the packet does not fit: the turn has too few bytes left, or the packet is
    /// longer than the first one, or follows a shorter one. The first packet of a turn always fits
    /// if it has at most [`MAX_MESSAGE`] bytes.
    #[inline]
    pub fn push(&mut self, length: usize) -> Option<&mut [u8]> {
        let used = self.buffer.len() - self.start;
        let fits = match self.packets {
            0 => length <= MAX_MESSAGE,
            MAX_SEGMENTS.. => false,
            _ => !self.ended && (1..=self.segment).contains(&length) && used + length <= self.limit,
        };
        if !fits {
            return None;
        }
        if self.packets == 0 {
            self.segment = length;
        }
        self.ended = length < self.segment || length == 0;
        self.packets += 1;
        let at = self.buffer.len();
        self.buffer.resize(at + length, 0);
        Some(&mut self.buffer[at..])
    }

    /// Returns what was written.
    pub(super) fn finish(self) -> Written {
        let Self { start, segment, packets, .. } = self;
        Written { start, bytes: self.buffer.len() - start, segment, packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes packets of these lengths into a turn of `limit` bytes, and returns which fit.
    fn fit(limit: u64, lengths: &[usize]) -> Vec<bool> {
        let mut buffer = vec![7; 3];
        let mut segments = Segments::new(&mut buffer, limit);
        lengths.iter().map(|&length| segments.push(length).is_some()).collect()
    }

    #[test]
    fn only_the_last_packet_is_shorter() {
        assert_eq!(fit(9000, &[1000, 1000, 999, 999]), [true, true, true, false]);
        assert_eq!(fit(9000, &[1000, 1001, 1000]), [true, false, true]);
    }

    #[test]
    fn the_turn_bounds_all_but_the_first_packet() {
        assert_eq!(fit(2000, &[1000, 1000, 1]), [true, true, false]);
        assert_eq!(fit(10, &[1000, 1]), [true, false]);
        assert_eq!(fit(1 << 20, &[MAX_MESSAGE + 1, MAX_MESSAGE, 1]), [false, true, false]);
    }

    #[test]
    fn an_empty_packet_is_alone() {
        assert_eq!(fit(2000, &[0, 0]), [true, false]);
        assert_eq!(fit(2000, &[100, 0]), [true, false]);
    }

    #[test]
    fn the_kernel_takes_64_packets_of_a_message() {
        let fits = fit(2000, &[1; 70]);
        assert_eq!(fits.iter().filter(|&&fits| fits).count(), 64);
    }

    #[test]
    fn a_turn_begins_where_the_buffer_ended() {
        let mut buffer = vec![7; 3];
        let mut segments = Segments::new(&mut buffer, 5000);
        segments.push(4).unwrap().fill(1);
        segments.push(2).unwrap().fill(2);
        let written = segments.finish();
        assert_eq!(written, Written { start: 3, bytes: 6, segment: 4, packets: 2 });
        assert_eq!(buffer, [7, 7, 7, 1, 1, 1, 1, 2, 2]);
    }
}
