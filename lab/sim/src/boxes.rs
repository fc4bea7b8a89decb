//! The two boxes of a bundle: the sendbox's queue, shaper and control loop, and the receivebox's
//! counters.

use forebay_control::{ControlConfig, Feedback, Others, Transfers};
use forebay_queue::token_bucket::{self, Burst};
use forebay_queue::{DropSink, InOrder, Packet as _, Qdisc, TokenBucket};
use forebay_units::{Bytes, Nanos};

use crate::link::Queue;
use crate::network::RouteId;
use crate::packet::Queued;

/// The time without feedback after which the sendbox sends the epoch size again.
const REMIND_AFTER: Nanos = Nanos::from_millis(200);
/// The initial offset of the receivebox's clock: a day in nanoseconds, so that it can be set back.
const RECEIVEBOX_AHEAD: i64 = 86_400_000_000_000;
/// The receivebox's epoch size before it receives one; it then takes no samples.
const NO_EPOCH: u32 = 1 << 24;

/// The configuration of a bundle.
pub struct BundleSetup {
    /// The configuration of the control loop.
    pub control: ControlConfig,
    /// The queue at the sendbox.
    pub queue: Queue,
    /// The shaper's burst, as time at its rate.
    pub burst: Nanos,
    /// The route of feedback, from the receivebox to the sendbox.
    pub feedback_route: RouteId,
    /// The route of epoch updates, from the sendbox to the receivebox.
    pub update_route: RouteId,
    /// The length of a feedback packet on the wire.
    pub feedback_len: Bytes,
    /// The length of an epoch update on the wire.
    pub update_len: Bytes,
    /// Whether the bundle carries other bundles, so that these are not others beside it.
    pub outer: bool,
}

/// The packet counters of a sendbox. `received = sent + dropped + queued` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxCounters {
    /// Packets that came from the site.
    pub received: u64,
    /// Packets that left towards the path.
    pub sent: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that left and that the queue marked; they arrived without the mark.
    pub marked: u64,
    /// Packets that wait in the queue.
    pub queued: u64,
    /// Messages that the sendbox itself received.
    pub messages: u64,
}

/// What a sendbox does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendboxState {
    /// It forwards every packet at once and measures nothing.
    Forwards,
    /// It controls its bundle.
    Controls,
    /// It is dead, and nothing passes it.
    Dead,
}

/// A bundle with its sendbox and receivebox.
pub(crate) struct Bundle {
    pub(crate) state: SendboxState,
    config: ControlConfig,
    /// Packets that were queued when the sendbox died.
    left_behind: u64,
    shaper: TokenBucket<InOrder<Queued, Queue>>,
    pub(crate) control: forebay_control::ControlLoop,
    transfers: Transfers,
    /// When feedback last came or an epoch update was last sent.
    in_touch: Nanos,
    /// The time of the earliest pending event that serves the shaper.
    pub(crate) awaited: Nanos,
    pub(crate) counters: BoxCounters,
    pub(crate) receivebox: Receivebox,
    pub(crate) feedback_route: RouteId,
    pub(crate) update_route: RouteId,
    pub(crate) feedback_len: u16,
    pub(crate) update_len: u16,
    pub(crate) outer: bool,
    /// The offset of the sendbox's clock from the simulation's.
    sendbox_ahead: Nanos,
    /// The offset of the receivebox's clock from the simulation's, in nanoseconds.
    receivebox_ahead: i64,
}

impl Bundle {
    pub(crate) fn new(
        setup: BundleSetup,
        now: Nanos,
    ) -> Result<Self, forebay_control::ConfigError> {
        let control = forebay_control::ControlLoop::new(setup.control, now)?;
        let burst = Burst::Time(setup.burst);
        let config = token_bucket::Config { rate: control.rate(), burst, ..Default::default() };
        let len = |bytes: Bytes| u16::try_from(bytes.0).unwrap_or(u16::MAX);
        Ok(Self {
            state: SendboxState::Controls,
            config: setup.control,
            left_behind: 0,
            shaper: TokenBucket::new(config, InOrder::new(setup.queue)),
            control,
            transfers: Transfers::new(),
            in_touch: now,
            awaited: Nanos::MAX,
            counters: BoxCounters::default(),
            receivebox: Receivebox::new(),
            feedback_route: setup.feedback_route,
            update_route: setup.update_route,
            feedback_len: len(setup.feedback_len),
            update_len: len(setup.update_len),
            outer: setup.outer,
            sendbox_ahead: Nanos::ZERO,
            receivebox_ahead: RECEIVEBOX_AHEAD,
        })
    }

