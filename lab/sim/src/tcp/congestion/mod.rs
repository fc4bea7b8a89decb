//! Congestion control: how the window changes with acknowledgements, marks and losses.

mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod prague;
mod reno;

use forebay_queue::Ecn;
use forebay_units::Rate;

use super::pacing::Pacing;
use super::receiver::EcnMode;
use super::state::State;
use crate::prague::pace;
use bbr::Bbr;
use cubic::Cubic;
use dctcp::Dctcp;
use prague::Prague;

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// Cubic with HyStart (RFC 9438), with Linux's constants.
    #[default]
    Cubic,
    /// Reno, as in RFC 5681.
    Reno,
    /// BBR in version 1.
    Bbr,
    /// DCTCP (RFC 8257) as in Linux. Its packets are ECN-capable, by default ECT(0).
    Dctcp,
    /// DCTCP with an exact average of marks, as in RFC 8257. Linux's average of ten bits gets stuck
    /// at low values, and the flow then hardly reacts to evenly spread marks.
    DctcpExact,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control), which is scalable and meets the
    /// requirements of RFC 9331 section 4.3. Its packets carry the L4S identifier, ECT(1).
    Prague,
    /// A constant window of this many segments.
    Fixed(u32),
}

impl Congestion {
    /// Returns whether its rate is inversely proportional to the marking probability, not to its
    /// square root. Such flows may use L4S.
    pub(crate) fn is_scalable(self) -> bool {
        matches!(self, Self::Dctcp | Self::DctcpExact | Self::Prague)
    }

    /// Returns whether a flow may send data with the codepoint `ecn`.
    ///
    /// Only scalable controls may use the L4S identifier (RFC 9331 section 4.3). DCTCP and Prague
    /// need marks, and Prague needs the identifier.
    pub(crate) fn may_send(self, ecn: Ecn) -> bool {
        match ecn {
            Ecn::NotEct => !self.is_scalable(),
            Ecn::Ect0 => self != Self::Prague,
            Ecn::Ect1 => self.is_scalable(),
            Ecn::Ce => false,
        }
    }
}

/// The configuration of a host's TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) congestion: Congestion,
    /// The ECN codepoint of data; [`Ecn::NotEct`] selects what the congestion control needs.
    pub(crate) ecn: Ecn,
    pub(crate) pacing: Pacing,
}

impl Stack {
    /// Returns how marks are signalled.
    pub(crate) fn ecn_mode(self) -> EcnMode {
        match self.congestion {
            Congestion::Dctcp | Congestion::DctcpExact => {
                EcnMode::Exact { l4s: self.ecn == Ecn::Ect1 }
            }
            Congestion::Prague => EcnMode::Counted,
            _ if self.ecn == Ecn::NotEct => EcnMode::Off,
            _ => EcnMode::Classic,
        }
    }
}

/// The slow-start threshold before one is known.
pub(crate) const INFINITE: u32 = i32::MAX as u32;

/// The congestion window in segments.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) size: u32,
    /// The acknowledged segments that have not yet increased the window.
    credit: u32,
    /// The slow-start threshold in segments.
    pub(crate) threshold: u32,
}

impl Window {
    pub(crate) fn new(size: u32) -> Self {
        Self { size, credit: 0, threshold: INFINITE }
    }

    pub(crate) fn slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Increases the window by `acked` segments up to the threshold (slow start). Returns how many
    /// of them are left.
    fn double(&mut self, acked: u32) -> u32 {
        let size = (self.size + acked).min(self.threshold);
        let left = acked - (size - self.size);
        self.size = size;
        left
    }

    /// Increases the window by one segment for each `per` acknowledged segments.
    fn add(&mut self, per: u32, acked: u32) {
        if self.credit >= per {
            self.credit = 0;
            self.size += 1;
        }
        self.credit += acked;
        if self.credit >= per {
            self.size += self.credit / per;
            self.credit %= per;
        }
    }

    pub(crate) fn forget_credit(&mut self) {
        self.credit = 0;
    }

    /// Returns Linux's default pacing rate in bytes per second: twice the window per round trip in
    /// slow start, otherwise 1.2 times.
    ///
    /// The size of bursts and HyStart depend on it. `out` is the larger of the window and the
    /// segments that are out.
    pub(crate) fn default_pacing(&self, out: u32, smoothed_rtt: u64, mss: u64) -> u64 {
        let ratio = if self.size < self.threshold / 2 { 20 } else { 12 };
        let tenths = u64::from(out) * mss * ratio;
        tenths.saturating_mul(100_000_000) / smoothed_rtt.max(1)
    }
}

