use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const MS: Nanos = Nanos::from_millis(1);
/// The receivebox's clock and counters begin somewhere else.
const CLOCK: Nanos = Nanos::from_secs(5000);
const BYTES: u64 = 77_000_000;
const PACKETS: u32 = u32::MAX - 50;

/// A mark sent at `sent_ms` after `n` packets of 1000 bytes, received at `received_ms`.
fn pair(n: u32, sent_ms: u64, received_ms: u64) -> (Mark, Feedback) {
    let bytes = u64::from(n) * 1000;
    let mark =
        Mark { time: MS * sent_ms, bytes: Bytes(bytes), packets: n, limited_since: Nanos::ZERO };
    let feedback = Feedback {
        fingerprint: 0,
        epoch: 64,
        bytes: Bytes(BYTES + bytes),
        packets: PACKETS.wrapping_add(n),
        received_at: CLOCK + MS * received_ms,
        sequence: u64::from(n),
    };
    (mark, feedback)
}

/// The answer comes 25 ms after the boundary packet was received.
fn feed(measure: &mut Measure, n: u32, sent_ms: u64, received_ms: u64) -> Verdict {
    let (mark, feedback) = pair(n, sent_ms, received_ms);
    measure.on_feedback(MS * (received_ms + 25), &mark, &feedback, Bytes::ZERO)
}

#[test]
fn rates_and_round_trips_by_hand() {
    let mut measure = Measure::new();
    assert_eq!(feed(&mut measure, 100, 1000, 1025), Verdict::Sample { rtt: MS * 50 });
    assert_eq!(measure.rates(MS), None, "one sample gives no rate");
    // 100 packets sent in 10 ms, received in 20 ms: the queue grew by 10 ms.
    assert_eq!(feed(&mut measure, 200, 1010, 1045), Verdict::Sample { rtt: MS * 60 });
    let rates = measure.rates(MS).unwrap();
    assert_eq!(rates.send, Rate::from_mbps(80));
    assert_eq!(rates.receive, Rate::from_mbps(40));
    assert_eq!(rates.loss, 0.0);
    assert_eq!(measure.rtt(), Some(MS * 60));
    // 50 + 10 / 8.
    assert_eq!(measure.smoothed(), Some(Nanos::from_micros(51_250)));
    assert_eq!(measure.latest(), Some((MS * 1070, Bytes(200_000))));
    assert_eq!(measure.interval(MS * 100), Some(MS * 20));
}

#[test]
fn loss_is_what_did_not_arrive_and_counters_wrap() {
    let mut measure = Measure::new();
    feed(&mut measure, 0, 0, 25);
    let (mark, mut feedback) = pair(100, 100, 125);
    feedback.packets = feedback.packets.wrapping_sub(10);
    feedback.bytes = Bytes(feedback.bytes.0 - 10_000);
    measure.on_feedback(MS * 150, &mark, &feedback, Bytes::ZERO);
    let rates = measure.rates(MS).unwrap();
    assert!((rates.loss - 0.1).abs() < 1e-9);
    assert_eq!(rates.receive, Rate::from_bytes_over(Bytes(90_000), MS * 100));
}

#[test]
fn standing_ignores_one_late_message() {
    let mut measure = Measure::new();
    for (i, late) in [0, 0, 0, 30].into_iter().enumerate() {
        let n = i as u64;
        let (mark, feedback) = pair(i as u32 * 100, n * 10, n * 10 + 25);
        measure.on_feedback(MS * (n * 10 + 50 + late), &mark, &feedback, Bytes::ZERO);
    }
    assert_eq!(measure.rtt(), Some(MS * 80));
    assert_eq!(measure.standing(), Some(MS * 50));
    // The 30 ms were the only excess in four samples.
    assert_eq!(measure.spread(), Nanos(30_000_000 / 64));
}

