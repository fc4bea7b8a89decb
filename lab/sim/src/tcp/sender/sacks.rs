//! The segments that an acknowledgement removes from those in flight.

use super::super::ring::Sent;
use super::super::segment::Segment;
use super::Sender;

/// The effects of one acknowledgement.
#[derive(Debug, Default)]
pub(super) struct AckSummary {
    /// The segments in flight before it.
    pub(super) prior_in_flight: u32,
    /// The number of segments delivered, in sequence or by SACK.
    pub(super) newly: u32,
    /// The number of segments acknowledged in sequence.
    pub(super) in_sequence: u32,
    pub(super) advanced: bool,
    pub(super) sacked: bool,
    /// The number of segments newly marked as lost.
    pub(super) losses: u32,
    /// Whether a retransmission was lost.
    pub(super) lost_again: bool,
    pub(super) retransmission_acked: bool,
    /// Whether a segment arrived that was sent only once, before the timeout.
    pub(super) original_arrived: bool,
    /// When the first segment acknowledged in sequence and never retransmitted was sent.
    pub(super) first_sent: Option<u64>,
    /// When the last segment acknowledged in sequence and never retransmitted was sent.
    pub(super) last_sent: Option<u64>,
    /// When the first SACKed segment that was never retransmitted was sent.
    pub(super) first_sacked: Option<u64>,
    /// When the last SACKed segment that was never retransmitted was sent.
    pub(super) last_sacked: Option<u64>,
    /// The delivered segment that was sent last.
    pub(super) latest: Option<Sent>,
    /// Whether the peer reports a duplicate.
    pub(super) duplicate: bool,
    /// Whether the duplicate was a tail-loss probe.
    pub(super) probe_needless: bool,
    /// The round-trip time for congestion control.
    pub(super) rtt: Option<u64>,
    /// The number of segments that the peer reports as marked.
    pub(super) marked: u32,
    /// Whether it acknowledges a single short segment and may be delayed.
    pub(super) delayed: bool,
}

impl Sender {
    pub(super) fn take_sacks(&mut self, now: u64, segment: &Segment, summary: &mut AckSummary) {
        if segment.sack.is_empty() {
            self.seen = [(0, 0); 3];
            return;
        }
        let mut seen = [(0, 0); 3];
        let before = self.seen;
        let highest = self.highest;
        for (i, (start, end)) in segment.sack.blocks(segment.ack).enumerate() {
            if i == 0 && segment.sack.duplicate {
                self.take_duplicate(segment.ack, end, summary);
                continue;
            }
            seen[i] = (start, end);
            let known = before.iter().find(|b| b.0 <= start && start < b.1);
            let start = known.map_or(start, |b| b.1).max(self.una);
            if start >= end.min(self.next) {
                continue;
            }
            let mut number = self.ring.find(start);
            while number != self.ring.next() {
                let sent = *self.ring.get(number);
                if sent.end() > end {
                    break;
                }
                if !sent.sacked {
                    self.mark_sacked(now, number, sent, highest, summary);
                }
                number = number.wrapping_add(1);
            }
        }
        self.seen = seen;
    }

    fn take_duplicate(&mut self, ack: u64, end: u64, summary: &mut AckSummary) {
        summary.duplicate = true;
        summary.probe_needless = self.probe.was_retransmission && self.probe.end == Some(end);
        // A needless probe does not indicate reordering.
        if !summary.probe_needless {
            self.rack.on_duplicate(ack, self.next);
        }
        self.undo.on_duplicate(end);
    }

    fn mark_sacked(
        &mut self,
        now: u64,
        number: u32,
        sent: Sent,
        highest: u64,
        summary: &mut AckSummary,
    ) {
        if sent.lost {
            self.lost -= 1;
        }
        if sent.retransmitted {
            self.retransmitted -= 1;
        }
        if !sent.ever_retransmitted {
            summary.first_sacked.get_or_insert(sent.time);
            summary.last_sacked = Some(sent.time);
            summary.original_arrived |= sent.end() <= self.high;
            // Below the highest SACKed segment and never retransmitted: it was reordered.
            self.rack.reordering |= sent.seq < highest;
        }
        summary.sacked = true;
        let marked = self.ring.get_mut(number);
        (marked.sacked, marked.lost, marked.retransmitted) = (true, false, false);
        // Linux merges adjacent SACKed super-packets.
        let before = number.wrapping_sub(1);
        if sent.head && number != self.ring.first() && self.ring.get(before).sacked {
            self.ring.get_mut(number).head = false;
            self.buffer.on_gone();
        }
        self.highest = self.highest.max(sent.end());
        self.ring.unlist(number);
        self.sacked += 1;
        self.record_delivery(now, &sent, summary);
    }

    /// Handles the segments acknowledged in sequence.
    ///
    /// `highest` is the end of the highest SACKed segment before this acknowledgement, whose own
    /// SACK blocks do not indicate reordering.
    pub(super) fn take_sequence(
        &mut self,
        now: u64,
        ack: u64,
        highest: u64,
        summary: &mut AckSummary,
    ) {
        while let Some(sent) = self.ring.front().copied().filter(|s| s.end() <= ack) {
            summary.in_sequence += 1;
            if sent.retransmitted {
                self.retransmitted -= 1;
            }
            if sent.lost {
                self.lost -= 1;
            }
            if sent.ever_retransmitted {
                summary.retransmission_acked = true;
            } else if !sent.sacked {
                summary.first_sent.get_or_insert(sent.time);
                summary.last_sent = Some(sent.time);
                summary.original_arrived |= sent.end() <= self.high;
                self.rack.reordering |= sent.seq < highest;
            }
            if sent.sacked {
                self.sacked -= 1;
            } else {
                self.record_delivery(now, &sent, summary);
            }
            if sent.head {
                self.buffer.on_gone();
            }
            self.ring.pop();
        }
        self.una = ack;
        let first = self.ring.first();
        if first.wrapping_sub(self.hint) < 1 << 31 {
            self.hint = first;
        }
    }

    fn record_delivery(&mut self, now: u64, sent: &Sent, summary: &mut AckSummary) {
        summary.newly += 1;
        self.delivery.delivered += 1;
        self.delivery.time = now;
        self.rack.on_delivered(now, sent.time, sent.end(), sent.ever_retransmitted, &self.rtt);
        let later = |l: &Sent| (sent.time, sent.end()) > (l.time, l.end());
        if summary.latest.as_ref().is_none_or(later) {
            summary.latest = Some(*sent);
            self.delivery.first_sent = sent.time;
        }
    }
}
