//! Tests of the data thread with a driver's rings, a way out whose room the test controls, and a
//! driven clock.

mod random;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use forebay_queue::Limit;
use forebay_units::Rate;
use vm_memory::{FileOffset, GuestAddress};

use super::*;
use crate::config::{Mode, Schedule, SchedulerConfig};
use crate::features;
use crate::offload::{HEADER, Offload};
use crate::packet::Source;
use crate::ring::driver::{Driver, memory};
use crate::truncation::Watch;

const SIZE: u16 = 16;
/// Size of rings that a turn does not empty.
const LARGE: u16 = 64;
/// An address that no virtual machine has.
const ELSEWHERE: [u8; 6] = [2, 0, 0, 0, 0, 99];

#[derive(Default)]
struct Wire {
    out: RefCell<Vec<Vec<u8>>>,
    room: Cell<usize>,
    coming: RefCell<VecDeque<(Offload, Vec<u8>)>>,
}

struct Fake(Rc<Wire>);

impl Egress for Fake {
    fn carries_offloads(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Offload, frame: &[u8]) -> Sent {
        if self.0.room.get() == 0 {
            return Sent::NoRoom;
        }
        self.0.room.set(self.0.room.get() - 1);
        self.0.out.borrow_mut().push(frame.to_vec());
        Sent::Done
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Offload, &[u8])) {
        for _ in 0..limit {
            let Some((offload, frame)) = self.0.coming.borrow_mut().pop_front() else { return };
            each(offload, &frame);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn lost(&mut self) -> (u64, u64) {
        (0, 0)
    }

    fn describe(&self) -> String {
        "nothing".to_owned()
    }
}

struct World {
    engine: Engine,
    wire: Rc<Wire>,
    transmit: Vec<Driver>,
    receive: Vec<Driver>,
    /// The machine and the pair of each driver.
    owners: Vec<(usize, u8)>,
    sent: Vec<u32>,
    now: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Receive,
    Transmit,
}

impl World {
    fn new(mode: Mode, schedule: Schedule, limit: u32, vms: usize, event_index: bool) -> Self {
        let config = Self::config(mode, schedule, limit, u16::MAX);
        Self::with_size(SIZE, config, &vec![1; vms], event_index)
    }

    fn config(mode: Mode, schedule: Schedule, limit: u32, in_buffer: u16) -> SchedulerConfig {
        SchedulerConfig {
            mode,
            schedule,
            rate: Some(Rate::from_mbps(100)),
            burst: Nanos::from_micros(250),
            limit: Limit::packets(limit),
            in_buffer,
        }
    }

    /// Creates a world whose machines have these numbers of pairs of rings. The drivers of all
    /// machines are in one list, machine by machine.
    fn with_rings(
        mode: Mode,
        schedule: Schedule,
        limit: u32,
        in_buffer: u16,
        queues: &[u8],
        event_index: bool,
    ) -> Self {
        let config = Self::config(mode, schedule, limit, in_buffer);
        Self::with_size(LARGE, config, queues, event_index)
    }

    fn with_size(size: u16, config: SchedulerConfig, queues: &[u8], event_index: bool) -> Self {
        let vms: Vec<_> = queues.iter().enumerate().map(|(i, n)| vm_with(i, *n)).collect();
        let all = queues.iter().map(|n| usize::from(*n)).sum();
        let owners = queues.iter().enumerate();
        let owners = owners.flat_map(|(vm, n)| (0..*n).map(move |pair| (vm, pair))).collect();
        let scheduler = Scheduler::new(&config, &vms, 1).unwrap();
        let wire = Rc::new(Wire::default());
        let (_, commands) = crate::session::channel().unwrap();
        let (memory, places) = memory(size, 2 * all as u64);
        let driver = |i: usize| Driver::new(Arc::clone(&memory), places[i], size, event_index);
        let transmit = (0..all).map(|i| driver(2 * i)).collect();
        let receive = (0..all).map(|i| driver(2 * i + 1)).collect();
        let sent = vec![0; all];
        let engine = Engine::new(vms, scheduler, Box::new(Fake(Rc::clone(&wire))), commands);
        let now = Nanos::from_millis(1);
        let mut world = Self { engine, wire, transmit, receive, owners, sent, now };
        for i in 0..world.sent.len() {
            world.start(i, Kind::Transmit, 0);
            world.start(i, Kind::Receive, 0);
        }
        world
    }

    /// The machine and the ring of a driver.
    fn ring(&self, driver: usize, kind: Kind) -> (usize, RingId) {
        let (vm, pair) = self.owners[driver];
        (vm, if kind == Kind::Transmit { RingId::Transmit(pair) } else { RingId::Receive(pair) })
    }

    fn start(&mut self, driver: usize, kind: Kind, next: u16) {
        let (vm, ring) = self.ring(driver, kind);
        let driver = match kind {
            Kind::Transmit => &self.transmit[driver],
            Kind::Receive => &self.receive[driver],
        };
        let setup = Box::new(crate::ring::Setup { next, ..driver.setup(true) });
        let memory = Arc::clone(&driver.memory);
        let features = features::OFFERED;
        let watch = Watch::of(&memory).unwrap();
        let start = Command::Start { vm, ring, setup, watch, memory, features, error: None };
        self.engine.handle_command(self.now, start);
    }

    /// Starts the control queue of a machine, in a memory of its own.
    fn start_control(&mut self, vm: usize) -> Driver {
        let (memory, places) = memory(SIZE, 1);
        let driver = Driver::new(Arc::clone(&memory), places[0], SIZE, true);
        let (setup, watch) = (Box::new(driver.setup(true)), Watch::of(&memory).unwrap());
        let (ring, features) = (RingId::Control, features::offered(2));
        let start = Command::Start { vm, ring, setup, watch, memory, features, error: None };
        self.engine.handle_command(self.now, start);
        self.turn();
        driver
    }

    /// Stops a ring as a front end does; returns the index of its next chain.
    fn stop(&mut self, driver: usize, kind: Kind) -> u16 {
        let (vm, ring) = self.ring(driver, kind);
        let (answer, answered) = sync_channel(1);
        self.engine.handle_command(self.now, Command::Stop { vm, ring, answer });
        answered.recv().unwrap().unwrap()
    }

    /// Sends the guest's next frame, if its ring has room, and kicks on request.
    fn send(&mut self, vm: usize, len: usize) {
        let frame = numbered(vm, self.sent[vm], len);
        self.send_frame(vm, [0; HEADER], &frame);
    }

    fn send_frame(&mut self, vm: usize, header: [u8; HEADER], frame: &[u8]) {
        let (owner, ring) = self.ring(vm, Kind::Transmit);
        let driver = &mut self.transmit[vm];
        driver.reap();
        let before = driver.available();
        if driver.send(header, frame, HEADER).is_some() {
            self.sent[vm] += 1;
            if driver.wants_kick(before) {
                self.engine.on_kick(owner, ring);
            }
        }
    }

    /// Runs turns of the loop until it would sleep.
    fn turn(&mut self) {
        for _ in 0..1000 {
            self.engine.read_rings(self.now);
            self.engine.answer_requests();
            let more = self.engine.send_due(self.now);
            self.engine.receive();
            self.engine.call();
            if !more && !self.engine.vms.iter().any(|vm| vm.ready) {
                return;
            }
        }
        panic!("the loop does not come to rest");
    }

    /// Runs until nothing is pending, with unlimited room.
    fn settle(&mut self) {
        self.wire.room.set(usize::MAX);
        self.engine.send_due(self.now);
        loop {
            self.turn();
            match self.engine.scheduler.next_event(self.now) {
                Some(next) => self.now = next.max(self.now + Nanos(1)),
                None => return,
            }
        }
    }

    /// Numbers of a guest's frames that left, in order.
    fn left(&self, vm: usize) -> Vec<u32> {
        let out = self.wire.out.borrow();
        let own = out.iter().filter(|f| usize::from(f[11]) == vm);
        own.map(|f| u32::from_be_bytes(f[14..18].try_into().unwrap())).collect()
    }

    fn counts(&self, vm: usize) -> crate::statistics::Counts {
        self.engine.vms[vm].counts
    }
}

fn vm_with(index: usize, queues: u8) -> VmConfig {
    VmConfig {
        name: format!("vm{index}"),
        socket: "/nowhere".into(),
        mac: mac(index),
        weight: 1,
        rate: None,
        queues,
    }
}

fn mac(vm: usize) -> [u8; 6] {
    [2, 0xfb, 0, 0, 0, vm as u8]
}

/// Builds a frame for outside that carries its sender and number.
fn numbered(vm: usize, number: u32, len: usize) -> Vec<u8> {
    let mut frame = [ELSEWHERE, mac(vm)].concat();
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(len.max(18), 0);
    frame
}

#[test]
fn a_full_buffer_leaves_packets_in_the_ring() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 4, 1, true);
    for _ in 0..10 {
        world.send(0, 100);
        world.turn();
    }
    let counts = world.counts(0);
    assert_eq!(
        (counts.taken, counts.paused),
        (4 + 1, 1),
        "one has left the shaper, and waits for the port"
    );
    assert_eq!(world.engine.vms[0].occupancy().map(|o| o.waiting), Some(5));
    world.settle();
    assert_eq!(world.left(0), (0..10).collect::<Vec<_>>());
    assert_eq!(world.counts(0).dropped, Default::default());
    assert_eq!(world.transmit[0].reap().len(), 5, "the rest was handed back before");
}

