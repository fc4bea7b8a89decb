//! The marks: records of the boundary packets that the sendbox sent.
//!
//! The marks form a ring in order of departure. Beside it an array holds one byte (a tag) for each
//! mark, by which a fingerprint is searched. The tags of the few marks in flight fit into one cache
//! line, and those of all 512 into eight. A third array holds the flows. All are allocated once.
//! Marks older than the last answered one are kept until they expire, so that feedback out of order
//! is recognized (Bundler section 5.2).

mod tags;

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos};

use crate::transfers::FlowPosition;
use tags::{Tag, Tags};

/// How long a mark waits for its feedback. This exceeds the round-trip time of a path whose
/// bottleneck holds twelve seconds of queue. Later feedback counts as unmatched.
pub(crate) const EXPIRY: Nanos = Nanos::from_secs(20);

/// A boundary packet as it left the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// When the packet left.
    pub(crate) time: Nanos,
    /// Bytes of the bundle sent by then, including this packet.
    pub(crate) bytes: Bytes,
    /// Packets of the bundle sent by then, including this packet, modulo 2^32.
    pub(crate) packets: u32,
    /// Since when the bundle's own queue had not been empty. Packets sent since then left at the
    /// rate that was set.
    pub(crate) limited_since: Nanos,
    /// The packet's flow, where it is known.
    pub(crate) flow: Option<FlowPosition>,
}

/// A mark in the ring, half as long as a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    time: Nanos,
    bytes: Bytes,
    packets: u32,
    fingerprint: u32,
    /// For a mark, since when the queue had not been empty. For an ambiguous mark, which is never
    /// returned, when its fingerprint was last sent.
    since: Nanos,
}

impl Slot {
    fn new(fingerprint: u32, mark: Mark) -> Self {
        let Mark { time, bytes, packets, limited_since, .. } = mark;
        Self { time, bytes, packets, fingerprint, since: limited_since }
    }

    fn mark(&self, flow: Option<FlowPosition>) -> Mark {
        let Self { time, bytes, packets, since, .. } = *self;
        Mark { time, bytes, packets, limited_since: since, flow }
    }
}

/// The mark that feedback for a fingerprint refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// A mark newer than all marks answered before.
    InOrder(Mark, Ticket),
    /// A mark older than the newest answered one.
    OutOfOrder(Mark, Ticket),
    /// A fingerprint that was sent twice.
    Ambiguous,
    /// A fingerprint that no mark remembers.
    Unmatched,
}

/// Identifies the mark that was matched, for [`Marks::answered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The outstanding marks of one bundle.
///
/// A search compares the tag of each mark, newest first in two groups: those newer than the last
/// answered mark, then the rest. It reads the marks themselves only where the tag matches.
///
/// When the ring is full, the oldest mark is dropped if a newer one was answered, since its packet
/// or its feedback was lost. Otherwise the new packet is not marked, so that those in flight still
/// get their feedback. [`Marks::thinning`] reduces the number of marks long before that.
#[derive(Debug)]
pub(crate) struct Marks {
    slots: Box<[Slot]>,
    tags: Tags,
    /// The flows of the marks, which only feedback reads.
    flows: Box<[Option<FlowPosition>]>,
    /// The number of the oldest mark in the ring. A mark's index is its number modulo the capacity.
    oldest: u64,
    /// The number of the next mark.
    next: u64,
    /// One more than the number of the newest answered mark.
    answered: u64,
    outstanding: u32,
    expired: u64,
    refused: u64,
    /// When the oldest mark expires; kept here so that a tick need not read the marks.
    due: Nanos,
    /// When the oldest mark was sent that is newer than all answered ones.
    oldest_awaited: Option<Nanos>,
}

