//! Turns: the engine's main loop.

use forebay_units::{Bytes, Nanos};

use super::config::TIME_BITS;
use super::cores::Step;
use super::engine::{Engine, note};
use super::flow::{FlowId, Place};
use super::queues::Moving;
use super::ranking::Ranking;
use super::transport::{Answer, Ask, Next, Transport};

/// The bytes that a packet counts for at least: those of the shortest Ethernet frame (IEEE 802.3,
/// section 3.2.8). Without it, a flow of empty packets would never have had its share.
const SHORTEST: u64 = 64;
/// The result of [`Engine::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Turns in which a flow sent at least one packet.
    pub turns: u32,
    /// Packets that flows sent.
    pub packets: u32,
    /// Bytes that flows sent.
    pub bytes: Bytes,
    /// When to poll again. Without a time, only [`Engine::wake`], [`Engine::departed`] or
    /// [`Engine::set_policy`] change anything, and the caller polls after those.
    pub next: Option<Nanos>,
}

impl<R: Ranking> Engine<R> {
    /// Gives flows their turn while there is room: up to [`Config::turns`] of them.
    #[inline]
    pub fn poll<T: Transport>(&mut self, now: Nanos, transport: &mut T) -> Polled {
        let mut polled = Polled::default();
        self.move_changing(now);
        let by_time = self.ranking.by_time();
        if !by_time {
            self.release(now);
        }
        if let Some(until) = self.keep_step(now) {
            polled.next = Some(until);
            return polled;
        }
        self.load.ready = self.queues.ranked();
        // Besides its turns, a poll moves flows that were beyond the span of their queue.
        let mut effort = 2 * self.config.turns;
        let mut moving = Moving::default();
        for _ in 0..self.config.turns {
            if !self.load.has_room() {
                break;
            }
            let next = if by_time {
                self.queues.pop_due(now, &mut self.flows, &mut effort)
            } else {
                self.queues.pop_ranked(self.ranking.low(now), &mut self.flows, &mut effort)
            };
            let Some(index) = next else { break };
            self.turn(now, index, transport, &mut polled, &mut moving);
        }
        self.queues.finish(now, &mut self.flows, &mut self.ranking, moving);
        polled.next = self.next(now);
        polled
    }

    /// Asks the transport for the segments of a flow, and queues the flow again if it has more.
    #[inline]
    fn turn<T: Transport>(
        &mut self,
        now: Nanos,
        index: u32,
        transport: &mut T,
        polled: &mut Polled,
        moving: &mut Moving,
    ) {
        let flow = self.flows.at(index);
        let bytes = Bytes(self.config.sizing.turn(flow.segment, &self.load));
        let id = FlowId { index, generation: flow.generation };
        let ask = Ask { flow: id, now, due: Nanos(flow.at), bytes, load: &self.load };
        let Answer { bytes, packets, next } = transport.send(ask);
        if packets == 0 {
            return;
        }
        polled.turns += 1;
        polled.packets += packets;
        polled.bytes += bytes;
        self.load.free_packets = self.load.free_packets.saturating_sub(packets);
        self.load.free_bytes = self.load.free_bytes.saturating_sub(bytes.0);
        let charge = bytes.0.max(SHORTEST * u64::from(packets));
        flow.in_host = flow.in_host.saturating_add(packets.min(u32::from(u16::MAX)) as u16);
        self.ranking.served(&mut flow.account, flow.rank, charge);
        if flow.time_per_byte > 0 {
            let gap = (u128::from(charge) * u128::from(flow.time_per_byte)) >> TIME_BITS;
            let earliest = now.0.saturating_sub(self.config.credit.0);
            flow.at = flow.at.max(earliest).saturating_add(gap as u64);
        }
        let Next::Ready(hint) = next else { return };
        note(&mut flow.account, hint);
        if flow.in_host >= self.config.in_host {
            flow.place = Place::Held;
        } else {
            let Self { flows, queues, ranking, .. } = self;
            queues.push_later(now, flows, ranking, index, moving);
        }
    }

    /// Moves flows whose time has come to the queue by rank, twice as many as can be served.
    fn release(&mut self, now: Nanos) {
        let mut effort = 2 * self.config.turns;
        for _ in 0..2 * self.config.turns {
            let Some(index) = self.queues.pop_due(now, &mut self.flows, &mut effort) else {
                return;
            };
            self.queues.push(now, &mut self.flows, &mut self.ranking, index);
        }
    }

    /// Moves flows from the policy before to the present one, twice as many as can be served.
    fn move_changing(&mut self, now: Nanos) {
        if !self.queues.is_changing() && self.pending.is_none() {
            return;
        }
        for _ in 0..2 * self.config.turns {
            let Some(index) = self.queues.pop_changing(&mut self.flows) else { break };
            self.queues.push(now, &mut self.flows, &mut self.ranking, index);
        }
        if !self.queues.is_changing()
            && let Some(ranking) = self.pending.take()
        {
            self.set_policy(ranking);
        }
    }

    /// Publishes the virtual time to other cores. Returns a time if this core must wait for them.
    #[inline]
    fn keep_step(&mut self, now: Nanos) -> Option<Nanos> {
        let seat = self.seat.as_mut()?;
        let waits = self.queues.ranked() > 0;
        loop {
            let Some(clock) = self.ranking.clock().filter(|_| waits) else {
                seat.leave();
                return None;
            };
            match seat.step(now, clock) {
                Step::Go => return None,
                // Happens once, since the core has begun then.
                Step::Join(clock) => self.ranking.join(clock),
                Step::Wait(until) => return Some(until),
            }
        }
    }

    #[inline]
    fn next(&self, now: Nanos) -> Option<Nanos> {
        if self.queues.is_changing() || self.pending.is_some() {
            return Some(now);
        }
        if !self.load.has_room() {
            return None;
        }
        if self.queues.ranked() > 0 {
            return Some(now);
        }
        self.queues.next_due().map(|due| due.max(now))
    }
}