#[test]
fn mode_drop_takes_and_drops_packets() {
    let mut world = World::new(Mode::Drop, Schedule::Fifo, 4, 1, true);
    for _ in 0..10 {
        world.send(0, 100);
        world.turn();
    }
    world.settle();
    let counts = world.counts(0);
    assert_eq!((counts.taken, counts.dropped.queue, counts.sent, counts.paused), (10, 5, 5, 0));
    assert_eq!(world.left(0), [0, 1, 2, 3, 4], "a FIFO drops what comes last");
}

#[test]
fn a_paused_guest_does_not_delay_another() {
    let mut world = World::new(Mode::Zd, Schedule::Fair, 8, 2, true);
    for _ in 0..16 {
        world.send(0, 1500);
    }
    world.turn();
    world.send(1, 100);
    world.turn();
    world.wire.room.set(usize::MAX);
    world.now += Nanos::from_millis(1);
    world.settle();
    let order: Vec<_> = world.wire.out.borrow().iter().map(|f| f[11]).collect();
    let place = order.iter().position(|vm| *vm == 1).unwrap();
    assert!(place <= 2, "behind what had left, and one turn: {order:?}");
}

#[test]
fn guests_reach_each_other_and_multicast_reaches_all() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 100, 3, true);
    for rx in &mut world.receive {
        rx.post(2048).unwrap();
        rx.post(2048).unwrap();
    }
    let to = |destination: [u8; 6]| [&destination[..], &mac(0), &[0x88, 0xb5], &[7; 50]].concat();
    world.send_frame(0, [0; HEADER], &to(mac(1)));
    world.settle();
    assert!(world.wire.out.borrow().is_empty(), "it stays here");
    world.send_frame(0, [0; HEADER], &to([0xff; 6]));
    world.settle();
    let got: Vec<_> = world.receive.iter_mut().map(|rx| rx.reap().len()).collect();
    assert_eq!(got, [0, 2, 1]);
    assert_eq!(world.wire.out.borrow().len(), 1);
    // From outside: a known and an unknown destination.
    world.wire.coming.borrow_mut().push_back((Offload::default(), to(mac(2))));
    world.wire.coming.borrow_mut().push_back((Offload::default(), to(ELSEWHERE)));
    world.turn();
    assert_eq!(world.receive[2].reap().len(), 1);
    assert_eq!((world.engine.unknown, world.counts(2).received), (1, 2));
}

