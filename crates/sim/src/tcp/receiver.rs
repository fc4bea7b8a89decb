//! The receiving half of a connection: what arrived, when to acknowledge it, and how large a window
//! to offer.

use forebay_units::Nanos;

use super::MSS;
use super::segment::{SACK_BLOCKS, Sack, Segment};

/// The delayed acknowledgement's timer (Linux's `TCP_ATO_MIN`).
const DELAY: Nanos = Nanos::from_millis(40);
/// Acknowledgements sent at once at the start and after a pause (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Blocks remembered, of which a segment has room for three (RFC 2018 section 4).
const BLOCKS: usize = SACK_BLOCKS + 1;
/// The window before it is tuned: half of the 128 KiB that Linux's buffer starts with.
const WINDOW_FIRST: u64 = 65_536;

#[derive(Debug)]
pub(crate) struct Receiver {
    /// The next byte in order.
    next: u64,
    /// The same when the last acknowledgement was sent.
    acked: u64,
    /// Bytes in order that the application has not read.
    unread: u64,
    /// What came out of order, ascending and apart.
    islands: Vec<(u64, u64)>,
    /// The islands that grew last, latest first.
    recent: [(u64, u64); BLOCKS],
    recents: usize,
    duplicate: Option<(u64, u64)>,
    ack_now: bool,
    delayed: Option<Nanos>,
    quick: u32,
    /// When data came last.
    heard: Option<Nanos>,
    /// The timestamp to echo.
    echo: u64,
    tuning: Tuning,
    /// The latest echo that was measured.
    measured: u64,
    /// The window's right edge, which never goes back (RFC 9293 section 3.8.6).
    edge: u64,
    /// DCTCP: echo each mark as it is (RFC 8257 section 3.2), else until the sender says CWR.
    accurate_ecn: bool,
    ce: bool,
}

/// Grows the window with what the application reads in a round trip (Linux's dynamic right-sizing,
/// after Fisk and Feng, LANL 2001).
#[derive(Debug)]
struct Tuning {
    window: u64,
    largest: u64,
    rtt: u64,
    since: Nanos,
    from: u64,
    space: u64,
}

impl Tuning {
    fn on_read(&mut self, now: Nanos, read: u64) {
        if self.rtt == 0 || now.saturating_sub(self.since).0 < self.rtt {
            return;
        }
        let copied = read - self.from;
        if copied > self.space {
            // Twice what came, for slow start doubles it, and as much again as it has grown.
            let base = 2 * copied + 16 * MSS;
            let growth = base * (copied - self.space) / self.space.max(1);
            self.window = self.window.max((base + 2 * growth).min(self.largest));
            self.space = copied;
        }
        self.since = now;
        self.from = read;
    }
}

impl Receiver {
    pub(crate) fn new(now: Nanos, largest_window: u64, accurate_ecn: bool) -> Self {
        Self {
            next: 0,
            acked: 0,
            unread: 0,
            islands: Vec::new(),
            recent: [(0, 0); BLOCKS],
            recents: 0,
            duplicate: None,
            ack_now: false,
            delayed: None,
            quick: 0,
            heard: None,
            echo: 0,
            tuning: Tuning {
                window: WINDOW_FIRST.min(largest_window),
                largest: largest_window,
                rtt: 0,
                since: now,
                from: 0,
                space: 10 * MSS,
            },
            measured: 0,
            edge: WINDOW_FIRST.min(largest_window),
            accurate_ecn,
            ce: false,
        }
    }

