//! From marks and feedback to round-trip time, send rate S, receive rate R and loss (Bundler
//! section 4.5).

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos, Rate};

use crate::Feedback;
use crate::event::Claim;
use crate::marks::Mark;

/// Matched samples kept: several round-trip times' worth at four to eight an RTT. Where more come
/// in, the windows shorten.
const CAPACITY: usize = 64;
/// So many impossible messages in a row, and it is our own baseline that is wrong (the receivebox's
/// clock was set back, or its counters jumped).
const DISTRUST: u32 = 3;
/// Smoothing of the round-trip time, RFC 6298 section 2.
const SMOOTHING: f64 = 1.0 / 8.0;
/// Both boxes may count frames differently by a tag or a trailer; up to this share of the bytes.
const FRAMING: u64 = 32;
/// And packets that the network reordered around a boundary packet may be counted in the next
/// epoch: what is in flight, and this much more.
const REORDER_FLOOR: Bytes = Bytes(64 * 1024);

/// Packets that make a train: fewer, and the receivebox's timestamps are too coarse for a rate.
const TRAIN_PACKETS: u32 = 8;

/// A boundary packet seen at both ends.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// When its feedback came.
    at: Nanos,
    rtt: Nanos,
    sent_at: Nanos,
    sent: Bytes,
    sent_packets: u32,
    received_at: Nanos,
    received: Bytes,
    received_packets: u32,
    /// It waited at the bottleneck.
    queued: bool,
    /// The receive rate since the sample before, if enough packets lie between the two.
    train: Option<Rate>,
}

/// Rates between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// S: bytes sent over the time in which they were sent.
    pub(crate) send: Rate,
    /// R: bytes received over the time in which they were received.
    pub(crate) receive: Rate,
    /// The share of the packets sent that were not received, 0 to 1.
    pub(crate) loss: f64,
}

/// What became of a feedback message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Taken in.
    Sample {
        /// The round-trip time it gave.
        rtt: Nanos,
    },
    /// The receivebox counts from anew; taken in as the first sample.
    Restarted {
        /// The round-trip time it gave.
        rtt: Nanos,
    },
    /// Left out.
    Impossible(Claim),
}

/// The sliding windows over the samples of one bundle.
#[derive(Debug)]
pub(crate) struct Measure {
    ring: Box<[Sample]>,
    /// The slot of the newest sample, and how many there are.
    newest: usize,
    len: usize,
    /// The newest sample, kept when the windows are cleared, so that a restart is noticed later.
    last: Option<Sample>,
    smoothed: Option<Nanos>,
    spread: f64,
    impossible_in_a_row: u32,
}

impl Measure {
    pub(crate) fn new() -> Self {
        Self {
            ring: vec![Sample::default(); CAPACITY].into_boxed_slice(),
            newest: 0,
            len: 0,
            last: None,
            smoothed: None,
            spread: 0.0,
            impossible_in_a_row: 0,
        }
    }

    /// Takes in feedback for `mark`, which is newer than every mark before. `in_flight` is what was
    /// sent after it.
    pub(crate) fn on_feedback(
        &mut self,
        now: Nanos,
        mark: &Mark,
        feedback: &Feedback,
        in_flight: Bytes,
    ) -> Verdict {
        let Some(rtt) = now.checked_sub(mark.time) else {
            return Verdict::Impossible(Claim::AnsweredBeforeSent);
        };
        let mut restarted = false;
        if let Some(last) = self.last {
            restarted = has_restarted(&last, feedback);
            if !restarted && let Some(claim) = impossible(&last, mark, feedback, in_flight) {
                self.impossible_in_a_row += 1;
                if self.impossible_in_a_row < DISTRUST {
                    return Verdict::Impossible(claim);
                }
                restarted = true;
            }
        }
        self.impossible_in_a_row = 0;
        if restarted {
            self.len = 0;
        }
        let mut sample = Sample {
            at: now,
            rtt,
            sent_at: mark.time,
            sent: mark.bytes,
            sent_packets: mark.packets,
            received_at: feedback.received_at,
            received: feedback.bytes,
            received_packets: feedback.packets,
            queued: false,
            train: None,
        };
        sample.train = self.newest().and_then(|before| train(before, &sample));
        self.push(sample);
        self.smoothed =
            Some(self.smoothed.map_or(rtt, |s| {
                Nanos((s.0 as f64 + SMOOTHING * (rtt.0 as f64 - s.0 as f64)) as u64)
            }));
        let excess = rtt.saturating_sub(self.standing().unwrap_or(rtt)).0 as f64;
        self.spread += (excess - self.spread) / 64.0;
        if restarted { Verdict::Restarted { rtt } } else { Verdict::Sample { rtt } }
    }

