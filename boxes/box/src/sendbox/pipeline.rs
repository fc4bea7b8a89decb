//! The workers of a sendbox in user space over ports in memory: what they do with packets, and how
//! many packets they move.

use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_dataplane::{Frame, Pool, Port, PortStats};
use forebay_discipline::Kind;
use forebay_queue::Qdisc as _;
use forebay_system::clock;
use forebay_units::{Nanos, Rate};
use forebay_wire::FingerprintKey;

use super::classifier::Classifier;
use super::classifier::tests::bundle;
use super::departures::Departures;
use super::rules::{Owners, Rules};
use crate::forward::{self, Lane, Worker, Workers};
use crate::logs::Packets;
use crate::policy::Queue;
use crate::policy::tests::of;

/// The flows of each bundle that arrive at each worker.
const FLOWS: u8 = 16;
const CHUNKS: u32 = 65_536;
/// The length of all frames, the shortest of Ethernet.
const LEN: usize = 60;

/// Where an IPv4 header has the identification, and a frame its sequence number and its flow.
const ID: usize = 18;
const SEQUENCE: usize = 42;
const FLOW: usize = 50;

/// Returns a UDP packet of flow `flow` towards `bundle` that arrives at `worker`.
fn frame(bundle: u8, worker: u8, flow: u8) -> [u8; LEN] {
    let mut frame = [0; LEN];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&[10, bundle, 0, 1]);
    frame[34..38].copy_from_slice(&[worker, flow, 0x20, 0]);
    frame[38..40].copy_from_slice(&[0, 26]);
    frame[FLOW..FLOW + 3].copy_from_slice(&[bundle, worker, flow]);
    frame
}

/// What has left by the ports.
#[derive(Default)]
struct Left {
    packets: AtomicU64,
    /// The last packet of each flow, and the worker whose port it left by.
    flows: Mutex<HashMap<[u8; 3], (u64, u8)>>,
    /// The flows of which a packet left out of turn, or by another port.
    disordered: AtomicUsize,
}

/// A port in memory. It has `remaining` frames to receive.
struct MemoryPort {
    worker: u8,
    frames: Vec<[u8; LEN]>,
    sequence: u64,
    remaining: u64,
    left: Arc<Left>,
    /// Whether the order of what leaves is checked, which takes time.
    checks: bool,
    stats: PortStats,
}

