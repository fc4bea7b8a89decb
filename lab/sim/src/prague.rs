//! Prague (draft-briscoe-iccrg-prague-congestion-control), a scalable congestion control for L4S.
//!
//! Once per round trip it reduces its window by half of the share of marked packets. It increases
//! the window additively, by a segment per round trip. RFC 9331 section 4.3 lists the requirements;
//! the item numbers below refer to it.
//!
//! This code is independent of the transport. TCP and UDP senders report what was acknowledged and
//! marked; they handle losses and slow start themselves.

use forebay_units::{Bytes, Nanos, Rate};

/// The reference round-trip time in nanoseconds. Flows with shorter round trips grow at the same
/// rate as a flow with this one (item 4; appendix A.1.6 gives 25 ms as an example).
pub(crate) const REFERENCE_RTT: u64 = 25_000_000;
/// The gain of the moving average of marks, as in RFC 8257 section 4.2.
const GAIN: f64 = 1.0 / 16.0;
/// The smallest window in segments. Pacing then sends one segment in 16 round trips (item 5).
const LEAST_WINDOW: f64 = 1.0 / 16.0;
/// The segments that may be in flight with the smallest window, since a receiver acknowledges every
/// second segment.
pub(crate) const LEAST_SEGMENTS: u32 = 2;
/// The longest burst (item 7), unless the smallest burst of the stack is longer.
const BURST: Nanos = Nanos::from_micros(250);
/// The queue delay in nanoseconds above which marks come from a classic AQM. An L4S queue has a
/// target of about a millisecond (RFC 9332 section 2.5), and two segments may wait in any queue.
const L4S_DELAY: u64 = 3_000_000;
/// The value of `suspicion` from which the bottleneck is treated as classic (item 3).
const SUSPECT: u32 = 6;
/// The value of `suspicion` down to which a classic bottleneck stays classic.
const TRUSTED: u32 = 2;
/// The largest value of `suspicion`.
const MAX_SUSPECT: u32 = 8;

/// The sender's measurements of its path, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) now: u64,
    pub(crate) smoothed_rtt: u64,
    pub(crate) min_rtt: u64,
}

impl Path {
    /// Returns the virtual round-trip time, which determines reductions and averages.
    pub(crate) fn virtual_rtt(&self) -> u64 {
        self.smoothed_rtt.max(REFERENCE_RTT)
    }
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// The number of newly acknowledged segments.
    pub(crate) newly: u64,
    /// The number of newly acknowledged segments that were marked.
    pub(crate) marked: u64,
    pub(crate) rtt: Option<u64>,
}

/// The state of the congestion control.
#[derive(Clone, Debug)]
pub(crate) struct Prague {
    /// The window in segments.
    window: f64,
    /// The moving average of the share of marked packets.
    alpha: f64,
    /// The segments acknowledged in the current round.
    acked: u64,
    /// The segments marked in the current round.
    marked: u64,
    /// The sum of the queue delays in the current round, in nanoseconds.
    delay: u64,
    /// The number of delay samples in the current round.
    delays: u64,
    round_start: u64,
    /// The earliest time of the next reduction.
    cut_again: u64,
    /// The number of rounds with marks at a long queue delay, less those at a short one.
    suspicion: u32,
    classic: bool,
}

impl Prague {
    /// Creates a congestion control with a window in segments.
    pub(crate) fn new(now: u64, window: f64) -> Self {
        Self {
            window,
            // Conservative until measured, as in RFC 8257 section 4.2.
            alpha: 1.0,
            acked: 0,
            marked: 0,
            delay: 0,
            delays: 0,
            round_start: now,
            cut_again: 0,
            suspicion: 0,
            classic: false,
        }
    }

    /// Returns the window in segments. It is below one if the path carries less than a segment per
    /// round trip.
    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    /// Sets the window after slow start or a loss changed it.
    pub(crate) fn set_window(&mut self, window: f64) {
        self.window = window;
    }

    /// Returns the number of segments that may be in flight.
    pub(crate) fn segments(&self) -> u32 {
        whole(self.window)
    }

    /// Handles an acknowledgement. Returns whether it reduced the window.
    ///
    /// `may_cut` is false while the sender repairs a loss, which has already reduced the window.
    pub(crate) fn on_ack(&mut self, path: &Path, acked: &Acked, may_cut: bool) -> bool {
        self.acked += acked.newly;
        self.marked += acked.marked;
        if let Some(rtt) = acked.rtt {
            self.delay += rtt.saturating_sub(path.min_rtt);
            self.delays += 1;
        }
        let cuts = acked.marked > 0 && path.now >= self.cut_again && may_cut;
        if cuts {
            self.cut(path);
        }
        if path.now - self.round_start >= path.virtual_rtt() && self.acked > 0 {
            self.end_round(path);
        }
        cuts
    }

    fn cut(&mut self, path: &Path) {
        // A classic bottleneck marks packets that it would otherwise drop (RFC 3168 section 5).
        let share = if self.classic { 1.0 } else { self.alpha };
        self.window = (self.window * (1.0 - share / 2.0)).max(LEAST_WINDOW);
        self.cut_again = path.now + path.virtual_rtt();
    }

    fn end_round(&mut self, path: &Path) {
        let share = (self.marked as f64 / self.acked as f64).min(1.0);
        self.alpha += (share - self.alpha) * GAIN;
        if self.marked > 0 && self.delays > 0 {
            let two = 2.0 * path.smoothed_rtt as f64 / self.window;
            let classic = self.delay / self.delays > L4S_DELAY + two as u64;
            self.suspicion =
                if classic { self.suspicion + 1 } else { self.suspicion.saturating_sub(1) };
            self.suspicion = self.suspicion.min(MAX_SUSPECT);
            self.classic = self.suspicion >= SUSPECT || (self.classic && self.suspicion > TRUSTED);
        }
        (self.acked, self.marked, self.delay, self.delays) = (0, 0, 0, 0);
        self.round_start = path.now;
    }