#[test]
fn a_bounded_number_of_frames_waits_for_buffers() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 100, 1, true);
    let frame = [&mac(0)[..], &ELSEWHERE, &[0x88, 0xb5], &[7; 50]].concat();
    for _ in 0..300 {
        world.wire.coming.borrow_mut().push_back((Offload::default(), frame.clone()));
    }
    world.turn();
    world.turn();
    assert_eq!(world.counts(0).receive_dropped, 300 - 256);
    let before = world.receive[0].available();
    world.receive[0].post(2048).unwrap();
    assert!(world.receive[0].wants_kick(before), "it asked to hear of buffers");
    world.engine.on_kick(0, RingId::Receive(0));
    assert_eq!((world.counts(0).received, world.receive[0].reap().len()), (1, 1));
}

#[test]
fn an_invalid_ring_affects_only_its_guest() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 100, 2, true);
    let available = world.transmit[0].setup(false).available;
    world.transmit[0].write(available + 2, &[200, 200]);
    world.engine.on_kick(0, RingId::Transmit(0));
    world.send(1, 100);
    world.settle();
    assert_eq!((world.counts(0).broken, world.left(1)), (1, vec![0]));
    assert!(world.engine.vms[0].transmit[0].running.is_none());
    // The ring works after it is set up again.
    world.transmit[0].write(available + 2, &[0, 0]);
    world.start(0, Kind::Transmit, 0);
    world.send(0, 100);
    world.settle();
    assert_eq!(world.left(0), [0]);
}

