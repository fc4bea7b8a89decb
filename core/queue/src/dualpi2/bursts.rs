//! Recognises flows that send bursts, which belong into the C queue.

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos, Rate};

use crate::ConfigError;
use crate::error::within;
use crate::flow_hash::FlowHash;
use crate::pi2::Params;

/// The flows that are observed at a time. Flows with the same hash count as one.
const FLOWS: u32 = 1024;
/// The number of bursts after which a flow is redirected. One or two may be its start.
const BURSTS: u8 = 3;
/// The time within which the next burst must come, and after which a flow without bursts returns.
const WITHIN: Nanos = Nanos::from_secs(1);
/// The largest queue of a flow that is remembered, in bursts. It bounds how long a flow that was
/// faster than the link counts as one burst.
const REMEMBERED: u64 = 4;

/// The largest burst that a flow may send to the L queue again and again.
///
/// A flow's burst is the queue that it would have if it were alone on a link of `rate`. A flow that
/// exceeds `burst` three times, each within a second of the one before, is sent to the C queue
/// until it has kept within it for a second. RFC 9332 leaves it to a node whether it redirects such
/// traffic; RFC 9331 (section 4.3, item 7) asks senders to limit bursts to far less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLimit {
    /// The rate of the link.
    pub rate: Rate,
    /// The time that the largest burst takes at that rate.
    pub burst: Nanos,
}

impl BurstLimit {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("bursts.rate", self.rate.as_bps(), 1, u64::MAX)?;
        within("bursts.burst", self.burst.0, 1, Params::MAX_TIME.0)
    }
}

/// What is known of the flows with one hash.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// When the queue that the flow would have alone is empty.
    empty_at: Nanos,
    /// Whether that queue has exceeded the limit since it was last empty.
    bursting: bool,
    /// The start of the last burst.
    last: Nanos,
    /// The number of bursts that followed each other in time, at most [`BURSTS`].
    count: u8,
}

/// The flows that pass, and their bursts.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    limit: BurstLimit,
    hash: FlowHash,
    flows: Box<[Flow]>,
}

impl Bursts {
    pub(super) fn new(limit: BurstLimit, seed: u64) -> Self {
        let flows = vec![Flow::default(); FLOWS as usize].into_boxed_slice();
        Self { limit, hash: FlowHash::new(seed, FLOWS), flows }
    }

    /// Records a packet of a flow that arrives. Returns whether the flow belongs into the C queue.
    pub(super) fn arrives(&mut self, now: Nanos, flow_hash: u32, len: Bytes) -> bool {
        let BurstLimit { rate, burst } = self.limit;
        let flow = &mut self.flows[self.hash.bucket(flow_hash) as usize];
        if flow.empty_at <= now {
            flow.empty_at = now;
            flow.bursting = false;
        }
        let most = now.saturating_add(Nanos(REMEMBERED.saturating_mul(burst.0)));
        flow.empty_at = flow.empty_at.saturating_add(rate.time_for(len)).min(most);
        let soon = now.saturating_sub(flow.last) <= WITHIN;
        if !flow.bursting && flow.empty_at.saturating_sub(now) > burst {
            flow.bursting = true;
            flow.count = if soon { (flow.count + 1).min(BURSTS) } else { 1 };
            flow.last = now;
            return flow.count == BURSTS;
        }
        flow.count == BURSTS && soon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Bytes = Bytes(1_250);

    /// 10 Mbit/s, so that a frame takes 1 ms, and bursts of up to 2 ms.
    fn bursts() -> Bursts {
        let limit = BurstLimit { rate: Rate::from_mbps(10), burst: Nanos::from_millis(2) };
        Bursts::new(limit, 7)
    }

    /// Sends `frames` of flow `flow` at `at` at once; whether the last one is redirected.
    fn send(bursts: &mut Bursts, at: Nanos, flow: u32, frames: u32) -> bool {
        (0..frames).fold(false, |_, _| bursts.arrives(at, flow, FRAME))
    }

    #[test]
    fn the_third_burst_redirects_a_flow_and_a_second_without_one_lets_it_return() {
        let mut bursts = bursts();
        let at = Nanos::from_millis;
        assert!(!send(&mut bursts, at(100), 1, 5));
        assert!(!send(&mut bursts, at(200), 1, 5));
        assert!(!send(&mut bursts, at(250), 1, 2), "two frames are no burst");
        assert!(send(&mut bursts, at(300), 1, 3));
        assert!(send(&mut bursts, at(400), 1, 1), "single packets follow the flow");
        assert!(!send(&mut bursts, at(400), 2, 5), "another flow");
        assert!(send(&mut bursts, at(1_300), 1, 1));
        assert!(!send(&mut bursts, at(1_301), 1, 1));
        assert!(!send(&mut bursts, at(1_400), 1, 5), "the count begins anew");
    }

    #[test]
    fn rare_bursts_and_one_long_one_do_not_redirect() {
        let mut bursts = bursts();
        for second in 0..20 {
            assert!(!send(&mut bursts, Nanos(second * 1_100_000_000), 1, 5));
        }
        // A flow at twice the link's rate for two seconds: one burst, as of a slow start.
        for n in 0..4_000 {
            assert!(!send(&mut bursts, Nanos(60_000_000_000 + n * 500_000), 2, 1), "{n}");
        }
    }

    #[test]
    fn a_paced_flow_at_the_links_rate_is_never_redirected() {
        let mut bursts = bursts();
        for n in 0..10_000 {
            // Pairs, as TCP sends them.
            assert!(!send(&mut bursts, Nanos(n * 2_000_000), 1, 2), "{n}");
        }
    }
}
