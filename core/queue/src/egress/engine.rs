//! The engine: flows are opened, woken, measured and closed.

use forebay_units::{Bytes, Nanos};

use super::config::{Config, Settings};
use super::cores::Seat;
use super::flow::{FlowId, Flows, Place};
use super::queues::{Moving, Queues};
use super::ranking::{Account, Policy, Ranking};
use super::sizing::{Load, Sample};
use super::transport::Hint;
use crate::ConfigError;

/// How many flows ahead [`Engine::wake_all`] prefetches.
const AHEAD: usize = 24;

/// An egress engine of one core: it decides which flow sends next, and how much.
///
/// See the [module](super) for an example.
#[derive(Debug)]
pub struct Engine<R = Policy> {
    pub(super) config: Config,
    pub(super) flows: Flows,
    pub(super) queues: Queues,
    pub(super) ranking: R,
    /// A policy that takes effect when the change before it is complete.
    pub(super) pending: Option<R>,
    pub(super) load: Load,
    pub(super) seat: Option<Seat>,
}

/// Packets of a flow that left the host's queue together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The number of packets.
    pub packets: u32,
    /// The bytes of these packets.
    pub bytes: Bytes,
    /// The time of the turn in which they were sent ([`Ask::now`](super::Ask::now)).
    pub asked: Nanos,
}

/// The memory of an engine in bytes. All of it is allocated at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The state of the flows.
    pub flows: usize,
    /// The queues in which flows wait.
    pub queues: usize,
}

impl Memory {
    /// Returns all bytes together.
    pub fn total(&self) -> usize {
        self.flows + self.queues
    }
}

impl<R: Ranking> Engine<R> {
    /// Creates an engine without flows.
    ///
    /// # Errors
    /// Fails if a setting is out of range.
    pub fn new(config: Config, ranking: R) -> Result<Self, ConfigError> {
        config.check()?;
        let Config { flows, granularity, wheel_bits, .. } = config;
        Ok(Self {
            queues: Queues::new(flows, granularity, wheel_bits, ranking.shift())?,
            flows: Flows::new(flows),
            load: Load {
                free_packets: config.packets,
                free_bytes: config.bytes.0,
                ready: 0,
                host_delay: Nanos::ZERO,
                pressure: 0,
            },
            config,
            ranking,
            pending: None,
            seat: None,
        })
    }

    /// Makes this engine keep step with those of other cores; see [`cores`](super::cores).
    #[must_use]
    pub fn with_seat(mut self, seat: Seat) -> Self {
        self.seat = Some(seat);
        self
    }

    /// Opens a flow, or returns `None` if there are [`Config::flows`] already.
    ///
    /// # Errors
    /// Fails if a setting is out of range.
    pub fn open(&mut self, settings: Settings) -> Result<Option<FlowId>, ConfigError> {
        settings.check()?;
        Ok(self.flows.open(&settings, self.config.sizing.initial))
    }

    /// Closes a flow in constant time. Returns whether it was open.
    ///
    /// Its packets in the host's queue still count until [`Engine::departed`] reports them.
    pub fn close(&mut self, flow: FlowId) -> bool {
        let Some(state) = self.flows.get(flow) else { return false };
        if state.place == Place::Queued {
            self.queues.remove(&mut self.flows, flow.index);
        }
        self.flows.close(flow.index);
        true
    }

    /// Changes the settings of a flow from its next turn on. Returns whether it is open.
    ///
    /// # Errors
    /// Fails if a setting is out of range.
    pub fn set(&mut self, flow: FlowId, settings: Settings) -> Result<bool, ConfigError> {
        settings.check()?;
        let Some(state) = self.flows.get_mut(flow) else { return Ok(false) };
        state.account.set_weight(settings.weight);
        state.time_per_byte = settings.time_per_byte();
        Ok(true)
    }

    /// Sets the size of the flow's segments by a measurement of its transport.
    pub fn measured(&mut self, flow: FlowId, sample: Sample) {
        let segment = self.config.sizing.segment(sample.network_rate());
        if let Some(state) = self.flows.get_mut(flow) {
            state.segment = segment.0 as u32;
        }
    }

    /// Prefetches what [`Engine::wake`] and [`Engine::departed`] read of a flow. Call it for
    /// several flows before the first of these calls.
    #[inline]
    pub fn prefetch(&self, flow: FlowId) {
        self.flows.prefetch(flow.index);
    }

    /// Reports that a flow has something to send. Returns whether the flow is open.
    ///
    /// For a flow that waits already this renews the hint. A flow never loses its place.
    #[inline]
    pub fn wake(&mut self, now: Nanos, flow: FlowId, hint: Hint) -> bool {
        self.wake_all(now, &[(flow, hint)]) == 1
    }