#[test]
fn busy_rate_spans_only_samples_that_waited() {
    let mut measure = Measure::new();
    // 100 packets in 40 ms unqueued, then 100 in 10 ms twice, queued.
    for (n, received, queued) in [(0, 0, false), (100, 40, false), (200, 50, true), (300, 60, true)]
    {
        feed(&mut measure, n, u64::from(n) / 10, received + 30);
        measure.set_queued(queued);
    }
    assert_eq!(measure.busy_rate(MS * 100), Some(Rate::from_mbps(80)));
    assert_eq!(measure.rates(MS * 100).unwrap().receive, Rate::from_mbps(40));
    assert_eq!(measure.train_rate(MS * 100), Some(Rate::from_mbps(80)));
    feed(&mut measure, 400, 40, 100);
    measure.set_queued(false);
    assert_eq!(measure.busy_rate(MS * 100), None);
    assert_eq!(measure.train_rate(MS), None);
}

#[test]
fn busy_rate_spans_only_what_the_rate_limited() {
    let mut measure = Measure::new();
    // 100 packets in 30 ms, of which the bundle did not send all that it might; then 100 in 10 ms.
    for (n, received, limited_since) in [(0, 0, 0), (100, 30, 8), (200, 40, 8)] {
        let (mut mark, feedback) = pair(n, u64::from(n) / 10, received + 30);
        mark.limited_since = MS * limited_since;
        measure.on_feedback(MS * (received + 55), &mark, &feedback, Bytes::ZERO);
        measure.set_queued(true);
        let expected = (n == 200).then_some(Rate::from_mbps(80));
        assert_eq!(measure.busy_rate(MS * 100), expected, "{n}");
    }
}

#[test]
fn a_few_packets_tell_no_loss() {
    for (packets, loss) in [(31, 0.0), (40, 0.25)] {
        let mut measure = Measure::new();
        feed(&mut measure, 0, 0, 25);
        let (mark, mut feedback) = pair(packets, 20, 45);
        feedback.packets = feedback.packets.wrapping_sub(10);
        measure.on_feedback(MS * 70, &mark, &feedback, Bytes::ZERO);
        assert_eq!(measure.rates(MS).unwrap().loss, loss, "{packets}");
    }
}

#[test]
fn a_few_packets_make_no_train() {
    let mut measure = Measure::new();
    feed(&mut measure, 0, 0, 25);
    feed(&mut measure, 7, 1, 26);
    measure.set_queued(true);
    assert_eq!(measure.train_rate(MS * 100), None);
}

#[test]
fn impossible_claims_are_left_out() {
    let mut measure = Measure::new();
    feed(&mut measure, 100, 1000, 1025);
    let before = measure.latest();

    let (mark, feedback) = pair(200, 1010, 1035);
    let early = measure.on_feedback(MS * 1009, &mark, &feedback, Bytes::ZERO);
    assert_eq!(early, Verdict::Impossible(Claim::AnsweredBeforeSent));

    let back = Feedback { received_at: CLOCK + MS * 1024, ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &back, Bytes::ZERO);
    assert_eq!(verdict, Verdict::Impossible(Claim::TimeWentBack));

    // 100 kB were sent between the marks: with a thirty-second, 5 kB in flight and 64 KiB of
    // reordering, 173 661 may have been received.
    let much = Feedback { bytes: Bytes(BYTES + 100_000 + 173_662), ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &much, Bytes(5_000));
    let (received, allowed) = (Bytes(173_662), Bytes(173_661));
    assert_eq!(verdict, Verdict::Impossible(Claim::MoreThanSent { received, allowed }));
    assert_eq!(measure.latest(), before);

    let just = Feedback { bytes: Bytes(BYTES + 100_000 + 173_661), ..feedback };
    let verdict = measure.on_feedback(MS * 1060, &mark, &just, Bytes(5_000));
    assert_eq!(verdict, Verdict::Sample { rtt: MS * 50 });
}

#[test]
fn a_restarted_receivebox_is_the_new_baseline() {
    let mut measure = Measure::new();
    feed(&mut measure, 100, 1000, 1025);
    feed(&mut measure, 200, 1010, 1035);
    let restart = |n: u32, ms: u64| {
        let (mark, feedback) = pair(n, ms, ms + 25);
        (mark, Feedback { bytes: Bytes(u64::from(n - 250) * 1000), packets: n - 250, ..feedback })
    };
    let (mark, feedback) = restart(300, 1020);
    let verdict = measure.on_feedback(MS * 1070, &mark, &feedback, Bytes::ZERO);
    assert_eq!(verdict, Verdict::Restarted { rtt: MS * 50 });
    assert_eq!(measure.rates(MS), None, "nothing spans the restart");
    let (mark, feedback) = restart(400, 1030);
    let verdict = measure.on_feedback(MS * 1080, &mark, &feedback, Bytes::ZERO);
    assert_eq!(verdict, Verdict::Sample { rtt: MS * 50 });
    assert_eq!(measure.rates(MS).unwrap().receive, Rate::from_mbps(80));
}

