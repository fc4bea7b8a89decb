//! The cost of a packet.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::random;
use crate::rivals::{BTree, Fifo, Fq, Heap, Order, Sorted};

pub(crate) const BATCH: usize = 32;
/// The simulated time between packets.
const GAP: u64 = 100;
pub(crate) const LEN: u64 = 1500;

/// The lengths of packets, in turn.
pub(crate) const LENGTHS: [u64; 8] = [1500, 64, 590, 1500, 120, 1500, 1000, 256];

/// A structure that is measured.
pub(crate) trait Subject {
    type Flow: Copy;

    /// Returns all flows, idle. Flow `n` sends a packet of full size each `gaps[n]` nanoseconds, if
    /// there are gaps.
    fn flows(&mut self, flows: u32, gaps: Option<&[u64]>) -> Vec<Self::Flow>;

    /// Enqueues a packet for each of these flows.
    fn enqueue(&mut self, now: Nanos, flows: &[Self::Flow]);

    /// Dequeues up to `BATCH` packets that are due and passes their flows to `each`.
    fn dequeue(&mut self, now: Nanos, each: &mut VecDeque<Self::Flow>);
}

/// A transport with one packet for each flow that is woken.
struct OnePacket<'a> {
    sent: &'a mut VecDeque<FlowId>,
    counter: &'a mut usize,
    departures: &'a mut Vec<(FlowId, Bytes)>,
}

impl Transport for OnePacket<'_> {
    #[inline]
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        let bytes = Bytes(LENGTHS[*self.counter % 8]);
        *self.counter += 1;
        self.sent.push_back(ask.flow);
        self.departures.push((ask.flow, bytes));
        Answer { bytes, packets: 1, next: Next::Idle }
    }
}

struct Ours {
    policy: Policy,
    engine: Option<Engine>,
    counter: usize,
    departures: Vec<(FlowId, Bytes)>,
    wakes: Vec<(FlowId, Hint)>,
}

impl Ours {
    fn new(policy: Policy) -> Self {
        Self { policy, engine: None, counter: 0, departures: Vec::new(), wakes: Vec::new() }
    }
}

impl Subject for Ours {
    type Flow = FlowId;

    fn flows(&mut self, flows: u32, gaps: Option<&[u64]>) -> Vec<FlowId> {
        let config = Config { flows, turns: BATCH as u32, ..Config::default() };
        let engine = self.engine.insert(Engine::new(config, self.policy).expect("valid"));
        let open = |n: u32| {
            let rate = |gaps: &[u64]| Rate::from_bps(LEN * 8 * 1_000_000_000 / gaps[n as usize]);
            let settings = Settings { rate: gaps.map(rate), ..Settings::default() };
            engine.open(settings).expect("valid").expect("room for all flows")
        };
        let all = (0..flows).map(open).collect();
        let bytes = engine.memory().total() as f64 / f64::from(flows);
        if flows == 1_000_000 {
            println!("  memory of the engine: {bytes:.1} bytes for each of {flows} flows");
        }
        all
    }

    #[inline]
    fn enqueue(&mut self, now: Nanos, flows: &[FlowId]) {
        let Some(engine) = &mut self.engine else { return };
        self.wakes.clear();
        self.wakes.extend(flows.iter().map(|&flow| (flow, Hint::default())));
        engine.wake_all(now, &self.wakes);
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, sent: &mut VecDeque<FlowId>) {
        let Some(engine) = &mut self.engine else { return };
        let (counter, departures) = (&mut self.counter, &mut self.departures);
        black_box(engine.poll(now, &mut OnePacket { sent, counter, departures }));
        for (flow, bytes) in self.departures.drain(..) {
            engine.departed(now, flow, Departure { packets: 1, bytes, asked: now });
        }
    }
}

/// A running load on a subject.
struct Run<S: Subject> {
    subject: S,
    idle: VecDeque<S::Flow>,
    batch: Vec<S::Flow>,
    now: Nanos,
    waiting: usize,
    half: usize,
    sent: u64,
}

impl<S: Subject> Run<S> {
    fn new(mut subject: S, flows: u32, paced: bool) -> Self {
        let mut seed = 0x2545_f491_4f6c_dd1d;
        // The mean is just below what the load asks for, so that a packet is nearly always due.
        let mean = u64::from(flows) * GAP * 98 / 100;
        let gaps: Vec<_> = (0..flows).map(|_| mean / 2 + random(&mut seed, mean.max(1))).collect();
        let mut order = subject.flows(flows, paced.then_some(&gaps));
        for n in (1..order.len()).rev() {
            order.swap(n, random(&mut seed, n as u64 + 1) as usize);
        }
        let half = flows as usize / 2;
        let now = Nanos::from_secs(1);
        let mut run = Self {
            subject,
            idle: order.into(),
            batch: Vec::with_capacity(BATCH),
            now,
            waiting: 0,
            half,
            sent: 0,
        };
        // Three packets of each flow bring the order in memory to that of long use.
        run.packets(3 * u64::from(flows).max(1000));
        run
    }

