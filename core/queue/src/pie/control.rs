//! PIE's drop probability and its decision for each packet.

use forebay_units::{Bytes, Nanos};

use super::Params;
use crate::Backlog;
use crate::rng::Rng;
use crate::ticker::Ticker;

/// The largest rise of the probability in one update once it is [`HIGH`] (RFC 8033 section 5.5),
/// and the extra rise while the delay is [`EXCESSIVE`].
const MAX_STEP: f64 = 0.02;
/// The probability from which the gains apply undivided and steps are capped.
const HIGH: f64 = 0.1;
/// The delay above which the probability rises faster (Linux; the RFC has no such rule).
const EXCESSIVE: Nanos = Nanos::from_millis(250);
/// The factor of the probability in an update that finds the queue idle: 1 - 1/64 (RFC 8033 section
/// 4.2 has 0.98 and calls this sufficient).
const DECAY: f64 = 1.0 - 1.0 / 64.0;
/// The probability below which a delay of less than half the target causes no signal (RFC 8033
/// section 4.1).
const LENIENT: f64 = 0.2;
/// The sum of probabilities from which a signal may occur (RFC 8033 section 5.4).
const EARLIEST: f64 = 0.85;
/// The sum of probabilities at which a signal must occur (RFC 8033 section 5.4).
const LATEST: f64 = 8.5;

/// The state of PIE. A copy makes the same decisions as the original.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    ticker: Ticker,
    rng: Rng,
    probability: f64,
    /// The sum of the probabilities of the packets since the last signal.
    due: f64,
    /// The sojourn time of the last departed packet, or zero if it left the queue empty.
    delay: Nanos,
    /// The value of `delay` at the update before.
    old_delay: Nanos,
    /// The time for which a burst may still pass without signals.
    burst: Nanos,
    last_departure: Option<Nanos>,
}

/// Returns the divisor of the gains at a drop probability, which keeps steps in proportion to the
/// probability (RFC 8033 section 4.2).
fn gain_divisor(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < HIGH => 2.0,
        _ => 1.0,
    }
}

impl Control {
    pub(super) fn new(params: &Params, seed: u64) -> Self {
        Self {
            ticker: Ticker::new(params.tupdate),
            rng: Rng::new(seed),
            probability: 0.0,
            due: 0.0,
            delay: Nanos::ZERO,
            old_delay: Nanos::ZERO,
            burst: params.burst_allowance,
            last_departure: None,
        }
    }

    pub(super) fn probability(&self) -> f64 {
        self.probability
    }

    /// Makes the updates that have become due; `backlog` has not changed since the last call.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos, params: &Params, backlog: Backlog) {
        if self.ticker.is_due(now) {
            while self.ticker.take(now).is_some() {
                self.update(params, backlog);
            }
        }
    }

    /// Updates the drop probability (RFC 8033 section 4.2).
    fn update(&mut self, params: &Params, backlog: Backlog) {
        let (delay, old_delay) = (self.delay, self.old_delay);
        let error = delay.as_secs_f64() - params.target.as_secs_f64();
        let growth = delay.as_secs_f64() - old_delay.as_secs_f64();
        let gain = params.alpha * error + params.beta * growth;
        let mut step = gain / gain_divisor(self.probability);
        if self.probability >= HIGH {
            step = step.min(MAX_STEP);
        }
        if delay > EXCESSIVE {
            step += MAX_STEP;
        }
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        // A delay of zero with a backlog means that the last packet left at once, not an idle
        // queue.
        let idle = delay == Nanos::ZERO && old_delay == Nanos::ZERO && backlog.packets == 0;
        if idle {
            self.probability *= DECAY;
        }
        let short = params.target / 2;
        if delay < short && old_delay < short && self.probability == 0.0 {
            // Congestion is over, so the next burst is allowed again (RFC 8033 section 4.4).
            self.burst = params.burst_allowance;
            self.due = 0.0;
            self.last_departure = None;
        }
        self.old_delay = delay;
    }

    /// Returns whether to mark or drop a packet of `len` that arrives at `backlog` (RFC 8033
    /// section 4.1).
    pub(super) fn signals(&mut self, params: &Params, backlog: Backlog, len: Bytes) -> bool {
        let bursting = self.burst > Nanos::ZERO;
        let lenient = self.delay < params.target / 2 && self.probability < LENIENT;
        if bursting || lenient || backlog.bytes.0 < 2 * params.mtu.0 {
            return false;
        }
        let mut probability = self.probability;
        if params.byte_mode && len <= params.mtu {
            probability *= len.as_f64() / params.mtu.as_f64();
        }
        if params.derandomize {
            self.due = if probability == 0.0 { 0.0 } else { self.due + probability };
            if self.due < EARLIEST {
                return false;
            }
        }
        let signal = (params.derandomize && self.due >= LATEST) || self.rng.chance(probability);
        if signal {
            self.due = 0.0;
        }
        signal
    }

    /// Returns whether the probability is low enough for a mark instead of a drop (RFC 8033 section
    /// 5.1).
    pub(super) fn may_mark(&self, params: &Params) -> bool {
        params.ecn && self.probability <= params.mark_threshold
    }

    /// Records a drop at the limit, which is a signal to the sender as well.
    pub(super) fn overflowed(&mut self) {
        self.due = 0.0;
    }

    /// Records that a packet left after `sojourn`, with `backlog` behind it.
    pub(super) fn departed(&mut self, now: Nanos, sojourn: Nanos, backlog: Backlog) {
        self.delay = if backlog.packets == 0 { Nanos::ZERO } else { sojourn };
        let since = now.saturating_sub(self.last_departure.unwrap_or(now));
        self.burst = self.burst.saturating_sub(since);
        self.last_departure = Some(now);
    }
}

#[cfg(test)]
mod tests;
