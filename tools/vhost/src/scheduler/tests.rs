use forebay_discipline::Settings;
use forebay_queue::{Ecn, Packet as Queueable};
use forebay_units::Rate;
use proptest::prelude::*;

use super::*;
use crate::offload::Offload;
use crate::offload::tests::tcp;
use crate::packet::Source;

fn vm(name: &str, weight: u32, rate: Option<u64>) -> VmConfig {
    VmConfig {
        name: name.to_owned(),
        socket: "/nowhere".into(),
        mac: [2, 0, 0, 0, 0, 1],
        weight,
        rate: rate.map(Rate::from_mbps),
        queues: 1,
    }
}

fn config(mode: Mode, schedule: Schedule, limit: u32) -> SchedulerConfig {
    SchedulerConfig {
        mode,
        schedule,
        rate: None,
        burst: Nanos::from_millis(1),
        limit: Limit::packets(limit),
        in_buffer: u16::MAX,
    }
}

fn scheduler(mode: Mode, schedule: Schedule, limit: u32, vms: &[VmConfig]) -> Scheduler {
    Scheduler::new(&config(mode, schedule, limit), vms, 1).unwrap()
}

fn packet(vm: u8, len: usize) -> Packet {
    Packet::new(vec![0; len], Offload::default(), source(vm))
}

fn source(vm: u8) -> Source {
    Source { vm, ring: 0 }
}

fn none(_: Packet, _: DropReason) {
    panic!("a packet was dropped");
}

/// Fills the buffer from all `vms` in turn until it admits no more; returns the packets of each.
fn fill(scheduler: &mut Scheduler, vms: u8, len: usize) -> Vec<u64> {
    let mut counts = vec![0; vms.into()];
    loop {
        let before = counts.clone();
        for vm in 0..vms {
            if scheduler.admits(Nanos::ZERO, vm) {
                let offered = scheduler.offer(Nanos::ZERO, packet(vm, len), &mut none);
                assert!(matches!(offered, Offered::Accepted));
                counts[usize::from(vm)] += 1;
            }
        }
        if counts == before {
            return counts;
        }
    }
}

fn drain(scheduler: &mut Scheduler, now: Nanos) -> Vec<u8> {
    std::iter::from_fn(|| scheduler.dequeue(now, &mut none).map(|p| p.source.vm)).collect()
}

#[test]
fn shares_are_by_weight() {
    let vms = [vm("a", 3, None), vm("b", 1, None)];
    let mut fair = scheduler(Mode::Zd, Schedule::Fair, 40, &vms);
    assert_eq!(fill(&mut fair, 2, 1500), [30, 10]);
    let order: Vec<u8> =
        (0..16).filter_map(|_| fair.dequeue(Nanos::ZERO, &mut none).map(|p| p.source.vm)).collect();
    let first = order.iter().filter(|vm| **vm == 0).count();
    assert!((11..=13).contains(&first), "{order:?}");
}

