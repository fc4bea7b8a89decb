//! A bundle's two boxes: the sendbox's queue, shaper and control loop, and the receivebox's counts.

use forebay_control::{ControlConfig, Feedback};
use forebay_queue::token_bucket::{self, Burst};
use forebay_queue::{DropSink, InOrder, Packet as _, Qdisc, TokenBucket};
use forebay_units::{Bytes, Nanos};

use crate::link::Queue;
use crate::network::RouteId;
use crate::packet::Queued;

/// How long feedback may be missing before the receivebox is told the epoch size again.
const REMIND_AFTER: Nanos = Nanos::from_millis(200);
/// What the receivebox's clock has that the simulation's has not, at first: a day, so that it can be
/// set back.
const RECEIVEBOX_AHEAD: i64 = 86_400_000_000_000;
/// The receivebox's epoch size before it is told one: as good as no samples.
const NO_EPOCH: u32 = 1 << 24;

/// How a bundle is set up.
pub struct BundleSetup {
    /// Its control loop.
    pub control: ControlConfig,
    /// Its queue at the sendbox.
    pub queue: Queue,
    /// What the shaper lets out at once after a pause.
    pub burst: Nanos,
    /// From the receivebox to the sendbox.
    pub feedback_route: RouteId,
    /// From the sendbox to the receivebox.
    pub update_route: RouteId,
    /// The lengths of feedback and of epoch updates on the wire.
    pub feedback_len: Bytes,
    /// See [`BundleSetup::feedback_len`].
    pub update_len: Bytes,
}

/// Packets at a sendbox. `received = sent + dropped + queued` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxCounters {
    /// That came from the site.
    pub received: u64,
    /// That left towards the path.
    pub sent: u64,
    /// That the queue dropped.
    pub dropped: u64,
    /// Of those that left, how many the queue marked: they came without the mark.
    pub marked: u64,
    /// That wait.
    pub queued: u64,
    /// Messages for the sendbox itself.
    pub messages: u64,
}

pub(crate) struct Bundle {
    shaper: TokenBucket<InOrder<Queued, Queue>>,
    pub(crate) control: forebay_control::ControlLoop,
    in_touch: Nanos,
    /// The earliest event that will look at the shaper.
    pub(crate) awaited: Nanos,
    pub(crate) counters: BoxCounters,
    pub(crate) receivebox: Receivebox,
    pub(crate) feedback_route: RouteId,
    pub(crate) update_route: RouteId,
    pub(crate) feedback_len: u16,
    pub(crate) update_len: u16,
    /// How far the sendbox's clock is ahead of the simulation's,
    sendbox_ahead: Nanos,
    /// and the receivebox's, in nanoseconds.
    receivebox_ahead: i64,
}

impl Bundle {
    pub(crate) fn new(
        setup: BundleSetup,
        now: Nanos,
    ) -> Result<Self, forebay_control::ConfigError> {
        let control = forebay_control::ControlLoop::new(setup.control, now)?;
        let config = token_bucket::Config { rate: control.rate(), burst: Burst::Time(setup.burst) };
        let len = |bytes: Bytes| u16::try_from(bytes.0).unwrap_or(u16::MAX);
        Ok(Self {
            shaper: TokenBucket::new(config, InOrder::new(setup.queue)),
            control,
            in_touch: now,
            awaited: Nanos::MAX,
            counters: BoxCounters::default(),
            receivebox: Receivebox::new(),
            feedback_route: setup.feedback_route,
            update_route: setup.update_route,
            feedback_len: len(setup.feedback_len),
            update_len: len(setup.update_len),
            sendbox_ahead: Nanos::ZERO,
            receivebox_ahead: RECEIVEBOX_AHEAD,
        })
    }

    pub(crate) fn enqueue(&mut self, now: Nanos, packet: Queued, drops: &mut dyn DropSink<Queued>) {
        self.counters.received += 1;
        self.shaper.enqueue(now, packet, drops);
    }

