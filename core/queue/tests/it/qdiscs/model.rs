//! The model that every qdisc is compared with: a list of the packets that wait.

use std::collections::{BTreeMap, BTreeSet};

use forebay_queue::{Backlog, DropReason, Ecn, Qdisc};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Dropped, Pkt, dequeue, enqueue};

/// The properties of a qdisc under test beyond the trait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The limit in packets, of the whole qdisc or of each class.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) per_class: bool,
    pub(crate) flow_packets: u64,
    pub(crate) flows: usize,
    pub(crate) time: Nanos,
    /// Whether the qdisc may hold packets back.
    pub(crate) shaped: bool,
    /// The reasons of an AQM's drops. An AQM that may drop may also mark.
    pub(crate) aqm: &'static [DropReason],
    /// Whether the AQM drops arriving packets instead of departing ones.
    pub(crate) early: bool,
    /// Whether the AQM may drop all waiting packets.
    pub(crate) empties: bool,
    /// The queue that a packet takes. Packets of a flow keep their order within a queue.
    pub(crate) lane: fn(&Pkt) -> bool,
    /// Whether `dequeue` first considers the packet that `peek` returned.
    pub(crate) peeks: bool,
}

pub(crate) const RULES: Rules = Rules {
    packets: u64::MAX,
    bytes: u64::MAX,
    per_class: false,
    flow_packets: u64::MAX,
    flows: usize::MAX,
    time: Nanos::MAX,
    shaped: false,
    aqm: &[],
    early: false,
    empties: false,
    lane: |_| true,
    peeks: true,
};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Enqueue { flow: u32, len: u64, ecn: Ecn },
    Dequeue,
    Advance(Nanos),
    AdvanceToEvent,
}

pub(crate) struct Model {
    qdisc: Box<dyn Qdisc<Pkt>>,
    rules: Rules,
    now: Nanos,
    /// The waiting packets and their arrival times by packet number, which is the order of arrival.
    waiting: BTreeMap<u64, (Pkt, Nanos)>,
    entered: u64,
    left: u64,
}

impl Model {
    pub(crate) fn new(qdisc: Box<dyn Qdisc<Pkt>>, rules: Rules) -> Self {
        let waiting = BTreeMap::new();
        Self { qdisc, rules, now: Nanos::from_secs(1), waiting, entered: 0, left: 0 }
    }

    pub(crate) fn run(&mut self, ops: Vec<Op>) {
        for op in ops {
            match op {
                Op::Enqueue { flow, len, ecn } => self.enqueue(flow, len, ecn),
                Op::Dequeue => drop(self.dequeue()),
                Op::Advance(time) => self.now += time,
                Op::AdvanceToEvent => self.advance_to_event(),
            }
            self.check();
        }
        while !self.waiting.is_empty() {
            self.advance_to_event();
            self.dequeue();
            self.check();
        }
        assert_eq!(self.entered, self.left);
    }

    fn enqueue(&mut self, flow: u32, len: u64, ecn: Ecn) {
        let id = self.entered;
        self.entered += 1;
        let packet = Pkt { id, flow, len, class: (flow % 4) as u8, ecn };
        self.qdisc.prefetch(&packet);
        let fits = self.qdisc.probe(self.now, &packet);
        self.waiting.insert(id, (packet.clone(), self.now));
        let before = self.truth(&packet);
        let drops = enqueue(&mut *self.qdisc, self.now, packet);
        assert_eq!(fits, drops.is_empty(), "probe returned {fits}, but {drops:?}");
        for drop in drops {
            let at_head = self.rules.aqm.contains(&drop.1) && !self.rules.early;
            assert!(!at_head, "this AQM drops at the head");
            self.account_drop(drop, before);
        }
    }

