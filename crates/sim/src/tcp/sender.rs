//! The sending half of a connection: what is on its way, what is lost, and what may go next.
//!
//! Losses are found by RACK and the tail-loss probe (RFC 8985), repaired within the window that
//! proportional rate reduction leaves (RFC 6937), and after a silence by the retransmission timer
//! (RFC 6298). States and their order are Linux's.

mod acked;
mod recovery;
mod transmit;

use forebay_units::Nanos;

use super::congestion::{Congestion, Connection, Control, Window};
use super::rack::Rack;
use super::ring::Ring;
use super::rtt::{RTO_MAX, Rtt};

/// The initial window in segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

/// Linux's names for what a sender is doing about congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
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

#[derive(Debug)]
pub(crate) struct Sender {
    ring: Ring,
    /// The first byte not acknowledged, the next to send, and the end of what was written.
    una: u64,
    next: u64,
    written: u64,
    /// The right edge of the peer's window.
    edge: u64,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// No segment before this number is lost and to be sent again.
    hint: u32,
    /// The last acknowledgement's blocks: what was looked through already.
    seen: [(u64, u64); 3],
    window: Window,
    control: Control,
    state: State,
    /// Recovery ends when this is acknowledged.
    high: u64,
    /// For proportional rate reduction, and to undo.
    prior_window: u32,
    prior_threshold: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// Retransmissions of this recovery that were not said to be needless, -1 before the first;
    /// `None` if there is nothing to undo.
    undo: Option<i32>,
    /// The end of the highest segment that arrived out of order.
    highest: u64,
    rtt: Rtt,
    rack: Rack,
    timer: Option<(Nanos, Timer)>,
    backoff: u32,
    /// A probe is to be sent.
    probe_due: bool,
    /// A probe is out, up to here.
    probe_end: Option<u64>,
    probe_was_retransmission: bool,
    // The delivery rate.
    delivered: u64,
    delivered_time: u64,
    first_time: u64,
    /// What is in flight was limited by the application up to this count of delivered; zero if not.
    app_limited: u64,
    // Whether the window is used (RFC 7661 in Linux's form).
    cwnd_limited: bool,
    most_out: u32,
    usage_end: u64,
    used: u32,
    used_stamp: u64,
    last_sent: u64,
    /// Segments sent since the window's use was last looked at.
    burst: u32,
    // Pacing.
    pace_at: u64,
    pace_left: u32,
    // ECN.
    reduced_to: u64,
    cwr: bool,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
}

impl Sender {
    pub(crate) fn new(now: Nanos, congestion: Congestion, rtt: Option<Nanos>, random: u64) -> Self {
        let mut estimate = Rtt::new();
        if let Some(rtt) = rtt {
            estimate.sample(rtt.0, 0, 0);
            estimate.note_min(rtt.0);
        }
        let size = match congestion {
            Congestion::Fixed(n) => n.max(1),
            _ => INITIAL_WINDOW,
        };
        Self {
            ring: Ring::new(),
            una: 0,
            next: 0,
            written: 0,
            edge: 65_536,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            hint: 0,
            seen: [(0, 0); 3],
            window: Window::new(size),
            control: Control::new(congestion, now.0, random),
            state: State::Open,
            high: 0,
            prior_window: 0,
            prior_threshold: 0,
            prr_delivered: 0,
            prr_out: 0,
            undo: None,
            highest: 0,
            rtt: estimate,
            rack: Rack::default(),
            timer: None,
            backoff: 0,
            probe_due: false,
            probe_end: None,
            probe_was_retransmission: false,
            delivered: 0,
            delivered_time: now.0,
            first_time: now.0,
            app_limited: 0,
            cwnd_limited: false,
            most_out: 0,
            usage_end: 0,
            used: 0,
            used_stamp: now.0,
            last_sent: now.0,
            burst: 0,
            pace_at: 0,
            pace_left: 0,
            reduced_to: 0,
            cwr: false,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// What the timers and the application wait for.
    pub(crate) fn timeout(&self) -> Nanos {
        Nanos((self.rtt.timeout().0 << self.backoff.min(16)).min(RTO_MAX))
    }

    pub(crate) fn deadline(&self) -> Nanos {
        let timer = self.timer.map_or(Nanos::MAX, |t| t.0);
        if self.pace_left == 0 && self.pace_at > 0 && self.may_send() {
            timer.min(Nanos(self.pace_at))
        } else {
            timer
        }
    }

    /// The next byte to be sent.
    pub(crate) fn next_byte(&self) -> u64 {
        self.next
    }

    pub(crate) fn wants_ecn(&self) -> bool {
        self.control.wants_ecn()
    }

    fn in_flight(&self) -> u32 {
        self.ring.len() + self.retransmitted - self.sacked - self.lost
    }

    fn connection(&self, now: u64) -> Connection {
        // In slow start, half the window in use is use enough: it doubles in a round trip.
        let cwnd_limited =
            self.cwnd_limited || (self.window.slow_start() && self.window.size < 2 * self.most_out);
        Connection {
            now,
            una: self.una,
            next: self.next,
            smoothed_rtt: self.rtt.smoothed(),
            cwnd_limited,
            recovering: self.state >= State::Recovery,
        }
    }
}
