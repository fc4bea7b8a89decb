use super::LOSS;
use super::tick_input::TickInput;

/// A delay of more than this, in seconds, is none of noise. It is the queue that pass-through keeps.
const MOST: f64 = 0.010;
/// One that is up to this multiple of its average is a queue that grows.
const GROWS: f64 = 1.5;
/// The bottleneck must have had the time to serve this multiple of what would be waiting: where the path
/// became slower, the queue grows by as much as that adds up to, and is seen to grow first,
const PROOF: f64 = 6.0;
/// and so many rounds must have shown nothing of it. Over as many the delay is averaged.
const ROUNDS: f64 = 6.0;
/// Growth is seen over so many.
const NEWER: f64 = 2.0;
/// A delay up to this multiple of what is wanted is no case: another bundle keeps its packets there too.
const CLEAR: f64 = 1.25;
/// Meanwhile what was found is forgotten so much slower: noise comes and goes.
const LULL: f64 = 0.25;
/// In which time, in seconds, the floor falls to a third should nothing confirm it: about as long as the
/// minimum RTT is remembered.
const FORGET: f64 = 10.0;
/// And what the bottleneck is thought to serve: a bundle that now shares it is not to take that for noise.
const REMEMBER: f64 = 4.0;

/// Delay above the minimum RTT that does not go away when less is sent than the bottleneck served: it is
/// no queue, but what the path and the measurement of it vary by (radio links, busy hosts, a minimum that
/// one lucky packet saw).
///
/// Without it, delay of a few milliseconds that nobody's queue causes would be answered by ever lower
/// rates, down to where the packets to keep take just as long: the equilibrium of Copa's law too.
///
/// While a queue stands the bottleneck serves at its rate. Where less than that arrives and yet the
/// delay stays, there is none.
#[derive(Debug, Default)]
pub(super) struct DelayFloor {
    delay: f64,
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// What the bottleneck has served lately.
    served: f64,
    /// The delay on average, over a while and over a shorter one.
    delay: f64,
    newer: f64,
    /// How long the bottleneck has stood idle meanwhile, if it still serves that and there is no queue,
    idle: f64,
    /// and how long it has been tried.
    lasted: f64,
}

impl DelayFloor {
    /// The delay, in seconds.
    pub(super) fn delay(&self) -> f64 {
        self.delay
    }

    /// Looks at a tick at which delays up to `wanted` are as they should be. `bound` is whether all was
    /// sent that might be: otherwise less arrives because there is no more.
    pub(super) fn on_tick(&mut self, s: &TickInput, wanted: f64, bound: bool) {
        self.delay -= self.delay * s.share_of(FORGET);
        if s.delay > MOST || s.loss > LOSS {
            self.trial = None;
            return;
        }
        if !s.informed {
            return;
        }
        let fresh =
            Trial { served: s.receive, delay: s.delay, newer: s.delay, idle: 0.0, lasted: 0.0 };
        let trial = self.trial.get_or_insert(fresh);
        trial.served = (trial.served - trial.served * s.share_of(REMEMBER)).max(s.receive);
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

    /// What is found after `ticks` of 10 ms; `path` gives the delay in microseconds and the receive rate in
    /// Mbit/s at a tick. In the first second 96 Mbit/s are received.
    fn floor(ticks: u64, bound: bool, path: impl Fn(u64) -> (u64, u64)) -> f64 {
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
            let s = TickInput::new(&m, last, floor.delay(), &ForebayConfig::default());
            floor.on_tick(&s, WANTED, bound);
        }
        floor.delay()
    }

    #[test]
    fn a_delay_that_stays_while_the_bottleneck_has_room_is_none_of_a_queue() {
        // 3 ms of delay, and half of what the bottleneck served: it has the time for six times 3 ms within
        // 36 ms.
        let path = |_| (3_000, 48);
        assert!(floor(100 + 3, true, path).abs() < 1e-9);
        let found = floor(100 + 4, true, path);
        assert!((found - 0.003).abs() < 1e-4, "{found}");
    }

    #[test]
    fn a_queue_at_a_busy_bottleneck_is_one() {
        assert!(floor(2_000, true, |_| (3_000, 96)).abs() < 1e-9);
    }

    #[test]
    fn where_the_traffic_is_less_nothing_is_proved() {
        assert!(floor(2_000, false, |_| (3_000, 48)).abs() < 1e-9);
    }

    #[test]
    fn a_queue_that_grows_because_less_is_served_is_one() {
        // The path carries 72 Mbit/s of a sudden, and a quarter of what is sent joins the queue.
        let delay = |tick: u64| 1_500 + 2_500 * tick.saturating_sub(100).min(3);
        assert!(floor(130, true, |tick| (delay(tick), 72)).abs() < 1e-9);
        // The same with 91 Mbit/s, where it takes longer.
        let delay = |tick: u64| 1_500 + 520 * tick.saturating_sub(100).min(15);
        assert!(floor(130, true, |tick| (delay(tick), 91)).abs() < 1e-9);
    }

    #[test]
    fn a_long_queue_is_one() {
        assert!(floor(2_000, true, |_| (11_000, 48)).abs() < 1e-9);
    }

    #[test]
    fn is_forgotten_unless_it_is_found_again() {
        // Found in the second second, and nothing of it in the ten that follow.
        let later = floor(1_200, true, |tick| if tick < 200 { (3_000, 48) } else { (0, 96) });
        assert!(later > 0.0 && later < 0.003 / 2.7, "{later}");
    }
}
