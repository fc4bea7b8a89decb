//! Detection that the bundle's packets take several paths of different length. One rate for several
//! paths makes no sense (Bundler section 5.2).
//!
//! On several paths, boundary packets arrive in another order than they were sent. Fair queueing on
//! a single path delays the flows that queue in it, and jitter delays any packet, so that the order
//! changes there too. Two more tests tell these from several paths where the flows of the boundary
//! packets are known:
//!
//! - A packet of a flow that was idle finds no packet of its flow in a fair queue, so packets that
//!   were sent later do not overtake it. On the longer of two paths they do.
//! - A load balancer keeps a flow on one path, where its packets do not overtake each other. With
//!   jitter they do.

mod order;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use forebay_units::Nanos;

use crate::transfers::FlowPosition;
use order::Order;

/// Measurements kept of all packets.
const KEPT: u32 = 128;
/// Measurements needed to compute the share out of order.
const LEAST: u32 = 64;
/// The share out of order above which rate control stops. In Bundler section 5.2 a single path has
/// at most 0.4 %, and several paths have 20 % and more.
const SEVERAL: f64 = 0.05;
/// The share below which rate control resumes.
const SINGLE: f64 = 0.02;
/// Measurements kept of idle flows. There are few, and the queues of paths change.
const KEPT_IDLE: u32 = 32;
/// Measurements of idle flows needed to compute their share out of order.
const LEAST_IDLE: u32 = 8;
/// The share of these out of order above which there are several paths. With a fair queue it is
/// small and not zero, since a flow may share a queue with another one.
const SEVERAL_IDLE: f64 = 0.15;
/// The least number of these out of order, so that chance does not open a bundle.
const LATE_IDLE: u32 = 3;
/// Measurements without one of an idle flow after which all measurements decide. A bundle with only
/// backlogged flows has no others.
const PATIENCE: u32 = 1024;
/// Pairs of successive measurements of one flow needed to compute their share out of order.
const LEAST_OWN: u32 = 16;
/// The least number of these out of order that shows jitter.
const LATE_OWN: u32 = 2;
/// Jitter has about the same share out of order within flows as among all packets, and several
/// paths have none within flows. The limit is a quarter.
const OWN_OVER_ALL: f64 = 0.25;
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
    all: Order<KEPT>,
    /// Those of packets whose flow had been idle.
    idle: Order<KEPT_IDLE>,
    /// Those that followed one of the same flow.
    own: Order<KEPT>,
    /// Measurements since the last one of an idle flow.
    since_idle: u32,
    /// Whether flows are known.
    knows_flows: bool,
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

    /// Records that message `sequence` answered a boundary packet of `flow`, newer than all
    /// answered before. `counts` is whether it is a measurement for the share of all packets.
    pub(crate) fn on_in_order(&mut self, sequence: u64, flow: Option<FlowPosition>, counts: bool) {
        self.remember(flow, counts, false);
        self.newest = Newest { sequence, flow: flow.map(|f| f.flow) };
    }

    /// Records that message `sequence` answered a boundary packet of `flow`, older than one
    /// answered before.
    ///
    /// It counts if the receivebox also saw the packet later, by the number of the message.
    /// Otherwise only the message was late, which says nothing about the bundle's paths.
    pub(crate) fn on_late_mark(&mut self, sequence: u64, flow: Option<FlowPosition>, counts: bool) {
        if sequence > self.newest.sequence {
            self.remember(flow, counts, true);
        }
    }

    fn remember(&mut self, flow: Option<FlowPosition>, counts: bool, is_late: bool) {
        if counts {
            self.measured.all.remember(is_late);
        }
        if let Some(flow) = flow {
            self.measured.remember(flow, self.newest.flow == Some(flow.flow), is_late);
        }
        self.evidence = self.measured.evidence();
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
    /// Adds a measurement of a packet of `flow`. `follows_own` is whether the packet answered
    /// before is of the same flow.
    fn remember(&mut self, flow: FlowPosition, follows_own: bool, is_late: bool) {
        self.knows_flows = true;
        if flow.was_idle {
            self.idle.remember(is_late);
            self.since_idle = 0;
        } else {
            self.since_idle = (self.since_idle + 1).min(PATIENCE);
            if self.since_idle == PATIENCE {
                self.idle = Order::default();
            }
        }
        if follows_own {
            self.own.remember(is_late);
        }
    }

    fn share(&self) -> Option<f64> {
        self.all.share(LEAST)
    }

    fn evidence(&self) -> Evidence {
        let Some(share) = self.share() else { return Evidence::Unclear };
        if share < SINGLE || self.has_jitter(share) {
            return Evidence::Single;
        }
        match self.idle.share(LEAST_IDLE) {
            Some(0.0) => Evidence::Single,
            Some(idle) if idle < SEVERAL_IDLE || self.idle.late() < LATE_IDLE => Evidence::Unclear,
            // Measurements of idle flows are awaited.
            None if self.knows_flows && self.since_idle < PATIENCE => Evidence::Unclear,
            _ if share > SEVERAL => Evidence::Several,
            _ => Evidence::Unclear,
        }
    }

    /// Returns whether packets of one flow overtake each other as those of different flows do, of
    /// which `share` are out of order.
    fn has_jitter(&self, share: f64) -> bool {
        let is_high = |own| own > OWN_OVER_ALL * share;
        self.own.late() >= LATE_OWN && self.own.share(LEAST_OWN).is_some_and(is_high)
    }
}
