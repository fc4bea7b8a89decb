//! What became of each datagram.

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos, Rate};

/// A part of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Small packets of each codepoint.
    Codepoints,
    /// Not-ECT packets at rising rates, in steps counted from zero.
    Ramp(u8),
    /// ECT(1) packets at a fifth of the path's rate.
    Light,
    /// Not-ECT packets faster than the path.
    Classic,
    /// ECT(1) packets faster than the path.
    L4s,
}

/// A datagram, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The phase in which it was sent.
    pub phase: Phase,
    /// The codepoint with which it was sent.
    pub ecn: Ecn,
    /// The length of the IP packet, with IPv4's headers.
    pub len: Bytes,
    /// When it was sent, by the prober's clock.
    pub sent: Nanos,
    /// When it arrived by the reflector's clock, and with which codepoint; `None` while no echo has
    /// come.
    pub arrived: Option<(Nanos, Ecn)>,
}

impl Sample {
    /// Returns the difference between both clocks at departure and arrival. Its least value is that
    /// of the empty path.
    fn difference(&self) -> Option<i128> {
        self.arrived.map(|(at, _)| i128::from(at.0) - i128::from(self.sent.0))
    }

    /// Returns whether it arrived marked, though it was not sent so.
    pub fn is_marked(&self) -> bool {
        self.ecn != Ecn::Ce && matches!(self.arrived, Some((_, Ecn::Ce)))
    }
}

/// All datagrams of a check, with the delay of the empty path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    all: Vec<Sample>,
    least: Option<i128>,
}

impl Samples {
    /// The most datagrams of a check; more are not sent.
    pub(crate) const MAX_DATAGRAMS: usize = 1 << 20;

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.all.len() >= Self::MAX_DATAGRAMS
    }

    /// Returns how many were answered.
    pub(crate) fn answered(&self) -> usize {
        self.all.iter().filter(|s| s.arrived.is_some()).count()
    }

    pub(crate) fn push(&mut self, sample: Sample) {
        self.all.push(sample);
    }

    /// Notes an arrival. Returns the round trip up to `now`; `None` for a datagram that was not
    /// sent, or whose echo came before.
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        sequence: u32,
        at: Nanos,
        ecn: Ecn,
    ) -> Option<Nanos> {
        let sample = self.all.get_mut(sequence as usize).filter(|s| s.arrived.is_none())?;
        sample.arrived = Some((at, ecn));
        let difference = sample.difference()?;
        self.least = Some(self.least.map_or(difference, |least| least.min(difference)));
        Some(now.saturating_sub(sample.sent))
    }

    /// Returns the samples of `phase` in the order in which they were sent.
    pub(crate) fn of(&self, phase: Phase) -> impl DoubleEndedIterator<Item = &Sample> {
        // A phase is one stretch.
        let from = self.all.partition_point(|s| s.phase < phase);
        let to = self.all.partition_point(|s| s.phase <= phase);
        self.all[from..to].iter()
    }

    /// Returns how much longer `sample` took than the fastest one of all.
    pub(crate) fn queue(&self, sample: &Sample) -> Option<Nanos> {
        let longer = sample.difference()? - self.least?;
        Some(Nanos(u64::try_from(longer).unwrap_or(0)))
    }

    /// Returns the quantile `q` of the delays of `samples` beyond the fastest one; `None` if none
    /// arrived.
    pub(crate) fn delay<'a>(
        &self,
        samples: impl Iterator<Item = &'a Sample>,
        q: f64,
    ) -> Option<Nanos> {
        let mut delays: Vec<Nanos> = samples.filter_map(|s| self.queue(s)).collect();
        delays.sort_unstable();
        let last = delays.len().checked_sub(1)?;
        Some(delays[(last as f64 * q).round() as usize])
    }
}

/// Numbers of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: usize,
    pub(crate) arrived: usize,
    pub(crate) marked: usize,
}

impl Counts {
    pub(crate) fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        samples.fold(Self::default(), |c, s| Self {
            sent: c.sent + 1,
            arrived: c.arrived + usize::from(s.arrived.is_some()),
            marked: c.marked + usize::from(s.is_marked()),
        })
    }

    /// Returns the share that arrived, 1 where nothing was sent.
    pub(crate) fn delivered(&self) -> f64 {
        share(self.arrived, self.sent, 1.0)
    }

    /// Returns the share of arrivals that were marked, 0 without arrivals.
    pub(crate) fn marks(&self) -> f64 {
        share(self.marked, self.arrived, 0.0)
    }
}

/// Returns `part` of `whole`, `none` if there is none.
pub(crate) fn share(part: usize, whole: usize, none: f64) -> f64 {
    if whole == 0 { none } else { part as f64 / whole as f64 }
}

/// Returns the rate at which `samples` arrived; `None` below ten arrivals.
pub(crate) fn arrival_rate<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<Rate> {
    let arrivals: Vec<_> = samples.filter_map(|s| Some((s.arrived?.0, s.len))).collect();
    let first = arrivals.iter().map(|a| a.0).min()?;
    let last = arrivals.iter().map(|a| a.0).max()?;
    if arrivals.len() < 10 || last <= first {
        return None;
    }
    // The first one only begins the time.
    let bytes: u64 = arrivals.iter().map(|a| a.1.0).sum::<u64>() - arrivals[0].1.0;
    Some(Rate::from_bytes_over(Bytes(bytes), last.saturating_sub(first)))
}
