//! The interface to scheduling policies, and the policies.

use forebay_units::Nanos;

/// A scheduling policy: it gives each flow that may send a *rank*, and the lowest rank is first.
///
/// The engine queues flows by rank in 2^13 buckets of `2^shift` ranks each, so a policy costs the
/// same for any number of flows. Ranks advance: no rank is below [`Ranking::low`].
pub trait Ranking {
    /// Returns the base-2 logarithm of the difference between ranks that need no order.
    fn shift(&self) -> u32;

    /// Returns whether flows are served in the order of their pacing times alone, without ranks.
    #[inline]
    fn by_time(&self) -> bool {
        false
    }

    /// Returns the lowest rank that a flow can have from now on.
    fn low(&self, now: Nanos) -> u64;

    /// Returns the rank of a flow that may send.
    fn rank(&mut self, now: Nanos, account: &mut Account) -> u64;

    /// Notes that the flow of this rank, which was the lowest, sent `bytes`.
    fn served(&mut self, account: &mut Account, rank: u64, bytes: u64);

    /// Returns the virtual time, by which engines of several cores keep step; see
    /// [`cores`](super::cores).
    #[inline]
    fn clock(&self) -> Option<u64> {
        None
    }

    /// Moves the virtual time forward to `clock`, if it is earlier.
    #[inline]
    fn join(&mut self, clock: u64) {
        let _ = clock;
    }
}

/// What a policy knows about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// A value of the policy's own. After a change of the policy it is one of the earlier policy.
    pub tag: u64,
    /// When the next segment must have left.
    pub deadline: Nanos,
    /// The bytes left to send, at most `u32::MAX`.
    pub remaining: u32,
    inverse_weight: u32,
}

/// The largest weight of a flow.
pub const MAX_WEIGHT: u16 = 1024;
/// The virtual time of a byte of a flow of weight one.
const UNIT: u64 = MAX_WEIGHT as u64;
/// Bits of the inverse of a weight below the point, so that it is exact within 0.01 %.
const INVERSE_BITS: u32 = 14;

impl Account {
    pub(super) const fn new(weight: u16) -> Self {
        Self {
            tag: 0,
            deadline: Nanos::MAX,
            remaining: u32::MAX,
            inverse_weight: Self::inverse(weight),
        }
    }

    const fn inverse(weight: u16) -> u32 {
        ((UNIT << INVERSE_BITS) / weight as u64) as u32
    }

    pub(super) fn set_weight(&mut self, weight: u16) {
        self.inverse_weight = Self::inverse(weight);
    }

    /// Returns the virtual time that `bytes` take: 1024 for a byte of a flow of weight one.
    #[inline]
    pub fn virtual_time(&self, bytes: u64) -> u64 {
        (bytes * u64::from(self.inverse_weight)) >> INVERSE_BITS
    }
}

/// A scheduling policy of this crate.
///
/// A flow with a rate waits for its pacing time under each of them, and only then has a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Shares in proportion to the flows' weights. Start with [`Policy::FAIR`].
    Fair(Fair),
    /// The earliest deadline first. Start with [`Policy::EARLIEST_DEADLINE`].
    EarliestDeadline,
    /// The flow with the least bytes left first. Start with [`Policy::SHORTEST_FIRST`].
    ShortestFirst(ShortestFirst),
    /// The order of pacing times, as in Carousel. A flow without a rate is due at once.
    Paced,
}

impl Policy {
    /// Fair and weighted shares.
    pub const FAIR: Self = Self::Fair(Fair { clock: 0 });
    /// The earliest deadline first.
    pub const EARLIEST_DEADLINE: Self = Self::EarliestDeadline;
    /// The shortest first, with an ageing of 16 MiB.
    pub const SHORTEST_FIRST: Self = Self::shortest_first(16 << 20);

    /// Returns the policy that serves the shortest flow first. For each `ageing` bytes sent, the
    /// flows that wait advance by one rank, which is a sixteenth in length, before those that come
    /// later. After 464 times `ageing` bytes no newcomer overtakes a flow of any length.
    pub const fn shortest_first(ageing: u64) -> Self {
        let ageing = if ageing == 0 { 1 } else { ageing };
        Self::ShortestFirst(ShortestFirst { clock: 0, sent: 0, ageing })
    }
}

/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996, section 2).
///
/// A flow's rank is its start tag: the virtual time, or its last finish tag if that is later. The
/// virtual time is the start tag of the flow in service. It stays there when no flow waits, where
/// the paper moves it to the latest finish tag: a flow that comes back at once is then charged for
/// its last turn, as if it had not been away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fair {
    clock: u64,
}

/// The longest virtual time of a turn: 64 KiB of a flow of weight one.
const MAX_TURN: u64 = 65_536 * UNIT;