    /// Increases the window additively by a segment per reference round trip, for any round-trip
    /// time (item 4).
    ///
    /// With a round trip of 1/n of the reference, the window grows by 1/n^2 of a segment in each:
    /// the flow has n times as many round trips, and needs 1/n of the window for the same rate.
    pub(crate) fn grow(&mut self, path: &Path, acked: u32) {
        let part = path.smoothed_rtt as f64 / path.virtual_rtt() as f64;
        // The window of a virtual round trip is the window divided by `part`.
        self.window += f64::from(acked) / self.window.max(LEAST_WINDOW) * part * part;
    }
}

/// Returns the rate that sends `segments` of `len` bytes in `time` nanoseconds.
pub(crate) fn pace(segments: f64, len: u64, time: u64) -> Rate {
    let bytes = (segments * len as f64) as u64;
    Rate::from_bytes_over(Bytes(bytes.max(1)), Nanos(time.max(1)))
}

/// Returns how many segments of `len` bytes fit into the longest burst at this pace.
pub(crate) fn burst(pace: Rate, len: u64) -> u32 {
    (pace.bytes_in(BURST).0 / len) as u32
}

/// Returns the number of segments that may be in flight with a window.
pub(crate) fn whole(window: f64) -> u32 {
    (window.ceil() as u32).max(LEAST_SEGMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn path(now: u64, rtt: u64) -> Path {
        Path { now, smoothed_rtt: rtt, min_rtt: rtt }
    }

    fn acked(newly: u64, marked: u64) -> Acked {
        Acked { newly, marked, rtt: None }
    }

    #[test]
    fn it_cuts_by_half_the_share_of_marks_once_per_reference_round_trip() {
        let mut prague = Prague::new(0, 100.0);
        prague.alpha = 0.1;
        assert!(prague.on_ack(&path(100 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 95);
        assert!(!prague.on_ack(&path(124 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 95, "not again within 25 ms");
        assert!(
            !prague.on_ack(&path(125 * MS, 10 * MS), &acked(1, 1), false),
            "a loss has reduced it"
        );
        prague.alpha = 0.2;
        assert!(prague.on_ack(&path(125 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 86, "95 x 0.9 = 85.5");
    }

    #[test]
    fn it_averages_marks_over_reference_round_trips() {
        let mut prague = Prague::new(0, 100.0);
        // In 25 ms, a hundred segments of which twenty are marked: alpha = 1 - 0.8 / 16 = 0.95.
        for n in 1..=25 {
            let marked = if n > 20 { 4 } else { 0 };
            prague.on_ack(&path(n * MS, 5 * MS), &acked(4, marked), true);
        }
        assert!((prague.alpha - 0.95).abs() < 1e-9, "{}", prague.alpha);
    }

    /// Returns the growth of a flow's rate in a second, in segments per second.
    fn acceleration(rtt: u64) -> f64 {
        let mut prague = Prague::new(0, 50.0);
        for _ in 0..1_000_000_000 / rtt {
            // A window of acknowledgements in each round trip.
            for _ in 0..prague.segments() {
                prague.grow(&path(0, rtt), 1);
            }
        }
        (prague.window - 50.0) * 1e9 / rtt as f64
    }

    #[test]
    fn rates_grow_equally_below_the_reference_round_trip() {
        // One segment per 25 ms and 25 ms is 1600 segments per second in each second.
        for rtt in [5, 10, 25] {
            let got = acceleration(rtt * MS);
            assert!((1520.0..1620.0).contains(&got), "{rtt} ms: {got}");
        }
        // Above it growth is as in Reno: a segment for each of ten round trips of 100 ms.
        let got = acceleration(100 * MS);
        assert!((95.0..101.0).contains(&got), "{got}");
    }

    #[test]
    fn the_window_can_be_smaller_than_the_segments_in_flight() {
        let mut prague = Prague::new(0, 4.0);
        for n in 1..=10 {
            prague.on_ack(&path(n * 30 * MS, 10 * MS), &acked(1, 1), true);
        }
        assert_eq!((prague.segments(), prague.window), (LEAST_SEGMENTS, LEAST_WINDOW));
    }

    #[test]
    fn a_burst_lasts_a_quarter_of_a_millisecond() {
        // 1000 segments in 25 ms: ten in 250 us.
        assert_eq!(burst(pace(1000.0, 1448, 25 * MS), 1448), 10);
        assert_eq!(burst(pace(10.0, 1448, 25 * MS), 1448), 0);
    }

    #[test]
    fn it_responds_to_a_classic_queue_like_a_classic_control() {
        let mut prague = Prague::new(0, 1000.0);
        prague.alpha = 0.0;
        let mut now = 0;
        let mut rounds = |delay: u64, n: u32, prague: &mut Prague| {
            for _ in 0..n {
                now += 26 * MS;
                prague.set_window(1000.0);
                let rtt = Some(20 * MS + delay);
                prague.on_ack(&path(now, 20 * MS), &Acked { rtt, ..acked(100, 1) }, true);
            }
            prague.segments()
        };
        let l4s = rounds(MS, 20, &mut prague);
        assert!(!prague.classic && l4s > 985, "{l4s}");
        let unsure = rounds(8 * MS, 5, &mut prague);
        assert!(unsure > 985, "{unsure}");
        assert_eq!(rounds(8 * MS, 5, &mut prague), 500);
        // The path changes to an L4S bottleneck.
        let again = rounds(MS, 10, &mut prague);
        assert!(!prague.classic && again > 985, "{again}");
    }
}