#[test]
fn a_paused_guest_that_disconnects_is_forgotten() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 4, 2, true);
    for _ in 0..10 {
        world.send(0, 100);
    }
    world.turn();
    assert!(world.engine.vms[0].paused.is_some());
    world.engine.handle_command(world.now, Command::Disconnected { vm: 0, why: "test".to_owned() });
    world.send(1, 100);
    world.settle();
    assert_eq!(world.left(0), [0, 1, 2, 3, 4], "what was taken");
    assert_eq!(world.left(1), [0]);
}

/// Sends as many frames as the ring has room for.
fn fill(world: &mut World, driver: usize, len: usize) {
    let mut before = None;
    while before != Some(world.sent[driver]) {
        before = Some(world.sent[driver]);
        world.send(driver, len);
    }
}

/// Order in which frames have left, by driver.
fn order(world: &World) -> Vec<usize> {
    world.wire.out.borrow().iter().map(|f| usize::from(f[11])).collect()
}

/// A greedy flow and one packet of another flow of the same machine. Returns how many of the greedy
/// flow's packets leave before that packet, and how many wait in its ring when it arrives.
fn packets_before(mode: Mode, in_buffer: u16, queues: u8) -> (usize, u16) {
    let mut world = World::with_rings(mode, Schedule::Fair, 100, in_buffer, &[queues], true);
    for _ in 0..15 {
        world.send(0, 1500);
    }
    world.turn();
    let waiting = world.engine.vms[0].transmit[0].running.as_ref().unwrap();
    let waiting = waiting.ring.waiting().unwrap();
    // With one ring, the packet of the other flow comes from the same driver.
    let light = usize::from(queues - 1);
    let before = world.left(0).len();
    let frame = numbered(77, 0, 100);
    world.send_frame(light, [0; HEADER], &frame);
    world.turn();
    world.settle();
    let place = order(&world).iter().position(|owner| *owner == 77);
    (place.unwrap() - before, waiting)
}

