use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: Nanos = Nanos::from_millis(1);

fn mark(ms: u64) -> Mark {
    Mark { time: MS * ms, bytes: Bytes(ms * 1000), packets: ms as u32, ..Mark::default() }
}

fn answer(marks: &mut Marks, fingerprint: u32) -> Match {
    let found = marks.find_match(fingerprint);
    if let Match::InOrder(_, ticket) | Match::OutOfOrder(_, ticket) = found {
        marks.answered(ticket);
    }
    found
}

#[test]
fn late_feedback_is_out_of_order_and_counts_once() {
    let mut marks = Marks::new(8);
    for (fingerprint, ms) in [(64, 1), (128, 2), (192, 3)] {
        marks.record(fingerprint, mark(ms));
    }
    assert!(matches!(answer(&mut marks, 128), Match::InOrder(m, _) if m == mark(2)));
    assert_eq!(marks.awaited(), 1);
    assert_eq!(marks.oldest_awaited(), Some(MS * 3));
    assert!(matches!(answer(&mut marks, 64), Match::OutOfOrder(..)));
    assert_eq!(answer(&mut marks, 64), Match::Unmatched, "already answered");
    assert_eq!(answer(&mut marks, 128), Match::Unmatched);
    assert!(matches!(answer(&mut marks, 192), Match::InOrder(m, _) if m == mark(3)));
    assert_eq!((marks.outstanding(), marks.awaited()), (0, 0));
    assert_eq!(marks.oldest_awaited(), None);
}

#[test]
fn an_answer_finds_the_flow_of_its_packet() {
    let mut marks = Marks::new(8);
    let of = |n: u32| Some(FlowPosition::new(n, 2 * n));
    for n in 1..=20 {
        marks.record(n * 64, Mark { flow: of(n), ..mark(n.into()) });
        let Match::InOrder(found, _) = marks.find_match(n * 64) else { panic!("{n}") };
        assert_eq!(found.flow, of(n));
        // Every other packet is answered after its successor.
        if n.is_multiple_of(2) {
            answer(&mut marks, n * 64);
            let Match::OutOfOrder(late, _) = answer(&mut marks, (n - 1) * 64) else {
                panic!("{n}")
            };
            assert_eq!(late.flow, of(n - 1));
        }
    }
}

#[test]
fn a_repeated_fingerprint_is_ambiguous_until_it_expires() {
    let mut marks = Marks::new(8);
    marks.record(64, mark(0));
    // It is sent again and again; a new mark would take the feedback of an earlier packet.
    for ms in 1..50 {
        marks.record(64, mark(ms * 1000));
        assert_eq!(marks.find_match(64), Match::Ambiguous, "after {ms}");
    }
    assert_eq!((marks.outstanding(), marks.expired()), (0, 0));
    marks.expire(MS * 69_500);
    assert_eq!(marks.find_match(64), Match::Unmatched);
}

#[test]
fn cleared_marks_count_as_expired_and_new_ones_are_found() {
    let mut marks = Marks::new(8);
    for (fingerprint, ms) in [(64, 1), (128, 2), (192, 3)] {
        marks.record(fingerprint, mark(ms));
    }
    answer(&mut marks, 64);
    marks.clear();
    assert_eq!((marks.outstanding(), marks.awaited(), marks.expired()), (0, 0, 2));
    assert_eq!((marks.find_match(128), marks.oldest_awaited()), (Match::Unmatched, None));
    marks.record(128, mark(9));
    assert!(matches!(answer(&mut marks, 128), Match::InOrder(m, _) if m == mark(9)));
}

#[test]
fn unanswered_marks_expire() {
    let mut marks = Marks::new(8);
    marks.record(64, mark(0));
    marks.record(128, mark(1));
    marks.expire(EXPIRY - Nanos(1));
    assert_eq!((marks.outstanding(), marks.expired()), (2, 0));
    marks.expire(EXPIRY);
    assert_eq!((marks.outstanding(), marks.expired()), (1, 1));
    assert_eq!(marks.find_match(64), Match::Unmatched);
}

