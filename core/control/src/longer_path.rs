//! Detection of a path that became longer, as opposed to a queue.

use forebay_units::{Nanos, Rate};

use crate::controller::Measurement;

/// The share of the expected fall of a queue that must be seen.
const PROOF: f64 = 0.25;
/// The test ends when a queue would have fallen to this share.
const HALF: f64 = 0.5;
/// The least number of samples of a test.
const LEAST_SAMPLES: u32 = 3;
/// The least duration of a test. For a moment elastic cross traffic uses just what the bundle
/// leaves.
const LEAST_TIME: Nanos = Nanos::from_millis(200);
/// More variation than this shows a queue, whatever fall was expected.
const STILL: Nanos = Nanos::from_millis(2);
/// The share of a rate cut that does not count. The rates at a shared bottleneck vary by as much.
const NO_CUT: f64 = 0.1;

/// Decides whether a lasting delay above the minimum RTT is a queue or a longer path.
///
/// A queue shrinks when less is sent than the bottleneck served, and a longer path does not. While
/// the controller cuts its rate because of the delay, the test adds up by how much a queue would
/// have shrunk, and compares.
///
/// Copa forgets an obsolete minimum by its window of ten seconds (section 2.1). A bundle would have
/// almost no rate for that long after a route change, since its rate is inverse to the delay.
///
/// Any variation of the delay shows a queue, even if other traffic causes it. If elastic cross
/// traffic keeps a queue at a constant length, the bundle keeps its rate, and the controller's next
/// minimum RTT probe corrects the error.
#[derive(Debug, Default)]
pub(crate) struct LongerPathTest {
    high_since: Option<Nanos>,
    samples: u64,
    last_sample: Nanos,
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    since: Nanos,
    reference: Rate,
    delay: Nanos,
    /// The least round-trip time since the begin of the test. Single samples count, since a queue
    /// with a constant mean still varies with every burst.
    least: Nanos,
    most: Nanos,
    samples: u32,
    /// The seconds by which a queue would be shorter by now.
    would_have_gone: f64,
}

/// A path that became longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongerPath {
    /// The round-trip time of the empty path now.
    pub(crate) min_rtt: Nanos,
    /// The receive rate before the controller cut its rate.
    pub(crate) rate: Rate,
}

impl LongerPathTest {
    /// Evaluates a tick. Delays up to `threshold` are the controller's own queue.
    pub(crate) fn on_tick(&mut self, m: &Measurement, threshold: Nanos) -> Option<LongerPath> {
        if m.samples == self.samples {
            return None;
        }
        self.samples = m.samples;
        let at = m.now.saturating_sub(m.sample_age);
        let elapsed = at.saturating_sub(self.last_sample);
        self.last_sample = at;
        let delay = m.queueing_delay();
        if delay <= threshold {
            self.high_since = None;
            self.trial = None;
            return None;
        }
        let since = *self.high_since.get_or_insert(m.now);
        let Some(trial) = &mut self.trial else {
            // The receive rate must be that of the present path during all of its window.
            if m.now.saturating_sub(since) >= m.smoothed_rtt {
                self.trial = Some(Trial {
                    since: m.now,
                    reference: m.receive_rate,
                    delay,
                    least: m.rtt,
                    most: m.rtt,
                    samples: 0,
                    would_have_gone: 0.0,
                });
            }
            return None;
        };
        let cut = 1.0 - m.send_rate.as_bps() as f64 / trial.reference.as_bps().max(1) as f64;
        trial.would_have_gone += (cut - NO_CUT).max(0.0) * elapsed.as_secs_f64();
        trial.samples += 1;
        trial.least = trial.least.min(m.rtt);
        trial.most = trial.most.max(m.rtt);
        let proof_at = (trial.delay.as_secs_f64() * HALF).max(threshold.as_secs_f64() * HALF);
        let long_enough = m.now.saturating_sub(trial.since) >= LEAST_TIME;
        if trial.would_have_gone < proof_at || trial.samples < LEAST_SAMPLES || !long_enough {
            return None;
        }
        let moved = trial.most.saturating_sub(trial.least).as_secs_f64();
        let reference = trial.reference;
        let is_queue = moved >= (trial.would_have_gone * PROOF).min(STILL.as_secs_f64());
        self.trial = None;
        self.high_since = Some(m.now);
        if is_queue {
            return None;
        }
        self.high_since = None;
        Some(LongerPath { min_rtt: m.standing_rtt, rate: reference })
    }

