//! Congestion control: how the window answers acknowledgements and losses.

mod bbr;
mod cubic;
mod hystart;
mod reno;

pub(crate) use bbr::Bbr;
pub(crate) use cubic::Cubic;

use forebay_units::{Nanos, Rate};

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
    /// DCTCP (RFC 8257). Its packets are ECN-capable.
    Dctcp,
    /// A window of so many segments, whatever happens.
    Fixed(u32),
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
    /// In flight before this acknowledgement.
    pub(crate) prior_in_flight: u32,
    pub(crate) in_flight: u32,
    /// Segments acknowledged that were marked, as far as the receiver says.
    pub(crate) marked: u32,
    pub(crate) losses: u32,
}

/// What congestion control may know of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) now: u64,
    /// The first byte not acknowledged, and the next to be sent.
    pub(crate) una: u64,
    pub(crate) next: u64,
    pub(crate) smoothed_rtt: u64,
    pub(crate) cwnd_limited: bool,
    /// Losses are being repaired.
    pub(crate) recovering: bool,
}

/// A congestion control with its state.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Reno,
    Cubic(Cubic),
    Bbr(Box<Bbr>),
    Dctcp(reno::Dctcp),
    Fixed,
}

impl Control {
    pub(crate) fn new(kind: Congestion, now: u64, random: u64) -> Self {
        match kind {
            Congestion::Reno => Self::Reno,
            Congestion::Cubic => Self::Cubic(Cubic::new(now)),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(now, random))),
            Congestion::Dctcp => Self::Dctcp(reno::Dctcp::new()),
            Congestion::Fixed(_) => Self::Fixed,
        }
    }

    /// Whether it sets the window by itself, whatever happens.
    pub(crate) fn is_its_own(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Fixed)
    }

    pub(crate) fn wants_ecn(&self) -> bool {
        matches!(self, Self::Dctcp(_))
    }

    /// Segments were acknowledged in sequence: for what it measures.
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
            Self::Bbr(_) | Self::Fixed => {}
        }
    }

    /// Every acknowledgement.
    pub(crate) fn on_ack(&mut self, window: &mut Window, c: &Connection, sample: &Sample) {
        match self {
            Self::Bbr(bbr) => bbr.on_ack(window, c, sample),
            Self::Dctcp(dctcp) => dctcp.on_ack(c, sample),
            _ => {}
        }
    }

    /// Something was lost or marked: the new threshold.
    pub(crate) fn on_congestion(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno => (window.size / 2).max(2),
            Self::Cubic(cubic) => cubic.on_congestion(window),
            Self::Dctcp(dctcp) => dctcp.on_congestion(window),
            Self::Bbr(bbr) => bbr.on_congestion(window),
            Self::Fixed => window.size,
        }
    }

    /// The timer ran out.
    pub(crate) fn on_timeout(&mut self, now: u64) {
        match self {
            Self::Cubic(cubic) => cubic.reset(now),
            Self::Bbr(bbr) => bbr.on_timeout(),
            _ => {}
        }
    }

    /// Sending begins again with nothing in flight, after `idle` nanoseconds.
    pub(crate) fn on_restart(&mut self, now: u64, idle: u64, app_limited: bool) {
        match self {
            Self::Cubic(cubic) => cubic.on_restart(now, idle),
            Self::Bbr(bbr) => bbr.on_restart(app_limited),
            _ => {}
        }
    }

    /// How fast to send within the window; `None` for as fast as acknowledgements come.
    pub(crate) fn pacing(&self) -> Option<Rate> {
        match self {
            Self::Bbr(bbr) => bbr.pacing(),
            _ => None,
        }
    }
}

/// Linux's pacing rate for congestion controls that set none: twice the window per round trip in
/// slow start. Only HyStart reads it.
pub(crate) fn default_pacing(window: &Window, c: &Connection, mss: u64) -> Rate {
    let ratio = if window.size < window.threshold / 2 { 20 } else { 12 };
    let bytes = u64::from(window.size) * mss * ratio / 10;
    Rate::from_bytes_over(forebay_units::Bytes(bytes), Nanos(c.smoothed_rtt))
}