    /// Data came. `timeout` is this end's own retransmission timeout, `interactive` whether it sends
    /// data shortly after it receives some, so that an acknowledgement may ride on that.
    pub(crate) fn on_data(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ce: bool,
        timeout: Nanos,
        interactive: bool,
    ) {
        if self.heard.is_none_or(|t| now.saturating_sub(t) > timeout) {
            self.quick = QUICK_ACKS;
        }
        self.heard = Some(now);
        self.on_ecn(ce, segment.cwr);
        // An echo that was seen before measures how long the peer paused.
        if segment.echo > self.measured {
            self.measured = segment.echo;
            let rtt = now.0.saturating_sub(segment.echo).max(1);
            let tuned = &mut self.tuning.rtt;
            *tuned = if *tuned == 0 { rtt } else { (*tuned * 7 + rtt) / 8 };
        }
        let (start, end) = (segment.seq, segment.end());
        if end <= self.next {
            self.duplicate = Some((start, end));
            self.quick = self.quick.max(QUICK_ACKS);
            self.ack_now = true;
            return;
        }
        if start > self.next {
            self.out_of_order(start, end);
            self.ack_now = true;
            return;
        }
        self.echo = segment.timestamp;
        let gaps = !self.islands.is_empty();
        self.advance(end);
        let many = self.next - self.acked > MSS;
        let last = segment.push && !interactive;
        if gaps || many || self.quick > 0 || last {
            self.ack_now = true;
        } else {
            self.delayed.get_or_insert(now.saturating_add(DELAY));
        }
    }

    /// A segment without data came.
    pub(crate) fn on_pure_ack(&mut self, segment: &Segment) {
        self.echo = self.echo.max(segment.timestamp);
    }

    fn on_ecn(&mut self, ce: bool, cwr: bool) {
        if self.accurate_ecn {
            // A change is said at once, of what came before it (RFC 8257 section 3.2).
            self.ack_now |= ce != self.ce && self.next > self.acked;
            self.ce = ce;
        } else {
            self.ce = (self.ce && !cwr) || ce;
        }
    }

