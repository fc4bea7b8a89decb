//! Prague (draft-briscoe-iccrg-prague-congestion-control), a scalable control for L4S: it cuts its
//! window by half the share of packets that are marked, once a round trip, and grows by a segment
//! less than that takes away. RFC 9331 section 4.3 says what it must do; the items below are its.
//!
//! Of no transport: TCP and UDP senders tell it what was acknowledged and marked, and see to losses
//! and to slow start themselves.

use forebay_units::{Bytes, Nanos, Rate};

/// Shorter round trips grow as this one does (item 4): the RTT of most paths (appendix A.1.6 gives
/// it as an example).
pub(crate) const REFERENCE_RTT: u64 = 25_000_000;
/// The gain of the average of marks, as in RFC 8257 section 4.2.
const GAIN: f64 = 1.0 / 16.0;
/// The window may fall below what can be in flight (item 5): pacing then sends less than one
/// segment in a round trip, down to one in so many.
const LEAST_WINDOW: f64 = 1.0 / 16.0;
/// In flight, however small the window: a receiver acknowledges every second segment.
pub(crate) const LEAST_SEGMENTS: u32 = 2;
/// A burst is no longer than this (item 7), unless that is less than the least that a stack sends.
const BURST: Nanos = Nanos::from_micros(250);
/// A bottleneck that marks while packets wait longer than this is no L4S queue, whose target is a
/// millisecond (RFC 9332 section 2.5); and two segments may wait in any.
const L4S_DELAY: u64 = 3_000_000;
/// So many rounds with such marks and it is taken for a classic one (item 3),
const SUSPECT: u32 = 6;
/// until but so many of them count.
const TRUSTED: u32 = 2;
const MOST_SUSPECT: u32 = 8;

/// What the sender knows of its path. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) now: u64,
    pub(crate) smoothed_rtt: u64,
    pub(crate) min_rtt: u64,
}

