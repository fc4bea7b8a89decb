//! Explores every order in which a few flows, the link, ends of flows and a reset can act.
//!
//! The test takes every possible step from each state. A state is everything that the world
//! contains, including the links of the paused-flows queue. `world` checks each state. In addition,
//! no sequence of steps leads back to an earlier state, so there is no endless loop without
//! progress. In a state without steps all packets have been sent.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use forebay_queue::backpressure::{Config, Hysteresis, Order};
use forebay_queue::{Fifo, Limit, Qdisc, Sfq, StrictPriority, fifo, sfq};
use forebay_units::Bytes;

use crate::backpressure::packet::Pkt;
use crate::backpressure::world::{Step, World};

/// A hasher that keeps what is hashed.
#[derive(Default)]
struct Recorder(Vec<u8>);

impl Hasher for Recorder {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("the bytes themselves are the key")
    }
}

/// Returns the bytes of a state, which differ from those of every other state.
fn key(world: &impl Hash) -> Box<[u8]> {
    let mut recorder = Recorder::default();
    world.hash(&mut recorder);
    recorder.0.into()
}

/// Explores all states and returns their number.
fn explore<Q: Qdisc<Pkt> + Clone + Hash>(start: World<Q>) -> usize {
    let mut known = HashMap::from([(key(&start), 0)]);
    let mut next: Vec<Vec<usize>> = Vec::new();
    let mut todo = std::collections::VecDeque::from([start]);
    while let Some(world) = todo.pop_front() {
        let steps = world.steps();
        if !steps.iter().any(|s| matches!(s, Step::Run { .. } | Step::Dequeue)) {
            world.assert_done();
        }
        let mut successors = Vec::new();
        for step in steps {
            let mut after = world.clone();
            after.apply(step);
            let fresh = known.len();
            let index = *known.entry(key(&after)).or_insert(fresh);
            if index == fresh {
                todo.push_back(after);
            }
            successors.push(index);
        }
        next.push(successors);
    }
    assert_acyclic(&next);
    next.len()
}

/// Asserts that no sequence of steps leads back to its start (Kahn's algorithm).
fn assert_acyclic(next: &[Vec<usize>]) {
    let mut predecessors = vec![0; next.len()];
    next.iter().flatten().for_each(|&to| predecessors[to] += 1);
    let mut ready: Vec<_> = (0..next.len()).filter(|&state| predecessors[state] == 0).collect();
    let mut done = 0;
    while let Some(state) = ready.pop() {
        done += 1;
        for &to in &next[state] {
            predecessors[to] -= 1;
            if predecessors[to] == 0 {
                ready.push(to);
            }
        }
    }
    assert_eq!(done, next.len(), "some steps lead back to an earlier state");
}

fn fifo<const N: u32>() -> Fifo<Pkt> {
    Fifo::new(fifo::Config { limit: Limit::packets(N) }).unwrap()
}

/// Returns a FIFO with room for one or two packets, depending on their length.
fn bytes() -> Fifo<Pkt> {
    Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(2900)) }).unwrap()
}

fn classes() -> StrictPriority<Pkt, Fifo<Pkt>> {
    StrictPriority::new(vec![fifo::<1>(), fifo::<2>()]).unwrap()
}

/// Returns a fair queue in which two flows share a bucket, whose limit may refuse them.
fn fair() -> Sfq<Pkt> {
    let config = sfq::Config {
        limit: 3,
        depth: 2,
        flows: 2,
        divisor: 2,
        perturb: None,
        ..Default::default()
    };
    Sfq::new(config).unwrap()
}

const BASE: Config = Config {
    flows: 0,
    in_buffer: 2,
    turn: 2,
    order: Order::Fifo,
    hysteresis: Hysteresis::Packets(1),
    largest: Bytes(1400),
};

fn orders() -> [Order; 3] {
    [Order::Fifo, Order::RoundRobin, Order::Priority { classes: 2 }]
}

/// Explores all small settings over one qdisc, for three flows of `packets` packets each.
///
/// The number of states must exceed `at_least`, which shows that the test covers something.
fn all<Q: Qdisc<Pkt> + Clone + Hash>(make: fn() -> Q, packets: u32, events: u32, at_least: usize) {
    let mut states = 0;
    for order in orders() {
        for (in_buffer, turn) in [(1, 1), (2, 1), (2, 2)] {
            for hysteresis in [Hysteresis::Packets(1), Hysteresis::OneIn(1)] {
                let config = Config { order, in_buffer, turn, hysteresis, ..BASE };
                let mut world = World::new(config, make, 3, packets);
                world.events = events;
                states += explore(world);
            }
        }
    }
    println!("{states} states");
    assert!(states > at_least, "{states} states");
}

#[test]
fn a_fifo_of_one_packet() {
    all(fifo::<1>, 2, 0, 50_000);
}

#[test]
fn a_fifo_of_two_packets() {
    all(fifo::<2>, 2, 0, 50_000);
}

#[test]
fn a_fifo_of_three_packets() {
    all(fifo::<3>, 2, 0, 50_000);
}

#[test]
fn a_fifo_limited_in_bytes() {
    all(bytes, 2, 0, 50_000);
}

#[test]
fn classes_with_separate_room() {
    all(classes, 2, 0, 50_000);
}

#[test]
fn fair_queueing_with_shared_buckets() {
    all(fair, 1, 0, 5_000);
}

#[test]
fn flows_that_end_and_a_reset() {
    all(fifo::<1>, 1, 2, 5_000);
    all(fifo::<2>, 1, 2, 5_000);
    all(classes, 1, 1, 5_000);
    all(fair, 1, 1, 5_000);
}