/// The shortest flow first, with ageing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortestFirst {
    /// The ageing steps so far.
    clock: u64,
    sent: u64,
    ageing: u64,
}

/// Returns a rank of a length: sixteen for each power of two, and 463 at most.
fn rank_of_length(bytes: u32) -> u64 {
    const SUB: u32 = 4;
    if bytes < 1 << SUB {
        return u64::from(bytes);
    }
    let power = bytes.ilog2();
    let fraction = (bytes >> (power - SUB)) & ((1 << SUB) - 1);
    u64::from((power - SUB + 1) << SUB | fraction)
}

/// About 8 us and, in virtual time, 8 bytes of a flow of weight one. In 2^13 buckets these are 67
/// ms and 64 KiB.
const SHIFT: u32 = 13;

impl Ranking for Policy {
    #[inline]
    fn shift(&self) -> u32 {
        match self {
            Self::Fair(_) | Self::EarliestDeadline | Self::Paced => SHIFT,
            Self::ShortestFirst(_) => 0,
        }
    }

    #[inline]
    fn by_time(&self) -> bool {
        matches!(self, Self::Paced)
    }

    #[inline]
    fn low(&self, now: Nanos) -> u64 {
        match self {
            Self::Fair(fair) => fair.clock,
            Self::EarliestDeadline | Self::Paced => now.0,
            Self::ShortestFirst(shortest) => shortest.clock,
        }
    }

    #[inline]
    fn rank(&mut self, now: Nanos, account: &mut Account) -> u64 {
        match self {
            // A tag beyond the longest turn is one of another policy.
            Self::Fair(Fair { clock }) if account.tag > *clock + MAX_TURN => *clock,
            Self::Fair(Fair { clock }) => account.tag.max(*clock),
            // A deadline in the past is as urgent as one now, so that no flow waits for ever.
            Self::EarliestDeadline => account.deadline.0.max(now.0),
            Self::Paced => now.0,
            Self::ShortestFirst(shortest) => shortest.clock + rank_of_length(account.remaining),
        }
    }

    #[inline]
    fn served(&mut self, account: &mut Account, rank: u64, bytes: u64) {
        match self {
            Self::Fair(fair) => {
                // Ranks within a bucket are in no order. To the bucket's start, so that a flow that
                // is served after one of a higher rank does not lose the difference.
                fair.clock = fair.clock.max(rank >> SHIFT << SHIFT);
                account.tag = rank + account.virtual_time(bytes).min(MAX_TURN);
            }
            Self::ShortestFirst(shortest) => {
                shortest.sent += bytes;
                if shortest.sent >= shortest.ageing {
                    shortest.clock += shortest.sent / shortest.ageing;
                    shortest.sent %= shortest.ageing;
                }
            }
            Self::EarliestDeadline | Self::Paced => {}
        }
    }

    #[inline]
    fn clock(&self) -> Option<u64> {
        match self {
            Self::Fair(fair) => Some(fair.clock),
            _ => None,
        }
    }

    #[inline]
    fn join(&mut self, clock: u64) {
        if let Self::Fair(fair) = self {
            fair.clock = fair.clock.max(clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_lengths_grow_and_stay_below_their_bound() {
        let ranks = [(0, 0), (15, 15), (16, 16), (31, 31), (32, 32), (33, 32), (34, 33), (64, 48)];
        for (bytes, rank) in ranks {
            assert_eq!(rank_of_length(bytes), rank, "{bytes}");
        }
        assert_eq!(rank_of_length(u32::MAX), 463);
        let mut last = 0;
        for bytes in (0..1 << 20).step_by(7) {
            assert!(rank_of_length(bytes) >= last, "{bytes}");
            last = rank_of_length(bytes);
        }
    }

    #[test]
    fn virtual_time_is_inverse_to_the_weight() {
        assert_eq!(Account::new(1).virtual_time(1500), 1500 * 1024);
        assert_eq!(Account::new(MAX_WEIGHT).virtual_time(1500), 1500);
        for weight in 1..=MAX_WEIGHT {
            let time = Account::new(weight).virtual_time(1500) * u64::from(weight);
            assert!(time.abs_diff(1500 * UNIT) * 1000 <= 1500 * UNIT, "{weight}: {time}");
        }
    }

    #[test]
    fn a_tag_of_another_policy_does_not_hold_a_flow_back() {
        let mut policy = Policy::FAIR;
        let mut account = Account::new(1);
        account.tag = u64::MAX / 2;
        assert_eq!(policy.rank(Nanos(5), &mut account), 0);
        policy.served(&mut account, 0, 1500);
        assert_eq!(policy.rank(Nanos(5), &mut account), 1500 * UNIT);
    }
}
