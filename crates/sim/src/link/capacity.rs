//! How fast a link is, and when a packet is through.

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::trace::{Cursor, Trace};
use crate::network::SetupError;

/// How fast a link is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// Packets take no time and never wait.
    Unlimited,
    /// One rate, above zero.
    Constant(Rate),
    /// From each instant on the rate beside it, in ascending order; before the first, the first. The
    /// last rate is above zero.
    Steps(Vec<(Nanos, Rate)>),
    /// As it was measured.
    Trace(Trace),
}

impl Capacity {
    pub(super) fn check(&self) -> Result<(), SetupError> {
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

/// The sending end of a wire.
#[derive(Debug)]
pub(super) struct Wire {
    speed: Speed,
    /// When it is free again.
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
    pub(super) fn new(capacity: Capacity) -> Self {
        let speed = match capacity {
            Capacity::Unlimited => Speed::Unlimited,
            Capacity::Constant(rate) => Speed::Constant(rate),
            Capacity::Steps(steps) => Speed::Steps(steps),
            Capacity::Trace(trace) => Speed::Trace(Cursor::new(trace)),
        };
        Self { speed, free_at: Nanos::ZERO }
    }

    /// Whether a packet is still on its way out. If none is, it may still be that none may begin.
    #[inline]
    pub(super) fn is_busy(&self, now: Nanos) -> bool {
        self.free_at > now
    }

    /// When the next packet may begin, at `now` or after it.
    pub(super) fn ready(&mut self, now: Nanos) -> Nanos {
        let free = self.free_at.max(now);
        match &mut self.speed {
            Speed::Trace(cursor) => cursor.ready(free),
            _ => free,
        }
    }

    /// A packet of `len` begins at `start`, for which [`Wire::ready`] was asked; when it is through.
    pub(super) fn send(&mut self, start: Nanos, len: Bytes) -> Nanos {
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
    // In billionths of a bit, of which rates in bit/s and nanoseconds are factors.
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
    fn a_rate_may_change_under_a_packet() {
        let mbps = Rate::from_mbps;
        let steps =
            vec![(Nanos(0), mbps(8)), (Nanos(500_000), Rate::ZERO), (Nanos(2_000_000), mbps(16))];
        assert_eq!(Capacity::Steps(steps.clone()).check(), Ok(()));
        // Half of it in the first half millisecond, the rest at double the rate after the outage.
        assert_eq!(through_steps(&steps, Nanos(0), Bytes(1000)), Nanos(2_250_000));
        assert_eq!(through_steps(&steps, Nanos(9_000_000), Bytes(1000)), Nanos(9_500_000));
    }

    #[test]
    fn what_lets_nothing_through_is_refused() {
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
