use super::LOSS;
use super::tick_input::TickInput;

/// Delays up to this many seconds can be noise on any path. Longer ones can be up to the minimum
/// RTT, if the configuration allows it: a link that serves in bursts makes packets wait for the
/// next burst, and bursts are rarely further apart than the round trip is long.
const MAX_DELAY: f64 = 0.010;
/// A delay above this multiple of its average is a growing queue.
const GROWS: f64 = 1.5;
/// The bottleneck must have had the time to serve this multiple of the supposed queue. Where the
/// path became slower instead, the queue grows by as much as the missing service, and is seen to
/// grow first.
const PROOF: f64 = 6.0;
/// Rounds of evidence needed. The delay is averaged over as many.
const ROUNDS: f64 = 6.0;
/// Rounds of the average that shows growth.
const NEWER: f64 = 2.0;
/// A delay up to this multiple of the target is not evidence, since another bundle keeps its
/// packets in the queue too.
const CLEAR: f64 = 1.25;
/// How much slower evidence is forgotten at such a delay. Noise comes and goes.
const LULL: f64 = 0.25;
/// Seconds in which the floor falls to a third unless it is confirmed: about the window of the
/// minimum RTT.
const FORGET: f64 = 10.0;
/// Rounds in which the highest receive rate falls to a third, and the least number of seconds. A
/// bundle that now shares the bottleneck must not take the other's queue for noise.
const REMEMBER: f64 = 10.0;
const REMEMBER_LEAST: f64 = 1.0;

/// The part of the delay above the minimum RTT that is not a queue.
///
/// Such delay comes from the variation of the path and of its measurement: radio links, busy hosts,
/// or a minimum that one lucky packet saw. It does not go away when less is sent than the
/// bottleneck served before. That is the test: while there is a queue, the bottleneck serves at its
/// rate. If less than this rate arrives and the delay stays, there is no queue.
///
/// Without the floor, a few milliseconds of such delay would cause ever lower rates, down to where
/// the packets to keep take just as long. This is an equilibrium of Copa's law too.
#[derive(Debug, Default)]
pub(super) struct DelayFloor {
    delay: f64,
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The highest recent receive rate, in bytes per second.
    served: f64,
    /// The average delay in seconds.
    delay: f64,
    /// The average delay over a shorter time, in seconds.
    newer: f64,
    /// Seconds for which the bottleneck was idle, if it still has that rate and there is no queue.
    idle: f64,
    /// Seconds of the trial.
    lasted: f64,
}

impl DelayFloor {
    /// Returns the delay in seconds that is not a queue.
    pub(super) fn delay(&self) -> f64 {
        self.delay
    }

