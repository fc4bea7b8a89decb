//! The pacing error by a real clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::random;

const LEN: u64 = 1500;
/// The histogram's bins of 100 ns, up to 100 ms.
const BINS: usize = 1_000_000;
const SECONDS: u64 = 3;

/// A transport whose flows always have a full packet to send.
#[derive(Default)]
struct Endless {
    sent: Vec<(FlowId, Nanos)>,
}

impl Transport for Endless {
    #[inline]
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        self.sent.push((ask.flow, ask.due));
        Answer { bytes: Bytes(LEN), packets: 1, next: Next::Ready(Hint::default()) }
    }
}

/// Work that keeps the core busy while no packet is due: an application's, in slices of a few
/// microseconds.
fn other_work() {
    let mut sum = 0_u64;
    for n in 0..4000_u64 {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
    }
    black_box(sum);
}

fn measure(flows: u32, packets_per_second: u64, policy: Policy, name: &str) {
    // Of each poll, the error counts to its end, so polls are short.
    let sizing = forebay_queue::egress::Sizing { initial: Bytes(LEN), ..Default::default() };
    let config = Config { flows, turns: 32, sizing, wheel_bits: 18, ..Config::default() };
    let mut engine = Engine::new(config, policy).expect("valid");
    let mut seed = 0x1234_5678_9abc_def1;
    let mean = 1_000_000_000 * u64::from(flows) / packets_per_second;
    let origin = Instant::now();
    let clock = || Nanos(1_000_000_000 + origin.elapsed().as_nanos() as u64);
    let ids: Vec<_> = (0..flows)
        .map(|_| {
            let gap = mean / 2 + random(&mut seed, mean);
            let rate = Some(Rate::from_bps(LEN * 8 * 1_000_000_000 / gap));
            engine.open(Settings { rate, ..Settings::default() }).expect("valid").expect("room")
        })
        .collect();
    let mut transport = Endless::default();
    let (mut all, mut undisturbed) = (Histogram::new(), Histogram::new());
    let (mut stopped, mut busy) = (false, Duration::ZERO);
    // Flows start over one mean gap, as those of clients do.
    let mut started = 0;
    let begin = clock();
    let measured_from = begin + Nanos(3 * mean);
    let end = measured_from + Nanos(SECONDS * 1_000_000_000);
    let mut last = begin;
    loop {
        let now = clock();
        if now > end {
            break;
        }
        stopped |= now.saturating_sub(last) > STOP;
        last = now;
        let due = u64::from(flows) * now.saturating_sub(begin).0 / mean;
        while started < u64::from(flows).min(due) {
            engine.wake(now, ids[started as usize], Hint::default());
            started += 1;
        }
        let polled = engine.poll(now, &mut transport);
        let after = clock();
        stopped |= after.saturating_sub(now) > STOP;
        let measured = now > measured_from;
        for (flow, due) in transport.sent.drain(..) {
            if measured {
                let late = after.saturating_sub(due);
                all.add(late);
                if !stopped {
                    undisturbed.add(late);
                }
            }
            let departure = Departure { packets: 1, bytes: Bytes(LEN), asked: now };
            engine.departed(after, flow, departure);
        }
        if measured && polled.turns > 0 {
            busy += Duration::from_nanos(clock().saturating_sub(now).0);
        }
        if polled.next.is_none_or(|next| next > now) {
            // What was due during the stop has been sent.
            stopped = false;
            other_work();
        }
    }
    println!(
        "  {flows:>9} {name:>6} {:>10.2} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {:>10.1} {:>8.1} {:>8.1}",
        all.count as f64 / SECONDS as f64 / 1e6,
        busy.as_secs_f64() / SECONDS as f64 * 100.0,
        all.percentile(0.5),
        all.percentile(0.99),
        all.percentile(0.999),
        100.0 - undisturbed.count as f64 / all.count as f64 * 100.0,
        undisturbed.percentile(0.99),
        undisturbed.percentile(0.999),
    );
}

/// How late packets are, in bins of 100 ns.
struct Histogram {
    bins: Vec<u32>,
    count: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { bins: vec![0; BINS], count: 0 }
    }

    fn add(&mut self, late: Nanos) {
        self.bins[((late.0 / 100) as usize).min(BINS - 1)] += 1;
        self.count += 1;
    }

    /// Returns a percentile in microseconds.
    fn percentile(&self, p: f64) -> f64 {
        let mut left = (self.count as f64 * p) as u64;
        let holds = move |n: &u32| {
            let found = left < u64::from(*n);
            left = left.saturating_sub(u64::from(*n));
            found
        };
        self.bins.iter().position(holds).unwrap_or(BINS) as f64 / 10.0
    }
}

/// A span between two readings of the clock that only a stop of the core explains: another program,
/// an interrupt, or the host of a virtual machine. A poll is bounded to 32 turns and the other work
/// to a few microseconds, so they take a quarter of it at most.
const STOP: Nanos = Nanos(40_000);

pub(crate) fn run() {
    println!("pacing error in us: packets after their time, to the end of the poll that sent them");
    println!(
        "  the last columns leave out what was late since the core stood still for over 40 us"
    );
    println!(
        "  {:>9} {:>6} {:>10} {:>9} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8}",
        "flows",
        "policy",
        "Mpackets/s",
        "% of core",
        "p50",
        "p99",
        "p99.9",
        "% left out",
        "p99",
        "p99.9"
    );
    for (flows, rate) in [(1000, 1_000_000), (100_000, 3_000_000), (1_000_000, 3_000_000)] {
        measure(flows, rate, Policy::Paced, "paced");
        measure(flows, rate, Policy::FAIR, "fair");
    }
}
