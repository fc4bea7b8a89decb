//! Detection that the bundle's packets take several paths of different length. One rate for several
//! paths makes no sense (Bundler section 5.2).
//!
//! On several paths, boundary packets arrive in another order than they were sent. Fair queueing on
//! a single path delays the flows that queue in it, and jitter delays any packet, so that the order
//! changes there too. More tests tell these from several paths, the second and third where the
//! flows of the boundary packets are known:
//!
//! - Where packets wait little, rate control keeps queues short, on several paths too.
//! - A packet of a flow that was idle finds no packet of its flow in a fair queue, so it waits far
//!   less than packets of flows that send continuously. On several paths it waits as long as these.
//! - A load balancer keeps a flow on one path, where its packets do not overtake each other. With
//!   jitter they do.

mod delays;
mod order;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use forebay_units::Nanos;

use crate::transfers::FlowPosition;
use delays::Delays;
use order::Order;

/// Measurements needed to compute the share out of order.
const LEAST: u32 = 64;
/// The share out of order above which rate control stops. In Bundler section 5.2 a single path has
/// at most 0.4 %, and several paths have 20 % and more.
const SEVERAL: f64 = 0.05;
/// The share below which rate control resumes.
const SINGLE: f64 = 0.02;
/// Delays kept of idle flows. There are few, and the queues of paths change.
const KEPT_IDLE: usize = 32;
/// Delays kept of other flows.
const KEPT_BUSY: usize = 128;
/// Delays of idle flows needed to judge them, and of other flows.
const LEAST_DELAYS: usize = 8;
/// The share of idle flows that wait long below which a fair queue separates them. It is not zero,
/// since flows may share a queue.
const FAIR: f64 = 0.04;
/// The same above which flows take several paths. Some of these are hardly loaded.
const ALIKE: f64 = 0.09;
/// The mean wait of flows that are not idle below which the order does not matter.
const LEAST_WAIT: Nanos = Nanos::from_millis(10);
/// The least number of idle flows that wait long on several paths, so that chance does not open a
/// bundle.
const LEAST_LONG: usize = 2;
/// Measurements without enough idle flows after which all measurements decide. A bundle with only
/// backlogged flows has no idle ones.
const MAX_WITHOUT_IDLE: u32 = 128;
/// Pairs of successive measurements of one flow needed to compute their share out of order.
const LEAST_OWN: u32 = 16;
/// Jitter has about the same share out of order within flows as among all packets, and several
/// paths have none within flows. The limit is an eighth.
const OWN_OVER_ALL: f64 = 0.125;
/// The shortest time until rate control resumes.
const RETURN_AFTER: Nanos = Nanos::from_secs(10);
/// The longest time until rate control resumes. The time doubles with each return, since paths that
/// differ only while the bundle is limited look like one path while it is open.
const RETURN_CEILING: Nanos = Nanos::from_secs(320);
/// A return that lasts this long was right, and the time starts at the shortest again.
const RETURN_CONFIRMED: Nanos = Nanos::from_secs(60);

/// The shares of measurements out of order, and the decision by them.
#[derive(Debug)]
pub(crate) struct Multipath {
    /// What the measurements show, which each tick reads.
    evidence: Evidence,
    several: bool,
    turned_at: Nanos,
    wait: Nanos,
    /// The answer to the newest mark.
    newest: Newest,
    measured: Box<Measured>,
}

/// The measurements, which only feedback reads.
#[derive(Debug, Default)]
struct Measured {
    /// All measurements that count.
    all: Order,
    /// Those that followed one of the same flow.
    own: Order,
    /// Round-trip times of packets whose flow had been idle.
    idle: Delays<KEPT_IDLE>,
    /// Those of other packets, and of those whose flow is not known.
    busy: Delays<KEPT_BUSY>,
    /// Measurements at which too many were out of order and too few idle flows were known.
    undecided: u32,
    /// Whether flows are known.
    knows_flows: bool,
}

/// A boundary packet that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Its flow, where it is known.
    pub(crate) flow: Option<FlowPosition>,
    /// Its round-trip time.
    pub(crate) rtt: Nanos,
}

/// The answer to the newest mark.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    /// The number of the message.
    sequence: u64,
    flow: Option<u32>,
}

/// What the measurements show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    Several,
    Single,
    /// Neither, so that the decision stays.
    Unclear,
}

impl Multipath {
    pub(crate) fn new() -> Self {
        Self {
            evidence: Evidence::Unclear,
            several: false,
            turned_at: Nanos::ZERO,
            wait: RETURN_AFTER,
            newest: Newest::default(),
            measured: Box::default(),
        }
    }

