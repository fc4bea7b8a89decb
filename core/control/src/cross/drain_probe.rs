//! A drain probe: a test in pass-through mode of whether elastic cross traffic is still there.
//!
//! The bundle sends less, so that the bottleneck's queue would drain within some round trips, and
//! observes whether it does.
//!
//! Inelastic traffic does not use the gap, and the queue drains. Traffic that is clocked by its
//! acknowledgements fills the gap: its data in flight stays constant, so from one round trip after
//! the cut it is served faster, sends faster, and the queue stands again. The bundle's flows lose
//! no packets, only time: their packets wait at the sendbox and are sent afterwards
//! (`pass_through`).
//!
//! The depth of the cut depends on the share of the cross traffic. Let q be the queueing delay as a
//! share of the round-trip time, and z the cross traffic's share of the bottleneck's rate. A cut of
//! q / n of the bottleneck's rate drains the queue in n round trips if the cross traffic does not
//! react. If its windows stay constant, it is served z + q / n of the rate, and its round-trip time
//! becomes z / (z + q / n) of what it was. That is shorter by x / (1 + x), where x = q / (n z).
//! This must not be more than a part p of the queue, so x / (1 + x) = p q and n = (1 - p q) / (p
//! z). A deeper cut exceeds the data that the cross traffic has in flight, and drains the queue of
//! elastic traffic too.

use core::ops::Range;

use forebay_units::{Nanos, Rate};

use crate::controller::Measurement;

/// The part of the queue (p above) that drains although the cross traffic is elastic.
const ELASTIC_DRAIN: f64 = 0.4;
/// The least number of round trips (n above) in which a cut would drain the queue.
const MIN_ROUNDS: f64 = 3.0;
/// The largest number of round trips in which a cut would drain the queue.
const MAX_ROUNDS: f64 = 8.0;
/// A cut lasts up to this multiple of those round trips, since the rates of cross traffic vary.
const DURATION: f64 = 1.5;
/// The smallest cut, as a share of the bundle's rate. A smaller one is lost in the variation of
/// rates.
const MIN_CUT: f64 = 0.125;
/// The largest cut. A larger one would leave the bundle without boundary packets.
const MAX_CUT: f64 = 0.75;
/// Round trips after the cut from which on the queue can show elastic traffic, which by then has
/// had one round trip to fill the gap.
const ELASTIC_AFTER: f64 = 2.0;
/// The queue stands if it exceeds its expected length by this share of its length before the cut.
const EXCESS: f64 = 0.4;
/// A queue has drained at this share of its length before the cut.
const DRAINED: f64 = 0.1;
/// Successive samples that must show a drained queue.
const DRAINED_SAMPLES: u32 = 3;
/// A queue has also drained if most samples after the expected time are below this share. Bursts
/// fill the queue now and then, and at a low rate there are not three samples in a row.
const MOSTLY_DRAINED: f64 = 0.25;
/// The least fall of the queue, as a share, from which the bottleneck's rate is computed. A smaller
/// fall counts as this much; to ignore it would leave only the low rates.
const MIN_FALL: f64 = 0.05;
/// The bottleneck's rate follows from how fast the queue falls before any response: in the first
/// sample of a packet that was sent this many round trips after the cut.
const BEFORE_RESPONSE: Range<f64> = 1.0..1.3;
/// Round trips after the end of the cut within which its last packets must have been answered.
const ANSWERED: f64 = 2.0;
/// A shorter queueing delay is not probed.
const MIN_DELAY: Nanos = Nanos::from_micros(2_500);

/// A drain probe under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainProbe {
    since: Nanos,
    /// The round-trip time before the cut.
    rtt: Nanos,
    /// The queueing delay before the cut.
    delay: Nanos,
    /// The send rate before the cut.
    before: Rate,
    /// The cut, as a share of that rate.
    cut: f64,
    /// Round trips after which the queue would be gone.
    drains: f64,
    /// The rate at which the bottleneck served the bundle before the cut.
    served: Rate,
    /// Number of the newest sample that was evaluated.
    samples: u64,
    /// Number of the last samples in a row that saw a drained queue.
    drained: u32,
    /// Samples after the expected time that saw a mostly drained queue, less those that did not.
    mostly_drained: i32,
    /// The bottleneck's rate, computed from the fall of the queue.
    bottleneck: Option<Rate>,
}

/// The send rates of a drain probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateCut {
    /// The rate before the probe.
    pub(crate) before: Rate,
    /// The rate during the probe.
    pub(crate) during: Rate,
}

