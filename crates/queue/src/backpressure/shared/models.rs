//! All interleavings of small cases, by loom:
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p forebay-queue --lib shared`
//!
//! Each model runs its threads for a few steps, each as if it then fell asleep. What wakes them is
//! only what they were told: a packet handed over or a `ring` wakes the scheduler, a resume wakes a
//! source. Afterwards the model goes on in one thread, by those wake-ups alone, and all packets must
//! have been sent when none is left: a lost one is a packet left behind.

use alloc::vec::Vec;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;
use crate::backpressure::{FlowId, Hysteresis};

/// What goes between the threads: packets, by flow, and the wake-ups.
#[derive(Default)]
struct Wires {
    packets: Vec<u32>,
    ring: bool,
    woken: Vec<u32>,
}

type Shared = Arc<Mutex<Wires>>;

/// A source that has this many packets left to send.
struct Sender {
    source: Source,
    left: u32,
}

impl Sender {
    /// Sends until paused or done, as a thread that was woken does.
    fn run(&mut self, wires: &Shared) {
        while self.left > 0 {
            match self.source.reserve() {
                Reserve::Go => {
                    self.left -= 1;
                    let mut wires = wires.lock().unwrap();
                    wires.packets.push(self.source.flow().0);
                    wires.ring = true;
                }
                Reserve::Paused { ring } => {
                    wires.lock().unwrap().ring |= ring;
                    return;
                }
            }
        }
        if self.source.idle() {
            wires.lock().unwrap().ring = true;
        }
    }
}

/// Sends up to `packets` packets on and resumes, as a scheduler that was woken does.
fn schedule(scheduler: &mut Scheduler, wires: &Shared, sent: &mut u32, packets: u32) {
    let queue: Vec<_> = {
        let mut wires = wires.lock().unwrap();
        let count = wires.packets.len().min(packets as usize);
        let queue = wires.packets.drain(..count).collect();
        wires.ring = !wires.packets.is_empty();
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

/// Runs the model to its end by the wake-ups it has.
fn settle(senders: &mut [Sender], scheduler: &mut Scheduler, wires: &Shared, sent: &mut u32) {
    loop {
        let (ring, woken) = {
            let mut wires = wires.lock().unwrap();
            (core::mem::take(&mut wires.ring), core::mem::take(&mut wires.woken))
        };
        if !ring && woken.is_empty() {
            return;
        }
        for flow in woken {
            // A flow that has ended is woken for nothing; it was asked to answer by its closing.
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
fn two_sources_two_slots_resumed_together() {
    check(2, Config { slots: 2, turn: 1, hysteresis: Hysteresis::OneIn(1), ..SMALL }, 2);
}

/// A flow ends while the scheduler resumes it or another: its slot and its place go on.
#[test]
fn a_flow_ends_meanwhile() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (sources, mut scheduler) = pair(Config { flows: 3, ..SMALL }).unwrap();
        let wires = Shared::default();
        let sender = |flow, left| Sender { source: sources.open(FlowId(flow)).unwrap(), left };
        // The only slot is taken; flow 1 and flow 2 queue for it, and 1 ends.
        let (mut first, mut ends, mut stays) = (sender(0, 1), sender(1, 1), sender(2, 1));
        first.run(&wires);
        ends.run(&wires);
        let closing = {
            let wires = wires.clone();
            thread::spawn(move || {
                let ring = ends.source.close();
                wires.lock().unwrap().ring |= ring;
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

/// A flow gives its turn back at the instant at which another finds no slot.
#[test]
fn an_unused_turn_meanwhile() {
    loom::model(|| {
        let (sources, mut scheduler) = pair(Config { flows: 2, ..SMALL }).unwrap();
        let wires = Shared::default();
        let sender = |flow, left| Sender { source: sources.open(FlowId(flow)).unwrap(), left };
        let (mut unused, mut wants) = (sender(0, 1), sender(1, 1));
        // Flow 0 sends, queues for a second packet, is granted a slot, and has no packet after all.
        unused.run(&wires);
        assert_eq!(unused.source.reserve(), Reserve::Paused { ring: false });
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
            wires.lock().unwrap().ring = true;
        }
        let mut senders = [unused, wanting.join().unwrap()];
        settle(&mut senders, &mut scheduler, &wires, &mut sent);
        assert_eq!(sent, 2, "flow 1 was not woken");
        assert_eq!((scheduler.occupied(), scheduler.waiting()), (0, 0));
    });
}
