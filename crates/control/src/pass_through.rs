//! Lets the bundle's flows compete for themselves: at the rate that keeps a short queue at the sendbox
//! (Bundler section 5.1), or as they come.
//!
//! A short queue costs throughput where others fill a buffer that drops at its tail: with real Linux TCP
//! a sixth, even first in, first out (decision record 0015). Probably since flows send in trains: a loss
//! takes several packets of one train, and cuts one window. What was spread over time loses one packet
//! here and one there, and each cuts a window of its own.

use forebay_units::{Bytes, Nanos, Rate};

/// Gains of the PI controller, in 1 / s^2 and 1 / s, for a queue in bytes and a rate in bytes per
/// second (Bundler section 5.1). With a queue that integrates what the rate leaves, they put the
/// poles at -1.1 and -8.9 per second.
const ALPHA: f64 = 10.0;
const BETA: f64 = 10.0;
/// The queue to hold, in seconds of the bundle's rate: enough to see that the rate is used. Bundler's 10
/// ms feed its pulses, which are not sent here: what they would show is less than others' queues vary
/// by (`cross`), and each millisecond is one more round-trip time for the bundle's flows.
const TARGET: f64 = 0.003;
/// A queue below this share of the target is none: the rate is not used.
const EMPTY: f64 = 0.1;
/// A rate that is not used comes down to what is sent in this time, so that a queue builds as soon as
/// there is anything to build it from (anti-windup).
const UNWIND: f64 = 0.25;
/// The rate stays below this multiple of the highest that the bottleneck was seen to serve.
const MOST: f64 = 1.1;
/// What was held back is released at this multiple of the rate. It is of what the bundle's flows have in
/// flight, which is less at the bottleneck for as long as it waits here, and others take its place.
const RELEASE: f64 = 3.0;
/// It has been when this much of that rate is left, in seconds.
const RELEASED: f64 = 2.0 * TARGET;

/// How the bundle's flows compete, once nothing is left that was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassThroughPolicy {
    /// With a short queue at the sendbox (Bundler section 5.1).
    ShortQueue,
    /// Without a limit, in the order and at the time at which their packets come.
    Unlimited,
}

/// The PI controller, and what it controls until packets go as they come.
#[derive(Debug)]
pub(crate) struct PassThrough {
    policy: PassThroughPolicy,
    /// There is no limit now.
    free: bool,
    /// In bytes per second.
    rate: f64,
    backlog: f64,
    /// For how long the rate has not been the controller's, and what was held back may be released,
    held: Nanos,
    /// and what it was before, in bytes per second.
    before: f64,
}

/// What it sees at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassThroughInput {
    /// The time since the last tick.
    pub(crate) elapsed: Nanos,
    /// What waits at the sendbox.
    pub(crate) backlog: Bytes,
    /// S.
    pub(crate) send_rate: Rate,
    /// The highest rate that the bottleneck was seen to serve the bundle at.
    pub(crate) highest: Rate,
}

impl PassThrough {
    /// Begins at `rate` with `backlog` in the queue.
    pub(crate) fn new(policy: PassThroughPolicy, rate: Rate, backlog: Bytes) -> Self {
        Self {
            policy,
            free: false,
            rate: rate.as_bytes_per_sec_f64(),
            backlog: backlog.as_f64(),
            held: Nanos::ZERO,
            before: 0.0,
        }
    }

    /// The rate until the next tick; `None` for no limit.
    pub(crate) fn on_tick(&mut self, q: &PassThroughInput) -> Option<Rate> {
        let dt = q.elapsed.as_secs_f64().min(0.1);
        let backlog = q.backlog.as_f64();
        let release = self.before * RELEASE;
        self.held = self.held.saturating_sub(q.elapsed);
        if self.held > Nanos::ZERO && backlog > release * RELEASED {
            self.backlog = backlog;
            return Some(Rate::from_bps_f64(release * 8.0));
        }
        self.held = Nanos::ZERO;
        let target = self.rate * TARGET;
        self.free |= self.policy == PassThroughPolicy::Unlimited && backlog <= target;
        if self.free {
            self.rate = q.send_rate.as_bytes_per_sec_f64();
            return None;
        }
        let grown = backlog - self.backlog;
        self.backlog = backlog;
        self.rate += ALPHA * (backlog - target) * dt + BETA * grown;
        let sent = q.send_rate.as_bytes_per_sec_f64();
        if backlog < EMPTY * target && self.rate > sent {
            self.rate -= (self.rate - sent) * (dt / UNWIND).min(1.0);
        }
        let most = MOST * q.highest.as_bytes_per_sec_f64();
        self.rate = self.rate.clamp(0.0, most.max(sent));
        Some(Rate::from_bps_f64(self.rate * 8.0))
    }