/// The result of a drain probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The queue drained: there is no elastic cross traffic.
    QueueDrained,
    /// The queue stands: elastic cross traffic fills the gap.
    QueueStands,
}

impl DrainProbe {
    /// Begins a probe at a bottleneck of rate `bottleneck`. Returns `None` if no queue can be
    /// drained.
    pub(crate) fn begin(m: &Measurement, bottleneck: Rate) -> Option<Self> {
        let delay = m.rtt.saturating_sub(m.min_rtt);
        let rtt = m.smoothed_rtt.max(m.rtt);
        let before = m.send_rate;
        if delay < MIN_DELAY || before == Rate::ZERO {
            return None;
        }
        let served = m.busy_rate.unwrap_or(m.receive_rate);
        let of_bottleneck =
            |rate: Rate| rate.as_bps() as f64 / bottleneck.max(before).as_bps() as f64;
        let queue = delay.as_secs_f64() / rtt.as_secs_f64();
        let others = (1.0 - of_bottleneck(served)).max(0.0);
        // The cut for a number of round trips. The relation is its own inverse.
        let cut = |rounds: f64| queue / (rounds * of_bottleneck(before));
        let most = MAX_ROUNDS.min(cut(MIN_CUT)).max(MIN_ROUNDS);
        let drains =
            ((1.0 - ELASTIC_DRAIN * queue) / (ELASTIC_DRAIN * others)).clamp(MIN_ROUNDS, most);
        Some(Self {
            since: m.now,
            rtt,
            delay,
            before,
            cut: cut(drains).clamp(MIN_CUT, MAX_CUT),
            drains,
            served,
            samples: m.samples,
            drained: 0,
            mostly_drained: 0,
            bottleneck: None,
        })
    }

