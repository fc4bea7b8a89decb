use super::*;
use crate::shares::Others;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const MS: Nanos = Nanos::from_millis(1);
/// The receivebox's clock starts at another value than ours.
const CLOCK: Nanos = Nanos::from_secs(5000);
const BYTES: u64 = 77_000_000;
const PACKETS: u32 = u32::MAX - 50;

/// Returns a mark sent at `sent_ms` after `n` packets of 1000 bytes, and feedback of `received_ms`.
fn pair(n: u32, sent_ms: u64, received_ms: u64) -> (Mark, Feedback) {
    let bytes = u64::from(n) * 1000;
    let mark = Mark { time: MS * sent_ms, bytes: Bytes(bytes), packets: n, ..Mark::default() };
    let feedback = Feedback {
        others: Others::default(),
        fingerprint: 0,
        epoch: 64,
        bytes: Bytes(BYTES + bytes),
        packets: PACKETS.wrapping_add(n),
        received_at: CLOCK + MS * received_ms,
        sequence: u64::from(n),
    };
    (mark, feedback)
}

/// Takes in feedback that comes 25 ms after the boundary packet was received.
fn feed(measure: &mut PathEstimator, n: u32, sent_ms: u64, received_ms: u64) -> FeedbackOutcome {
    let (mark, feedback) = pair(n, sent_ms, received_ms);
    measure.on_feedback(MS * (received_ms + 25), &mark, &feedback)
}

#[test]
fn rates_and_round_trip_times_have_the_values_computed_by_hand() {
    let mut measure = PathEstimator::new();
    assert_eq!(feed(&mut measure, 100, 1000, 1025), FeedbackOutcome::Sample { rtt: MS * 50 });
    assert_eq!(measure.rates(), None, "one sample gives no rate");
    // 100 packets are sent in 10 ms and received in 20 ms, so the queue grew by 10 ms.
    assert_eq!(feed(&mut measure, 200, 1010, 1045), FeedbackOutcome::Sample { rtt: MS * 60 });
    let rates = measure.rates().unwrap();
    assert_eq!(rates.send, Rate::from_mbps(80));
    assert_eq!(rates.receive, Rate::from_mbps(40));
    assert_eq!(rates.loss, 0.0);
    assert_eq!(measure.rtt(), Some(MS * 60));
    // The smoothed RTT is 50 + 10 / 8.
    assert_eq!(measure.smoothed(), Some(Nanos::from_micros(51_250)));
    assert_eq!(measure.latest(), Some((MS * 1070, Bytes(200_000))));
    assert_eq!(measure.interval(), Some(MS * 20));
}

#[test]
fn loss_is_computed_from_counters_that_wrap() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 0, 0, 25);
    let (mark, mut feedback) = pair(100, 100, 125);
    feedback.packets = feedback.packets.wrapping_sub(10);
    feedback.bytes = Bytes(feedback.bytes.0 - 10_000);
    measure.on_feedback(MS * 150, &mark, &feedback);
    let rates = measure.rates().unwrap();
    assert!((rates.loss - 0.1).abs() < 1e-9);
    assert_eq!(rates.receive, Rate::from_bytes_over(Bytes(90_000), MS * 100));
}

#[test]
fn the_standing_rtt_ignores_one_late_message() {
    let mut measure = PathEstimator::new();
    for (i, late) in [0, 0, 0, 30].into_iter().enumerate() {
        let n = i as u64;
        let (mark, feedback) = pair(i as u32 * 100, n * 10, n * 10 + 25);
        measure.on_feedback(MS * (n * 10 + 50 + late), &mark, &feedback);
    }
    assert_eq!(measure.rtt(), Some(MS * 80));
    assert_eq!(measure.standing(), Some(MS * 50));
    // The excess of 30 ms is the only one in four samples.
    assert_eq!(measure.spread(), Nanos(30_000_000 / 64));
}

#[test]
fn the_busy_rate_spans_only_samples_that_waited() {
    let mut measure = PathEstimator::new();
    // 100 packets in 40 ms without a queue, then twice 100 in 10 ms with one.
    for (n, received, queued) in [(0, 0, false), (100, 40, false), (200, 50, true), (300, 60, true)]
    {
        feed(&mut measure, n, u64::from(n) / 10, received + 30);
        measure.set_queued(queued);
    }
    assert_eq!(measure.busy_rate(), Some(Rate::from_mbps(80)));
    assert_eq!(measure.rates().unwrap().receive, Rate::from_mbps(40));
    assert_eq!(measure.train_rate(), Some(Rate::from_mbps(80)));
    feed(&mut measure, 400, 40, 100);
    measure.set_queued(false);
    assert_eq!(measure.busy_rate(), None);
}