#[test]
fn a_greedy_flow_is_paused_and_a_flow_in_another_ring_is_not() {
    // The greedy flow has five packets in the buffer and one at the port; the rest of its ring
    // waits, and a packet behind it in the same ring too.
    let (one, waiting) = packets_before(Mode::Zd, 5, 1);
    assert_eq!((one, waiting), (15, 9));
    for queues in [2, 4, 16] {
        let (own, waiting) = packets_before(Mode::Zd, 5, queues);
        assert_eq!((own, waiting), (6, 9), "only what was in the buffer and at the port");
    }
    // Without backpressure it waits behind all of them, in whichever ring it is.
    assert_eq!(packets_before(Mode::Drop, u16::MAX, 4), (15, 0));
}

#[test]
fn the_places_of_a_machine_are_shared_by_its_rings() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fair, 100, 6, &[4], true);
    fill(&mut world, 0, 1000);
    world.turn();
    assert_eq!(world.engine.scheduler.in_buffer(Source { vm: 0, ring: 0 }), 6, "alone");
    // Each packet that leaves gives its place to the ring with the fewest.
    for _ in 0..9 {
        (0..3).for_each(|driver| fill(&mut world, driver, 1000));
        world.wire.room.set(1);
        world.now += Nanos::from_millis(1);
        world.turn();
    }
    let own = |ring| world.engine.scheduler.in_buffer(Source { vm: 0, ring });
    assert_eq!([own(0), own(1), own(2), own(3)], [2, 2, 2, 0]);
    let status = world.engine.vms[0].ring_status();
    assert!(status[0].paused > 0 && status[3].paused == 0, "{status:?}");
    world.settle();
    for driver in 0..3 {
        assert_eq!(world.left(driver).len(), world.sent[driver] as usize, "driver {driver}");
    }
}

#[test]
fn the_driver_sets_the_number_of_pairs_in_use() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fifo, 100, u16::MAX, &[4], true);
    // Without a control queue all rings that run get frames.
    assert_eq!(world.engine.vms[0].pairs_to_receive(), 4);
    let mut control = world.start_control(0);
    assert_eq!(world.engine.vms[0].pairs_to_receive(), 1, "until the driver says otherwise");
    let long = [4; 100];
    let cases: [(&[u8], u8, usize); 9] = [
        (&[4, 0, 4, 0], 0, 4),
        (&[4, 0, 5, 0], 1, 4),
        (&[4, 0, 0, 0], 1, 4),
        (&[4, 0, 2, 0], 0, 2),
        (&[4, 0, 2, 1], 1, 2),
        (&[4, 1, 3, 0], 1, 2),
        (&[0, 0, 1], 1, 2),
        (&[4], 1, 2),
        (&long, 1, 2),
    ];
    for (request, answer, pairs) in cases {
        let before = control.available();
        let head = control.request(request).unwrap();
        if control.wants_kick(before) {
            world.engine.on_kick(0, RingId::Control);
        }
        world.turn();
        assert_eq!(control.answer_of(head), answer, "{request:?}");
        assert_eq!(control.reap().len(), 1);
        assert_eq!(world.engine.vms[0].pairs_to_receive(), pairs, "{request:?}");
    }
    world.engine.handle_command(world.now, Command::Reset { vm: 0 });
    assert_eq!(world.engine.vms[0].pairs_to_receive(), 1);
    world.engine.handle_command(world.now, Command::Disconnected { vm: 0, why: String::new() });
    assert!(world.engine.vms[0].control.is_none() && !world.engine.vms[0].receives());
    world.turn();
}

#[test]
fn an_invalid_control_queue_is_given_up_alone() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fifo, 100, u16::MAX, &[2], true);
    let control = world.start_control(0);
    control.write(control.setup(false).available + 2, &[200, 200]);
    world.engine.on_kick(0, RingId::Control);
    world.send(0, 100);
    world.settle();
    assert!(world.engine.vms[0].control.is_none() && !world.engine.vms[0].control_ready);
    assert_eq!((world.counts(0).broken, world.left(0)), (1, vec![0]));
}

