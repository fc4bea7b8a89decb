//! Sources, a gate over a qdisc and a link, run one step at a time with a check after each step.
//!
//! A source runs only while it is awake, and it sleeps when it must wait. Only a resume wakes it. A
//! lost wake-up leaves the source asleep forever, and the world ends with packets left to send.

use forebay_queue::backpressure::{Config, FlowId, Gate, Order, Refused};
use forebay_queue::{DropReason, Qdisc};
use forebay_units::Nanos;

use crate::backpressure::packet::Pkt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An awake source probes before it offers a packet, or offers it right away.
    Run { flow: u32, probes: bool },
    /// The link takes a packet.
    Dequeue,
    /// A flow ends, paused or not.
    End(u32),
    /// Another flow begins with the number of one that ended.
    Begin(u32),
    /// The buffer is replaced by an empty one.
    Replace,
}

#[derive(Clone, Debug, Default, Hash)]
struct Source {
    alive: bool,
    awake: bool,
    /// Whether the source was resumed and has done nothing since.
    resumed: bool,
    /// Whether the qdisc refused its last packet although there was room.
    retries: bool,
    sent: u32,
    total: u32,
    /// The sequence number of its next packet to leave.
    next: u32,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct World<Q> {
    pub(crate) gate: Gate<Pkt, Q>,
    make: fn() -> Q,
    config: Config,
    now: Nanos,
    sources: Vec<Source>,
    /// The flow and the class of each packet in the buffer.
    inside: Vec<(u32, u8)>,
    /// How often flows may still end or begin or the buffer be replaced.
    pub(crate) events: u32,
}

fn no_drop(packet: Pkt, reason: DropReason) {
    panic!("{packet:?} was dropped: {reason}");
}

impl<Q: Qdisc<Pkt>> World<Q> {
    /// Creates `flows` sources that each have `packets` to send.
    pub(crate) fn new(config: Config, make: fn() -> Q, flows: u32, packets: u32) -> Self {
        let gate = Gate::new(Config { flows, ..config }, make()).unwrap();
        let source = Source { alive: true, awake: true, total: packets, ..Source::default() };
        let sources = vec![source; flows as usize];
        let now = Nanos::from_secs(1);
        Self { gate, make, config, now, sources, inside: Vec::new(), events: 0 }
    }

