//! The rate in pass-through mode, in which the bundle's flows compete for bandwidth themselves.
//!
//! There are two policies: a short queue at the sendbox (Bundler section 5.1), or no limit.
//!
//! A short queue costs throughput where cross traffic fills a drop-tail buffer: a sixth with real
//! Linux TCP, even with FIFO scheduling (decision record 0015). A likely cause is that flows send
//! in trains. A full buffer then drops several packets of one train, and one window is cut. Spread
//! over time, single packets of several flows are dropped, and each loss cuts a window.

use forebay_units::{Bytes, Nanos, Rate};

/// The integral gain of the PI controller in 1/s^2, for a queue in bytes and a rate in bytes per
/// second (Bundler section 5.1). The queue integrates the difference of arrivals and rate, so with
/// [`BETA`] the poles are at -1.1 and -8.9 per second.
const ALPHA: f64 = 10.0;
/// The proportional gain of the PI controller in 1/s (Bundler section 5.1).
const BETA: f64 = 10.0;
/// The target of the queue, in seconds of the bundle's rate. It must be long enough to show that
/// the rate is used. Bundler has 10 ms, which supply its pulses. Here there are no pulses in
/// pass-through (see `cross`), and each millisecond adds to the round-trip time of the bundle's
/// flows.
const TARGET: f64 = 0.003;
/// A queue below this share of the target counts as empty: the bundle does not use the rate.
const EMPTY: f64 = 0.1;
/// Time in which an unused rate falls to the rate that is sent, so that a queue builds as soon as
/// there is traffic for it (anti-windup).
const UNWIND: f64 = 0.25;
/// The largest rate, as a multiple of the highest at which the bottleneck served the bundle.
const MAX_OF_HIGHEST: f64 = 1.1;
/// The release rate of packets that a drain probe held back, as a multiple of the rate before. The
/// bundle's flows count these packets as in flight. While they wait here, cross traffic takes their
/// place at the bottleneck.
const RELEASE: f64 = 3.0;
/// The release ends when the queue is this short, in seconds of the release rate.
const RELEASED: f64 = 2.0 * TARGET;

/// How the bundle's flows are limited in pass-through mode, once no held-back packets are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassThroughPolicy {
    /// The rate keeps a short queue at the sendbox (Bundler section 5.1).
    ShortQueue,
    /// There is no limit, and packets leave in the order and at the time of their arrival.
    Unlimited,
}

/// The PI controller of the sendbox's queue, and the release of held-back packets.
#[derive(Debug)]
pub(crate) struct PassThrough {
    policy: PassThroughPolicy,
    /// Whether there is no limit now.
    free: bool,
    /// The controller's rate in bytes per second.
    rate: f64,
    backlog: f64,
    /// How long packets were held back, which is how long they may still be released.
    held: Nanos,
    /// The rate before packets were held back, in bytes per second.
    before: f64,
}

/// The input at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassThroughInput {
    /// The time since the last tick.
    pub(crate) elapsed: Nanos,
    /// The bytes waiting at the sendbox.
    pub(crate) backlog: Bytes,
    /// The send rate S.
    pub(crate) send_rate: Rate,
    /// The highest rate at which the bottleneck served the bundle.
    pub(crate) highest: Rate,
}

impl PassThrough {
    /// Starts at `rate` with `backlog` bytes in the queue.
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

    /// Returns the rate until the next tick, `None` for no limit.
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
        let most = MAX_OF_HIGHEST * q.highest.as_bytes_per_sec_f64();
        self.rate = self.rate.clamp(0.0, most.max(sent));
        Some(Rate::from_bps_f64(self.rate * 8.0))
    }

    /// Records a tick in which a drain probe held the rate below `before`.
    ///
    /// The growth of the queue to `backlog` is then not a control error. It is released afterwards,
    /// in no more time than it was held back.
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

    /// Returns the rate after a tick with `backlog` bytes in the queue.
    fn paced(pi: &mut PassThrough, backlog: f64) -> Rate {
        pi.on_tick(&queue(backlog)).expect("a rate")
    }

    #[test]
    fn a_step_has_the_values_computed_by_hand() {
        // At 10 MB/s the target is 3 ms or 30 000 B. There are 20 000 B more, of which 5000 B are
        // new: the rate rises by 10 x 20 000 x 0.01 + 10 x 5000 = 52 000 B/s.
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(45_000));
        let rate = paced(&mut pi, 50_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 52_000 * 8) < 200, "{rate}");
        // Growth while packets are held back does not count: 10 x 20 000 x 0.01.
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(45_000));
        pi.hold(TICK, Bytes(50_000), RATE);
        let rate = paced(&mut pi, 50_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 2_000 * 8) < 200, "{rate}");
    }

    /// Returns the queue in seconds and the rate after `seconds`, where `arriving` Mbit/s arrive.
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
    fn the_queue_stays_at_three_milliseconds() {
        for (arriving, start, backlog) in [(80.0, 80, 0.0), (30.0, 90, 0.0), (60.0, 20, 2e6)] {
            let (queue, rate) = after(8.0, arriving, Rate::from_mbps(start), backlog);
            assert!((queue - 0.003).abs() < 0.000_5, "{arriving} Mbit/s: {queue} s");
            assert!((rate.as_mbps_f64() - arriving).abs() < 0.2, "{arriving} Mbit/s: {rate}");
        }
    }

    #[test]
    fn held_back_packets_are_released_at_once() {
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(30_000));
        for _ in 0..20 {
            pi.hold(TICK, Bytes(600_000), RATE);
        }
        // 10 MB/s: three times that, down to 6 ms of it or 180 000 B.
        assert_eq!(paced(&mut pi, 600_000.0), Rate::from_mbps(240));
        assert_eq!(paced(&mut pi, 181_000.0), Rate::from_mbps(240));
        // From then on the controller continues: 10 x 150 000 x 0.01 and 10 x -1000.
        let rate = paced(&mut pi, 180_000.0).as_bps();
        assert!(rate.abs_diff(80_000_000 + 5_000 * 8) < 200, "{rate}");
        assert!(paced(&mut pi, 600_000.0) < Rate::from_mbps(240), "the release has ended");
    }

    #[test]
    fn a_release_takes_no_longer_than_the_hold() {
        let mut pi = PassThrough::new(PassThroughPolicy::ShortQueue, RATE, Bytes(30_000));
        for _ in 0..20 {
            pi.hold(TICK, Bytes(600_000), RATE);
        }
        let released = (0..100).take_while(|_| paced(&mut pi, 600_000.0).as_bps() == 240_000_000);
        assert_eq!(released.count(), 19);
    }

    #[test]
    fn an_unused_rate_does_not_wind_up() {
        // A tenth of the rate arrives. Half a second later the rate is near that.
        let (_, rate) = after(1.0, 9.0, Rate::from_mbps(90), 0.0);
        assert!(rate.as_mbps_f64() < 12.0, "{rate}");
    }

    #[test]
    fn there_is_no_limit_once_no_packets_are_held_back() {
        let mut pi = PassThrough::new(PassThroughPolicy::Unlimited, RATE, Bytes(50_000));
        // At 10 MB/s, 3 ms are 30 000 B.
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
        // Then the controller continues from the rate sent: 20 MB/s, of which 3 ms are 60 000 B, so
        // 10 x 540 000 x 0.01 = 54 000 B/s more.
        let rate = pi.on_tick(&PassThroughInput { highest: sent, ..queue(600_000.0) }).unwrap();
        assert!(rate.as_bps().abs_diff(160_432_000) < 1_000, "{rate}");
        assert_eq!(pi.on_tick(&queue(0.0)), None);
    }
}