/// After packets were held up, a few samples close together show how fast they arrived, which is
/// not the bottleneck's rate.
#[test]
fn a_sustained_rate_lasts_for_a_window() {
    let mut measure = PathEstimator::new();
    // 100 packets every 10 ms; those of 30 ms are held up and arrive within three.
    let (mut busy, mut sustained) = (Rate::ZERO, Rate::ZERO);
    for n in 0..40_u32 {
        let sent = u64::from(n) * 10;
        let received = sent + 75 + if (20..23).contains(&n) { (22 - u64::from(n)) * 9 } else { 0 };
        feed(&mut measure, n * 100, sent, received);
        // A sample without a queue shortens the run.
        measure.set_queued(n != 19);
        busy = busy.max(measure.busy_rate().unwrap_or_default());
        sustained = sustained.max(measure.sustained_rate().unwrap_or_default());
    }
    assert_eq!(busy, Rate::from_mbps(800));
    // From the packet that was held up longest, for 18 ms: what was sent in 120 ms came in 102.
    assert_eq!(sustained, Rate::from_bytes_over(Bytes(1_200_000), MS * 102));
}

#[test]
fn the_busy_rate_spans_only_samples_that_the_rate_limited() {
    let mut measure = PathEstimator::new();
    // 100 packets in 30 ms in which the bundle did not use all of its rate, then 100 in 10 ms.
    for (n, received, limited_since) in [(0, 0, 0), (100, 30, 8), (200, 40, 8)] {
        let (mut mark, feedback) = pair(n, u64::from(n) / 10, received + 30);
        mark.limited_since = MS * limited_since;
        measure.on_feedback(MS * (received + 55), &mark, &feedback);
        measure.set_queued(true);
        let expected = (n == 200).then_some(Rate::from_mbps(80));
        assert_eq!(measure.busy_rate(), expected, "{n}");
    }
}

#[test]
fn a_few_packets_do_not_show_loss() {
    for (packets, loss) in [(31, 0.0), (40, 0.25)] {
        let mut measure = PathEstimator::new();
        feed(&mut measure, 0, 0, 25);
        let (mark, mut feedback) = pair(packets, 20, 45);
        feedback.packets = feedback.packets.wrapping_sub(10);
        measure.on_feedback(MS * 70, &mark, &feedback);
        assert_eq!(measure.rates().unwrap().loss, loss, "{packets}");
    }
}

#[test]
fn a_few_packets_are_not_a_train() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 0, 0, 25);
    feed(&mut measure, 7, 1, 26);
    measure.set_queued(true);
    assert_eq!(measure.train_rate(), None);
}

#[test]
fn impossible_claims_are_ignored() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    let before = measure.latest();

    let (mark, feedback) = pair(200, 1010, 1035);
    let early = measure.on_feedback(MS * 1009, &mark, &feedback);
    assert_eq!(early, FeedbackOutcome::Impossible(ImpossibleClaim::AnsweredBeforeSent));

    let back = Feedback { received_at: CLOCK + MS * 1024, ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &back);
    assert_eq!(verdict, FeedbackOutcome::Impossible(ImpossibleClaim::TimeWentBack));

    // The fastest link carries 1 Tbit/s, in 10 ms and the 10 ms by which times may be coarse.
    let much = Feedback { bytes: Bytes(BYTES + 100_000 + 2_500_000_001), ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &much);
    let (received, allowed) = (Bytes(2_500_000_001), Bytes(2_500_000_000));
    let claim = ImpossibleClaim::TooManyBytes { received, allowed };
    assert_eq!(verdict, FeedbackOutcome::Impossible(claim));
    assert_eq!(measure.latest(), before);

    let just = Feedback { bytes: Bytes(BYTES + 100_000 + 2_500_000_000), ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &just);
    assert_eq!(verdict, FeedbackOutcome::Sample { rtt: MS * 50 });
}

#[test]
fn a_boundary_packet_that_was_not_counted_is_impossible() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    let (mark, feedback) = pair(200, 1010, 1035);
    let nothing = Feedback { bytes: Bytes(BYTES + 100_000), ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &nothing);
    assert_eq!(verdict, FeedbackOutcome::Impossible(ImpossibleClaim::NothingCounted));
    assert_eq!(
        measure.on_feedback(MS * 1060, &mark, &feedback),
        FeedbackOutcome::Sample { rtt: MS * 50 }
    );
}

