//! Tests of single steps, and a test with real threads.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::backpressure::{FlowId, Hysteresis};

fn small(flows: u32, slots: u32) -> (Sources, Scheduler) {
    let hysteresis = Hysteresis::Packets(1);
    pair(Config { flows, slots, hysteresis, ..Config::default() }).unwrap()
}

const WAITS: Reserve = Reserve::Paused { wake_scheduler: false };

#[test]
fn waiting_flows_are_resumed_first_come_first_served() {
    let (sources, mut scheduler) = small(4, 2);
    let mut source: Vec<_> = (0..4).map(|flow| sources.open(FlowId(flow)).unwrap()).collect();
    assert!(sources.open(FlowId(0)).is_none() && sources.open(FlowId(4)).is_none());
    assert_eq!(source[0].reserve(), Reserve::Go);
    assert_eq!(source[1].reserve(), Reserve::Go);
    assert_eq!(source[3].reserve(), WAITS);
    assert_eq!(source[2].reserve(), WAITS);
    assert!(source[3].is_paused());
    assert_eq!(scheduler.resume(), None);
    scheduler.left(FlowId(0));
    assert_eq!(scheduler.resume(), Some(FlowId(3)));
    assert_eq!(scheduler.resume(), None);
    assert!(!source[3].is_paused());
    // The slot is reserved for the resumed flow.
    assert_eq!(source[0].reserve(), WAITS);
    assert_eq!(source[3].reserve(), Reserve::Go);
    scheduler.left(FlowId(1));
    assert_eq!(scheduler.resume(), Some(FlowId(2)));
    // Flow 2 has nothing to send, so the next flow gets the slot.
    assert!(source[2].idle());
    assert_eq!(scheduler.resume(), Some(FlowId(0)));
    assert_eq!(scheduler.occupied(), 2);
}

#[test]
fn a_flow_keeps_to_its_limit_and_queues_when_a_packet_leaves() {
    let (sources, mut scheduler) = small(1, 10);
    let mut source = sources.open(FlowId(0)).unwrap();
    assert_eq!((source.reserve(), source.reserve()), (Reserve::Go, Reserve::Go));
    assert_eq!(source.reserve(), WAITS);
    assert_eq!(scheduler.resume(), None);
    scheduler.left(FlowId(0));
    assert_eq!(scheduler.resume(), Some(FlowId(0)));
    assert_eq!(source.reserve(), Reserve::Go);
}

#[test]
fn flows_are_resumed_from_the_threshold_on_and_each_for_its_turn() {
    let config =
        Config { flows: 3, slots: 4, in_buffer: 4, turn: 1, hysteresis: Hysteresis::OneIn(2) };
    let (sources, mut scheduler) = pair(config).unwrap();
    let mut source: Vec<_> = (0..3).map(|flow| sources.open(FlowId(flow)).unwrap()).collect();
    for _ in 0..4 {
        assert_eq!(source[0].reserve(), Reserve::Go);
    }
    assert_eq!((source[1].reserve(), source[2].reserve()), (WAITS, WAITS));
    assert_eq!(scheduler.resume(), None);
    scheduler.left(FlowId(0));
    assert_eq!(scheduler.resume(), None, "one slot is not enough");
    // There is room, but others wait and this flow's turn is over. The scheduler is to be woken for
    // the free slot.
    assert_eq!(source[0].reserve(), Reserve::Paused { wake_scheduler: true });
    scheduler.left(FlowId(0));
    assert_eq!(scheduler.resume(), Some(FlowId(1)));
    assert_eq!(scheduler.resume(), Some(FlowId(2)));
    assert_eq!(scheduler.resume(), None);
}

#[test]
fn a_number_can_be_reused_when_its_last_flow_has_left_the_queue() {
    let (sources, mut scheduler) = small(2, 1);
    let (mut a, mut b) = (sources.open(FlowId(0)).unwrap(), sources.open(FlowId(1)).unwrap());
    assert_eq!((a.reserve(), b.reserve()), (Reserve::Go, WAITS));
    drop(b);
    assert!(sources.open(FlowId(1)).is_none(), "it still waits");
    scheduler.left(FlowId(0));
    assert_eq!(scheduler.resume(), None);
    let mut b = sources.open(FlowId(1)).unwrap();
    assert_eq!(b.reserve(), Reserve::Go);
    assert_eq!(a.reserve(), WAITS);
    // The flow does not use its slot; closing returns it.
    scheduler.left(FlowId(1));
    assert_eq!(scheduler.resume(), Some(FlowId(0)));
    assert_eq!(b.reserve(), WAITS);
    assert!(a.close());
    assert_eq!(scheduler.resume(), Some(FlowId(1)));
}

/// Four sources and a scheduler run on threads that sleep until they are woken. The test ends only
/// if no wake-up is lost.
#[test]
fn threads_lose_no_wake_up_and_every_packet_arrives_in_order() {
    extern crate std;
    use std::sync::mpsc;
    use std::thread;

    const FLOWS: u32 = 4;
    const PACKETS: u32 = 20_000;
    let hysteresis = Hysteresis::OneIn(4);
    let config = Config { flows: FLOWS, slots: 5, in_buffer: 2, turn: 2, hysteresis };
    let (sources, mut scheduler) = pair(config).unwrap();
    // `None` only wakes the scheduler.
    let (to_scheduler, packets) = mpsc::channel::<Option<(u32, u32)>>();
    let (mut wakers, mut threads) = (Vec::new(), Vec::new());
    for flow in 0..FLOWS {
        let mut source = sources.open(FlowId(flow)).unwrap();
        let (waker, woken) = mpsc::channel::<()>();
        wakers.push(waker);
        let to_scheduler = to_scheduler.clone();
        threads.push(thread::spawn(move || {
            for packet in 0..PACKETS {
                loop {
                    match source.reserve() {
                        Reserve::Go => break,
                        Reserve::Paused { wake_scheduler } => {
                            if wake_scheduler {
                                to_scheduler.send(None).unwrap();
                            }
                            woken.recv().unwrap();
                        }
                    }
                }
                to_scheduler.send(Some((flow, packet))).unwrap();
            }
            if source.close() {
                to_scheduler.send(None).unwrap();
            }
        }));
    }
    drop(to_scheduler);
    let mut next = vec![0; FLOWS as usize];
    while let Ok(message) = packets.recv() {
        if let Some((flow, packet)) = message {
            assert_eq!(packet, next[flow as usize], "of flow {flow}");
            next[flow as usize] += 1;
            scheduler.left(FlowId(flow));
        }
        while let Some(flow) = scheduler.resume() {
            // A source that has ended cannot be woken.
            let _ = wakers[flow.0 as usize].send(());
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(next, [PACKETS; FLOWS as usize]);
    assert_eq!(scheduler.occupied(), 0);
}
