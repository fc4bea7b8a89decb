//! The timing of acknowledgements, as in Linux.

use forebay_units::Nanos;

use super::super::MSS;

/// The shortest delay of an acknowledgement (Linux's `TCP_ATO_MIN`, `TCP_DELACK_MIN`).
const DELAY_MIN: Nanos = Nanos::from_millis(40);
/// The longest delay of an acknowledgement (`TCP_DELACK_MAX`).
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// The number of immediate acknowledgements at the start and after a pause (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// The assumed size of a full segment before a larger one arrived.
const SEGMENT_FIRST: u64 = 536;
/// The number of duplicate acknowledgements sent at once, enough to start a recovery.
const DUPLICATES: u32 = 3;
/// The largest number of further ones that are compressed into one (`tcp_comp_sack_nr`).
const COMPRESSED: u32 = 44;
/// The longest delay of a compressed one in nanoseconds (`tcp_comp_sack_delay_ns`); it is also at
/// most a twentieth of the round trip.
const COMPRESSED_DELAY: u64 = 1_000_000;

/// The sender's measurements that the receiving half uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// The retransmission timeout.
    pub(crate) timeout: Nanos,
    /// The smoothed round-trip time in nanoseconds, zero before the first sample.
    pub(crate) smoothed: u64,
}

/// The state of acknowledgements.
#[derive(Debug)]
pub(super) struct Acks {
    /// The end of the acknowledged data.
    pub(super) acked: u64,
    /// Whether an acknowledgement must be sent now.
    pub(super) now: bool,
    /// Whether unacknowledged data has arrived.
    scheduled: bool,
    /// The time of the delayed acknowledgement, if any.
    pub(super) delayed: Option<Nanos>,
    /// The delay of an acknowledgement, adapted to the gaps between data.
    delay: Nanos,
    /// The number of immediate acknowledgements left.
    quick: u32,
    /// Whether this end answers what it receives, so that data can carry the acknowledgement.
    interactive: bool,
    /// The time at which data last arrived.
    last_data: Option<Nanos>,
    /// The largest segment that has arrived.
    full: u64,
    /// How many segments since the last acknowledgement were pushed or short.
    pushed: u32,
    /// The number of duplicate acknowledgements sent for `missing`.
    duplicates: u32,
    /// The next byte that duplicate acknowledgements ask for.
    missing: u64,
    /// The number of duplicate acknowledgements that are held back.
    compressed: u32,
    compressed_due: Option<Nanos>,
}

impl Acks {
    pub(super) fn new() -> Self {
        Self {
            acked: 0,
            now: false,
            scheduled: false,
            delayed: None,
            delay: DELAY_MIN,
            quick: 0,
            interactive: false,
            last_data: None,
            full: SEGMENT_FIRST,
            pushed: 0,
            duplicates: 0,
            missing: 0,
            compressed: 0,
            compressed_due: None,
        }
    }

    /// Records data in order, and adapts the delay to its gaps.
    pub(super) fn on_data(&mut self, now: Nanos, len: u64, push: bool, c: &Context) {
        self.scheduled = true;
        if len < self.full || push {
            self.pushed += 1;
        }
        self.full = self.full.max(len.min(MSS));
        match self.last_data.map(|t| now.saturating_sub(t)) {
            None => self.quick = self.quick.max(QUICK_ACKS),
            Some(gap) if gap <= DELAY_MIN / 2 => self.delay = self.delay / 2 + DELAY_MIN / 2,
            Some(gap) if gap < self.delay => self.delay = (self.delay / 2 + gap).min(c.timeout),
            Some(gap) if gap > c.timeout => self.quick = self.quick.max(QUICK_ACKS),
            Some(_) => {}
        }
        self.last_data = Some(now);
    }

    /// Acknowledges the next `quick` arrivals at once.
    pub(super) fn quick_ack(&mut self, quick: u32) {
        self.quick = self.quick.max(quick);
        (self.interactive, self.delay) = (false, DELAY_MIN);
    }

    /// Acknowledges at least the next arrival at once.
    pub(super) fn quick_ack_next(&mut self) {
        self.quick |= 1;
    }

