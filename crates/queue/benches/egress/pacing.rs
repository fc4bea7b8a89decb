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
    let config = Config { flows, turns: 32, sizing, ..Config::default() };
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
    let mut histogram = vec![0_u32; BINS];
    let (mut count, mut polls, mut busy) = (0_u64, 0_u64, Duration::ZERO);
    // Flows start over one mean gap, as those of clients do.
    let mut started = 0;
    let begin = clock();
    let measured_from = begin + Nanos(3 * mean);
    let end = measured_from + Nanos::from_secs(3);
    loop {
        let now = clock();
        if now > end {
            break;
        }
        let due = u64::from(flows) * now.saturating_sub(begin).0 / mean;
        while started < u64::from(flows).min(due) {
            engine.wake(now, ids[started as usize], Hint::default());
            started += 1;
        }
        engine.poll(now, &mut transport);
        let after = clock();
        let sent = transport.sent.len();
        for (flow, due) in transport.sent.drain(..) {
            if now > measured_from {
                let late = after.saturating_sub(due).0 / 100;
                histogram[(late as usize).min(BINS - 1)] += 1;
                count += 1;
            }
            let departure = Departure { packets: 1, bytes: Bytes(LEN), asked: now };
            engine.departed(after, flow, departure);
        }
        if sent == 0 {
            other_work();
        } else if now > measured_from {
            polls += 1;
            busy += Duration::from_nanos(clock().saturating_sub(now).0);
        }
    }
    let percentile = |p: f64| {
        let mut left = (count as f64 * p) as u64;
        let bin = histogram.iter().position(|&n| {
            let here = u64::from(n);
            let found = left < here;
            left = left.saturating_sub(here);
            found
        });
        bin.unwrap_or(BINS) as f64 / 10.0
    };
    println!(
        "  {flows:>9} {name:>6} {:>12.0} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>11.0} {:>10.1}",
        count as f64 / 3.0,
        percentile(0.5),
        percentile(0.9),
        percentile(0.99),
        percentile(0.999),
        busy.as_secs_f64() / 3.0 * 100.0,
        count as f64 / polls as f64,
    );
}

pub(crate) fn run() {
    println!("pacing error, in us, of flows with a rate each; the core has other work to do");
    println!(
        "  {:>9} {:>6} {:>12} {:>8} {:>8} {:>8} {:>8} {:>11} {:>10}",
        "flows", "policy", "packets/s", "p50", "p90", "p99", "p99.9", "in engine %", "per poll"
    );
    for (flows, rate) in [(1000, 1_000_000), (100_000, 3_000_000), (1_000_000, 4_000_000)] {
        measure(flows, rate, Policy::Paced, "paced");
        measure(flows, rate, Policy::FAIR, "fair");
    }
}
