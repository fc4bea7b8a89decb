//! The source-buffer regulator decides which flows may send, which wait and which are resumed.
//!
//! It implements Algorithm 2 of zD (section 4.3) with the additions listed in the module
//! documentation. It holds no packets and does not access the qdisc: its caller passes the number
//! of free *slots*, the packets of the largest size that fit.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use forebay_units::Nanos;

use super::config::{Config, Hysteresis, Order};
use super::flow::{FlowId, Phase, Probe, State};
use super::lane::Lane;
use super::paused::{Paused, Place};
use crate::ConfigError;
use crate::error::within;

/// A flow's request to send a packet of a class to a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) flow: FlowId,
    pub(super) lane: u8,
    pub(super) class: u8,
}

/// The state of all flows and lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Regulator {
    states: Box<[State]>,
    lanes: Box<[Lane]>,
    paused: Paused,
    in_buffer: u16,
    turn: u8,
    shares: bool,
}

impl Regulator {
    /// Creates a regulator for a buffer whose lanes have the slots `capacities`.
    pub(super) fn new(config: &Config, capacities: &[u32]) -> Result<Self, ConfigError> {
        config.check()?;
        if matches!(config.order, Order::EarliestTime { .. }) {
            within("classes of the qdisc", capacities.len() as u64, 1, 1)?;
        }
        let lane = |&capacity: &u32| Lane::new(capacity, config.hysteresis.packets(capacity));
        let lanes: Vec<_> = capacities.iter().map(lane).collect();
        Ok(Self {
            states: vec![State::default(); config.flows as usize].into(),
            paused: Paused::new(config, lanes.len() as u32)?,
            lanes: lanes.into(),
            in_buffer: config.in_buffer,
            turn: config.turn,
            shares: config.order == Order::RoundRobin,
        })
    }

    #[inline]
    fn state(&self, flow: FlowId) -> &State {
        &self.states[flow.0 as usize]
    }

    #[inline]
    pub(super) fn lane(&self, lane: u8) -> &Lane {
        &self.lanes[usize::from(lane)]
    }

    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Returns whether `flow` is paused.
    #[inline]
    pub(super) fn is_paused(&self, flow: FlowId) -> bool {
        self.state(flow).phase.is_paused()
    }

    /// Returns the number of packets of `flow` in the buffer.
    #[inline]
    pub(super) fn in_buffer(&self, flow: FlowId) -> u32 {
        u32::from(self.state(flow).in_buffer)
    }

    /// Returns how many packets a flow may have in `lane`.
    #[inline]
    fn limit(&self, lane: u8) -> u32 {
        let limit = u32::from(self.in_buffer);
        if self.shares { limit.min(self.lane(lane).share()) } else { limit }
    }

    /// Returns whether a packet may be enqueued while `slots` are free.
    #[inline]
    pub(super) fn probe(&self, request: Request, slots: u32) -> Probe {
        let (state, lane) = (self.state(request.flow), self.lane(request.lane));
        if state.phase.is_paused() {
            return Probe::Paused;
        }
        if u32::from(state.in_buffer) >= self.limit(request.lane) {
            return Probe::Limit;
        }
        let has_slot = state.phase == Phase::Resumed && state.lane == request.lane;
        let free = if has_slot { slots } else { lane.unclaimed(slots) };
        if free == 0 {
            return Probe::Full;
        }
        if lane.waiting > 0 && state.turn == 0 { Probe::Turn } else { Probe::Go }
    }

    /// Records that a packet was enqueued after `probe` allowed it.
    #[inline]
    pub(super) fn enqueued(&mut self, request: Request) {
        self.end_reservation(request.flow);
        self.lanes[usize::from(request.lane)].occupied += 1;
        self.change(request.flow, |state| {
            state.turn = state.turn.saturating_sub(1);
            state.in_buffer += 1;
            state.lane = request.lane;
        });
    }

    /// Pauses the flow for the reason that `probe` gave. `at` applies to a queue by time.
    pub(super) fn pause(&mut self, now: Nanos, request: Request, why: Probe, at: Nanos) {
        let Request { flow, lane, class } = request;
        // A resumed flow that still finds no room keeps its place at the front.
        let at_front = self.state(flow).phase == Phase::Resumed && why == Probe::Full;
        self.end_reservation(flow);
        if why == Probe::Full {
            self.lanes[usize::from(lane)].close();
        }
        self.change(flow, |state| (state.lane, state.class) = (lane, class));
        if why == Probe::Limit {
            self.change(flow, |state| state.phase = Phase::AtLimit);
        } else {
            self.queue(now, flow, at, at_front);
        }
    }

    /// Pauses the flow until a packet leaves its lane, after the qdisc refused its packet in spite
    /// of room.
    pub(super) fn pause_for_retry(&mut self, now: Nanos, request: Request) {
        let Request { flow, lane, class } = request;
        if self.is_timed() {
            // The flow retries in the next time slot of the wheel.
            self.pause(now, request, Probe::Turn, now.saturating_add(Nanos(1)));
            return;
        }
        self.end_reservation(flow);
        self.change(flow, |state| {
            (state.lane, state.class, state.phase) = (lane, class, Phase::Retrying);
        });
        self.lanes[usize::from(lane)].retrying += 1;
        self.paused.push_retry(flow.0, lane);
    }

