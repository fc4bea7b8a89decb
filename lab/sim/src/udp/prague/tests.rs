use super::*;

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn burst_of(sender: &mut Sender, now: Nanos) -> Vec<u64> {
    std::iter::from_fn(|| sender.send(now)).collect()
}

/// A link that takes `gap` for each datagram and 5 ms in each direction, and marks or loses
/// datagrams as a test decides.
struct Path {
    sender: Sender,
    receiver: Receiver,
    now: Nanos,
    free: Nanos,
    /// The datagrams in flight: arrival time, number and mark.
    there: VecDeque<(Nanos, u64, bool)>,
    back: VecDeque<(Nanos, Report)>,
    sent: Vec<(Nanos, u64)>,
}

enum Fate {
    Passes,
    Marked,
    Lost,
}

impl Path {
    fn new() -> Self {
        Self {
            sender: Sender::new(Nanos::ZERO),
            receiver: Receiver::default(),
            now: Nanos::ZERO,
            free: Nanos::ZERO,
            there: VecDeque::new(),
            back: VecDeque::new(),
            sent: Vec::new(),
        }
    }

    /// Runs until `end`. `fate` decides by the number of a datagram and its wait.
    fn run(&mut self, end: Nanos, gap: Nanos, mut fate: impl FnMut(u64, Nanos) -> Fate) {
        loop {
            while let Some(number) = self.sender.send(self.now) {
                self.sent.push((self.now, number));
                let start = self.free.max(self.now);
                match fate(number, start - self.now) {
                    Fate::Lost => continue,
                    fate => {
                        self.free = start + gap;
                        let arrives = self.free + ms(5);
                        self.there.push_back((arrives, number, matches!(fate, Fate::Marked)));
                    }
                }
            }
            let events = [
                self.there.front().map_or(Nanos::MAX, |d| d.0),
                self.back.front().map_or(Nanos::MAX, |r| r.0),
                self.receiver.deadline(),
                self.sender.deadline().max(self.now + Nanos(1)),
            ];
            let next = events.into_iter().min().unwrap_or(end);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            if let Some(&(at, number, marked)) = self.there.front()
                && at == next
            {
                self.there.pop_front();
                if self.receiver.on_datagram(next, number, marked) {
                    self.back.push_back((next + ms(5), self.receiver.report(next)));
                }
            }
            if self.receiver.deadline() <= next {
                self.back.push_back((next + ms(5), self.receiver.report(next)));
            }
            if let Some(&(at, report)) = self.back.front()
                && at == next
            {
                self.back.pop_front();
                self.sender.report(next, &report);
            }
            self.sender.on_time(next);
        }
    }
}

#[test]
fn an_encoded_report_decodes_to_itself() {
    let report = Report { next: 1, received: u64::MAX, marked: 3 << 40, latest: 4, held: ms(5) };
    assert_eq!(Report::decode(&report.encode()), report);
}

#[test]
fn a_receiver_reports_every_second_datagram_and_every_mark() {
    let mut receiver = Receiver::default();
    assert_eq!(receiver.deadline(), Nanos::MAX);
    assert!(!receiver.on_datagram(ms(1), 0, false));
    assert_eq!(receiver.deadline(), ms(1) + REPORT_DELAY);
    assert!(receiver.on_datagram(ms(2), 3, false));
    let report = Report { next: 4, received: 2, marked: 0, latest: 3, held: ms(1) };
    assert_eq!(receiver.report(ms(3)), report);
    assert_eq!(receiver.deadline(), Nanos::MAX);
    assert!(receiver.on_datagram(ms(4), 2, true), "a marked datagram that arrives late");
    let report = Report { next: 4, received: 3, marked: 1, latest: 2, held: Nanos::ZERO };
    assert_eq!(receiver.report(ms(4)), report);
}

#[test]
fn it_starts_with_ten_datagrams_paced_over_the_reference_round_trip() {
    let mut sender = Sender::new(Nanos::ZERO);
    assert_eq!(burst_of(&mut sender, Nanos::ZERO), [0], "one at a time");
    // Slow start paces twice the window per round trip: one datagram every 1.25 ms.
    let due = sender.deadline();
    assert!((1_240_000..1_260_000).contains(&due.0), "{due}");
    let mut count = 1;
    while count < 10 {
        let due = sender.deadline();
        count += burst_of(&mut sender, due).len();
    }
    assert!(burst_of(&mut sender, ms(900)).is_empty(), "the window is full");
    assert_eq!(sender.deadline(), REPORT_TIMEOUT);
}

#[test]
fn a_mark_ends_slow_start_and_reduces_the_window_once_per_reference_round_trip() {
    let mut path = Path::new();
    path.run(ms(100), Nanos(1), |_, _| Fate::Passes);
    let grown = path.sender.prague.window();
    assert!(grown > 1_000.0, "doubled every 10 ms: {grown}");
    let mut marks = 0;
    path.run(ms(115), Nanos(1), |_, _| {
        marks += 1;
        if marks <= 3 { Fate::Marked } else { Fate::Passes }
    });
    let sender = &path.sender;
    assert_eq!(sender.threshold, sender.threshold.min(MAX_WINDOW), "slow start is over");
    let left = sender.prague.window() / grown;
    // The window doubled once more before the first mark was reported.
    assert!((0.9..1.4).contains(&left), "one reduction by half for three marks: {left}");
    assert_eq!(sender.last.marked, 3);
}