    /// By how much round-trip times exceed the standing one, on average.
    pub(crate) fn spread(&self) -> Nanos {
        Nanos(self.spread as u64)
    }

    /// Says whether the newest sample's packet waited at the bottleneck.
    pub(crate) fn set_queued(&mut self, queued: bool) {
        if self.len > 0 {
            self.ring[self.newest].queued = queued;
        }
    }

    /// Forgets the samples, keeps the smoothed round-trip time.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.impossible_in_a_row = 0;
    }

    /// The latest round-trip time.
    pub(crate) fn rtt(&self) -> Option<Nanos> {
        self.newest().map(|s| s.rtt)
    }

    /// The smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// When the latest feedback came and how many bytes had been sent by its mark.
    pub(crate) fn latest(&self) -> Option<(Nanos, Bytes)> {
        self.newest().map(|s| (s.at, s.sent))
    }

    /// The standing round-trip time (Copa section 2.1): the smallest of the last half smoothed
    /// round-trip time, over at least two samples, so that one late message is not a queue.
    pub(crate) fn standing(&self) -> Option<Nanos> {
        let newest = self.newest()?;
        let window = self.smoothed.unwrap_or(newest.rtt) / 2;
        let recent = |(i, s): &(usize, &Sample)| {
            let age = newest.at.saturating_sub(s.at);
            age <= window || (*i == 1 && age <= window * 2)
        };
        self.back().enumerate().take_while(recent).map(|(_, s)| s.rtt).min()
    }

    /// Rates over about `window`: between the newest sample and the first that is at least that much
    /// older (or the oldest there is). `None` before the second sample.
    pub(crate) fn rates(&self, window: Nanos) -> Option<Rates> {
        let newest = self.newest()?;
        let mut oldest = None;
        for sample in self.back().skip(1) {
            oldest = Some(sample);
            if newest.at.saturating_sub(sample.at) >= window {
                break;
            }
        }
        between(oldest?, newest)
    }

    /// R over the trailing run of samples that all waited at the bottleneck, at most `window` long:
    /// the bottleneck never idled between them, so this is the rate it serves the bundle at. `None`
    /// if the newest two did not both wait.
    pub(crate) fn busy_rate(&self, window: Nanos) -> Option<Rate> {
        let newest = self.newest().filter(|s| s.queued)?;
        let mut oldest = None;
        for sample in self.back().skip(1).take_while(|s| s.queued) {
            oldest = Some(sample);
            if newest.at.saturating_sub(sample.at) >= window {
                break;
            }
        }
        between(oldest?, newest).map(|r| r.receive)
    }

    /// The highest rate between two successive samples within `window` of which the later waited.
    pub(crate) fn train_rate(&self, window: Nanos) -> Option<Rate> {
        let newest = self.newest()?;
        let recent = |s: &&Sample| newest.at.saturating_sub(s.at) <= window;
        self.back().take_while(recent).filter(|s| s.queued).filter_map(|s| s.train).max()
    }

    /// The mean time between samples, over a window.
    pub(crate) fn interval(&self, window: Nanos) -> Option<Nanos> {
        let newest = self.newest()?;
        let mut last = (0, newest);
        for (i, sample) in self.back().enumerate().skip(1) {
            last = (i, sample);
            if newest.at.saturating_sub(sample.at) >= window {
                break;
            }
        }
        let (n, oldest) = last;
        (n > 0).then(|| newest.at.saturating_sub(oldest.at) / n as u64)
    }

    fn newest(&self) -> Option<&Sample> {
        (self.len > 0).then(|| &self.ring[self.newest])
    }

    /// The samples from the newest to the oldest.
    fn back(&self) -> impl Iterator<Item = &Sample> {
        (0..self.len).map(|i| &self.ring[(self.newest + CAPACITY - i) % CAPACITY])
    }

    fn push(&mut self, sample: Sample) {
        self.newest = (self.newest + 1) % CAPACITY;
        self.len = (self.len + 1).min(CAPACITY);
        self.ring[self.newest] = sample;
        self.last = Some(sample);
    }
}

