//! Checks that `enqueue` and `dequeue` allocate nothing once a qdisc has reached its highest
//! backlog, and that the egress engine allocates nothing after its construction.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forebay_queue::egress::{
    self, Answer, Ask, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
};
use forebay_queue::{
    Class, Codel, DropReason, Drr, DualPi2, Ecn, Fifo, FqCodel, Limit, Packet, Pi2, Pie, Qdisc,
    Sfq, Share, StrictPriority, TokenBucket, Weighted, codel, drr, dualpi2, fifo, fq_codel, pi2,
    pie, sfq, token_bucket,
};
use forebay_units::{Bytes, Nanos, Rate};

struct Counting;

thread_local! {
    /// Allocations of this thread: the test harness has threads of its own that allocate too.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged. Counting touches only
// thread-locals with constant initializers, which neither allocate nor have a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `alloc` obtained `ptr` from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Clone, Copy)]
struct Pkt(u32);

impl Packet for Pkt {
    fn len(&self) -> Bytes {
        Bytes(40 + u64::from(self.0 % 1474))
    }

    fn flow_hash(&self) -> u32 {
        (self.0 % 97).wrapping_mul(0x9e37_79b1)
    }

    fn class(&self) -> u8 {
        (self.0 % 97 % 3) as u8
    }

    fn ecn(&self) -> Ecn {
        if self.0.is_multiple_of(5) { Ecn::Ect1 } else { Ecn::NotEct }
    }

    fn set_ce(&mut self) {}
}

/// Enqueues three packets for two dequeued, far past every limit, and returns the number of
/// allocations in the second half.
fn allocations(q: &mut dyn Qdisc<Pkt>) -> u64 {
    let (mut dropped, mut before) = (0_u64, 0);
    for n in 0..200_000_u32 {
        if n == 100_000 {
            assert!(dropped > 1000, "the queue was full");
            before = ALLOCATIONS.get();
        }
        let now = Nanos(u64::from(n) * 100_000);
        let drops = &mut |_: Pkt, _: DropReason| dropped += 1;
        q.enqueue(now, Pkt(n.wrapping_mul(0x85eb_ca6b)), drops);
        if n % 3 != 0 {
            q.dequeue(now, drops);
        }
    }
    ALLOCATIONS.get() - before
}

#[test]
fn nothing_is_allocated_once_warm() {
    let fifo = || Fifo::new(fifo::Config { limit: Limit::packets(500) }).unwrap();
    let perturb = Some(Nanos::from_millis(7));
    let sfq = || Sfq::new(sfq::Config { limit: 500, perturb, ..sfq::Config::default() }).unwrap();
    let fq_codel = fq_codel::Config { limit: 500, ..fq_codel::Config::default() };
    let rate = Some(Rate::from_mbps(50));
    let shaper = token_bucket::Config { rate, ..token_bucket::Config::default() };
    let share = Share { weight: 3, rate: Some(Rate::from_mbps(1)) };
    let classes = [Class::default(), Class { share, ceil: rate }];
    let weighted = Weighted::new(classes.map(|class| (class, fifo())).into()).unwrap();
    let limit = dualpi2::BurstLimit { rate: Rate::from_mbps(50), burst: Nanos::from_millis(2) };
    let bursts = dualpi2::Config { bursts: Some(limit), ..dualpi2::Config::default() };
    let red = dualpi2::Base::CurvyRed(dualpi2::CurvyRed::default());
    let red = dualpi2::Config { base: red, ..dualpi2::Config::default() };
    let qdiscs: [(&str, Box<dyn Qdisc<Pkt>>); 13] = [
        ("fifo", Box::new(fifo())),
        ("codel", Box::new(Codel::new(codel::Config::default()).unwrap())),
        ("pie", Box::new(Pie::new(pie::Config::default()).unwrap())),
        ("pi2", Box::new(Pi2::new(pi2::Config::default()).unwrap())),
        ("dualpi2", Box::new(DualPi2::new(dualpi2::Config::default()).unwrap())),
        ("dualpi2 with a limit of bursts", Box::new(DualPi2::new(bursts).unwrap())),
        ("dualpi2 with curvy red", Box::new(DualPi2::new(red).unwrap())),
        ("sfq", Box::new(sfq())),
        ("fq_codel", Box::new(FqCodel::new(fq_codel).unwrap())),
        (
            "drr",
            Box::new(Drr::new(drr::Config::default(), vec![(1, fifo()), (3, fifo())]).unwrap()),
        ),
        ("priority", Box::new(StrictPriority::new(vec![fifo(), fifo()]).unwrap())),
        ("weighted", Box::new(weighted)),
        ("token bucket", Box::new(TokenBucket::new(shaper, sfq()))),
    ];
    for (name, mut q) in qdiscs {
        assert_eq!(allocations(&mut *q), 0, "{name}");
    }
}

/// A transport whose flows always have one more packet.
struct Endless(Option<FlowId>);

impl Transport for Endless {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        self.0 = Some(ask.flow);
        Answer { bytes: Bytes(1500), packets: 1, next: Next::Ready(Hint::default()) }
    }
}

#[test]
fn an_engine_allocates_only_at_construction_and_what_it_reports() {
    let config = egress::Config { flows: 100_000, turns: 1, ..egress::Config::default() };
    let before = BYTES.get();
    let mut engine = Engine::new(config, Policy::FAIR).unwrap();
    let memory = engine.memory();
    assert_eq!(BYTES.get() - before, memory.total());
    let before = ALLOCATIONS.get();
    let mut transport = Endless(None);
    let policies = [Policy::FAIR, Policy::Paced, Policy::EARLIEST_DEADLINE, Policy::SHORTEST_FIRST];
    for n in 0..200_000_u64 {
        let now = Nanos(n * 10_000);
        if let Some(flow) = engine.open(Settings::default()).unwrap() {
            engine.wake(now, flow, Hint::default());
        }
        engine.poll(now, &mut transport);
        if let Some(flow) = transport.0.take() {
            let departure = Departure { packets: 1, bytes: Bytes(1500), asked: now };
            engine.departed(now, flow, departure);
            if n % 3 == 0 {
                engine.close(flow);
            }
        }
        if n % 10_000 == 0 {
            engine.set_policy(policies[(n / 10_000 % 4) as usize]);
        }
    }
    assert!(engine.open_flows() > 60_000);
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(engine.memory(), memory);
}
