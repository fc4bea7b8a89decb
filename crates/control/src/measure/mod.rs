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

/// A clock that gained this much between two samples, or a round-trip time if that is more, was set.
const JUMP: Nanos = Nanos::from_millis(100);
/// Packets that make a train: fewer, and the receivebox's timestamps are too coarse for a rate.
const TRAIN_PACKETS: u32 = 8;

/// Fewer packets than this tell no share that was lost: one that another overtook is among them.
const LOSS_PACKETS: u32 = 32;

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
    limited_since: Nanos,
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
    /// The share of the packets sent that were not received, 0 to 1; zero where too few tell.
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
            restarted = has_restarted(&last, feedback) || self.clock_jumped(&last, now, feedback);
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
            limited_since: mark.limited_since,
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

    /// The receivebox's clock gained on ours since the sample before: more time has passed there than
    /// here, by more than the answer before can have been held up on its way. R over that time would
    /// be next to nothing.
    fn clock_jumped(&self, last: &Sample, now: Nanos, feedback: &Feedback) -> bool {
        let there = feedback.received_at.saturating_sub(last.received_at);
        let here = now.saturating_sub(last.at);
        there > here.saturating_add(JUMP.max(self.smoothed.unwrap_or_default()))
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

    /// R over the trailing run of samples that all waited at the bottleneck, at most `window` long,
    /// while the bundle sent all that it was allowed: the bottleneck never idled between them, so
    /// this is the rate it serves the bundle at. Bursts of traffic that does not fill the rate wait
    /// as well, but tell nothing. `None` if the newest two do not qualify.
    pub(crate) fn busy_rate(&self, window: Nanos) -> Option<Rate> {
        let newest = self.newest().filter(|s| s.queued)?;
        let mut oldest = None;
        for sample in self.back().skip(1).take_while(|s| s.queued) {
            if sample.sent_at < newest.limited_since {
                break;
            }
            oldest = Some(sample);
            if newest.at.saturating_sub(sample.at) >= window {
                break;
            }
        }
        between(oldest?, newest).map(|r| r.receive)
    }

    /// The highest rate between two successive samples within `window` that both waited. Where only
    /// the later did, the bottleneck was idle at first.
    pub(crate) fn train_rate(&self, window: Nanos) -> Option<Rate> {
        let newest = self.newest()?;
        let recent = |(s, _): &(&Sample, &Sample)| newest.at.saturating_sub(s.at) <= window;
        let pairs = self.back().zip(self.back().skip(1)).take_while(recent);
        pairs.filter(|(s, before)| s.queued && before.queued).filter_map(|(s, _)| s.train).max()
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
    let lost = if sent < LOSS_PACKETS { 0 } else { sent.saturating_sub(received) };
    Some(Rates {
        send: Rate::from_bytes_over(new.sent.saturating_sub(old.sent), send_time),
        receive: Rate::from_bytes_over(new.received.saturating_sub(old.received), receive_time),
        loss: f64::from(lost) / f64::from(sent.max(1)),
    })
}

#[cfg(test)]
mod tests;