/// On 40 Mbit/s and 10 ms, with a step mark at a millisecond, the link is used and the queue stays
/// at the step.
#[test]
fn it_holds_the_queue_at_a_step_mark() {
    let mut path = Path::new();
    let gap = Nanos(ON_THE_WIRE * 8 * 25);
    let (mut waits, mut count) = (0, 0);
    path.run(ms(2_000), gap, |_, wait| if wait > ms(1) { Fate::Marked } else { Fate::Passes });
    let before = path.receiver.report.received;
    path.run(ms(6_000), gap, |_, wait| {
        (waits, count) = (waits + wait.0, count + 1);
        if wait > ms(1) { Fate::Marked } else { Fate::Passes }
    });
    let share = (path.receiver.report.received - before) as f64 * gap.0 as f64 / 4e9;
    assert!(share > 0.93, "of the link's rate: {share}");
    let mean = waits / count;
    assert!(mean < 1_500_000, "{mean} ns");
    assert_eq!(path.sender.lost, 0);
}

#[test]
fn losses_of_one_window_halve_it_once() {
    let mut path = Path::new();
    path.sender.threshold = 50.0;
    let gap = Nanos(20_000);
    path.run(ms(300), gap, |_, _| Fate::Passes);
    let before = path.sender.prague.window();
    let mut lose = 3;
    path.run(ms(330), gap, |number, _| {
        lose -= u64::from(lose > 0 && number % 4 == 0);
        if lose > 0 && number % 4 == 0 { Fate::Lost } else { Fate::Passes }
    });
    let Sender { lost, prague, last, .. } = &path.sender;
    assert_eq!((*lost, last.next - last.received), (2, 2));
    let left = prague.window() / before;
    assert!((0.49..0.55).contains(&left), "{left}");
}

#[test]
fn a_datagram_that_arrives_late_does_not_count_as_lost() {
    let mut sender = Sender::new(Nanos::ZERO);
    for n in 0..10 {
        burst_of(&mut sender, ms(2 * n));
    }
    let report = |next, received| Report { next, received, latest: next - 1, ..Report::default() };
    sender.report(ms(30), &report(4, 3));
    assert!(sender.missing_since.is_some());
    sender.report(ms(31), &report(5, 5));
    assert_eq!((sender.missing_since, sender.lost), (None, 0));
    // One datagram counts as lost and then arrives.
    sender.report(ms(32), &report(7, 6));
    sender.on_time(ms(60));
    assert_eq!(sender.lost, 1);
    sender.report(ms(61), &report(8, 8));
    assert_eq!(sender.lost, 0);
}

#[test]
fn old_and_impossible_reports_are_ignored() {
    let mut sender = Sender::new(Nanos::ZERO);
    for n in 0..10 {
        burst_of(&mut sender, ms(2 * n));
    }
    let good = Report { next: 6, received: 6, marked: 1, latest: 5, held: Nanos::ZERO };
    sender.report(ms(40), &good);
    for bad in [
        Report { next: 5, received: 5, latest: 4, ..good },
        Report { next: 11, received: 11, latest: 10, ..good },
        Report { received: 7, marked: 8, ..good },
        Report { received: 7, marked: 0, ..good },
        Report { received: 7, latest: 6, ..good },
    ] {
        sender.report(ms(41), &bad);
        assert_eq!(sender.last, good);
    }
    // A report of more datagrams than were sent leaves none in flight.
    sender.report(ms(42), &Report { next: 7, received: 99, marked: 1, latest: 6, ..good });
    assert!(sender.has_room());
}

#[test]
fn it_restarts_with_two_datagrams_after_a_silence() {
    let mut path = Path::new();
    path.run(ms(200), Nanos(1), |_, _| Fate::Passes);
    path.run(ms(1_150), Nanos(1), |_, _| Fate::Lost);
    path.sent.clear();
    path.run(ms(1_300), Nanos(1), |_, _| Fate::Passes);
    let burst = path.sent.iter().filter(|(at, _)| *at < path.sent[0].0 + ms(9)).count();
    assert_eq!(burst, 2, "{:?}", &path.sent[..5]);
    assert!(path.sender.prague.window() > 4.0, "slow start continues");
    assert_eq!(path.sender.last.next, path.sender.last.received + path.sender.lost);
}

#[test]
fn it_can_send_less_than_a_datagram_per_round_trip() {
    let mut path = Path::new();
    // All datagrams are marked.
    path.run(ms(3_000), Nanos(1), |_, _| Fate::Marked);
    assert!(path.sender.prague.window() < 1.0);
    path.sent.clear();
    path.run(ms(4_000), Nanos(1), |_, _| Fate::Marked);
    // A sixteenth of a datagram per 10 ms is 6 per second.
    assert!((3..40).contains(&path.sent.len()), "{}", path.sent.len());
    let rtt = path.sender.smoothed_rtt;
    assert!((10 * MS..11 * MS).contains(&rtt), "the receiver's delay is not included: {rtt}");
}
