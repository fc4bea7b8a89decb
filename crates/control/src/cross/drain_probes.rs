//! When a bundle that passes through looks whether it still must.

use forebay_units::{Nanos, Rate};

use super::bottleneck_estimate::BottleneckEstimate;
use super::drain_probe::{DrainProbe, ProbeResult, RateCut};
use super::queue_fall::QueueFall;
use crate::controller::Measurement;

/// A look costs the bundle what it holds back meanwhile, as many bytes as the queue has. Looks come so
/// seldom that this stays below this share of what the bundle sends,
const COST: f64 = 0.04;
/// and at least and at most this often.
const EVERY: (Nanos, Nanos) = (Nanos::from_secs(2), Nanos::from_secs(30));
/// A look makes the queue fall and rise again, for no longer than so many round-trip times.
const SETTLES: u64 = 8;
/// Where one look is not enough, the next comes after this, and not before the queue has settled.
const AGAIN: Nanos = Nanos::from_secs(1);

/// Looks: whenever the queue falls as it has not for long, and now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainProbes {
    /// While it looks.
    probe: Option<DrainProbe>,
    /// How many of the last looks saw the queue drain.
    drained: u32,
    fall: QueueFall,
    /// What the last ones told of the bottleneck's rate.
    bottleneck: BottleneckEstimate,
    /// When the last one ended.
    ended: Nanos,
}

impl DrainProbes {
    /// Begins anew.
    pub(super) fn begin(now: Nanos) -> Self {
        Self { fall: QueueFall::begin(now), ended: now, ..Self::default() }
    }

    /// The cut that a look makes now.
    pub(super) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        self.probe?.rate_cut(now)
    }

    /// A tick of a bundle that was served at `highest` at most. The look that showed, as the last of
    /// `needed`, that the queue drains.
    pub(super) fn on_tick(
        &mut self,
        m: &Measurement,
        needed: u32,
        highest: Rate,
    ) -> Option<DrainProbe> {
        let Some(mut drain) = self.probe else {
            let bottleneck = self.bottleneck.rate(highest);
            if self.is_due(m, bottleneck) {
                self.probe = DrainProbe::begin(m, self.bottleneck.rate_for_cut(highest));
            }
            return None;
        };
        let shown = drain.on_tick(m);
        self.probe = shown.is_none().then_some(drain);
        let shown = shown?;
        if let Some(rate) = drain.bottleneck() {
            self.bottleneck.push(rate);
        }
        self.drained = match shown {
            ProbeResult::QueueDrained => self.drained + 1,
            ProbeResult::QueueStands => 0,
        };
        self.ended = m.now;
        (self.drained >= needed).then_some(drain)
    }

    fn is_due(&mut self, m: &Measurement, bottleneck: Rate) -> bool {
        let waited = m.now.saturating_sub(self.ended);
        if waited < m.smoothed_rtt * SETTLES {
            return false;
        }
        let fell = self.fall.on_tick(m.now, m.queueing_delay());
        fell || waited >= every(m, bottleneck) || (self.drained > 0 && waited >= AGAIN)
    }
}

/// How often it looks, at a queue that is served at `bottleneck`.
fn every(m: &Measurement, bottleneck: Rate) -> Nanos {
    let send_rate = m.send_rate.as_bytes_per_sec_f64().max(1.0);
    let held_back = m.queueing_delay().as_secs_f64() * bottleneck.as_bytes_per_sec_f64();
    let every = held_back / send_rate / COST;
    Nanos::from_secs_f64(every.min(EVERY.1.as_secs_f64())).max(EVERY.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);
    const MU: Rate = Rate::from_mbps(96);

    /// What a bundle measures that has 48 of 96 Mbit/s at a queue of `delay` ms.
    fn measured(ms: u64, delay: u64) -> Measurement {
        Measurement {
            now: MS * ms,
            rtt: quiet().min_rtt + MS * delay,
            smoothed_rtt: quiet().min_rtt + MS * delay,
            standing_rtt: quiet().min_rtt + MS * delay,
            send_rate: Rate::from_mbps(48),
            busy_rate: Some(Rate::from_mbps(48)),
            sample_age: Nanos::ZERO,
            samples: ms,
            ..quiet()
        }
    }

    /// When each look began and ended in `seconds` of ticks, where the queue of 90 ms drains in a look
    /// or stands, and when a look of as many as are needed was enough.
    fn drain_probes(
        seconds: u64,
        drains: bool,
        needed: u32,
    ) -> (std::vec::Vec<(u64, u64)>, Option<u64>) {
        let mut drain_probes = DrainProbes::begin(Nanos::ZERO);
        let (mut all, mut began) = (std::vec![], None);
        for ms in (10..seconds * 1_000).step_by(10) {
            let cut = began.is_some_and(|began| ms > began + 300);
            let enough =
                drain_probes.on_tick(&measured(ms, if cut && drains { 0 } else { 90 }), needed, MU);
            match (began, drain_probes.probe) {
                (None, Some(_)) => began = Some(ms),
                (Some(from), None) => {
                    all.push((from, ms));
                    began = None;
                }
                _ => {}
            }
            if enough.is_some() {
                return (all, Some(ms));
            }
        }
        (all, None)
    }

    #[test]
    fn as_often_as_four_per_cent_of_what_is_sent_pay_for() {
        // 100 ms of 96 Mbit/s are 200 ms of 48, which is a 25th of 5 s.
        assert_eq!(every(&measured(0, 100), MU), MS * 5_000);
        assert_eq!(every(&measured(0, 1), MU), EVERY.0);
        assert_eq!(every(&measured(0, 90), MU.scaled(100.0)), EVERY.1);
        let idle = Measurement { send_rate: Rate::ZERO, ..measured(0, 90) };
        assert_eq!(every(&idle, MU), EVERY.1);

        let (all, enough) = drain_probes(70, false, 1);
        assert_eq!(enough, None, "a queue that stands");
        assert_eq!(all[0].0, 4_500);
        // A queue that does not fall at all where the bundle leaves room is served far faster than the
        // bundle ever was: twice as fast at most before the third look, then four times.
        let waited: std::vec::Vec<u64> = all.windows(2).map(|w| w[1].0 - w[0].1).collect();
        assert_eq!(waited, [9_000, 9_000, 18_000, 18_000]);
    }

    #[test]
    fn as_many_as_are_needed() {
        let (all, enough) = drain_probes(60, true, 1);
        assert_eq!((all.len(), enough), (1, Some(all[0].1)));
        // The second comes when the queue has settled: eight round trips of 140 ms.
        let (all, enough) = drain_probes(60, true, 2);
        assert_eq!((all.len(), enough), (2, Some(all[1].1)));
        assert_eq!(all[1].0 - all[0].1, 1_120);
    }
}
