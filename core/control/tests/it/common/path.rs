//! The setup of a run and its results.

use forebay_control::{ControlConfig, Event, Mode};
use forebay_units::{Bytes, Nanos, Rate};

use super::sendbox::Sendbox;
use super::simulation::Simulation;
use super::tcp::Flow;

/// A change of the network at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the bottleneck's rate.
    LinkRate(Rate),
    /// Sets the path's round-trip time.
    Rtt(Nanos),
    /// Stops a bundle's receivebox.
    Kill(usize),
    /// Starts it again with its counters at zero.
    Revive(usize),
    /// Starts backlogged flows in a bundle.
    Start(usize, usize),
    /// Stops every flow of a bundle.
    Stop(usize),
    /// Sets the clock of a bundle's sendbox ahead.
    SendboxClock(usize, Nanos),
    /// Sets the clock of a bundle's receivebox to its value at the start of the run plus this.
    ReceiveboxClock(usize, Nanos),
    /// Delays each feedback message of a bundle by the first time, and by a random time up to the
    /// second, so that messages overtake each other.
    FeedbackDelay(usize, Nanos, Nanos),
    /// Makes a bundle's receivebox lie, or tell the truth again.
    Lies(usize, Lies),
    /// Sets the rate at which a stranger sends full packets to a bundle's prefixes. They pass the
    /// bottleneck, and the bundle's receivebox counts them.
    Stranger(usize, Rate),
    /// Stops a bundle's sendbox, which forwards without a queue from then on.
    Down(usize),
    /// Starts the sendbox anew, with or without what the one before it knew of the path.
    Up(usize, bool),
}

/// What a control loop knows at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) at: Nanos,
    pub(crate) mode: Mode,
    pub(crate) min_rtt: Option<Nanos>,
}

/// What a receivebox that holds the key writes into its feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// The truth, as counted.
    None,
    /// Random bytes, packets and times.
    Random,
    /// Counts of bytes and packets that no longer rise.
    FrozenCounts,
    /// Arrival times that no longer rise.
    FrozenTime,
    /// Bytes that jump by a petabyte, up and back.
    Jumps,
    /// Bytes that jump by 100 MB, up and back.
    SmallJumps,
    /// Arrival times that jump by an hour, ahead and back.
    TimeJumps,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The bottleneck's rate.
    pub(crate) rate: Rate,
    /// The round-trip time of the empty path.
    pub(crate) rtt: Nanos,
    /// Capacity of the bottleneck's queue.
    pub(crate) buffer: Bytes,
    pub(crate) duration: Nanos,
    pub(crate) seed: u64,
    /// Number of backlogged flows in each bundle from the start.
    pub(crate) backlogged: Vec<usize>,
    /// The offered load of requests in each bundle.
    pub(crate) requests: Vec<Rate>,
    pub(crate) changes: Vec<(Nanos, Change)>,
    pub(crate) config: ControlConfig,
    /// Capacity of a sendbox's queue in packets.
    pub(crate) sendbox_limit: usize,
    /// The largest delay of the shaper's timer, and so its burst.
    pub(crate) shaper_grain: Nanos,
    /// Share of feedback messages that are lost.
    pub(crate) feedback_loss: f64,
    /// Share of feedback messages that are delayed by up to 30 ms more, so that others overtake
    /// them.
    pub(crate) feedback_late: f64,
    /// Share of packets with the fingerprint of the packet before.
    pub(crate) duplicate_fingerprints: f64,
    /// Invalid feedback messages per second.
    pub(crate) garbage: f64,
    /// Probability and size of spikes of the feedback's delay.
    pub(crate) spikes: (f64, Nanos),
    /// Share of packets that the path loses.
    pub(crate) packet_loss: f64,
    /// The first index of the bundles that bypass the boxes, as cross traffic.
    pub(crate) cross_from: usize,
    /// The largest delay of the receivebox's timestamps.
    pub(crate) stamp_jitter: Nanos,
}

impl World {
    /// Returns a setup with one backlogged bundle of four flows.
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

/// The results of a run.
pub(crate) struct Outcome {
    pub(crate) world: World,
    /// Arrival and sojourn time of every packet at the bottleneck.
    pub(crate) sojourns: Vec<(Nanos, Nanos)>,
    /// Departures from the bottleneck: time, bundle, bytes.
    pub(crate) departures: Vec<(Nanos, usize, Bytes)>,
    pub(crate) drops: u64,
    pub(crate) events: Vec<(Nanos, usize, Event)>,
    /// Time, rate and backlog of each bundle and tick.
    pub(crate) ticks: Vec<Vec<(Nanos, Option<Rate>, Bytes)>>,
    /// What each bundle knows at its ticks.
    pub(crate) known: Vec<Vec<Known>>,
    pub(crate) sendboxes: Vec<Sendbox>,
    pub(crate) feedback_sent: Vec<u64>,
    pub(crate) sent: Vec<Bytes>,
    pub(crate) flows: Vec<Flow>,
}
