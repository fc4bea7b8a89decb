//! The capacity of a link, and the time at which a packet has been sent.

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::trace::{Cursor, Trace};
use crate::network::SetupError;

/// The capacity of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// Unlimited capacity: packets take no time and never wait.
    Unlimited,
    /// A constant rate above zero.
    Constant(Rate),
    /// Rates with the times from which they apply, in ascending order. The first rate also applies
    /// before its time, and the last one is above zero.
    Steps(Vec<(Nanos, Rate)>),
    /// A measured trace.
    Trace(Trace),
}

impl Capacity {
    fn check(&self) -> Result<(), SetupError> {
        let (is_possible, must) = match self {
            Self::Unlimited | Self::Trace(_) => return Ok(()),
            Self::Constant(rate) => (*rate > Rate::ZERO, "above zero"),
            Self::Steps(steps) => (
                steps.is_sorted_by(|a, b| a.0 < b.0)
                    && steps.last().is_some_and(|s| s.1 > Rate::ZERO),
                "in steps of ascending times, the last of them above zero",
            ),
        };
        if is_possible { Ok(()) } else { Err(SetupError::Range { what: "a link's rate", must }) }
    }
}

/// The sending end of a wire, which decides when each packet has been sent.
#[derive(Debug)]
pub struct Wire {
    speed: Speed,
    /// The time at which the current packet has been sent.
    free_at: Nanos,
}

#[derive(Debug)]
enum Speed {
    Unlimited,
    Constant(Rate),
    Steps(Vec<(Nanos, Rate)>),
    Trace(Cursor),
}

impl Wire {
    /// Creates an idle wire of this capacity, which counts time from the start of the run.
    ///
    /// # Errors
    /// Fails if the capacity can pass nothing in the end.
    pub fn new(capacity: Capacity) -> Result<Self, SetupError> {
        capacity.check()?;
        let speed = match capacity {
            Capacity::Unlimited => Speed::Unlimited,
            Capacity::Constant(rate) => Speed::Constant(rate),
            Capacity::Steps(steps) => Speed::Steps(steps),
            Capacity::Trace(trace) => Speed::Trace(Cursor::new(trace)),
        };
        Ok(Self { speed, free_at: Nanos::ZERO })
    }

    /// Returns whether a packet is being sent. If not, the trace may still delay the next one.
    #[inline]
    pub fn is_busy(&self, now: Nanos) -> bool {
        self.free_at > now
    }

    /// Returns when the next packet can start, at `now` or later.
    pub fn ready(&mut self, now: Nanos) -> Nanos {
        let free = self.free_at.max(now);
        match &mut self.speed {
            Speed::Trace(cursor) => cursor.ready(free),
            _ => free,
        }
    }

    /// Sends a packet of `len` from `start` on, a time that [`Wire::ready`] returned. Returns when
    /// it has been sent.
    pub fn send(&mut self, start: Nanos, len: Bytes) -> Nanos {
        self.free_at = match &mut self.speed {
            Speed::Unlimited => start,
            Speed::Constant(rate) => start.saturating_add(rate.time_for(len)),
            Speed::Steps(steps) => through_steps(steps, start, len),
            Speed::Trace(cursor) => cursor.pass(len),
        };
        self.free_at
    }
}

fn through_steps(steps: &[(Nanos, Rate)], start: Nanos, len: Bytes) -> Nanos {
    // In billionths of a bit, the product of a rate in bit/s and a time in nanoseconds.
    let mut left = u128::from(len.0) * 8_000_000_000;
    let mut now = start;
    let first = steps.partition_point(|s| s.0 <= start).saturating_sub(1);
    for (i, (_, rate)) in steps.iter().enumerate().skip(first) {
        let until = steps.get(i + 1).map_or(Nanos::MAX, |s| s.0);
        let bps = u128::from(rate.as_bps());
        let room = bps * u128::from(until.saturating_sub(now).0);
        if room >= left {
            let time = left.div_ceil(bps.max(1));
            return now.saturating_add(Nanos(u64::try_from(time).unwrap_or(u64::MAX)));
        }
        left -= room;
        now = until;
    }
    Nanos::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_can_change_during_a_packet() {
        let mbps = Rate::from_mbps;
        let steps =
            vec![(Nanos(0), mbps(8)), (Nanos(500_000), Rate::ZERO), (Nanos(2_000_000), mbps(16))];
        assert_eq!(Capacity::Steps(steps.clone()).check(), Ok(()));
        // Half of it passes in the first half millisecond, the rest at double rate after the
        // outage.
        assert_eq!(through_steps(&steps, Nanos(0), Bytes(1000)), Nanos(2_250_000));
        assert_eq!(through_steps(&steps, Nanos(9_000_000), Bytes(1000)), Nanos(9_500_000));
    }

    #[test]
    fn capacities_that_pass_nothing_are_refused() {
        let zero = Rate::ZERO;
        let steps = |steps: &[(u64, Rate)]| {
            Capacity::Steps(steps.iter().map(|(t, r)| (Nanos(*t), *r)).collect())
        };
        let one = Rate::from_bps(1);
        for capacity in [
            Capacity::Constant(zero),
            steps(&[]),
            steps(&[(0, zero)]),
            steps(&[(5, one), (5, one)]),
            steps(&[(5, one), (4, one)]),
        ] {
            assert!(matches!(capacity.check(), Err(SetupError::Range { .. })), "{capacity:?}");
        }
    }
}