    /// Reports that these flows have something to send, like [`Engine::wake`] for each. The state
    /// of later flows is fetched from memory while earlier ones are queued. Returns how many are
    /// open.
    pub fn wake_all(&mut self, now: Nanos, wakes: &[(FlowId, Hint)]) -> u32 {
        let mut moving = Moving::default();
        let mut open = 0;
        for &(flow, _) in wakes.iter().take(AHEAD) {
            self.flows.prefetch(flow.index);
        }
        for (n, &(flow, hint)) in wakes.iter().enumerate() {
            if let Some((ahead, _)) = wakes.get(n + AHEAD) {
                self.flows.prefetch(ahead.index);
            }
            open += u32::from(self.wake_one(now, flow, hint, &mut moving));
        }
        self.queues.finish(now, &mut self.flows, &mut self.ranking, moving);
        open
    }

    #[inline]
    fn wake_one(&mut self, now: Nanos, flow: FlowId, hint: Hint, moving: &mut Moving) -> bool {
        let limit = self.config.in_host;
        let Some(state) = self.flows.get_mut(flow) else { return false };
        note(&mut state.account, hint);
        match state.place {
            Place::Idle => {
                // A flow gets no credit for the time in which it had nothing to send.
                if state.time_per_byte > 0 {
                    state.at = state.at.max(now.0);
                }
                if state.in_host >= limit {
                    state.place = Place::Held;
                } else {
                    let Self { flows, queues, ranking, .. } = self;
                    queues.push_later(now, flows, ranking, flow.index, moving);
                }
            }
            Place::Queued => self.renew(now, flow.index),
            Place::Moving | Place::Held | Place::Free => {}
        }
        true
    }

    /// Moves a queued flow forward if its rank is now lower.
    fn renew(&mut self, now: Nanos, index: u32) {
        let state = self.flows.at(index);
        let (before, mut account) = (state.rank, state.account);
        if self.queues.is_ranked(&mut self.flows, index)
            && self.ranking.rank(now, &mut account) < before
        {
            self.queues.remove(&mut self.flows, index);
            self.queues.push(now, &mut self.flows, &mut self.ranking, index);
        }
    }

    /// Reports that packets of a flow have left the host's queue, sent or dropped. Returns how long
    /// they were in it.
    #[inline]
    pub fn departed(&mut self, now: Nanos, flow: FlowId, departure: Departure) -> Nanos {
        let load = &mut self.load;
        load.free_packets = (load.free_packets + departure.packets).min(self.config.packets);
        load.free_bytes = (load.free_bytes + departure.bytes.0).min(self.config.bytes.0);
        let delay = now.saturating_sub(departure.asked);
        load.observe(delay, self.config.sizing.interval);
        let limit = self.config.in_host;
        if let Some(state) = self.flows.get_mut(flow) {
            let packets = departure.packets.min(u32::from(u16::MAX)) as u16;
            state.in_host = state.in_host.saturating_sub(packets);
            if state.place == Place::Held && state.in_host < limit {
                self.queues.push(now, &mut self.flows, &mut self.ranking, flow.index);
            }
        }
        delay
    }

    /// Changes the policy. Flows that wait keep waiting, and move to the new policy a few with each
    /// poll, twice as many as are served. If the change before is not complete, this one follows
    /// it.
    pub fn set_policy(&mut self, ranking: R) {
        if self.queues.is_changing() {
            self.pending = Some(ranking);
        } else {
            self.queues.change(ranking.shift());
            self.ranking = ranking;
        }
    }

    /// Returns how long packets that arrive for a flow may wait to be coalesced with others, or
    /// `None` if the flow is closed.
    pub fn ingress_hold(&self, flow: FlowId) -> Option<Nanos> {
        let state = self.flows.get(flow)?;
        Some(self.config.sizing.hold(state.account.remaining, &self.load))
    }

    /// Returns the state of the host's queue.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Returns the number of open flows.
    pub fn open_flows(&self) -> u32 {
        self.flows.open_count()
    }

    /// Returns the number of flows that wait for their time or turn.
    pub fn waiting(&self) -> u32 {
        self.queues.ranked() + self.queues.timed()
    }

    /// Returns the memory behind the engine.
    pub fn memory(&self) -> Memory {
        Memory { flows: self.flows.memory(), queues: self.queues.memory() }
    }
}

#[inline]
pub(super) fn note(account: &mut Account, hint: Hint) {
    account.remaining = hint.remaining.0.min(u64::from(u32::MAX)) as u32;
    account.deadline = hint.deadline;
}
