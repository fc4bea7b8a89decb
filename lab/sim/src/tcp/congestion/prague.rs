//! TCP Prague: [`crate::prague`] with TCP's window, which loss recovery and slow start also change.

use forebay_units::Rate;

use super::{Connection, Sample, Window};
use crate::prague::{self, Acked, LEAST_SEGMENTS, Path, pace, whole};
use crate::tcp::MSS;
use crate::tcp::state::State;

/// The smallest burst in segments, as in Linux (`tcp_min_tso_segs`).
///
/// On slow paths the queue of a single flow consists of such bursts. A window of two segments is
/// sent as two bursts of one, since a window has at least two bursts.
const LEAST_BURST: u32 = 2;

/// The state of TCP Prague.
#[derive(Clone, Debug)]
pub(crate) struct Prague(prague::Prague);

impl Prague {
    pub(super) fn new(now: u64) -> Self {
        Self(prague::Prague::new(now, 0.0))
    }

    /// Adopts a window that loss recovery or slow start has set.
    fn follow(&mut self, window: &Window) {
        if window.size != self.0.segments() {
            self.0.set_window(f64::from(window.size));
        }
    }

    pub(super) fn on_ack(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        self.follow(window);
        let acked = Acked { newly: s.newly.into(), marked: s.marked.into(), rtt: s.rtt };
        // A loss in the same round trip has already reduced the window.
        if self.0.on_ack(&path(c), &acked, c.state < State::Recovery) {
            window.size = self.0.segments();
            window.threshold = window.size;
        }
    }

    pub(super) fn grow(&mut self, window: &mut Window, c: &Connection, acked: u32) {
        if !c.cwnd_limited && self.0.window() >= f64::from(LEAST_SEGMENTS) {
            return;
        }
        self.follow(window);
        let left = if window.slow_start() { window.double(acked) } else { acked };
        self.follow(window);
        self.0.grow(&path(c), left);
        window.size = self.0.segments();
    }

    /// Returns the pacing rate: the window per round trip, or twice the window in slow start.
    pub(super) fn pacing(&self, window: &Window, smoothed_rtt: u64) -> Option<Rate> {
        let own = self.0.window();
        let segments = if whole(own) == window.size { own } else { f64::from(window.size) };
        let gain = if window.slow_start() { 2.0 } else { 1.0 };
        (smoothed_rtt > 0).then(|| pace(segments * gain, MSS, smoothed_rtt))
    }

    pub(super) fn burst(&self, window: &Window, smoothed_rtt: u64) -> u32 {
        let rate = self.pacing(window, smoothed_rtt);
        rate.map_or(LEAST_BURST, |rate| prague::burst(rate, MSS).max(LEAST_BURST))
    }
}

fn path(c: &Connection) -> Path {
    Path { now: c.now, smoothed_rtt: c.smoothed_rtt, min_rtt: c.min_rtt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::tests::connection;

    const MS: u64 = 1_000_000;

    /// Returns a flow that is not in slow start.
    fn steady(size: u32) -> (Prague, Window) {
        let mut window = Window::new(size);
        window.threshold = size;
        (Prague::new(0), window)
    }

    fn sample(newly: u32, marked: u32) -> Sample {
        Sample { newly, marked, ..Sample::default() }
    }

    #[test]
    fn a_mark_ends_slow_start() {
        let mut window = Window::new(100);
        let mut prague = Prague::new(0);
        prague.grow(&mut window, &connection(0, 10 * MS), 20);
        assert_eq!(window.size, 120);
        prague.on_ack(&mut window, &connection(100 * MS, 10 * MS), &sample(1, 1));
        assert_eq!((window.size, window.threshold), (60, 60), "the initial share is one");
    }

    #[test]
    fn it_continues_from_the_window_of_loss_recovery() {
        let (mut prague, mut window) = steady(100);
        prague.grow(&mut window, &connection(0, 25 * MS), 1);
        assert_eq!(window.size, 101);
        (window.size, window.threshold) = (40, 40);
        let lossy = Connection { state: State::Recovery, ..connection(100 * MS, 25 * MS) };
        prague.on_ack(&mut window, &lossy, &sample(1, 1));
        assert_eq!(window.size, 40, "no second reduction");
        for _ in 0..40 {
            prague.grow(&mut window, &connection(0, 25 * MS), 1);
        }
        assert_eq!(window.size, 41);
    }

    #[test]
    fn it_can_send_less_than_a_segment_per_round_trip() {
        let (mut prague, mut window) = steady(4);
        for n in 1..=10 {
            prague.on_ack(&mut window, &connection(n * 30 * MS, 10 * MS), &sample(1, 1));
        }
        assert_eq!(window.size, LEAST_SEGMENTS);
        let rate = prague.pacing(&window, 10 * MS).unwrap();
        // 1448 B / 16 in 10 ms: 72.4 kbit/s.
        assert_eq!(rate, Rate::from_bps(72_000));
        assert_eq!(prague.burst(&window, 10 * MS), LEAST_BURST);
        // The window grows again.
        let mut c = connection(400 * MS, 10 * MS);
        c.cwnd_limited = false;
        for _ in 0..100 {
            prague.grow(&mut window, &c, 1);
        }
        assert!(prague.0.window() > 2.0, "{}", prague.0.window());
    }

    #[test]
    fn a_burst_lasts_a_quarter_of_a_millisecond() {
        let (mut prague, window) = steady(1000);
        prague.follow(&window);
        // 1000 segments in 25 ms: ten in 250 us.
        assert_eq!(prague.burst(&window, 25 * MS), 10);
    }
}
