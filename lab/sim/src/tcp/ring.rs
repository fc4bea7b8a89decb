//! The unacknowledged segments: a ring by number, and a list in the order of transmission for loss
//! detection (RFC 8985 section 5).

/// The number that means "no segment".
pub(crate) const NONE: u32 = u32::MAX;

/// A segment in flight or lost. Its delivery fields are those of Cheng et al.,
/// draft-cheng-iccrg-delivery-rate-estimation, section 3.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) seq: u64,
    /// The time of its last transmission.
    pub(crate) time: u64,
    /// The number of segments delivered at that time.
    pub(crate) delivered: u64,
    /// The time of the last delivery before that time.
    pub(crate) delivered_time: u64,
    /// The time at which the first segment of the flight was sent.
    pub(crate) first_time: u64,
    pub(crate) len: u32,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// Whether it was retransmitted and that copy is not known to be lost.
    pub(crate) retransmitted: bool,
    /// Whether it was ever retransmitted.
    pub(crate) ever_retransmitted: bool,
    pub(crate) app_limited: bool,
    /// Whether it is the first of its super-packet.
    pub(crate) head: bool,
    /// Whether it has the push flag.
    pub(crate) push: bool,
    /// Whether it is in the list of transmissions.
    pub(super) listed: bool,
    pub(super) before: u32,
    pub(super) after: u32,
}

impl Sent {
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// A ring of segments, which doubles its size as the window grows. Numbers wrap at 2^32, which is
/// larger than any window.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Sent>,
    first: u32,
    next: u32,
    oldest: u32,
    newest: u32,
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { slots: vec![Sent::default(); 16], first: 0, next: 0, oldest: NONE, newest: NONE }
    }

    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    pub(crate) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    fn index(&self, number: u32) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    pub(crate) fn get(&self, number: u32) -> &Sent {
        &self.slots[self.index(number)]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Sent {
        let index = self.index(number);
        &mut self.slots[index]
    }

    /// Returns the first segment that is not acknowledged in sequence.
    pub(crate) fn front(&self) -> Option<&Sent> {
        (self.len() > 0).then(|| self.get(self.first))
    }

    /// Appends a segment that is sent for the first time.
    pub(crate) fn push(&mut self, sent: Sent) {
        if self.len() as usize == self.slots.len() {
            let mut slots = vec![Sent::default(); 2 * self.slots.len()];
            for n in 0..self.len() {
                let number = self.first.wrapping_add(n);
                slots[number as usize & (2 * self.slots.len() - 1)] = *self.get(number);
            }
            self.slots = slots;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        *self.get_mut(number) = Sent { listed: false, ..sent };
        self.list(number);
    }

    /// Removes the first segment.
    pub(crate) fn pop(&mut self) {
        self.unlist(self.first);
        self.first = self.first.wrapping_add(1);
    }

    /// Returns the number of the first segment that ends after `seq`.
    pub(crate) fn find(&self, seq: u64) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(self.first.wrapping_add(middle)).end() <= seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.first.wrapping_add(low)
    }

    /// Returns the listed segment that was sent first.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Returns the segment that was sent next after `number`.
    pub(crate) fn sent_after(&self, number: u32) -> u32 {
        self.get(number).after
    }

    /// Moves `number`, which was just sent, to the end of the list.
    pub(crate) fn list(&mut self, number: u32) {
        self.unlist(number);
        let newest = self.newest;
        let sent = self.get_mut(number);
        (sent.listed, sent.before, sent.after) = (true, newest, NONE);
        match newest {
            NONE => self.oldest = number,
            n => self.get_mut(n).after = number,
        }
        self.newest = number;
    }

    /// Removes `number` from the list, since it arrived or is marked as lost.
    pub(crate) fn unlist(&mut self, number: u32) {
        let Sent { listed, before, after, .. } = *self.get(number);
        if !listed {
            return;
        }
        self.get_mut(number).listed = false;
        match before {
            NONE => self.oldest = after,
            n => self.get_mut(n).after = after,
        }
        match after {
            NONE => self.newest = before,
            n => self.get_mut(n).before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ring: &Ring) -> Vec<u32> {
        let next = |n: &u32| Some(ring.sent_after(*n)).filter(|n| *n != NONE);
        std::iter::successors(Some(ring.oldest()).filter(|n| *n != NONE), next).collect()
    }

    #[test]
    fn the_ring_grows_and_keeps_both_orders() {
        let mut ring = Ring::new();
        for n in 0..10 {
            ring.push(Sent { seq: n * 100, len: 100, ..Sent::default() });
        }
        for _ in 0..8 {
            ring.pop();
        }
        for n in 10..60 {
            ring.push(Sent { seq: n * 100, len: 100, ..Sent::default() });
        }
        assert_eq!((ring.len(), ring.front().map(|s| s.seq)), (52, Some(800)));
        assert_eq!(ring.find(800), 8);
        assert_eq!(ring.find(899), 8);
        assert_eq!(ring.find(900), 9);
        assert_eq!(ring.find(99_999), 60);
        ring.list(20);
        ring.unlist(30);
        ring.unlist(30);
        ring.list(8);
        let order = order(&ring);
        assert_eq!(order[..3], [9, 10, 11]);
        assert_eq!(order[49..], [20, 8]);
        assert_eq!(order.len(), 51);
    }
}
