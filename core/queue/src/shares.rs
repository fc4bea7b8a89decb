//! Shares of a common limit: which of several queues sends next.
//!
//! A [`Shares`] holds no packets. It knows the common rate and, for each member, a guaranteed rate
//! and a weight, and is told which members have a packet that may leave now. Members below their
//! guaranteed rate go first. The rest of the common rate goes to the others by weight, with
//! start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): the member with the least start
//! tag is next, and a packet of length `l` moves the tag of a member of weight `w` by `l / w`.
//! Among members below their guaranteed rate, a second tag decides in the same way. So where the
//! guarantees add up to more than there is, they are served by weight, each up to its own rate, and
//! the others get nothing.
//!
//! - It is work conserving: it names a ready member whenever the common limit allows a packet.
//! - The guaranteed service does not count against the weight, so a member that has packets all the
//!   time gets its guaranteed rate and its part of what is left.
//! - A member that was idle gets no credit for that time: it starts at the present virtual time.
//!
//! The limits of single members are not its concern: a member whose own shaper holds it back is not
//! ready. Members may themselves be scheduled below by another [`Shares`], which makes a hierarchy
//! (see [`Weighted`](crate::Weighted)).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos, Rate};

use crate::token_bucket::Config;

/// The part of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight, at least one, by which members divide what is left beyond guaranteed rates.
    pub weight: u32,
    /// The rate that the member gets before others get anything beyond their own.
    pub rate: Option<Rate>,
}

impl Default for Share {
    fn default() -> Self {
        Self { weight: 1, rate: None }
    }
}

/// How far a guarantee reaches back, as time at the guaranteed rate: a member that was idle, or
/// that waited for others, may send this much first. The common rate holds in any case.
const GUARANTEE_BURST: Nanos = Nanos::from_millis(10);

/// Picoseconds in a nanosecond, so that the rounding of a packet's time is below 0.01 % at 100
/// Gbit/s.
const PICOS: u128 = 1_000;
/// The bits of a tag below one byte.
const TAG_SHIFT: u32 = 20;

/// A member's state.
#[derive(Clone, Copy, Debug)]
struct Member {
    share: Share,
    /// The start tag of the next packet, in bytes by weight, shifted by [`TAG_SHIFT`].
    tag: u128,
    /// The start tag of the next packet within the guaranteed rate, likewise.
    owed_tag: u128,
    /// The time, in picoseconds, from which on the member is below its guaranteed rate.
    owed: u128,
    ready: bool,
}

/// Decides which of several queues sends next under a common limit.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    limit: Option<Rate>,
    /// The time from which on the common limit allows another packet, in picoseconds.
    free: u128,
    members: Vec<Option<Member>>,
    /// The ready members by their start tags.
    by_tag: BTreeSet<(u128, usize)>,
    /// The ready members with a guaranteed rate, by the time from which on it is owed.
    by_owed: BTreeSet<(u128, usize)>,
    /// The ready members to which a guaranteed rate is owed now, by their start tags for it.
    due: BTreeSet<(u128, usize)>,
    /// The start tag of the last packet beyond guarantees.
    virtual_time: u128,
    /// The start tag of the last packet within a guarantee.
    owed_virtual_time: u128,
}

fn picos(time: Nanos) -> u128 {
    u128::from(time.0) * PICOS
}

/// Returns the time that `bytes` take at `rate`, in picoseconds.
fn time_for(rate: Rate, bytes: Bytes) -> u128 {
    u128::from(bytes.0) * 8_000_000_000_000 / u128::from(rate.as_bps().max(1))
}

/// Returns by how much `bytes` move the start tag of a member.
fn by_weight(bytes: Bytes, share: Share) -> u128 {
    (u128::from(bytes.0) << TAG_SHIFT) / u128::from(share.weight.max(1))
}

