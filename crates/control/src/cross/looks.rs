//! When a bundle that passes through looks whether it still must.

use forebay_units::{Nanos, Rate};

use super::drain::{Drain, Shown};
use super::fall::Fall;
use crate::controller::Measurement;

/// A look makes the queue fall, for no longer than so many round-trip times.
const SETTLES: u64 = 8;

/// Looks: whenever the queue falls as it has not for long, and now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// While it looks.
    drain: Option<Drain>,
    fall: Fall,
    /// When it last began to.
    at: Nanos,
}

impl Looks {
    /// Begins anew.
    pub(super) fn begin(now: Nanos) -> Self {
        Self { drain: None, fall: Fall::begin(now), at: now }
    }

    /// The rate for the sake of a look.
    pub(super) fn rate(&self, now: Nanos) -> Option<Rate> {
        self.drain?.rate(now)
    }

    /// A tick; a look is due after each time of `every`. The one that showed that the queue drains.
    pub(super) fn on_tick(
        &mut self,
        m: &Measurement,
        every: Nanos,
        bottleneck: Rate,
    ) -> Option<Drain> {
        if let Some(drain) = &mut self.drain {
            let shown = drain.on_tick(m)?;
            let drain = self.drain.take();
            return drain.filter(|_| shown == Shown::Drained);
        }
        let waited = m.now.saturating_sub(self.at);
        let settled = waited >= m.smoothed_rtt * SETTLES;
        let fell = settled && self.fall.on_tick(m.now, m.queueing_delay());
        if fell || waited >= every {
            self.at = m.now;
            self.drain = Drain::begin(m, bottleneck);
        }
        None
    }
}
