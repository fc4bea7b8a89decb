//! Estimates of round-trip time, send rate S, receive rate R and loss from marks and feedback
//! (Bundler section 4.5).

mod samples;
mod window_extreme;

use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos, Rate};

use crate::Feedback;
use crate::event::ImpossibleClaim;
use crate::excess::{Excess, ExcessReceived};
use crate::marks::Mark;
use samples::{Sample, Samples};
use window_extreme::WindowExtreme;

/// The shortest window for rates: two ticks. Otherwise it is a smoothed round-trip time.
const WINDOW_FLOOR: Nanos = Nanos::from_millis(20);
/// Impossible messages in a row after which the loop distrusts its own state, not the messages. The
/// receivebox's clock was set back then, or its counters jumped.
const DISTRUST: u32 = 3;
/// The weight of a sample in the smoothed round-trip time (RFC 6298 section 2).
const SMOOTHING: f64 = 1.0 / 8.0;
/// The rate of the fastest link. A count of bytes that grew faster is no count of arrivals.
const FASTEST_LINK: Rate = Rate::from_mbps(1_000_000);
/// Arrival times may be as coarse as this.
const COARSE_TIME: Nanos = Nanos::from_millis(10);

/// A clock that gains this much between two samples, or a round-trip time if that is more, was set.
const JUMP: Nanos = Nanos::from_millis(100);
/// Packets in a train. With fewer, the receivebox's timestamps are too coarse for a rate.
const TRAIN_PACKETS: u32 = 8;

/// Packets needed to compute a loss. With fewer, a single reordered packet would look like loss.
const LOSS_PACKETS: u32 = 32;

/// The rates between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// The send rate S: bytes sent over the time in which they were sent.
    pub(crate) send: Rate,
    /// The receive rate R: bytes received over the time in which they were received.
    pub(crate) receive: Rate,
    /// The share of packets lost, 0 to 1; zero with too few packets.
    pub(crate) loss: f64,
}

/// The outcome of a feedback message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedbackOutcome {
    /// The message gave a sample.
    Sample {
        /// The round-trip time of the sample.
        rtt: Nanos,
    },
    /// The receivebox counts anew, and the message gave the first sample.
    Restarted {
        /// The round-trip time of the sample.
        rtt: Nanos,
    },
    /// The message makes an impossible claim and was ignored.
    Impossible(ImpossibleClaim),
}

/// The estimates of one bundle.
///
/// Each sample moves the windows on by a step or two. The results are kept until the next sample,
/// so that a tick need not read the samples.
#[derive(Debug)]
pub(crate) struct PathEstimator {
    estimates: Estimates,
    smoothed: Option<Nanos>,
    spread: f64,
    impossible_in_a_row: u32,
    /// Since when the bundle's own queue had not been empty as the newest sample's packet was sent.
    limited_since: Nanos,
    windows: Box<Windows>,
}

/// The samples and the windows over them.
#[derive(Debug, Default)]
struct Windows {
    samples: Samples,
    starts: WindowStarts,
    excess: Excess,
}

/// The estimates by the present samples, which each tick reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimates {
    newest: Option<Newest>,
    /// The standing round-trip time.
    standing: Option<Nanos>,
    rates: Option<Rates>,
    busy: Option<Rate>,
    /// The sustained rate; zero for none.
    sustained: Rate,
    /// The highest rate of a train; zero for none.
    train: Rate,
    /// The mean time between samples.
    interval: Option<Nanos>,
}

// Two cache lines. With many bundles, a third line is a third access to main memory.
const _: () = assert!(size_of::<Estimates>() == 128);

/// The values of the newest sample.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Newest {
    rtt: Nanos,
    /// When its feedback came.
    at: Nanos,
    /// Bytes sent by its mark.
    sent: Bytes,
}

/// The first samples of the windows, by their numbers.
#[derive(Debug, Default)]
struct WindowStarts {
    /// The start of the window for rates.
    rates: u64,
    /// The start of the window of twice the length.
    long: u64,
    standing: u64,
    train: u64,
    /// The start of the run of samples up to the newest that waited and were limited by the rate.
    run: u64,
    shortest: WindowExtreme<Nanos>,
    fastest: WindowExtreme<Rate>,
}

