//! The segments that were sent and are not acknowledged in sequence: a ring by number, and through
//! it a list in the order of transmission, which loss detection goes along (RFC 8985 section 5).

/// No segment.
pub(crate) const NONE: u32 = u32::MAX;

/// A segment on its way, or taken for lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) seq: u64,
    /// When it was sent last.
    pub(crate) time: u64,
    /// What had been delivered by then, when, and when the first packet of that flight was sent
    /// (Cheng et al., draft-cheng-iccrg-delivery-rate-estimation, section 3).
    pub(crate) delivered: u64,
    pub(crate) delivered_time: u64,
    pub(crate) first_time: u64,
    pub(crate) len: u32,
    pub(crate) sacked: bool,
    pub(crate) lost: bool,
    /// Sent again, and that copy is not known to be lost.
    pub(crate) retransmitted: bool,
    /// Sent again at some time.
    pub(crate) ever_retransmitted: bool,
    pub(crate) app_limited: bool,
    /// The first of its super-packet,
    pub(crate) head: bool,
    /// and one that is pushed.
    pub(crate) push: bool,
    /// In the list of transmissions.
    pub(super) listed: bool,
    pub(super) before: u32,
    pub(super) after: u32,
}

impl Sent {
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// Numbers wrap at 2^32; no window is that large. Grows by doubling to the largest window there was.
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

    /// The first segment not acknowledged in sequence.
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

    /// Takes out the first segment.
    pub(crate) fn pop(&mut self) {
        self.unlist(self.first);
        self.first = self.first.wrapping_add(1);
    }

    /// The first segment that ends after `seq`.
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

    /// The segment that was sent longest ago, of those listed.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The one sent next after `number`.
    pub(crate) fn sent_after(&self, number: u32) -> u32 {
        self.get(number).after
    }

    /// `number` was sent just now.
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

    /// `number` needs no watching: it arrived, or is taken for lost.
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
    fn grows_and_keeps_both_orders() {
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
