//! Tests of machines with many flows: drops inside the machine, as in Linux and with backpressure.

use forebay_queue::{Fifo, Limit, fifo};
use forebay_sim::{
    Capacity, Congestion, EgressCounters, EgressSetup, GuestQueue, Hop, Jitter, LinkConfig, Loss,
    Observer, Path, Route, SetupError, Simulation, Totals, Traffic, TrafficKind, WhenFull,
};
use forebay_units::{Bytes, Nanos, Rate};

const MS: Nanos = Nanos::from_millis(1);
const S: Nanos = Nanos::from_secs(1);

#[derive(Debug, Default, PartialEq)]
struct Seen {
    read: Vec<u64>,
    longest_round_trip: Nanos,
}

impl Observer for Seen {
    fn read(&mut self, _: usize, flow: u32, bytes: u64) {
        self.read[flow as usize] += bytes;
    }

    fn round_trip(&mut self, _: usize, _: u32, took: Nanos) {
        self.longest_round_trip = self.longest_round_trip.max(took);
    }
}

#[derive(Clone, Copy)]
struct Machine {
    flows: u32,
    rate: Rate,
    slots: u32,
    ring: u32,
    hypervisor_slots: u32,
    guest: GuestQueue,
    hypervisor: WhenFull,
}

/// A machine with 400 flows at 400 Mbit/s over 2 ms. The guest's queue has 100 super-packets, and
/// the hypervisor's has a thousand segments, more than the ring.
const MANY: Machine = Machine {
    flows: 400,
    rate: Rate::from_mbps(400),
    slots: 100,
    ring: 64,
    hypervisor_slots: 1000,
    guest: GuestQueue::Linux,
    hypervisor: WhenFull::Drop,
};

/// The guest's queues, each with the usual behaviour of the hypervisor.
const QUEUES: [(GuestQueue, WhenFull); 3] = [
    (GuestQueue::Linux, WhenFull::Drop),
    (GuestQueue::Zd, WhenFull::Wait),
    (GuestQueue::Carousel, WhenFull::Drop),
];

struct Run {
    seen: Seen,
    totals: Totals,
    egress: EgressCounters,
    goodput: f64,
}

impl Machine {
    /// Builds the network, and the configuration of the egress to add.
    fn network(&self) -> (Simulation<Seen>, Path, EgressSetup) {
        let seen = Seen { read: vec![0; self.flows as usize], ..Seen::default() };
        let mut sim = Simulation::new(1, seen);
        let limit = Limit::packets(self.hypervisor_slots);
        let wire = LinkConfig {
            capacity: Capacity::Constant(self.rate),
            delay: MS,
            queue: Some(Box::new(Fifo::new(fifo::Config { limit }).unwrap())),
            loss: Loss::None,
            jitter: Jitter { up_to: Nanos::from_micros(20), reorders: false },
            ..LinkConfig::default()
        };
        let (link, back) = (sim.add_link(wire).unwrap(), sim.add_link(reverse_link()).unwrap());
        let through = |link| Route { hops: vec![Hop::Link(link)], source: 0, class: 0 };
        let route = sim.add_route(through(link)).unwrap();
        let backward = sim.add_route(through(back)).unwrap();
        let Self { slots, ring, guest, hypervisor, .. } = *self;
        let setup = EgressSetup { route, link, slots, ring, guest, hypervisor };
        (sim, Path { forward: route, backward, rtt: MS * 2 }, setup)
    }

    fn run(&self, time: Nanos) -> Run {
        let (mut sim, path, setup) = self.network();
        let kind = TrafficKind::Bulk { flows: self.flows, congestion: Congestion::Cubic };
        sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop: time, ecn: None, kind }).unwrap();
        sim.add_egress(setup).unwrap();
        sim.run_until(time);
        let totals = sim.totals();
        assert_eq!(totals.made, totals.delivered + totals.dropped + totals.live, "{totals:?}");
        assert_eq!(
            sim.link(setup.link).dropped,
            0,
            "a super-packet that does not fit is dropped before the link"
        );
        let egress = sim.egress(setup.route).unwrap();
        let seen = std::mem::take(sim.observer_mut());
        let goodput = Rate::from_bytes_over(Bytes(seen.read.iter().sum()), time).as_mbps_f64();
        Run { seen, totals, egress, goodput }
    }
}

fn reverse_link() -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Unlimited,
        delay: MS,
        queue: None,
        loss: Loss::None,
        jitter: Jitter::default(),
        ..LinkConfig::default()
    }
}

/// Returns the payload rate of the wire in Mbit/s.
fn most(machine: &Machine) -> f64 {
    machine.rate.as_mbps_f64() * 1448.0 / 1514.0
}