    /// The rate is less than `before` for a tick, and not the controller's: what that does to the queue,
    /// `backlog` now, is none of its errors, and is released after, in no more time than it was held back.
    pub(crate) fn hold(&mut self, elapsed: Nanos, backlog: Bytes, before: Rate) {
        self.free = false;
        self.before = before.as_bytes_per_sec_f64();
        self.held = self.held.saturating_add(elapsed);
        self.backlog = backlog.as_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Nanos = Nanos::from_millis(10);
    const RATE: Rate = Rate::from_mbps(80);

    fn queue(backlog: f64) -> PassThroughInput {
        PassThroughInput {
            elapsed: TICK,
            backlog: Bytes(backlog as u64),
            send_rate: RATE,
            highest: RATE,
        }
    }

    /// The rate of a tick, with `backlog` bytes in the queue.
    fn paced(pi: &mut PassThrough, backlog: f64) -> Rate {
        pi.on_tick(&queue(backlog)).expect("a rate")
    }

    #[test]
    fn a_step_by_hand() {
        // 10 MB/s: the target is 3 ms of them, 30 000 B. 20 000 B more, of which 5000 B are new:
        // 10 x 20 000 x 0.01 + 10 x 5000 = 52 000 B/s more.
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(45_000));
        let rate = paced(&mut pi, 50_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 52_000 * 8) < 200, "{rate}");
        // What grew while it was held, and is soon released, is no growth: 10 x 20 000 x 0.01.
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(45_000));
        pi.hold(TICK, Bytes(50_000), RATE);
        let rate = paced(&mut pi, 50_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 2_000 * 8) < 200, "{rate}");
    }

    /// The queue in seconds of the rate after `seconds`, where `arriving` Mbit/s come.
    fn after(seconds: f64, arriving: f64, start: Rate, backlog: f64) -> (f64, Rate) {
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, start, Bytes(backlog as u64));
        let (mut backlog, mut rate) = (backlog, start);
        for _ in 0..(seconds * 100.0) as u32 {
            let sent = (rate.as_bytes_per_sec_f64() * 0.01).min(backlog + arriving * 1250.0);
            backlog += arriving * 1250.0 - sent;
            let send_rate = Rate::from_bps_f64(sent * 800.0);
            let seen =
                PassThroughInput { send_rate, highest: Rate::from_mbps(96), ..queue(backlog) };
            rate = pi.on_tick(&seen).expect("a rate");
        }
        (backlog / (rate.as_bytes_per_sec_f64()), rate)
    }

    #[test]
    fn holds_three_milliseconds_of_whatever_comes() {
        for (arriving, start, backlog) in [(80.0, 80, 0.0), (30.0, 90, 0.0), (60.0, 20, 2e6)] {
            let (queue, rate) = after(8.0, arriving, Rate::from_mbps(start), backlog);
            assert!((queue - 0.003).abs() < 0.000_5, "{arriving} Mbit/s: {queue} s");
            assert!((rate.as_mbps_f64() - arriving).abs() < 0.2, "{arriving} Mbit/s: {rate}");
        }
    }

    #[test]
    fn what_was_held_back_is_released_at_once() {
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(30_000));
        for _ in 0..20 {
            pi.hold(TICK, Bytes(600_000), RATE);
        }
        // 10 MB/s: at thrice that, down to 6 ms of it, 180 000 B.
        assert_eq!(paced(&mut pi, 600_000.0), Rate::from_mbps(240));
        assert_eq!(paced(&mut pi, 181_000.0), Rate::from_mbps(240));
        // From then on the controller goes on: 10 x 150 000 x 0.01 and 10 x -1000.
        let rate = paced(&mut pi, 180_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 5_000 * 8) < 200, "{rate}");
        assert!(paced(&mut pi, 600_000.0) < Rate::from_mbps(240), "once");
    }

    #[test]
    fn a_release_lasts_no_longer_than_what_it_releases() {
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(30_000));
        for _ in 0..20 {
            pi.hold(TICK, Bytes(600_000), RATE);
        }
        let released = (0..100).take_while(|_| paced(&mut pi, 600_000.0).as_bps() == 240_000_000);
        assert_eq!(released.count(), 19);
    }

    #[test]
    fn a_rate_that_is_not_used_does_not_wind_up() {
        // Nothing but a tenth of the rate comes; half a second later it stands where it is used.
        let (_, rate) = after(1.0, 9.0, Rate::from_mbps(90), 0.0);
        assert!(rate.as_mbps_f64() < 12.0, "{rate}");
    }

    #[test]
    fn as_they_come_once_nothing_is_held_back() {
        let mut pi = PassThrough::new(PassThroughPolicy::Unlimited, RATE, Bytes(50_000));
        // 10 MB/s, of which 3 ms are 30 000 B.
        assert!(pi.on_tick(&queue(50_000.0)).is_some());
        assert_eq!(pi.on_tick(&queue(20_000.0)), None);
        assert_eq!(
            pi.on_tick(&queue(90_000.0)),
            None,
            "it is not what waits that matters any more"
        );
        let sent = Rate::from_mbps(160);
        assert_eq!(pi.on_tick(&PassThroughInput { send_rate: sent, ..queue(90_000.0) }), None);
        pi.hold(TICK, Bytes(600_000), sent);
        pi.hold(TICK, Bytes(600_000), sent);
        assert_eq!(paced(&mut pi, 600_000.0), sent.scaled(3.0));
        // After that it goes on from what was sent, and not from where it began: 20 MB/s, of which 3 ms are
        // 60 000 B, and 10 x 540 000 x 0.01 = 54 000 B/s more.
        let rate = pi.on_tick(&PassThroughInput { highest: sent, ..queue(600_000.0) }).unwrap();
        assert!(rate.as_bps().abs_diff(160_432_000) < 1_000, "{rate}");
        assert_eq!(pi.on_tick(&queue(0.0)), None);
    }
}