#[test]
fn bytes_that_were_never_sent_are_in_no_rate() {
    let mut measure = PathEstimator::new();
    for n in 0..8_u32 {
        // 100 packets are sent in 10 ms, and a stranger's 100 arrive with them in 20 ms.
        let (mark, feedback) = pair(n * 100, u64::from(n) * 10, 25 + u64::from(n) * 20);
        let bytes = Bytes(feedback.bytes.0 + u64::from(n) * 100_000);
        let now = MS * (u64::from(n) * 20 + 50);
        measure.on_feedback(now, &mark, &Feedback { bytes, ..feedback });
        measure.set_queued(true);
    }
    let rate = Rate::from_mbps(40);
    assert_eq!(measure.rates().unwrap().receive, rate);
    assert_eq!((measure.busy_rate(), measure.train_rate()), (Some(rate), Some(rate)));
    assert_eq!(measure.sustained_rate(), Some(rate));
}

#[test]
fn samples_begin_anew_after_a_restart_of_the_receivebox() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    feed(&mut measure, 200, 1010, 1035);
    let restart = |n: u32, ms: u64| {
        let (mark, feedback) = pair(n, ms, ms + 25);
        (mark, Feedback { bytes: Bytes(u64::from(n - 250) * 1000), packets: n - 250, ..feedback })
    };
    let (mark, feedback) = restart(300, 1020);
    let verdict = measure.on_feedback(MS * 1070, &mark, &feedback);
    assert_eq!(verdict, FeedbackOutcome::Restarted { rtt: MS * 50 });
    assert_eq!(measure.rates(), None, "nothing spans the restart");
    let (mark, feedback) = restart(400, 1030);
    let verdict = measure.on_feedback(MS * 1080, &mark, &feedback);
    assert_eq!(verdict, FeedbackOutcome::Sample { rtt: MS * 50 });
    assert_eq!(measure.rates().unwrap().receive, Rate::from_mbps(80));
}

#[test]
fn a_restart_is_noticed_after_the_samples_were_cleared() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    measure.clear();
    let (mark, feedback) = pair(200, 9000, 9025);
    let feedback = Feedback { bytes: Bytes(5_000), received_at: MS, ..feedback };
    let verdict = measure.on_feedback(MS * 9050, &mark, &feedback);
    assert_eq!(
        verdict,
        FeedbackOutcome::Restarted { rtt: MS * 50 },
        "its clock began anew as well"
    );
}

#[test]
fn samples_begin_anew_after_the_clock_was_set_ahead() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    feed(&mut measure, 200, 1010, 1035);
    let ahead = |measure: &mut PathEstimator, n, sent_ms, by: u64| {
        let (mark, mut feedback) = pair(n, sent_ms, sent_ms + 25);
        feedback.received_at += MS * by;
        measure.on_feedback(MS * (sent_ms + 50), &mark, &feedback)
    };
    // The last feedback may have been late by that much.
    assert_eq!(ahead(&mut measure, 300, 1020, 100), FeedbackOutcome::Sample { rtt: MS * 50 });
    assert_eq!(ahead(&mut measure, 400, 1030, 201), FeedbackOutcome::Restarted { rtt: MS * 50 });
    assert_eq!(measure.rates(), None);
    ahead(&mut measure, 500, 1040, 201);
    assert_eq!(measure.rates().unwrap().receive, Rate::from_mbps(80));
    // A long time without feedback is not a jump.
    assert_eq!(ahead(&mut measure, 600, 60_000, 201), FeedbackOutcome::Sample { rtt: MS * 50 });
}

/// Somebody on the path delays messages differently. Less time then passes between two messages
/// than between the two packets, at both boxes.
#[test]
fn a_late_message_before_one_in_time_is_no_jump_of_the_clock() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    let (mark, feedback) = pair(200, 1010, 1035);
    measure.on_feedback(MS * (1060 + 400), &mark, &feedback);
    let (mark, feedback) = pair(300, 1440, 1465);
    let verdict = measure.on_feedback(MS * 1490, &mark, &feedback);
    assert_eq!(verdict, FeedbackOutcome::Sample { rtt: MS * 50 });
    // A queue that grew by 400 ms meanwhile delays the message as much.
    let (mark, feedback) = pair(400, 1450, 1875);
    let verdict = measure.on_feedback(MS * 1900, &mark, &feedback);
    assert_eq!(verdict, FeedbackOutcome::Sample { rtt: MS * 450 });
}

#[test]
fn a_clock_that_was_set_back_is_accepted_the_third_time() {
    let mut measure = PathEstimator::new();
    feed(&mut measure, 100, 1000, 1025);
    let verdicts: Vec<_> = (2..=4)
        .map(|i| {
            let (mark, feedback) = pair(i * 100, 1000 + u64::from(i) * 10, 500 + u64::from(i) * 10);
            measure.on_feedback(MS * 1100, &mark, &feedback)
        })
        .collect();
    let impossible = FeedbackOutcome::Impossible(ImpossibleClaim::TimeWentBack);
    assert_eq!(verdicts, [impossible, impossible, FeedbackOutcome::Restarted { rtt: MS * 60 }]);
}

