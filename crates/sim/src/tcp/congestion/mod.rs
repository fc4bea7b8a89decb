//! Congestion control: how the window answers acknowledgements and losses.

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
use super::sender::State;
use crate::prague::pace;
use bbr::Bbr;
use cubic::Cubic;
use dctcp::Dctcp;
use prague::Prague;

/// A congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// Cubic with HyStart (RFC 9438), with Linux's constants.
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR, version 1.
    Bbr,
    /// DCTCP (RFC 8257). Its packets are ECN-capable: ECT(0), as in Linux, if nothing else is said.
    Dctcp,
    /// DCTCP with an exact average of marks, as RFC 8257 has it. Linux's of ten bits gets stuck at low
    /// values, and such a flow then hardly heeds marks that are evenly spread.
    DctcpExact,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control), which is scalable and meets the
    /// requirements of RFC 9331 section 4.3. Its packets carry the L4S identifier, ECT(1).
    Prague,
    /// A window of so many segments, whatever happens.
    Fixed(u32),
}

impl Congestion {
    /// Whether its rate falls with the share of marks and not with its root, so that it may be told
    /// of them as L4S is.
    pub(crate) fn is_scalable(self) -> bool {
        matches!(self, Self::Dctcp | Self::DctcpExact | Self::Prague)
    }

    /// Whether data that says `ecn` may be sent under it. What is no scalable control may not use the
    /// L4S identifier (RFC 9331 section 4.3); DCTCP and Prague cannot do without marks, and Prague
    /// not without the identifier.
    pub(crate) fn may_send(self, ecn: Ecn) -> bool {
        match ecn {
            Ecn::NotEct => !self.is_scalable(),
            Ecn::Ect0 => self != Self::Prague,
            Ecn::Ect1 => self.is_scalable(),
            Ecn::Ce => false,
        }
    }
}

/// How a host's TCP is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) congestion: Congestion,
    /// What its data says of ECN; [`Ecn::NotEct`] for what the congestion control cannot do without.
    pub(crate) ecn: Ecn,
    pub(crate) pacing: Pacing,
}

impl Stack {
    /// How it is told of marks.
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

/// No slow-start threshold is known yet.
pub(crate) const INFINITE: u32 = i32::MAX as u32;

/// The congestion window, in segments.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) size: u32,
    /// Acknowledged segments that have not yet raised it.
    credit: u32,
    /// The slow-start threshold.
    pub(crate) threshold: u32,
}

impl Window {
    pub(crate) fn new(size: u32) -> Self {
        Self { size, credit: 0, threshold: INFINITE }
    }

    pub(crate) fn slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Slow start by `acked` segments up to the threshold; what is left of them.
    fn double(&mut self, acked: u32) -> u32 {
        let size = (self.size + acked).min(self.threshold);
        let left = acked - (size - self.size);
        self.size = size;
        left
    }

    /// One segment more for each `per` that are acknowledged.
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

    /// Bytes per second that Linux would pace at where congestion control says nothing: twice the
    /// window per round trip in slow start, else 1.2 times. What is sent in one go depends on it,
    /// and HyStart. `out` is the window, or what is out if that is more.
    pub(crate) fn default_pacing(&self, out: u32, smoothed_rtt: u64, mss: u64) -> u64 {
        let ratio = if self.size < self.threshold / 2 { 20 } else { 12 };
        let tenths = u64::from(out) * mss * ratio;
        tenths.saturating_mul(100_000_000) / smoothed_rtt.max(1)
    }
}

/// What an acknowledgement says about the path (the rate sample of
/// draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Segments delivered in all by now,
    pub(crate) delivered: u64,
    /// and when the sample's segment was sent; zero if nothing was sampled.
    pub(crate) prior_delivered: u64,
    /// Segments delivered in the interval,
    pub(crate) segments: u64,
    /// and its length; zero if the sample is no good.
    pub(crate) interval: u64,
    /// Newly acknowledged, in sequence or not.
    pub(crate) newly: u32,
    pub(crate) app_limited: bool,
    /// The round-trip time, of the latest segment that was acknowledged and never sent again.
    pub(crate) rtt: Option<u64>,
    /// A lone short segment was acknowledged, perhaps late on purpose.
    pub(crate) delayed: bool,
    /// In flight before this acknowledgement.
    pub(crate) prior_in_flight: u32,
    pub(crate) in_flight: u32,
    /// Segments acknowledged that were marked, as far as the receiver says.
    pub(crate) marked: u32,
    /// Losses found by this acknowledgement, and in all.
    pub(crate) losses: u32,
    pub(crate) all_losses: u64,
}