#[test]
fn backpressure_drops_nothing_and_no_flow_starves() {
    let machine = Machine { guest: GuestQueue::Zd, hypervisor: WhenFull::Wait, ..MANY };
    for hypervisor_slots in [50, 1000] {
        let run = Machine { hypervisor_slots, ..machine }.run(S * 3);
        assert_eq!((run.egress.virtual_drops, run.egress.physical_drops), (0, 0));
        assert_eq!((run.totals.retransmissions, run.totals.timeouts), (0, 0));
        assert!(run.egress.longest <= 100 && run.egress.paused > 1000, "{:?}", run.egress);
        assert!(run.egress.resumed <= run.egress.paused);
        assert!(run.goodput > 0.98 * most(&MANY), "{}", run.goodput);
        let (least, most) = (run.seen.read.iter().min(), run.seen.read.iter().max());
        assert!(most.unwrap() < &(least.unwrap() * 3), "{least:?} {most:?}");
        // A segment waits for at most 100 super-packets (of eight segments on such a short path)
        // and a full ring: 26 ms. Its acknowledgement is delayed by 40 ms at most.
        assert!(run.seen.longest_round_trip < MS * 70, "{:?}", run.seen.longest_round_trip);
    }
}

#[test]
fn linux_refuses_super_packets_and_loses_none_if_the_ring_is_full() {
    let run = MANY.run(S * 3);
    assert!(run.egress.virtual_drops > 1000, "{:?}", run.egress);
    assert_eq!(run.egress.physical_drops, 0);
    assert_eq!(run.totals.dropped, 0, "a virtual drop loses no packet");
    assert!(run.egress.longest == 100 && run.goodput > 0.9 * most(&MANY), "{}", run.goodput);
}

#[test]
fn linux_loses_super_packets_if_the_hypervisor_is_full_and_backpressure_does_not() {
    let machine = Machine { ring: 256, hypervisor_slots: 100, ..MANY };
    let linux = machine.run(S * 3);
    assert!(linux.egress.physical_drops > 1000, "{:?}", linux.egress);
    assert!(linux.totals.retransmissions > 1000, "{:?}", linux.totals);
    let half = Machine { hypervisor: WhenFull::Wait, ..machine }.run(S * 3);
    assert_eq!((half.egress.physical_drops, half.totals.retransmissions), (0, 0));
    assert!(half.egress.virtual_drops > 0, "the guest's queue is still that of Linux");
}

#[test]
fn carousel_refuses_super_packets_of_too_many_flows() {
    let run = Machine { guest: GuestQueue::Carousel, ..MANY }.run(S * 3);
    // Two super-packets of each flow do not fit (thesis, section 4.5.2).
    assert!(run.egress.virtual_drops > 1000, "{:?}", run.egress);
    assert_eq!((run.egress.longest, run.totals.dropped), (100, 0));
}

#[test]
fn few_flows_are_not_slowed_down() {
    for (guest, hypervisor) in QUEUES {
        let run = Machine { flows: 4, guest, hypervisor, ..MANY }.run(S * 3);
        assert_eq!((run.egress.virtual_drops, run.egress.physical_drops), (0, 0));
        assert!(run.goodput > 0.95 * most(&MANY), "{guest:?}: {}", run.goodput);
        assert!(run.egress.longest <= 8, "two super-packets each: {:?}", run.egress);
        // 100 Mbit/s per flow are 8 segments per millisecond.
        let large: u64 = run.egress.sizes[5..].iter().sum();
        assert!(large > run.egress.accepted / 2, "{:?}", run.egress.sizes);
    }
}

#[test]
fn two_runs_are_equal() {
    for (guest, hypervisor) in QUEUES {
        let run = || {
            let run = Machine { guest, hypervisor, ..MANY }.run(S);
            (run.seen, run.totals, run.egress)
        };
        assert_eq!(run(), run());
    }
}

#[test]
fn impossible_machines_are_refused() {
    let refused = |machine: Machine| {
        let (mut sim, _, setup) = machine.network();
        matches!(sim.add_egress(setup), Err(SetupError::Range { .. }))
    };
    assert!(refused(Machine { slots: 0, ..MANY }) && refused(Machine { ring: 0, ..MANY }));
    assert!(refused(Machine { hypervisor_slots: 47, ..MANY }));
    let (mut sim, path, setup) = MANY.network();
    assert!(sim.add_egress(EgressSetup { route: path.backward, ..setup }).is_err());
    sim.add_egress(setup).unwrap();
    assert!(sim.add_egress(setup).is_err(), "a link has one machine");
}
