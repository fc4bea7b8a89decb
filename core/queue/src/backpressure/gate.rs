//! The scheduled buffer with backpressure.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use forebay_units::{Bytes, Nanos};

use super::config::Config;
use super::flow::{FlowId, FlowPacket, Probe};
use super::regulator::{Regulator, Request};
use crate::error::within;
use crate::{ConfigError, DropReason, DropSink, Packet, Qdisc, Room};

/// A scheduled buffer over any qdisc that pauses and resumes its sources instead of dropping.
///
/// See the [module documentation](super) for how a source and a scheduler use it.
#[derive(Clone, Debug, Hash)]
pub struct Gate<P, Q> {
    qdisc: Q,
    regulator: Regulator,
    config: Config,
    /// The last lane, which higher classes share.
    last: u8,
    packets: PhantomData<fn(P)>,
}

/// A packet that was not enqueued and is returned to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<P> {
    /// The flow is now paused: keep the packet at the head of the source buffer until the flow is
    /// resumed.
    Paused(P),
    /// The packet does not fit even into the empty buffer: drop it and count the drop. The flow is
    /// not paused.
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
    /// Creates a gate over `qdisc`, which must be empty.
    ///
    /// # Errors
    /// Fails if a setting is out of range, the qdisc is not empty, or a packet of the largest size
    /// does not fit into it or one of its classes.
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

    /// Returns whether `flow` may enqueue a packet of `class` now, without any change of state. For
    /// sources that ask before they take the packet out of their buffer.
    ///
    /// # Panics
    /// Panics if `flow` is out of range, like all methods that take a flow.
    #[inline]
    pub fn probe(&self, flow: FlowId, class: u8) -> Probe {
        let request = self.request(flow, class);
        self.regulator.probe(request, self.slots(request.lane))
    }

    /// Pauses `flow`, which wants to send a packet of `class`, if [`Gate::probe`] refuses it.
    /// Returns whether the flow is paused; `false` means that the packet may be enqueued.
    #[inline]
    pub fn pause_flow(&mut self, now: Nanos, flow: FlowId, class: u8) -> bool {
        match self.probe(flow, class) {
            Probe::Go => return false,
            Probe::Paused => {}
            why => self.regulator.pause(now, self.request(flow, class), why, now),
        }
        true
    }

    /// Pauses `flow` until `at`, whether there is room or not, if the order is
    /// [`EarliestTime`](super::Order::EarliestTime). With other orders it is the same as
    /// [`Gate::pause_flow`].
    ///
    /// A flow that is already paused does not change. A flow whose time is beyond the wheel's
    /// horizon is resumed early; call this again then.
    pub fn pause_until(&mut self, now: Nanos, flow: FlowId, class: u8, at: Nanos) -> bool {
        if !self.regulator.is_timed() {
            return self.pause_flow(now, flow, class);
        }
        match self.probe(flow, class) {
            Probe::Paused => {}
            // There is room, so other flows may continue.
            Probe::Go => self.regulator.pause(now, self.request(flow, class), Probe::Turn, at),
            why => self.regulator.pause(now, self.request(flow, class), why, at),
        }
        true
    }

    /// Enqueues `packet`, or pauses its flow and returns the packet.
    ///
    /// The gate itself drops no packet. The sink is for qdiscs that drop other packets in
    /// `enqueue`; those of this crate do not if they have room.
    ///
    /// # Errors
    /// Returns the packet in [`Refused`] if it is not enqueued.
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
            // There is room, but not for this packet: it is too long, or its flow is at the qdisc's
            // limit. Only a departure can change that, and an empty lane has no departures.
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

    /// Returns the next packet to send, as [`Qdisc::dequeue`]. Call [`Gate::resume`] afterwards.
    #[inline]
    pub fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        let Self { qdisc, regulator, last, .. } = self;
        let packet = qdisc.dequeue(now, &mut Count { now, regulator, last: *last, drops })?;
        regulator.left(now, packet.flow(), packet.class().min(*last));
        Some(packet)
    }

    /// Resumes one flow if one waits and there is room; the most urgent class comes first.
    ///
    /// The caller wakes the flow's source, which then offers its packets, or calls [`Gate::idle`]
    /// if it has none.
    #[inline]
    pub fn resume_flow(&mut self, now: Nanos) -> Option<FlowId> {
        (0..=self.last).find_map(|lane| {
            if !self.regulator.has_waiting(lane) {
                return None;
            }
            let slots = self.slots(lane);
            self.regulator.resume(now, lane, slots)
        })
    }

    /// Resumes as many waiting flows as there is room for. Call this after every dequeue and after
    /// [`Gate::idle`], [`Gate::remove`] and [`Gate::replace`].
    pub fn resume(&mut self, now: Nanos) -> Resume<'_, P, Q> {
        Resume { gate: self, now }
    }

    /// Reports that `flow`, which was resumed, has nothing to send, so that its turn and room go to
    /// another flow.
    pub fn idle(&mut self, flow: FlowId) {
        self.regulator.idle(flow);
    }

    /// Reports that `flow` has ended, paused or not. Its packets in the buffer still leave as
    /// usual, and until then count for the next flow with the same number.
    pub fn remove(&mut self, flow: FlowId) {
        self.regulator.remove(flow);
    }

    /// Replaces the buffer with `qdisc` and returns the old one with the packets in it.
    ///
    /// The new qdisc must be empty and have the same number of classes. Waiting flows now wait for
    /// room in the new qdisc; [`Gate::resume`] resumes them.
    ///
    /// # Errors
    /// Fails as [`Gate::new`], or if the number of classes differs. Nothing changes then.
    pub fn replace(&mut self, now: Nanos, qdisc: Q) -> Result<Q, ConfigError> {
        let capacities = capacities(&qdisc, self.config.largest)?;
        let classes = u64::from(self.last) + 1;
        within("classes of the qdisc", capacities.len() as u64, classes, classes)?;
        self.regulator.reset(now, &capacities, self.config.hysteresis);
        Ok(core::mem::replace(&mut self.qdisc, qdisc))
    }

    /// Returns whether `flow` is paused.
    #[inline]
    pub fn is_paused(&self, flow: FlowId) -> bool {
        self.regulator.is_paused(flow)
    }

    /// Returns the number of packets of `flow` in the buffer.
    #[inline]
    pub fn in_buffer(&self, flow: FlowId) -> u32 {
        self.regulator.in_buffer(flow)
    }

    /// Returns the number of paused flows that wait for room or for their turn. Flows at their
    /// limit of packets in the buffer do not count: they wait for their own packets.
    pub fn waiting(&self) -> u32 {
        self.regulator.lanes().iter().map(|lane| lane.waiting + lane.retrying).sum()
    }

    /// Returns the time of the next action, a packet to dequeue or a flow to resume, or `None` if
    /// there is neither. `now` or earlier means at once.
    pub fn next_event(&self, now: Nanos) -> Option<Nanos> {
        let due = self.regulator.next_due().filter(|_| self.slots(0) > 0);
        [self.qdisc.next_event(now), due].into_iter().flatten().min()
    }

    /// Returns the scheduled buffer.
    pub fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// Returns the scheduled buffer for reconfiguration, such as a shaper's rate. Enqueue and
    /// dequeue only through the gate, and do not change the limits: use [`Gate::replace`] for that.
    pub fn qdisc_mut(&mut self) -> &mut Q {
        &mut self.qdisc
    }
}

/// An iterator over the flows that are resumed, see [`Gate::resume`]. It resumes a flow when it
/// returns it.
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

/// A drop sink that reports each dropped packet to the regulator as a departure.
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

/// Returns how many packets of size `largest` fit into `room`.
fn slots(room: Room, largest: Bytes) -> u32 {
    u32::try_from(room.packets.min(room.bytes.0 / largest.0)).unwrap_or(u32::MAX)
}

/// Returns the number of slots of each lane of an empty qdisc.
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