/// What congestion control may know of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) now: u64,
    /// The first byte not acknowledged, and the next to be sent.
    pub(crate) una: u64,
    pub(crate) next: u64,
    /// In nanoseconds; zero before the first sample.
    pub(crate) smoothed_rtt: u64,
    pub(crate) min_rtt: u64,
    pub(crate) cwnd_limited: bool,
    pub(crate) state: State,
    /// How long what was sent takes to leave by its pace.
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
    /// `rtt` is the handshake's, if it is known.
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

    /// Whether it sets the window by itself, whatever happens.
    pub(crate) fn is_its_own(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Fixed)
    }

    /// How many windows the send buffer has room for (`sndbuf_expand`).
    pub(crate) fn buffered_windows(&self) -> u64 {
        if matches!(self, Self::Bbr(_)) { 3 } else { 2 }
    }

    /// Segments were acknowledged: for what it measures.
    pub(crate) fn on_measured(&mut self, window: &mut Window, c: &Connection, rtt: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.on_rtt(window, c, rtt);
        }
    }

    /// Segments were acknowledged and the window may grow.
    pub(crate) fn grow(&mut self, window: &mut Window, c: &Connection, acked: u32) {
        match self {
            Self::Reno | Self::Dctcp(_) => reno::grow(window, c, acked),
            Self::Cubic(cubic) => cubic.grow(window, c, acked),
            Self::Prague(prague) => prague.grow(window, c, acked),
            Self::Bbr(_) | Self::Fixed => {}
        }
    }

    /// Whether it looks at what every acknowledgement says of the path.
    pub(crate) fn takes_samples(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Dctcp(_) | Self::Prague(_))
    }

    /// Every acknowledgement, if [`Control::takes_samples`].
    pub(crate) fn on_ack(&mut self, window: &mut Window, c: &Connection, sample: &Sample) {
        match self {
            Self::Bbr(bbr) => bbr.on_ack(window, c, sample),
            Self::Dctcp(dctcp) => dctcp.on_ack(c, sample),
            Self::Prague(prague) => prague.on_ack(window, c, sample),
            _ => {}
        }
    }

    /// Something was lost or marked: the new threshold.
    pub(crate) fn on_congestion(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno | Self::Prague(_) => (window.size / 2).max(2),
            Self::Cubic(cubic) => cubic.on_congestion(window),
            Self::Dctcp(dctcp) => dctcp.on_congestion(window),
            Self::Bbr(bbr) => bbr.on_congestion(window),
            Self::Fixed => window.size,
        }
    }

    /// Something was lost and is being repaired.
    pub(crate) fn on_recovery(&mut self, window: &mut Window) {
        if let Self::Dctcp(_) = self {
            // RFC 8257 section 3.5: as other controls do.
            window.threshold = (window.size / 2).max(2);
        }
    }

    /// The timer ran out, for the first time since there was progress: the new threshold.
    pub(crate) fn on_timeout_threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Dctcp(_) => (window.size / 2).max(2),
            _ => self.on_congestion(window),
        }
    }

    /// The timer ran out; `next` is the next byte to be sent.
    pub(crate) fn on_timeout(&mut self, now: u64, next: u64) {
        match self {
            Self::Cubic(cubic) => cubic.reset(now, next),
            Self::Bbr(bbr) => bbr.on_timeout(),
            _ => {}
        }
    }

    /// There was no congestion after all: the window.
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

    /// Sending begins again with nothing in flight, after `idle` nanoseconds.
    pub(crate) fn on_restart(&mut self, now: u64, idle: u64, app_limited: bool) {
        match self {
            Self::Cubic(cubic) => cubic.on_restart(now, idle),
            Self::Bbr(bbr) => bbr.on_restart(now, app_limited),
            _ => {}
        }
    }

    /// It sends little on purpose, to see the empty path.
    pub(crate) fn probes_rtt(&self) -> bool {
        matches!(self, Self::Bbr(bbr) if bbr.probes_rtt())
    }

    /// How fast to send payload within the window; `None` where it does not say.
    pub(crate) fn pacing(&self, window: &Window, smoothed_rtt: u64) -> Option<Rate> {
        match self {
            Self::Bbr(bbr) => bbr.pacing(),
            Self::Prague(prague) => prague.pacing(window, smoothed_rtt),
            _ => None,
        }
    }

    /// Segments to send in one go; `None` for what Linux takes.
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

    /// A connection that uses its window.
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
    fn only_scalable_controls_use_their_identifier() {
        let codepoint = |congestion| stack(congestion, Ecn::NotEct).ecn_mode().codepoint();
        // RFC 9331 section 4.3 item 1: what replaces it does not set ECT(1).
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
    fn dctcp_halves_on_loss_though_it_cuts_less_on_marks() {
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
