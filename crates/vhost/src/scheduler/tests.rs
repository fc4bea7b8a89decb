use forebay_units::Rate;

use super::*;
use crate::offload::Offload;

fn vm(name: &str, weight: u32, rate: Option<u64>) -> VmConfig {
    VmConfig {
        name: name.to_owned(),
        socket: "/nowhere".into(),
        mac: [2, 0, 0, 0, 0, 1],
        weight,
        rate: rate.map(Rate::from_mbps),
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
    Scheduler::new(&config(mode, schedule, limit), vms).unwrap()
}

fn packet(vm: u8, len: usize) -> Packet {
    Packet::new(vec![0; len], Offload::default(), vm)
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
    std::iter::from_fn(|| scheduler.dequeue(now).map(|p| p.vm)).collect()
}

#[test]
fn shares_are_by_weight() {
    let vms = [vm("a", 3, None), vm("b", 1, None)];
    let mut fair = scheduler(Mode::Zd, Schedule::Fair, 40, &vms);
    assert_eq!(fill(&mut fair, 2, 1500), [30, 10]);
    let order: Vec<u8> = (0..16).filter_map(|_| fair.dequeue(Nanos::ZERO).map(|p| p.vm)).collect();
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
    let mut fifo = Scheduler::new(&config, &vms).unwrap();
    assert_eq!(fill(&mut fifo, 2, 1500), [3, 3]);
    // A departure makes room for its own machine only.
    assert_eq!(fifo.dequeue(Nanos::ZERO).unwrap().vm, 0);
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
    assert!(fifo.dequeue(Nanos::ZERO).is_some());
    assert_eq!(fifo.resume(Nanos::ZERO), None, "an eighth must be free");
    assert!(fifo.dequeue(Nanos::ZERO).is_some());
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
