//! Other structures for the same task, written for this comparison.
//!
//! They have the flow's state by its number, where Linux looks it up in a hash table of red-black
//! trees. No one prefetches, since a heap or a tree does not know which flow comes second.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use forebay_prefetch::prefetch_at;
use forebay_units::Nanos;

use crate::cost::{BATCH, LEN, LENGTHS, Subject};

/// The key by which flows are sorted.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// The start tag of start-time fair queueing.
    Fair,
    /// The pacing time.
    Time,
}

/// A sorted set of flows by key.
pub(crate) trait Set: Default {
    fn push(&mut self, key: u64, flow: u32);
    /// Removes the first flow if its key is `until` at most.
    fn pop(&mut self, until: u64) -> Option<(u64, u32)>;
}

#[derive(Default)]
pub(crate) struct Heap(BinaryHeap<Reverse<(u64, u32)>>);

impl Set for Heap {
    fn push(&mut self, key: u64, flow: u32) {
        self.0.push(Reverse((key, flow)));
    }

    fn pop(&mut self, until: u64) -> Option<(u64, u32)> {
        self.0.peek().filter(|first| first.0.0 <= until)?;
        self.0.pop().map(|first| first.0)
    }
}

#[derive(Default)]
pub(crate) struct BTree(BTreeSet<(u64, u32)>);

impl Set for BTree {
    fn push(&mut self, key: u64, flow: u32) {
        self.0.insert((key, flow));
    }

    fn pop(&mut self, until: u64) -> Option<(u64, u32)> {
        self.0.first().filter(|first| first.0 <= until)?;
        self.0.pop_first()
    }
}

/// What the rivals store about a flow.
#[derive(Clone, Copy, Default)]
struct State {
    /// The finish tag, or the pacing time.
    tag: u64,
    /// The time of a full packet.
    gap: u64,
    credit: i64,
}

/// A scheduler over a sorted set.
pub(crate) struct Sorted<S> {
    order: Order,
    set: S,
    flows: Vec<State>,
    clock: u64,
    counter: usize,
}

impl<S: Set> Sorted<S> {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, set: S::default(), flows: Vec::new(), clock: 0, counter: 0 }
    }
}

fn states(flows: u32, gaps: Option<&[u64]>) -> Vec<State> {
    let state = |n| State { gap: gaps.map_or(0, |gaps| gaps[n as usize]), ..State::default() };
    (0..flows).map(state).collect()
}

impl<S: Set> Subject for Sorted<S> {
    type Flow = u32;

    fn flows(&mut self, flows: u32, gaps: Option<&[u64]>) -> Vec<u32> {
        self.flows = states(flows, gaps);
        (0..flows).collect()
    }

    fn enqueue(&mut self, now: Nanos, flows: &[u32]) {
        let low = if self.order == Order::Time { now.0 } else { self.clock };
        for &flow in flows {
            let state = &mut self.flows[flow as usize];
            state.tag = state.tag.max(low);
            self.set.push(state.tag, flow);
        }
    }

    fn dequeue(&mut self, now: Nanos, sent: &mut VecDeque<u32>) {
        let until = if self.order == Order::Time { now.0 } else { u64::MAX };
        for _ in 0..BATCH {
            let Some((key, flow)) = self.set.pop(until) else { return };
            let len = LENGTHS[self.counter % 8];
            self.counter += 1;
            self.clock = self.clock.max(key);
            let state = &mut self.flows[flow as usize];
            state.tag = match self.order {
                Order::Time => state.tag + len * state.gap / LEN,
                Order::Fair => key + len * 1024,
            };
            sent.push_back(flow);
        }
    }
}

/// A scheduler in the manner of Linux's sch_fq: two lists of flows in round-robin order with a
/// credit each, and the flows that wait for their pacing time in a tree by time. A B-tree stands in
/// for the red-black tree.
#[derive(Default)]
pub(crate) struct Fq {
    flows: Vec<State>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    delayed: BTree,
    counter: usize,
}

/// Two full packets, as in Linux.
const QUANTUM: i64 = 2 * 1514;

impl Subject for Fq {
    type Flow = u32;

    fn flows(&mut self, flows: u32, gaps: Option<&[u64]>) -> Vec<u32> {
        self.flows = states(flows, gaps);
        (0..flows).collect()
    }

    fn enqueue(&mut self, _now: Nanos, flows: &[u32]) {
        for &flow in flows {
            self.flows[flow as usize].credit = QUANTUM;
            self.new.push_back(flow);
        }
    }

    fn dequeue(&mut self, now: Nanos, sent: &mut VecDeque<u32>) {
        while let Some((_, flow)) = self.delayed.pop(now.0) {
            self.old.push_back(flow);
        }
        for _ in 0..BATCH {
            let flow = loop {
                let Some(flow) = self.new.pop_front().or_else(|| self.old.pop_front()) else {
                    return;
                };
                let state = &mut self.flows[flow as usize];
                if state.credit <= 0 {
                    state.credit += QUANTUM;
                    self.old.push_back(flow);
                } else if state.tag > now.0 {
                    self.delayed.push(state.tag, flow);
                } else {
                    break flow;
                }
            };
            let len = LENGTHS[self.counter % 8];
            self.counter += 1;
            let state = &mut self.flows[flow as usize];
            state.credit -= len as i64;
            if state.gap > 0 {
                state.tag = state.tag.max(now.0) + len * state.gap / LEN;
            }
            sent.push_back(flow);
        }
    }
}

/// One queue without any order of flows, which only counts a packet of its flow at either end: the
/// least that a scheduler costs with a cache line of state for each flow.
#[derive(Default)]
pub(crate) struct Fifo {
    queue: VecDeque<u32>,
    flows: Vec<Line>,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    packets: u64,
}

/// How many flows ahead the state is prefetched.
const AHEAD: usize = 24;

impl Subject for Fifo {
    type Flow = u32;

    fn flows(&mut self, flows: u32, _gaps: Option<&[u64]>) -> Vec<u32> {
        self.flows = vec![Line::default(); flows as usize];
        (0..flows).collect()
    }

    fn enqueue(&mut self, _now: Nanos, flows: &[u32]) {
        for &flow in flows.iter().take(AHEAD) {
            prefetch_at(&self.flows, flow);
        }
        for (n, &flow) in flows.iter().enumerate() {
            if let Some(&ahead) = flows.get(n + AHEAD) {
                prefetch_at(&self.flows, ahead);
            }
            self.flows[flow as usize].packets += 1;
            self.queue.push_back(flow);
        }
    }

    fn dequeue(&mut self, _now: Nanos, sent: &mut VecDeque<u32>) {
        for _ in 0..BATCH {
            let Some(flow) = self.queue.pop_front() else { return };
            if let Some(&ahead) = self.queue.get(AHEAD) {
                prefetch_at(&self.flows, ahead);
            }
            self.flows[flow as usize].packets -= 1;
            sent.push_back(flow);
        }
    }
}