/// Computes the estimates by a search from the newest sample back.
fn like_a_list(list: &[Listed], smoothed: Nanos) -> Estimates {
    let pairs = &list[list.len().saturating_sub(samples::CAPACITY + 1)..];
    let list = &list[list.len().saturating_sub(samples::CAPACITY)..];
    let Some((newest, earlier)) = list.split_last() else { return Estimates::default() };
    let age = |s: &Listed| newest.at - s.at;
    let window = smoothed.max(MS * 20);
    let first = |span: Nanos, candidates: &[Listed]| {
        candidates.iter().rev().find(|s| age(s) >= span).or(candidates.first()).copied()
    };
    let rate = |old: Listed, bytes: fn(&Listed) -> u64, time: fn(&Listed) -> Nanos| {
        Rate::from_bytes_over(Bytes(bytes(newest) - bytes(&old)), time(newest) - time(&old))
    };
    let receive = |old: Listed| rate(old, |s| s.bytes, |s| s.received_at);
    let standing = list
        .iter()
        .rev()
        .enumerate()
        .take_while(|(i, s)| age(s) <= smoothed / 2 || (*i == 1 && age(s) <= smoothed / 2 * 2));
    let run = earlier.iter().rev();
    let run = run.take_while(|s| s.queued && s.sent_at >= newest.limited_since).count();
    let pairs = pairs.windows(2).filter(|p| age(&p[1]) <= smoothed + smoothed / 2);
    let trains = pairs.filter(|p| p[0].queued && p[1].queued && p[1].packets - p[0].packets >= 8);
    let trains = trains.map(|p| {
        Rate::from_bytes_over(Bytes(p[1].bytes - p[0].bytes), p[1].received_at - p[0].received_at)
    });
    let Listed { at, sent_at, bytes, .. } = *newest;
    let run = first(window * 2, &earlier[earlier.len() - run..]).filter(|_| newest.queued);
    Estimates {
        newest: Some(Newest { rtt: at - sent_at, at, sent: Bytes(bytes) }),
        standing: standing.map(|(_, s)| s.at - s.sent_at).min(),
        rates: first(window, earlier).map(|old| Rates {
            send: rate(old, |s| s.bytes, |s| s.sent_at),
            receive: receive(old),
            loss: 0.0,
        }),
        busy: run.map(receive),
        sustained: run.map_or(Rate::ZERO, |old| {
            let time = (newest.received_at - old.received_at).max(window);
            Rate::from_bytes_over(Bytes(newest.bytes - old.bytes), time)
        }),
        train: trains.max().unwrap_or_default(),
        interval: earlier.iter().rposition(|s| age(s) >= window * 2).or(Some(0)).and_then(|old| {
            let n = earlier.len() - old;
            (n > 0).then(|| age(&earlier[old]) / n as u64)
        }),
    }
}

/// A sample as the model keeps it.
#[derive(Clone, Copy, Debug)]
struct Listed {
    at: Nanos,
    sent_at: Nanos,
    received_at: Nanos,
    packets: u32,
    bytes: u64,
    limited_since: Nanos,
    queued: bool,
}

proptest! {
    #[test]
    fn windows_show_what_a_list_does(
        steps in prop::collection::vec(
            (1u32..20, 1u64..30, 1u64..40, 0u64..80, prop::bool::weighted(0.8), prop::bool::weighted(0.1)),
            1..150,
        ),
    ) {
        let mut measure = PathEstimator::new();
        let (mut n, mut sent, mut received, mut at) = (0, 0, 1000, 0);
        let mut limited_since = Nanos::ZERO;
        let mut list = vec![];
        for (packets, gap, longer, late, queued, idle) in steps {
            (n, sent, received) = (n + packets, sent + gap, received + longer);
            at = received.max(at).max(sent) + late / 8;
            if idle {
                limited_since = limited_since.max(MS * sent.saturating_sub(late));
            }
            let (mut mark, feedback) = pair(n, sent, received);
            mark.limited_since = limited_since;
            measure.on_feedback(MS * at, &mark, &feedback);
            measure.set_queued(queued);
            list.push(Listed {
                at: MS * at,
                sent_at: MS * sent,
                received_at: MS * received,
                packets: n,
                bytes: u64::from(n) * 1000,
                limited_since,
                queued,
            });
            let expected = like_a_list(&list, measure.smoothed().unwrap());
            prop_assert_eq!(measure.estimates, expected);
        }
    }
}