    /// Returns the steps that are possible now.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (flow, source) in (0..).zip(&self.sources) {
            if source.awake {
                // Where the probe succeeds, the packet is offered either way.
                let refused = source.sent < source.total && !self.may_send(flow);
                steps.push(Step::Run { flow, probes: false });
                steps.extend(refused.then_some(Step::Run { flow, probes: true }));
            }
            if self.events > 0 {
                steps.push(if source.alive { Step::End(flow) } else { Step::Begin(flow) });
            }
        }
        if !self.inside.is_empty() {
            steps.push(Step::Dequeue);
        }
        if self.events > 0 {
            steps.push(Step::Replace);
        }
        steps
    }

    /// Returns the next packet of a flow; lengths and classes differ between flows.
    fn packet(&self, flow: u32) -> Pkt {
        let len = 200 + 600 * u64::from(flow % 3);
        Pkt { flow, seq: self.sources[flow as usize].sent, len, class: (flow % 4) as u8 }
    }

    /// Returns whether the gate lets a flow enqueue its next packet.
    fn may_send(&self, flow: u32) -> bool {
        self.gate.probe(FlowId(flow), self.packet(flow).class).is_go()
    }

    pub(crate) fn apply(&mut self, step: Step) {
        match step {
            Step::Run { flow, probes } => self.run(flow, probes),
            Step::Dequeue => self.dequeue(),
            Step::End(flow) => {
                self.events -= 1;
                self.gate.remove(FlowId(flow));
                let source = &mut self.sources[flow as usize];
                (source.alive, source.awake, source.resumed) = (false, false, false);
            }
            Step::Begin(flow) => {
                self.events -= 1;
                let source = &mut self.sources[flow as usize];
                (source.alive, source.awake) = (true, true);
                source.total = source.sent + 1;
            }
            Step::Replace => {
                self.events -= 1;
                let mut old = self.gate.replace(self.now, (self.make)()).unwrap();
                while !self.inside.is_empty() {
                    self.now = old.next_event(self.now).unwrap().max(self.now);
                    let packet = old.dequeue(self.now, &mut no_drop);
                    self.arrived(packet);
                }
            }
        }
        self.resume();
        self.check();
    }

    fn run(&mut self, flow: u32, probes: bool) {
        let (id, packet) = (FlowId(flow), self.packet(flow));
        let source = &mut self.sources[flow as usize];
        source.resumed = false;
        if source.sent == source.total {
            source.awake = false;
            self.gate.idle(id);
            return;
        }
        if probes && !self.gate.probe(id, packet.class).is_go() {
            assert!(self.gate.pause_flow(self.now, id, packet.class), "the probe refused");
            source.awake = false;
            return;
        }
        source.retries = self.gate.probe(id, packet.class).is_go();
        match self.gate.offer(self.now, packet, &mut no_drop) {
            Ok(()) => {
                source.sent += 1;
                self.inside.push((flow, packet.class));
            }
            Err(Refused::Paused(same)) => {
                assert_eq!(same, packet);
                source.awake = false;
            }
            Err(refused @ Refused::Never(_)) => panic!("{refused:?}: it fits"),
        }
    }

    fn dequeue(&mut self) {
        self.now = self.gate.next_event(self.now).unwrap().max(self.now);
        let packet = self.gate.dequeue(self.now, &mut no_drop);
        self.arrived(packet);
    }

    fn arrived(&mut self, packet: Option<Pkt>) {
        let packet = packet.expect("the qdisc reported a packet");
        let source = &mut self.sources[packet.flow as usize];
        assert_eq!(packet.seq, source.next, "in order within flow {}", packet.flow);
        source.next += 1;
        let at = self.inside.iter().position(|&(flow, _)| flow == packet.flow).unwrap();
        self.inside.remove(at);
    }

    fn resume(&mut self) {
        let flows = self.sources.len();
        for (count, FlowId(flow)) in self.gate.resume(self.now).enumerate() {
            assert!(count < flows, "a flow is resumed once");
            let source = &mut self.sources[flow as usize];
            assert!(source.alive, "flow {flow} has ended");
            assert!(!source.awake, "flow {flow} did not wait");
            (source.awake, source.resumed) = (true, true);
        }
    }

    fn check(&self) {
        for (flow, source) in (0..).zip(&self.sources) {
            let inside = self.inside.iter().filter(|&&(other, _)| other == flow).count() as u32;
            let paused = self.gate.is_paused(FlowId(flow));
            assert_eq!(self.gate.in_buffer(FlowId(flow)), inside);
            assert!(inside <= u32::from(self.config.in_buffer), "the limit of flow {flow}");
            assert!(!(source.awake && paused), "flow {flow} is awake");
            if source.alive && !source.awake && source.sent < source.total {
                assert!(paused, "flow {flow} was forgotten");
                self.check_no_room(flow, inside);
            }
        }
        let waiting = self.sources.iter().filter(|s| s.alive && !s.awake).count();
        assert!(self.gate.waiting() as usize <= waiting);
    }

    /// Asserts that the sleeping `flow` could not have been resumed.
    fn check_no_room(&self, flow: u32, inside: u32) {
        let at_share = self.config.order == Order::RoundRobin && inside > 0;
        if at_share || inside == u32::from(self.config.in_buffer) {
            return;
        }
        let packet = self.packet(flow);
        let last = self.gate.qdisc().classes() as u8 - 1;
        let lane = |class: u8| class.min(last);
        let room = self.gate.qdisc().room(packet.class);
        let slots = room.packets.min(room.bytes.0 / self.config.largest.0);
        let same = |flow: u32| lane(self.packet(flow).class) == lane(packet.class);
        let resumed =
            (0..).zip(&self.sources).filter(|(other, source)| source.resumed && same(*other));
        let unclaimed = slots.saturating_sub(resumed.count() as u64);
        let to_leave = self.inside.iter().any(|&(_, class)| lane(class) == lane(packet.class));
        // A flow waits for departures below the threshold, and also if the qdisc refused its
        // packet: each departure lets one such flow retry.
        let threshold = self.threshold(slots + self.in_lane(lane(packet.class), last));
        let retries = self.sources[flow as usize].retries;
        let waits = to_leave && (unclaimed < threshold || retries);
        assert!(unclaimed == 0 || waits, "flow {flow} waits, though there is room for {unclaimed}");
    }

    fn in_lane(&self, lane: u8, last: u8) -> u64 {
        self.inside.iter().filter(|&&(_, class)| class.min(last) == lane).count() as u64
    }

    /// Returns an upper bound of the gate's threshold. A buffer limited in bytes may hold more
    /// packets than slots, so the gate's threshold may be lower.
    fn threshold(&self, capacity: u64) -> u64 {
        use forebay_queue::backpressure::Hysteresis;
        match self.config.hysteresis {
            Hysteresis::Packets(n) => u64::from(n).clamp(1, capacity.max(1)),
            Hysteresis::OneIn(n) => (capacity / u64::from(n)).max(1),
        }
    }

    /// Asserts that all packets have been sent.
    pub(crate) fn assert_done(&self) {
        assert!(self.inside.is_empty());
        for (flow, source) in self.sources.iter().enumerate().filter(|(_, source)| source.alive) {
            assert_eq!(source.sent, source.total, "flow {flow} was left behind");
        }
    }
}
