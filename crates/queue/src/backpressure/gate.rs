use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use forebay_units::{Bytes, Nanos};

use super::config::Config;
use super::flow::{FlowId, FlowPacket, Probe};
use super::regulator::{Regulator, Request};
use crate::error::within;
use crate::{ConfigError, DropReason, DropSink, Packet, Qdisc, Room};

/// A scheduled buffer, any qdisc, whose sources are paused and resumed instead of losing packets.
///
/// See the [module documentation](super) for how a source and a scheduler use it.
#[derive(Clone, Debug)]
pub struct Gate<P, Q> {
    qdisc: Q,
    regulator: Regulator,
    config: Config,
    /// The last lane, which has all classes past it too.
    last: u8,
    packets: PhantomData<fn(P)>,
}

/// A packet that was not enqueued, given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<P> {
    /// Its flow is paused now: keep the packet first in the source buffer until the flow is resumed.
    Paused(P),
    /// It does not fit although nothing waits before it, and never will: drop it, and count that.
    /// The flow is not paused.
    Never(P),
}

impl<P> fmt::Display for Refused<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused(_) => "no room: the flow is paused until it is resumed",
            Self::Never(_) => "the packet does not fit into the empty buffer: drop it",
        })
    }
}

impl<P: FlowPacket, Q: Qdisc<P>> Gate<P, Q> {
    /// Over `qdisc`, which must be empty.
    ///
    /// # Errors
    /// If a setting is out of range, the qdisc is not empty, or a packet of the largest size does
    /// not fit into it or one of its classes.
    pub fn new(config: Config, qdisc: Q) -> Result<Self, ConfigError> {
        config.check()?;
        let capacities = capacities(&qdisc, config.largest)?;
        let regulator = Regulator::new(&config, &capacities)?;
        let last = (capacities.len() - 1) as u8;
        Ok(Self { qdisc, regulator, config, last, packets: PhantomData })
    }

    fn request(&self, flow: FlowId, class: u8) -> Request {
        Request { flow, lane: class.min(self.last), class }
    }

    fn slots(&self, lane: u8) -> u32 {
        slots(self.qdisc.room(lane), self.config.largest)
    }

    /// Whether `flow` may enqueue a packet of `class` now, for sources that ask before they have the
    /// packet in hand. Changes nothing.
    ///
    /// # Panics
    /// If `flow` is out of range; so do all others that take one.
    #[inline]
    pub fn probe(&self, flow: FlowId, class: u8) -> Probe {
        let request = self.request(flow, class);
        self.regulator.probe(request, self.slots(request.lane))
    }

    /// Pauses `flow`, which wants to send a packet of `class`, if [`Gate::probe`] refuses it; and
    /// says so. `false` means that there is room: go on.
    #[inline]
    pub fn pause_flow(&mut self, now: Nanos, flow: FlowId, class: u8) -> bool {
        match self.probe(flow, class) {
            Probe::Go => return false,
            Probe::Paused => {}
            why => self.regulator.pause(now, self.request(flow, class), why, now),
        }
        true
    }

    /// Pauses `flow` until `at`, whether there is room or not, where the order is
    /// [`EarliestTime`](super::Order::EarliestTime); otherwise the same as [`Gate::pause_flow`]. A
    /// flow that is paused already stays as it is. One whose time is beyond the wheel's horizon is
    /// resumed early: call this again.
    pub fn pause_until(&mut self, now: Nanos, flow: FlowId, class: u8, at: Nanos) -> bool {
        if !self.regulator.is_timed() {
            return self.pause_flow(now, flow, class);
        }
        match self.probe(flow, class) {
            Probe::Paused => {}
            // Not for want of room: others go on.
            Probe::Go => self.regulator.pause(now, self.request(flow, class), Probe::Turn, at),
            why => self.regulator.pause(now, self.request(flow, class), why, at),
        }
        true
    }

    /// Enqueues `packet`, or pauses its flow and gives it back. No packet is dropped by this; the
    /// sink is there for disciplines that drop others on enqueueing, which those of this crate do
    /// not where they have room.
    ///
    /// # Errors
    /// [`Refused`], with the packet.
    pub fn offer(
        &mut self,
        now: Nanos,
        packet: P,
        drops: &mut dyn DropSink<P>,
    ) -> Result<(), Refused<P>> {
        let request = self.request(packet.flow(), packet.class());
        match self.regulator.probe(request, self.slots(request.lane)) {
            Probe::Go => {}
            Probe::Paused => return Err(Refused::Paused(packet)),
            why => {
                self.regulator.pause(now, request, why, now);
                return Err(Refused::Paused(packet));
            }
        }
        if !self.qdisc.probe(now, &packet) {
            // Room, but not for this packet: too long, or the qdisc has a limit for its flow. Only a
            // departure can change that, so if none is to come nothing ever will.
            if self.regulator.lane(request.lane).occupied == 0 {
                self.regulator.idle(request.flow);
                return Err(Refused::Never(packet));
            }
            self.regulator.pause_for_retry(now, request);
            return Err(Refused::Paused(packet));
        }
        self.regulator.enqueued(request);
        let Self { qdisc, regulator, last, .. } = self;
        qdisc.enqueue(now, packet, &mut Count { now, regulator, last: *last, drops });
        Ok(())
    }

