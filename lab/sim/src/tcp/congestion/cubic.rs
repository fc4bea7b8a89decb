//! Cubic (RFC 9438) with the constants and the order of steps of Linux.

use super::hystart::HyStart;
use super::{Connection, Window};

/// The factor of the multiplicative decrease in 1024ths: 0.7 (RFC 9438 section 4.6) as Linux rounds
/// it.
const BETA: u64 = 717;
const ONE: u64 = 1024;
/// The coefficient of the cubic function in segments per second cubed (RFC 9438 section 5).
const C: f64 = 0.4;
/// The time in nanoseconds between calculations while the window does not change (Linux: 1/32 s).
const REFRESH: u64 = 31_250_000;
/// The time in nanoseconds after a congestion event during which round-trip times are ignored,
/// since the queue is not empty.
const SETTLE: u64 = 1_000_000_000;
const SECOND: f64 = 1e9;

/// The state of Cubic.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    hystart: HyStart,
    /// The window before the last reduction, in segments.
    last_max: u32,
    /// The time at which growth began after the last reduction.
    epoch: Option<u64>,
    /// The window at the plateau of the cubic function.
    origin: f64,
    /// The time from the epoch to the plateau in seconds.
    k: f64,
    last_window: u32,
    last_time: u64,
    /// The number of acknowledged segments per segment of growth.
    per: u32,
    /// The window that Reno would have (RFC 9438 section 4.3).
    reno: u32,
    /// The acknowledged segments that have not yet increased `reno`.
    acked: u32,
    least_rtt: u64,
}

impl Cubic {
    pub(super) fn new(now: u64) -> Self {
        Self {
            hystart: HyStart::new(now, 0),
            last_max: 0,
            epoch: None,
            origin: 0.0,
            k: 0.0,
            last_window: 0,
            last_time: 0,
            per: 1,
            reno: 0,
            acked: 0,
            least_rtt: u64::MAX,
        }
    }

    /// Resets all state; the next round ends when `next` is acknowledged.
    pub(super) fn reset(&mut self, now: u64, next: u64) {
        *self = Self { hystart: HyStart::new(now, next), ..Self::new(now) };
    }

    pub(super) fn on_rtt(&mut self, window: &mut Window, c: &Connection, rtt: u64) {
        if self.epoch.is_some_and(|e| c.now - e < SETTLE) {
            return;
        }
        self.least_rtt = self.least_rtt.min(rtt.max(1));
        self.hystart.on_rtt(window, c, rtt, self.least_rtt);
    }

    pub(super) fn grow(&mut self, window: &mut Window, c: &Connection, acked: u32) {
        if !c.cwnd_limited {
            return;
        }
        let left = if window.slow_start() { window.double(acked) } else { acked };
        if left > 0 {
            self.update(window.size, c.now, left);
            window.add(self.per, left);
        }
    }

    /// Updates the growth by W(t) = C (t - K)^3 + W_max one round trip ahead (RFC 9438 section
    /// 4.2).
    fn update(&mut self, size: u32, now: u64, acked: u32) {
        self.acked += acked;
        if self.last_window == size && now - self.last_time <= REFRESH {
            return;
        }
        (self.last_window, self.last_time) = (size, now);
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.acked, self.reno) = (acked, size);
            if self.last_max <= size {
                (self.k, self.origin) = (0.0, f64::from(size));
            } else {
                self.k = cube_root(f64::from(self.last_max - size) / C);
                self.origin = f64::from(self.last_max);
            }
            now
        });
        let rtt = if self.least_rtt == u64::MAX { 0 } else { self.least_rtt };
        let t = (now + rtt - epoch) as f64 / SECOND - self.k;
        let target = (self.origin + C * t * t * t).max(0.0) as u32;
        self.per = if target > size { size / (target - size) } else { 100 * size };
        // Before the first loss it grows by at least a twentieth per round trip.
        if self.last_max == 0 {
            self.per = self.per.min(20);
        }
        self.follow_reno(size);
        // At most by half of the window per round trip.
        self.per = self.per.max(2);
    }

    fn follow_reno(&mut self, size: u32) {
        // 8 (1 + beta) / (3 (1 - beta)): acknowledged segments per segment of Reno's growth, in
        // eighths of the window (RFC 9438 section 4.3).
        let scale = 8 * (ONE + BETA) / 3 / (ONE - BETA);
        let per = ((u64::from(size) * scale) >> 3).max(1) as u32;
        self.reno += self.acked / per;
        self.acked %= per;
        if self.reno > size {
            self.per = self.per.min(size / (self.reno - size));
        }
    }

    pub(super) fn on_congestion(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let size = u64::from(window.size);
        // Fast convergence (RFC 9438 section 4.7): a flow that did not reach its last maximum
        // reduces it further, so that new flows get room.
        self.last_max = if window.size < self.last_max {
            (size * (ONE + BETA) / (2 * ONE)) as u32
        } else {
            window.size
        };
        ((size * BETA / ONE) as u32).max(2)
    }

    /// Excludes an idle time from the time of growth.
    pub(super) fn on_restart(&mut self, now: u64, idle: u64) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + idle).min(now);
        }
    }
}

/// Returns the cube root by Newton's method. Basic arithmetic gives the same result on every
/// machine, which a library's `cbrt` does not guarantee.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut y = x.sqrt().sqrt().max(1.0);
    for _ in 0..32 {
        y = (2.0 * y + x / (y * y)) / 3.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact_to_twelve_digits() {
        for x in [0.001, 0.5, 1.0, 8.0, 27.0, 1e6, 1e9] {
            let y = cube_root(x);
            assert!((y * y * y / x - 1.0).abs() < 1e-12, "{x}: {y}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }

    /// A flow with a round trip of 50 ms loses a segment at a window of 500 segments.
    #[test]
    fn the_window_returns_to_its_maximum_after_k_seconds() {
        let mut window = Window::new(500);
        window.threshold = 10;
        let mut cubic = Cubic::new(0);
        window.size = cubic.on_congestion(&window);
        window.threshold = window.size;
        assert_eq!(window.size, 350);
        let mut at = |seconds: f64, window: &mut Window| {
            let start = cubic.last_time.max(1_000_000_000);
            let end = 1_000_000_000 + (seconds * 1e9) as u64;
            let mut now = start;
            while now < end {
                now += 50_000_000 / u64::from(window.size);
                let c = crate::tcp::congestion::tests::connection(now, 50_000_000);
                cubic.grow(window, &c, 1);
            }
            window.size
        };
        // K = cbrt(150 / 0.4) = 7.2 s; halfway there W = 500 - 0.4 x 3.6^3 = 481.
        assert!((478..=484).contains(&at(3.6, &mut window)), "{}", window.size);
        assert!((498..=502).contains(&at(7.2, &mut window)), "{}", window.size);
        // The growth beyond is symmetric: 500 + 0.4 x 3.6^3 = 519, if Reno is not ahead.
        assert!((515..=523).contains(&at(10.8, &mut window)), "{}", window.size);
    }
}
