//! What the sendbox remembers of the boundary packets it sent.
//!
//! A ring in order of departure, and a chained hash table over it by fingerprint, both allocated
//! once. Older marks than the one that was answered last are kept until they expire, so that
//! feedback that comes out of order is recognised for what it is (Bundler section 5.2).

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos};

/// How long a mark waits for its feedback. Far beyond any round-trip time this serves; later
/// feedback counts as unmatched.
pub(crate) const EXPIRY: Nanos = Nanos::from_secs(2);

const NONE: u16 = u16::MAX;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Answered, or expired: waits to reach the end of the ring.
    Done,
    Outstanding,
    /// Its fingerprint was sent again: no feedback for it means anything.
    Ambiguous,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    mark: Mark,
    fingerprint: u32,
    chain: u16,
    state: State,
    /// When its fingerprint was last sent.
    last: Nanos,
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

/// The outstanding marks of one bundle. A look-up walks the few marks of one bucket; should someone
/// make fingerprints collide, at most the whole ring.
///
/// When the ring is full, the oldest mark goes if feedback has passed it by (its packet or its
/// feedback was lost); otherwise the new packet is not marked, so that those in flight still get
/// their answer. Long before that, [`Marks::thinning`] makes the sendbox mark fewer packets.
#[derive(Debug)]
pub(crate) struct Marks {
    slots: Box<[Slot]>,
    heads: Box<[u16]>,
    /// Numbers of the oldest mark in the ring and of the next to come; a number's slot is the number
    /// modulo the capacity.
    oldest: u64,
    next: u64,
    /// One past the number of the newest mark that was answered.
    answered: u64,
    outstanding: u32,
    expired: u64,
    refused: u64,
}

impl Marks {
    /// Room for `capacity` marks, a power of two of at most 2^15.
    pub(crate) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two() && capacity <= 1 << 15);
        let empty = Slot {
            mark: Mark::default(),
            fingerprint: 0,
            chain: NONE,
            state: State::Done,
            last: Nanos::ZERO,
        };
        Self {
            slots: vec![empty; capacity].into_boxed_slice(),
            heads: vec![NONE; capacity * 2].into_boxed_slice(),
            oldest: 0,
            next: 0,
            answered: 0,
            outstanding: 0,
            expired: 0,
            refused: 0,
        }
    }

    /// Remembers `mark`. A fingerprint that is still outstanding makes both ambiguous.
    pub(crate) fn record(&mut self, fingerprint: u32, mark: Mark) {
        self.expire(mark.time);
        if let Some(number) = self.find(fingerprint) {
            let slot = self.slot_mut(number);
            slot.last = mark.time;
            if slot.state == State::Outstanding {
                slot.state = State::Ambiguous;
                self.outstanding -= 1;
            }
            return;
        }
        if self.is_full() {
            if self.oldest >= self.answered {
                self.refused += 1;
                return;
            }
            self.drop_oldest();
        }
        self.outstanding += 1;
        self.push(fingerprint, mark, State::Outstanding, mark.time);
    }

    /// What feedback for `fingerprint` refers to. Nothing changes until [`Marks::answered`].
    pub(crate) fn find_match(&self, fingerprint: u32) -> Match {
        let Some(number) = self.find(fingerprint) else {
            return Match::Unmatched;
        };
        let slot = self.slot(number);
        match slot.state {
            State::Ambiguous => Match::Ambiguous,
            _ if number < self.answered => Match::OutOfOrder(Ticket(number)),
            _ => Match::InOrder(slot.mark, Ticket(number)),
        }
    }

    /// The mark got its feedback. Older ones stay until they expire.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        self.unlink(ticket.0);
        self.slot_mut(ticket.0).state = State::Done;
        self.outstanding -= 1;
        self.answered = self.answered.max(ticket.0 + 1);
    }

    /// Forgets marks that have waited for too long.
    pub(crate) fn expire(&mut self, now: Nanos) {
        // An ambiguous mark whose fingerprint keeps coming is moved to the young end, at most once
        // a call: its feedback would otherwise be taken for that of a later packet.
        for _ in self.oldest..self.next {
            let slot = *self.slot(self.oldest);
            match slot.state {
                State::Done => self.oldest += 1,
                _ if now.saturating_sub(slot.mark.time) < EXPIRY => break,
                State::Ambiguous if now.saturating_sub(slot.last) < EXPIRY => {
                    self.unlink(self.oldest);
                    self.oldest += 1;
                    let mark = Mark { time: slot.last, ..slot.mark };
                    self.push(slot.fingerprint, mark, State::Ambiguous, slot.last);
                }
                _ => self.drop_oldest(),
            }
        }
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
        (self.answered.max(self.oldest)..self.next)
            .map(|number| self.slot(number))
            .find(|slot| slot.state == State::Outstanding)
            .map(|slot| slot.mark.time)
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

    fn push(&mut self, fingerprint: u32, mark: Mark, state: State, last: Nanos) {
        let bucket = self.bucket(fingerprint);
        let index = self.index(self.next);
        self.slots[index] = Slot { mark, fingerprint, chain: self.heads[bucket], state, last };
        self.heads[bucket] = index as u16;
        self.next += 1;
    }

    fn drop_oldest(&mut self) {
        let slot = *self.slot(self.oldest);
        if slot.state != State::Done {
            self.unlink(self.oldest);
        }
        if slot.state == State::Outstanding {
            self.outstanding -= 1;
            self.expired += 1;
        }
        self.oldest += 1;
    }

    fn find(&self, fingerprint: u32) -> Option<u64> {
        let mut at = self.heads[self.bucket(fingerprint)];
        while at != NONE {
            let slot = &self.slots[usize::from(at)];
            if slot.fingerprint == fingerprint {
                return Some(self.number(at));
            }
            at = slot.chain;
        }
        None
    }

    fn unlink(&mut self, number: u64) {
        let target = self.index(number) as u16;
        let after = self.slots[usize::from(target)].chain;
        let bucket = self.bucket(self.slots[usize::from(target)].fingerprint);
        if self.heads[bucket] == target {
            self.heads[bucket] = after;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            let slot = &mut self.slots[usize::from(at)];
            if slot.chain == target {
                slot.chain = after;
                return;
            }
            at = slot.chain;
        }
    }

    /// Boundary fingerprints end in zeros, so the high bits of a product choose the bucket
    /// (Fibonacci hashing; the constant is 2^32 over the golden ratio).
    fn bucket(&self, fingerprint: u32) -> usize {
        let bits = self.heads.len().trailing_zeros();
        (fingerprint.wrapping_mul(0x9e37_79b9) >> (32 - bits)) as usize
    }

    fn index(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }

    /// The number of the mark in slot `at`, which must be in the ring.
    fn number(&self, at: u16) -> u64 {
        let capacity = self.slots.len() as u64;
        let from_oldest = (u64::from(at) + capacity - self.oldest % capacity) % capacity;
        self.oldest + from_oldest
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