    /// Evaluates a tick. Delays up to `wanted` are the target. `bound` is whether the bundle used
    /// all of its rate; otherwise less arrives because less was sent.
    pub(super) fn on_tick(&mut self, s: &TickInput, wanted: f64, bound: bool) {
        self.delay -= self.delay * s.share_of(FORGET);
        let max_delay = s.base.min(s.longest_noise).max(MAX_DELAY);
        if s.delay > max_delay || s.loss > LOSS {
            self.trial = None;
            return;
        }
        if !s.informed {
            return;
        }
        let fresh =
            Trial { served: s.receive, delay: s.delay, newer: s.delay, idle: 0.0, lasted: 0.0 };
        let trial = self.trial.get_or_insert(fresh);
        let remember = s.share_of((REMEMBER * s.round).max(REMEMBER_LEAST));
        trial.served = (trial.served - trial.served * remember).max(s.receive);
        let forget = s.share_of(ROUNDS * s.round);
        if !bound || s.queue <= CLEAR * wanted {
            trial.idle -= trial.idle * forget * LULL;
            trial.lasted -= trial.lasted * forget * LULL;
            return;
        }
        trial.delay += (s.delay - trial.delay) * forget;
        trial.newer += (s.delay - trial.newer) * s.share_of(NEWER * s.round);
        if trial.newer > GROWS * trial.delay {
            *trial = fresh;
            return;
        }
        trial.idle += (1.0 - s.receive / trial.served).max(0.0) * s.dt;
        trial.lasted += s.dt;
        if trial.idle >= PROOF * trial.delay && trial.lasted >= ROUNDS * s.round {
            self.delay = trial.delay;
            self.trial = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::{Nanos, Rate};

    use super::*;
    use crate::config::ForebayConfig;
    use crate::controller::{Measurement, quiet};

    const MS: Nanos = Nanos::from_millis(1);
    const WANTED: f64 = 0.001;

    /// Returns the floor after `ticks` of 10 ms. `path` returns the delay in microseconds and the
    /// receive rate in Mbit/s of a tick. In the first second the receive rate is 96 Mbit/s.
    fn floor(ticks: u64, bound: bool, path: impl Fn(u64) -> (u64, u64)) -> f64 {
        floor_with(ForebayConfig::default(), ticks, bound, path)
    }

    fn floor_with(
        config: ForebayConfig,
        ticks: u64,
        bound: bool,
        path: impl Fn(u64) -> (u64, u64),
    ) -> f64 {
        let mut floor = DelayFloor::default();
        for tick in 1..=ticks {
            let (delay, receive) = path(tick);
            let receive = if tick <= 100 { 96 } else { receive };
            let rtt = MS * 50 + Nanos::from_micros(delay);
            let m = Measurement {
                now: MS * (10 * tick),
                rtt,
                standing_rtt: rtt,
                receive_rate: Rate::from_mbps(receive),
                ..quiet()
            };
            let last = MS * (10 * tick - 10);
            let s = TickInput::new(&m, last, floor.delay(), &config);
            floor.on_tick(&s, WANTED, bound);
        }
        floor.delay()
    }

    #[test]
    fn a_delay_that_stays_while_the_bottleneck_has_room_is_not_a_queue() {
        // The delay is 3 ms, and half of the bottleneck's rate arrives. The other half could have
        // served six times 3 ms within 36 ms.
        let path = |_| (3_000, 48);
        assert!(floor(100 + 3, true, path).abs() < 1e-9);
        let found = floor(100 + 4, true, path);
        assert!((found - 0.003).abs() < 1e-4, "{found}");
    }

    #[test]
    fn a_delay_at_a_busy_bottleneck_is_a_queue() {
        assert!(floor(2_000, true, |_| (3_000, 96)).abs() < 1e-9);
    }

    #[test]
    fn a_lower_rate_of_the_traffic_is_not_evidence() {
        assert!(floor(2_000, false, |_| (3_000, 48)).abs() < 1e-9);
    }

    #[test]
    fn a_delay_that_grows_since_less_is_served_is_a_queue() {
        // The path suddenly carries 72 Mbit/s, and a quarter of what is sent joins the queue.
        let delay = |tick: u64| 1_500 + 2_500 * tick.saturating_sub(100).min(3);
        assert!(floor(130, true, |tick| (delay(tick), 72)).abs() < 1e-9);
        // With 91 Mbit/s it takes longer.
        let delay = |tick: u64| 1_500 + 520 * tick.saturating_sub(100).min(15);
        assert!(floor(130, true, |tick| (delay(tick), 91)).abs() < 1e-9);
    }

    #[test]
    fn a_long_delay_is_a_queue() {
        assert!(floor(2_000, true, |_| (11_000, 48)).abs() < 1e-9);
    }

    #[test]
    fn with_a_guard_a_delay_of_up_to_the_round_trip_may_be_the_wait_for_a_burst() {
        let guarded =
            ForebayConfig { longest_noise: Nanos::from_millis(50), ..ForebayConfig::default() };
        let found = floor_with(guarded, 200, true, |_| (20_000, 24));
        assert!((found - 0.020).abs() < 0.002, "{found}");
        assert!(floor_with(guarded, 2_000, true, |_| (51_000, 48)).abs() < 1e-9);
    }

    #[test]
    fn the_floor_is_forgotten_unless_it_is_confirmed() {
        // It is found in the second second, and not confirmed in the ten that follow.
        let later = floor(1_200, true, |tick| if tick < 200 { (3_000, 48) } else { (0, 96) });
        assert!(later > 0.0 && later < 0.003 / 2.7, "{later}");
    }
}