impl Port for MemoryPort {
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) {
        for _ in 0..(limit as u64).min(self.remaining) {
            let frames = self.frames.len() as u64;
            let bytes = &mut self.frames[(self.sequence % frames) as usize];
            bytes[ID..ID + 2].copy_from_slice(&(self.sequence as u16).to_be_bytes());
            bytes[SEQUENCE..SEQUENCE + 8].copy_from_slice(&self.sequence.to_be_bytes());
            let Some(frame) = pool.frame(bytes) else { return };
            out.push(frame);
            self.sequence += 1;
            self.remaining -= 1;
            self.stats.received += 1;
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) {
        self.left.packets.fetch_add(frames.len() as u64, Ordering::Relaxed);
        self.stats.sent += frames.len() as u64;
        for frame in frames.drain(..) {
            if self.checks {
                let bytes = pool.bytes(&frame);
                let flow = [bytes[FLOW], bytes[FLOW + 1], bytes[FLOW + 2]];
                let sequence = bytes[SEQUENCE..SEQUENCE + 8].try_into().unwrap();
                let last = (u64::from_be_bytes(sequence) + 1, self.worker);
                let before = self.left.flows.lock().unwrap().insert(flow, last);
                if before.is_some_and(|before| before.0 >= last.0 || before.1 != last.1) {
                    self.left.disordered.fetch_add(1, Ordering::Relaxed);
                }
            }
            pool.release(frame);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn bypass(&mut self) {}

    fn is_sending(&mut self, _: &mut Pool) -> bool {
        false
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// What arrives where.
#[derive(Clone, Copy, Debug)]
struct Load {
    workers: u8,
    bundles: u8,
    /// Whether all packets of a bundle arrive at its owner. Otherwise each worker gets flows of
    /// every bundle, as a NIC spreads them.
    at_owner: bool,
}

/// Workers with their ports.
struct Pipeline {
    workers: Arc<Workers<Rules, Departures>>,
    each: Vec<Worker<Rules, Departures>>,
    left: Arc<Left>,
}

impl Pipeline {
    /// Makes workers of which each gets `packets` packets. The bundles have this rate.
    fn new(load: Load, packets: u64, rate: Option<Rate>, checks: bool) -> Self {
        let Load { workers: count, bundles, at_owner } = load;
        let configs: Vec<_> =
            (0..bundles).map(|b| bundle(&[&format!("10.{b}.0.0/16")], vec![])).collect();
        let owners = Owners::new(count.into(), false);
        let rules = Rules {
            classifier: Arc::new(Classifier::new(configs.iter().enumerate())),
            keys: (0..bundles).map(|b| Some(FingerprintKey([b.into(), 7]))).collect(),
            owners,
            not_understood: Arc::default(),
        };
        let lanes = (0..usize::from(count)).map(|worker| {
            let mut notes = Departures::new();
            let own = (0..usize::from(bundles)).filter(|b| owners.worker(*b) == worker);
            let queues = own.enumerate().map(|(queue, _)| {
                notes.begin(queue, Kind::Sfq, 64);
                forward::shaped(Queue::build("b", &of(Kind::Sfq), 1).unwrap(), rate)
            });
            let queues = queues.collect();
            Lane::new([queues, Vec::new()], notes)
        });
        let lanes = lanes.collect();
        let workers = Arc::new(Workers::new(clock::now(), lanes, Arc::new(rules)).unwrap());
        let left = Arc::new(Left::default());
        let mut pool = Pool::new(CHUNKS, 1500).unwrap();
        let port = |worker: u8, remaining| {
            let at = (0..bundles)
                .filter(|b| !at_owner || owners.worker((*b).into()) == usize::from(worker));
            let frames = at.flat_map(|b| (0..FLOWS).map(move |flow| frame(b, worker, flow)));
            let frames = frames.collect();
            let (left, stats) = (Arc::clone(&left), PortStats::default());
            Box::new(MemoryPort { worker, frames, sequence: 0, remaining, left, checks, stats })
        };
        let each: Vec<_> = (0..count)
            .map(|number| {
                let ports: Vec<Box<dyn Port>> = vec![port(number, packets), port(number, 0)];
                let pool = pool.share();
                Worker::new(number.into(), ports, pool, Packets::off(), &workers)
            })
            .collect();
        Self { workers, each, left }
    }

    /// Runs each worker in a thread of its own until `ends`, which is asked there after each turn.
    fn run(&mut self, ends: impl Fn() -> bool + Sync) {
        let ends = &ends;
        thread::scope(|scope| {
            for worker in &mut self.each {
                scope.spawn(move || {
                    while !ends() {
                        worker.turn(clock::now());
                    }
                });
            }
        });
    }
}

/// Returns the packets that left, were dropped between workers, and by the policies.
fn account(workers: &Workers<Rules, Departures>, left: &Left) -> [u64; 3] {
    let lanes = workers.all_lanes();
    let dropped = lanes.iter().map(|lane| lane.directions[0].counts().dropped).sum();
    [left.packets.load(Ordering::Relaxed), workers.dropped(), dropped]
}

/// Two workers at full speed, which get flows of three bundles that one or the other owns. A thread
/// borrows the queues all the time, as for ticks.
#[test]
fn flows_keep_their_order_and_every_packet_is_accounted_for() {
    const PACKETS: u64 = 100_000;
    for (rate, at_owner) in [(None, false), (Some(Rate::from_mbps(200)), false), (None, true)] {
        let load = Load { workers: 2, bundles: 3, at_owner };
        let mut pipeline = Pipeline::new(load, PACKETS, rate, true);
        let (workers, left) = (Arc::clone(&pipeline.workers), Arc::clone(&pipeline.left));
        let ticks = AtomicU64::new(0);
        thread::scope(|scope| {
            let ticker = scope.spawn(|| {
                while !workers.is_ending() {
                    for worker in 0..workers.count() {
                        let lane = &mut *workers.lane(worker);
                        let now = clock::now();
                        lane.outward().set_rate(now, 0, rate);
                        lane.notes.boundaries().for_each(drop);
                        ticks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            pipeline.run(|| account(&workers, &left).iter().sum::<u64>() == 2 * PACKETS);
            workers.end();
            ticker.join().unwrap();
        });
        assert!(ticks.into_inner() > 0);
        let [sent, handing_over, _] = account(&workers, &left);
        assert_eq!(left.disordered.load(Ordering::Relaxed), 0, "{load:?}, {rate:?}");
        let counted: u64 = pipeline
            .workers
            .all_lanes()
            .iter()
            .flat_map(|lane| (0..2).filter_map(|queue| lane.notes.of(queue)).map(|b| b.packets))
            .sum();
        assert_eq!(counted, sent, "the notes have every packet");
        assert!(!at_owner || handing_over == 0, "an owner hands nothing over");
        let flows = left.flows.lock().unwrap().len();
        assert_eq!(flows, usize::from(FLOWS) * if at_owner { 3 } else { 6 });
        // A pool leaves its free chunks to the last one.
        let mut last = pipeline.each.remove(0).pool.share();
        pipeline.each.clear();
        let free = std::iter::from_fn(|| last.frame(&[0])).count();
        assert_eq!(free, CHUNKS as usize, "every frame came back");
    }
}

mod measured {
    use super::*;

    /// Returns the processor time of this thread since its start.
    fn thread_time() -> Nanos {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is valid for writing.
        let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(answer, 0);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Prints the packets that one worker moves and that two move in a second, in turns, and the
    /// median of the ratios. Each worker runs for a time of its core, so that other work of the
    /// machine counts little.
    #[test]
    #[ignore = "it measures"]
    fn the_throughput_of_one_worker_and_of_two() {
        const ROUNDS: usize = 9;
        const TIME: Nanos = Nanos::from_millis(300);
        let rate = Some(Rate::from_mbps(1_000_000));
        let measure = |load: Load| {
            let mut pipeline = Pipeline::new(load, u64::MAX, rate, false);
            pipeline.run(|| thread_time() >= TIME);
            let lanes = pipeline.workers.all_lanes();
            let backlog: u64 = lanes
                .iter()
                .flat_map(|l| l.directions[0].queues())
                .map(|q| q.backlog().packets)
                .sum();
            assert!(backlog < 10_000, "the shapers are no limit");
            drop(lanes);
            let [left, handing_over, dropped] = account(&pipeline.workers, &pipeline.left);
            (left as f64 / TIME.as_secs_f64() / 1e6, handing_over, dropped)
        };
        let median = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 2]
        };
        for (what, bundles, at_owner) in [
            ("two bundles, packets arrive at their owner", 2, true),
            ("two bundles, half of the packets are handed over", 2, false),
            ("one bundle, half of the packets are handed over", 1, false),
        ] {
            let (mut one, mut two, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            let mut drops = (0, 0);
            for _ in 0..ROUNDS {
                let (alone, ..) = measure(Load { workers: 1, bundles, at_owner });
                let (both, handing_over, dropped) = measure(Load { workers: 2, bundles, at_owner });
                drops = (drops.0 + handing_over, drops.1 + dropped);
                one.push(alone);
                two.push(both);
                ratios.push(both / alone);
            }
            let least = ratios.iter().copied().fold(f64::MAX, f64::min);
            println!(
                "{what}: {:.2} and {:.2} million packets/s, ratio {:.2} (least {least:.2}); dropped {} \
                 between workers, {} by policies",
                median(&one),
                median(&two),
                median(&ratios),
                drops.0,
                drops.1
            );
        }
    }
}