    /// Runs until `count` more packets were sent.
    fn packets(&mut self, count: u64) {
        let end = self.sent + count;
        while self.sent < end {
            self.now += Nanos(GAP * BATCH as u64);
            self.batch.clear();
            while self.waiting < self.half && self.batch.len() < 2 * BATCH {
                let Some(flow) = self.idle.pop_front() else { break };
                self.batch.push(flow);
                self.waiting += 1;
            }
            self.subject.enqueue(self.now, &self.batch);
            let before = self.idle.len();
            self.subject.dequeue(self.now, &mut self.idle);
            let sent = self.idle.len() - before;
            self.waiting -= sent;
            self.sent += sent as u64;
        }
    }

    fn time(&mut self, count: u64) -> f64 {
        let (start, before) = (Instant::now(), self.sent);
        self.packets(count);
        start.elapsed().as_nanos() as f64 / (self.sent - before) as f64
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

const FLOWS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const NAMES: [&str; 5] = ["engine", "heap", "btree", "fq", "fifo"];
const ROUNDS: usize = 15;
/// The packets of a round.
const COUNT: u64 = 300_000;

type Round = Box<dyn FnMut() -> f64>;

fn round<S: Subject + 'static>(subject: S, flows: u32, paced: bool) -> Round {
    let mut run = Run::new(subject, flows, paced);
    Box::new(move || run.time(COUNT))
}

/// Returns the rounds of all structures for this many flows.
fn structures(flows: u32, paced: bool, policy: Policy, alone: bool) -> Vec<Round> {
    let order = if paced { Order::Time } else { Order::Fair };
    if alone {
        return vec![round(Ours::new(policy), flows, paced)];
    }
    vec![
        round(Ours::new(policy), flows, paced),
        round(Sorted::<Heap>::new(order), flows, paced),
        round(Sorted::<BTree>::new(order), flows, paced),
        round(Fq::default(), flows, paced),
        round(Fifo::default(), flows, false),
    ]
}

/// Prints the cost under one load. Other programs of the machine disturb all cells alike, since the
/// cells take turns, each for a round.
fn table(paced: bool, policy: Policy, names: &[&str]) {
    let load = if paced { "paced" } else { "fair" };
    let mut cells: Vec<Vec<Round>> =
        FLOWS.iter().map(|&flows| structures(flows, paced, policy, names.len() == 1)).collect();
    let mut times = vec![vec![Vec::new(); names.len()]; FLOWS.len()];
    for _ in 0..ROUNDS {
        for (row, cells) in times.iter_mut().zip(&mut cells) {
            for (times, cell) in row.iter_mut().zip(cells) {
                times.push(cell());
            }
        }
    }
    println!("cost, {load}: ns per packet, median (least) of {ROUNDS} rounds");
    print!("  {:>9}", "flows");
    names.iter().for_each(|name| print!(" {name:>16}"));
    println!("   engine / 1000 flows");
    let first = times[0][0].clone();
    for (flows, row) in FLOWS.iter().zip(&times) {
        print!("  {flows:>9}");
        for times in row {
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            print!(" {:>16}", format!("{:.1} ({least:.1})", median(times.clone())));
        }
        let ratios = row[0].iter().zip(&first).map(|(time, first)| time / first).collect();
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        println!("   {:.2} ({:.2})", median(ratios), least(&row[0]) / least(&first));
    }
}

pub(crate) fn run(names: &[&str]) {
    let names = if names.is_empty() { &NAMES[..] } else { names };
    table(false, Policy::FAIR, names);
    table(true, Policy::Paced, names);
}

/// Runs `packets` packets of `flows` paced flows through the structure of this name.
pub(crate) fn count(name: &str, flows: u32, packets: u32) {
    fn through(subject: impl Subject, flows: u32, packets: u32) {
        Run::new(subject, flows, true).packets(packets.into());
    }
    match name {
        "engine" => through(Ours::new(Policy::Paced), flows, packets),
        "heap" => through(Sorted::<Heap>::new(Order::Time), flows, packets),
        "btree" => through(Sorted::<BTree>::new(Order::Time), flows, packets),
        "fq" => through(Fq::default(), flows, packets),
        "fifo" => through(Fifo::default(), flows, packets),
        _ => panic!("there is no structure `{name}`: there are {}", NAMES.join(", ")),
    }
}

/// Measures the engine without rivals.
pub(crate) fn run_alone() {
    run(&NAMES[..1]);
}