/// Builds a UDP/IPv4 frame for the machine 0 with this source port and number.
fn arriving(port: u16, number: u8) -> Vec<u8> {
    let mut frame = [mac(0), ELSEWHERE].concat();
    frame.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80, 0, 12, 0, 0, number, 0, 0, 0]);
    frame.resize(60, 0);
    frame
}

#[test]
fn a_flow_arrives_in_one_ring_and_in_order() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fifo, 100, u16::MAX, &[4], true);
    let mut control = world.start_control(0);
    let mut expected = 1;
    for pairs in [1, 4, 3] {
        if pairs > 1 {
            control.request(&[4, 0, pairs, 0]).unwrap();
            world.engine.on_kick(0, RingId::Control);
            world.turn();
            expected = usize::from(pairs);
        }
        let mut rings = vec![Vec::new(); 64];
        for number in 0..3 {
            for port in 0..64 {
                for driver in 0..4 {
                    world.receive[driver].post(2048);
                }
                let frame = arriving(1000 + port, number);
                world.wire.coming.borrow_mut().push_back((Offload::default(), frame));
                world.turn();
                for driver in 0..4 {
                    for (_, bytes) in world.receive[driver].reap() {
                        let own = usize::from(bytes[HEADER + 35]);
                        let port = (usize::from(bytes[HEADER + 34]) << 8 | own) - 1000;
                        rings[port].push((driver, bytes[HEADER + 42]));
                    }
                }
            }
        }
        let mut used = std::collections::BTreeSet::new();
        for flow in &rings {
            let ring = flow[0].0;
            assert_eq!(*flow, [(ring, 0), (ring, 1), (ring, 2)], "of {pairs} pairs");
            used.insert(ring);
        }
        assert_eq!(used, (0..expected).collect(), "of {pairs} pairs");
    }
    assert_eq!(world.counts(0).receive_dropped, 0);
}

#[test]
fn frames_wait_for_each_ring_up_to_its_part() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fifo, 100, u16::MAX, &[4], true);
    for number in 0..200 {
        let frame = arriving(1000, number);
        world.wire.coming.borrow_mut().push_back((Offload::default(), frame));
    }
    world.turn();
    assert_eq!(world.counts(0).receive_dropped, 200 - 256 / 4);
    // A flow in a ring with buffers does not wait for them.
    for driver in 0..4 {
        if world.engine.vms[0].receive[driver].waiting.is_empty() {
            world.receive[driver].post(2048).unwrap();
        }
    }
    for port in 1001..1020 {
        world.wire.coming.borrow_mut().push_back((Offload::default(), arriving(port, 0)));
    }
    world.turn();
    assert_eq!(world.counts(0).received, 3);
}

#[test]
fn frames_do_not_wait_for_rings_that_are_not_in_use() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fifo, 100, u16::MAX, &[2], true);
    let mut control = world.start_control(0);
    for (pairs, waiting) in [(2, true), (1, false)] {
        control.request(&[4, 0, pairs, 0]).unwrap();
        world.engine.on_kick(0, RingId::Control);
        world.turn();
        assert!(world.engine.vms[0].receive[1].waiting.is_empty());
        for port in 0..16 {
            world.wire.coming.borrow_mut().push_back((Offload::default(), arriving(port, 0)));
        }
        world.turn();
        assert_eq!(!world.engine.vms[0].receive[1].waiting.is_empty(), waiting);
    }
    let lost = world.counts(0).receive_dropped;
    let first = world.engine.vms[0].receive[0].waiting.len() as u64;
    assert_eq!(lost + first, 32, "each is counted");
}