    /// Returns the rates of the cut while it lasts.
    pub(crate) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        let during = self.before.scaled(1.0 - self.cut);
        (self.rounds(now) < self.lasts()).then_some(RateCut { before: self.before, during })
    }

    /// Evaluates a tick. Returns the result once it is known.
    pub(crate) fn on_tick(&mut self, m: &Measurement) -> Option<ProbeResult> {
        // When the newest sample's packet was sent, in round trips after the cut.
        let sent = self.rounds(m.now.saturating_sub(m.sample_age).saturating_sub(m.rtt));
        if m.samples > self.samples && sent > 0.0 {
            self.samples = m.samples;
            let left = m.rtt.saturating_sub(m.min_rtt).as_secs_f64() / self.delay.as_secs_f64();
            if sent >= ELASTIC_AFTER && left > (1.0 - sent / self.drains).max(0.0) + EXCESS {
                return Some(ProbeResult::QueueStands);
            }
            if self.bottleneck.is_none() && BEFORE_RESPONSE.contains(&sent) {
                let fallen = (1.0 - left).max(MIN_FALL);
                // The bytes not sent shorten the queue, which is served at the bottleneck's rate.
                let not_sent = sent * self.rtt.as_secs_f64() * self.cut;
                let rate = self.before.scaled(not_sent / (fallen * self.delay.as_secs_f64()));
                self.bottleneck = Some(rate);
            }
            self.drained = if left <= DRAINED { self.drained + 1 } else { 0 };
            if sent >= self.drains {
                self.mostly_drained += if left <= MOSTLY_DRAINED { 1 } else { -1 };
            }
        }
        if self.drained >= DRAINED_SAMPLES {
            return Some(ProbeResult::QueueDrained);
        }
        let answered = sent >= self.lasts() || self.rounds(m.now) >= self.lasts() + ANSWERED;
        let result = if self.mostly_drained > 0 {
            ProbeResult::QueueDrained
        } else {
            ProbeResult::QueueStands
        };
        answered.then_some(result)
    }

    /// Returns the queueing delay before the cut.
    pub(crate) fn delay(&self) -> Nanos {
        self.delay
    }

    /// Returns the cut, as a share of the bundle's rate.
    pub(crate) fn cut(&self) -> f64 {
        self.cut
    }

    /// Returns the rate at which the bottleneck served the bundle before the cut.
    pub(crate) fn served(&self) -> Rate {
        self.served
    }

    /// Returns the bottleneck's rate, if the fall of the queue showed it.
    pub(crate) fn bottleneck(&self) -> Option<Rate> {
        self.bottleneck
    }

    /// Returns the number of round trips after which the cut ends.
    fn lasts(&self) -> f64 {
        DURATION * self.drains
    }

    /// Returns the number of round trips since the begin of the cut.
    fn rounds(&self, now: Nanos) -> f64 {
        now.saturating_sub(self.since).as_secs_f64() / self.rtt.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);
    const MU: Rate = Rate::from_mbps(96);

    /// Probes with a bundle that has 60 of 96 Mbit/s, at a queue of 100 ms on a path of 50 ms. The
    /// cross traffic takes the part `taken` of the gap from one round trip after the cut. Returns
    /// the result and after how many milliseconds it was known.
    fn cut(taken: f64) -> (ProbeResult, u64) {
        let measured = |ms: u64, delay: f64, samples: u64| Measurement {
            now: MS * ms,
            rtt: MS * 50 + Nanos::from_secs_f64(delay),
            smoothed_rtt: MS * 150,
            min_rtt: MS * 50,
            send_rate: Rate::from_mbps(60),
            busy_rate: Some(Rate::from_mbps(60)),
            sample_age: Nanos::ZERO,
            samples,
            ..quiet()
        };
        let mut probe = DrainProbe::begin(&measured(1_000, 0.1, 1), MU).unwrap();
        // q is 2/3 and z 3/8, so n is (1 - 4/15) / (3/20) = 44/9: of 96 Mbit/s 3/22, of 60 12/55.
        assert!((probe.cut() - 12.0 / 55.0).abs() < 1e-9, "{}", probe.cut());
        // The queueing delay of the packets sent in each millisecond.
        let mut delays = std::vec![];
        let mut delay: f64 = 0.1;
        for ms in 0..2_000 {
            delays.push(delay);
            let now = MS * (1_000 + ms);
            let left =
                probe.rate_cut(now).map_or(0.0, |cut| 60e6 - cut.during.as_bps() as f64) / 96e6;
            let filled = if ms > 150 { taken } else { 0.0 };
            delay = (delay - left * (1.0 - filled) * 1e-3).max(0.0);
        }
        let mut samples = 1;
        for ms in 1..2_000_u64 {
            // The newest packet whose feedback has arrived.
            let arrived =
                |sent: &u64| *sent as f64 + 50.0 + delays[*sent as usize] * 1e3 <= ms as f64;
            let Some(sent) = (0..ms).rev().find(arrived) else { continue };
            samples += 1;
            let m = Measurement {
                now: MS * (1_000 + ms),
                ..measured(0, delays[sent as usize], samples)
            };
            if let Some(result) = probe.on_tick(&m) {
                return (result, ms);
            }
        }
        panic!("the probe ends");
    }

    #[test]
    fn a_queue_that_cross_traffic_does_not_fill_drains() {
        let (result, ms) = cut(0.0);
        assert_eq!(result, ProbeResult::QueueDrained);
        // A tenth is left after 9/10 of 44/9 round trips, 660 ms, and feedback takes another 60.
        assert!((715..730).contains(&ms), "{ms}");
    }

    #[test]
    fn a_queue_that_cross_traffic_fills_stands() {
        // 80 % stand for good. That is too much when 40 % should be left, after 2.96 round trips of
        // 150 ms and 130 ms for feedback. The slowest result takes 7.3 round trips and 62 ms.
        for (taken, when) in [(1.0, 570..580), (0.9, 595..610), (0.48, 1_160..1_175)] {
            let (result, ms) = cut(taken);
            assert_eq!(result, ProbeResult::QueueStands, "{taken}");
            assert!(when.contains(&ms), "{taken}: {ms}");
        }
    }

    /// Returns the bottleneck's rate in Mbit/s that a probe finds from one sample, sent `rounds`
    /// round trips after the cut, at a bottleneck of `mbps`.
    fn measured_rate(mbps: f64, rounds: f64) -> Option<f64> {
        let measured = |now, delay| Measurement {
            now,
            rtt: MS * 50 + delay,
            smoothed_rtt: MS * 150,
            min_rtt: MS * 50,
            send_rate: Rate::from_mbps(60),
            busy_rate: Some(Rate::from_mbps(60)),
            sample_age: Nanos::ZERO,
            samples: now.0,
            ..quiet()
        };
        let mut probe = DrainProbe::begin(&measured(MS * 1_000, MS * 100), MU).unwrap();
        // 12/55 of 60 Mbit/s are not sent during this time.
        let sent = Nanos::from_secs_f64(0.15 * rounds);
        let delay = Nanos::from_secs_f64(0.1 - 0.15 * rounds * 12.0 / 55.0 * 60.0 / mbps);
        probe.on_tick(&measured(MS * 1_000 + sent + MS * 50 + delay, delay));
        probe.bottleneck().map(|rate| (rate.as_mbps_f64() * 100.0).round() / 100.0)
    }

    #[test]
    fn the_fall_of_the_queue_shows_the_rate_of_the_bottleneck() {
        assert_eq!(measured_rate(96.0, 1.1), Some(96.0));
        assert_eq!(measured_rate(300.0, 1.2), Some(300.0));
        assert_eq!(measured_rate(96.0, 0.9), None, "a later sample is more accurate");
        assert_eq!(measured_rate(96.0, 1.4), None, "cross traffic may have responded");
        // The queue falls by 2.25 ms of 100, which counts as 5: 0.15 x 1.1 x 12/55 of 60 Mbit/s.
        assert_eq!(measured_rate(960.0, 1.1), Some(432.0), "a fall below the variation of rates");
    }

    /// Returns the result of a probe with a sample every 50 ms that sees these parts of the queue
    /// in turn, from three round trips after the cut on.
    fn result_of_late_samples(parts: &[f64]) -> ProbeResult {
        let delay = |part: f64| Nanos::from_secs_f64(0.1 * part);
        let measured = |ms: u64, part: f64, samples: u64| Measurement {
            now: MS * ms,
            rtt: quiet().min_rtt + delay(part),
            smoothed_rtt: MS * 150,
            sample_age: Nanos::ZERO,
            samples,
            ..quiet()
        };
        let mut probe = DrainProbe::begin(&measured(1_000, 1.0, 1), MU).unwrap();
        let seen = |k: usize| {
            let ms = 1_100 + 50 * k as u64;
            let part = if ms < 1_500 { 0.5 } else { parts[k % parts.len()] };
            probe.on_tick(&measured(ms, part, 2 + k as u64))
        };
        (0..40).find_map(seen).expect("the probe ends")
    }

    #[test]
    fn a_queue_that_bursts_refill_still_counts_as_drained() {
        assert_eq!(result_of_late_samples(&[0.0, 0.2, 0.3]), ProbeResult::QueueDrained);
        assert_eq!(result_of_late_samples(&[0.0, 0.3, 0.35]), ProbeResult::QueueStands);
    }

    #[test]
    fn the_cut_is_shallower_the_less_cross_traffic_there_is() {
        // The queue is 90 ms in a round trip of 150, and the bundle has `mbps` of 100 Mbit/s.
        let cut = |mbps| {
            let rate = Rate::from_mbps(mbps);
            let m = Measurement {
                rtt: quiet().min_rtt + MS * 90,
                smoothed_rtt: MS * 150,
                send_rate: rate,
                busy_rate: Some(rate),
                ..quiet()
            };
            DrainProbe::begin(&m, Rate::from_mbps(100)).unwrap().cut()
        };
        // n is (1 - 0.4 x 0.6) / (0.4 x 0.6) = 19/6 beside 60 Mbit/s and 19/3 beside 30. Beside 80
        // it would be less than three, and beside 5 more than the smallest cut allows.
        let all = [
            (40, 0.6 / (19.0 / 6.0 * 0.4)),
            (70, 0.6 / (19.0 / 3.0 * 0.7)),
            (20, 0.75),
            (95, 0.125),
        ];
        for (mbps, expected) in all {
            assert!((cut(mbps) - expected).abs() < 1e-9, "{mbps} Mbit/s: {}", cut(mbps));
        }
    }

    #[test]
    fn a_probe_needs_a_queue_and_a_rate() {
        let standing = Measurement { rtt: quiet().min_rtt + MS * 20, ..quiet() };
        assert!(DrainProbe::begin(&standing, MU).is_some());
        assert!(DrainProbe::begin(&quiet(), MU).is_none());
        assert!(
            DrainProbe::begin(&Measurement { send_rate: Rate::ZERO, ..standing }, MU).is_none()
        );
    }

    #[test]
    fn a_probe_ends_without_feedback() {
        let standing = Measurement { rtt: quiet().min_rtt + MS * 50, ..quiet() };
        let mut probe = DrainProbe::begin(&standing, MU).unwrap();
        let later =
            |ms| Measurement { now: standing.now + MS * ms, sample_age: MS * ms, ..standing };
        assert_eq!(probe.on_tick(&later(799)), None);
        assert_eq!(
            probe.on_tick(&later(801)),
            Some(ProbeResult::QueueStands),
            "8 round trips of 100 ms"
        );
    }
}