/// A sample of the path by an acknowledgement (the rate sample of
/// draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// The number of segments delivered so far.
    pub(crate) delivered: u64,
    /// The number of segments delivered when the sampled segment was sent; zero without a sample.
    pub(crate) prior_delivered: u64,
    /// The number of segments delivered in the interval.
    pub(crate) segments: u64,
    /// The length of the interval in nanoseconds; zero if the sample is not valid.
    pub(crate) interval: u64,
    /// The number of segments newly acknowledged, in sequence or by SACK.
    pub(crate) newly: u32,
    pub(crate) app_limited: bool,
    /// The round-trip time of the latest acknowledged segment that was never retransmitted.
    pub(crate) rtt: Option<u64>,
    /// Whether a single short segment was acknowledged, whose acknowledgement may be delayed.
    pub(crate) delayed: bool,
    /// The segments in flight before this acknowledgement.
    pub(crate) prior_in_flight: u32,
    pub(crate) in_flight: u32,
    /// The number of acknowledged segments that the receiver reported as marked.
    pub(crate) marked: u32,
    /// The losses that this acknowledgement detected.
    pub(crate) losses: u32,
    /// The losses of the connection so far.
    pub(crate) all_losses: u64,
}

/// The state of a connection for congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) now: u64,
    /// The first unacknowledged byte.
    pub(crate) una: u64,
    /// The next byte to send.
    pub(crate) next: u64,
    /// The smoothed round-trip time in nanoseconds; zero before the first sample.
    pub(crate) smoothed_rtt: u64,
    pub(crate) min_rtt: u64,
    pub(crate) cwnd_limited: bool,
    pub(crate) state: State,
    /// The time that the data already sent takes at the pacing rate.
    pub(crate) backlog: u64,
}

/// A congestion control with its state.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Reno,
    Cubic(Cubic),
    Bbr(Box<Bbr>),
    Dctcp(Dctcp),
    Prague(Prague),
    Fixed,
}

