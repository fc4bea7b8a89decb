//! The sending half of a connection: what is on its way, what is lost, and what may go next.
//!
//! Losses are found by RACK and the tail-loss probe (RFC 8985), repaired within the window that
//! proportional rate reduction leaves (RFC 6937), and after a silence by the retransmission timer
//! (RFC 6298), unless that was spurious (RFC 5682). States and their order are Linux's.

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
use buffer::Buffer;
use bursts::Bursts;
use undo::Undo;
use usage::Usage;

/// The initial window in segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

/// Linux's names for what a sender is doing about congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Open,
    /// Something arrived out of order.
    Disorder,
    /// The window is being reduced because of marks or a loss that a probe repaired.
    Reducing,
    /// Losses are being repaired.
    Recovery,
    /// The timer ran out.
    Loss,
}

/// Which timer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmit,
    Probe,
    Reorder,
}

/// A tail-loss probe.
#[derive(Debug, Default)]
struct Probe {
    /// It is to be sent.
    due: bool,
    /// It is out, up to here.
    end: Option<u64>,
    was_retransmission: bool,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Debug, Default)]
struct Reduction {
    prior_window: u32,
    delivered: u32,
    out: u32,
}

/// For samples of the delivery rate.
#[derive(Debug)]
struct Delivery {
    delivered: u64,
    time: u64,
    /// When the first packet of the flight was sent that the rate is measured over.
    first_sent: u64,
    /// What is in flight was limited by the application up to this count of delivered; zero if not.
    app_limited: u64,
}

/// Forward RTO recovery (RFC 5682 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forward {
    /// Whether the timeout was spurious is known, or is not asked.
    Off,
    /// What the next acknowledgements say decides.
    Watching,
    /// New data goes before anything is sent again (step 2b).
    NewFirst,
}

#[derive(Debug)]
pub(crate) struct Sender {
    ring: Ring,
    /// The first byte not acknowledged, the next to send, and the end of what is in the buffer.
    una: u64,
    next: u64,
    written: u64,
    buffer: Buffer,
    /// The right edge of the peer's window.
    edge: u64,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// No segment before this number is lost and to be sent again.
    hint: u32,
    /// The last acknowledgement's blocks: what was looked through already.
    seen: [(u64, u64); 3],
    /// The end of the highest segment that arrived out of order.
    highest: u64,
    window: Window,
    control: Control,
    pacing: Pacing,
    state: State,
    /// Recovery ends when this is acknowledged.
    high: u64,
    reduction: Reduction,
    undo: Undo,
    forward: Forward,
    rtt: Rtt,
    rack: Rack,
    timer: Option<(Nanos, Timer)>,
    backoff: u32,
    /// Timeouts since the last progress.
    silences: u32,
    probe: Probe,
    delivery: Delivery,
    usage: Usage,
    bursts: Bursts,
    ecn: EcnMode,
    /// New data went since the timer was last looked at.
    new_sent: bool,
    /// The window was reduced: to be said with the next data.
    cwr: bool,
    /// Marks that the peer has told of.
    marked: u32,
    /// The last round trip measured, until somebody asks.
    pub(crate) round_trip: Option<u64>,
    /// When to try again what the machine's own queue refused.
    retry: Option<Nanos>,
    /// Losses found so far.
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
            forward: Forward::Off,
            rtt: estimate,
            rack: Rack::default(),
            timer: None,
            backoff: 0,
            silences: 0,
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

    /// The retransmission timeout as it is now.
    pub(crate) fn timeout(&self) -> Nanos {
        Nanos((self.rtt.timeout().0 << self.backoff.min(16)).min(RTO_MAX))
    }

    /// What the receiving half may know.
    pub(crate) fn context(&self) -> Context {
        Context { timeout: self.timeout(), smoothed: self.rtt.smoothed() }
    }

    pub(crate) fn deadline(&self) -> Nanos {
        let timer = self.timer.map_or(Nanos::MAX, |t| t.0).min(self.retry.unwrap_or(Nanos::MAX));
        self.bursts.deadline().map_or(timer, |paced| timer.min(Nanos(paced)))
    }

    /// The next byte to be sent.
    pub(crate) fn next_byte(&self) -> u64 {
        self.next
    }

    fn in_flight(&self) -> u32 {
        self.ring.len() + self.retransmitted - self.sacked - self.lost
    }

    /// Anything that is not acknowledged was sent again.
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