#[test]
fn a_full_ring_keeps_what_is_in_flight_and_drops_what_feedback_has_passed() {
    let mut marks = Marks::new(8);
    for i in 1..=9 {
        marks.record(i * 64, mark(u64::from(i)));
    }
    assert_eq!((marks.refused(), marks.outstanding()), (1, 8));
    assert_eq!(marks.find_match(9 * 64), Match::Unmatched);
    assert!(matches!(answer(&mut marks, 5 * 64), Match::InOrder(..)));
    // Feedback has passed the first four.
    marks.record(9 * 64, mark(9));
    assert_eq!(marks.find_match(64), Match::Unmatched);
    assert!(matches!(marks.find_match(2 * 64), Match::OutOfOrder(..)));
    assert!(matches!(marks.find_match(9 * 64), Match::InOrder(..)));
    assert_eq!((marks.refused(), marks.expired()), (1, 1));
}

#[test]
fn fewer_packets_are_marked_as_the_ring_fills() {
    let mut marks = Marks::new(64);
    let mut seen = vec![];
    for i in 0..64 {
        seen.push(marks.thinning());
        marks.record(i * 64, mark(u64::from(i)));
    }
    assert_eq!(seen[..8], [1; 8]);
    assert_eq!(seen[8..16], [2; 8]);
    assert_eq!(seen[56..], [128; 8]);
    assert_eq!(marks.thinning(), 256);
}

/// A model of the marks that uses linear search.
#[derive(Default)]
struct Naive {
    list: VecDeque<(u32, Mark, bool, Nanos)>,
    newest_answered: Option<Mark>,
}

impl Naive {
    fn expire(&mut self, now: Nanos) {
        for _ in 0..self.list.len() {
            let &(fingerprint, mark, ambiguous, last) = self.list.front().unwrap();
            if now.saturating_sub(mark.time) < EXPIRY {
                break;
            }
            self.list.pop_front();
            if ambiguous && now.saturating_sub(last) < EXPIRY {
                self.list.push_back((fingerprint, Mark { time: last, ..mark }, true, last));
            }
        }
    }

    fn record(&mut self, fingerprint: u32, mark: Mark) {
        self.expire(mark.time);
        match self.list.iter_mut().find(|e| e.0 == fingerprint) {
            Some(entry) => (entry.2, entry.3) = (true, mark.time),
            None => self.list.push_back((fingerprint, mark, false, mark.time)),
        }
    }

    fn oldest_awaited(&self) -> Option<Nanos> {
        let newer =
            |mark: &Mark| self.newest_answered.is_none_or(|newest| mark.packets > newest.packets);
        self.list.iter().find(|e| !e.2 && newer(&e.1)).map(|e| e.1.time)
    }

    fn answer(&mut self, fingerprint: u32) -> &'static str {
        let Some(at) = self.list.iter().position(|e| e.0 == fingerprint) else {
            return "unmatched";
        };
        if self.list[at].2 {
            return "ambiguous";
        }
        let (_, mark, ..) = self.list.remove(at).unwrap();
        if self.newest_answered.is_some_and(|newest| mark.packets < newest.packets) {
            return "out of order";
        }
        self.newest_answered = Some(mark);
        "in order"
    }
}

proptest! {
    #[test]
    fn marks_match_the_model(steps in prop::collection::vec((0u64..300, 0u32..40, any::<bool>()), 1..400)) {
        let mut marks = Marks::new(512);
        let mut naive = Naive::default();
        let mut now = 0;
        for (i, (wait, k, sends)) in steps.into_iter().enumerate() {
            now += wait;
            let fingerprint = k * 64;
            if sends {
                let mark = Mark { packets: i as u32, ..mark(now) };
                marks.record(fingerprint, mark);
                naive.record(fingerprint, mark);
            } else {
                let got = match answer(&mut marks, fingerprint) {
                    Match::InOrder(..) => "in order",
                    Match::OutOfOrder(..) => "out of order",
                    Match::Ambiguous => "ambiguous",
                    Match::Unmatched => "unmatched",
                };
                prop_assert_eq!(got, naive.answer(fingerprint));
            }
            let plain = naive.list.iter().filter(|e| !e.2).count();
            prop_assert_eq!(marks.outstanding() as usize, plain);
            prop_assert_eq!(marks.oldest_awaited(), naive.oldest_awaited());
        }
    }
}