impl PathEstimator {
    pub(crate) fn new() -> Self {
        Self {
            estimates: Estimates::default(),
            smoothed: None,
            spread: 0.0,
            impossible_in_a_row: 0,
            limited_since: Nanos::ZERO,
            windows: Box::default(),
        }
    }

    /// Takes in feedback for `mark`, which is newer than every mark before.
    pub(crate) fn on_feedback(
        &mut self,
        now: Nanos,
        mark: &Mark,
        feedback: &Feedback,
    ) -> FeedbackOutcome {
        let Some(rtt) = now.checked_sub(mark.time) else {
            return FeedbackOutcome::Impossible(ImpossibleClaim::AnsweredBeforeSent);
        };
        let mut restarted = false;
        if let Some(last) = self.windows.samples.last().copied() {
            restarted =
                has_restarted(&last, feedback) || self.clock_jumped(&last, now, mark, feedback);
            if !restarted && let Some(claim) = impossible(&last, feedback) {
                self.impossible_in_a_row += 1;
                if self.impossible_in_a_row < DISTRUST {
                    return FeedbackOutcome::Impossible(claim);
                }
                restarted = true;
            }
        }
        self.impossible_in_a_row = 0;
        if restarted {
            self.windows.samples.clear();
            self.windows.excess.clear();
        }
        self.windows.samples.push(Sample {
            sent_at: mark.time,
            rtt,
            sent: mark.bytes,
            sent_packets: mark.packets,
            received_at: feedback.received_at,
            received: feedback.bytes,
            received_packets: feedback.packets,
            queued: false,
            train: Rate::ZERO,
        });
        self.limited_since = mark.limited_since;
        let smoothed = self
            .smoothed
            .map_or(rtt, |s| Nanos((s.0 as f64 + SMOOTHING * (rtt.0 as f64 - s.0 as f64)) as u64));
        self.smoothed = Some(smoothed);
        let standing = self.slide(smoothed);
        let excess = rtt.saturating_sub(standing).0 as f64;
        self.spread += (excess - self.spread) / 64.0;
        if restarted { FeedbackOutcome::Restarted { rtt } } else { FeedbackOutcome::Sample { rtt } }
    }

    /// Returns whether the receivebox's clock gained on ours since the last sample.
    ///
    /// This holds if more time has passed there than here, both between the two packets and between
    /// the two messages. The receive rate over that time would be close to zero. If only less time
    /// passed between the messages, the last one was late; if only between the packets, this one
    /// was.
    fn clock_jumped(&self, last: &Sample, now: Nanos, mark: &Mark, feedback: &Feedback) -> bool {
        let there = feedback.received_at.saturating_sub(last.received_at);
        let messages = now.saturating_sub(last.at());
        let packets = mark.time.saturating_sub(last.sent_at);
        let here = messages.max(packets);
        there > here.saturating_add(JUMP.max(self.smoothed.unwrap_or_default()))
    }

    /// Compares what was sent and received up to a valid sample. Returns an excess to report.
    pub(crate) fn excess(&mut self, mark: &Mark, feedback: &Feedback) -> Option<ExcessReceived> {
        self.windows.excess.on_sample(mark, feedback)
    }

    /// Returns the mean excess of round-trip times over the standing one.
    pub(crate) fn spread(&self) -> Nanos {
        Nanos(self.spread as u64)
    }

