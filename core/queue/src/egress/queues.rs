//! Where flows wait: a timing wheel for their times, and a queue by rank for their turns.

use forebay_units::Nanos;

use super::flow::{Flows, Place};
use super::ranking::Ranking;
use crate::ConfigError;
use crate::ffs::{Calendar, Chunks};

/// The buckets of a queue by rank, as a power of two.
const RANK_BITS: u32 = 13;

/// The wheel and two queues by rank: that of the policy, and that of the policy before it, whose
/// flows move over a few at a time.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    chunks: Chunks,
    wheel: Calendar,
    ranked: [Calendar; 2],
    current: usize,
}

/// Flows that are queued together; see [`Queues::push_later`].
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// The last flows, each with its bucket.
    flows: [(u32, u32); MOVING],
    count: usize,
}

/// The flows that move at a time: enough to hide an access to main memory twice.
const MOVING: usize = 8;

impl Queues {
    pub(super) fn new(
        flows: u32,
        granularity: Nanos,
        wheel_bits: u32,
        shift: u32,
    ) -> Result<Self, ConfigError> {
        let (wheel, ranks) = (1 << wheel_bits, 1 << RANK_BITS);
        let ranked = |start| Calendar::new(start, RANK_BITS, shift);
        Ok(Self {
            chunks: Chunks::new(wheel + 2 * ranks, flows)?,
            wheel: Calendar::new(0, wheel_bits, granularity.0.ilog2())?,
            ranked: [ranked(wheel)?, ranked(wheel + ranks)?],
            current: 0,
        })
    }

    pub(super) fn memory(&self) -> usize {
        let ranked: usize = self.ranked.iter().map(Calendar::memory).sum();
        self.chunks.memory() + self.wheel.memory() + ranked
    }

    /// Returns the number of flows that wait for their turn by rank.
    #[inline]
    pub(super) fn ranked(&self) -> u32 {
        self.ranked[0].len() + self.ranked[1].len()
    }

    /// Returns the number of flows in the wheel.
    #[inline]
    pub(super) fn timed(&self) -> u32 {
        self.wheel.len()
    }

    /// Returns whether flows are still in the queue of the policy before.
    #[inline]
    pub(super) fn is_changing(&self) -> bool {
        !self.ranked[1 - self.current].is_empty()
    }

    /// Starts an empty queue by rank. The flows of the present one are those of the policy before.
    pub(super) fn change(&mut self, shift: u32) {
        debug_assert!(!self.is_changing(), "one change at a time");
        self.current = 1 - self.current;
        self.ranked[self.current].set_shift(shift);
    }

    /// Removes and returns a flow of the policy before.
    pub(super) fn pop_changing(&mut self, flows: &mut Flows) -> Option<u32> {
        let old = &mut self.ranked[1 - self.current];
        let index = old.pop(&mut self.chunks, |ahead| flows.prefetch(ahead))?;
        flows.at(index).place = Place::Idle;
        Some(index)
    }

    /// Returns the tick of the wheel at which a flow waits that must not be early.
    #[inline]
    fn tick_of(&self, at: u64) -> u64 {
        self.wheel.tick(at.saturating_add(self.wheel.key(1) - 1))
    }

    /// Queues a flow for its time if that is ahead, or by its rank.
    #[inline]
    pub(super) fn push(
        &mut self,
        now: Nanos,
        flows: &mut Flows,
        ranking: &mut impl Ranking,
        index: u32,
    ) {
        let flow = flows.at(index);
        let position = if flow.at > now.0 || ranking.by_time() {
            let due = flow.at <= now.0;
            let tick = if due { self.wheel.tick(now.0) } else { self.tick_of(flow.at) };
            self.wheel.push(&mut self.chunks, now.0, tick, index)
        } else {
            flow.rank = ranking.rank(now, &mut flow.account);
            let ranked = &mut self.ranked[self.current];
            let tick = ranked.tick(flow.rank);
            ranked.push(&mut self.chunks, ranking.low(now), tick, index)
        };
        flow.set_position(position);
        flow.place = Place::Queued;
    }