/// The running count fell. Only where the clock went back too and the count fell little may the
/// network have swapped two boundary packets.
fn has_restarted(last: &Sample, feedback: &Feedback) -> bool {
    feedback.bytes < last.received
        && (feedback.received_at >= last.received_at || feedback.bytes.0 <= last.received.0 / 2)
}

fn impossible(last: &Sample, mark: &Mark, feedback: &Feedback, in_flight: Bytes) -> Option<Claim> {
    if feedback.received_at < last.received_at {
        return Some(Claim::TimeWentBack);
    }
    let sent = mark.bytes.saturating_sub(last.sent).0;
    let received = feedback.bytes.saturating_sub(last.received).0;
    let allowed = sent
        .saturating_add(sent / FRAMING)
        .saturating_add(in_flight.0)
        .saturating_add(REORDER_FLOOR.0);
    (received > allowed)
        .then_some(Claim::MoreThanSent { received: Bytes(received), allowed: Bytes(allowed) })
}

fn train(before: &Sample, sample: &Sample) -> Option<Rate> {
    let packets = sample.sent_packets.wrapping_sub(before.sent_packets);
    (packets >= TRAIN_PACKETS).then(|| between(before, sample))?.map(|r| r.receive)
}

fn between(old: &Sample, new: &Sample) -> Option<Rates> {
    let receive_time = new.received_at.checked_sub(old.received_at).filter(|t| *t > Nanos::ZERO)?;
    let send_time = new.sent_at.checked_sub(old.sent_at).filter(|t| *t > Nanos::ZERO)?;
    let sent = new.sent_packets.wrapping_sub(old.sent_packets);
    let received = new.received_packets.wrapping_sub(old.received_packets);
    let lost = sent.saturating_sub(received);
    Some(Rates {
        send: Rate::from_bytes_over(new.sent.saturating_sub(old.sent), send_time),
        receive: Rate::from_bytes_over(new.received.saturating_sub(old.received), receive_time),
        loss: f64::from(lost) / f64::from(sent.max(1)),
    })
}

#[cfg(test)]
mod tests {
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
        let mark = Mark { time: MS * sent_ms, bytes: Bytes(bytes), packets: n };
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
        for (n, received, queued) in
            [(0, 0, false), (100, 40, false), (200, 50, true), (300, 60, true)]
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
            (
                mark,
                Feedback { bytes: Bytes(u64::from(n - 250) * 1000), packets: n - 250, ..feedback },
            )
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
    fn a_clock_that_was_set_back_is_believed_the_third_time() {
        let mut measure = Measure::new();
        feed(&mut measure, 100, 1000, 1025);
        let verdicts: Vec<_> = (2..=4)
            .map(|i| {
                let (mark, feedback) =
                    pair(i * 100, 1000 + u64::from(i) * 10, 500 + u64::from(i) * 10);
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
}
