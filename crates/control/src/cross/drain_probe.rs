//! A look at whose the bottleneck's queue is, while the bundle's flows compete for themselves: the
//! bundle sends so much less that the queue would be gone within some round trips, and sees whether it
//! goes.
//!
//! Traffic at a rate of its own leaves the gap open, and the queue drains. Traffic that is clocked by
//! its acknowledgements fills it: what it has in flight stays the same, so from one round trip after
//! the cut it is served faster by what the bundle leaves, sends as much more, and the queue stands
//! again. The bundle's flows lose nothing but the time: what they have in flight waits at the sendbox
//! meanwhile, and is sent after ([`PassThrough`](crate::pass_through)).
//!
//! How deep the cut may be follows from how much others have. Let the queue be q of a round trip, others'
//! share of the bottleneck's rate z, and the cut q / n of that rate, so that the queue is gone after n
//! round trips if nobody takes it. Windows that stay the same and are served z + q / n of the rate make
//! a round trip of z / (z + q / n) of what it was, so x / (1 + x) less, where x = q / (n z). For that to be
//! no more than a part p of the queue, x / (1 + x) = p q, n is (1 - p q) / (p z). A deeper cut leaves more
//! than others have in flight: then the queue goes whoever they are.

use core::ops::Range;

use forebay_units::{Nanos, Rate};

use crate::controller::Measurement;

/// The part of the queue that others leave to go, where they are clocked by their acknowledgements,
const GOES: f64 = 0.4;
/// in a cut that would drain all of it in so many round trips at least and at most,
const DRAINS: (f64, f64) = (3.0, 8.0);
/// and that lasts so many times as long at most, for what others' rates vary by.
const LASTS: f64 = 1.5;
/// What is cut at least and at most, of the bundle's rate: less is lost in what rates vary by
/// anyway, and more would starve the bundle of boundary packets.
const CUT: (f64, f64) = (0.125, 0.75);
/// From so many round trips on, when others have had one to fill the gap,
const FILLED: f64 = 2.0;
/// a queue stands that is longer than what should be left of it by this share of what it was.
const LEFT: f64 = 0.4;
/// A queue is gone at this share of what it was,
const GONE: f64 = 0.1;
/// in so many samples that follow on each other,
const GONE_SAMPLES: u32 = 3;
/// or at this share, far below what would be left of it, in most of those after the time in which it
/// should be: what comes in bursts fills it now and then, and at a low rate there are no three.
const MOSTLY_GONE: f64 = 0.25;
/// While nobody has answered yet, how fast the queue falls tells the bottleneck's rate: in the first
/// sample of what was sent so many round trips after the cut. One that has fallen by less than this
/// share tells as much as if it had fallen by that: to leave it out would leave the low rates.
const FALLEN: f64 = 0.05;
const UNANSWERED: Range<f64> = 1.0..1.3;
/// So many round trips before what was sent last in the cut must have been answered.
const ANSWERED: f64 = 2.0;
/// A shorter queue is none that could be drained.
const LEAST_DELAY: Nanos = Nanos::from_micros(2_500);

/// A cut, and what becomes of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainProbe {
    since: Nanos,
    /// The round-trip time and the queueing delay at the cut.
    rtt: Nanos,
    delay: Nanos,
    /// The rate until then, and what is cut of it.
    before: Rate,
    cut: f64,
    /// After so many round trips the queue would be gone.
    drains: f64,
    /// The rate at which the bottleneck served the bundle before.
    served: Rate,
    /// Samples so far, and how many of the last saw no queue.
    samples: u64,
    gone: u32,
    /// Of the late ones: how many more saw none than saw one.
    mostly_gone: i32,
    /// The bottleneck's rate, by how fast the queue fell.
    bottleneck: Option<Rate>,
}

/// The rates of a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateCut {
    pub(crate) before: Rate,
    pub(crate) during: Rate,
}

/// What a cut showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The queue drained: nobody takes what the bundle leaves.
    QueueDrained,
    /// It stands.
    QueueStands,
}

impl DrainProbe {
    /// Begins a cut, where the bottleneck's rate is `bottleneck`; `None` if there is no queue to drain.
    pub(crate) fn begin(m: &Measurement, bottleneck: Rate) -> Option<Self> {
        let delay = m.rtt.saturating_sub(m.min_rtt);
        let rtt = m.smoothed_rtt.max(m.rtt);
        let before = m.send_rate;
        if delay < LEAST_DELAY || before == Rate::ZERO {
            return None;
        }
        let served = m.busy_rate.unwrap_or(m.receive_rate);
        let of_bottleneck =
            |rate: Rate| rate.as_bps() as f64 / bottleneck.max(before).as_bps() as f64;
        let queue = delay.as_secs_f64() / rtt.as_secs_f64();
        let others = (1.0 - of_bottleneck(served)).max(0.0);
        // What must be cut of the bundle's rate for so many round trips; and the other way round.
        let cut = |drains: f64| queue / (drains * of_bottleneck(before));
        let most = DRAINS.1.min(cut(CUT.0)).max(DRAINS.0);
        let drains = ((1.0 - GOES * queue) / (GOES * others)).clamp(DRAINS.0, most);
        Some(Self {
            since: m.now,
            rtt,
            delay,
            before,
            cut: cut(drains).clamp(CUT.0, CUT.1),
            drains,
            served,
            samples: m.samples,
            gone: 0,
            mostly_gone: 0,
            bottleneck: None,
        })
    }

