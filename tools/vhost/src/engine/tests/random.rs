//! Random histories of rings, rooms and times.

use forebay_units::Nanos;
use proptest::prelude::*;

use super::{Kind, World, fill, order, super_packet};
use crate::config::{Mode, Schedule};
use crate::packet::Source;

#[derive(Clone, Debug)]
enum Step {
    Send(usize, usize),
    Room(usize),
    Time(u64),
    Restart(usize),
    /// A ring is switched off, and on again by the next such step.
    Switch(usize),
    Turn,
}

fn steps(drivers: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..drivers, 18usize..1500).prop_map(|(driver, len)| Step::Send(driver, len)),
        2 => (0usize..6).prop_map(Step::Room),
        2 => (0u64..2_000_000).prop_map(Step::Time),
        1 => (0..drivers).prop_map(Step::Restart),
        1 => (0..drivers).prop_map(Step::Switch),
        4 => Just(Step::Turn),
    ];
    prop::collection::vec(step, 1..300)
}

/// Drives backlogged machines with these numbers of rings; returns the machine of each packet in
/// the order of departure.
fn order_of_machines(
    schedule: Schedule,
    (limit, in_buffer): (u32, u16),
    queues: &[u8],
    steps: &[(usize, u64)],
) -> Vec<usize> {
    let mut world = World::with_rings(Mode::Zd, schedule, limit, in_buffer, queues, true);
    for (room, time) in steps {
        for driver in 0..world.sent.len() {
            fill(&mut world, driver, 1000);
        }
        world.wire.room.set(*room);
        world.now += Nanos(*time);
        world.turn();
    }
    order(&world).into_iter().map(|driver| world.owners[driver].0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// A machine has the same share of the port with any number of rings: packet by packet, the
    /// order of the machines is that of machines with one ring each.
    #[test]
    fn rings_do_not_change_the_shares_of_machines(
        queues in prop::collection::vec(1u8..=16, 3),
        schedule in prop_oneof![Just(Schedule::Fifo), Just(Schedule::Fair), Just(Schedule::Strict)],
        limit in 6u32..10,
        in_buffer in prop_oneof![Just(u16::MAX), 1u16..10],
        steps in prop::collection::vec((0usize..6, 0u64..500_000), 1..40),
    ) {
        let buffer = (limit, in_buffer);
        let with_rings = order_of_machines(schedule, buffer, &queues, &steps);
        prop_assert_eq!(with_rings, order_of_machines(schedule, buffer, &[1, 1, 1], &steps));
    }

    /// With zD every frame leaves once and in order, although guests kick only on request, the port
    /// is often full, and front ends stop and restart rings.
    #[test]
    fn every_frame_leaves_once_and_in_order(
        steps in steps(3),
        limit in 6u32..20,
        schedule in prop_oneof![Just(Schedule::Fifo), Just(Schedule::Fair), Just(Schedule::Strict)],
        event_index: bool,
    ) {
        let mut world = World::new(Mode::Zd, schedule, limit, 3, event_index);
        for step in steps {
            match step {
                Step::Send(vm, len) => world.send(vm, len),
                Step::Room(n) => world.wire.room.set(n),
                Step::Time(t) => world.now += Nanos(t),
                Step::Restart(vm) | Step::Switch(vm) => {
                    let next = world.stop(vm, Kind::Transmit);
                    world.start(vm, Kind::Transmit, next);
                }
                Step::Turn => world.turn(),
            }
        }
        world.settle();
        for vm in 0..3 {
            prop_assert_eq!(world.left(vm), (0..world.sent[vm]).collect::<Vec<_>>(), "vm {}", vm);
            let counts = world.counts(vm);
            prop_assert_eq!(counts.taken, u64::from(world.sent[vm]));
            prop_assert_eq!(counts.sent, counts.taken);
            prop_assert_eq!(counts.dropped, Default::default());
            world.transmit[vm].reap();
            let idle = world.engine.vms[vm].occupancy().map(|o| o.waiting);
            prop_assert_eq!(idle, Some(0));
        }
    }

    /// The same with several rings for each machine, each of which may be off for some time.
    #[test]
    fn frames_of_several_rings_leave_once_and_in_order(
        steps in steps(8),
        limit in 6u32..20,
        in_buffer in prop_oneof![Just(u16::MAX), 1u16..10],
        schedule in prop_oneof![Just(Schedule::Fifo), Just(Schedule::Fair), Just(Schedule::Strict)],
        event_index: bool,
    ) {
        let queues = [3, 1, 4];
        let mut world =
            World::with_rings(Mode::Zd, schedule, limit, in_buffer, &queues, event_index);
        let mut off = [None; 8];
        for step in steps {
            match step {
                Step::Send(driver, len) => world.send(driver, len),
                Step::Room(n) => world.wire.room.set(n),
                Step::Time(t) => world.now += Nanos(t),
                Step::Restart(driver) if off[driver].is_none() => {
                    let next = world.stop(driver, Kind::Transmit);
                    world.start(driver, Kind::Transmit, next);
                }
                Step::Restart(_) => {}
                Step::Switch(driver) => match off[driver].take() {
                    Some(next) => world.start(driver, Kind::Transmit, next),
                    None => off[driver] = Some(world.stop(driver, Kind::Transmit)),
                },
                Step::Turn => world.turn(),
            }
        }
        for (driver, next) in off.into_iter().enumerate() {
            if let Some(next) = next {
                world.start(driver, Kind::Transmit, next);
            }
        }
        world.settle();
        for driver in 0..8 {
            let all: Vec<_> = (0..world.sent[driver]).collect();
            prop_assert_eq!(world.left(driver), all, "driver {}", driver);
            let (vm, pair) = world.owners[driver];
            prop_assert_eq!(world.engine.scheduler.in_buffer(Source { vm: vm as u8, ring: pair }), 0);
            let ring = &world.engine.vms[vm].transmit[usize::from(pair)];
            prop_assert_eq!(ring.taken, u64::from(world.sent[driver]));
        }
        for vm in 0..3 {
            let counts = world.counts(vm);
            prop_assert_eq!((counts.sent, counts.dropped), (counts.taken, Default::default()));
            prop_assert_eq!(world.engine.vms[vm].occupancy().map(|o| o.waiting), Some(0));
        }
    }

    /// All segments of super-packets leave in order, with any amount of room.
    #[test]
    fn super_packets_leave_as_segments(
        payloads in prop::collection::vec(1usize..3800, 1..12),
        limit in 2u32..8,
        size in 100u16..1460,
    ) {
        let mut world = World::new(Mode::Zd, Schedule::Fifo, limit, 1, true);
        let mut expected: Vec<u8> = Vec::new();
        for (i, len) in payloads.iter().enumerate() {
            let payload: Vec<u8> = (0..*len).map(|j| (i * 31 + j) as u8).collect();
            expected.extend(&payload);
            let frame = super_packet(&payload);
            let mut header = [1, 1, 54, 0, 0, 0, 34, 0, 16, 0, 0, 0];
            header[4..6].copy_from_slice(&size.to_le_bytes());
            world.send_frame(0, header, &frame);
            world.turn();
        }
        let sent = world.sent[0];
        world.settle();
        if sent == payloads.len() as u32 {
            let out = world.wire.out.borrow();
            let got: Vec<u8> = out.iter().flat_map(|f| f[54..].to_vec()).collect();
            prop_assert_eq!(got, expected);
            prop_assert!(out.iter().all(|f| f.len() <= 54 + usize::from(size)));
        }
        prop_assert_eq!(world.counts(0).dropped, Default::default());
    }
}
