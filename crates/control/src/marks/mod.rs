//! What the sendbox remembers of the boundary packets it sent.
//!
//! A ring in order of departure, and beside it a byte for each mark by which a fingerprint is looked
//! for: the few that are under way are a cache line, and the five hundred at most are eight. Both are
//! allocated once. Older marks than the one that was answered last are kept until they expire, so that
//! feedback that comes out of order is recognised for what it is (Bundler section 5.2).

mod tags;

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos};

use tags::{Tag, Tags};

/// How long a mark waits for its feedback. Far beyond any round-trip time this serves; later
/// feedback counts as unmatched.
pub(crate) const EXPIRY: Nanos = Nanos::from_secs(2);

/// A boundary packet as it left the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// When it left.
    pub(crate) time: Nanos,
    /// The bundle's bytes sent by then, this packet included.
    pub(crate) bytes: Bytes,
    /// The bundle's packets sent by then, this packet included, modulo 2^32.
    pub(crate) packets: u32,
    /// Since when the bundle's own queue had not been empty: what left since then left at the rate
    /// that was set.
    pub(crate) limited_since: Nanos,
}

/// A mark in the ring: half as long as a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    time: Nanos,
    bytes: Bytes,
    packets: u32,
    fingerprint: u32,
    /// Of a mark: since when the queue had not been empty. Of one that has become ambiguous, which is
    /// given to nobody: when its fingerprint was last sent.
    since: Nanos,
}

impl Slot {
    fn new(fingerprint: u32, mark: Mark) -> Self {
        let Mark { time, bytes, packets, limited_since } = mark;
        Self { time, bytes, packets, fingerprint, since: limited_since }
    }

    fn mark(&self) -> Mark {
        let Self { time, bytes, packets, since, .. } = *self;
        Mark { time, bytes, packets, limited_since: since }
    }
}

/// What feedback for a fingerprint refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// A mark newer than every one that was answered before.
    InOrder(Mark, Ticket),
    /// A mark older than the newest that was answered.
    OutOfOrder(Ticket),
    /// A fingerprint that was sent twice.
    Ambiguous,
    /// Nothing that is remembered.
    Unmatched,
}

/// Names the mark that was matched, for [`Marks::answered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The outstanding marks of one bundle. A look-up compares a byte of each mark in the ring, first of
/// those that were sent last; should someone make these alike, it looks at the marks themselves.
///
/// When the ring is full, the oldest mark goes if feedback has passed it by (its packet or its
/// feedback was lost); otherwise the new packet is not marked, so that those in flight still get
/// their answer. Long before that, [`Marks::thinning`] makes the sendbox mark fewer packets.
#[derive(Debug)]
pub(crate) struct Marks {
    slots: Box<[Slot]>,
    tags: Tags,
    /// Numbers of the oldest mark in the ring and of the next to come; a number's slot is the number
    /// modulo the capacity.
    oldest: u64,
    next: u64,
    /// One past the number of the newest mark that was answered.
    answered: u64,
    outstanding: u32,
    expired: u64,
    refused: u64,
    /// What each tick asks, kept here so that it need not look at marks: when the oldest expires,
    due: Nanos,
    /// and when the oldest was sent that is newer than every one that was answered.
    oldest_awaited: Option<Nanos>,
}

impl Marks {
    /// Room for `capacity` marks, a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            tags: Tags::new(capacity),
            slots: vec![Slot::default(); capacity].into_boxed_slice(),
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

    /// Remembers `mark`. A fingerprint that is still outstanding makes both ambiguous.
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
        self.push(Slot::new(fingerprint, mark), Tag::of(fingerprint));
    }

    /// What feedback for `fingerprint` refers to. Nothing changes until [`Marks::answered`].
    pub(crate) fn find_match(&self, fingerprint: u32) -> Match {
        let Some(number) = self.find(fingerprint) else {
            return Match::Unmatched;
        };
        if !self.tags.get(number).is_outstanding() {
            Match::Ambiguous
        } else if number < self.answered {
            Match::OutOfOrder(Ticket(number))
        } else {
            Match::InOrder(self.slot(number).mark(), Ticket(number))
        }
    }

    /// The mark got its feedback. Older ones stay until they expire.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        self.tags.set(ticket.0, Tag::DONE);
        self.outstanding -= 1;
        self.answered = self.answered.max(ticket.0 + 1);
        self.settle();
    }

    /// Forgets marks that have waited for too long.
    pub(crate) fn expire(&mut self, now: Nanos) {
        if now < self.due {
            return;
        }
        // An ambiguous mark whose fingerprint keeps coming is moved to the young end, at most once
        // a call: its feedback would otherwise be taken for that of a later packet.
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

    /// By what factor, a power of two, to mark fewer packets than the epoch size asks for: one until
    /// an eighth of the ring awaits feedback, then twice as many for each further eighth. The
    /// receivebox need not know, since every multiple of 2N is a multiple of N.
    pub(crate) fn thinning(&self) -> u32 {
        let eighths = self.awaited() * 8 / self.slots.len() as u32;
        1 << eighths
    }

    /// Marks that were recorded after the newest that was answered.
    pub(crate) fn awaited(&self) -> u32 {
        (self.next - self.answered.max(self.oldest)) as u32
    }

    /// When the oldest mark was sent that is newer than every one that was answered.
    pub(crate) fn oldest_awaited(&self) -> Option<Nanos> {
        self.oldest_awaited
    }

    /// Marks that wait for feedback, ambiguous ones left out.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Marks that got no feedback in time, since the start.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// Boundary packets that were not marked because the ring was full.
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

    /// Lets go of what is done at the old end, and says anew what a tick asks.
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

    /// The mark of `fingerprint`, of which there is at most one that is not done.
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