impl Path {
    /// The round trip that cuts and averages go by.
    pub(crate) fn virtual_rtt(&self) -> u64 {
        self.smoothed_rtt.max(REFERENCE_RTT)
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// Segments that are newly acknowledged, and those of them that were marked.
    pub(crate) newly: u64,
    pub(crate) marked: u64,
    pub(crate) rtt: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Prague {
    /// In segments.
    window: f64,
    /// The average share of packets that are marked.
    alpha: f64,
    /// What came in the present round.
    acked: u64,
    marked: u64,
    delay: u64,
    delays: u64,
    round_start: u64,
    /// The next cut is not before this.
    cut_again: u64,
    suspicion: u32,
    classic: bool,
}

impl Prague {
    /// A control with this window, in segments.
    pub(crate) fn new(now: u64, window: f64) -> Self {
        Self {
            window,
            // Conservative until known, as RFC 8257 section 4.2 has it.
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

    /// In segments; below one where the path carries less than a segment in a round trip.
    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    /// What slow start or a loss has made of the window.
    pub(crate) fn set_window(&mut self, window: f64) {
        self.window = window;
    }

    /// Segments that may be in flight.
    pub(crate) fn segments(&self) -> u32 {
        whole(self.window)
    }

    /// Takes in an acknowledgement; whether it cut the window. It does not while the sender repairs a
    /// loss, which has cut it already: then `may_cut` is false.
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
        // A classic bottleneck marks what it would have dropped else (RFC 3168 section 5).
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
            self.suspicion = self.suspicion.min(MOST_SUSPECT);
            self.classic = self.suspicion >= SUSPECT || (self.classic && self.suspicion > TRUSTED);
        }
        (self.acked, self.marked, self.delay, self.delays) = (0, 0, 0, 0);
        self.round_start = path.now;
    }

    /// Additive increase by a segment in a reference round trip and window of its own, whatever the
    /// round-trip time (item 4): a flow whose round trip is a part of the reference grows by that
    /// part squared in each, for it has as many more of them and needs as many fewer segments.
    pub(crate) fn grow(&mut self, path: &Path, acked: u32) {
        let part = path.smoothed_rtt as f64 / path.virtual_rtt() as f64;
        // The window of a virtual round trip holds 1 / part as many segments.
        self.window += f64::from(acked) / self.window.max(LEAST_WINDOW) * part * part;
    }
}

/// The pace that sends `segments` of `len` bytes in `time` nanoseconds.
pub(crate) fn pace(segments: f64, len: u64, time: u64) -> Rate {
    let bytes = (segments * len as f64) as u64;
    Rate::from_bytes_over(Bytes(bytes.max(1)), Nanos(time.max(1)))
}

/// Whole segments of `len` bytes that a burst at this pace may have; zero where one takes longer.
pub(crate) fn burst(pace: Rate, len: u64) -> u32 {
    (pace.bytes_in(BURST).0 / len) as u32
}

/// Segments that may be in flight with a window of these.
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
    fn cuts_by_half_the_share_of_marks_once_a_reference_round_trip() {
        let mut prague = Prague::new(0, 100.0);
        prague.alpha = 0.1;
        assert!(prague.on_ack(&path(100 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 95);
        assert!(!prague.on_ack(&path(124 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 95, "not again within 25 ms");
        assert!(!prague.on_ack(&path(125 * MS, 10 * MS), &acked(1, 1), false), "a loss did");
        prague.alpha = 0.2;
        assert!(prague.on_ack(&path(125 * MS, 10 * MS), &acked(1, 1), true));
        assert_eq!(prague.segments(), 86, "95 x 0.9 = 85.5");
    }

    #[test]
    fn averages_marks_over_reference_round_trips() {
        let mut prague = Prague::new(0, 100.0);
        // In 25 ms, a hundred segments of which twenty are marked: alpha = 1 - 0.8 / 16 = 0.95.
        for n in 1..=25 {
            let marked = if n > 20 { 4 } else { 0 };
            prague.on_ack(&path(n * MS, 5 * MS), &acked(4, marked), true);
        }
        assert!((prague.alpha - 0.95).abs() < 1e-9, "{}", prague.alpha);
    }

    /// What a flow of this round-trip time gains in a second, in segments per second.
    fn acceleration(rtt: u64) -> f64 {
        let mut prague = Prague::new(0, 50.0);
        for _ in 0..1_000_000_000 / rtt {
            // A window's worth of acknowledgements in each round trip.
            for _ in 0..prague.segments() {
                prague.grow(&path(0, rtt), 1);
            }
        }
        (prague.window - 50.0) * 1e9 / rtt as f64
    }

    #[test]
    fn rates_grow_alike_below_the_reference_round_trip() {
        // One segment per 25 ms and 25 ms is 1600 segments per second in each second.
        for rtt in [5, 10, 25] {
            let got = acceleration(rtt * MS);
            assert!((1520.0..1620.0).contains(&got), "{rtt} ms: {got}");
        }
        // Above it, as others do: a segment for each of ten round trips of 100 ms.
        let got = acceleration(100 * MS);
        assert!((95.0..101.0).contains(&got), "{got}");
    }

    #[test]
    fn goes_below_what_may_be_in_flight() {
        let mut prague = Prague::new(0, 4.0);
        for n in 1..=10 {
            prague.on_ack(&path(n * 30 * MS, 10 * MS), &acked(1, 1), true);
        }
        assert_eq!((prague.segments(), prague.window), (LEAST_SEGMENTS, LEAST_WINDOW));
    }

    #[test]
    fn bursts_last_a_quarter_of_a_millisecond() {
        // 1000 segments in 25 ms: ten in 250 us.
        assert_eq!(burst(pace(1000.0, 1448, 25 * MS), 1448), 10);
        assert_eq!(burst(pace(10.0, 1448, 25 * MS), 1448), 0);
    }

    #[test]
    fn answers_a_classic_queue_as_a_classic_control() {
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
        // The path has changed.
        let again = rounds(MS, 10, &mut prague);
        assert!(!prague.classic && again > 985, "{again}");
    }
}
