//! What a run is made of, and what is seen in it.

use forebay_control::{ControlConfig, Event};
use forebay_units::{Bytes, Nanos, Rate};

use super::sendbox::Sendbox;
use super::simulation::Simulation;
use super::tcp::Flow;

/// What happens to the world at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The bottleneck's rate.
    LinkRate(Rate),
    /// The path's round-trip time.
    Rtt(Nanos),
    /// A bundle's receivebox dies.
    Kill(usize),
    /// It is started again, its counters at zero.
    Revive(usize),
    /// Starts backlogged flows in a bundle.
    Start(usize, usize),
    /// Stops every flow of a bundle.
    Stop(usize),
    /// A bundle's sendbox's clock jumps ahead.
    SendboxClock(usize, Nanos),
    /// A bundle's receivebox's clock is set to what it was at the start of the run, and so much more.
    ReceiveboxClock(usize, Nanos),
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The bottleneck's.
    pub(crate) rate: Rate,
    /// Of the empty path.
    pub(crate) rtt: Nanos,
    /// What the bottleneck's queue holds.
    pub(crate) buffer: Bytes,
    pub(crate) duration: Nanos,
    pub(crate) seed: u64,
    /// Backlogged flows in each bundle from the start.
    pub(crate) backlogged: Vec<usize>,
    /// Requests in each bundle, as offered load.
    pub(crate) requests: Vec<Rate>,
    pub(crate) changes: Vec<(Nanos, Change)>,
    pub(crate) config: ControlConfig,
    /// Packets that a sendbox's queue holds.
    pub(crate) sendbox_limit: usize,
    /// The longest that the shaper's timer oversleeps: what it lets out in one burst.
    pub(crate) shaper_grain: Nanos,
    /// Share of feedback that is lost.
    pub(crate) feedback_loss: f64,
    /// Share of feedback delayed by up to 30 ms more, so that it is overtaken.
    pub(crate) feedback_late: f64,
    /// Share of packets whose fingerprint is that of the packet before.
    pub(crate) duplicate_fingerprints: f64,
    /// Messages of garbage feedback per second.
    pub(crate) garbage: f64,
    /// Probability and size of spikes of the feedback's delay.
    pub(crate) spikes: (f64, Nanos),
    /// Share of packets that the path loses.
    pub(crate) packet_loss: f64,
    /// Bundles from this index on bypass the boxes: cross traffic.
    pub(crate) cross_from: usize,
    /// How much later the receivebox may stamp a packet than it came.
    pub(crate) stamp_jitter: Nanos,
}

impl World {
    /// One backlogged bundle of four flows.
    pub(crate) fn new(mbps: u64, rtt_ms: u64) -> Self {
        Self {
            rate: Rate::from_mbps(mbps),
            rtt: Nanos::from_millis(rtt_ms),
            buffer: Rate::from_mbps(mbps).bytes_in(Nanos::from_millis(200)),
            duration: Nanos::from_secs(15),
            seed: 1,
            backlogged: vec![4],
            requests: vec![Rate::ZERO],
            changes: vec![],
            config: ControlConfig::default(),
            sendbox_limit: 1000,
            shaper_grain: Nanos::from_micros(1000),
            feedback_loss: 0.0,
            feedback_late: 0.0,
            duplicate_fingerprints: 0.0,
            garbage: 0.0,
            spikes: (0.01, Nanos::from_micros(500)),
            packet_loss: 0.0,
            cross_from: usize::MAX,
            stamp_jitter: Nanos::from_micros(20),
        }
    }

    pub(crate) fn bundles(mut self, n: usize, flows: usize) -> Self {
        self.backlogged = vec![flows; n];
        self.requests = vec![Rate::ZERO; n];
        self
    }

    pub(crate) fn run(self) -> Outcome {
        Simulation::new(self).run()
    }
}

/// What was seen.
pub(crate) struct Outcome {
    pub(crate) world: World,
    /// Arrival and sojourn of every packet at the bottleneck.
    pub(crate) sojourns: Vec<(Nanos, Nanos)>,
    /// Departures from the bottleneck: time, bundle, bytes.
    pub(crate) departures: Vec<(Nanos, usize, Bytes)>,
    pub(crate) drops: u64,
    pub(crate) events: Vec<(Nanos, usize, Event)>,
    /// Per bundle and tick: time, rate, backlog.
    pub(crate) ticks: Vec<Vec<(Nanos, Option<Rate>, Bytes)>>,
    pub(crate) sendboxes: Vec<Sendbox>,
    pub(crate) feedback_sent: Vec<u64>,
    pub(crate) sent: Vec<Bytes>,
    pub(crate) flows: Vec<Flow>,
}
