//! Fairness across cores.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use forebay_queue::egress::cores::{self, Board, Seat};
use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Sizing, Transport,
};
use forebay_units::{Bytes, Nanos};

const LEN: u64 = 1500;

/// Counts the packets of flows that always have one.
struct Counting {
    packets: Vec<u64>,
    sent: Vec<FlowId>,
}

impl Transport for Counting {
    #[inline]
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        self.packets[ask.flow.index() as usize] += 1;
        self.sent.push(ask.flow);
        Answer { bytes: Bytes(LEN), packets: 1, next: Next::Ready(Hint::default()) }
    }
}

/// Serves `flows` flows for `time` and returns the packets of each.
fn core(flows: u32, seat: Option<Seat>, start: &Barrier, origin: Instant) -> Vec<u64> {
    let sizing = Sizing { initial: Bytes(LEN), ..Sizing::default() };
    let config = Config { flows, sizing, ..Config::default() };
    let mut engine = Engine::new(config, Policy::FAIR).expect("valid");
    if let Some(seat) = seat {
        engine = engine.with_seat(seat);
    }
    let clock = || Nanos(origin.elapsed().as_nanos() as u64);
    let mut transport = Counting { packets: vec![0; flows as usize], sent: Vec::new() };
    for _ in 0..flows {
        let flow = engine.open(Settings::default()).expect("valid").expect("room");
        engine.wake(clock(), flow, Hint::default());
    }
    // A core that begins later has no claim on what was sent before.
    engine.poll(clock(), &mut transport);
    start.wait();
    let end = clock() + Nanos(RUN.as_nanos() as u64);
    loop {
        let now = clock();
        if now > end {
            return transport.packets;
        }
        let polled = engine.poll(now, &mut transport);
        for flow in transport.sent.drain(..) {
            let departure = Departure { packets: 1, bytes: Bytes(LEN), asked: now };
            engine.departed(now, flow, departure);
        }
        // A core that is ahead lets others run.
        if let Some(next) = polled.next
            && next > now
        {
            thread::sleep(Duration::from_nanos(next.0 - now.0));
        }
    }
}

const RUN: Duration = Duration::from_secs(3);
const FLOWS: [u32; 2] = [20_000, 10_000];

fn measure(name: &str, seats: [Option<Seat>; 2]) {
    let (start, origin) = (Barrier::new(2), Instant::now());
    let mut packets: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = FLOWS
            .into_iter()
            .zip(seats)
            .map(|(flows, seat)| {
                let start = &start;
                scope.spawn(move || core(flows, seat, start, origin))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    packets.sort_unstable();
    let total: u64 = packets.iter().sum();
    let at = |p: usize| packets[(packets.len() - 1) * p / 100] as f64;
    println!(
        "  {name:>12} {:>12.0} {:>9.0} {:>9.0} {:>9.0} {:>9.3} {:>9.3}",
        total as f64 / RUN.as_secs_f64(),
        at(1),
        at(50),
        at(99),
        at(99) / at(1),
        at(100) / at(0),
    );
}

pub(crate) fn run() {
    println!("packets of each of 20 000 flows on one core and 10 000 on another in 3 s");
    println!(
        "  {:>12} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "packets/s", "p1", "p50", "p99", "p99/p1", "max/min"
    );
    measure("independent", [None, None]);
    let mut seats = Board::seats(cores::Config::default()).expect("valid").into_iter();
    measure("in step", [seats.next(), seats.next()]);
}
