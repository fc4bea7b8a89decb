//! When to acknowledge.

use forebay_units::Nanos;

use super::super::MSS;

/// The least delay of an acknowledgement (Linux's `TCP_ATO_MIN`, `TCP_DELACK_MIN`),
const DELAY_MIN: Nanos = Nanos::from_millis(40);
/// and the most (`TCP_DELACK_MAX`).
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// Acknowledgements sent at once at the start and after a pause (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// A segment that large is taken to be full before a larger one came.
const SEGMENT_FIRST: u64 = 536;
/// Duplicate acknowledgements that are sent at once: enough to start a recovery.
const DUPLICATES: u32 = 3;
/// Further ones are put together, so many (`tcp_comp_sack_nr`),
const COMPRESSED: u32 = 44;
/// for a twentieth of a round trip and at most so long (`tcp_comp_sack_delay_ns`).
const COMPRESSED_DELAY: u64 = 1_000_000;

/// What this end knows of the connection beside what arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// The retransmission timeout.
    pub(crate) timeout: Nanos,
    /// The smoothed round-trip time in nanoseconds, zero before the first sample.
    pub(crate) smoothed: u64,
}

#[derive(Debug)]
pub(super) struct Acks {
    /// Up to where all is acknowledged.
    pub(super) acked: u64,
    /// An acknowledgement has to go out.
    pub(super) now: bool,
    /// Data came that is not acknowledged.
    scheduled: bool,
    pub(super) delayed: Option<Nanos>,
    /// The delay of an acknowledgement: how often data comes.
    delay: Nanos,
    quick: u32,
    /// This end answers what it receives, so that an acknowledgement may ride on the answer.
    conversation: bool,
    /// When data came last.
    heard: Option<Nanos>,
    /// The largest segment that came.
    full: u64,
    /// The peer pushed, or sent less than a full segment; once, or again.
    pushed: u32,
    /// Duplicate acknowledgements, for which next byte, and those not sent yet.
    duplicates: u32,
    missing: u64,
    compressed: u32,
    kick: Option<Nanos>,
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
            conversation: false,
            heard: None,
            full: SEGMENT_FIRST,
            pushed: 0,
            duplicates: 0,
            missing: 0,
            compressed: 0,
            kick: None,
        }
    }

    /// Data came in order: how often does it?
    pub(super) fn on_data(&mut self, now: Nanos, len: u64, push: bool, c: &Context) {
        self.scheduled = true;
        if len < self.full || push {
            self.pushed += 1;
        }
        self.full = self.full.max(len.min(MSS));
        match self.heard.map(|t| now.saturating_sub(t)) {
            None => self.quick = self.quick.max(QUICK_ACKS),
            Some(gap) if gap <= DELAY_MIN / 2 => self.delay = self.delay / 2 + DELAY_MIN / 2,
            Some(gap) if gap < self.delay => self.delay = (self.delay / 2 + gap).min(c.timeout),
            Some(gap) if gap > c.timeout => self.quick = self.quick.max(QUICK_ACKS),
            Some(_) => {}
        }
        self.heard = Some(now);
    }

    /// Acknowledge the next `quick` arrivals at once.
    pub(super) fn hurry(&mut self, quick: u32) {
        self.quick = self.quick.max(quick);
        (self.conversation, self.delay) = (false, DELAY_MIN);
    }

    /// The next arrival is acknowledged at once, if nothing else is known.
    pub(super) fn quicken(&mut self) {
        self.quick |= 1;
    }

    /// No arrival is acknowledged at once for being one of the first.
    pub(super) fn slow_down(&mut self) {
        self.quick = 0;
    }

    /// Something came twice.
    pub(super) fn on_duplicate(&mut self) {
        self.hurry(QUICK_ACKS);
        self.now = true;
    }

    /// Something came out of order; `full` if the memory for blocks is.
    pub(super) fn on_gap(&mut self, full: bool) {
        self.scheduled = true;
        self.now |= full && self.compressed > 0;
    }

    /// Decides about what came: `next` is now expected, with `gaps` behind it or without.
    pub(super) fn decide(&mut self, now: Nanos, next: u64, gaps: bool, rtt: u64, c: &Context) {
        let several = next - self.acked > self.full;
        if several || (self.quick > 0 && !self.conversation) {
            self.now = true;
        }
        if self.now {
            return;
        }
        if gaps {
            self.compress(now, next, rtt, c);
        } else if self.pushed > 1 || (self.pushed == 1 && !self.conversation) {
            // The application has read all there is.
            self.now = true;
        } else {
            self.hold_back(now, c);
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
        self.kick.get_or_insert(now.saturating_add(Nanos(delay)));
    }

    fn hold_back(&mut self, now: Nanos, c: &Context) {
        let mut delay = self.delay;
        if delay > DELAY_MIN {
            let talk = self.conversation || self.pushed > 0;
            let mut most = if talk { DELAY_MAX } else { Nanos::from_millis(500) };
            if c.smoothed > 0 {
                most = most.min(Nanos(c.smoothed).max(DELAY_MIN));
            }
            delay = delay.min(most).min(DELAY_MAX);
        }
        match self.delayed {
            // It is about to be sent anyway.
            Some(t) if t <= now.saturating_add(delay / 4) => self.now = true,
            Some(t) => self.delayed = Some(t.min(now.saturating_add(delay))),
            None => self.delayed = Some(now.saturating_add(delay)),
        }
    }

    /// This end sends data.
    pub(super) fn on_answer(&mut self, now: Nanos) {
        self.conversation |= self.heard.is_some_and(|t| now.saturating_sub(t) < self.delay);
    }

    pub(super) fn on_timer(&mut self, now: Nanos, c: &Context) {
        if self.delayed.is_some_and(|t| t <= now) {
            // In vain: wait longer, or give up waiting for answers.
            self.delay =
                if self.conversation { DELAY_MIN } else { (self.delay * 2).min(c.timeout) };
            self.conversation = false;
            self.now = true;
        }
        self.now |= self.kick.is_some_and(|t| t <= now);
    }

    pub(super) fn deadline(&self) -> Nanos {
        let delayed = self.delayed.unwrap_or(Nanos::MAX);
        delayed.min(self.kick.unwrap_or(Nanos::MAX))
    }

    /// An acknowledgement of all up to `next` is sent.
    pub(super) fn on_sent(&mut self, next: u64) {
        self.acked = next;
        self.now = false;
        (self.delayed, self.kick, self.compressed, self.pushed) = (None, None, 0, 0);
        if self.quick > 0 && std::mem::take(&mut self.scheduled) {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = DELAY_MIN;
            }
        }
        self.scheduled = false;
    }
}
