//! Tells a queue from a longer path.

use forebay_units::{Nanos, Rate};

use crate::controller::Measurement;

/// So much of what a queue would have lost must be seen to go.
const PROOF: f64 = 0.25;
/// A verdict is given when a queue would be down to this share of what it was,
const HALF: f64 = 0.5;
/// and after this many samples,
const LEAST_SAMPLES: u32 = 3;
/// and this much time: for a moment elastic cross traffic takes just what the bundle leaves.
const LEAST_TIME: Nanos = Nanos::from_millis(200);
/// More movement than this is nobody's idea of a path at rest, whatever was to be expected of a queue.
const STILL: Nanos = Nanos::from_millis(2);
/// A cut by less than this share is within what a shared bottleneck's rates vary by.
const NO_CUT: f64 = 0.1;

/// A delay above the minimum that lasts is either a queue, which shrinks when less is sent than the
/// bottleneck served, or the path itself, which does not care. While the controller cuts its rate
/// because of the delay, this adds up by how much a queue would have shrunk, and compares.
///
/// Copa relies on its window of ten seconds to forget a minimum that is gone (section 2.1). A
/// bundle would be starved for that long after a route change: its rate is inverse to the delay it
/// sees.
///
/// A delay that moves, whichever way, is a queue, be it that others move it. Should elastic cross
/// traffic hold a queue as still as a path, the bundle holds its ground, and its controller's next
/// look at the empty path corrects the error.
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
    /// The least and the most round-trip time seen since: one by one, as a queue that others keep at
    /// the same length on average still moves with every burst.
    least: Nanos,
    most: Nanos,
    samples: u32,
    /// By how much a queue would be shorter by now, in seconds.
    would_have_gone: f64,
}

/// The path became longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongerPath {
    /// The round-trip time of the path as it is now.
    pub(crate) min_rtt: Nanos,
    /// The rate that it carried before the controller cut it.
    pub(crate) rate: Rate,
}

impl LongerPathTest {
    /// Looks at a tick's measurement. Delays up to `threshold` are a queue as it should be.
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
            // The receive rate must be that of the path as it is now, all over its window.
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

    /// Forgets what it saw.
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

    /// Samples every 10 ms; `path` gives the delay in microseconds and the send and receive rates in
    /// Mbit/s at a sample. The first verdict, and at which sample.
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
    fn a_delay_that_stays_when_less_is_sent_is_the_path() {
        // 30 ms more; after a round trip (samples 1 to 6) the rate is halved. A tenth of a cut does
        // not count, so a queue would lose 4 ms a sample, and half of it, 15 ms, in four; the verdict
        // waits for the 200 ms to be over.
        let longer = verdict(50, |i| if i <= 6 { (30_000, 96, 96) } else { (30_000, 48, 48) });
        let (at, longer) = longer.unwrap();
        assert_eq!(at, 26);
        assert_eq!(longer, LongerPath { min_rtt: MS * 80, rate: Rate::from_mbps(96) });
    }

    #[test]
    fn a_delay_that_shrinks_is_a_queue() {
        // Half the rate empties 5 ms of queue in 10 ms.
        let gone = |i: u64| 30_000_u64.saturating_sub(i.saturating_sub(6) * 5_000);
        assert_eq!(verdict(50, |i| (gone(i), if i <= 6 { 96 } else { 48 }, 96)), None);
    }

    #[test]
    fn a_delay_that_others_move_is_a_queue() {
        // Someone else fills and empties it by 8 ms.
        let moving = |i: u64| if i.is_multiple_of(2) { 22_000 } else { 30_000 };
        assert_eq!(verdict(500, |i| (moving(i), if i <= 6 { 96 } else { 48 }, 48)), None);
    }

    #[test]
    fn nothing_is_proved_without_a_cut() {
        assert_eq!(verdict(500, |_| (30_000, 96, 96)), None);
    }

    #[test]
    fn a_queue_as_it_should_be_is_no_case() {
        assert_eq!(verdict(500, |i| (3_000, if i <= 6 { 96 } else { 10 }, 10)), None);
    }

    #[test]
    fn ticks_without_a_sample_prove_nothing() {
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