    /// The next packet that may leave now, which then counts as sent.
    pub(crate) fn dequeue(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink<Queued>,
    ) -> Option<Queued> {
        let packet = self.shaper.dequeue(now, drops)?;
        self.counters.sent += 1;
        self.counters.marked += u64::from(packet.marked);
        Some(packet)
    }

    pub(crate) fn shift_receivebox_clock(&mut self, by: i64) {
        self.receivebox_ahead = self.receivebox_ahead.saturating_add(by);
    }

    pub(crate) fn advance_sendbox_clock(&mut self, by: Nanos) {
        self.sendbox_ahead = self.sendbox_ahead.saturating_add(by);
    }

    /// A packet passes the receivebox; the feedback for it if it is a boundary.
    pub(crate) fn on_received(
        &mut self,
        now: Nanos,
        len: u16,
        fingerprint: u32,
    ) -> Option<Feedback> {
        let now = Nanos(now.0.saturating_add_signed(self.receivebox_ahead));
        self.receivebox.on_packet(now, len, fingerprint)
    }

    pub(crate) fn on_sent(&mut self, now: Nanos, packet: &Queued, fingerprint: u32) {
        let now = now.saturating_add(self.sendbox_ahead);
        self.control.on_sent(now, packet.len(), Some(fingerprint));
    }

    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.shaper.next_event(now)
    }

    pub(crate) fn backlog(&self) -> Bytes {
        self.shaper.backlog().bytes
    }

    pub(crate) fn counters(&self) -> BoxCounters {
        BoxCounters { queued: self.shaper.backlog().packets, ..self.counters }
    }

    pub(crate) fn on_feedback(&mut self, now: Nanos, feedback: &Feedback) {
        self.in_touch = now;
        self.counters.messages += 1;
        self.control.on_feedback(now.saturating_add(self.sendbox_ahead), feedback);
    }

    pub(crate) fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        self.counters.messages += 1;
        self.control.on_epoch_ack(now.saturating_add(self.sendbox_ahead), epoch);
    }

    /// The control loop's tick; an epoch size to tell the receivebox, if any.
    pub(crate) fn tick(&mut self, now: Nanos) -> Option<u32> {
        let theirs = now.saturating_add(self.sendbox_ahead);
        self.control.on_tick(theirs, self.backlog());
        self.shaper.set_rate(now, self.control.rate());
        self.shaper.child_mut().keep_order(self.control.keeps_order());
        let silent = now.saturating_sub(self.in_touch) >= REMIND_AFTER;
        let reminder = silent.then(|| self.control.epoch());
        let update = self.control.poll_epoch_update(theirs).or(reminder);
        if update.is_some() {
            self.in_touch = now;
        }
        update
    }
}

/// What the receivebox knows of a bundle.
pub(crate) struct Receivebox {
    /// A dead one counts nothing and answers nothing; packets pass it all the same.
    alive: bool,
    epoch: u32,
    bytes: u64,
    packets: u32,
    sequence: u64,
}

impl Receivebox {
    /// One that has just started: it counts from zero and was told nothing.
    pub(crate) fn new() -> Self {
        Self { alive: true, epoch: NO_EPOCH, bytes: 0, packets: 0, sequence: 0 }
    }

    pub(crate) fn kill(&mut self) {
        self.alive = false;
    }

    /// The sendbox's wish; whether there is somebody to acknowledge it.
    pub(crate) fn on_update(&mut self, epoch: u32) -> bool {
        if self.alive {
            self.epoch = epoch;
        }
        self.alive
    }

    /// A packet of the bundle passes; the feedback for it if it is a boundary.
    pub(crate) fn on_packet(&mut self, now: Nanos, len: u16, fingerprint: u32) -> Option<Feedback> {
        if !self.alive {
            return None;
        }
        self.bytes += u64::from(len);
        self.packets = self.packets.wrapping_add(1);
        if fingerprint & (self.epoch - 1) != 0 || self.epoch == NO_EPOCH {
            return None;
        }
        self.sequence += 1;
        Some(Feedback {
            fingerprint,
            epoch: self.epoch,
            bytes: Bytes(self.bytes),
            packets: self.packets,
            received_at: now,
            sequence: self.sequence,
        })
    }
}
