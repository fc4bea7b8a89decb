//! Runs a thousand random schedules over each policy.

use std::fmt::Debug;

use forebay_queue::backpressure::{Config, Hysteresis, Order};
use forebay_queue::{
    Drr, DualPi2, Fifo, FqCodel, Limit, Pi2, Qdisc, Sfq, StrictPriority, TokenBucket, drr, dualpi2,
    fifo, fq_codel, pi2, sfq, token_bucket,
};
use forebay_units::{Bytes, Rate};
use proptest::prelude::*;

use crate::backpressure::packet::Pkt;
use crate::backpressure::world::{Step, World};

const FLOWS: u32 = 9;

#[derive(Clone, Debug)]
struct Schedule {
    config: Config,
    packets: u32,
    events: u32,
    /// The step taken in each state, as an index modulo the number of possible steps.
    choices: Vec<u16>,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let order = prop_oneof![
        Just(Order::Fifo),
        Just(Order::RoundRobin),
        (1..5_u16).prop_map(|classes| Order::Priority { classes }),
    ];
    let hysteresis = prop_oneof![
        (1..9_u32).prop_map(Hysteresis::Packets),
        (1..9_u32).prop_map(Hysteresis::OneIn),
    ];
    let config =
        (1..6_u16, 1..4_u8, order, hysteresis).prop_map(|(in_buffer, turn, order, hysteresis)| {
            let largest = Bytes(1400);
            Config { in_buffer, turn, order, hysteresis, largest, ..Config::default() }
        });
    let choices = prop::collection::vec(any::<u16>(), 50..400);
    (config, 1..20_u32, 0..12_u32, choices).prop_map(|(config, packets, events, choices)| {
        Schedule { config, packets, events, choices }
    })
}

/// Follows the schedule, then runs until no step is left, and checks that everything was sent.
fn follow<Q: Qdisc<Pkt> + Debug>(make: fn() -> Q, schedule: Schedule) {
    let Schedule { config, packets, events, choices } = schedule;
    let mut world = World::new(config, make, FLOWS, packets);
    world.events = events;
    for choice in choices {
        let steps = world.steps();
        if steps.is_empty() {
            break;
        }
        world.apply(steps[usize::from(choice) % steps.len()]);
    }
    // Every packet is offered and sent, and refused at most once for each departing packet. Each
    // flow that an event begins has one packet.
    let packets = FLOWS * packets + events;
    let enough = 4 * packets * (FLOWS + 1) + 100;
    for _ in 0..enough {
        let steps = world.steps();
        let progresses = |s: &&Step| matches!(s, Step::Run { .. } | Step::Dequeue);
        let Some(&step) = steps.iter().find(progresses) else {
            world.assert_done();
            return;
        };
        world.apply(step);
    }
    panic!("no end after {enough} steps");
}

fn fifo(limit: u32) -> Fifo<Pkt> {
    Fifo::new(fifo::Config { limit: Limit::packets(limit) }).unwrap()
}

fn sfq() -> Sfq<Pkt> {
    let perturb = None;
    let config =
        sfq::Config { limit: 9, depth: 3, flows: 4, divisor: 8, perturb, ..Default::default() };
    Sfq::new(config).unwrap()
}

macro_rules! follows {
    ($($name:ident => $make:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(1000))]
            $(#[test]
            fn $name(schedule in schedules()) {
                follow($make, schedule);
            })*
        }
    };
}

follows! {
    a_fifo => || fifo(7);
    a_fifo_of_one => || fifo(1);
    a_fifo_limited_in_bytes => || {
        Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(5000)) }).unwrap()
    };
    sfq_with_shared_buckets => sfq;
    fq_codel => || {
        let memory_limit = Bytes(6000);
        let config = fq_codel::Config { limit: 8, memory_limit, flows: 4, ..Default::default() };
        FqCodel::new(config).unwrap()
    };
    pi2_by_room => || {
        Pi2::new(pi2::Config { limit: Limit::packets(6), ..Default::default() }).unwrap()
    };
    dualpi2_by_room => || {
        DualPi2::new(dualpi2::Config { limit: 6, ..Default::default() }).unwrap()
    };
    strict_priority => || StrictPriority::new(vec![fifo(1), fifo(2), fifo(3)]).unwrap();
    priority_over_fair_queueing => || {
        let children: Vec<Box<dyn Boxed>> = vec![Box::new(fifo(2)), Box::new(sfq())];
        StrictPriority::new(children).unwrap()
    };
    weighted_classes => || {
        Drr::new(drr::Config::default(), vec![(1, fifo(2)), (3, fifo(4))]).unwrap()
    };
    a_shaped_fifo => || {
        let rate = Some(Rate::from_mbps(10));
        TokenBucket::new(token_bucket::Config { rate, ..Default::default() }, fifo(5))
    };
}

/// A boxed qdisc that implements `Debug`.
trait Boxed: Qdisc<Pkt> + Debug {}

impl<Q: Qdisc<Pkt> + Debug> Boxed for Q {}
