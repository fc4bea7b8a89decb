//! A closed loop: senders that react to drops and marks, a link of a fixed rate, a qdisc between
//! them. The clock steps from one full frame on the link to the next.

use std::collections::VecDeque;

use forebay_queue::{Ecn, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};

use crate::packet::{Pkt, dequeue, enqueue};

const FRAME: Bytes = Bytes(1514);

/// How a sender reacts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A packet more in a round trip; halves its window once a round trip for a drop or mark.
    Reno,
    /// A packet more in a round trip; half a packet less for each mark, halves for a drop.
    Scalable,
    /// Sends at this rate whatever happens.
    Constant(Rate),
}

struct Sender {
    kind: Kind,
    ecn: Ecn,
    window: f64,
    in_flight: f64,
    /// Packets sent before this one are of the window that was halved already.
    recovered: u64,
    /// For a constant rate: how many bytes it may send.
    credit: f64,
}

/// What a sender hears of a packet.
#[derive(Clone, Copy, PartialEq)]
enum Echo {
    Delivered,
    Marked,
    Lost,
}

/// What came of a sender's packets while measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) delivered: u64,
    pub(crate) marked: u64,
    pub(crate) lost: u64,
    /// The sum of the waits.
    waited: f64,
}

impl Measured {
    /// The mean wait, in milliseconds.
    pub(crate) fn delay_ms(&self) -> f64 {
        self.waited * 1e3 / self.delivered as f64
    }
}

pub(crate) struct Plant<Q> {
    pub(crate) qdisc: Q,
    pub(crate) now: Nanos,
    slot: Nanos,
    round_trip: Nanos,
    senders: Vec<Sender>,
    /// When each packet was sent, by its identity.
    sent: Vec<Nanos>,
    echoes: VecDeque<(Nanos, Pkt, Echo)>,
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
            echoes: VecDeque::new(),
        }
    }

    /// Runs for `time`; what came of each sender's packets.
    pub(crate) fn run(&mut self, time: Nanos) -> Vec<Measured> {
        let mut measured = vec![Measured::default(); self.senders.len()];
        let end = self.now + time;
        while self.now < end {
            while self.echoes.front().is_some_and(|(due, ..)| *due <= self.now) {
                if let Some((_, packet, echo)) = self.echoes.pop_front() {
                    let next = self.sent.len() as u64;
                    self.senders[packet.flow as usize].hear(&packet, echo, next);
                }
            }
            for flow in 0..self.senders.len() {
                self.send(flow, &mut measured);
            }
            let (sent, drops) = dequeue(&mut self.qdisc, self.now);
            for (packet, _) in drops {
                self.echo(packet, Echo::Lost, &mut measured);
            }
            if let Some(packet) = sent {
                let echo = if packet.ecn == Ecn::Ce { Echo::Marked } else { Echo::Delivered };
                self.echo(packet, echo, &mut measured);
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
                self.echo(packet, Echo::Lost, measured);
            }
        }
    }

    fn echo(&mut self, packet: Pkt, echo: Echo, measured: &mut [Measured]) {
        let it = &mut measured[packet.flow as usize];
        if echo == Echo::Lost {
            it.lost += 1;
        } else {
            it.delivered += 1;
            it.marked += u64::from(echo == Echo::Marked);
            it.waited += (self.now - self.sent[packet.id as usize]).as_secs_f64();
        }
        self.echoes.push_back((self.now + self.round_trip, packet, echo));
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

    fn hear(&mut self, packet: &Pkt, echo: Echo, next: u64) {
        self.in_flight -= 1.0;
        let cut = match (self.kind, echo) {
            (Kind::Constant(_), _) => return,
            (_, Echo::Delivered) => false,
            (Kind::Scalable, Echo::Marked) => {
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

/// The sum over several senders.
pub(crate) fn total(measured: &[Measured]) -> Measured {
    let mut sum = Measured::default();
    for one in measured {
        sum.delivered += one.delivered;
        sum.marked += one.marked;
        sum.lost += one.lost;
        sum.waited += one.waited;
    }
    sum
}
