//! Loom checks all interleavings of small cases:
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p forebay-queue --lib models`
//!
//! Each model runs its threads for a few steps, after which they sleep. Only wake-ups continue
//! them: a packet or `wake_scheduler` wakes the scheduler, a resume wakes a source. The model then
//! runs in one thread, driven by the pending wake-ups alone. When no wake-up is left, all packets
//! must have been sent; a lost wake-up leaves a packet behind.

use alloc::vec::Vec;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;
use crate::backpressure::{FlowId, Hysteresis};

/// The packets and wake-ups in transit between the threads.
#[derive(Default)]
struct Wires {
    /// The flow of each packet.
    packets: Vec<u32>,
    wake_scheduler: bool,
    woken: Vec<u32>,
}

type Shared = Arc<Mutex<Wires>>;

/// A source with the number of packets that it has left to send.
struct Sender {
    source: Source,
    left: u32,
}

impl Sender {
    /// Sends until paused or done, as a woken thread does.
    fn run(&mut self, wires: &Shared) {
        while self.left > 0 {
            match self.source.reserve() {
                Reserve::Go => {
                    self.left -= 1;
                    let mut wires = wires.lock().unwrap();
                    wires.packets.push(self.source.flow().0);
                    wires.wake_scheduler = true;
                }
                Reserve::Paused { wake_scheduler } => {
                    wires.lock().unwrap().wake_scheduler |= wake_scheduler;
                    return;
                }
            }
        }
        if self.source.idle() {
            wires.lock().unwrap().wake_scheduler = true;
        }
    }
}

/// Sends up to `packets` packets and resumes flows, as a woken scheduler does.
fn schedule(scheduler: &mut Scheduler, wires: &Shared, sent: &mut u32, packets: u32) {
    let queue: Vec<_> = {
        let mut wires = wires.lock().unwrap();
        let count = wires.packets.len().min(packets as usize);
        let queue = wires.packets.drain(..count).collect();
        wires.wake_scheduler = !wires.packets.is_empty();
        queue
    };
    for flow in queue {
        *sent += 1;
        scheduler.left(FlowId(flow));
    }
    while let Some(flow) = scheduler.resume() {
        wires.lock().unwrap().woken.push(flow.0);
    }
}

/// Runs the model to its end, driven by the pending wake-ups.
fn settle(senders: &mut [Sender], scheduler: &mut Scheduler, wires: &Shared, sent: &mut u32) {
    loop {
        let (wake_scheduler, woken) = {
            let mut wires = wires.lock().unwrap();
            (core::mem::take(&mut wires.wake_scheduler), core::mem::take(&mut wires.woken))
        };
        if !wake_scheduler && woken.is_empty() {
            return;
        }
        for flow in woken {
            // A flow that has ended is woken in vain; closing it was its response.
            if let Some(sender) = senders.iter_mut().find(|s| s.source.flow().0 == flow) {
                sender.run(wires);
            }
        }
        schedule(scheduler, wires, sent, u32::MAX);
    }
}

fn check(flows: u32, config: Config, packets: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (sources, mut scheduler) = pair(Config { flows, ..config }).unwrap();
        let wires = Shared::default();
        let threads: Vec<_> = (0..flows)
            .map(|flow| {
                let source = sources.open(FlowId(flow)).unwrap();
                let (wires, mut sender) = (wires.clone(), Sender { source, left: packets });
                thread::spawn(move || {
                    sender.run(&wires);
                    sender
                })
            })
            .collect();
        let mut sent = 0;
        for _ in 0..2 {
            schedule(&mut scheduler, &wires, &mut sent, 1);
        }
        let mut senders: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        settle(&mut senders, &mut scheduler, &wires, &mut sent);
        assert_eq!(sent, flows * packets, "a flow was not woken");
        assert_eq!(scheduler.occupied(), 0, "a slot was lost");
        assert_eq!(scheduler.waiting(), 0);
    });
}

const SMALL: Config =
    Config { flows: 0, slots: 1, in_buffer: 2, turn: 2, hysteresis: Hysteresis::Packets(1) };

#[test]
fn one_source_one_slot() {
    check(1, SMALL, 3);
}

#[test]
fn one_source_held_at_its_limit() {
    check(1, Config { slots: 3, in_buffer: 1, ..SMALL }, 3);
}

#[test]
fn two_sources_one_slot() {
    check(2, SMALL, 1);
}

#[test]
fn two_sources_two_slots_are_resumed_together() {
    check(2, Config { slots: 2, turn: 1, hysteresis: Hysteresis::OneIn(1), ..SMALL }, 2);
}

/// A flow ends while the scheduler resumes it or another flow; its slot and place go to others.
#[test]
fn a_flow_ends_while_flows_are_resumed() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (sources, mut scheduler) = pair(Config { flows: 3, ..SMALL }).unwrap();
        let wires = Shared::default();
        let sender = |flow, left| Sender { source: sources.open(FlowId(flow)).unwrap(), left };
        // The only slot is taken; flows 1 and 2 queue for it, and flow 1 ends.
        let (mut first, mut ends, mut stays) = (sender(0, 1), sender(1, 1), sender(2, 1));
        first.run(&wires);
        ends.run(&wires);
        let closing = {
            let wires = wires.clone();
            thread::spawn(move || {
                let wake_scheduler = ends.source.close();
                wires.lock().unwrap().wake_scheduler |= wake_scheduler;
            })
        };
        let staying = {
            let wires = wires.clone();
            thread::spawn(move || {
                stays.run(&wires);
                stays
            })
        };
        let mut sent = 0;
        schedule(&mut scheduler, &wires, &mut sent, 1);
        closing.join().unwrap();
        let mut senders = [first, staying.join().unwrap()];
        settle(&mut senders, &mut scheduler, &wires, &mut sent);
        assert_eq!(sent, 2, "flow 2 was not woken");
        assert_eq!((scheduler.occupied(), scheduler.waiting()), (0, 0));
        assert!(sources.open(FlowId(1)).is_some(), "its number can be given out again");
    });
}

/// A flow returns its unused slot at the instant at which another flow finds no slot.
#[test]
fn an_unused_slot_goes_to_a_flow_that_queues_at_the_same_time() {
    loom::model(|| {
        let (sources, mut scheduler) = pair(Config { flows: 2, ..SMALL }).unwrap();
        let wires = Shared::default();
        let sender = |flow, left| Sender { source: sources.open(FlowId(flow)).unwrap(), left };
        let (mut unused, mut wants) = (sender(0, 1), sender(1, 1));
        // Flow 0 sends, queues for a second packet, is granted a slot, and then has no packet.
        unused.run(&wires);
        assert_eq!(unused.source.reserve(), Reserve::Paused { wake_scheduler: false });
        let mut sent = 0;
        schedule(&mut scheduler, &wires, &mut sent, 1);
        let wanting = {
            let wires = wires.clone();
            thread::spawn(move || {
                wants.run(&wires);
                wants
            })
        };
        if unused.source.idle() {
            wires.lock().unwrap().wake_scheduler = true;
        }
        let mut senders = [unused, wanting.join().unwrap()];
        settle(&mut senders, &mut scheduler, &wires, &mut sent);
        assert_eq!(sent, 2, "flow 1 was not woken");
        assert_eq!((scheduler.occupied(), scheduler.waiting()), (0, 0));
    });
}
