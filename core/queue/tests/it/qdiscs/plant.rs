//! A closed loop of senders that react to drops and marks, a qdisc, and a link of a fixed rate. The
//! clock advances by the time of a full frame on the link.

use std::collections::VecDeque;

use forebay_queue::{Ecn, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};

use crate::qdiscs::packet::{Pkt, dequeue, enqueue};

const FRAME: Bytes = Bytes(1514);

/// The reaction of a sender to feedback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Adds a packet to its window per round trip; halves it at most once per round trip after a
    /// drop or mark.
    Reno,
    /// Adds a packet to its window per round trip; subtracts half a packet for each mark and halves
    /// the window after a drop.
    Scalable,
    /// Sends at a constant rate without any reaction.
    Constant(Rate),
}

struct Sender {
    kind: Kind,
    ecn: Ecn,
    window: f64,
    in_flight: f64,
    /// The first packet sent after the window was last halved.
    recovered: u64,
    /// The bytes that a sender of a constant rate may send.
    credit: f64,
}

/// The feedback to a sender about a packet.
#[derive(Clone, Copy, PartialEq)]
enum Feedback {
    Delivered,
    Marked,
    Lost,
}

/// The packets of a sender during a measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) delivered: u64,
    pub(crate) marked: u64,
    pub(crate) lost: u64,
    /// The sum of the queue delays in seconds.
    queue_delay: f64,
}

impl Measured {
    /// Returns the mean queue delay in milliseconds.
    pub(crate) fn delay_ms(&self) -> f64 {
        self.queue_delay * 1e3 / self.delivered as f64
    }
}

pub(crate) struct Plant<Q> {
    pub(crate) qdisc: Q,
    pub(crate) now: Nanos,
    slot: Nanos,
    round_trip: Nanos,
    senders: Vec<Sender>,
    /// The time at which each packet was sent, by its number.
    sent: Vec<Nanos>,
    feedback: VecDeque<(Nanos, Pkt, Feedback)>,
}

impl<Q: Qdisc<Pkt>> Plant<Q> {
    pub(crate) fn new(qdisc: Q, rate: Rate, round_trip: Nanos, senders: &[(Kind, Ecn)]) -> Self {
        let senders = senders.iter().map(|&(kind, ecn)| Sender {
            kind,
            ecn,
            window: 10.0,
            in_flight: 0.0,
            recovered: 0,
            credit: 0.0,
        });
        Self {
            qdisc,
            now: Nanos::from_secs(1),
            slot: rate.time_for(FRAME),
            round_trip,
            senders: senders.collect(),
            sent: Vec::new(),
            feedback: VecDeque::new(),
        }
    }

    /// Runs for `time` and returns the measurement of each sender.
    pub(crate) fn run(&mut self, time: Nanos) -> Vec<Measured> {
        let mut measured = vec![Measured::default(); self.senders.len()];
        let end = self.now + time;
        while self.now < end {
            while self.feedback.front().is_some_and(|(due, ..)| *due <= self.now) {
                if let Some((_, packet, feedback)) = self.feedback.pop_front() {
                    let next = self.sent.len() as u64;
                    self.senders[packet.flow as usize].react(&packet, feedback, next);
                }
            }
            for flow in 0..self.senders.len() {
                self.send(flow, &mut measured);
            }
            let (sent, drops) = dequeue(&mut self.qdisc, self.now);
            for (packet, _) in drops {
                self.send_feedback(packet, Feedback::Lost, &mut measured);
            }
            if let Some(packet) = sent {
                let feedback =
                    if packet.ecn == Ecn::Ce { Feedback::Marked } else { Feedback::Delivered };
                self.send_feedback(packet, feedback, &mut measured);
            }
            self.now += self.slot;
        }
        measured
    }

    fn send(&mut self, flow: usize, measured: &mut [Measured]) {
        self.senders[flow].credit(self.slot);
        while self.senders[flow].may_send() {
            let id = self.sent.len() as u64;
            self.sent.push(self.now);
            let ecn = self.senders[flow].ecn;
            let packet = Pkt { id, flow: flow as u32, len: FRAME.0, class: 9, ecn };
            for (packet, _) in enqueue(&mut self.qdisc, self.now, packet) {
                self.send_feedback(packet, Feedback::Lost, measured);
            }
        }
    }

    fn send_feedback(&mut self, packet: Pkt, feedback: Feedback, measured: &mut [Measured]) {
        let it = &mut measured[packet.flow as usize];
        if feedback == Feedback::Lost {
            it.lost += 1;
        } else {
            it.delivered += 1;
            it.marked += u64::from(feedback == Feedback::Marked);
            it.queue_delay += (self.now - self.sent[packet.id as usize]).as_secs_f64();
        }
        self.feedback.push_back((self.now + self.round_trip, packet, feedback));
    }
}

impl Sender {
    fn credit(&mut self, slot: Nanos) {
        if let Kind::Constant(rate) = self.kind {
            self.credit += rate.as_bytes_per_sec_f64() * slot.as_secs_f64();
        }
    }

    fn may_send(&mut self) -> bool {
        if matches!(self.kind, Kind::Constant(_)) {
            let may = self.credit >= FRAME.as_f64();
            self.credit -= if may { FRAME.as_f64() } else { 0.0 };
            return may;
        }
        let may = self.in_flight + 1.0 <= self.window;
        self.in_flight += f64::from(may);
        may
    }

    fn react(&mut self, packet: &Pkt, feedback: Feedback, next: u64) {
        self.in_flight -= 1.0;
        let cut = match (self.kind, feedback) {
            (Kind::Constant(_), _) => return,
            (_, Feedback::Delivered) => false,
            (Kind::Scalable, Feedback::Marked) => {
                self.window = (self.window - 0.5).max(2.0);
                return;
            }
            _ => true,
        };
        if !cut {
            self.window += 1.0 / self.window;
        } else if packet.id >= self.recovered {
            self.window = (self.window / 2.0).max(2.0);
            self.recovered = next;
        }
    }
}

/// Returns the sum over several senders.
pub(crate) fn total(measured: &[Measured]) -> Measured {
    let mut sum = Measured::default();
    for one in measured {
        sum.delivered += one.delivered;
        sum.marked += one.marked;
        sum.lost += one.lost;
        sum.queue_delay += one.queue_delay;
    }
    sum
}