impl Control {
    /// Creates the state of a congestion control. `rtt` is that of the handshake, if known.
    pub(crate) fn new(kind: Congestion, now: u64, random: u64, rtt: Option<u64>) -> Self {
        match kind {
            Congestion::Reno => Self::Reno,
            Congestion::Cubic => Self::Cubic(Cubic::new(now)),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(now, random, rtt))),
            Congestion::Dctcp => Self::Dctcp(Dctcp::of_linux()),
            Congestion::DctcpExact => Self::Dctcp(Dctcp::exact()),
            Congestion::Prague => Self::Prague(Prague::new(now)),
            Congestion::Fixed(_) => Self::Fixed,
        }
    }

    /// Returns whether it sets the window itself, so that recovery and growth do not change it.
    pub(crate) fn sets_own_window(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Fixed)
    }

    /// Returns the size of the send buffer in windows (`sndbuf_expand`).
    pub(crate) fn buffered_windows(&self) -> u64 {
        if matches!(self, Self::Bbr(_)) { 3 } else { 2 }
    }

    /// Handles the round-trip time of acknowledged segments.
    pub(crate) fn on_measured(&mut self, window: &mut Window, c: &Connection, rtt: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.on_rtt(window, c, rtt);
        }
    }

    /// Grows the window after segments were acknowledged.
    pub(crate) fn grow(&mut self, window: &mut Window, c: &Connection, acked: u32) {
        match self {
            Self::Reno | Self::Dctcp(_) => reno::grow(window, c, acked),
            Self::Cubic(cubic) => cubic.grow(window, c, acked),
            Self::Prague(prague) => prague.grow(window, c, acked),
            Self::Bbr(_) | Self::Fixed => {}
        }
    }

    /// Returns whether it uses a sample of every acknowledgement.
    pub(crate) fn takes_samples(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Dctcp(_) | Self::Prague(_))
    }

    /// Handles the sample of an acknowledgement, if [`Control::takes_samples`].
    pub(crate) fn on_ack(&mut self, window: &mut Window, c: &Connection, sample: &Sample) {
        match self {
            Self::Bbr(bbr) => bbr.on_ack(window, c, sample),
            Self::Dctcp(dctcp) => dctcp.on_ack(c, sample),
            Self::Prague(prague) => prague.on_ack(window, c, sample),
            _ => {}
        }
    }

    /// Returns the new slow-start threshold after a loss or mark.
    pub(crate) fn on_congestion(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno | Self::Prague(_) => (window.size / 2).max(2),
            Self::Cubic(cubic) => cubic.on_congestion(window),
            Self::Dctcp(dctcp) => dctcp.on_congestion(window),
            Self::Bbr(bbr) => bbr.on_congestion(window),
            Self::Fixed => window.size,
        }
    }

    /// Adapts the threshold at the start of a recovery.
    pub(crate) fn on_recovery(&mut self, window: &mut Window) {
        if let Self::Dctcp(_) = self {
            // RFC 8257 section 3.5: losses halve the window.
            window.threshold = (window.size / 2).max(2);
        }
    }

    /// Returns the new slow-start threshold after the first timeout since there was progress.
    pub(crate) fn on_timeout_threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Dctcp(_) => (window.size / 2).max(2),
            _ => self.on_congestion(window),
        }
    }

    /// Handles a timeout; `next` is the next byte to send.
    pub(crate) fn on_timeout(&mut self, now: u64, next: u64) {
        match self {
            Self::Cubic(cubic) => cubic.reset(now, next),
            Self::Bbr(bbr) => bbr.on_timeout(),
            _ => {}
        }
    }

    /// Returns the window after a reduction turned out to be spurious.
    pub(crate) fn undo(&mut self, window: &Window, prior: u32) -> u32 {
        match self {
            Self::Bbr(bbr) => {
                bbr.on_undone();
                window.size
            }
            Self::Fixed => window.size,
            _ => window.size.max(prior),
        }
    }

    /// Handles the restart of sending with nothing in flight, after `idle` nanoseconds.
    pub(crate) fn on_restart(&mut self, now: u64, idle: u64, app_limited: bool) {
        match self {
            Self::Cubic(cubic) => cubic.on_restart(now, idle),
            Self::Bbr(bbr) => bbr.on_restart(now, app_limited),
            _ => {}
        }
    }

    /// Returns whether it limits the segments in flight to measure the minimum round-trip time.
    pub(crate) fn probes_rtt(&self) -> bool {
        matches!(self, Self::Bbr(bbr) if bbr.probes_rtt())
    }

    /// Returns the pacing rate of payload, or `None` if the control sets none.
    pub(crate) fn pacing(&self, window: &Window, smoothed_rtt: u64) -> Option<Rate> {
        match self {
            Self::Bbr(bbr) => bbr.pacing(),
            Self::Prague(prague) => prague.pacing(window, smoothed_rtt),
            _ => None,
        }
    }

    /// Returns the segments of a burst, or `None` for Linux's default.
    pub(crate) fn burst(&self, window: &Window, smoothed_rtt: u64) -> Option<u32> {
        match self {
            Self::Bbr(bbr) => Some(bbr.burst()),
            Self::Prague(prague) => Some(prague.burst(window, smoothed_rtt)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(congestion: Congestion, ecn: Ecn) -> Stack {
        Stack { congestion, ecn, pacing: Pacing::default() }
    }

    /// Returns a connection that is limited by its window.
    pub(super) fn connection(now: u64, rtt: u64) -> Connection {
        Connection {
            now,
            una: 0,
            next: 0,
            smoothed_rtt: rtt,
            min_rtt: rtt,
            cwnd_limited: true,
            state: State::Open,
            backlog: 0,
        }
    }

    #[test]
    fn only_scalable_controls_use_the_l4s_identifier() {
        let codepoint = |congestion| stack(congestion, Ecn::NotEct).ecn_mode().codepoint();
        // RFC 9331 section 4.3 item 1: a replacement of Prague does not set ECT(1).
        assert_eq!(codepoint(Congestion::Prague), Ecn::Ect1);
        assert_eq!(codepoint(Congestion::Dctcp), Ecn::Ect0);
        for kind in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr, Congestion::Fixed(9)] {
            assert_eq!(codepoint(kind), Ecn::NotEct, "{kind:?}");
        }
        assert_eq!(EcnMode::Classic.codepoint(), Ecn::Ect0);
        let l4s = stack(Congestion::Dctcp, Ecn::Ect1);
        assert_eq!(l4s.ecn_mode().codepoint(), Ecn::Ect1);
        for kind in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr, Congestion::Fixed(9)] {
            assert!(!kind.may_send(Ecn::Ect1) && kind.may_send(Ecn::Ect0), "{kind:?}");
        }
        assert!(!Congestion::Prague.may_send(Ecn::Ect0));
    }

    #[test]
    fn dctcp_halves_on_loss_and_reduces_less_on_marks() {
        let mut control = Control::new(Congestion::Dctcp, 0, 0, None);
        let mut window = Window::new(100);
        if let Control::Dctcp(dctcp) = &mut control {
            for round in 1..100 {
                let c = Connection { una: round, next: round, ..connection(round, 1) };
                dctcp.on_ack(&c, &Sample { newly: 10, ..Sample::default() });
            }
        }
        window.threshold = control.on_congestion(&window);
        assert_eq!(window.threshold, 100);
        control.on_recovery(&mut window);
        assert_eq!(window.threshold, 50);
        assert_eq!(control.on_timeout_threshold(&window), 50);
    }
}
