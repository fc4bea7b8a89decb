//! The sending half of a connection: segments in flight, loss recovery and transmission.
//!
//! RACK and the tail-loss probe detect losses (RFC 8985). Proportional rate reduction limits their
//! repair (RFC 6937). The retransmission timer (RFC 6298) repairs the rest, unless F-RTO finds the
//! timeout spurious (RFC 5682). States and their order are those of Linux.

mod acked;
mod buffer;
mod bursts;
mod local;
mod recovery;
mod sacks;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod undo;
mod usage;

use forebay_units::Nanos;

use super::congestion::{Congestion, Connection, Control, Stack, Window};
use super::pacing::Pacing;
use super::rack::Rack;
use super::receiver::{Context, EcnMode};
use super::ring::Ring;
use super::rtt::{RTO_MAX, Rtt};
use super::state::State;
use buffer::Buffer;
use bursts::Bursts;
use undo::Undo;
use usage::Usage;

/// The initial window in segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

/// The kind of the pending timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmit,
    Probe,
    Reorder,
}

/// The state of the tail-loss probe.
#[derive(Debug, Default)]
struct Probe {
    /// Whether a probe is to be sent.
    due: bool,
    /// The end of the data when the outstanding probe was sent.
    end: Option<u64>,
    was_retransmission: bool,
}

/// The state of proportional rate reduction (RFC 6937).
#[derive(Debug, Default)]
struct Reduction {
    prior_window: u32,
    delivered: u32,
    out: u32,
}

/// The counters for samples of the delivery rate.
#[derive(Debug)]
struct Delivery {
    delivered: u64,
    time: u64,
    /// The time at which the first segment of the measured flight was sent.
    first_sent: u64,
    /// The value of `delivered` up to which the application limited the flight; zero if it did not.
    app_limited: u64,
}

/// The state of F-RTO, the detection of spurious timeouts (RFC 5682 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frto {
    /// No detection is in progress.
    Off,
    /// The next acknowledgements decide whether the timeout was spurious.
    Watching,
    /// New data is sent before retransmissions (step 2b).
    NewFirst,
}

/// The state of the sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    ring: Ring,
    /// The first unacknowledged byte.
    una: u64,
    /// The next byte to send.
    next: u64,
    /// The end of the data in the buffer.
    written: u64,
    buffer: Buffer,
    /// The right edge of the peer's window.
    edge: u64,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// A segment number before which no segment waits for retransmission.
    hint: u32,
    /// The SACK blocks of the last acknowledgement, which are already processed.
    seen: [(u64, u64); 3],
    /// The end of the highest SACKed segment.
    highest: u64,
    window: Window,
    control: Control,
    pacing: Pacing,
    state: State,
    /// The byte whose acknowledgement ends the recovery.
    high: u64,
    reduction: Reduction,
    undo: Undo,
    frto: Frto,
    rtt: Rtt,
    rack: Rack,
    timer: Option<(Nanos, Timer)>,
    backoff: u32,
    /// The number of timeouts since the last progress.
    timeouts_in_row: u32,
    probe: Probe,
    delivery: Delivery,
    usage: Usage,
    bursts: Bursts,
    ecn: EcnMode,
    /// Whether new data was sent since the timer was last set.
    new_sent: bool,
    /// Whether the next data carries the "congestion window reduced" flag.
    cwr: bool,
    /// The number of marks that the peer has reported.
    marked: u32,
    /// The last measured round-trip time, until it is taken.
    pub(crate) round_trip: Option<u64>,
    /// When to retry after the machine's queue refused a super-packet.
    retry: Option<Nanos>,
    /// The number of losses so far.
    losses: u64,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
}

impl Sender {
    pub(crate) fn new(now: Nanos, stack: Stack, rtt: Option<Nanos>, random: u64) -> Self {
        let congestion = stack.congestion;
        let mut estimate = Rtt::new();
        if let Some(rtt) = rtt {
            estimate.sample(rtt.0, 0, 0);
            estimate.note_min(rtt.0);
        }
        let size = match congestion {
            Congestion::Fixed(n) => n.max(1),
            _ => INITIAL_WINDOW,
        };
        let control = Control::new(congestion, now.0, random, rtt.map(|r| r.0));
        Self {
            ring: Ring::new(),
            una: 0,
            next: 0,
            written: 0,
            buffer: Buffer::new(),
            edge: 65_536,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            hint: 0,
            seen: [(0, 0); 3],
            highest: 0,
            window: Window::new(size),
            ecn: stack.ecn_mode(),
            control,
            pacing: stack.pacing,
            state: State::Open,
            high: 0,
            reduction: Reduction::default(),
            undo: Undo::default(),
            frto: Frto::Off,
            rtt: estimate,
            rack: Rack::default(),
            timer: None,
            backoff: 0,
            timeouts_in_row: 0,
            probe: Probe::default(),
            delivery: Delivery { delivered: 0, time: now.0, first_sent: now.0, app_limited: 0 },
            usage: Usage::new(now.0),
            bursts: Bursts::default(),
            new_sent: false,
            cwr: false,
            marked: 0,
            round_trip: None,
            retry: None,
            losses: 0,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    pub(crate) fn ecn(&self) -> EcnMode {
        self.ecn
    }

    /// Returns the current retransmission timeout, including backoff.
    pub(crate) fn timeout(&self) -> Nanos {
        Nanos((self.rtt.timeout().0 << self.backoff.min(16)).min(RTO_MAX))
    }

    /// Returns the measurements for the receiving half.
    pub(crate) fn context(&self) -> Context {
        Context { timeout: self.timeout(), smoothed: self.rtt.smoothed() }
    }

    pub(crate) fn deadline(&self) -> Nanos {
        let timer = self.timer.map_or(Nanos::MAX, |t| t.0).min(self.retry.unwrap_or(Nanos::MAX));
        self.bursts.deadline().map_or(timer, |paced| timer.min(Nanos(paced)))
    }

    /// Returns the next byte to send.
    pub(crate) fn next_byte(&self) -> u64 {
        self.next
    }

    /// Returns the congestion window, the segments in flight, and the smoothed round-trip time;
    /// `None` before the first data.
    pub(crate) fn state(&self) -> Option<(u32, u32, Option<Nanos>)> {
        let rtt = Some(self.rtt.smoothed()).filter(|rtt| *rtt > 0).map(Nanos);
        (self.next > 0).then_some((self.window.size, self.in_flight(), rtt))
    }

    fn in_flight(&self) -> u32 {
        self.ring.len() + self.retransmitted - self.sacked - self.lost
    }

    /// Returns whether an unacknowledged segment was retransmitted.
    fn any_retransmitted(&self) -> bool {
        self.retransmitted > 0 || self.ring.front().is_some_and(|s| s.ever_retransmitted)
    }

    fn connection(&self, now: u64) -> Connection {
        Connection {
            now,
            una: self.una,
            next: self.next,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min().unwrap_or(0),
            cwnd_limited: self.usage.limited(&self.window),
            state: self.state,
            backlog: self.bursts.backlog(now),
        }
    }
}