#[test]
fn a_restart_is_noticed_after_the_windows_were_cleared() {
    let mut measure = Measure::new();
    feed(&mut measure, 100, 1000, 1025);
    measure.clear();
    let (mark, feedback) = pair(200, 9000, 9025);
    let feedback = Feedback { bytes: Bytes(5_000), received_at: MS, ..feedback };
    let verdict = measure.on_feedback(MS * 9050, &mark, &feedback, Bytes::ZERO);
    assert_eq!(verdict, Verdict::Restarted { rtt: MS * 50 }, "its clock began anew as well");
}

#[test]
fn a_clock_that_was_set_ahead_is_a_new_baseline() {
    let mut measure = Measure::new();
    feed(&mut measure, 100, 1000, 1025);
    feed(&mut measure, 200, 1010, 1035);
    let ahead = |measure: &mut Measure, n, sent_ms, by: u64| {
        let (mark, mut feedback) = pair(n, sent_ms, sent_ms + 25);
        feedback.received_at += MS * by;
        measure.on_feedback(MS * (sent_ms + 50), &mark, &feedback, Bytes::ZERO)
    };
    // The answer before may have been late by that.
    assert_eq!(ahead(&mut measure, 300, 1020, 100), Verdict::Sample { rtt: MS * 50 });
    assert_eq!(ahead(&mut measure, 400, 1030, 201), Verdict::Restarted { rtt: MS * 50 });
    assert_eq!(measure.rates(MS), None);
    ahead(&mut measure, 500, 1040, 201);
    assert_eq!(measure.rates(MS).unwrap().receive, Rate::from_mbps(80));
    // A long silence is no jump.
    assert_eq!(ahead(&mut measure, 600, 60_000, 201), Verdict::Sample { rtt: MS * 50 });
}

#[test]
fn a_clock_that_was_set_back_is_believed_the_third_time() {
    let mut measure = Measure::new();
    feed(&mut measure, 100, 1000, 1025);
    let verdicts: Vec<_> = (2..=4)
        .map(|i| {
            let (mark, feedback) = pair(i * 100, 1000 + u64::from(i) * 10, 500 + u64::from(i) * 10);
            measure.on_feedback(MS * 1100, &mark, &feedback, Bytes::ZERO)
        })
        .collect();
    let impossible = Verdict::Impossible(Claim::TimeWentBack);
    assert_eq!(verdicts, [impossible, impossible, Verdict::Restarted { rtt: MS * 60 }]);
}

proptest! {
    /// Against sums over all samples: the window ends at the first sample that is old enough.
    #[test]
    fn windows_like_a_list(
        steps in prop::collection::vec((1u32..200, 1u64..30, 0u64..5), 2..120),
        window in 1u64..100,
    ) {
        let mut measure = Measure::new();
        let (mut n, mut sent, mut received) = (0, 0, 1000);
        let mut list = vec![];
        for (packets, gap, extra) in steps {
            n += packets;
            sent += gap;
            received += gap + extra;
            feed(&mut measure, n, sent, received);
            list.push((n, sent, received));
        }
        let (n1, s1, r1) = *list.last().unwrap();
        let kept = &list[list.len().saturating_sub(CAPACITY)..list.len() - 1];
        let old = kept.iter().rev().find(|e| r1 - e.2 >= window).unwrap_or(&kept[0]);
        let bytes = Bytes(u64::from(n1 - old.0) * 1000);
        let rates = measure.rates(MS * window).unwrap();
        prop_assert_eq!(rates.send, Rate::from_bytes_over(bytes, MS * (s1 - old.1)));
        prop_assert_eq!(rates.receive, Rate::from_bytes_over(bytes, MS * (r1 - old.2)));
    }
}