#[test]
fn strict_priority_serves_the_first_machine_first() {
    let vms = [vm("a", 1, None), vm("b", 1, None)];
    let mut strict = scheduler(Mode::Zd, Schedule::Strict, 8, &vms);
    assert_eq!(fill(&mut strict, 2, 100), [4, 4]);
    assert_eq!(drain(&mut strict, Nanos::ZERO), [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn in_buffer_limits_each_machine() {
    let vms = [vm("a", 1, None), vm("b", 1, None)];
    let config = SchedulerConfig { in_buffer: 3, ..config(Mode::Zd, Schedule::Fifo, 100) };
    let mut fifo = Scheduler::new(&config, &vms, 1).unwrap();
    assert_eq!(fill(&mut fifo, 2, 1500), [3, 3]);
    // A departure makes room for its own machine only.
    assert_eq!(fifo.dequeue(Nanos::ZERO, &mut none).unwrap().source.vm, 0);
    assert_eq!(fifo.resume(Nanos::ZERO), Some(0));
    assert_eq!(fifo.resume(Nanos::ZERO), None);
    assert_eq!(fill(&mut fifo, 2, 1500), [1, 0]);
    assert_eq!(drain(&mut fifo, Nanos::ZERO), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn a_machine_with_a_rate_does_not_delay_others() {
    let vms = [vm("slow", 1, Some(10)), vm("fast", 1, None)];
    let mut fair = scheduler(Mode::Zd, Schedule::Fair, 20, &vms);
    assert_eq!(fill(&mut fair, 2, 1250), [10, 10]);
    let now = Nanos::from_secs(1);
    // A millisecond at 10 Mbit/s is one packet, and the last packet may overdraw the bucket.
    let order = drain(&mut fair, now);
    assert_eq!(order.iter().filter(|vm| **vm == 1).count(), 10);
    assert!(order.iter().filter(|vm| **vm == 0).count() <= 2, "{order:?}");
    assert_eq!(fair.backlog().packets, 20 - order.len() as u64);
}

#[test]
fn paused_machines_resume_when_there_is_room() {
    let vms = [vm("a", 1, None), vm("b", 1, None)];
    let mut fifo = scheduler(Mode::Zd, Schedule::Fifo, 16, &vms);
    let counts = fill(&mut fifo, 2, 100);
    assert_eq!(counts.iter().sum::<u64>(), 16);
    assert_eq!(fifo.resume(Nanos::ZERO), None);
    assert!(fifo.dequeue(Nanos::ZERO, &mut none).is_some());
    assert_eq!(fifo.resume(Nanos::ZERO), None, "an eighth must be free");
    assert!(fifo.dequeue(Nanos::ZERO, &mut none).is_some());
    let first = fifo.resume(Nanos::ZERO);
    assert!(first.is_some());
    // It has nothing to send, so the other machine takes the turn.
    fifo.idle(first.unwrap());
    let second = fifo.resume(Nanos::ZERO);
    assert!(second.is_some() && second != first);
}

#[test]
fn mode_drop_admits_all_and_drops_at_a_full_queue() {
    let vms = [vm("a", 1, None)];
    let mut drop = scheduler(Mode::Drop, Schedule::Fifo, 2, &vms);
    let mut dropped = 0;
    for _ in 0..5 {
        assert!(drop.admits(Nanos::ZERO, 0));
        let mut count = |_: Packet, _: DropReason| dropped += 1;
        assert!(matches!(drop.offer(Nanos::ZERO, packet(0, 60), &mut count), Offered::Accepted));
    }
    assert_eq!((dropped, drop.backlog().packets), (3, 2));
    assert_eq!(drop.resume(Nanos::ZERO), None);
}

/// A packet as the queue sees it, without a frame.
#[derive(Debug)]
struct Abstract {
    id: u32,
    ecn: Ecn,
    len: Bytes,
    flow: u32,
}

impl Queueable for Abstract {
    fn len(&self) -> Bytes {
        self.len
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// Returns the frame `id` of a machine with this ECN field.
fn ip(v6: bool, ecn: Ecn, id: u32, len: usize) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.resize(len, 0);
    let mut frame = tcp(v6, 0x18, &payload);
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    frame[15] |= if v6 { bits << 4 } else { bits };
    frame
}

/// The number of a frame of [`ip`], and whether its ECN field is CE.
fn read(bytes: &[u8]) -> (u32, bool) {
    let v6 = bytes[14] >> 4 == 6;
    let start = if v6 { 74 } else { 54 };
    let id = u32::from_be_bytes(bytes[start..start + 4].try_into().unwrap());
    let bits = if v6 { bytes[15] >> 4 } else { bytes[15] };
    (id, bits & 3 == 3)
}

fn dualpi2(mode: Mode, rate: Option<Rate>) -> SchedulerConfig {
    let settings =
        Settings { limit: Some(forebay_config::Limit::Packets(5000)), ..Settings::default() };
    SchedulerConfig { rate, ..config(mode, Schedule::DualPi2(settings), 5000) }
}

/// A burst of packets that arrives after a wait, and how many may leave then.
#[derive(Clone, Debug)]
struct Step {
    wait: Nanos,
    vm: u8,
    v6: bool,
    ecn: Ecn,
    len: usize,
    arrivals: u32,
    departures: u32,
}

fn bursts() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let numbers = (0..30_000_u64, 0..3_u8, any::<bool>(), 4..1400_usize, 0..60_u32, 0..40_u32);
    let burst = (ecn, numbers).prop_map(|(ecn, (us, vm, v6, len, arrivals, departures))| Step {
        wait: Nanos::from_micros(us),
        vm,
        v6,
        ecn,
        len,
        arrivals,
        departures,
    });
    prop::collection::vec(burst, 1..120)
}

proptest! {
    /// Order, marks and drops of guests' frames are those of the queue itself below the same
    /// shaper.
    #[test]
    fn dualpi2_decides_as_the_queue_itself(
        bursts in bursts(),
        zd: bool,
        mbps in prop_oneof![Just(None), Just(Some(20)), Just(Some(100))],
        seed: u64,
    ) {
        let vms = [vm("a", 1, None), vm("b", 1, None), vm("c", 1, None)];
        let config = dualpi2(if zd { Mode::Zd } else { Mode::Drop }, mbps.map(Rate::from_mbps));
        let mut scheduler = Scheduler::new(&config, &vms, seed).unwrap();
        let Schedule::DualPi2(settings) = config.schedule else { unreachable!() };
        let queue = Discipline { kind: Kind::DualPi2, settings }.build::<Abstract>(seed).unwrap();
        let burst = Burst::Time(config.burst);
        let bucket = token_bucket::Config { rate: config.rate, burst, late: Nanos::ZERO };
        let mut queue = TokenBucket::new(bucket, queue);
        let (mut now, mut id) = (Nanos::from_secs(1), 0);
        for burst in bursts {
            now += burst.wait;
            for _ in 0..burst.arrivals {
                let frame = ip(burst.v6, burst.ecn, id, burst.len);
                let packet = Packet::new(frame, Offload::default(), source(burst.vm));
                let (len, flow) = (packet.len(), packet.flow_hash());
                let offered = scheduler.offer(now, packet, &mut none);
                prop_assert!(matches!(offered, Offered::Accepted));
                let one = Abstract { id, ecn: burst.ecn, len, flow };
                queue.enqueue(now, one, &mut |_, _: DropReason| panic!("a full queue"));
                id += 1;
            }
            for _ in 0..burst.departures {
                let (mut dropped, mut expected) = (Vec::new(), Vec::new());
                let sent = scheduler
                    .dequeue(now, &mut |p: Packet, why| dropped.push((read(&p.bytes).0, why)));
                let other = queue.dequeue(now, &mut |p: Abstract, why| expected.push((p.id, why)));
                prop_assert_eq!(dropped, expected);
                let sent = sent.map(|p| (read(&p.bytes), p.ecn() == Ecn::Ce));
                let other = other.map(|p| ((p.id, p.ecn == Ecn::Ce), p.ecn == Ecn::Ce));
                prop_assert_eq!(sent, other);
            }
            prop_assert_eq!(scheduler.backlog(), queue.backlog());
        }
    }
}

/// At 12 Mbit/s a full frame leaves each millisecond. With a classic backlog above the target, L4S
/// packets leave first and are marked, and some classic packets are dropped.
#[test]
fn dualpi2_serves_l4s_first_and_signals_to_both() {
    let vms = [vm("classic", 1, None), vm("l4s", 1, None)];
    let config = dualpi2(Mode::Drop, Some(Rate::from_mbps(12)));
    let mut scheduler = Scheduler::new(&config, &vms, 1).unwrap();
    let (mut marked, mut dropped, mut left) = (0, 0, [0, 0]);
    for ms in 0..2000_u64 {
        let now = Nanos::from_millis(ms);
        let mut offer = |vm: u8, ecn| {
            let packet = Packet::new(ip(vm == 1, ecn, 0, 1400), Offload::default(), source(vm));
            let offered = scheduler.offer(now, packet, &mut none);
            assert!(matches!(offered, Offered::Accepted));
        };
        // Half of the link for L4S, and a little more than the other half for classic.
        if ms % 2 == 0 {
            offer(1, Ecn::Ect1);
        }
        if ms % 40 < 23 {
            offer(0, Ecn::NotEct);
        }
        while let Some(sent) = scheduler.dequeue(now, &mut |p: Packet, _: DropReason| {
            assert_eq!(p.source.vm, 0, "L4S is marked instead");
            dropped += 1;
        }) {
            left[usize::from(sent.source.vm)] += 1;
            marked += u32::from(sent.is_marked());
        }
    }
    assert!(dropped > 20, "{dropped} dropped");
    assert!(marked > 100, "{marked} of {} marked", left[1]);
    assert!((990..=1000).contains(&left[1]), "all of L4S has left: {left:?}");
}