    pub(crate) fn enqueue(&mut self, now: Nanos, packet: Queued, drops: &mut dyn DropSink<Queued>) {
        self.counters.received += 1;
        self.shaper.enqueue(now, packet, drops);
    }

    /// Returns the next packet that may leave now, and counts it as sent.
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

    /// The bytes that its receivebox has counted.
    pub(crate) fn received_bytes(&self) -> Bytes {
        Bytes(self.receivebox.bytes)
    }

    /// Starts the sendbox, which knows nothing of the path.
    pub(crate) fn start_sendbox(&mut self, now: Nanos) {
        let theirs = now.saturating_add(self.sendbox_ahead);
        // The configuration was accepted when the bundle was created.
        if let Ok(control) = forebay_control::ControlLoop::new(self.config, theirs) {
            self.control = control;
        }
        self.shaper.set_rate(now, self.control.rate());
        self.in_touch = now;
        self.state = SendboxState::Controls;
    }

    /// Kills the sendbox. Its queued packets are lost and go to `lost`.
    pub(crate) fn kill_sendbox(&mut self, now: Nanos, lost: &mut dyn FnMut(Queued)) {
        self.state = SendboxState::Dead;
        self.shaper.set_rate(now, None);
        let mut dropped = Vec::new();
        while let Some(packet) = self.shaper.dequeue(now, &mut |p, _| dropped.push(p)) {
            dropped.push(packet);
        }
        self.left_behind += dropped.len() as u64;
        dropped.into_iter().for_each(lost);
    }

    pub(crate) fn shift_receivebox_clock(&mut self, by: i64) {
        self.receivebox_ahead = self.receivebox_ahead.saturating_add(by);
    }

    pub(crate) fn advance_sendbox_clock(&mut self, by: Nanos) {
        self.sendbox_ahead = self.sendbox_ahead.saturating_add(by);
    }

    /// Counts a packet at the receivebox. Returns the feedback if it is a boundary packet.
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
        if self.state == SendboxState::Forwards {
            return;
        }
        let now = now.saturating_add(self.sendbox_ahead);
        let round_trip = self.control.rtt().unwrap_or_default();
        let len = packet.len();
        let flow = packet.flow_hash;
        let noted = self.transfers.note(0, flow, [packet.arrived, now], len, round_trip);
        self.control.on_sent(now, len, Some(fingerprint), Some(noted.position));
    }

    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.shaper.next_event(now)
    }

    pub(crate) fn backlog(&self) -> Bytes {
        self.shaper.backlog().bytes
    }

    pub(crate) fn counters(&self) -> BoxCounters {
        let queued = self.shaper.backlog().packets + self.left_behind;
        BoxCounters { queued, ..self.counters }
    }

    pub(crate) fn on_feedback(&mut self, now: Nanos, feedback: &Feedback) {
        if self.state != SendboxState::Controls {
            return;
        }
        self.in_touch = now;
        self.counters.messages += 1;
        self.control.on_feedback(now.saturating_add(self.sendbox_ahead), feedback);
    }

    pub(crate) fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        if self.state != SendboxState::Controls {
            return;
        }
        self.counters.messages += 1;
        self.control.on_epoch_ack(now.saturating_add(self.sendbox_ahead), epoch);
    }

    /// Runs a tick of the control loop. Returns an epoch size to send to the receivebox, if any.
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

/// The receivebox's state of a bundle.
pub(crate) struct Receivebox {
    /// Whether the receivebox runs. If not, packets pass without being counted.
    alive: bool,
    epoch: u32,
    bytes: u64,
    packets: u32,
    sequence: u64,
}

impl Receivebox {
    /// Creates a receivebox that has just started, with counters at zero and without an epoch size.
    pub(crate) fn new() -> Self {
        Self { alive: true, epoch: NO_EPOCH, bytes: 0, packets: 0, sequence: 0 }
    }

    pub(crate) fn kill(&mut self) {
        self.alive = false;
    }

    /// Handles an epoch update. Returns whether the receivebox acknowledges it.
    pub(crate) fn on_update(&mut self, epoch: u32) -> bool {
        if self.alive {
            self.epoch = epoch;
        }
        self.alive
    }

    /// Counts a packet of the bundle. Returns the feedback if it is a boundary packet.
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
            others: Others::default(),
            sequence: self.sequence,
        })
    }
}