    /// Discards the test.
    pub(crate) fn clear(&mut self) {
        *self = Self { samples: self.samples, last_sample: self.last_sample, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);
    const THRESHOLD: Nanos = Nanos::from_millis(3);

    /// Runs samples every 10 ms. `path` returns the delay in microseconds and the send and receive
    /// rates in Mbit/s of a sample. Returns the first verdict and its sample.
    fn verdict(samples: u64, path: impl Fn(u64) -> (u64, u64, u64)) -> Option<(u64, LongerPath)> {
        let mut test = LongerPathTest::default();
        (1..=samples).find_map(|i| {
            let (delay, send, receive) = path(i);
            let m = Measurement {
                now: MS * (10 * i),
                rtt: MS * 50 + Nanos::from_micros(delay),
                standing_rtt: MS * 50 + Nanos::from_micros(delay),
                send_rate: Rate::from_mbps(send),
                receive_rate: Rate::from_mbps(receive),
                samples: i,
                ..quiet()
            };
            test.on_tick(&m, THRESHOLD).map(|longer| (i, longer))
        })
    }

    #[test]
    fn a_delay_that_stays_when_less_is_sent_is_a_longer_path() {
        // The delay is 30 ms longer. After a round trip (samples 1 to 6) the rate is halved. A
        // tenth of the cut does not count, so a queue would lose 4 ms a sample, and half of it, 15
        // ms, in four. The verdict comes after the 200 ms.
        let longer = verdict(50, |i| if i <= 6 { (30_000, 96, 96) } else { (30_000, 48, 48) });
        let (at, longer) = longer.unwrap();
        assert_eq!(at, 26);
        assert_eq!(longer, LongerPath { min_rtt: MS * 80, rate: Rate::from_mbps(96) });
    }

    #[test]
    fn a_delay_that_shrinks_is_a_queue() {
        // At half the rate, 5 ms of queue drain in 10 ms.
        let gone = |i: u64| 30_000_u64.saturating_sub(i.saturating_sub(6) * 5_000);
        assert_eq!(verdict(50, |i| (gone(i), if i <= 6 { 96 } else { 48 }, 96)), None);
    }

    #[test]
    fn a_delay_that_other_traffic_varies_is_a_queue() {
        // Other traffic fills and drains 8 ms of it.
        let moving = |i: u64| if i.is_multiple_of(2) { 22_000 } else { 30_000 };
        assert_eq!(verdict(500, |i| (moving(i), if i <= 6 { 96 } else { 48 }, 48)), None);
    }

    #[test]
    fn without_a_rate_cut_there_is_no_verdict() {
        assert_eq!(verdict(500, |_| (30_000, 96, 96)), None);
    }

    #[test]
    fn the_queue_of_the_controller_is_not_tested() {
        assert_eq!(verdict(500, |i| (3_000, if i <= 6 { 96 } else { 10 }, 10)), None);
    }

    #[test]
    fn ticks_without_a_sample_are_not_evidence() {
        let mut test = LongerPathTest::default();
        for i in 1..1000 {
            let send_rate = Rate::from_mbps(if i <= 10 { 96 } else { 48 });
            let samples = if i <= 10 { i } else { 11 };
            let m = Measurement {
                now: MS * (10 * i),
                standing_rtt: MS * 80,
                send_rate,
                samples,
                ..quiet()
            };
            assert_eq!(test.on_tick(&m, THRESHOLD), None);
        }
    }
}
