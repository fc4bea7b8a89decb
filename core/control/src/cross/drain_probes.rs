//! The schedule of drain probes in pass-through mode.

use forebay_units::{Nanos, Rate};

use super::bottleneck_estimate::BottleneckEstimate;
use super::drain_probe::{DrainProbe, ProbeResult, RateCut};
use super::queue_fall::QueueFall;
use crate::controller::Measurement;

/// The share of the bundle's bytes that drain probes may hold back. A probe holds back as many
/// bytes as the queue has, so this sets the interval.
const COST: f64 = 0.04;
/// The shortest interval between probes.
const MIN_INTERVAL: Nanos = Nanos::from_secs(2);
/// The longest interval between probes.
const MAX_INTERVAL: Nanos = Nanos::from_secs(30);
/// Round-trip times after which the queue has settled from the last probe.
const SETTLED: u64 = 8;
/// The interval to the next probe where one drained queue is not enough, if the queue has settled.
const AGAIN: Nanos = Nanos::from_secs(1);

/// Starts drain probes when the queue falls more than usual, and at intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainProbes {
    /// The probe under way.
    probe: Option<DrainProbe>,
    /// Number of the last probes in a row that found the queue drained.
    drained: u32,
    fall: QueueFall,
    /// The bottleneck's rate by the last probes.
    bottleneck: BottleneckEstimate,
    /// When the last probe ended.
    ended: Nanos,
}

impl DrainProbes {
    /// Starts a schedule at `now` without a past.
    pub(super) fn begin(now: Nanos) -> Self {
        Self { fall: QueueFall::begin(now), ended: now, ..Self::default() }
    }

    /// Returns the rates of the probe under way.
    pub(super) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        self.probe?.rate_cut(now)
    }

    /// Evaluates a tick of a bundle whose highest rate was `highest`. Returns the probe that ended
    /// now if it was the last of `needed` in a row that found the queue drained.
    pub(super) fn on_tick(
        &mut self,
        m: &Measurement,
        needed: u32,
        highest: Rate,
    ) -> Option<DrainProbe> {
        let Some(mut probe) = self.probe else {
            let bottleneck = self.bottleneck.rate(highest);
            if self.is_due(m, bottleneck) {
                self.probe = DrainProbe::begin(m, self.bottleneck.rate_for_cut(highest));
            }
            return None;
        };
        let result = probe.on_tick(m);
        self.probe = result.is_none().then_some(probe);
        let result = result?;
        if let Some(rate) = probe.bottleneck() {
            self.bottleneck.push(rate);
        }
        self.drained = match result {
            ProbeResult::QueueDrained => self.drained + 1,
            ProbeResult::QueueStands => 0,
        };
        self.ended = m.now;
        (self.drained >= needed).then_some(probe)
    }

    /// Returns whether to start a probe.
    fn is_due(&mut self, m: &Measurement, bottleneck: Rate) -> bool {
        let waited = m.now.saturating_sub(self.ended);
        if waited < m.smoothed_rtt * SETTLED {
            return false;
        }
        let fell = self.fall.on_tick(m.now, m.queueing_delay());
        fell || waited >= interval(m, bottleneck) || (self.drained > 0 && waited >= AGAIN)
    }
}

/// Returns the interval between probes of a queue that is served at the rate `bottleneck`.
fn interval(m: &Measurement, bottleneck: Rate) -> Nanos {
    let send_rate = m.send_rate.as_bytes_per_sec_f64().max(1.0);
    let held_back = m.queueing_delay().as_secs_f64() * bottleneck.as_bytes_per_sec_f64();
    let interval = held_back / send_rate / COST;
    Nanos::from_secs_f64(interval.min(MAX_INTERVAL.as_secs_f64())).max(MIN_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);
    const MU: Rate = Rate::from_mbps(96);

    /// Returns the measurement of a bundle that has 48 of 96 Mbit/s at a queue of `delay` ms.
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

    /// Runs ticks for `seconds` with a queue of 90 ms that drains during a probe or stands. Returns
    /// the begin and end of each probe, and when `needed` drained queues were seen, in
    /// milliseconds.
    fn run(seconds: u64, drains: bool, needed: u32) -> (std::vec::Vec<(u64, u64)>, Option<u64>) {
        let mut schedule = DrainProbes::begin(Nanos::ZERO);
        let (mut all, mut began) = (std::vec![], None);
        for ms in (10..seconds * 1_000).step_by(10) {
            let cut = began.is_some_and(|began| ms > began + 300);
            let enough =
                schedule.on_tick(&measured(ms, if cut && drains { 0 } else { 90 }), needed, MU);
            match (began, schedule.probe) {
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
    fn probes_hold_back_four_per_cent_of_the_traffic() {
        // 100 ms at 96 Mbit/s take 200 ms at 48, which is a 25th of 5 s.
        assert_eq!(interval(&measured(0, 100), MU), MS * 5_000);
        assert_eq!(interval(&measured(0, 1), MU), MIN_INTERVAL);
        assert_eq!(interval(&measured(0, 90), MU.scaled(100.0)), MAX_INTERVAL);
        let idle = Measurement { send_rate: Rate::ZERO, ..measured(0, 90) };
        assert_eq!(interval(&idle, MU), MAX_INTERVAL);

        let (all, enough) = run(70, false, 1);
        assert_eq!(enough, None, "a queue that stands");
        assert_eq!(all[0].0, 4_500);
        // A queue that does not fall during a probe is served much faster than the bundle ever was:
        // the estimate allows twice as fast before the third probe, then four times.
        let waited: std::vec::Vec<u64> = all.windows(2).map(|w| w[1].0 - w[0].1).collect();
        assert_eq!(waited, [9_000, 9_000, 18_000, 18_000]);
    }

    #[test]
    fn the_needed_number_of_probes_follow_each_other() {
        let (all, enough) = run(60, true, 1);
        assert_eq!((all.len(), enough), (1, Some(all[0].1)));
        // The second probe begins when the queue has settled: after eight round trips of 140 ms.
        let (all, enough) = run(60, true, 2);
        assert_eq!((all.len(), enough), (2, Some(all[1].1)));
        assert_eq!(all[1].0 - all[0].1, 1_120);
    }
}