    fn queue(&mut self, now: Nanos, flow: FlowId, at: Nanos, at_front: bool) {
        self.change(flow, |state| state.phase = Phase::Queued);
        let State { lane, class, in_buffer, .. } = *self.state(flow);
        self.lanes[usize::from(lane)].waiting += 1;
        let place = Place { lane, class, in_buffer, at };
        self.paused.push(now, flow.0, place, at_front);
    }

    /// Records that a packet of `flow` left `lane` of the buffer, sent or dropped.
    #[inline]
    pub(super) fn left(&mut self, now: Nanos, flow: FlowId, lane: u8) {
        let part = &mut self.lanes[usize::from(lane)];
        part.occupied = part.occupied.saturating_sub(1);
        // After the last departure all retry, since no later one would resume the rest.
        let more = if part.occupied == 0 { part.retrying } else { part.retries + 1 };
        part.retries = more.min(part.retrying);
        self.change(flow, |state| state.in_buffer = state.in_buffer.saturating_sub(1));
        let State { phase, lane, class, in_buffer, .. } = *self.state(flow);
        match phase {
            Phase::AtLimit if u32::from(in_buffer) < self.limit(lane) => {
                self.queue(now, flow, now, false);
            }
            Phase::Queued if self.paused.by_in_buffer() => {
                self.paused.remove(flow.0);
                let place = Place { lane, class, in_buffer, at: now };
                self.paused.push(now, flow.0, place, false);
            }
            _ => {}
        }
    }

    /// Resumes the next flow of `lane`, if one waits and the free `slots` allow it.
    #[inline]
    pub(super) fn resume(&mut self, now: Nanos, lane: u8, slots: u32) -> Option<FlowId> {
        let part = &mut self.lanes[usize::from(lane)];
        if part.retries > 0 && part.unclaimed(slots) > 0 {
            let flow = self.paused.pop_retry(lane)?;
            part.retries -= 1;
            part.retrying -= 1;
            return Some(self.mark_resumed(FlowId(flow)));
        }
        if part.waiting == 0 || !part.may_resume(slots) {
            return None;
        }
        let flow = self.paused.pop(now, lane)?;
        part.waiting -= 1;
        Some(self.mark_resumed(FlowId(flow)))
    }

    fn mark_resumed(&mut self, flow: FlowId) -> FlowId {
        let turn = self.turn;
        self.change(flow, |state| (state.phase, state.turn) = (Phase::Resumed, turn));
        self.lanes[usize::from(self.state(flow).lane)].reserved += 1;
        flow
    }

    /// Returns whether a flow waits that [`Regulator::resume`] might resume.
    #[inline]
    pub(super) fn has_waiting(&self, lane: u8) -> bool {
        let lane = self.lane(lane);
        lane.waiting > 0 || lane.retries > 0
    }

    /// Records that `flow` has nothing to send: its turn ends and its reserved slot becomes free.
    pub(super) fn idle(&mut self, flow: FlowId) {
        self.end_reservation(flow);
        self.change(flow, |state| state.turn = 0);
    }

    /// Records that `flow` has ended.
    pub(super) fn remove(&mut self, flow: FlowId) {
        let State { phase, lane, .. } = *self.state(flow);
        let part = &mut self.lanes[usize::from(lane)];
        match phase {
            Phase::Queued => {
                part.waiting -= 1;
                self.paused.remove(flow.0);
            }
            Phase::Retrying => {
                part.retrying -= 1;
                part.retries = part.retries.min(part.retrying);
                self.paused.remove(flow.0);
            }
            Phase::Active | Phase::Resumed | Phase::AtLimit => {}
        }
        self.end_reservation(flow);
        self.change(flow, |state| (state.phase, state.turn) = (Phase::Active, 0));
    }

    /// Adapts to a new, empty buffer whose lanes have the slots `capacities`. Waiting flows stay in
    /// the queue. The time grows with the number of flows.
    pub(super) fn reset(&mut self, now: Nanos, capacities: &[u32], hysteresis: Hysteresis) {
        for index in 0..self.states.len() as u32 {
            let flow = FlowId(index);
            if self.in_buffer(flow) > 0 {
                self.change(flow, |state| state.in_buffer = 1);
                self.left(now, flow, self.state(flow).lane);
            }
        }
        for (lane, &capacity) in self.lanes.iter_mut().zip(capacities) {
            lane.reset(capacity, hysteresis.packets(capacity));
        }
    }

    /// Returns whether flows are resumed by time.
    pub(super) fn is_timed(&self) -> bool {
        matches!(self.paused, Paused::Timed(_))
    }

    /// Returns the earliest time of a waiting flow, in a queue by time.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.paused.next_due()
    }

    /// Frees the slot that is reserved for a resumed flow, since the flow has responded.
    #[inline]
    fn end_reservation(&mut self, flow: FlowId) {
        let State { phase, lane, .. } = *self.state(flow);
        if phase == Phase::Resumed {
            self.lanes[usize::from(lane)].reserved -= 1;
            self.change(flow, |state| state.phase = Phase::Active);
        }
    }

    /// Changes a flow's state and updates the number of contenders of its lanes.
    #[inline]
    fn change(&mut self, flow: FlowId, change: impl FnOnce(&mut State)) {
        let state = &mut self.states[flow.0 as usize];
        let before = *state;
        change(state);
        let after = *state;
        if (before.contends(), before.lane) != (after.contends(), after.lane) {
            let lanes = &mut self.lanes;
            lanes[usize::from(before.lane)].contenders -= u32::from(before.contends());
            lanes[usize::from(after.lane)].contenders += u32::from(after.contends());
        }
    }
}