    /// Records that message `sequence` answered a boundary packet newer than all answered before.
    /// `counts` is whether it is a measurement for the share of all packets.
    pub(crate) fn on_in_order(&mut self, sequence: u64, packet: Answered, counts: bool) {
        self.remember(packet, counts, false);
        self.newest = Newest { sequence, flow: packet.flow.map(|f| f.flow) };
    }

    /// Records that message `sequence` answered a boundary packet older than one answered before.
    ///
    /// It counts if the receivebox also saw the packet later, by the number of the message.
    /// Otherwise only the message was late, which says nothing about the bundle's paths.
    pub(crate) fn on_late_mark(&mut self, sequence: u64, packet: Answered, counts: bool) {
        if sequence > self.newest.sequence {
            self.remember(packet, counts, true);
        }
    }

    fn remember(&mut self, packet: Answered, counts: bool, is_late: bool) {
        let follows_own = packet.flow.is_some_and(|f| self.newest.flow == Some(f.flow));
        self.measured.remember(packet, follows_own, is_late);
        if counts {
            self.measured.all.remember(is_late);
            self.evidence = self.measured.evidence();
        }
    }

    /// Returns the share of measurements out of order, 0 to 1; `None` if there are too few.
    pub(crate) fn share(&self) -> Option<f64> {
        self.measured.share()
    }

    /// Returns whether there are several paths. This also works while the bundle is open, since its
    /// packets still take these paths.
    pub(crate) fn on_tick(&mut self, now: Nanos) -> bool {
        let lasted = now.saturating_sub(self.turned_at);
        if !self.several && self.evidence == Evidence::Several {
            let doubled = (self.wait * 2).min(RETURN_CEILING);
            let first = self.turned_at == Nanos::ZERO || lasted > RETURN_CONFIRMED;
            self.wait = if first { RETURN_AFTER } else { doubled };
            (self.several, self.turned_at) = (true, now);
        } else if self.several && self.evidence == Evidence::Single && lasted >= self.wait {
            (self.several, self.turned_at) = (false, now);
        }
        self.several
    }
}

impl Measured {
    /// Adds the measurement of a packet. `follows_own` is whether the packet answered before is of
    /// the same flow.
    fn remember(&mut self, packet: Answered, follows_own: bool, is_late: bool) {
        self.knows_flows |= packet.flow.is_some();
        let pause = packet.flow.map(|flow| Nanos::from_micros(flow.pause_us.get().into()));
        if self.busy.longest().zip(pause).is_some_and(|(longest, pause)| pause > longest) {
            self.idle.remember(packet.rtt);
        } else {
            self.busy.remember(packet.rtt);
        }
        if follows_own {
            self.own.remember(is_late);
        }
    }

    fn share(&self) -> Option<f64> {
        self.all.share(LEAST)
    }

    fn evidence(&mut self) -> Evidence {
        let Some(share) = self.share() else { return Evidence::Unclear };
        let wait = self.busy_wait();
        if share < SINGLE || self.has_jitter(share) || wait.is_some_and(|w| w < LEAST_WAIT) {
            return Evidence::Single;
        }
        match wait.and_then(|wait| self.idle_that_wait(wait / 2)) {
            Some((_, share)) if share < FAIR => Evidence::Single,
            _ if share <= SEVERAL => Evidence::Unclear,
            Some((long, share)) if long >= LEAST_LONG && share > ALIKE => Evidence::Several,
            Some(_) => Evidence::Unclear,
            None if !self.knows_flows || self.undecided >= MAX_WITHOUT_IDLE => Evidence::Several,
            None => {
                self.undecided += 1;
                Evidence::Unclear
            }
        }
    }

    /// Returns the shortest round-trip time of all packets.
    fn shortest(&self) -> Option<Nanos> {
        let busy = self.busy.shortest()?;
        Some(self.idle.shortest().map_or(busy, |idle| idle.min(busy)))
    }

    /// Returns how long packets of flows that are not idle wait on average; `None` if there are too
    /// few.
    fn busy_wait(&self) -> Option<Nanos> {
        Some(self.busy.mean(LEAST_DELAYS)?.saturating_sub(self.shortest()?))
    }

    /// Returns the number of packets of idle flows that wait longer than `limit`, and their share;
    /// `None` if there are too few of idle flows.
    fn idle_that_wait(&self, limit: Nanos) -> Option<(usize, f64)> {
        let seen = self.idle.seen();
        let long = self.idle.longer_than(self.shortest()? + limit);
        (seen >= LEAST_DELAYS).then(|| (long, long as f64 / seen as f64))
    }

    /// Returns whether packets of one flow overtake each other as those of different flows do, of
    /// which `share` are out of order.
    fn has_jitter(&self, share: f64) -> bool {
        let is_high = |own| own > OWN_OVER_ALL * share;
        self.own.share(LEAST_OWN).is_some_and(is_high)
    }
}
