//! Which segments an acknowledgement takes off the list of those under way.

use super::super::ring::Sent;
use super::super::segment::Segment;
use super::Sender;

/// What one acknowledgement brought.
#[derive(Debug, Default)]
pub(super) struct News {
    /// What was in flight before it.
    pub(super) prior_in_flight: u32,
    /// Segments delivered, in sequence or not.
    pub(super) newly: u32,
    /// Segments acknowledged in sequence.
    pub(super) in_sequence: u32,
    pub(super) advanced: bool,
    pub(super) sacked: bool,
    /// Segments newly taken for lost.
    pub(super) losses: u32,
    /// A retransmission was lost.
    pub(super) lost_again: bool,
    pub(super) retransmission_acked: bool,
    /// Something arrived that was sent once only, and before the timeout.
    pub(super) original_arrived: bool,
    /// When the first and the last segment were sent that were acknowledged and sent only once, in
    /// sequence,
    pub(super) first_sent: Option<u64>,
    pub(super) last_sent: Option<u64>,
    /// and out of it.
    pub(super) first_sacked: Option<u64>,
    pub(super) last_sacked: Option<u64>,
    /// The segment delivered that was sent last.
    pub(super) latest: Option<Sent>,
    /// The peer says something came twice;
    pub(super) duplicate: bool,
    /// it was a probe.
    pub(super) probe_needless: bool,
    /// The round-trip time for congestion control.
    pub(super) rtt: Option<u64>,
    /// Segments that were marked, as far as the peer says.
    pub(super) marked: u32,
    /// It is for a lone short segment, and perhaps late on purpose.
    pub(super) delayed: bool,
}

impl Sender {
    pub(super) fn take_sacks(&mut self, now: u64, segment: &Segment, news: &mut News) {
        if segment.sack.is_empty() {
            self.seen = [(0, 0); 3];
            return;
        }
        let mut seen = [(0, 0); 3];
        let before = self.seen;
        let highest = self.highest;
        for (i, (start, end)) in segment.sack.blocks(segment.ack).enumerate() {
            if i == 0 && segment.sack.duplicate {
                self.take_duplicate(segment.ack, end, news);
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
                    self.sacked_one(now, number, sent, highest, news);
                }
                number = number.wrapping_add(1);
            }
        }
        self.seen = seen;
    }

    fn take_duplicate(&mut self, ack: u64, end: u64, news: &mut News) {
        news.duplicate = true;
        news.probe_needless = self.probe.was_retransmission && self.probe.end == Some(end);
        // A needless probe says nothing of reordering.
        if !news.probe_needless {
            self.rack.on_duplicate(ack, self.next);
        }
        self.undo.on_duplicate(end);
    }

    fn sacked_one(&mut self, now: u64, number: u32, sent: Sent, highest: u64, news: &mut News) {
        if sent.lost {
            self.lost -= 1;
        }
        if sent.retransmitted {
            self.retransmitted -= 1;
        }
        if !sent.ever_retransmitted {
            news.first_sacked.get_or_insert(sent.time);
            news.last_sacked = Some(sent.time);
            news.original_arrived |= sent.end() <= self.high;
            // Below what was known to have arrived, and never sent again: it was overtaken.
            self.rack.reordering |= sent.seq < highest;
        }
        news.sacked = true;
        let marked = self.ring.get_mut(number);
        (marked.sacked, marked.lost, marked.retransmitted) = (true, false, false);
        // What arrived is put together with what arrived before it.
        let before = number.wrapping_sub(1);
        if sent.head && number != self.ring.first() && self.ring.get(before).sacked {
            self.ring.get_mut(number).head = false;
            self.buffer.on_gone();
        }
        self.highest = self.highest.max(sent.end());
        self.ring.unlist(number);
        self.sacked += 1;
        self.delivered_one(now, &sent, news);
    }

    /// `highest` is what was known to have arrived before this acknowledgement: what it takes in
    /// sequence was not overtaken by what it takes out of it.
    pub(super) fn take_sequence(&mut self, now: u64, ack: u64, highest: u64, news: &mut News) {
        while let Some(sent) = self.ring.front().copied().filter(|s| s.end() <= ack) {
            news.in_sequence += 1;
            if sent.retransmitted {
                self.retransmitted -= 1;
            }
            if sent.lost {
                self.lost -= 1;
            }
            if sent.ever_retransmitted {
                news.retransmission_acked = true;
            } else if !sent.sacked {
                news.first_sent.get_or_insert(sent.time);
                news.last_sent = Some(sent.time);
                news.original_arrived |= sent.end() <= self.high;
                self.rack.reordering |= sent.seq < highest;
            }
            if sent.sacked {
                self.sacked -= 1;
            } else {
                self.delivered_one(now, &sent, news);
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

    fn delivered_one(&mut self, now: u64, sent: &Sent, news: &mut News) {
        news.newly += 1;
        self.delivery.delivered += 1;
        self.delivery.time = now;
        self.rack.on_delivered(now, sent.time, sent.end(), sent.ever_retransmitted, &self.rtt);
        let later = |l: &Sent| (sent.time, sent.end()) > (l.time, l.end());
        if news.latest.as_ref().is_none_or(later) {
            news.latest = Some(*sent);
            self.delivery.first_sent = sent.time;
        }
    }
}