    /// Moves the windows on to the newest sample. Returns the standing round-trip time.
    fn slide(&mut self, smoothed: Nanos) -> Nanos {
        let window = self.window();
        let Windows { samples, starts, .. } = &mut *self.windows;
        let Some(newest) = samples.newest() else { return smoothed };
        let now = samples.at(newest);

        let half = smoothed / 2;
        starts.standing = samples.first_within(half + Nanos(1), starts.standing);
        let mut from = starts.standing;
        if from == newest && newest > samples.oldest() {
            let before = samples.at(newest - 1);
            from -= u64::from(now.saturating_sub(before) <= half * 2);
        }
        let shortest = starts.shortest.slide(samples, from, newest, |s| s.rtt, |a, b| a < b);

        let old = samples.last_before(window, &mut starts.rates);
        let rates = old.and_then(|old| between(samples.get(old), samples.get(newest)));
        let old = samples.last_before(window * 2, &mut starts.long);
        let interval = old.map(|old| now.saturating_sub(samples.at(old)) / (newest - old));
        let Sample { rtt, sent, .. } = *samples.get(newest);
        let newest = Some(Newest { rtt, at: now, sent });
        let standing = Some(shortest);
        self.estimates = Estimates { newest, standing, rates, interval, ..Estimates::default() };
        shortest
    }

    /// Records whether the newest sample's packet waited at the bottleneck.
    pub(crate) fn set_queued(&mut self, queued: bool) {
        let smoothed = self.smoothed.unwrap_or_default();
        let window = self.window();
        let estimates = &mut self.estimates;
        let Windows { samples, starts, .. } = &mut *self.windows;
        let Some(newest) = samples.newest() else { return };
        samples.get_mut(newest).queued = queued;
        let before = (newest > samples.oldest()).then(|| *samples.get(newest - 1));
        if let Some(before) = before.filter(|b| queued && b.queued) {
            let sample = samples.get_mut(newest);
            sample.train = train(&before, sample).unwrap_or_default();
        } else {
            starts.run = newest;
        }
        starts.train = samples.first_within(smoothed + smoothed / 2 + Nanos(1), starts.train);
        let fastest =
            starts.fastest.slide(samples, starts.train, newest, |s| s.train, |a, b| a > b);
        estimates.train = fastest;

        // The part of the run that was sent since the rate has limited the bundle.
        starts.run = starts.run.max(samples.oldest());
        while starts.run < newest && samples.get(starts.run).sent_at < self.limited_since {
            starts.run += 1;
        }
        let old = starts.run.max(starts.long.saturating_sub(1));
        let run = (queued && old < newest).then(|| (samples.get(old), samples.get(newest)));
        let run = run.and_then(|(old, new)| Some((old, new, between(old, new)?)));
        estimates.busy = run.map(|(_, _, rates)| rates.receive);
        estimates.sustained = run.map_or(Rate::ZERO, |(old, new, _)| {
            let time = new.received_at.saturating_sub(old.received_at).max(window);
            Rate::from_bytes_over(new.own_since(old), time)
        });
    }

    /// Returns whether rates follow from the samples, or will with the next one.
    pub(crate) fn is_usable(&self) -> bool {
        let samples = &self.windows.samples;
        self.estimates.rates.is_some() || samples.newest() == Some(samples.oldest())
    }

    /// Discards the samples, but keeps the smoothed round-trip time.
    pub(crate) fn clear(&mut self) {
        self.windows.samples.clear();
        self.estimates = Estimates::default();
        self.impossible_in_a_row = 0;
    }

    /// Returns the latest round-trip time.
    pub(crate) fn rtt(&self) -> Option<Nanos> {
        self.estimates.newest.map(|n| n.rtt)
    }

    /// Returns the smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// Returns when the latest feedback came, and the bytes sent by its mark.
    pub(crate) fn latest(&self) -> Option<(Nanos, Bytes)> {
        self.estimates.newest.map(|n| (n.at, n.sent))
    }

    /// Returns the standing round-trip time (Copa section 2.1): the smallest of the last half
    /// smoothed round-trip time. At least two samples count, so that one late message is not a
    /// queue.
    pub(crate) fn standing(&self) -> Option<Nanos> {
        self.estimates.standing
    }

    /// Returns the rates over about a round trip, `None` before the second sample.
    ///
    /// They are measured from the last sample that is older than the newest by a smoothed
    /// round-trip time and two ticks, or from the oldest sample.
    pub(crate) fn rates(&self) -> Option<Rates> {
        self.estimates.rates
    }