impl Shares {
    /// Creates shares of `limit` without members; `None` is no common limit.
    pub fn new(limit: Option<Rate>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns the common limit.
    pub fn limit(&self) -> Option<Rate> {
        self.limit
    }

    /// Sets the common limit from the next packet on.
    pub fn set_limit(&mut self, limit: Option<Rate>) {
        self.limit = limit;
    }

    /// Sets the share of member `index`, which is new or keeps its place.
    pub fn set(&mut self, index: usize, share: Share) {
        if self.members.len() <= index {
            self.members.resize(index + 1, None);
        }
        let ready = self.is_ready(index);
        self.set_ready(index, false);
        let new = Member { share, tag: 0, owed_tag: 0, owed: 0, ready: false };
        let member = self.members[index].map_or(new, |member| Member { share, ..member });
        self.members[index] = Some(member);
        self.set_ready(index, ready);
    }

    /// Sets whether member `index` has a packet that may leave now. Who is not a member is never
    /// ready.
    pub fn set_ready(&mut self, index: usize, ready: bool) {
        let Some(Some(member)) = self.members.get_mut(index) else { return };
        if member.ready == ready {
            return;
        }
        member.ready = ready;
        if ready {
            member.tag = member.tag.max(self.virtual_time);
            self.by_tag.insert((member.tag, index));
            if member.share.rate.is_some() {
                self.by_owed.insert((member.owed, index));
            }
        } else {
            self.by_tag.remove(&(member.tag, index));
            self.by_owed.remove(&(member.owed, index));
            self.due.remove(&(member.owed_tag, index));
        }
    }

    /// Whether member `index` is ready.
    pub fn is_ready(&self, index: usize) -> bool {
        matches!(self.members.get(index), Some(Some(member)) if member.ready)
    }

    /// Returns the member that sends next, unless none is ready or the common limit allows no
    /// packet yet.
    pub fn next(&mut self, now: Nanos) -> Option<usize> {
        if self.limit.is_some() && self.free > picos(now) {
            return None;
        }
        while let Some((owed, index)) = self.by_owed.first().copied()
            && owed <= picos(now)
        {
            self.by_owed.remove(&(owed, index));
            if let Some(Some(member)) = self.members.get_mut(index) {
                member.owed_tag = member.owed_tag.max(self.owed_virtual_time);
                self.due.insert((member.owed_tag, index));
            }
        }
        self.due.first().or(self.by_tag.first()).map(|(_, index)| *index)
    }

    /// Notes that member `index` sends `bytes` at `now`.
    pub fn charge(&mut self, now: Nanos, index: usize, bytes: Bytes) {
        if let Some(limit) = self.limit {
            // As in the token bucket, the burst covers timers that fire late.
            let earliest = picos(now.saturating_sub(Config::BURST));
            self.free = self.free.max(earliest) + time_for(limit, bytes);
        }
        let Some(Some(mut member)) = self.members.get(index).copied() else { return };
        let ready = member.ready;
        self.set_ready(index, false);
        match member.share.rate {
            Some(rate) if member.owed <= picos(now) => {
                let earliest = picos(now.saturating_sub(GUARANTEE_BURST));
                member.owed = member.owed.max(earliest) + time_for(rate, bytes);
                let start = member.owed_tag.max(self.owed_virtual_time);
                self.owed_virtual_time = start;
                member.owed_tag = start + by_weight(bytes, member.share);
            }
            _ => {
                let start = member.tag.max(self.virtual_time);
                self.virtual_time = start;
                member.tag = start + by_weight(bytes, member.share);
            }
        }
        self.members[index] = Some(Member { ready: false, ..member });
        self.set_ready(index, ready);
    }

    /// Returns the time at which the common limit allows the packet of a ready member; `None` if no
    /// member is ready.
    pub fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.by_tag.first()?;
        let free = u64::try_from(self.free.div_ceil(PICOS)).unwrap_or(u64::MAX);
        Some(if self.limit.is_some() { now.max(Nanos(free)) } else { now })
    }
}
