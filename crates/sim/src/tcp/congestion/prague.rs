//! Prague (draft-briscoe-iccrg-prague-congestion-control), a scalable control for L4S: it cuts its
//! window by half the share of packets that are marked, once a round trip, and grows by a segment
//! less than that takes away. RFC 9331 section 4.3 says what it must do; the items below are its.

use forebay_units::Rate;

use super::{Connection, Sample, Window, pace};
use crate::tcp::MSS;
use crate::tcp::sender::State;

/// Shorter round trips grow as this one does (item 4): the RTT of most paths (appendix A.1.6 gives
/// it as an example).
const REFERENCE_RTT: u64 = 25_000_000;
/// The gain of the average of marks, as in RFC 8257 section 4.2.
const GAIN: f64 = 1.0 / 16.0;
/// The window may fall below what can be in flight (item 5): pacing then sends less than one
/// segment in a round trip, down to one in so many.
const LEAST_WINDOW: f64 = 1.0 / 16.0;
/// In flight, however small the window: a receiver acknowledges every second segment.
const LEAST_SEGMENTS: u32 = 2;
/// A burst is no longer than this (item 7),
const BURST: u64 = 250_000;
/// or of so many segments: below that Linux cuts no super-packet (`tcp_min_tso_segs`). On slow paths it
/// is what the queue of a flow that has the link to itself is made of. With a window of two segments
/// each goes by itself all the same: there are two bursts in a window at least.
const LEAST_BURST: u32 = 2;
/// A bottleneck that marks while packets wait longer than this is no L4S queue, whose target is a
/// millisecond (RFC 9332 section 2.5); and two segments may wait in any.
const L4S_DELAY: u64 = 3_000_000;
/// So many rounds with such marks and it is taken for a classic one (item 3),
const SUSPECT: u32 = 6;
/// until but so many of them count.
const TRUSTED: u32 = 2;
const MOST_SUSPECT: u32 = 8;

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
    pub(super) fn new(now: u64) -> Self {
        Self {
            window: 0.0,
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

    /// Loss recovery and slow start set whole windows: takes over what they did.
    fn follow(&mut self, window: &Window) {
        if window.size != whole(self.window) {
            self.window = f64::from(window.size);
        }
    }

    pub(super) fn on_ack(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        self.follow(window);
        self.acked += u64::from(s.newly);
        self.marked += u64::from(s.marked);
        if let Some(rtt) = s.rtt {
            self.delay += rtt.saturating_sub(c.min_rtt);
            self.delays += 1;
        }
        // A loss in the same round trip has cut it already.
        if s.marked > 0 && c.now >= self.cut_again && c.state < State::Recovery {
            self.cut(window, c);
        }
        if c.now - self.round_start >= virtual_rtt(c) && self.acked > 0 {
            self.end_round(c);
        }
    }

    fn cut(&mut self, window: &mut Window, c: &Connection) {
        // A classic bottleneck marks what it would have dropped else (RFC 3168 section 5).
        let share = if self.classic { 1.0 } else { self.alpha };
        self.window = (self.window * (1.0 - share / 2.0)).max(LEAST_WINDOW);
        window.size = whole(self.window);
        window.threshold = window.size;
        self.cut_again = c.now + virtual_rtt(c);
    }

    fn end_round(&mut self, c: &Connection) {
        let share = (self.marked as f64 / self.acked as f64).min(1.0);
        self.alpha += (share - self.alpha) * GAIN;
        if self.marked > 0 && self.delays > 0 {
            let two = 2.0 * c.smoothed_rtt as f64 / self.window;
            let classic = self.delay / self.delays > L4S_DELAY + two as u64;
            self.suspicion =
                if classic { self.suspicion + 1 } else { self.suspicion.saturating_sub(1) };
            self.suspicion = self.suspicion.min(MOST_SUSPECT);
            self.classic = self.suspicion >= SUSPECT || (self.classic && self.suspicion > TRUSTED);
        }
        (self.acked, self.marked, self.delay, self.delays) = (0, 0, 0, 0);
        self.round_start = c.now;
    }

    /// Additive increase by a segment in a reference round trip and window of its own, whatever the
    /// round-trip time (item 4): a flow whose round trip is a part of the reference grows by that
    /// part squared in each, for it has as many more of them and needs as many fewer segments.
    pub(super) fn grow(&mut self, window: &mut Window, c: &Connection, acked: u32) {
        if !c.cwnd_limited && self.window >= f64::from(LEAST_SEGMENTS) {
            return;
        }
        self.follow(window);
        let left = if window.slow_start() { window.double(acked) } else { acked };
        self.follow(window);
        let part = c.smoothed_rtt as f64 / virtual_rtt(c) as f64;
        // The window of a virtual round trip holds 1 / part as many segments.
        self.window += f64::from(left) / self.window.max(LEAST_WINDOW) * part * part;
        window.size = whole(self.window);
    }

    /// The window in a round trip; twice that in slow start.
    pub(super) fn pacing(&self, window: &Window, smoothed_rtt: u64) -> Option<Rate> {
        let segments =
            if whole(self.window) == window.size { self.window } else { f64::from(window.size) };
        let gain = if window.slow_start() { 2.0 } else { 1.0 };
        (smoothed_rtt > 0).then(|| pace(segments * gain, MSS, smoothed_rtt))
    }

    pub(super) fn burst(&self, window: &Window, smoothed_rtt: u64) -> u32 {
        let rate = self.pacing(window, smoothed_rtt);
        let within = |r: Rate| (r.bytes_in(forebay_units::Nanos(BURST)).0 / MSS) as u32;
        rate.map_or(LEAST_BURST, |r| within(r).max(LEAST_BURST))
    }
}

fn virtual_rtt(c: &Connection) -> u64 {
    c.smoothed_rtt.max(REFERENCE_RTT)
}

/// Segments that may be in flight.
fn whole(window: f64) -> u32 {
    (window.ceil() as u32).max(LEAST_SEGMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::tests::connection;

    const MS: u64 = 1_000_000;

    /// A flow beyond slow start.
    fn steady(size: u32) -> (Prague, Window) {
        let mut window = Window::new(size);
        window.threshold = size;
        (Prague::new(0), window)
    }

    fn sample(newly: u32, marked: u32) -> Sample {
        Sample { newly, marked, ..Sample::default() }
    }

    #[test]
    fn cuts_by_half_the_share_of_marks_once_a_reference_round_trip() {
        let (mut prague, mut window) = steady(100);
        prague.alpha = 0.1;
        let mut c = connection(100 * MS, 10 * MS);
        prague.on_ack(&mut window, &c, &sample(1, 1));
        assert_eq!(window.size, 95);
        c.now += 24 * MS;
        prague.on_ack(&mut window, &c, &sample(1, 1));
        assert_eq!(window.size, 95, "not again within 25 ms");
        c.now += MS;
        prague.alpha = 0.2;
        prague.on_ack(&mut window, &c, &sample(1, 1));
        assert_eq!(window.size, 86, "95 x 0.9 = 85.5");
    }

    #[test]
    fn averages_marks_over_reference_round_trips() {
        let (mut prague, mut window) = steady(100);
        // In 25 ms, a hundred segments of which twenty are marked: alpha = 1 - 0.8 / 16 = 0.95.
        for n in 1..=25 {
            let marked = if n > 20 { 4 } else { 0 };
            prague.on_ack(&mut window, &connection(n * MS, 5 * MS), &sample(4, marked));
        }
        assert!((prague.alpha - 0.95).abs() < 1e-9, "{}", prague.alpha);
    }

    /// What a flow of this round-trip time gains in a second, in segments per second.
    fn acceleration(rtt: u64) -> f64 {
        let (mut prague, mut window) = steady(50);
        let c = connection(0, rtt);
        for _ in 0..1_000_000_000 / rtt {
            // A window's worth of acknowledgements in each round trip.
            for _ in 0..window.size {
                prague.grow(&mut window, &c, 1);
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
    fn sends_less_than_a_segment_in_a_round_trip_if_it_must() {
        let (mut prague, mut window) = steady(4);
        for n in 1..=10 {
            prague.on_ack(&mut window, &connection(n * 30 * MS, 10 * MS), &sample(1, 1));
        }
        assert_eq!(window.size, LEAST_SEGMENTS);
        assert_eq!(prague.window, LEAST_WINDOW);
        let rate = prague.pacing(&window, 10 * MS).unwrap();
        // 1448 B / 16 in 10 ms: 72.4 kbit/s.
        assert_eq!(rate, Rate::from_bps(72_000));
        assert_eq!(prague.burst(&window, 10 * MS), LEAST_BURST);
        // And comes back.
        let mut c = connection(400 * MS, 10 * MS);
        c.cwnd_limited = false;
        for _ in 0..100 {
            prague.grow(&mut window, &c, 1);
        }
        assert!(prague.window > 2.0, "{}", prague.window);
    }

    #[test]
    fn bursts_last_a_quarter_of_a_millisecond() {
        let (mut prague, window) = steady(1000);
        prague.follow(&window);
        // 1000 segments in 25 ms: ten in 250 us.
        assert_eq!(prague.burst(&window, 25 * MS), 10);
    }

    #[test]
    fn answers_a_classic_queue_as_a_classic_control() {
        let (mut prague, mut window) = steady(1000);
        prague.alpha = 0.0;
        let mut now = 0;
        let mut rounds = |delay: u64, n: u32, prague: &mut Prague, window: &mut Window| {
            for _ in 0..n {
                now += 26 * MS;
                let c = connection(now, 20 * MS);
                let rtt = Some(20 * MS + delay);
                (window.size, prague.window) = (1000, 1000.0);
                prague.on_ack(window, &c, &Sample { rtt, ..sample(100, 1) });
            }
            window.size
        };
        let l4s = rounds(MS, 20, &mut prague, &mut window);
        assert!(!prague.classic && l4s > 985, "{l4s}");
        let unsure = rounds(8 * MS, 5, &mut prague, &mut window);
        assert!(unsure > 985, "{unsure}");
        assert_eq!(rounds(8 * MS, 5, &mut prague, &mut window), 500);
        // The path has changed.
        let again = rounds(MS, 10, &mut prague, &mut window);
        assert!(!prague.classic && again > 985, "{again}");
    }
}