    /// Returns the rate at which the busy bottleneck serves the bundle, `None` if this is unknown.
    ///
    /// It is R over the last run of samples, at most two windows long, that all waited at the
    /// bottleneck while the bundle used all of its rate. The bottleneck was never idle between
    /// them. Bursts of traffic that does not fill the rate also wait, but do not show the
    /// bottleneck's rate. The newest two samples must belong to the run.
    pub(crate) fn busy_rate(&self) -> Option<Rate> {
        self.estimates.busy
    }

    /// Returns the busy rate under the assumption that the run lasted at least a window.
    ///
    /// This exceeds the bottleneck's rate only if something held packets up for longer than about a
    /// window. With a few samples close together, `busy_rate` is the rate at which packets arrived
    /// that had been held up, which may be any rate.
    pub(crate) fn sustained_rate(&self) -> Option<Rate> {
        Some(self.estimates.sustained).filter(|&rate| rate > Rate::ZERO)
    }

    /// Returns the highest rate between two successive samples of the last one and a half smoothed
    /// round-trip times that both waited. If only the second waited, the bottleneck was idle at
    /// first.
    pub(crate) fn train_rate(&self) -> Option<Rate> {
        Some(self.estimates.train).filter(|&rate| rate > Rate::ZERO)
    }

    /// Returns the mean time between samples over two windows.
    pub(crate) fn interval(&self) -> Option<Nanos> {
        self.estimates.interval
    }

    /// Returns the length of the window for rates.
    fn window(&self) -> Nanos {
        self.smoothed.unwrap_or_default().max(WINDOW_FLOOR)
    }
}

/// Returns whether the receivebox restarted, because its byte count fell. If its clock also went
/// back and the count fell little, the network may have reordered two boundary packets.
fn has_restarted(last: &Sample, feedback: &Feedback) -> bool {
    feedback.bytes < last.received
        && (feedback.received_at >= last.received_at || feedback.bytes.0 <= last.received.0 / 2)
}

/// Returns the impossible claim that the feedback makes, if any.
///
/// More than was sent is not impossible, since strangers may send to the bundle's prefixes:
/// [`Sample::own_since`] leaves it out.
fn impossible(last: &Sample, feedback: &Feedback) -> Option<ImpossibleClaim> {
    let Some(time) = feedback.received_at.checked_sub(last.received_at) else {
        return Some(ImpossibleClaim::TimeWentBack);
    };
    let received = feedback.bytes.saturating_sub(last.received);
    if received == Bytes::ZERO {
        return Some(ImpossibleClaim::NothingCounted);
    }
    let allowed = FASTEST_LINK.bytes_in(time.saturating_add(COARSE_TIME));
    (received > allowed).then_some(ImpossibleClaim::TooManyBytes { received, allowed })
}

/// Returns the receive rate between two samples if enough packets lie between them.
fn train(before: &Sample, sample: &Sample) -> Option<Rate> {
    let packets = sample.sent_packets.wrapping_sub(before.sent_packets);
    (packets >= TRAIN_PACKETS).then(|| between(before, sample))?.map(|r| r.receive)
}

/// Returns the rates between two samples, `None` unless both clocks moved on.
fn between(old: &Sample, new: &Sample) -> Option<Rates> {
    let receive_time = new.received_at.checked_sub(old.received_at).filter(|t| *t > Nanos::ZERO)?;
    let send_time = new.sent_at.checked_sub(old.sent_at).filter(|t| *t > Nanos::ZERO)?;
    let sent = new.sent_packets.wrapping_sub(old.sent_packets);
    let received = new.received_packets.wrapping_sub(old.received_packets);
    let lost = if sent < LOSS_PACKETS { 0 } else { sent.saturating_sub(received) };
    Some(Rates {
        send: Rate::from_bytes_over(new.sent.saturating_sub(old.sent), send_time),
        receive: Rate::from_bytes_over(new.own_since(old), receive_time),
        loss: f64::from(lost) / f64::from(sent.max(1)),
    })
}

#[cfg(test)]
mod tests;