    /// Ends the immediate acknowledgements.
    pub(super) fn stop_quick_acks(&mut self) {
        self.quick = 0;
    }

    /// Handles data that arrived twice.
    pub(super) fn on_duplicate(&mut self) {
        self.quick_ack(QUICK_ACKS);
        self.now = true;
    }

    /// Handles data out of order; `full` if a SACK block was lost from memory.
    pub(super) fn on_gap(&mut self, full: bool) {
        self.scheduled = true;
        self.now |= full && self.compressed > 0;
    }

    /// Decides when to acknowledge an arrival. `next` is the next byte expected, and `gaps` tells
    /// whether data beyond it has arrived.
    pub(super) fn decide(&mut self, now: Nanos, next: u64, gaps: bool, rtt: u64, c: &Context) {
        let several = next - self.acked > self.full;
        if several || (self.quick > 0 && !self.interactive) {
            self.now = true;
        }
        if self.now {
            return;
        }
        if gaps {
            self.compress(now, next, rtt, c);
        } else if self.pushed > 1 || (self.pushed == 1 && !self.interactive) {
            // The application has read all data.
            self.now = true;
        } else {
            self.delay_ack(now, c);
        }
    }

    fn compress(&mut self, now: Nanos, next: u64, rtt: u64, c: &Context) {
        if self.compressed >= COMPRESSED {
            self.now = true;
            return;
        }
        if self.missing != next {
            (self.missing, self.duplicates) = (next, 0);
        }
        if self.duplicates < DUPLICATES {
            self.duplicates += 1;
            self.now = true;
            return;
        }
        self.compressed += 1;
        let rtt = if c.smoothed > 0 { rtt.min(c.smoothed) } else { rtt };
        let delay = (rtt / 20).min(COMPRESSED_DELAY);
        self.compressed_due.get_or_insert(now.saturating_add(Nanos(delay)));
    }

    fn delay_ack(&mut self, now: Nanos, c: &Context) {
        let mut delay = self.delay;
        if delay > DELAY_MIN {
            let answers = self.interactive || self.pushed > 0;
            let mut most = if answers { DELAY_MAX } else { Nanos::from_millis(500) };
            if c.smoothed > 0 {
                most = most.min(Nanos(c.smoothed).max(DELAY_MIN));
            }
            delay = delay.min(most).min(DELAY_MAX);
        }
        match self.delayed {
            // The delayed acknowledgement is due soon, so it is sent now.
            Some(t) if t <= now.saturating_add(delay / 4) => self.now = true,
            Some(t) => self.delayed = Some(t.min(now.saturating_add(delay))),
            None => self.delayed = Some(now.saturating_add(delay)),
        }
    }

    /// Records that this end sends data.
    pub(super) fn on_answer(&mut self, now: Nanos) {
        self.interactive |= self.last_data.is_some_and(|t| now.saturating_sub(t) < self.delay);
    }

    pub(super) fn on_timer(&mut self, now: Nanos, c: &Context) {
        if self.delayed.is_some_and(|t| t <= now) {
            // The wait was in vain: waits longer next time, or stops waiting for answers.
            self.delay = if self.interactive { DELAY_MIN } else { (self.delay * 2).min(c.timeout) };
            self.interactive = false;
            self.now = true;
        }
        self.now |= self.compressed_due.is_some_and(|t| t <= now);
    }

    pub(super) fn deadline(&self) -> Nanos {
        let delayed = self.delayed.unwrap_or(Nanos::MAX);
        delayed.min(self.compressed_due.unwrap_or(Nanos::MAX))
    }

    /// Records that an acknowledgement up to `next` is sent.
    pub(super) fn on_sent(&mut self, next: u64) {
        self.acked = next;
        self.now = false;
        (self.delayed, self.compressed_due, self.compressed, self.pushed) = (None, None, 0, 0);
        if self.quick > 0 && std::mem::take(&mut self.scheduled) {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = DELAY_MIN;
            }
        }
        self.scheduled = false;
    }
}