    fn dequeue(&mut self) -> Option<Pkt> {
        let peeked = self.qdisc.peek().cloned();
        let event = self.qdisc.next_event(self.now);
        let (sent, drops) = dequeue(&mut *self.qdisc, self.now);
        let expired = drops.iter().any(|(_, reason)| *reason == DropReason::TimeLimit);
        if self.rules.peeks && (sent.is_some() || !drops.is_empty()) {
            let considered = drops.first().map(|(packet, _)| packet).or(sent.as_ref());
            assert_eq!(peeked.map(|p| p.id), considered.map(|p| p.id));
        }
        if self.rules.shaped || expired {
            assert!(sent.is_none() || event.is_some_and(|at| at <= self.now));
        } else {
            assert_eq!(event, (!self.waiting.is_empty()).then_some(self.now));
        }
        let emptied = self.rules.empties && sent.is_none() && !drops.is_empty();
        if !expired && !emptied {
            assert_eq!(event.is_some_and(|at| at <= self.now), sent.is_some(), "event {event:?}");
        }
        for drop in drops {
            assert_ne!(drop.1, DropReason::PacketLimit, "no packet arrived");
            assert_ne!(drop.1, DropReason::ByteLimit, "no packet arrived");
            let early = self.rules.aqm.contains(&drop.1) && self.rules.early;
            assert!(!early, "this AQM drops arriving packets");
            self.account_drop(drop, Backlog::default());
        }
        if let Some(packet) = &sent {
            let (original, came) = self.take(packet);
            let marked = packet.ecn == Ecn::Ce && original.ecn != Ecn::NotEct;
            assert!(packet.ecn == original.ecn || (!self.rules.aqm.is_empty() && marked));
            assert!(self.now.saturating_sub(came) <= self.rules.time);
            let lane = self.rules.lane;
            let overtaken = self.waiting.values().find(|(other, _)| {
                other.flow == packet.flow && other.id < packet.id && lane(other) == lane(&original)
            });
            assert_eq!(overtaken, None, "overtaken by {packet:?} of the same flow");
        }
        sent
    }

    fn advance_to_event(&mut self) {
        let Some(at) = self.qdisc.next_event(self.now) else { return };
        if at > self.now {
            self.now = Nanos(at.0 - 1);
            assert_eq!(self.dequeue(), None, "a nanosecond before its time");
            self.now = at;
            let held = self.qdisc.next_event(self.now);
            assert!(held.is_some_and(|at| at <= self.now), "{held:?} after waiting until {at}");
        }
    }

    fn take(&mut self, packet: &Pkt) -> (Pkt, Nanos) {
        let Some((original, came)) = self.waiting.remove(&packet.id) else {
            panic!("{packet:?} left twice");
        };
        self.left += 1;
        assert_eq!(Pkt { ecn: packet.ecn, ..original.clone() }, *packet);
        (original, came)
    }

    /// Checks the reason of a drop. `with` is the backlog without any drop.
    fn account_drop(&mut self, (packet, reason): Dropped, with: Backlog) {
        let flows: BTreeSet<_> = self.waiting.values().map(|(packet, _)| packet.flow).collect();
        let waiting = self.waiting.len() as u64;
        let (original, came) = self.take(&packet);
        assert_eq!(original, packet);
        let rules = &self.rules;
        let fitting = match reason {
            DropReason::PacketLimit => with.packets > rules.packets,
            DropReason::ByteLimit => with.bytes.0 > rules.bytes,
            DropReason::TimeLimit => self.now.saturating_sub(came) > rules.time,
            DropReason::FlowLimit => waiting > rules.flow_packets,
            DropReason::FlowTableFull => flows.len() > rules.flows,
            aqm => rules.aqm.contains(&aqm),
        };
        assert!(fitting, "{packet:?} dropped for {reason} with {with:?}");
    }

    /// Returns the backlog to which the limits for `packet` apply.
    fn truth(&self, packet: &Pkt) -> Backlog {
        let mut backlog = Backlog::default();
        for (other, _) in self.waiting.values() {
            if !self.rules.per_class || other.class == packet.class {
                backlog.packets += 1;
                backlog.bytes += Bytes(other.len);
            }
        }
        backlog
    }

    fn check(&self) {
        let backlog = self.qdisc.backlog();
        let bytes = self.waiting.values().map(|(packet, _)| Bytes(packet.len)).sum();
        assert_eq!(backlog, Backlog { packets: self.waiting.len() as u64, bytes });
        assert_eq!(self.qdisc.peek().is_some(), backlog.packets > 0);
        assert_eq!(self.qdisc.next_event(self.now).is_some(), backlog.packets > 0);
        for (packet, _) in self.waiting.values() {
            let truth = self.truth(packet);
            assert!(truth.packets <= self.rules.packets, "{truth:?}");
            assert!(truth.bytes.0 <= self.rules.bytes, "{truth:?}");
        }
        let mut flows = BTreeMap::new();
        for (packet, _) in self.waiting.values() {
            *flows.entry(packet.flow).or_insert(0) += 1;
        }
        assert!(flows.values().all(|&n| n <= self.rules.flow_packets), "{flows:?}");
    }
}