    /// Queues a flow like [`Queues::push`], where several flows are queued one after the other. A
    /// flow whose time is ahead goes to a bucket that is in no near cache, so it waits in `moving`
    /// while that is prefetched.
    #[inline]
    pub(super) fn push_later(
        &mut self,
        now: Nanos,
        flows: &mut Flows,
        ranking: &mut impl Ranking,
        index: u32,
        moving: &mut Moving,
    ) {
        let flow = flows.at(index);
        if flow.at <= now.0 {
            self.push(now, flows, ranking, index);
            return;
        }
        flow.place = Place::Moving;
        let bucket = self.wheel.bucket(self.tick_of(flow.at));
        self.chunks.prefetch_bucket(bucket);
        let at = moving.count % MOVING;
        let before = core::mem::replace(&mut moving.flows[at], (index, bucket));
        moving.count += 1;
        if moving.count > MOVING / 2 {
            let (_, bucket) = moving.flows[(at + MOVING / 2) % MOVING];
            self.chunks.prefetch_end(bucket);
        }
        if moving.count > MOVING {
            self.push(now, flows, ranking, before.0);
        }
    }

    /// Queues the flows in `moving`.
    pub(super) fn finish(
        &mut self,
        now: Nanos,
        flows: &mut Flows,
        ranking: &mut impl Ranking,
        moving: Moving,
    ) {
        for n in moving.count.saturating_sub(MOVING)..moving.count {
            self.push(now, flows, ranking, moving.flows[n % MOVING].0);
        }
    }

    /// Removes a queued flow.
    pub(super) fn remove(&mut self, flows: &mut Flows, index: u32) {
        let flow = flows.at(index);
        let position = flow.position();
        flow.place = Place::Idle;
        let removed = self.chunks.remove(position);
        if let Some(moved) = removed.moved {
            flows.at(moved).set_position(position);
        }
        let [first, second] = &mut self.ranked;
        for queue in [&mut self.wheel, first, second] {
            if queue.owns(removed.bucket) {
                queue.removed(removed.bucket, removed.emptied);
                return;
            }
        }
    }

    /// Returns whether a queued flow waits by rank under the present policy.
    pub(super) fn is_ranked(&self, flows: &mut Flows, index: u32) -> bool {
        let bucket = self.chunks.bucket(flows.at(index).position());
        self.ranked[self.current].owns(bucket)
    }

    /// Removes and returns the first flow whose time has come. Uses up `effort` for flows whose
    /// time lay behind the wheel's span when they were queued, and which are queued again.
    #[inline]
    pub(super) fn pop_due(
        &mut self,
        now: Nanos,
        flows: &mut Flows,
        effort: &mut u32,
    ) -> Option<u32> {
        while *effort > 0 {
            let tick = self.wheel.first_tick()?;
            if tick > self.wheel.tick(now.0) {
                return None;
            }
            let index = self.wheel.pop(&mut self.chunks, |ahead| flows.prefetch(ahead))?;
            let flow = flows.at(index);
            if flow.at <= now.0 {
                flow.place = Place::Idle;
                return Some(index);
            }
            *effort -= 1;
            let tick = self.tick_of(flow.at);
            flow.set_position(self.wheel.push(&mut self.chunks, now.0, tick, index));
        }
        None
    }

    /// Removes and returns the flow of the lowest rank. Uses up `effort` for flows whose rank lay
    /// behind the window when they were queued, and which are queued again.
    #[inline]
    pub(super) fn pop_ranked(
        &mut self,
        low: u64,
        flows: &mut Flows,
        effort: &mut u32,
    ) -> Option<u32> {
        let ranked = &mut self.ranked[self.current];
        while *effort > 0 {
            let tick = ranked.first_tick()?;
            let index = ranked.pop(&mut self.chunks, |ahead| flows.prefetch(ahead))?;
            let flow = flows.at(index);
            let wanted = ranked.tick(flow.rank);
            if !ranked.came_early(low, tick, wanted) {
                flow.place = Place::Idle;
                return Some(index);
            }
            *effort -= 1;
            flow.set_position(ranked.push(&mut self.chunks, low, wanted, index));
        }
        None
    }

    /// Returns when the first flow in the wheel is due; the time may be in the past.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.wheel.first_tick().map(|tick| Nanos(self.wheel.key(tick)))
    }
}