    /// The rates while the cut lasts.
    pub(crate) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        let during = self.before.scaled(1.0 - self.cut);
        (self.rounds(now) < self.lasts()).then_some(RateCut { before: self.before, during })
    }

    /// A tick. What the cut showed, once it has.
    pub(crate) fn on_tick(&mut self, m: &Measurement) -> Option<ProbeResult> {
        // When that packet was sent from which the newest sample is, in round trips.
        let sent = self.rounds(m.now.saturating_sub(m.sample_age).saturating_sub(m.rtt));
        if m.samples > self.samples && sent > 0.0 {
            self.samples = m.samples;
            let left = m.rtt.saturating_sub(m.min_rtt).as_secs_f64() / self.delay.as_secs_f64();
            if sent >= FILLED && left > (1.0 - sent / self.drains).max(0.0) + LEFT {
                return Some(ProbeResult::QueueStands);
            }
            if self.bottleneck.is_none() && UNANSWERED.contains(&sent) {
                let fallen = (1.0 - left).max(FALLEN);
                // What was not sent is what the queue is shorter by, at the bottleneck's rate.
                let not_sent = sent * self.rtt.as_secs_f64() * self.cut;
                let rate = self.before.scaled(not_sent / (fallen * self.delay.as_secs_f64()));
                self.bottleneck = Some(rate);
            }
            self.gone = if left <= GONE { self.gone + 1 } else { 0 };
            if sent >= self.drains {
                self.mostly_gone += if left <= MOSTLY_GONE { 1 } else { -1 };
            }
        }
        if self.gone >= GONE_SAMPLES {
            return Some(ProbeResult::QueueDrained);
        }
        let answered = sent >= self.lasts() || self.rounds(m.now) >= self.lasts() + ANSWERED;
        let shown =
            if self.mostly_gone > 0 { ProbeResult::QueueDrained } else { ProbeResult::QueueStands };
        answered.then_some(shown)
    }

    /// The queueing delay before the cut.
    pub(crate) fn delay(&self) -> Nanos {
        self.delay
    }

    /// What was cut, of the bundle's rate.
    pub(crate) fn cut(&self) -> f64 {
        self.cut
    }

    /// The rate at which the bottleneck served the bundle before.
    pub(crate) fn served(&self) -> Rate {
        self.served
    }

    /// The bottleneck's rate, if the queue's fall told it.
    pub(crate) fn bottleneck(&self) -> Option<Rate> {
        self.bottleneck
    }

    /// After how many round trips the cut ends.
    fn lasts(&self) -> f64 {
        LASTS * self.drains
    }

    /// Round trips since the cut.
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

    /// A cut of a bundle that has 60 of 96 Mbit/s at a queue of 100 ms on a path of 50. Of what it leaves,
    /// others take `taken` from one round trip after the cut. What it showed, and after how many
    /// milliseconds.
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
        let mut drain = DrainProbe::begin(&measured(1_000, 0.1, 1), MU).unwrap();
        // q is 2/3 and z 3/8, so n is (1 - 4/15) / (3/20) = 44/9: of 96 Mbit/s 3/22, of 60 12/55.
        assert!((drain.cut() - 12.0 / 55.0).abs() < 1e-9, "{}", drain.cut());
        // The delay of what is sent in each millisecond.
        let mut delays = std::vec![];
        let mut delay: f64 = 0.1;
        for ms in 0..2_000 {
            delays.push(delay);
            let now = MS * (1_000 + ms);
            let left =
                drain.rate_cut(now).map_or(0.0, |cut| 60e6 - cut.during.as_bps() as f64) / 96e6;
            let filled = if ms > 150 { taken } else { 0.0 };
            delay = (delay - left * (1.0 - filled) * 1e-3).max(0.0);
        }
        let mut samples = 1;
        for ms in 1..2_000_u64 {
            // The newest packet whose answer is here.
            let arrived =
                |sent: &u64| *sent as f64 + 50.0 + delays[*sent as usize] * 1e3 <= ms as f64;
            let Some(sent) = (0..ms).rev().find(arrived) else { continue };
            samples += 1;
            let m = Measurement {
                now: MS * (1_000 + ms),
                ..measured(0, delays[sent as usize], samples)
            };
            if let Some(shown) = drain.on_tick(&m) {
                return (shown, ms);
            }
        }
        panic!("a look ends");
    }

    #[test]
    fn a_queue_that_nobody_fills_drains() {
        let (shown, ms) = cut(0.0);
        assert_eq!(shown, ProbeResult::QueueDrained);
        // A tenth is left after 9/10 of 44/9 round trips, 660 ms, and the answer to that takes 60.
        assert!((715..730).contains(&ms), "{ms}");
    }

    #[test]
    fn a_queue_that_others_fill_stands() {
        // Where 80 % stand for good, they are too many when 40 % should be left: 2.96 round trips of 150 ms
        // and an answer of 130. What goes slowly has 7.3 round trips, and is answered in 62.
        for (taken, when) in [(1.0, 570..580), (0.9, 595..610), (0.48, 1_160..1_175)] {
            let (shown, ms) = cut(taken);
            assert_eq!(shown, ProbeResult::QueueStands, "{taken}");
            assert!(when.contains(&ms), "{taken}: {ms}");
        }
    }

    /// What a look tells of a bottleneck of so many Mbit/s by one sample, of what was sent so many round
    /// trips after the cut.
    fn told(mbps: f64, rounds: f64) -> Option<f64> {
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
        let mut drain = DrainProbe::begin(&measured(MS * 1_000, MS * 100), MU).unwrap();
        // 12/55 of 60 Mbit/s for so long, served at that rate.
        let sent = Nanos::from_secs_f64(0.15 * rounds);
        let delay = Nanos::from_secs_f64(0.1 - 0.15 * rounds * 12.0 / 55.0 * 60.0 / mbps);
        drain.on_tick(&measured(MS * 1_000 + sent + MS * 50 + delay, delay));
        drain.bottleneck().map(|rate| (rate.as_mbps_f64() * 100.0).round() / 100.0)
    }

    #[test]
    fn how_fast_the_queue_falls_tells_the_bottleneck_s_rate() {
        assert_eq!(told(96.0, 1.1), Some(96.0));
        assert_eq!(told(300.0, 1.2), Some(300.0));
        assert_eq!(told(96.0, 0.9), None, "a later one tells more");
        assert_eq!(told(96.0, 1.4), None, "others may have answered");
        // 2.25 ms of 100, of which 5 count: 0.15 1.1 12/55 of 60 Mbit/s over 5 ms.
        assert_eq!(told(960.0, 1.1), Some(432.0), "less than others' rates vary by");
    }

    /// What a cut showed whose answers, 50 ms apart, saw such parts of the queue in turn from three
    /// round trips on.
    fn late(parts: &[f64]) -> ProbeResult {
        let delay = |part: f64| Nanos::from_secs_f64(0.1 * part);
        let measured = |ms: u64, part: f64, samples: u64| Measurement {
            now: MS * ms,
            rtt: quiet().min_rtt + delay(part),
            smoothed_rtt: MS * 150,
            sample_age: Nanos::ZERO,
            samples,
            ..quiet()
        };
        let mut drain = DrainProbe::begin(&measured(1_000, 1.0, 1), MU).unwrap();
        let seen = |k: usize| {
            let ms = 1_100 + 50 * k as u64;
            let part = if ms < 1_500 { 0.5 } else { parts[k % parts.len()] };
            drain.on_tick(&measured(ms, part, 2 + k as u64))
        };
        (0..40).find_map(seen).expect("a look ends")
    }

    #[test]
    fn a_queue_that_comes_back_in_bursts_drains_as_well() {
        assert_eq!(late(&[0.0, 0.2, 0.3]), ProbeResult::QueueDrained);
        assert_eq!(late(&[0.0, 0.3, 0.35]), ProbeResult::QueueStands);
    }

    #[test]
    fn the_less_others_have_the_shallower_the_cut() {
        // A queue of 90 ms in a round trip of 150, and the bundle has so much of 100 Mbit/s.
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
        // n is (1 - 0.4 0.6) / (0.4 0.6) = 19/6 beside 60 Mbit/s and 19/3 beside 30. Beside 80 it would be less
        // than three, and beside 5 more than a cut of an eighth needs.
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
    fn there_must_be_a_queue_and_a_rate() {
        let standing = Measurement { rtt: quiet().min_rtt + MS * 20, ..quiet() };
        assert!(DrainProbe::begin(&standing, MU).is_some());
        assert!(DrainProbe::begin(&quiet(), MU).is_none());
        assert!(
            DrainProbe::begin(&Measurement { send_rate: Rate::ZERO, ..standing }, MU).is_none()
        );
    }

    #[test]
    fn without_answers_it_ends_as_well() {
        let standing = Measurement { rtt: quiet().min_rtt + MS * 50, ..quiet() };
        let mut drain = DrainProbe::begin(&standing, MU).unwrap();
        let later =
            |ms| Measurement { now: standing.now + MS * ms, sample_age: MS * ms, ..standing };
        assert_eq!(drain.on_tick(&later(799)), None);
        assert_eq!(
            drain.on_tick(&later(801)),
            Some(ProbeResult::QueueStands),
            "8 round trips of 100 ms"
        );
    }
}