impl Marks {
    /// Creates a ring for `capacity` marks, a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            tags: Tags::new(capacity),
            slots: vec![Slot::default(); capacity].into_boxed_slice(),
            flows: vec![None; capacity].into_boxed_slice(),
            oldest: 0,
            next: 0,
            answered: 0,
            outstanding: 0,
            expired: 0,
            refused: 0,
            due: Nanos::MAX,
            oldest_awaited: None,
        }
    }

    /// Stores `mark`. If its fingerprint is still outstanding, both marks become ambiguous.
    pub(crate) fn record(&mut self, fingerprint: u32, mark: Mark) {
        self.expire(mark.time);
        if let Some(number) = self.find(fingerprint) {
            self.slot_mut(number).since = mark.time;
            if self.tags.get(number).is_outstanding() {
                self.tags.set(number, self.tags.get(number).ambiguous());
                self.outstanding -= 1;
                self.settle();
            }
            return;
        }
        if self.is_full() {
            if self.oldest >= self.answered {
                self.refused += 1;
                return;
            }
            self.drop_oldest();
            self.settle();
        }
        self.outstanding += 1;
        let index = self.index(self.next);
        self.flows[index] = mark.flow;
        self.push(Slot::new(fingerprint, mark), Tag::of(fingerprint));
    }

    /// Returns the mark that feedback for `fingerprint` refers to. It stays until
    /// [`Marks::answered`].
    pub(crate) fn find_match(&self, fingerprint: u32) -> Match {
        let Some(number) = self.find(fingerprint) else {
            return Match::Unmatched;
        };
        if !self.tags.get(number).is_outstanding() {
            Match::Ambiguous
        } else if number < self.answered {
            Match::OutOfOrder(self.mark(number), Ticket(number))
        } else {
            Match::InOrder(self.mark(number), Ticket(number))
        }
    }

    /// Removes a mark that got its feedback. Older ones stay until they expire.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        self.tags.set(ticket.0, Tag::DONE);
        self.outstanding -= 1;
        self.answered = self.answered.max(ticket.0 + 1);
        self.settle();
    }

    /// Removes all marks, which count as expired.
    pub(crate) fn clear(&mut self) {
        self.expired += u64::from(self.outstanding);
        (self.oldest, self.answered, self.outstanding) = (self.next, self.next, 0);
        self.settle();
    }

    /// Removes marks that have waited too long.
    pub(crate) fn expire(&mut self, now: Nanos) {
        if now < self.due {
            return;
        }
        // An ambiguous mark whose fingerprint was sent again is moved to the new end, at most once
        // a call. Otherwise its feedback would be attributed to a later packet.
        for _ in self.oldest..self.next {
            let tag = self.tags.get(self.oldest);
            let slot = *self.slot(self.oldest);
            if tag != Tag::DONE && now.saturating_sub(slot.time) < EXPIRY {
                break;
            }
            self.drop_oldest();
            if tag.is_ambiguous() && now.saturating_sub(slot.since) < EXPIRY {
                self.push(Slot { time: slot.since, ..slot }, tag);
            }
        }
        self.settle();
    }

    /// Returns the factor, a power of two, by which to mark fewer packets than the epoch size says.
    ///
    /// The factor is one until an eighth of the ring awaits feedback, and doubles with each further
    /// eighth. The receivebox need not know it, since every multiple of 2N is a multiple of N.
    pub(crate) fn thinning(&self) -> u32 {
        let eighths = self.awaited() * 8 / self.slots.len() as u32;
        1 << eighths
    }

    /// Returns the number of marks newer than the newest answered one.
    pub(crate) fn awaited(&self) -> u32 {
        (self.next - self.answered.max(self.oldest)) as u32
    }

    /// Returns when the oldest mark was sent that is newer than all answered ones.
    pub(crate) fn oldest_awaited(&self) -> Option<Nanos> {
        self.oldest_awaited
    }

    /// Returns the number of marks that wait for feedback, without the ambiguous ones.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns the number of marks since the start that got no feedback in time.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// Returns the number of boundary packets not marked because the ring was full.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    fn is_full(&self) -> bool {
        self.next - self.oldest == self.slots.len() as u64
    }

    fn push(&mut self, slot: Slot, tag: Tag) {
        *self.slot_mut(self.next) = slot;
        self.tags.set(self.next, tag);
        if self.oldest == self.next {
            self.due = slot.time.saturating_add(EXPIRY);
        }
        if tag.is_outstanding() {
            self.oldest_awaited.get_or_insert(slot.time);
        }
        self.next += 1;
    }

    /// Removes finished marks at the old end, and updates the values that a tick reads.
    fn settle(&mut self) {
        while self.oldest < self.next && self.tags.get(self.oldest) == Tag::DONE {
            self.oldest += 1;
        }
        let oldest = (self.oldest < self.next).then(|| self.slot(self.oldest).time);
        self.due = oldest.map_or(Nanos::MAX, |time| time.saturating_add(EXPIRY));
        self.oldest_awaited = (self.answered.max(self.oldest)..self.next)
            .find(|&number| self.tags.get(number).is_outstanding())
            .map(|number| self.slot(number).time);
    }

    fn drop_oldest(&mut self) {
        if self.tags.get(self.oldest).is_outstanding() {
            self.outstanding -= 1;
            self.expired += 1;
        }
        self.oldest += 1;
    }

    /// Returns the number of the unfinished mark of `fingerprint`. There is at most one.
    fn find(&self, fingerprint: u32) -> Option<u64> {
        let awaited = self.answered.max(self.oldest);
        let is_it = |number: &u64| self.slot(*number).fingerprint == fingerprint;
        let tag = Tag::of(fingerprint);
        self.tags
            .find(awaited..self.next, tag, is_it)
            .or_else(|| self.tags.find(self.oldest..awaited, tag, is_it))
    }

    fn index(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    fn mark(&self, number: u64) -> Mark {
        self.slot(number).mark(self.flows[self.index(number)])
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[self.index(number)]
    }

    fn slot_mut(&mut self, number: u64) -> &mut Slot {
        let index = self.index(number);
        &mut self.slots[index]
    }
}

#[cfg(test)]
mod tests;