    /// The next packet to send, as [`Qdisc::dequeue`]. Then resume those who wait: [`Gate::resume`].
    #[inline]
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        let Self { qdisc, regulator, last, .. } = self;
        let packet = qdisc.dequeue(now, &mut Count { now, regulator, last: *last, drops })?;
        regulator.left(now, packet.flow(), packet.class().min(*last));
        Some(packet)
    }

    /// Resumes one flow, if one waits and there is room: wake its source, which then offers its
    /// packets, or calls [`Gate::idle`] if it has none after all. The most urgent class comes first.
    #[inline]
    pub fn resume_flow(&mut self, now: Nanos) -> Option<FlowId> {
        (0..=self.last).find_map(|lane| {
            if !self.regulator.anyone_waits(lane) {
                return None;
            }
            let slots = self.slots(lane);
            self.regulator.resume(now, lane, slots)
        })
    }

    /// Resumes all flows whose turn it is: as many as there is room for. To be called after every
    /// dequeue, and after [`Gate::idle`], [`Gate::remove`] and [`Gate::reset`].
    pub fn resume(&mut self, now: Nanos) -> Resume<'_, P, Q> {
        Resume { gate: self, now }
    }

    /// `flow`, which was resumed, has nothing to send: its turn goes to another. Of one that was not
    /// resumed it changes nothing that counts.
    pub fn idle(&mut self, flow: FlowId) {
        self.regulator.idle(flow);
    }

    /// `flow` has ended, paused or not. Its packets in the buffer leave as always, and count for
    /// whoever has its number next until then.
    pub fn remove(&mut self, flow: FlowId) {
        self.regulator.remove(flow);
    }

    /// Replaces the buffer by `qdisc`, which is to be empty and of the same classes, and returns the
    /// old one with what waits in it. Flows that wait go on waiting, now for the new one's room:
    /// [`Gate::resume`] resumes them.
    ///
    /// # Errors
    /// As [`Gate::new`], or if the classes differ; nothing has changed then.
    pub fn replace(&mut self, now: Nanos, qdisc: Q) -> Result<Q, ConfigError> {
        let capacities = capacities(&qdisc, self.config.largest)?;
        let classes = u64::from(self.last) + 1;
        within("classes of the qdisc", capacities.len() as u64, classes, classes)?;
        self.regulator.reset(now, &capacities, self.config.hysteresis);
        Ok(core::mem::replace(&mut self.qdisc, qdisc))
    }

    /// Whether `flow` is paused.
    #[inline]
    pub fn is_paused(&self, flow: FlowId) -> bool {
        self.regulator.is_paused(flow)
    }

    /// Packets of `flow` in the buffer.
    #[inline]
    pub fn in_buffer(&self, flow: FlowId) -> u32 {
        self.regulator.in_buffer(flow)
    }

    /// Flows that are paused and wait for room, or for their turn. Those that have as many packets
    /// in the buffer as they may are not counted: what they wait for is in it.
    pub fn waiting(&self) -> u32 {
        self.regulator.lanes().iter().map(|lane| lane.waiting + lane.retrying).sum()
    }

    /// When there is next something to do, `now` or earlier meaning at once: a packet to dequeue, or
    /// a flow whose time comes. `None` if neither.
    pub fn next_event(&self, now: Nanos) -> Option<Nanos> {
        let due = self.regulator.next_due().filter(|_| self.slots(0) > 0);
        [self.qdisc.next_event(now), due].into_iter().flatten().min()
    }

    /// The scheduled buffer.
    pub fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// The scheduled buffer, to reconfigure it, such as a shaper's rate. Packets go in and out by
    /// the gate only, and its limits stay what they are: for others there is [`Gate::replace`].
    pub fn qdisc_mut(&mut self) -> &mut Q {
        &mut self.qdisc
    }
}

/// The flows that may send again, see [`Gate::resume`]. Those not taken from it go on waiting.
#[derive(Debug)]
pub struct Resume<'a, P, Q> {
    gate: &'a mut Gate<P, Q>,
    now: Nanos,
}

impl<P: FlowPacket, Q: Qdisc<P>> Iterator for Resume<'_, P, Q> {
    type Item = FlowId;

    fn next(&mut self) -> Option<FlowId> {
        self.gate.resume_flow(self.now)
    }
}

/// Counts a packet that the qdisc drops as one that has left.
struct Count<'a, P> {
    now: Nanos,
    regulator: &'a mut Regulator,
    last: u8,
    drops: &'a mut dyn DropSink<P>,
}

impl<P: FlowPacket> DropSink<P> for Count<'_, P> {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self.regulator.left(self.now, packet.flow(), packet.class().min(self.last));
        self.drops.dropped(packet, reason);
    }
}

/// How many packets of size `largest` fit.
fn slots(room: Room, largest: Bytes) -> u32 {
    u32::try_from(room.packets.min(room.bytes.0 / largest.0)).unwrap_or(u32::MAX)
}

/// The slots of each lane of an empty qdisc.
fn capacities<P: Packet, Q: Qdisc<P>>(qdisc: &Q, largest: Bytes) -> Result<Vec<u32>, ConfigError> {
    within("packets in the qdisc at first", qdisc.backlog().packets, 0, 0)?;
    let last = qdisc.classes().clamp(1, 256) - 1;
    let rooms = (0..=last as u8).map(|class| qdisc.room(class));
    rooms
        .map(|room| {
            within("largest", largest.0, 1, room.bytes.0)?;
            Ok(slots(room, largest))
        })
        .collect()
}