#[test]
fn a_front_end_that_reconnects_begins_with_new_rings() {
    let mut world = World::with_rings(Mode::Zd, Schedule::Fair, 4, u16::MAX, &[3, 1], true);
    for _ in 0..2 {
        for driver in 0..4 {
            fill(&mut world, driver, 3000);
        }
        world.turn();
        assert!(world.engine.vms[0].paused.is_some());
        let taken = world.counts(0).taken;
        let why = "test".to_owned();
        world.engine.handle_command(world.now, Command::Disconnected { vm: 0, why });
        world.settle();
        assert_eq!((world.counts(0).taken, world.counts(0).sent), (taken, taken));
        // The new driver's rings are in new memory.
        for driver in 0..3 {
            let (memory, places) = memory(LARGE, 1);
            world.transmit[driver] = Driver::new(memory, places[0], LARGE, true);
            world.start(driver, Kind::Transmit, 0);
        }
        world.wire.room.set(0);
    }
    world.send(2, 100);
    world.settle();
    let last = numbered(2, world.sent[2] - 1, 100);
    assert_eq!(world.wire.out.borrow().last(), Some(&last));
}

/// Builds a TCP/IPv4 super-packet for outside, without checksums.
fn super_packet(payload: &[u8]) -> Vec<u8> {
    let mut frame = [ELSEWHERE, mac(0)].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// Of a guest that sends more than the rate, DualPI2 marks L4S packets and drops others, and both
/// are counted.
#[test]
fn marks_and_drops_of_the_aqm_are_counted() {
    let schedule = Schedule::DualPi2(forebay_discipline::Settings::default());
    let mut world = World::new(Mode::Drop, schedule, 1000, 2, true);
    world.wire.room.set(usize::MAX);
    // 12 000 bytes each millisecond of each guest: twice the rate of 100 Mbit/s in all.
    for _ in 0..500 {
        for (vm, ecn) in [(0, 0), (1, 1)] {
            for _ in 0..8 {
                let mut frame = super_packet(&[7; 1446]);
                frame[11] = vm as u8;
                frame[15] = ecn;
                world.send_frame(vm, [0; HEADER], &frame);
            }
        }
        world.now += Nanos::from_millis(1);
        world.turn();
    }
    world.settle();
    let out = world.wire.out.borrow();
    for vm in 0..2 {
        let counts = world.counts(vm);
        let left = || out.iter().filter(|f| usize::from(f[11]) == vm);
        assert_eq!(counts.sent, left().count() as u64);
        assert_eq!(counts.marked, left().filter(|f| f[15] & 3 == 3).count() as u64);
        assert_eq!(counts.taken, counts.sent + counts.dropped.aqm + counts.dropped.queue);
        assert!(counts.dropped.aqm > 100, "an overload: {counts:?}");
        assert_eq!(counts.marked > 100, vm == 1, "{counts:?}");
    }
}

#[test]
fn a_truncated_memory_breaks_only_its_own_rings() {
    let mut world = World::new(Mode::Zd, Schedule::Fifo, 100, 2, true);
    // SAFETY: the name is terminated, and nothing else owns the descriptor.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"guest".as_ptr(), 0)) };
    let length = Driver::room(SIZE).next_multiple_of(0x1000);
    file.set_len(length).unwrap();
    let own = FileOffset::new(file.try_clone().unwrap(), 0);
    let ranges = [(GuestAddress(0), length as usize, Some(own))];
    let memory = Arc::new(crate::ring::Memory::from_ranges_with_files(&ranges).unwrap());
    world.transmit[0] = Driver::new(memory, 0, SIZE, true);
    world.start(0, Kind::Transmit, 0);
    for vm in [0, 1] {
        world.send(vm, 100);
    }
    world.settle();
    assert_eq!((world.left(0), world.left(1)), (vec![0], vec![0]));
    // The kick still comes after the file has lost its pages.
    world.send(0, 100);
    file.set_len(0).unwrap();
    world.engine.vms[0].set_ready(0);
    world.send(1, 100);
    world.settle();
    assert_eq!((world.left(1), world.counts(1).broken), (vec![0, 1], 0));
    assert_eq!(world.counts(0).broken, 1);
    assert!(
        world.engine.vms[0].transmit[0].running.is_none()
            && world.engine.vms[1].transmit[0].running.is_some()
    );
}