    fn advance(&mut self, end: u64) {
        let before = self.next;
        self.next = end;
        let absorbed = self.islands.iter().take_while(|i| i.0 <= self.next).count();
        for island in self.islands.drain(..absorbed) {
            self.next = self.next.max(island.1);
        }
        self.unread += self.next - before;
        let (next, mut kept) = (self.next, 0);
        for i in 0..self.recents {
            if self.recent[i].0 > next {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recents = kept;
    }

    fn out_of_order(&mut self, start: u64, end: u64) {
        let first = self.islands.partition_point(|i| i.1 < start);
        let after = self.islands[first..].iter().take_while(|i| i.0 <= end).count() + first;
        let touched = &self.islands[first..after];
        if touched.iter().any(|i| i.0 <= start && end <= i.1) {
            self.duplicate = Some((start, end));
        }
        let whole = touched.iter().fold((start, end), |(a, b), i| (a.min(i.0), b.max(i.1)));
        if touched.is_empty() {
            self.islands.insert(first, whole);
        } else {
            self.islands[first] = whole;
            self.islands.drain(first + 1..after);
        }
        // To the front, in place of all that it swallowed.
        let mut kept = 1;
        let mut recent = [whole; BLOCKS];
        for block in &self.recent[..self.recents] {
            let swallowed = block.0 >= whole.0 && block.1 <= whole.1;
            if !swallowed && kept < BLOCKS {
                recent[kept] = *block;
                kept += 1;
            }
        }
        (self.recent, self.recents) = (recent, kept);
    }

    /// What came in order since this was last asked; the application reads at once.
    pub(crate) fn read(&mut self, now: Nanos) -> u64 {
        let read = std::mem::take(&mut self.unread);
        if read > 0 {
            self.tuning.on_read(now, self.next);
        }
        read
    }

    pub(crate) fn on_timer(&mut self, now: Nanos) {
        if self.delayed.is_some_and(|t| t <= now) {
            self.ack_now = true;
        }
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.delayed.unwrap_or(Nanos::MAX)
    }

    /// Whether an acknowledgement has to go out, if need be without data.
    pub(crate) fn must_ack(&self) -> bool {
        self.ack_now
    }

    /// Puts the acknowledgement on `segment`, which is sent now.
    pub(crate) fn acknowledge(&mut self, segment: &mut Segment) {
        segment.ack = self.next;
        self.edge = self.edge.max(self.next + self.tuning.window);
        segment.window = u32::try_from(self.edge - self.next).unwrap_or(u32::MAX);
        segment.echo = self.echo;
        segment.ece = self.ce;
        let mut sack = Sack::default();
        if let Some(block) = self.duplicate.take() {
            sack.duplicate = true;
            sack.push(self.next, block);
        }
        for block in &self.recent[..self.recents] {
            sack.push(self.next, *block);
        }
        segment.sack = sack;
        self.acked = self.next;
        self.ack_now = false;
        self.delayed = None;
        self.quick = self.quick.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        Receiver::new(Nanos::ZERO, 1 << 24, false)
    }

    fn data(seq: u64, len: u32) -> Segment {
        Segment { seq, len, timestamp: 7, ..Segment::default() }
    }

    fn take(r: &mut Receiver, segment: &Segment) -> Option<Segment> {
        r.on_data(Nanos(1000), segment, false, Nanos::from_millis(250), false);
        r.must_ack().then(|| {
            let mut ack = Segment::default();
            r.acknowledge(&mut ack);
            ack
        })
    }

    fn blocks(ack: &Segment) -> Vec<(u64, u64)> {
        ack.sack.blocks(ack.ack).collect()
    }

    #[test]
    fn the_first_are_acknowledged_at_once_and_then_every_second() {
        let mut r = receiver();
        let acks = (0..24).map(|n| take(&mut r, &data(n * MSS, MSS as u32)).is_some());
        let acks: Vec<_> = acks.collect();
        assert!(acks[..16].iter().all(|a| *a));
        assert_eq!(acks[16..], [false, true, false, true, false, true, false, true]);
        assert_eq!(r.deadline(), Nanos::MAX);
        assert!(take(&mut r, &data(24 * MSS, 100)).is_none());
        assert_eq!(r.deadline(), Nanos(1000) + DELAY);
        r.on_timer(r.deadline());
        assert!(r.must_ack());
        assert_eq!(r.read(Nanos(1000)), 24 * MSS + 100);
        assert_eq!(r.read(Nanos(1000)), 0);
    }

    #[test]
    fn gaps_are_told_the_latest_first() {
        let mut r = receiver();
        take(&mut r, &data(0, 100));
        assert_eq!(blocks(&take(&mut r, &data(200, 100)).unwrap()), [(200, 300)]);
        assert_eq!(blocks(&take(&mut r, &data(400, 100)).unwrap()), [(400, 500), (200, 300)]);
        let ack = take(&mut r, &data(300, 50)).unwrap();
        assert_eq!(blocks(&ack), [(200, 350), (400, 500)]);
        assert_eq!(blocks(&take(&mut r, &data(350, 50)).unwrap()), [(200, 500)]);
        let ack = take(&mut r, &data(100, 100)).unwrap();
        assert_eq!((ack.ack, blocks(&ack).len()), (500, 0));
        assert_eq!(r.read(Nanos(1)), 500);
    }

    #[test]
    fn what_comes_twice_is_told() {
        let mut r = receiver();
        take(&mut r, &data(0, 100));
        let ack = take(&mut r, &data(0, 100)).unwrap();
        assert!(ack.sack.duplicate);
        assert_eq!(blocks(&ack), [(0, 100)]);
        take(&mut r, &data(200, 100));
        let ack = take(&mut r, &data(200, 100)).unwrap();
        assert!(ack.sack.duplicate);
        assert_eq!(blocks(&ack), [(200, 300), (200, 300)]);
        assert!(!take(&mut r, &data(300, 100)).unwrap().sack.duplicate);
    }

    #[test]
    fn windows_grow_with_what_is_read_and_never_shrink() {
        let mut r = receiver();
        let (mut now, mut seq, mut edge) = (0, 0, 0);
        for round in 0..12_u32 {
            now += 50_000_000;
            let segments = 10 << round.min(8);
            for _ in 0..segments {
                let echo = now - 50_000_000 + 1;
                r.on_data(
                    Nanos(now),
                    &Segment { echo, ..data(seq, MSS as u32) },
                    false,
                    Nanos::from_millis(250),
                    false,
                );
                seq += MSS;
                r.read(Nanos(now));
                let mut ack = Segment::default();
                r.acknowledge(&mut ack);
                let right = ack.ack + u64::from(ack.window);
                assert!(right >= edge);
                edge = right;
            }
            let next_window = u64::from(10_u32 << (round + 1).min(8)) * MSS;
            assert!(edge - seq >= next_window, "round {round}: {} < {next_window}", edge - seq);
        }
        assert!(edge - seq <= 1 << 24);
    }
}
